/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What jitter.c offers to preload.c. Nothing of it is exported. */
#ifndef SANDBAG_JITTER_INTERNAL_H
#define SANDBAG_JITTER_INTERNAL_H

#include <signal.h>
#include <stdint.h>

#include "plan.h"

/* A thread that suffers. Threads of more than this many are left alone. */
#define SBJ_STATES 1024

struct sbj_state {
    int used;                   /* atomic */
    volatile int active;        /* the handler is to do something */
    volatile int busy;          /* the position is being changed */
    volatile unsigned long interrupted; /* how often by us */
    volatile unsigned long foreign;     /* how often by signals of the program */
    int timer;                  /* of the kernel; -1: none */
    uint32_t tid;
    int rank;
    struct plan_portion portion;
    uint64_t index;             /* of the next event */
    uint64_t lap_ns;            /* axis behind it because its end was passed */
    uint64_t base_ns;           /* when the stretch began */
    uint64_t paused_ns;         /* of all pauses, by which it was put off */
    uint64_t due_ns;            /* when the next event is due; 0: none */
    uint64_t skipped;           /* short events on the way there, not counted yet */
    uint64_t counted_ns;        /* short events that were due before are counted */
    uint64_t last_ns;           /* the last reading of the clock within an event */
    uint64_t last_due_ns;       /* when that was due */
    struct plan_slot *slot;
    void *(*routine)(void *);
    void *argument;
};

/* The thread's own, where it has one. In static thread storage, for what is
   allocated at the first use must not be touched in a signal handler. */
extern __thread struct sbj_state *sbj_mine __attribute__((tls_model("initial-exec")));

/* The signal in use; 0 while there is none. */
extern volatile int sbj_signal;

int sbj_load(void);             /* reads the plan; 1: there is one for this process */
int sbj_per_thread(void);
int sbj_polled(void);
int sbj_own_process(void);
void sbj_waited_again(struct sbj_state *state);
struct sbj_state *sbj_reserve(void);
void sbj_release(struct sbj_state *state);
int sbj_begin(struct sbj_state *state, int initial);
void sbj_end(struct sbj_state *state, enum plan_ended why);
void sbj_thread_ends(struct sbj_state *state);
void sbj_thread_made(void);
void sbj_retire(enum plan_ended why);   /* all threads, for good */
void sbj_forked(void);          /* in the child */
void sbj_exiting(void);
uint64_t sbj_now(void);
uint64_t sbj_mix(uint64_t value);
uint64_t sbj_draw(uint64_t seed, uint64_t stream, uint64_t n, uint64_t axis);
uint32_t sbj_portion_of(const struct plan_header *head, const struct plan_portion *all,
                        uint32_t rank, struct plan_portion *portion);
uint64_t sbj_last_ns(void);
uint64_t sbj_last_due_ns(void);

/* What the library itself calls where preload.c stands in front of it. */
#ifdef SANDBAG_JITTER_PRELOAD
int sbj_real_sigaction(int, const struct sigaction *, struct sigaction *);
int sbj_real_sigprocmask(int, const sigset_t *, sigset_t *);
long sbj_real_syscall(long, ...);
void *sbj_find(const char *);   /* the first of that name in the process */
int sbj_is_first(void);
#else
#define sbj_real_sigaction sigaction
#define sbj_real_sigprocmask sigprocmask
#define sbj_real_syscall syscall
#endif

#endif
