#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs the scenarios, each in a directory of its own, with their output on the second
# serial line, between the markers that the host looks for.

line=/dev/ttyS1
stty -F "$line" raw -echo
exec < /dev/null > "$line" 2>&1

# Until here there is one CPU (`maxcpus=1`), and the kernel has patched its code for
# all that sandbag will use of it: docs/testing.md says why.
{ patched /sys/fs/cgroup || echo failed; } > /run/patched &
until [ -s /run/patched ]; do sleep 0.1; done
grep -q ready /run/patched || exit 1
for cpu in /sys/devices/system/cpu/cpu[1-9]*; do
    echo 1 > "$cpu/online"
done

read -r up _ < /proc/uptime
echo "@begin $up"
for scenario in /usr/lib/sandbag-guest/scenarios/*; do
    directory=/tmp/${scenario##*/}
    mkdir "$directory" && cd "$directory" || exit 1
    (. /usr/lib/sandbag-guest/lib.sh && . "$scenario")
    echo "@end $?"
done
echo "@over"

# Setting a line waits until all that was written to it is out.
stty -F "$line" raw -echo
