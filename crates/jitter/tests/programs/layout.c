/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Says where everything in a plan file lies, as C sees it. */
#include <stddef.h>
#include <stdio.h>

#include "plan.h"

#define FIELD(structure, field) \
    printf(#structure "." #field " %zu %zu\n", offsetof(struct plan_##structure, field), \
           sizeof ((struct plan_##structure *)0)->field)
#define NUMBER(name) printf(#name " %llu\n", (unsigned long long)(name))

int main(void)
{
    FIELD(header, magic);
    FIELD(header, version);
    FIELD(header, header_size);
    FIELD(header, size);
    FIELD(header, begin_ns);
    FIELD(header, seed);
    FIELD(header, overhead_ns);
    FIELD(header, least_gap_ns);
    FIELD(header, late_ns);
    FIELD(header, longest_ns);
    FIELD(header, flags);
    FIELD(header, supervisor);
    FIELD(header, portions);
    FIELD(header, ranked);
    FIELD(header, slots);
    FIELD(header, signal);
    FIELD(header, phase_every);
    FIELD(header, portions_at);
    FIELD(header, events_at);
    FIELD(header, events);
    FIELD(header, shared_at);
    FIELD(header, filters);
    FIELD(header, exit_ns);
    FIELD(header, lead_ns);
    FIELD(header, on_time_ns);
    FIELD(header, pid_namespace);
    FIELD(header, only_names);
    FIELD(header, only_ranks);
    FIELD(header, reserved);
    FIELD(header, check);
    FIELD(portion, first);
    FIELD(portion, count);
    FIELD(portion, axis_ns);
    FIELD(portion, offset_ns);
    FIELD(portion, length_ns);
    FIELD(event, due_ns);
    FIELD(event, length_ns);
    FIELD(slot, pid);
    FIELD(slot, tid);
    FIELD(slot, rank);
    FIELD(slot, portion);
    FIELD(slot, ended);
    FIELD(slot, signal);
    FIELD(slot, name);
    FIELD(slot, counters);
    FIELD(slot, start);
    FIELD(slot, length);
    FIELD(shared, stop);
    FIELD(shared, recycled);
    FIELD(shared, refused);
    FIELD(shared, owners);
    FIELD(shared, gone);
    printf("portion %zu\nevent %zu\nslot %zu\nshared %zu\n", sizeof(struct plan_portion),
           sizeof(struct plan_event), sizeof(struct plan_slot), sizeof(struct plan_shared));
    NUMBER(PLAN_VERSION);
    NUMBER(PLAN_HEADER);
    NUMBER(PLAN_ALIGN);
    NUMBER(PLAN_ONLY);
    NUMBER(PLAN_SLOTS);
    NUMBER(PLAN_BUCKETS);
    NUMBER(PLAN_PER_THREAD);
    NUMBER(PLAN_LOOP);
    NUMBER(PLAN_POLLED);
    NUMBER(PLAN_NO_FORK);
    NUMBER(PLAN_FROM_START);
    NUMBER(PLAN_ONLY_RANKS);
    NUMBER(OWNER_GONE);
    NUMBER(COUNTERS);
    NUMBER(REFUSED);
    puts(PLAN_MAGIC);
    return 0;
}
