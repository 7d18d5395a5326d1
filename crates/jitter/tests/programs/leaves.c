/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Processes whose threads end while they do: one after another. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 16

static pthread_barrier_t all_begun;

static void *ends(void *unused)
{
    pthread_barrier_wait(&all_begun);
    return unused;
}

static void leaves(void)
{
    pthread_barrier_init(&all_begun, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, ends, NULL) != 0)
            _exit(1);
    }
    pthread_barrier_wait(&all_begun);
    _exit(5);
}

int main(void)
{
    int well = 0;
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0)
            leaves();
        int status;
        well += waitpid(child, &status, 0) == child && WIFEXITED(status)
            && WEXITSTATUS(status) == 5;
    }
    printf("%d ended well\n", well);
    return 0;
}
