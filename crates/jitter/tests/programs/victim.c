/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Does what jitter inside a program might break, and checks it: `victim WHAT`. Its
 * output is the same with the library and without it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(99); \
        } \
    } while (0)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void work(double seconds)
{
    for (double end = now() + seconds; now() < end;)
        ;
}

/* How long something is tried again, s: the host may have the CPU for seconds. */
#define PATIENCE 100

/* The wait succeeds and is as long as wanted, whatever the host does. */
#define WAITS_SINCE(begin, seconds, call) \
    do { \
        CHECK(call); \
        CHECK(now() - (begin) > (seconds) * 0.99); \
    } while (0)
#define WAITS(seconds, call) \
    do { \
        double since = now(); \
        WAITS_SINCE(since, seconds, call); \
    } while (0)

static void ended(pid_t child, int code)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == code);
}

static void handle(int signal, void (*handler)(int), int flags)
{
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(signal, &a, NULL) == 0);
}

/* A child that writes to a pipe after a while. */
static pid_t writes(int file, unsigned after_us)
{
    pid_t child = fork();
    if (child == 0) {
        usleep(after_us);
        _exit(write(file, "x", 1) != 1);
    }
    return child;
}

static int waits(void)
{
    struct timespec t = {0, 100000000}, rest, end;
    struct timeval v = {0, 100000};
    struct epoll_event event;
    int e = epoll_create1(EPOLL_CLOEXEC);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    WAITS(1, sleep(1) == 0);
    WAITS(0.1, usleep(100000) == 0);
    WAITS(0.1, nanosleep(&t, &rest) == 0);
    WAITS(0.1, clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL) == 0);
    double begin = now();
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 1;
    WAITS_SINCE(begin, 1, clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == 0);
    WAITS(0.1, poll(NULL, 0, 100) == 0);
    WAITS(0.1, ppoll(NULL, 0, &t, NULL) == 0);
    WAITS(0.1, select(0, NULL, NULL, NULL, &v) == 0);
    WAITS(0.1, pselect(0, NULL, NULL, NULL, &t, NULL) == 0);
    WAITS(0.1, epoll_wait(e, &event, 1, 100) == 0);
    WAITS(0.1, sigtimedwait(&set, NULL, &t) == -1 && errno == EAGAIN);
    sem_t semaphore;
    begin = now();
    CHECK(sem_init(&semaphore, 0, 0) == 0 && clock_gettime(CLOCK_REALTIME, &end) == 0);
    end.tv_sec += 1;
    WAITS_SINCE(begin, 0.9, sem_timedwait(&semaphore, &end) == -1 && errno == ETIMEDOUT);
    /* A read that SA_RESTART takes up again. */
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = writes(ends[1], 200000);
    char c;
    CHECK(read(ends[0], &c, 1) == 1 && c == 'x');
    ended(child, 0);
    puts("waits ok");
    return 0;
}

/* Waits that are interrupted many times: what they leave is as if they were not. */
static int selects(void)
{
    struct timeval v = {0, 350000};
    WAITS(0.35, select(0, NULL, NULL, NULL, &v) == 0);
    CHECK(v.tv_sec == 0 && v.tv_usec == 0);
    int ends[2], quiet[2];
    CHECK(pipe(ends) == 0 && pipe(quiet) == 0);
    double give_up = now() + PATIENCE;
    for (int round = 0; round < 2;) {
        pid_t child = writes(ends[1], 300000);
        fd_set in, out, odd;
        FD_ZERO(&in);
        FD_ZERO(&out);
        FD_ZERO(&odd);
        FD_SET(ends[0], &in);
        FD_SET(quiet[0], &in);
        FD_SET(quiet[0], &odd);
        int most = (ends[0] > quiet[0] ? ends[0] : quiet[0]) + 1;
        if (round == 0) {
            v = (struct timeval){9, 0};
            CHECK(select(most, &in, &out, &odd, &v) == 1);
            /* What was left, whatever the host did meanwhile. */
            CHECK(v.tv_sec >= 1 && v.tv_sec < 9);
            /* More is left only where the host had the CPU until the child wrote. */
            if (v.tv_sec < 8 || v.tv_usec < 750000)
                round++;
            CHECK(now() < give_up);
        } else {
            struct timespec t = {9, 0};
            CHECK(pselect(most, &in, &out, &odd, &t, NULL) == 1);
            CHECK(t.tv_sec == 9 && t.tv_nsec == 0);
            round++;
        }
        CHECK(FD_ISSET(ends[0], &in) && !FD_ISSET(quiet[0], &in) && !FD_ISSET(quiet[0], &odd));
        char c;
        CHECK(read(ends[0], &c, 1) == 1);
        ended(child, 0);
    }
    puts("selects ok");
    return 0;
}

static volatile sig_atomic_t alarms;
static void on_alarm(int n)
{
    (void)n;
    alarms++;
}

/* Works on until some alarms came, too: the host may have the CPU for all the time. */
static void work_with_alarms(double seconds)
{
    int before = alarms;
    double begin = now();
    errno = 1234;
    while (now() < begin + seconds || alarms <= before + 5) {
        CHECK(errno == 1234);
        CHECK(now() < begin + PATIENCE);
    }
}

/* Signals of its own: none is lost, and they interrupt what they should. */
static int own_signals(void)
{
    /* Ignored by the kernel, whatever the flags. */
    handle(SIGUSR2, SIG_IGN, SA_SIGINFO);
    CHECK(raise(SIGUSR2) == 0);
    handle(SIGALRM, on_alarm, 0);
    struct itimerval every = {{0, 5000}, {0, 5000}}, none = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    work_with_alarms(0.5);
    setitimer(ITIMER_REAL, &none, NULL);
    for (int i = 0; i < 20; i++) {
        sigset_t block, old;
        sigemptyset(&block);
        sigaddset(&block, SIGALRM);
        sigprocmask(SIG_BLOCK, &block, &old);
        int before = alarms;
        struct itimerval once = {{0, 0}, {0, 7000}};
        setitimer(ITIMER_REAL, &once, NULL);
        CHECK(sigsuspend(&old) == -1 && errno == EINTR);
        CHECK(alarms == before + 1);
        sigprocmask(SIG_SETMASK, &old, NULL);
    }
    /* Each second: the first alarm may come before the pause. */
    struct itimerval seconds = {{1, 0}, {1, 0}};
    double begin = now(), give_up = begin + PATIENCE;
    setitimer(ITIMER_REAL, &seconds, NULL);
    WAITS_SINCE(begin, 1, pause() == -1 && errno == EINTR);
    setitimer(ITIMER_REAL, &none, NULL);
    /* An alarm that comes before a sleep does not interrupt it. */
    for (unsigned left = 0; left == 0;) {
        int before = alarms;
        alarm(1);
        left = sleep(5);
        CHECK(alarms == before + 1 && left < 5 && now() < give_up);
    }
    for (int i = 0; i < 20;) {
        int before = alarms;
        struct itimerval once = {{0, 0}, {0, 9000}};
        begin = now();
        setitimer(ITIMER_REAL, &once, NULL);
        struct timespec t = {3, 0}, rest = t;
        int result = nanosleep(&t, &rest);
        CHECK(alarms == before + 1 && now() < give_up);
        if (result == 0)
            continue;
        CHECK(result == -1 && errno == EINTR);
        /* What is left and what has passed are the whole; the kernel adds the slack of the timer. */
        double left = (double)rest.tv_sec + (double)rest.tv_nsec * 1e-9;
        CHECK(left < 3.01 && left + (now() - begin) > 2.99);
        i++;
    }
    puts("own signals ok");
    return 0;
}

static double lasts = 0.3;
static void *sum(void *from)
{
    uint64_t s = 0;
    for (double end = now() + lasts; now() < end;)
        s++;
    CHECK(s > 0);
    return from;
}

static int threads(void)
{
    for (int round = 0; round < 3; round++) {
        pthread_t t[8];
        for (intptr_t i = 0; i < 8; i++)
            CHECK(pthread_create(&t[i], NULL, sum, (void *)i) == 0);
        for (intptr_t i = 0; i < 8; i++) {
            void *result;
            CHECK(pthread_join(t[i], &result) == 0 && result == (void *)i);
        }
    }
    puts("threads ok");
    return 0;
}

static void *forever(void *unused)
{
    (void)unused;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;)
        ;
    return NULL;
}

static int cancel(void)
{
    for (int i = 0; i < 5; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, forever, NULL) == 0);
        usleep(30000);
        void *result;
        CHECK(pthread_cancel(t) == 0 && pthread_join(t, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    puts("cancel ok");
    return 0;
}

/* All signals are blocked, and a thread waits for them. */
static void *waiter(void *set)
{
    int n = 0;
    CHECK(sigwait(set, &n) == 0);
    return (void *)(intptr_t)n;
}

static int blocked(void)
{
    sigset_t all, old;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, &old) == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, waiter, &all) == 0);
    work(0.3);
    kill(getpid(), SIGUSR1);
    void *n;
    CHECK(pthread_join(t, &n) == 0 && n == (void *)(intptr_t)SIGUSR1);
    siginfo_t info;
    kill(getpid(), SIGUSR2);
    CHECK(sigwaitinfo(&all, &info) == SIGUSR2);
    puts("blocked ok");
    return 0;
}

/* Waits with masks of all signals: events begin in them all the same. */
static int masks(void)
{
    struct timespec t = {0, 200000000};
    struct epoll_event event;
    int e = epoll_create1(EPOLL_CLOEXEC);
    sigset_t all, alarm;
    sigfillset(&all);
    WAITS(0.2, ppoll(NULL, 0, &t, &all) == 0);
    WAITS(0.2, pselect(0, NULL, NULL, NULL, &t, &all) == 0);
    WAITS(0.2, epoll_pwait(e, &event, 1, 200, &all) == 0);
    handle(SIGALRM, on_alarm, 0);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, NULL);
    struct itimerval once = {{0, 0}, {0, 200000}};
    double begin = now();
    setitimer(ITIMER_REAL, &once, NULL);
    sigdelset(&all, SIGALRM);
    WAITS_SINCE(begin, 0.2, sigsuspend(&all) == -1 && errno == EINTR);
    puts("masks ok");
    return 0;
}

/* As daemons do before they start others. */
static int resets(void)
{
    for (int n = 1; n < 65; n++)
        if (n != SIGKILL && n != SIGSTOP && n != 32 && n != 33)
            CHECK(signal(n, SIG_DFL) != SIG_ERR);
    struct sigaction now_set;
    for (int n = 34; n < 65; n++)
        CHECK(sigaction(n, NULL, &now_set) == 0 && now_set.sa_handler == SIG_DFL);
    work(0.3);
    puts("resets ok");
    return 0;
}

/* Handles every signal there is itself. */
static volatile sig_atomic_t foreign;
static void on_any(int n)
{
    (void)n;
    foreign++;
}

static int takes_all(void)
{
    for (int n = 34; n < 65; n++)
        handle(n, on_any, SA_RESTART);
    work(0.3);
    CHECK(foreign == 0);
    for (int n = 34; n < 65; n++)
        CHECK(raise(n) == 0);
    CHECK(foreign == 31);
    puts("takes all ok");
    return 0;
}

static volatile sig_atomic_t begun, all_taken;
static void *long_work(void *unused)
{
    (void)unused;
    begun = 1;
    /* The first one has jitter until there is none. */
    do
        work(0.4);
    while (!all_taken);
    return NULL;
}

/* The jitter ends while a thread has some, and threads end and begin after it. */
static int outlives(void)
{
    pthread_t t;
    CHECK(pthread_create(&t, NULL, long_work, NULL) == 0);
    while (!begun)
        ;
    work(0.1);
    for (int n = 34; n < 65; n++)
        handle(n, on_any, SA_RESTART);
    all_taken = 1;
    CHECK(pthread_join(t, NULL) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&t, NULL, long_work, NULL) == 0);
        CHECK(pthread_join(t, NULL) == 0);
    }
    CHECK(foreign == 0);
    puts("outlives ok");
    return 0;
}

static void *works(void *unused)
{
    work(0.08);
    return unused;
}

/* Programs one after another, in a new process each second time; `execs` in the same one,
   `thread-execs` after a thread of it has ended. */
static int chain(char *self, const char *what, int depth)
{
    pthread_t t;
    work(0.03);
    if (strcmp(what, "thread-execs") == 0)
        CHECK(pthread_create(&t, NULL, works, NULL) == 0 && pthread_join(t, NULL) == 0);
    if (depth == 0)
        return 7;
    char number[16];
    snprintf(number, sizeof number, "%d", depth - 1);
    if (depth % 2 || strcmp(what, "chain") != 0) {
        execl(self, self, what, number, (char *)NULL);
        return 98;
    }
    pid_t child = fork();
    if (child == 0) {
        work(0.02);
        execl(self, self, "chain", number, (char *)NULL);
        _exit(97);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

extern char **environ;
static int spawns(char *self)
{
    for (volatile int i = 0; i < 20; i++) {
        char *const words[] = {self, "exit", "5", NULL};
        pid_t child;
        CHECK(posix_spawn(&child, self, NULL, NULL, words, environ) == 0);
        ended(child, 5);
        child = vfork();
        if (child == 0) {
            execl(self, self, "exit", "6", (char *)NULL);
            _exit(1);
        }
        ended(child, 6);
        CHECK(system("exit 4") == 4 << 8);
    }
    puts("spawns ok");
    return 0;
}

static int forks(void)
{
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            work(0.03);
            _exit(i);
        }
        ended(child, i);
    }
    puts("forks ok");
    return 0;
}

static int closes(void)
{
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    work(0.2);
    puts("closes ok");
    fflush(stdout);
    for (int fd = 0; fd < 1024; fd++)
        close(fd);
    work(0.2);
    CHECK(open("/dev/null", O_RDWR) == 0);
    return 8;
}

/* No system calls but a few from here on. */
static int strict(void)
{
    work(0.1);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    /* The clock is forbidden as well. */
    for (volatile int i = 0; i < 100000000; i++)
        ;
    static const char text[] = "strict ok\n";
    if (write(1, text, sizeof text - 1) < 0)
        return 1;
    syscall(SYS_exit, 9);
    return 1;
}

static int filtered(void)
{
    struct sock_filter only[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof only / sizeof *only, only};
    work(0.1);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    work(0.2);
    static const char text[] = "filtered ok\n";
    return write(1, text, sizeof text - 1) > 0 ? 0 : 1;
}

/* Handlers on an alternate stack, and system calls by number. */
static int stacks(void)
{
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    handle(SIGALRM, on_alarm, SA_ONSTACK);
    struct itimerval every = {{0, 1000}, {0, 1000}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    work_with_alarms(0.3);
    for (int i = 0; i < 1000; i++) {
        errno = 0;
        CHECK(syscall(SYS_getpid) == getpid());
        CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
    }
    void *at = (void *)syscall(SYS_mmap, NULL, 4096, 3, 0x22, -1, 0);
    CHECK(at != (void *)-1);
    puts("stacks ok");
    return 0;
}

/* Stops, as by a key of its terminal, until it is continued. */
static int stops(void)
{
    work(0.1);
    CHECK(raise(SIGSTOP) == 0);
    work(0.2);
    puts("stops ok");
    return 0;
}

int main(int n, char **words)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } all[] = {
        {"waits", waits},         {"selects", selects},     {"own-signals", own_signals},
        {"threads", threads},     {"cancel", cancel},       {"blocked", blocked},
        {"resets", resets},       {"takes-all", takes_all}, {"outlives", outlives},
        {"forks", forks},         {"closes", closes},       {"strict", strict},
        {"filtered", filtered},   {"stacks", stacks},       {"masks", masks},
        {"stops", stops},
    };
    const char *what = n > 1 ? words[1] : "";
    double amount = n > 2 ? atof(words[2]) : 0, begin = now();
    if (amount > 0)
        lasts = amount;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(what, all[i].name) == 0)
            return all[i].run();
    if (strcmp(what, "work") == 0)
        return work(amount), puts("work ok"), 0;
    if (strcmp(what, "chain") == 0 || strstr(what, "execs"))
        return chain(words[0], what, (int)amount);
    if (strcmp(what, "spawns") == 0)
        return spawns(words[0]);
    if (strcmp(what, "sleeps") == 0)
        return sleep(1) || printf("%.0f\n", (now() - begin) * 1000) < 0;
    if (strcmp(what, "exit") == 0)
        return (int)amount;
    if (strcmp(what, "_exit") == 0)
        _exit((int)amount);
    if (strcmp(what, "abort") == 0)
        work(0.05), abort();
    if (strcmp(what, "kill") == 0)
        work(0.05), kill(getpid(), SIGKILL);
    return 2;
}
