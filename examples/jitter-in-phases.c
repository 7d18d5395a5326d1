/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Phases of computing with a barrier after each, as in De, Kothari and Mann's
 * benchmark, in threads that suffer jitter by asking for it. How much longer
 * than the quantum the phases are:
 *
 *     sandbag jitter api api
 *     cc -O2 -pthread -Iapi -o phases examples/jitter-in-phases.c api/jitter.c
 *     ./phases
 *     sandbag jitter replay node.sbj --inside --method polled --sync phase -- ./phases
 *
 * `phases THREADS PHASES QUANTUM_US`. Not started by sandbag, the calls to it do
 * nothing.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sandbag_jitter.h"

static int threads = 2, phases = 200;
static double quantum_s = 1e-3;
static long steps;
static pthread_barrier_t barrier;
static double *longest;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A linear congruential generator that asks after every 256 steps, some 300 ns:
   so late do events begin. Asking takes a reading of the clock. */
static void work(long amount)
{
    static _Thread_local volatile uint64_t x = 1;
    for (long i = 0; i < amount; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        if (i % 256 == 0)
            sandbag_jitter_poll();
    }
}

static void *rank(void *number)
{
    int me = (int)(intptr_t)number;
    sandbag_jitter_init();
    for (int phase = 0; phase < phases; phase++) {
        pthread_barrier_wait(&barrier);
        sandbag_jitter_phase((uint64_t)phase);
        double begin = now();
        work(steps);
        double took = now() - begin;
        if (took > longest[me])
            longest[me] = took;
        /* Threads that wait do not ask: what comes due meanwhile is suffered
           when they work again. */
        pthread_barrier_wait(&barrier);
    }
    struct sandbag_jitter_report report;
    if (sandbag_jitter_report(&report, sizeof report))
        printf("thread %d: %llu events, %.3f ms in all, half of them less than %.1f us late\n", me,
               (unsigned long long)report.injected, (double)report.taken_ns * 1e-6,
               (double)report.start_ns * 1e-3);
    return NULL;
}

int main(int n, char **words)
{
    if (n > 1)
        threads = atoi(words[1]);
    if (n > 2)
        phases = atoi(words[2]);
    if (n > 3)
        quantum_s = atof(words[3]) * 1e-6;
    if (threads < 1 || phases < 1 || quantum_s <= 0)
        return 2;
    /* So many steps are a quantum: the least of some tries. */
    double least = 1;
    for (int i = 0; i < 20; i++) {
        double begin = now();
        work(10000);
        double took = now() - begin;
        if (took < least)
            least = took;
    }
    steps = (long)(quantum_s / least * 10000);
    longest = calloc((size_t)threads, sizeof *longest);
    pthread_t *all = calloc((size_t)threads, sizeof *all);
    if (longest == NULL || all == NULL || pthread_barrier_init(&barrier, NULL, (unsigned)threads))
        return 1;
    double begin = now();
    for (intptr_t i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, rank, (void *)i))
            return 1;
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    double took = now() - begin, worst = 0;
    for (int i = 0; i < threads; i++)
        if (longest[i] > worst)
            worst = longest[i];
    printf("%d phases of %.3f ms took %.3f ms on average, the longest %.3f ms\n", phases,
           quantum_s * 1e3, took / phases * 1e3, worst * 1e3);
    return 0;
}
