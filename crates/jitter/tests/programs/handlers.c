/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Installs handlers by the older functions of the C library: `handlers FUNCTION`. Compiled as
 * strict C, where signal(3) is __sysv_signal. Its output is the same with the library and
 * without it.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef void handler(int);
typedef handler *install(int, handler *);

/* Declared for other standards only, and missing in some C libraries. */
extern install bsd_signal __attribute__((weak));
extern install ssignal __attribute__((weak));
extern install sysv_signal __attribute__((weak));
extern install sigset __attribute__((weak));
#define HOLD ((handler *)2)

static install *set;
static volatile sig_atomic_t alarms, rescues, users;

/* Some functions reset the handler. */
static void on_alarm(int number)
{
    alarms++;
    set(number, on_alarm);
}

static void on_user(int number)
{
    (void)number;
    users++;
}

static void on_rescue(int number)
{
    (void)number;
    rescues++;
}

/* Ends a pause that an alarm came before, by a handler that stays: a second alarm would kill a
 * program that is without the CPU until then and whose handler was reset. */
static int make_rescue(timer_t *timer)
{
    struct sigaction stays = {0};
    stays.sa_handler = on_rescue;
    struct sigevent event = {0};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR2;
    return sigaction(SIGUSR2, &stays, NULL) == 0 &&
           timer_create(CLOCK_MONOTONIC, &event, timer) == 0;
}

int main(int n, char **words)
{
    const struct {
        const char *name;
        install *function;
    } all[] = {
        {"signal", signal}, {"bsd_signal", bsd_signal},   {"ssignal", ssignal},
        {"sigset", sigset}, {"sysv_signal", sysv_signal},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (n > 1 && strcmp(words[1], all[i].name) == 0)
            set = all[i].function;
    if (set == NULL)
        return puts("not in this C library"), 0;

    const struct itimerval once = {{0, 0}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    const struct itimerspec after = {{1, 0}, {1, 0}}, never = {{0, 0}, {0, 0}};
    int late = 0;
    timer_t rescue;
    if (!make_rescue(&rescue))
        return perror("timer"), 2;
    set(SIGALRM, on_alarm);
    for (int i = 0; i < 200 && late <= 10; i++) {
        int before = alarms, rescued = rescues;
        timer_settime(rescue, 0, &after, NULL);
        setitimer(ITIMER_REAL, &once, NULL);
        pause();
        late += alarms != before + 1 || rescues != rescued;
    }
    setitimer(ITIMER_REAL, &none, NULL);
    timer_settime(rescue, 0, &never, NULL);

    handler *before = set(SIGUSR1, on_user);
    raise(SIGUSR1);
    struct sigaction now;
    sigaction(SIGUSR1, NULL, &now);
    printf("pauses end %d, before %d, after %d %d, users %d\n", late <= 10, before == SIG_DFL,
           now.sa_handler == SIG_DFL, now.sa_handler == on_user, users);
    if (set == sigset) {
        int is_told = sigset(SIGUSR1, HOLD) == on_user;
        raise(SIGUSR1);
        int is_held = users == 1 && sigset(SIGUSR1, on_user) == HOLD && users == 2;
        printf("told %d, held %d\n", is_told, is_held);
    }
    return late > 10;
}
