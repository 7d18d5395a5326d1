/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Makes jitter.c a library for LD_PRELOAD: it begins by itself, and wraps the calls by
 * which a program would lose the signal, see it, or be disturbed by it. Each wrapper
 * calls the wrapped function.
 *
 * - Threads: with --per-thread each begins and ends here.
 * - The signal: a program that resets all signals keeps ours; one that handles it
 *   itself gets it, and suffers nothing more; no set of signals to block or to wait
 *   for contains it.
 * - Waits that end with EINTR even after a handler with SA_RESTART (signal(7)) are
 *   restarted if only this library interrupted them. To know that, the program's own
 *   handlers are called through one that counts. (The interrupted instruction does
 *   not tell: another handler may just have returned to it.)
 * - seccomp: a program that restricts its system calls suffers nothing more.
 */
#define _GNU_SOURCE
#include "jitter.h"

#include <errno.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FRONT __attribute__((visibility("default")))
#define NS 1000000000ull

/* Where no C library has it, the library is of no use, and harmless. */
extern void *dlsym(void *, const char *) __attribute__((weak));
extern void *dlopen(const char *, int) __attribute__((weak));
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *)
    __attribute__((weak));
extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void)) __attribute__((weak));
extern int pthread_key_create(pthread_key_t *, void (*)(void *)) __attribute__((weak));
extern int pthread_setspecific(pthread_key_t, const void *) __attribute__((weak));

/* Not declared by every C library. */
int sem_clockwait(sem_t *, clockid_t, const struct timespec *);
/* Declared only where _FORTIFY_SOURCE is. */
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);

/* The function that would have been called without this library. */
static void *next_of(void **kept, const char *name)
{
    void *found = __atomic_load_n(kept, __ATOMIC_RELAXED);
    if (found == NULL && dlsym != NULL) {
        found = dlsym((void *)-1L /* RTLD_NEXT */, name);
        /* Before glibc 2.34 a library of its own, which the program may have loaded later. */
        void *threads = found == NULL && dlopen != NULL
            ? dlopen("libpthread.so.0", 1 | 4 /* RTLD_LAZY, RTLD_NOLOAD */) : NULL;
        if (threads != NULL)
            found = dlsym(threads, name);
        __atomic_store_n(kept, found, __ATOMIC_RELAXED);
    }
    return found;
}

#define NEXT(name) \
    static void *kept_##name; \
    static __typeof__(name) *next_##name(void) \
    { \
        return (__typeof__(name) *)next_of(&kept_##name, #name); \
    }

#define CALLS(X) \
    X(pthread_create) X(sigaction) X(sigprocmask) X(pthread_sigmask) X(sigwait) X(sigwaitinfo) \
    X(sigtimedwait) X(signalfd) X(nanosleep) X(clock_nanosleep) X(poll) X(ppoll) X(__poll_chk) \
    X(__ppoll_chk) X(select) X(pselect) X(epoll_wait) X(epoll_pwait) X(pause) X(sigsuspend) \
    X(sem_timedwait) X(sem_clockwait) \
    X(semop) X(msgrcv) X(msgsnd) X(prctl) X(syscall) X(_exit) X(_Exit)

CALLS(NEXT)

void *sbj_find(const char *name)
{
    return dlsym != NULL ? dlsym(NULL /* RTLD_DEFAULT */, name) : NULL;
}

/* A library without the call: says what a kernel without it says. */
#define MISSING(next, value) \
    if ((next) == NULL) { \
        errno = ENOSYS; \
        return (value); \
    }

int sbj_real_sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    MISSING(next_sigaction(), -1)
    return next_sigaction()(number, new, old);
}

int sbj_real_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    MISSING(next_sigprocmask(), -1)
    return next_sigprocmask()(how, set, old);
}

#include "preload_seccomp.inc"
#include "preload_threads.inc"
#include "preload_signals.inc"
#include "preload_waits.inc"

__attribute__((constructor)) static void begin(void)
{
    int saved = errno;
    /* Now, for dlsym(3) cannot be called later from a signal handler. */
#define LOOK_UP(name) next_##name();
    CALLS(LOOK_UP)
#define LOOK_UP_SIGNAL(name, flags) next_of(&kept_##name, #name);
    SIGNAL_CALLS(LOOK_UP_SIGNAL)
    if (sbj_is_first() && sbj_load()) {
        if (__register_atfork != NULL)
            __register_atfork(NULL, NULL, sbj_forked, NULL);
        else if (pthread_atfork != NULL)
            pthread_atfork(NULL, NULL, sbj_forked);
        if (sbj_per_thread() && pthread_key_create != NULL && pthread_setspecific != NULL)
            has_key = pthread_key_create(&at_end, thread_ends) == 0;
        struct sbj_state *state = sbj_polled() ? NULL : sbj_reserve();
        if (state != NULL && !sbj_begin(state, 1))
            sbj_release(state);
    }
    errno = saved;
}

/* Without the destructor: shells end their children so. */
#define FRONT_EXIT(name) \
    FRONT void name(int code) \
    { \
        sbj_exiting(); \
        if (next_##name() != NULL) \
            next_##name()(code); \
        for (;;) \
            sbj_real_syscall(SYS_exit_group, code); \
    }

FRONT_EXIT(_exit)
FRONT_EXIT(_Exit)

__attribute__((destructor)) static void end(void)
{
    int saved = errno;
    sbj_exiting();
    errno = saved;
}
