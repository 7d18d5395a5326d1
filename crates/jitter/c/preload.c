/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What makes jitter.c a library for LD_PRELOAD: it begins by itself, and it
 * stands in front of the calls by which a program would lose the signal, get
 * to see it, or be disturbed by it. Each passes on what it was asked.
 *
 * - Threads: with --per-thread each begins and ends here.
 * - The signal: a program that resets all signals keeps ours, one that handles
 *   it itself has it from then on and suffers nothing more; no set of signals
 *   to block or to wait for holds it.
 * - Waits that end with EINTR even after a handler with SA_RESTART (signal(7))
 *   are taken up again if nobody but us interrupted them. To know that, the
 *   program's own handlers are called through one of ours that counts. Looking
 *   at the interrupted instruction instead does not do: another handler may
 *   just have returned to it.
 * - seccomp: whoever forbids system calls suffers nothing more.
 */
#define _GNU_SOURCE
#include "jitter.h"

#include <errno.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
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
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *)
    __attribute__((weak));
extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void)) __attribute__((weak));
extern int pthread_key_create(pthread_key_t *, void (*)(void *)) __attribute__((weak));
extern int pthread_setspecific(pthread_key_t, const void *) __attribute__((weak));

/* Declared only where _FORTIFY_SOURCE is. */
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);

/* The one that would have been called without us. Asked for by the constructor,
   for dlsym(3) is nothing for signal handlers. */
static void *next_of(void **kept, const char *name)
{
    void *found = __atomic_load_n(kept, __ATOMIC_RELAXED);
    if (found == NULL && dlsym != NULL) {
        found = dlsym((void *)-1L /* RTLD_NEXT */, name);
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

NEXT(pthread_create)
NEXT(sigaction)
NEXT(sigprocmask)
NEXT(pthread_sigmask)
NEXT(sigwait)
NEXT(sigwaitinfo)
NEXT(sigtimedwait)
NEXT(signalfd)
NEXT(nanosleep)
NEXT(clock_nanosleep)
NEXT(poll)
NEXT(ppoll)
NEXT(__poll_chk)
NEXT(__ppoll_chk)
NEXT(select)
NEXT(pselect)
NEXT(epoll_wait)
NEXT(epoll_pwait)
NEXT(pause)
NEXT(sigsuspend)
NEXT(semop)
NEXT(msgrcv)
NEXT(msgsnd)
NEXT(prctl)
NEXT(syscall)

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
    /* All that may be wanted where nothing can be looked for any more. */
    next_pthread_create(), next_sigaction(), next_sigprocmask(), next_pthread_sigmask();
    next_sigwait(), next_sigwaitinfo(), next_sigtimedwait(), next_signalfd();
    next_nanosleep(), next_clock_nanosleep(), next_poll(), next_ppoll();
    next___poll_chk(), next___ppoll_chk();
    next_select(), next_pselect(), next_epoll_wait(), next_epoll_pwait();
    next_pause(), next_sigsuspend(), next_semop(), next_msgrcv(), next_msgsnd();
    next_prctl(), next_syscall();
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

__attribute__((destructor)) static void end(void)
{
    int saved = errno;
    sbj_exiting();
    errno = saved;
}
