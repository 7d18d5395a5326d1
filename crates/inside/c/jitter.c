/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Injects the events of a plan into the thread that has begun: a timer of the
 * kernel sends it a signal at the time of the next event, on an absolute
 * deadline of CLOCK_MONOTONIC, and the handler reads the clock until the event
 * is over. De, Kothari and Mann (Cluster 2008) do it from a process beside the
 * program; from inside no other process is needed, nor a priority.
 *
 * The handler calls clock_gettime and system calls, and writes to memory that
 * was mapped before; it allocates nothing, locks nothing and keeps errno. A
 * plan that is not as it should be makes all of this do nothing.
 *
 * No function here has a version in its name in any C library (stat(2) has,
 * and timer_create(2)), so that what was built with one runs with another.
 */
#define _GNU_SOURCE
#include "jitter.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sandbag_jitter.h"

#define API __attribute__((visibility("default")))
#define NS 1000000000ull
/* How often it is looked whether sandbag lives. */
#define LOOK_NS (NS / 2)
/* Most that is served without a break, and the break. */
#define AT_ONCE_NS (10 * NS)
#define BREATH_NS 1000000
/* Of processes in other namespaces, whose numbers say nothing here. */
#define FOREIGN 0x7fffffffu
/* No clock comes to that, and sums of two stay in range. */
#define LATEST ((uint64_t)INT64_MAX / 2)

/* The plan, with copies of what the handler uses: the file is shared. */
static struct {
    int loaded;
    int retired;
    int per_thread, loops, polled, forks, from_start;
    int namespaced;             /* process ids mean the same to sandbag */
    int watched;
    uint32_t supervisor, slots, portions, ranked, signal;
    uint64_t begin_ns, seed, overhead_ns, exit_ns, lead_ns, on_time_ns, least_gap_ns, late_ns, longest_ns, every, events;
    const struct plan_portion *portion;
    const struct plan_event *event;
    struct plan_shared *shared;
    struct plan_slot *slot;
    uint32_t pid;
    char name[16];
    int rank;
    uint64_t looked_ns;
} plan;

static struct sbj_state states[SBJ_STATES];
static int states_high;
__thread struct sbj_state *sbj_mine __attribute__((tls_model("initial-exec")));
volatile int sbj_signal;

uint64_t sbj_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS + (uint64_t)now.tv_nsec;
}

/* ---- Booking ---------------------------------------------------------- */

/* Eight buckets to an octave. */
static unsigned bucket(uint64_t ns)
{
    if (ns < 8)
        return (unsigned)ns;
    unsigned high = 63u - (unsigned)__builtin_clzll(ns);
    unsigned at = (high - 2) * 8 + (unsigned)(ns >> (high - 3) & 7);
    return at < PLAN_BUCKETS ? at : PLAN_BUCKETS - 1;
}

static uint64_t bucket_begin(unsigned at)
{
    return at < 8 ? at : (uint64_t)(8 + at % 8) << (at / 8 - 1);
}

static void count(struct sbj_state *state, enum plan_counter what, uint64_t more)
{
    state->slot->counters[what] += more;
}

static void book(struct sbj_state *state, uint64_t late, uint64_t asked, uint64_t taken)
{
    count(state, INJECTED, 1);
    count(state, ASKED_NS, asked);
    count(state, TAKEN_NS, taken);
    state->slot->start[bucket(late)]++;
    state->slot->length[bucket(taken > asked ? taken - asked : 0)]++;
}

static void refuse(enum plan_refused why)
{
    __atomic_fetch_add(&plan.shared->refused[why], 1, __ATOMIC_RELAXED);
}

/* ---- The next event --------------------------------------------------- */

/*
 * The same walk as of crates/inject/src/portion.rs: from an offset on, around
 * the end of what was recorded, until the stretch is over; an event that is
 * under way where it begins is suffered from there on.
 */

static const struct plan_event *event_at(const struct sbj_state *state, uint64_t index)
{
    return &plan.event[state->portion.first + index];
}

/* Goes to `along` of the stretch, which is shorter than the axis. */
static void seek(struct sbj_state *state, uint64_t along)
{
    uint64_t at = state->portion.offset_ns + along;
    state->lap_ns = at >= state->portion.axis_ns ? state->portion.axis_ns : 0;
    at -= state->lap_ns;
    uint64_t low = 0, high = state->portion.count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (event_at(state, middle)->due_ns < at)
            low = middle + 1;
        else
            high = middle;
    }
    state->index = low;
    if (along == 0 && low > 0) {
        struct plan_event before = *event_at(state, low - 1);
        if (before.length_ns <= plan.longest_ns && before.due_ns < at
            && before.due_ns + before.length_ns > at)
            state->index = low - 1;
    }
}

/* The stretch is over. */
static int again(struct sbj_state *state)
{
    if (!plan.loops && !plan.every)
        return 0;
    state->base_ns += state->portion.length_ns;
    seek(state, 0);
    return state->base_ns < LATEST;
}

/* Whoever was away for long does not go through all rounds that he missed. */
static void skip_rounds(struct sbj_state *state, uint64_t now)
{
    uint64_t away = now > state->base_ns ? now - state->base_ns : 0;
    uint64_t rounds = away / state->portion.length_ns;
    if ((plan.loops || plan.every) && rounds > 1) {
        state->base_ns += rounds * state->portion.length_ns;
        seek(state, 0);
        count(state, ROUNDS, rounds);
    }
}

/* Finds the next event that can be injected; 0 if there is none. */
static int fetch(struct sbj_state *state, uint64_t *length)
{
    const struct plan_portion *portion = &state->portion;
    if (portion->count == 0)
        return 0;
    /* A stretch without an event must not be gone through for ever. */
    for (uint64_t looked = 0; looked <= 2 * portion->count + 2; looked++) {
        if (state->index >= portion->count) {
            state->index = 0;
            state->lap_ns += portion->axis_ns;
        }
        struct plan_event event = *event_at(state, state->index);
        if (event.due_ns >= portion->axis_ns || event.length_ns > plan.longest_ns) {
            count(state, INVALID, 1);
            state->index++;
            continue;
        }
        uint64_t along = state->lap_ns + event.due_ns;
        if (along < portion->offset_ns) {
            /* Under way where the stretch begins. */
            uint64_t behind = portion->offset_ns - along;
            event.length_ns -= event.length_ns < behind ? event.length_ns : behind;
            along = portion->offset_ns;
        }
        along -= portion->offset_ns;
        if (along >= portion->length_ns) {
            if (!again(state))
                return 0;
            continue;
        }
        if (event.length_ns > portion->length_ns - along)
            event.length_ns = portion->length_ns - along;
        if (event.length_ns <= plan.overhead_ns) {
            if (event.length_ns > 0)
                count(state, SHORT, 1);
            state->index++;
            continue;
        }
        state->due_ns = state->base_ns + along;
        *length = event.length_ns;
        return state->due_ns < LATEST;
    }
    return 0;
}

/* ---- Injecting -------------------------------------------------------- */

static int stopped(uint64_t now)
{
    if (plan.shared->stop)
        return 1;
    if (!plan.watched || now - plan.looked_ns < LOOK_NS)
        return 0;
    plan.looked_ns = now;
    return sbj_real_syscall(SYS_kill, plan.supervisor, 0) == -1 && errno == ESRCH;
}

/* Whether it was to its end: nobody is held by who is gone. */
static int spin(uint64_t until, uint64_t *now)
{
    int whole = 1;
    while (*now < until && (whole = !stopped(*now)))
        *now = sbj_now();
    return whole;
}

struct timer_value {
    int64_t interval_s, interval_ns, value_s, value_ns;
};

static int arm(struct sbj_state *state, uint64_t due)
{
    due += plan.lead_ns;
    struct timer_value value = {0, 0, (int64_t)(due / NS), (int64_t)(due % NS)};
    return sbj_real_syscall(SYS_timer_settime, state->timer, TIMER_ABSTIME, &value, NULL) == 0;
}

static void disarm(struct sbj_state *state)
{
    if (state->timer != -1)
        sbj_real_syscall(SYS_timer_delete, state->timer);
    state->timer = -1;
}

/* Takes the time of the next event, and sees to it that it will be met. */
static void await(struct sbj_state *state, uint64_t due)
{
    state->due_ns = due;
    if (due == 0)
        sbj_end(state, ENDED_EXHAUSTED);
    else if (!plan.polled && !arm(state, due))
        sbj_end(state, ENDED_TIMER);
}

/*
 * Serves what is due and sees to what comes next. `entered` is when the thread
 * was interrupted, `overhead` what that costs beside the time here.
 */
static void serve(struct sbj_state *state, uint64_t entered, uint64_t overhead, uint64_t gap)
{
    uint64_t now = entered, length;
    int first = 1;
    skip_rounds(state, now);
    int more = fetch(state, &length);
    while (more && !plan.shared->stop) {
        uint64_t due = state->due_ns;
        if (first ? due > now : due > now + gap) {
            if (first)
                count(state, EARLY, 1);
            await(state, due);
            return;
        }
        if (now - entered > AT_ONCE_NS) {
            /* The program gets something, whatever is asked. */
            await(state, now + BREATH_NS);
            return;
        }
        uint64_t late = now > due ? now - due : 0;
        uint64_t asked = length;
        /* Until the handler began a timer that was on time had interrupted the
           program already. */
        int on_time = first && late <= plan.on_time_ns;
        uint64_t begin = on_time ? due : now;
        uint64_t cost = !first ? 0 : on_time ? plan.exit_ns : overhead;
        if (late > plan.late_ns) {
            /* The thread was not there: stopped, or without a CPU. */
            if (late >= length) {
                count(state, PASSED, 1);
                state->index++;
                more = fetch(state, &length);
                continue;
            }
            asked = length - late;
            count(state, CUT, 1);
        }
        if (!first)
            count(state, due > now ? MERGED : BEHIND, 1);
        uint64_t until = begin + (asked > cost ? asked - cost : 0);
        /* The timer is set before the event is over: it takes longer when the
           next is soon than when it is not, and so is no part of the way back. */
        state->index++;
        more = fetch(state, &length);
        int set = more && state->due_ns > until + gap;
        if (set)
            await(state, state->due_ns);
        int whole = spin(until, &now);
        state->last_ns = now;
        state->last_due_ns = due;
        book(state, late, asked, now - begin + cost);
        first = 0;
        if (!whole) {
            sbj_retire(ENDED_STOPPED);
            return;
        }
        if (set)
            return;
    }
    if (more)
        sbj_retire(ENDED_STOPPED);
    else
        sbj_end(state, ENDED_EXHAUSTED);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    struct sbj_state *state = info->si_value.sival_ptr;
    uintptr_t at = (uintptr_t)state;
    if (info->si_code != SI_TIMER || at < (uintptr_t)states
        || at >= (uintptr_t)(states + SBJ_STATES)
        || (at - (uintptr_t)states) % sizeof *state != 0 || state->busy)
        return;
    state->interrupted++;
    /* Not even the clock: a program in seccomp's strict mode may not read it. */
    if (!state->active)
        return;
    uint64_t entered = sbj_now();
    int saved = errno;
    if (stopped(entered))
        sbj_retire(ENDED_STOPPED);
    else
        serve(state, entered, plan.overhead_ns, plan.least_gap_ns);
    errno = saved;
}

/* Only for its owner, as all that is booked. */
void sbj_waited_again(struct sbj_state *state)
{
    count(state, WAITS, 1);
}

/* For the measurement of what it costs. */
uint64_t sbj_last_ns(void)
{
    return sbj_mine != NULL ? sbj_mine->last_ns : 0;
}

uint64_t sbj_last_due_ns(void)
{
    return sbj_mine != NULL ? sbj_mine->last_due_ns : 0;
}

/* ---- A thread begins and ends ----------------------------------------- */

struct sbj_state *sbj_reserve(void)
{
    for (int i = 0; i < SBJ_STATES; i++) {
        int unused = 0;
        if (__atomic_load_n(&states[i].used, __ATOMIC_RELAXED) == 0
            && __atomic_compare_exchange_n(&states[i].used, &unused, 1, 0, __ATOMIC_ACQ_REL,
                                           __ATOMIC_RELAXED)) {
            int high = __atomic_load_n(&states_high, __ATOMIC_RELAXED);
            while (high <= i
                   && !__atomic_compare_exchange_n(&states_high, &high, i + 1, 0,
                                                   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                ;
            states[i].timer = -1;
            return &states[i];
        }
    }
    refuse(REFUSED_NO_STATE);
    return NULL;
}

void sbj_release(struct sbj_state *state)
{
    state->active = 0;
    __atomic_store_n(&state->used, 0, __ATOMIC_RELEASE);
}

static void sum_up(struct plan_slot *slot)
{
    struct plan_slot *gone = &plan.shared->gone;
    for (int i = 0; i < COUNTERS; i++)
        __atomic_fetch_add(&gone->counters[i], slot->counters[i], __ATOMIC_RELAXED);
    for (int i = 0; i < PLAN_BUCKETS; i++) {
        if (slot->start[i])
            __atomic_fetch_add(&gone->start[i], slot->start[i], __ATOMIC_RELAXED);
        if (slot->length[i])
            __atomic_fetch_add(&gone->length[i], slot->length[i], __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&plan.shared->recycled, 1, __ATOMIC_RELAXED);
    memset(slot, 0, sizeof *slot);
}

static int is_gone(uint32_t owner)
{
    if (owner & OWNER_GONE)
        return 1;
    return plan.namespaced && owner != FOREIGN && owner != plan.pid
        && sbj_real_syscall(SYS_kill, owner, 0) == -1 && errno == ESRCH;
}

static struct plan_slot *claim(void)
{
    uint32_t us = plan.namespaced ? plan.pid : FOREIGN;
    for (int again = 0; again < 2; again++) {
        for (uint32_t i = 0; i < plan.slots; i++) {
            uint32_t *owner = &plan.shared->owners[i];
            uint32_t seen = __atomic_load_n(owner, __ATOMIC_RELAXED);
            if (seen != 0 && (!again || !is_gone(seen)))
                continue;
            if (!__atomic_compare_exchange_n(owner, &seen, us, 0, __ATOMIC_ACQ_REL,
                                             __ATOMIC_RELAXED))
                continue;
            if (seen != 0)
                sum_up(&plan.slot[i]);
            return &plan.slot[i];
        }
    }
    refuse(REFUSED_NO_SLOT);
    return NULL;
}

static void give_up(const struct plan_slot *slot)
{
    __atomic_fetch_or(&plan.shared->owners[slot - plan.slot], OWNER_GONE, __ATOMIC_RELEASE);
}

/* What this process had before it became another program. */
static void leave_former_image(void)
{
    for (uint32_t i = 0; plan.namespaced && i < plan.slots; i++) {
        uint32_t us = plan.pid;
        __atomic_compare_exchange_n(&plan.shared->owners[i], &us, us | OWNER_GONE, 0,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

static int choose_portion(struct sbj_state *state, struct plan_slot *slot, int initial)
{
    uint32_t number;
    if (initial && plan.rank >= 0) {
        number = (uint32_t)plan.rank % plan.portions;
    } else {
        uint32_t n = __atomic_fetch_add(&plan.shared->sequence, 1, __ATOMIC_RELAXED);
        uint32_t left = plan.portions - plan.ranked;
        number = left ? plan.ranked + n % left : n % plan.portions;
    }
    slot->portion = number;
    state->portion = plan.portion[number];
    const struct plan_portion *portion = &state->portion;
    return portion->axis_ns > 0 && portion->axis_ns < LATEST / 2
        && portion->offset_ns < portion->axis_ns
        && portion->length_ns > 0 && portion->length_ns <= portion->axis_ns
        && portion->first <= plan.events && portion->count <= plan.events - portion->first;
}

/* As <linux/signal.h> has it: C libraries name its last member differently. */
struct kernel_sigevent {
    union sigval value;
    int signo, notify, tid;
    char padding[64 - sizeof(union sigval) - 3 * sizeof(int)];
};

/* Installs the handler, once, on the first of the high signals that nobody uses. */
static int take_signal(void)
{
    if (sbj_signal)
        return 1;
    int from = plan.signal ? (int)plan.signal : 61;
    int until = plan.signal ? from : 50;
    for (int number = from; number >= until; number--) {
        struct sigaction now, ours;
        if (sbj_real_sigaction(number, NULL, &now) != 0 || now.sa_handler != SIG_DFL)
            continue;
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = on_signal;
        /* An alternate stack where there is one: some run on very small ones. */
        ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
        sigfillset(&ours.sa_mask);
        if (sbj_real_sigaction(number, &ours, NULL) != 0)
            continue;
        sbj_signal = number;
        return 1;
    }
    refuse(REFUSED_NO_SIGNAL);
    return 0;
}

static int make_timer(struct sbj_state *state)
{
    struct kernel_sigevent event;
    memset(&event, 0, sizeof event);
    event.value.sival_ptr = state;
    event.signo = sbj_signal;
    event.notify = 4; /* SIGEV_THREAD_ID */
    event.tid = (int)state->tid;
    int timer = -1;
    if (sbj_real_syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) != 0) {
        refuse(REFUSED_NO_TIMER);
        return 0;
    }
    state->timer = timer;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, sbj_signal);
    sbj_real_sigprocmask(SIG_UNBLOCK, &set, NULL);
    return 1;
}

/* Begins with the calling thread. 0: it does not, and the state can be released. */
int sbj_begin(struct sbj_state *state, int initial)
{
    /* The program may forbid calls between the making of a thread and this. */
    if (plan.retired)
        return 0;
    struct plan_slot *slot = claim();
    if (slot == NULL)
        return 0;
    state->slot = slot;
    state->tid = (uint32_t)sbj_real_syscall(SYS_gettid);
    state->index = 0;
    state->due_ns = 0;
    state->busy = 0;
    state->rank = plan.rank;
    uint64_t now = sbj_now(), length, due = 0;
    state->base_ns = plan.from_start ? now : plan.begin_ns;
    slot->pid = plan.pid;
    slot->tid = state->tid;
    slot->rank = plan.rank;
    slot->signal = 0;
    memcpy(slot->name, plan.name, sizeof slot->name);
    if (!choose_portion(state, slot, initial)) {
        count(state, INVALID, 1);
        give_up(slot);
        return 0;
    }
    if (!plan.polled && (!take_signal() || !make_timer(state))) {
        give_up(slot);
        return 0;
    }
    slot->signal = (uint32_t)sbj_signal;
    /* What was due before this process began is not for it. */
    uint64_t away = now > state->base_ns ? now - state->base_ns : 0;
    if (plan.loops || plan.every) {
        state->base_ns += away / state->portion.length_ns * state->portion.length_ns;
        away %= state->portion.length_ns;
    }
    int over = away >= state->portion.length_ns;
    seek(state, over ? 0 : away);
    slot->base_ns = state->base_ns;
    sbj_mine = state;
    state->active = 1;
    /* Who retires all may not have seen this one. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (plan.retired) {
        state->active = 0;
        state->slot->ended = ENDED_STOPPED;
        return 1;
    }
    if (!over && fetch(state, &length))
        due = state->due_ns;
    await(state, due);
    return 1;
}

void sbj_end(struct sbj_state *state, enum plan_ended why)
{
    if (!state->active)
        return;
    state->active = 0;
    disarm(state);
    state->slot->ended = why;
    if (why == ENDED_EXIT)
        give_up(state->slot);
}

void sbj_retire(enum plan_ended why)
{
    plan.retired = 1;
    for (int i = 0; i < states_high; i++)
        if (states[i].used)
            sbj_end(&states[i], why);
}

/* Not a child that shares this memory until it becomes another program. */
int sbj_own_process(void)
{
    return plan.loaded > 0 && !plan.retired
        && (uint32_t)sbj_real_syscall(SYS_getpid) == plan.pid;
}

void sbj_exiting(void)
{
    if (sbj_own_process())
        sbj_retire(ENDED_EXIT);
}

/* Timers are not inherited. The child has this thread only, and what its
   parent held is its parent's. */
void sbj_forked(void)
{
    int saved = errno;
    for (int i = 0; i < states_high; i++) {
        states[i].active = 0;
        states[i].timer = -1;
        states[i].used = 0;
    }
    sbj_mine = NULL;
    if (plan.loaded > 0 && !plan.retired) {
        plan.pid = (uint32_t)sbj_real_syscall(SYS_getpid);
        struct sbj_state *state;
        if (plan.forks && !plan.polled && (state = sbj_reserve()) != NULL
            && !sbj_begin(state, 0))
            sbj_release(state);
    }
    errno = saved;
}

/* ---- The plan --------------------------------------------------------- */

static uint64_t fnv(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * 0x100000001b3ull;
    return hash;
}

/* Whether a file of `size` bytes that begins with this header can be used. */
API int sbj_valid(const struct plan_header *head, uint64_t size)
{
    uint64_t portions, events, slots;
    return size >= PLAN_HEADER
        && memcmp(head->magic, PLAN_MAGIC, sizeof head->magic) == 0
        && head->version == PLAN_VERSION && head->header_size == PLAN_HEADER
        && head->size == size
        && head->check == fnv(head, offsetof(struct plan_header, check))
        && (head->flags & ~(uint32_t)PLAN_KNOWN) == 0
        && head->portions > 0 && head->ranked <= head->portions
        && head->slots > 0 && head->slots <= PLAN_SLOTS
        && head->shared_at % PLAN_ALIGN == 0 && head->shared_at <= size
        && head->portions_at >= PLAN_HEADER && head->portions_at % 8 == 0
        && !__builtin_mul_overflow((uint64_t)head->portions, sizeof(struct plan_portion), &portions)
        && !__builtin_add_overflow(portions, head->portions_at, &portions)
        && portions <= head->events_at && head->events_at % 8 == 0
        && !__builtin_mul_overflow(head->events, sizeof(struct plan_event), &events)
        && !__builtin_add_overflow(events, head->events_at, &events)
        && events <= head->shared_at
        && !__builtin_mul_overflow((uint64_t)head->slots, sizeof(struct plan_slot), &slots)
        && slots + sizeof(struct plan_shared) == size - head->shared_at
        && head->longest_ns <= 3600 * NS && head->late_ns <= 3600 * NS
        && head->overhead_ns <= NS && head->least_gap_ns <= NS
        && head->exit_ns <= head->overhead_ns && head->lead_ns <= NS / 1000
        && head->on_time_ns <= NS
        && head->begin_ns < LATEST / 2
        && head->supervisor < FOREIGN
        && (head->signal == 0 || (head->signal >= 35 && head->signal <= 64))
        && head->pid_namespace[sizeof head->pid_namespace - 1] == 0
        && head->only_names[PLAN_ONLY - 1] == 0;
}

static long slurp(const char *path, char *into, size_t room)
{
    long file = sbj_real_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0)
        return -1;
    long all = 0, more = 0;
    while ((size_t)all < room
           && (more = sbj_real_syscall(SYS_read, file, into + all, room - (size_t)all)) > 0)
        all += more;
    sbj_real_syscall(SYS_close, file);
    return all;
}

/* A number of decimal digits and nothing else; -1 if it is none. */
static long number(const char *text)
{
    long value = 0;
    if (text == NULL || *text == 0)
        return -1;
    for (; *text >= '0' && *text <= '9'; text++)
        if ((value = value * 10 + (*text - '0')) > 100000000)
            return -1;
    return *text == 0 ? value : -1;
}

static int rank_of_environment(void)
{
    /* SLURM's last: an mpirun in a batch job inherits it itself. */
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        long rank = number(getenv(names[i]));
        if (rank >= 0)
            return (int)rank;
    }
    return -1;
}

static int listed(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; *at;) {
        const char *end = strchr(at, '\n');
        if (end == NULL)
            return 0;
        if (length > 0 && (size_t)(end - at) == length && memcmp(at, name, length) == 0)
            return 1;
        at = end + 1;
    }
    return 0;
}

/* --only: the name of the program or of its script; its rank. */
static int meant(const struct plan_header *head)
{
    static const char none[PLAN_ONLY];
    if ((head->flags & PLAN_ONLY_RANKS) && plan.rank < 0)
        return 0;
    if (memcmp(head->only_ranks, none, sizeof none) != 0
        && (plan.rank < 0 || plan.rank >= PLAN_ONLY * 8
            || !(head->only_ranks[plan.rank / 8] >> plan.rank % 8 & 1)))
        return 0;
    if (head->only_names[0] == 0)
        return 1;
    char path[4096];
    long length = sbj_real_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path,
                                   sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *slash = strrchr(path, '/');
    return listed(head->only_names, plan.name)
        || listed(head->only_names, slash ? slash + 1 : path);
}

/* A filter that sandbag itself does not have may kill for a timer. */
static int more_filters(uint64_t than)
{
    static const char key[] = "\nSeccomp_filters:\t";
    char text[4096];
    long length = slurp("/proc/self/status", text, sizeof text - 1);
    if (length <= 0)
        return 0;
    text[length] = 0;
    const char *at = strstr(text, key);
    if (at == NULL)
        return 0;
    uint64_t filters = 0;
    for (at += sizeof key - 1; *at >= '0' && *at <= '9'; at++)
        filters = filters * 10 + (uint64_t)(*at - '0');
    return filters > than;
}

static void take(const struct plan_header *head, void *shared)
{
    plan.per_thread = (head->flags & PLAN_PER_THREAD) != 0;
    plan.loops = (head->flags & PLAN_LOOP) != 0;
    plan.polled = (head->flags & PLAN_POLLED) != 0;
    plan.forks = (head->flags & PLAN_NO_FORK) == 0;
    plan.from_start = (head->flags & PLAN_FROM_START) != 0;
    plan.supervisor = head->supervisor;
    plan.slots = head->slots;
    plan.portions = head->portions;
    plan.ranked = head->ranked;
    plan.signal = head->signal;
    plan.begin_ns = head->begin_ns;
    plan.seed = head->seed;
    plan.overhead_ns = plan.polled ? 0 : head->overhead_ns;
    plan.exit_ns = head->exit_ns;
    plan.lead_ns = head->lead_ns;
    plan.on_time_ns = plan.polled ? 0 : head->on_time_ns;
    plan.least_gap_ns = head->least_gap_ns;
    plan.late_ns = head->late_ns;
    plan.longest_ns = head->longest_ns;
    plan.every = head->phase_every;
    plan.events = head->events;
    plan.portion = (const void *)((const char *)head + head->portions_at);
    plan.event = (const void *)((const char *)head + head->events_at);
    plan.shared = shared;
    plan.slot = (void *)((char *)shared + sizeof(struct plan_shared));
}

/* Whether this process is to suffer anything, with the plan in place. */
static int wanted(const struct plan_header *head)
{
    char namespace[32] = {0};
    sbj_real_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/pid", namespace,
                     sizeof namespace - 1);
    plan.namespaced = namespace[0] && strcmp(namespace, head->pid_namespace) == 0;
    plan.pid = (uint32_t)sbj_real_syscall(SYS_getpid);
    plan.rank = rank_of_environment();
    sbj_real_syscall(SYS_prctl, PR_GET_NAME, plan.name, 0, 0, 0);
    plan.name[sizeof plan.name - 1] = 0;
    plan.watched = plan.namespaced && plan.supervisor != 0;
    plan.looked_ns = 0;
    if (stopped(sbj_now()))
        return 0;
    if (!meant(head)) {
        refuse(REFUSED_NOT_MEANT);
        return 0;
    }
    if (!plan.polled && more_filters(head->filters)) {
        refuse(REFUSED_SECCOMP);
        return 0;
    }
    return 1;
}

/* sandbag itself on its way to CMD, where it was built to be linked dynamically. */
static int is_sandbag(void)
{
    const char *self = getenv("SANDBAG_JITTER_SELF");
    char path[4096];
    long length = sbj_real_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path,
                                   sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    return self != NULL && *self != 0 && strcmp(path, self) == 0;
}

int sbj_load(void)
{
    if (plan.loaded)
        return plan.loaded > 0;
    plan.loaded = -1;
    const char *path = getenv("SANDBAG_JITTER_PLAN");
    if (path == NULL || *path != '/' || getauxval(AT_SECURE) || is_sandbag())
        return 0;
    long file = sbj_real_syscall(SYS_openat, AT_FDCWD, path,
                                 O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW, 0);
    if (file < 0)
        return 0;
    long size = sbj_real_syscall(SYS_lseek, file, 0, SEEK_END);
    struct plan_header *head = MAP_FAILED;
    void *shared = MAP_FAILED;
    uint64_t shared_at = 0;
    if (size >= PLAN_HEADER) {
        head = mmap(NULL, PLAN_HEADER, PROT_READ, MAP_SHARED, (int)file, 0);
        if (head != MAP_FAILED) {
            shared_at = sbj_valid(head, (uint64_t)size) ? head->shared_at : 0;
            munmap(head, PLAN_HEADER);
            head = MAP_FAILED;
        }
    }
    if (shared_at) {
        /* Separate, so that a stray pointer of the program finds no plan to spoil. */
        head = mmap(NULL, shared_at, PROT_READ, MAP_SHARED, (int)file, 0);
        shared = mmap(NULL, (size_t)size - shared_at, PROT_READ | PROT_WRITE, MAP_SHARED,
                      (int)file, (off_t)shared_at);
    }
    sbj_real_syscall(SYS_close, file);
    if (head != MAP_FAILED && shared != MAP_FAILED && sbj_valid(head, (uint64_t)size)
        && head->shared_at == shared_at) {
        take(head, shared);
        if (wanted(head)) {
            leave_former_image();
            plan.loaded = 1;
            return 1;
        }
    }
    if (head != MAP_FAILED)
        munmap(head, shared_at);
    if (shared != MAP_FAILED)
        munmap(shared, (size_t)size - shared_at);
    return 0;
}

int sbj_per_thread(void)
{
    return plan.loaded > 0 && plan.per_thread && !plan.polled && !plan.retired;
}

int sbj_polled(void)
{
    return plan.polled;
}

/* ---- Calls of the program --------------------------------------------- */

/* What a copy of the library that is linked into a program passes on to one
   that was preloaded: two would inject everything twice. */
struct calls {
    int (*init)(void);
    uint64_t (*poll)(void);
    void (*phase)(uint64_t);
    int (*report)(struct sandbag_jitter_report *, size_t);
};

#ifdef SANDBAG_JITTER_PRELOAD
API const struct calls sandbag_jitter_preloaded = {
    sandbag_jitter_init, sandbag_jitter_poll, sandbag_jitter_phase, sandbag_jitter_report};
extern const struct calls own __attribute__((alias("sandbag_jitter_preloaded"),
                                             visibility("hidden")));
#define OTHER ((const struct calls *)0)

/* Of several copies that were loaded (a sandbag within a sandbag, a program that
   is linked with another file of it) the first works. */
int sbj_is_first(void)
{
    return sbj_find("sandbag_jitter_preloaded") == &own;
}
#else
extern void *dlsym(void *, const char *) __attribute__((weak));
static const struct calls *other;
#define OTHER other
#endif

API int sandbag_jitter_init(void)
{
    int saved = errno, begun = 0;
#ifndef SANDBAG_JITTER_PRELOAD
    if (other == NULL && dlsym != NULL && !plan.loaded)
        other = dlsym(NULL, "sandbag_jitter_preloaded");
#endif
    if (OTHER)
        return OTHER->init();
    if (sbj_mine != NULL) {
        begun = sbj_mine->active;
    } else if (sbj_load() && !plan.retired) {
        struct sbj_state *state = sbj_reserve();
        int initial = (uint32_t)sbj_real_syscall(SYS_gettid) == plan.pid;
        if (state != NULL && sbj_begin(state, initial))
            begun = state->active;
        else if (state != NULL)
            sbj_release(state);
    }
    errno = saved;
    return begun;
}

API uint64_t sandbag_jitter_poll(void)
{
    if (OTHER)
        return OTHER->poll();
    struct sbj_state *state = sbj_mine;
    if (state == NULL || !state->active || !plan.polled)
        return 0;
    uint64_t begin = sbj_now();
    if (begin < state->due_ns)
        return 0;
    int saved = errno;
    if (stopped(begin))
        sbj_retire(ENDED_STOPPED);
    else
        serve(state, begin, 0, 0);
    errno = saved;
    return sbj_now() - begin;
}

/* The output function of SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t mix(uint64_t value)
{
    uint64_t z = value + 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

API void sandbag_jitter_phase(uint64_t phase)
{
    if (OTHER) {
        OTHER->phase(phase);
        return;
    }
    struct sbj_state *state = sbj_mine;
    if (state == NULL || !state->active || plan.every == 0 || phase % plan.every != 0)
        return;
    int saved = errno;
    state->busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    /* The same in all ranks, which never talk to each other. */
    uint64_t value = mix(mix(mix(plan.seed) ^ 1) ^ phase / plan.every);
    uint64_t axis = state->portion.axis_ns, length;
    state->portion.offset_ns = (uint64_t)(((unsigned __int128)value * axis) >> 64);
    state->portion.length_ns = axis;
    state->base_ns = sbj_now();
    seek(state, 0);
    uint64_t due = fetch(state, &length) ? state->due_ns : 0;
    count(state, PHASES, 1);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    state->busy = 0;
    await(state, due);
    errno = saved;
}

static uint64_t median(const uint32_t *buckets)
{
    uint64_t all = 0, below = 0;
    for (unsigned i = 0; i < PLAN_BUCKETS; i++)
        all += buckets[i];
    for (unsigned i = 0; i < PLAN_BUCKETS; i++)
        if ((below += buckets[i]) * 2 >= all && all)
            return bucket_begin(i);
    return 0;
}

API int sandbag_jitter_report(struct sandbag_jitter_report *report, size_t size)
{
    if (OTHER)
        return OTHER->report(report, size);
    struct sandbag_jitter_report full;
    struct sbj_state *state = sbj_mine;
    memset(&full, 0, sizeof full);
    if (state != NULL && state->slot != NULL) {
        const uint64_t *of = state->slot->counters;
        full = (struct sandbag_jitter_report){of[INJECTED], of[ASKED_NS], of[TAKEN_NS], of[SHORT],
                                              of[PASSED], of[MERGED], median(state->slot->start),
                                              median(state->slot->length)};
    }
    memcpy(report, &full, size < sizeof full ? size : sizeof full);
    return state != NULL && state->slot != NULL;
}
