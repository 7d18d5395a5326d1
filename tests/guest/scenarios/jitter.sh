# SPDX-License-Identifier: Apache-2.0 OR MIT
# Who took CPU 1 from the loop, by the kernel's trace events, with and without
# tracefs mounted, and what is left. Not by the kernel's own osnoise tracer: Debian's
# cloud kernel has none (available_tracers: blk mmiotrace function_graph function nop).

has_counter

spinner 12 1 > spun &
sleep 2
sandbag jitter record --attribute tracefs --cpus 1 -d 4s -o unmounted.sbj
echo $? | result status-unmounted
wait
# --brief: what comes in periods takes long to find on an emulated CPU.
sandbag jitter show --brief --json unmounted.sbj | result unmounted
sandbag jitter show --brief unmounted.sbj

mount -t tracefs tracefs /sys/kernel/tracing
spinner 12 1 > spun &
sleep 2
sandbag jitter record --attribute tracefs --cpus 1 -d 4s -o mounted.sbj
echo $? | result status-mounted
wait
sandbag jitter show --brief --json mounted.sbj | result mounted
ls /sys/kernel/tracing/instances | wc -l | result instances-left

# An ordinary user: counts.
chmod 777 .
/usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups \
    sandbag jitter record --cpus 1 -d 1s -o user.sbj 2> said-user
echo $? | result status-user
sandbag jitter show --brief --json user.sbj | result user
cat said-user

sandbag jitter record --attribute tracefs --cpus 1 -d 60s -o killed.sbj -q &
sleep 4
ls /sys/kernel/tracing/instances | wc -l | result instances-running
kill -9 $!
wait
# Its guardian may be undoing it: that is waited for.
sandbag restore -q
ls /sys/kernel/tracing/instances | wc -l | result instances-restored
