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

/* ---- System calls by number, and seccomp ------------------------------ */

__attribute__((used)) static void *syscall_follows(void)
{
    return (void *)next_syscall();
}

static void filter_begins(void)
{
    int saved = errno;
    if (sbj_own_process())
        sbj_retire(ENDED_SECCOMP);
    errno = saved;
}

/* Programs also ask by these calls what there is; a filter that is NULL is
   such a question. */
__attribute__((used)) static void seccomp_asked(long number, unsigned long operation,
                                                unsigned long flags, const void *filter)
{
    (void)number, (void)flags;
    if (operation == SECCOMP_SET_MODE_STRICT
        || (operation == SECCOMP_SET_MODE_FILTER && filter != NULL))
        filter_begins();
}

#if defined(__x86_64__)
/* Jumps on instead of calling, for what is called may return twice on this
   stack (vfork), and has seven arguments. */
__asm__(
    ".text\n"
    ".globl syscall\n"
    ".type syscall, @function\n"
    "syscall:\n"
    "    .cfi_startproc\n"
    "    endbr64\n"
    "    cmpq $317, %rdi\n" /* SYS_seccomp */
    "    je 1f\n"
    "    movq kept_syscall(%rip), %rax\n"
    "    testq %rax, %rax\n"
    "    jz 1f\n"
    "    jmp *%rax\n"
    "1:  pushq %rdi\n    .cfi_adjust_cfa_offset 8\n"
    "    pushq %rsi\n    .cfi_adjust_cfa_offset 8\n"
    "    pushq %rdx\n    .cfi_adjust_cfa_offset 8\n"
    "    pushq %rcx\n    .cfi_adjust_cfa_offset 8\n"
    "    pushq %r8\n    .cfi_adjust_cfa_offset 8\n"
    "    pushq %r9\n    .cfi_adjust_cfa_offset 8\n"
    "    subq $8, %rsp\n    .cfi_adjust_cfa_offset 8\n"
    "    cmpq $317, %rdi\n"
    "    jne 2f\n"
    "    call seccomp_asked\n"
    "2:  call syscall_follows\n"
    "    addq $8, %rsp\n    .cfi_adjust_cfa_offset -8\n"
    "    popq %r9\n    .cfi_adjust_cfa_offset -8\n"
    "    popq %r8\n    .cfi_adjust_cfa_offset -8\n"
    "    popq %rcx\n    .cfi_adjust_cfa_offset -8\n"
    "    popq %rdx\n    .cfi_adjust_cfa_offset -8\n"
    "    popq %rsi\n    .cfi_adjust_cfa_offset -8\n"
    "    popq %rdi\n    .cfi_adjust_cfa_offset -8\n"
    "    jmp *%rax\n"
    "    .cfi_endproc\n"
    ".size syscall, . - syscall\n");

/* The library's own. Six arguments at most, read whether given or not. */
long sbj_real_syscall(long number, ...)
{
    va_list more;
    va_start(more, number);
    long a = va_arg(more, long), b = va_arg(more, long), c = va_arg(more, long);
    long d = va_arg(more, long), e = va_arg(more, long);
    va_end(more);
    MISSING(next_syscall(), -1)
    return next_syscall()(number, a, b, c, d, e);
}
#else
long sbj_real_syscall(long number, ...)
{
    va_list more;
    va_start(more, number);
    long a = va_arg(more, long), b = va_arg(more, long), c = va_arg(more, long);
    long d = va_arg(more, long), e = va_arg(more, long);
    va_end(more);
    return syscall(number, a, b, c, d, e);
}
#endif

FRONT int prctl(int option, ...)
{
    va_list more;
    va_start(more, option);
    unsigned long a = va_arg(more, unsigned long), b = va_arg(more, unsigned long);
    unsigned long c = va_arg(more, unsigned long), d = va_arg(more, unsigned long);
    va_end(more);
    if (option == PR_SET_SECCOMP
        && (a == SECCOMP_MODE_STRICT || (a == SECCOMP_MODE_FILTER && b != 0)))
        filter_begins();
    MISSING(next_prctl(), -1)
    return next_prctl()(option, a, b, c, d);
}

/* ---- Threads ---------------------------------------------------------- */

static pthread_key_t at_end;
static int has_key;

static void thread_ends(void *unused)
{
    (void)unused;
    struct sbj_state *state = sbj_mine;
    if (state == NULL)
        return;
    if (!sbj_own_process()) {
        sbj_mine = NULL;
        sbj_release(state);
        return;
    }
    int saved = errno;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, sbj_signal);
    /* A signal on its way must not find the state of the next thread. */
    sbj_real_sigprocmask(SIG_BLOCK, &set, NULL);
    sbj_mine = NULL;
    sbj_end(state, ENDED_EXIT);
    sbj_release(state);
    errno = saved;
}

static void *thread_begins(void *argument)
{
    struct sbj_state *state = argument;
    void *(*routine)(void *) = state->routine;
    void *passed = state->argument;
    if (has_key && pthread_setspecific(at_end, state) == 0 && sbj_begin(state, 0))
        ;
    else
        sbj_release(state);
    return routine(passed);
}

FRONT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                         void *(*routine)(void *), void *argument)
{
    __typeof__(pthread_create) *next = next_pthread_create();
    if (next == NULL)
        return EAGAIN;
    struct sbj_state *state = sbj_per_thread() && has_key ? sbj_reserve() : NULL;
    if (state == NULL)
        return next(thread, attributes, routine, argument);
    state->routine = routine;
    state->argument = argument;
    int failed = next(thread, attributes, thread_begins, state);
    if (failed)
        sbj_release(state);
    return failed;
}

/* ---- The signal ------------------------------------------------------- */

static struct sigaction theirs; /* what the program believes to be set for ours */

/* The program's handlers, by signal; the highest bit of those that take three
   arguments, which no address of a program has. One word, for a signal may come
   at any time. */
#define NUMBERS 65
#define THREE ((uintptr_t)1 << 63)
static uintptr_t handlers[NUMBERS];

static void counted(int number, siginfo_t *info, void *context)
{
    struct sbj_state *state = sbj_mine;
    if (state != NULL)
        state->foreign++;
    uintptr_t handler = __atomic_load_n(&handlers[number], __ATOMIC_RELAXED);
    if (handler & THREE)
        ((void (*)(int, siginfo_t *, void *))(handler & ~THREE))(number, info, context);
    else
        ((void (*)(int))handler)(number);
}

static int is_function(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0
        || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN
            && action->sa_handler != SIG_ERR);
}

static int is_counted(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == counted;
}

/* What the program is told of an action that holds our function. */
static void as_theirs(struct sigaction *action, uintptr_t handler)
{
    if (!is_counted(action))
        return;
    if (handler & THREE) {
        action->sa_sigaction = (void (*)(int, siginfo_t *, void *))(handler & ~THREE);
    } else {
        action->sa_handler = (void (*)(int))handler;
        action->sa_flags &= ~SA_SIGINFO;
    }
}

/* The same action through our function. */
static void as_counted(int number, struct sigaction *action)
{
    uintptr_t handler = (action->sa_flags & SA_SIGINFO) != 0
        ? (uintptr_t)action->sa_sigaction | THREE : (uintptr_t)action->sa_handler;
    __atomic_store_n(&handlers[number], handler, __ATOMIC_RELAXED);
    action->sa_sigaction = counted;
    action->sa_flags |= SA_SIGINFO;
}

/* The program's wish for our own signal. */
static int ours(const struct sigaction *new, struct sigaction *old)
{
    struct sigaction before = theirs;
    int number = sbj_signal;
    if (new != NULL && is_function(new)) {
        int saved = errno;
        sbj_retire(ENDED_CONFLICT);
        sbj_signal = 0;
        errno = saved;
        if (next_sigaction()(number, new, NULL) != 0)
            return -1;
    } else if (new != NULL) {
        theirs = *new;
    }
    if (old != NULL)
        *old = before;
    return 0;
}

FRONT int sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    MISSING(next_sigaction(), -1)
    if (number <= 0 || number >= NUMBERS)
        return next_sigaction()(number, new, old);
    if (number == sbj_signal && sbj_own_process())
        return ours(new, old);
    struct sigaction copy;
    uintptr_t before = __atomic_load_n(&handlers[number], __ATOMIC_RELAXED);
    if (new != NULL && is_function(new) && !is_counted(new) && sbj_own_process()) {
        copy = *new;
        as_counted(number, &copy);
        new = &copy;
    }
    int result = next_sigaction()(number, new, old);
    if (result != 0)
        __atomic_store_n(&handlers[number], before, __ATOMIC_RELAXED);
    else if (old != NULL)
        as_theirs(old, before);
    return result;
}

FRONT sighandler_t signal(int number, sighandler_t handler)
{
    static void *kept;
    sighandler_t (*next)(int, sighandler_t) = next_of(&kept, "signal");
    MISSING(next, SIG_ERR)
    if (number <= 0 || number >= NUMBERS)
        return next(number, handler);
    int own = sbj_own_process();
    struct sigaction old, set;
    if (own && number == sbj_signal) {
        memset(&set, 0, sizeof set);
        set.sa_handler = handler;
        set.sa_flags = SA_RESTART;
        return ours(&set, &old) == 0 ? old.sa_handler : SIG_ERR;
    }
    /* Whatever flags this C library gives it. */
    uintptr_t before = __atomic_load_n(&handlers[number], __ATOMIC_RELAXED);
    sighandler_t replaced = next(number, handler);
    if (replaced == SIG_ERR)
        return SIG_ERR;
    if (own && next_sigaction()(number, NULL, &set) == 0 && is_function(&set)
        && !is_counted(&set)) {
        as_counted(number, &set);
        next_sigaction()(number, &set, NULL);
    }
    return (void *)replaced == (void *)counted ? (sighandler_t)(before & ~THREE) : replaced;
}

/* A copy of the set without our signal; the set itself where it has none. */
static const sigset_t *without(const sigset_t *set, sigset_t *copy)
{
    if (set == NULL || sbj_signal == 0)
        return set;
    *copy = *set;
    sigdelset(copy, sbj_signal);
    return copy;
}

FRONT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t copy;
    MISSING(next_sigprocmask(), -1)
    return next_sigprocmask()(how, how == SIG_UNBLOCK ? set : without(set, &copy), old);
}

FRONT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t copy;
    if (next_pthread_sigmask() == NULL)
        return sigprocmask(how, set, old) == 0 ? 0 : errno;
    return next_pthread_sigmask()(how, how == SIG_UNBLOCK ? set : without(set, &copy), old);
}

FRONT int signalfd(int file, const sigset_t *set, int flags)
{
    sigset_t copy;
    MISSING(next_signalfd(), -1)
    return next_signalfd()(file, without(set, &copy), flags);
}

/* ---- Waits ------------------------------------------------------------ */

struct wait {
    struct sbj_state *state;
    unsigned long interrupted, foreign;
};

static struct wait wait_begins(void)
{
    struct sbj_state *state = sbj_mine;
    struct wait wait = {state, 0, 0};
    if (state != NULL) {
        wait.interrupted = state->interrupted;
        wait.foreign = state->foreign;
    }
    return wait;
}

/* Whether it is to be taken up again: nobody but us interrupted it. */
static int wait_again(struct wait *wait, int interrupted)
{
    struct sbj_state *state = wait->state;
    if (!interrupted || state == NULL || state->interrupted == wait->interrupted
        || state->foreign != wait->foreign)
        return 0;
    wait->interrupted = state->interrupted;
    sbj_waited_again(state);
    return 1;
}

#define WAIT(result, call) \
    do { \
        struct wait wait = wait_begins(); \
        do \
            (result) = (call); \
        while (wait_again(&wait, (result) == -1 && errno == EINTR)); \
    } while (0)

/* When a wait of so long ends; the greatest time for one without end. */
static uint64_t deadline(const struct timespec *time)
{
    if (time == NULL || time->tv_sec < 0 || time->tv_sec > INT_MAX)
        return UINT64_MAX;
    return sbj_now() + (uint64_t)time->tv_sec * NS + (uint64_t)time->tv_nsec;
}

static struct timespec left_until(uint64_t end)
{
    uint64_t now = sbj_now();
    uint64_t left = end > now ? end - now : 0;
    return (struct timespec){(time_t)(left / NS), (long)(left % NS)};
}

/* Milliseconds of a poll(2), rounded up as the kernel does. */
static uint64_t deadline_ms(int ms)
{
    return ms < 0 ? UINT64_MAX : sbj_now() + (uint64_t)ms * 1000000;
}

static int left_ms(uint64_t end, int ms)
{
    if (end == UINT64_MAX)
        return ms;
    struct timespec left = left_until(end);
    return (int)(left.tv_sec * 1000 + (left.tv_nsec + 999999) / 1000000);
}

FRONT int nanosleep(const struct timespec *time, struct timespec *left)
{
    MISSING(next_nanosleep(), -1)
    if (sbj_mine == NULL || time == NULL)
        return next_nanosleep()(time, left);
    struct timespec wanted = *time, rest = *time;
    struct wait wait = wait_begins();
    int result;
    while (result = next_nanosleep()(&wanted, &rest),
           wait_again(&wait, result == -1 && errno == EINTR))
        wanted = rest;
    if (result == -1 && errno == EINTR && left != NULL)
        *left = rest;
    return result;
}

FRONT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                          struct timespec *left)
{
    if (next_clock_nanosleep() == NULL)
        return ENOSYS;
    if (sbj_mine == NULL || time == NULL)
        return next_clock_nanosleep()(clock, flags, time, left);
    struct timespec wanted = *time, rest = *time;
    struct wait wait = wait_begins();
    int result;
    while (result = next_clock_nanosleep()(clock, flags, &wanted, &rest),
           wait_again(&wait, result == EINTR))
        if ((flags & TIMER_ABSTIME) == 0)
            wanted = rest;
    if (result == EINTR && left != NULL && (flags & TIMER_ABSTIME) == 0)
        *left = rest;
    return result;
}

FRONT unsigned sleep(unsigned seconds)
{
    struct timespec time = {(time_t)seconds, 0};
    int saved = errno;
    if (nanosleep(&time, &time) == 0) {
        errno = saved;
        return 0;
    }
    return (unsigned)time.tv_sec;
}

FRONT int usleep(useconds_t us)
{
    struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    return nanosleep(&time, NULL);
}

FRONT int poll(struct pollfd *files, nfds_t n, int ms)
{
    int result;
    MISSING(next_poll(), -1)
    if (sbj_mine == NULL || ms == 0)
        return next_poll()(files, n, ms);
    uint64_t end = deadline_ms(ms);
    struct wait wait = wait_begins();
    while (result = next_poll()(files, n, ms), wait_again(&wait, result == -1 && errno == EINTR))
        ms = left_ms(end, ms);
    return result;
}

/* What `poll` is in programs that are built with _FORTIFY_SOURCE, where the size
   of the array is known: the C library's own ends them if it is too small. */
FRONT int __poll_chk(struct pollfd *files, nfds_t n, int ms, size_t size)
{
    if (size / sizeof *files >= n)
        return poll(files, n, ms);
    MISSING(next___poll_chk(), -1)
    return next___poll_chk()(files, n, ms, size);
}

FRONT int __ppoll_chk(struct pollfd *files, nfds_t n, const struct timespec *time,
                      const sigset_t *mask, size_t size)
{
    if (size / sizeof *files >= n)
        return ppoll(files, n, time, mask);
    MISSING(next___ppoll_chk(), -1)
    return next___ppoll_chk()(files, n, time, mask, size);
}

FRONT int ppoll(struct pollfd *files, nfds_t n, const struct timespec *time, const sigset_t *mask)
{
    int result;
    MISSING(next_ppoll(), -1)
    uint64_t end = deadline(time);
    if (sbj_mine == NULL || end == UINT64_MAX) {
        WAIT(result, next_ppoll()(files, n, time, mask));
        return result;
    }
    struct timespec left = *time;
    struct wait wait = wait_begins();
    while (result = next_ppoll()(files, n, &left, mask),
           wait_again(&wait, result == -1 && errno == EINTR))
        left = left_until(end);
    return result;
}

FRONT int select(int n, fd_set *in, fd_set *out, fd_set *odd, struct timeval *time)
{
    int result;
    MISSING(next_select(), -1)
    if (sbj_mine == NULL || time == NULL) {
        WAIT(result, next_select()(n, in, out, odd, time));
        return result;
    }
    /* The kernel leaves in `time` what is left, but not every C library hands
       it on; the sets stay as they were. */
    struct timespec whole = {time->tv_sec, time->tv_usec * 1000};
    uint64_t end = deadline(&whole);
    struct wait wait = wait_begins();
    while (result = next_select()(n, in, out, odd, time),
           wait_again(&wait, result == -1 && errno == EINTR)) {
        struct timespec left = left_until(end);
        time->tv_sec = left.tv_sec;
        time->tv_usec = left.tv_nsec / 1000;
    }
    return result;
}

FRONT int pselect(int n, fd_set *in, fd_set *out, fd_set *odd, const struct timespec *time,
                  const sigset_t *mask)
{
    int result;
    MISSING(next_pselect(), -1)
    uint64_t end = deadline(time);
    if (sbj_mine == NULL || end == UINT64_MAX) {
        WAIT(result, next_pselect()(n, in, out, odd, time, mask));
        return result;
    }
    struct timespec left = *time;
    struct wait wait = wait_begins();
    while (result = next_pselect()(n, in, out, odd, &left, mask),
           wait_again(&wait, result == -1 && errno == EINTR))
        left = left_until(end);
    return result;
}

FRONT int epoll_wait(int file, struct epoll_event *events, int n, int ms)
{
    int result;
    MISSING(next_epoll_wait(), -1)
    if (sbj_mine == NULL || ms == 0)
        return next_epoll_wait()(file, events, n, ms);
    uint64_t end = deadline_ms(ms);
    struct wait wait = wait_begins();
    while (result = next_epoll_wait()(file, events, n, ms),
           wait_again(&wait, result == -1 && errno == EINTR))
        ms = left_ms(end, ms);
    return result;
}

FRONT int epoll_pwait(int file, struct epoll_event *events, int n, int ms, const sigset_t *mask)
{
    int result;
    MISSING(next_epoll_pwait(), -1)
    if (sbj_mine == NULL || ms == 0)
        return next_epoll_pwait()(file, events, n, ms, mask);
    uint64_t end = deadline_ms(ms);
    struct wait wait = wait_begins();
    while (result = next_epoll_pwait()(file, events, n, ms, mask),
           wait_again(&wait, result == -1 && errno == EINTR))
        ms = left_ms(end, ms);
    return result;
}

FRONT int pause(void)
{
    int result;
    MISSING(next_pause(), -1)
    WAIT(result, next_pause()());
    return result;
}

FRONT int sigsuspend(const sigset_t *mask)
{
    int result;
    MISSING(next_sigsuspend(), -1)
    WAIT(result, next_sigsuspend()(mask));
    return result;
}

FRONT int sigwait(const sigset_t *set, int *number)
{
    sigset_t copy;
    if (next_sigwait() == NULL)
        return ENOSYS;
    return next_sigwait()(without(set, &copy), number);
}

FRONT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    sigset_t copy;
    int result;
    MISSING(next_sigwaitinfo(), -1)
    set = without(set, &copy);
    WAIT(result, next_sigwaitinfo()(set, info));
    return result;
}

FRONT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *time)
{
    sigset_t copy;
    int result;
    MISSING(next_sigtimedwait(), -1)
    set = without(set, &copy);
    uint64_t end = deadline(time);
    if (sbj_mine == NULL || end == UINT64_MAX) {
        WAIT(result, next_sigtimedwait()(set, info, time));
        return result;
    }
    struct timespec left = *time;
    struct wait wait = wait_begins();
    while (result = next_sigtimedwait()(set, info, &left),
           wait_again(&wait, result == -1 && errno == EINTR))
        left = left_until(end);
    return result;
}

FRONT int semop(int set, struct sembuf *operations, size_t n)
{
    int result;
    MISSING(next_semop(), -1)
    WAIT(result, next_semop()(set, operations, n));
    return result;
}

FRONT ssize_t msgrcv(int queue, void *message, size_t size, long type, int flags)
{
    ssize_t result;
    MISSING(next_msgrcv(), -1)
    WAIT(result, next_msgrcv()(queue, message, size, type, flags));
    return result;
}

FRONT int msgsnd(int queue, const void *message, size_t size, int flags)
{
    int result;
    MISSING(next_msgsnd(), -1)
    WAIT(result, next_msgsnd()(queue, message, size, flags));
    return result;
}

/* ---- Begin and end ---------------------------------------------------- */

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
