# SPDX-License-Identifier: Apache-2.0 OR MIT
# sandbag's collector beside the kernel's own osnoise tracer, on CPU 1 in turn: through
# Debian's rtla (a histogram), and as the tracer's own text (events with their causes).
# Debian has the tracer in its real-time kernel only.

has_counter
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
tracing=/sys/kernel/tracing
grep -ow osnoise $tracing/available_tracers

# What is shorter than this depends on the loop that looks: on an emulated CPU the two
# take different times for a pass.
from_us=100
for turn in 1 2 3; do
    sandbag jitter record --attribute none --cpus 1 -d 6s -q --force -o ours.sbj
    sandbag jitter show --brief --json --above ${from_us}us ours.sbj | result "ours-$turn"

    rtla osnoise hist --cpus 1 --duration 6s --bucket-size 5 --entries 9999 > rtla.txt
    echo $? | result "rtla-status-$turn"
    # Rows of buckets: where it begins, how many.
    awk -v from=$from_us '
        $1 ~ /^[0-9]+$/ && $1 >= from { count += $2; us += $1 * $2 }
        $1 == "over:" { count += $2; us += 50000 * $2 }
        END { printf "{\"rate_per_s\":%f,\"noise_pct\":%f}", count / 6, us / 6e4 }' rtla.txt |
        result "rtla-$turn"
    sandbag jitter show rtla.txt
    sandbag jitter compare --above ${from_us}us ours.sbj rtla.txt
done

# The tracer by itself, with the events that say who it was.
echo 1 > $tracing/osnoise/cpus
echo 1 > $tracing/events/osnoise/enable
echo osnoise > $tracing/current_tracer
sleep 3
echo 0 > $tracing/tracing_on
cat $tracing/trace > osnoise.txt
echo nop > $tracing/current_tracer
echo 0 > $tracing/events/osnoise/enable
sandbag jitter convert osnoise.txt -o osnoise.sbj
echo $? | result status-converted
sandbag jitter show --brief --json osnoise.sbj | result traced
sandbag jitter show --brief osnoise.sbj
