# SPDX-License-Identifier: Apache-2.0 OR MIT
# Beside busy units under systemd: a replay, kill -9 of each of our processes
# at random moments, and what `sandbag restore` is for. After each, units,
# groups, their weights, sysctls and mounts must be as before.

# D-Bus is started by its first user, which must not look like our doing.
systemctl start dbus.service busy@1.service busy@2.service
sleep 1
killer before

# The levels differ, so the groups can be told apart by what they used.
cat > profile.csv <<'PROFILE'
time,cpu0,cpu1,cpu2,cpu3
0,30,60,20,50
2,50,20,80,35
60,end
PROFILE
cat > command <<'COMMAND'
used() {
    cut -d' ' -f1 /proc/uptime
    cat /sys/fs/cgroup/sandbag*.slice/cpu.stat | grep usage_usec | cut -d' ' -f2
}
sleep 2.5
used > used-before
spinner 5 all > left
used > used-after
COMMAND
sandbag replay profile.csv --out run -- sh command > said 2>&1
echo "replay: exit status $?"
cat said
result run-replay < run/run.json
result left-replay < left
# Percent of a CPU that each of the groups used, by the kernel's account.
paste -d' ' used-before used-after | awk '
    NR == 1 { seconds = $2 - $1 }
    NR > 1 { printf "%s%.2f", (NR > 2 ? "," : "["), ($2 - $1) / seconds / 1e4 }
    END { print "]" }' | result used-replay
killer compare replay

seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
echo "seed $seed"
killer rounds 3 "$seed"
killer both "$seed" restore
killer both "$seed" load 20 --cpus 0 -d 1s --no-out
