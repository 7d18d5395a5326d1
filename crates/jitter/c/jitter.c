/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Injects the events of a plan into the calling thread: a timer of the kernel sends
 * it a signal when the next event is due, with an absolute deadline on
 * CLOCK_MONOTONIC, and the handler reads the clock until the event is over. De,
 * Kothari and Mann (Cluster 2008) inject from a process beside the program; from
 * inside neither that process nor a priority is needed.
 *
 * The handler calls clock_gettime and system calls, and writes to memory that was
 * mapped before; it does not allocate or lock, and keeps errno. With an invalid plan
 * all functions do nothing.
 *
 * Programs can add this file to their own. It includes the .inc files in the order of
 * their dependence: one translation unit, so that shared names stay out of the program.
 *
 * No function called here has a symbol version in any C library (stat(2) and
 * timer_create(2) have), so that a library built with one runs with another.
 */
#define _GNU_SOURCE
#include "jitter.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
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
/* Distance of two checks whether sandbag lives. */
#define LOOK_NS (NS / 2)
/* Least distance of two bookings of CPU time. */
#define ACCOUNT_NS (NS / 10)
/* Longest time of events in a row, and the break after it. */
#define AT_ONCE_NS (10 * NS)
#define BREATH_NS 1000000
/* Owner of slots in other PID namespaces, whose numbers are unknown here. */
#define FOREIGN 0x7fffffffu
/* No clock comes to that, and sums of two stay in range. */
#define LATEST ((uint64_t)INT64_MAX / 2)

/* The plan. The header is a copy: the file is shared, and other programs write to it. */
static struct {
    int loaded;
    int retired;
    int namespaced;             /* process ids mean the same to sandbag */
    int watched;
    struct plan_header head;
    const struct plan_portion *portion;
    const struct plan_event *event;
    struct plan_shared *shared;
    struct plan_slot *slot;
    uint32_t pid;
    char name[16];
    int rank;
    uint64_t looked_ns;
    uint64_t cpu_ns;            /* CPU time of this process that was booked */
    uint64_t accounted_ns;      /* when, in an event */
    uint64_t booked_ns;         /* when, or since when there is nothing to book */
} plan;

static int has(enum plan_flags flag)
{
    return (plan.head.flags & flag) != 0;
}

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
