/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The plan file: what sandbag asks of the processes of a program, and where
 * they book what came of it. The Rust side is crates/jitter/src/inside/layout.rs;
 * a test holds the two against each other.
 *
 * Flat and mapped as it is: native byte order, all times in nanoseconds of
 * CLOCK_MONOTONIC. Everything before `shared_at` is written before the program
 * starts and is mapped for reading only.
 */
#ifndef SANDBAG_PLAN_H
#define SANDBAG_PLAN_H

#include <stdint.h>

#define PLAN_MAGIC "SBINSIDE"
#define PLAN_VERSION 1
#define PLAN_HEADER 4096
#define PLAN_PAGE 4096
/* Pages are that long on some machines, and a mapping begins with one. */
#define PLAN_ALIGN 65536
#define PLAN_ONLY 1024
/* Most slots; the owners fill a page. */
#define PLAN_SLOTS 1024
#define PLAN_BUCKETS 320

enum plan_flags {
    PLAN_PER_THREAD = 1,     /* each thread, not only the initial one */
    PLAN_LOOP = 2,           /* a portion begins again when it has ended */
    PLAN_POLLED = 4,         /* no timers: only those that poll suffer */
    PLAN_NO_FORK = 8,        /* a forked child suffers nothing */
    PLAN_FROM_START = 16,    /* due times count from the process's start */
    PLAN_ONLY_RANKS = 32,    /* only processes that have a rank */
    PLAN_KNOWN = 63,
};

struct plan_header {
    char magic[8];
    uint32_t version;
    uint32_t header_size;
    uint64_t size;              /* of the whole file */
    uint64_t begin_ns;          /* when due times count from */
    uint64_t seed;
    uint64_t overhead_ns;       /* of an injection, beside what it spins */
    uint64_t least_gap_ns;      /* what comes sooner is merged */
    uint64_t late_ns;           /* who is later was not there */
    uint64_t longest_ns;        /* no event is longer */
    uint32_t flags;
    uint32_t supervisor;        /* process that must live; 0: none */
    uint32_t portions;
    uint32_t ranked;            /* portions that are for ranks */
    uint32_t slots;
    uint32_t signal;            /* 0: the library chooses */
    uint64_t phase_every;       /* 0: phases change nothing */
    uint64_t portions_at;
    uint64_t events_at;
    uint64_t events;
    uint64_t shared_at;
    uint64_t filters;           /* seccomp filters on sandbag itself */
    uint64_t exit_ns;           /* of the overhead, the way back to the program */
    uint64_t lead_ns;           /* the program is interrupted so much before the timer is due */
    uint64_t on_time_ns;        /* so late is the timer, which interrupted the program before */
    uint64_t away_ns;           /* a later start is not due to the timer; 0: unknown */
    uint32_t columns;           /* ranks have them in turn; 0: the portions */
    uint32_t group;             /* ranks with a common offset; 0: all */
    uint64_t cpus;              /* online; the largest number: unknown */
    char pid_namespace[32];     /* what /proc/self/ns/pid says to sandbag */
    char only_names[PLAN_ONLY]; /* of programs, each ended by '\n'; none: all */
    char only_ranks[PLAN_ONLY]; /* a bit per rank; none set: all */
    char reserved[PLAN_HEADER - 224 - 2 * PLAN_ONLY - 8];
    uint64_t check;             /* FNV-1a of all before it */
};

/* A stretch of what was recorded of a CPU, around its end. */
struct plan_portion {
    uint64_t first, count;      /* the events of that CPU, all of them */
    uint64_t axis_ns;           /* how long it was recorded */
    uint64_t offset_ns;         /* where the stretch begins; below axis_ns */
    uint64_t length_ns;         /* of the stretch; at most axis_ns */
};

struct plan_event {
    uint64_t due_ns, length_ns;
};

enum plan_ended {
    ENDED_NOT = 0,
    ENDED_EXIT,                 /* exit(), or the thread's end */
    ENDED_EXHAUSTED,            /* the portion is used up */
    ENDED_CONFLICT,             /* the program wants the signal for itself */
    ENDED_SECCOMP,              /* the program forbids system calls */
    ENDED_STOPPED,              /* sandbag said so, or is gone */
    ENDED_TIMER,                /* the kernel refused to arm the timer */
    ENDED_SHORT,                /* no event of the portion is longer than the overhead */
};

enum plan_counter {
    INJECTED,                   /* events */
    ASKED_NS,                   /* their lengths together */
    TAKEN_NS,                   /* what they took, the overhead included */
    SHORT,                      /* not injected: shorter than the overhead */
    MERGED,                     /* of the injected: the gap before it was too short */
    BEHIND,                     /* of the injected: due while the one before was served */
    CUT,                        /* of the injected: only what was left of it */
    PASSED,                     /* not injected: over before the program ran again; with
                                   those of ROUNDS */
    INVALID,                    /* not injected: the plan is wrong here */
    EARLY,                      /* signals before their time */
    WAITS,                      /* interrupted waits that were taken up again */
    PHASES,                     /* phases that reset the position */
    ROUNDS,                     /* rounds of the portion that were passed over */
    AWAY,                       /* of the injected: late, and neither merged nor behind */
    COUNTERS = 16,
};

/* What a process, or a thread, books; one page, written by its owner only. */
struct plan_slot {
    uint32_t pid, tid;
    int32_t rank;               /* -1: none */
    uint32_t portion;
    uint32_t ended;             /* enum plan_ended */
    uint32_t signal;
    char name[16];
    uint64_t base_ns;           /* when due times count from */
    uint64_t cpu_ns;            /* CPU time of the process that no other slot has */
    uint64_t counters[COUNTERS];
    uint64_t booked_ns;         /* when that was booked last; in `gone` for how long, and on
                                   how many CPUs, killed processes may have booked nothing */
    uint64_t due_ns;            /* when its next event is due, after which it is not silent */
    uint64_t process_ns;        /* CPU time of the process that was booked until then */
    uint64_t threads;           /* made in the process, without a slot of their own */
    char reserved1[1024 - 88 - 8 * COUNTERS];
    uint32_t start[PLAN_BUCKETS];   /* how much too late events began */
    uint32_t length[PLAN_BUCKETS];  /* how much too long they were */
    char reserved2[PLAN_PAGE - 1024 - 8 * PLAN_BUCKETS];
};

enum plan_refused {
    REFUSED_NO_SLOT,            /* all slots were taken by the living */
    REFUSED_NOT_MEANT,          /* --only */
    REFUSED_NO_SIGNAL,          /* all that would do are in use */
    REFUSED_NO_TIMER,           /* the kernel refused one */
    REFUSED_SECCOMP,            /* a filter that sandbag does not have */
    REFUSED_NO_STATE,           /* more threads than the library has room for */
    REFUSED = 16,
};

/* From `shared_at`: a page of counts, a page of owners, a slot that sums up
   those that were used again, then the slots. */
struct plan_shared {
    uint32_t stop;              /* sandbag: nothing more is to be injected */
    uint32_t sequence;          /* of those without a rank */
    uint32_t recycled;          /* slots summed up in `gone` */
    uint32_t early;             /* of these, whose jitter ended before the program */
    uint64_t refused[REFUSED];  /* processes or threads, by reason */
    uint64_t stopped_ns;        /* when `stop` was set */
    uint64_t paused_ns;         /* sum of all pauses that are over */
    uint64_t pause_ns;          /* when the present one began, less all pauses before it; 0:
                                   there is none */
    char reserved1[PLAN_PAGE - 40 - 8 * REFUSED];
    uint32_t owners[PLAN_SLOTS];    /* process, 0: free; the highest bit: gone */
    struct plan_slot gone;
};

#define OWNER_GONE 0x80000000u

_Static_assert(sizeof(struct plan_header) == PLAN_HEADER, "header");
_Static_assert(sizeof(struct plan_slot) == PLAN_PAGE, "slot");
_Static_assert(sizeof(struct plan_shared) == 3 * PLAN_PAGE, "shared");

#endif
