# SPDX-License-Identifier: Apache-2.0 OR MIT
# For docs/results: the jitter of this kernel with nothing beside it and with what
# daemons do, a replay of the first, and how well it is reproduced.

has_counter
alive &
alive=$!
mount -t tracefs tracefs /sys/kernel/tracing
# An emulator's instructions take any time up to a microsecond, millions of them in a
# second: that is no jitter of this kernel.
record="sandbag jitter record --cpus all -d 60s --threshold 2us -q"
$record -o quiet.sbj

# Awake ten and twenty times a second for a little, as daemons are.
(while :; do ls -lR /sys/class/tty > /dev/null; sleep .1; done) &
daemons=$!
(while :; do dd if=/dev/zero of=some bs=16k count=8 2> /dev/null; sleep .05; done) &
daemons="$daemons $!"
sleep 2
$record -o busy.sbj
kill $daemons

echo "\$ sandbag jitter replay quiet.sbj --share 1 -d 30s"
sandbag jitter replay quiet.sbj --share 1 -d 30s --no-out 2>&1
echo
echo "\$ sandbag jitter verify quiet.sbj -d 10s --scale-factor 3"
sandbag jitter verify quiet.sbj -d 10s --scale-factor 3 -q 2>&1
kill $alive
file quiet.sbj
file busy.sbj
