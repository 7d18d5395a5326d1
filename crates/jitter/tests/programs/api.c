/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A program that suffers by asking: phases of work between which it asks.
 * `api PHASES`; prints how much it suffered.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sandbag_jitter.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int is_injected(void)
{
    struct sandbag_jitter_report report;
    sandbag_jitter_report(&report, sizeof report);
    return report.injected > 0;
}

int main(int n, char **words)
{
    int phases = n > 1 ? atoi(words[1]) : 10;
    int begun = sandbag_jitter_init();
    for (int phase = 0; phase < phases; phase++) {
        sandbag_jitter_phase((uint64_t)phase);
        for (double end = now() + 0.02; now() < end;)
            sandbag_jitter_poll();
    }
    /* The host may have had the CPU whenever an event was due. */
    for (double end = now() + 100; begun && !is_injected() && now() < end;)
        sandbag_jitter_poll();
    struct sandbag_jitter_report report;
    int any = sandbag_jitter_report(&report, sizeof report);
    printf("begun %d any %d injected %d asked %d\n", begun, any, report.injected > 0,
           report.asked_ns <= report.injected * 1000000);
    return 0;
}
