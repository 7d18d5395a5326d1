#!/usr/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# PID 1 of a bare guest: mounts, the group controllers, the scenario, the end.

/usr/bin/busybox --install -s /usr/bin
export PATH=/usr/bin:/usr/sbin HOME=/root

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo '+cpu +cpuset' > /sys/fs/cgroup/cgroup.subtree_control
# The first cpuset and the first cap, before there is a second CPU (see run.sh).
mkdir /sys/fs/cgroup/keep
echo 0 > /sys/fs/cgroup/keep/cpuset.cpus
echo '100000 100000' > /sys/fs/cgroup/keep/cpu.max

sh /usr/lib/sandbag-guest/run.sh
poweroff -f
