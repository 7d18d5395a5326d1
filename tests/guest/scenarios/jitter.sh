# SPDX-License-Identifier: Apache-2.0 OR MIT
# Who took CPU 1 from the loop, by the kernel's trace events, with and without
# tracefs mounted; what is left; and the same by the kernel's own osnoise tracer,
# imported.

# The emulated counter is the host's, but QEMU does not say that it is one.
sed 's/^flags.*: /&constant_tsc nonstop_tsc /' /proc/cpuinfo > cpuinfo
mount --bind "$PWD/cpuinfo" /proc/cpuinfo

spinner 12 1 > spun &
sleep 2
sandbag jitter record --attribute tracefs --cpus 1 -d 4s -o unmounted.sbj
echo $? | result status-unmounted
sandbag jitter show --json unmounted.sbj | result unmounted
sandbag jitter show unmounted.sbj

mount -t tracefs tracefs /sys/kernel/tracing
sandbag jitter record --attribute tracefs --cpus 1 -d 4s -o mounted.sbj
echo $? | result status-mounted
sandbag jitter show --json mounted.sbj | result mounted
ls /sys/kernel/tracing/instances | wc -l | result instances-left
wait

# An ordinary user: counts.
chmod 777 .
/usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups \
    sandbag jitter record --cpus 1 -d 1s -o user.sbj 2> said-user
echo $? | result status-user
sandbag jitter show --json user.sbj | result user
cat said-user

sandbag jitter record --attribute tracefs --cpus 1 -d 60s -o killed.sbj -q &
sleep 4
kill -9 $!
wait
ls /sys/kernel/tracing/instances | wc -l | result instances-killed
sandbag restore -q
ls /sys/kernel/tracing/instances | wc -l | result instances-restored

# The kernel's own tracer beside a spinner, on CPU 1.
spinner 8 1 > spun &
sleep 2
cd /sys/kernel/tracing || exit 1
echo 1 > osnoise/cpus
echo 1 > events/osnoise/enable
echo osnoise > current_tracer
sleep 4
echo 0 > tracing_on
cat trace > /tmp/osnoise.txt
echo nop > current_tracer
cd /tmp || exit 1
wait
head -c 12000 osnoise.txt
sandbag jitter show --json osnoise.txt | result osnoise
