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
 * One file for programs that add it to their own. Its parts are the .inc files
 * that it includes, in the order in which they build upon each other: one
 * translation unit, so that what they share has no name in the program.
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

#include "jitter_booking.inc"
#include "jitter_walk.inc"
#include "jitter_inject.inc"
#include "jitter_threads.inc"
#include "jitter_plan.inc"
#include "jitter_calls.inc"
