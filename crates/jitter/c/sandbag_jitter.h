/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * OS jitter inside a program that asks for it.
 *
 * Under `sandbag jitter replay TRACE --inside -- PROGRAM` these calls make the
 * calling thread suffer the events of the trace; started in any other way they
 * do nothing, and cost a test of a variable. So they can stay in a program.
 *
 * Link with libsandbag_jitter.so or with sandbag's jitter.c; both come from
 * `sandbag jitter api DIR`. All calls are for the thread that makes them.
 */
#ifndef SANDBAG_JITTER_H
#define SANDBAG_JITTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a thread has suffered so far. Times in nanoseconds. */
struct sandbag_jitter_report {
    uint64_t injected;     /* events */
    uint64_t asked_ns;     /* their lengths together */
    uint64_t taken_ns;     /* what they took */
    uint64_t too_short;    /* not injected: shorter than an injection costs */
    uint64_t passed;       /* not injected: the thread did not run then */
    uint64_t merged;       /* injected, without the gap before */
    uint64_t start_ns;     /* median of how much too late events began */
    uint64_t length_ns;    /* median of how much too long events were */
};

/*
 * Begins. 1: this thread suffers events from now on; 0: it does not (not
 * started by sandbag, or not meant by --only). Calling it again is harmless.
 * Where the library was preloaded the initial thread has begun already.
 */
int sandbag_jitter_init(void);

/*
 * Suffers what is due; for plans that are polled, else nothing. Call it as
 * often as events are to be exact. Returns how long it took, 0 mostly.
 */
uint64_t sandbag_jitter_poll(void);

/*
 * The compute part of phase `phase` begins. Where the plan synchronises phases
 * all ranks begin at the same random position of the trace.
 */
void sandbag_jitter_phase(uint64_t phase);

/*
 * What was suffered so far, in the first `size` bytes of a report. 1 if there
 * is anything to report, else 0 and all of it is 0.
 */
int sandbag_jitter_report(struct sandbag_jitter_report *report, size_t size);

#ifdef __cplusplus
}
#endif

#endif
