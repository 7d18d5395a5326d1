# SPDX-License-Identifier: Apache-2.0 OR MIT
# Beside busy units under systemd: a replay, kill -9 of each of our processes
# at random moments, and what `sandbag restore` is for. After each, units,
# groups, their weights, sysctls and mounts must be as before.

# D-Bus is started by its first user, which must not look like our doing.
systemctl start dbus.service busy@1.service busy@2.service
sleep 1
killer() { command killer --state machine.json "$@"; }
killer before

cat > profile.csv <<'PROFILE'
time,cpu0,cpu1,cpu2,cpu3
0,30,60,20,50
2,50,20,80,35
60,end
PROFILE
cat > command <<'COMMAND'
# Of each slice its CPU, the number between c and n in its name (a CPU may have several),
# when it was read, and its use. Read by the shell itself: where a CPU is busy, starting
# a program takes tenths of a second.
used() {
    for slice in /sys/fs/cgroup/sandbag*.slice; do
        read -r _ usage < "$slice/cpu.stat"
        read -r up _ < /proc/uptime
        echo "$slice $up $usage"
    done | sed 's/.*c\([0-9]*\)n[0-9]*\.slice .*/\1 &/'
}
sleep 2.5
used > used-before
spinner 25 all > left
used > used-after
COMMAND
sandbag replay profile.csv --out run -- sh command > said 2>&1
echo "replay: exit status $?"
cat said
result run-replay < run/run.json
result left-replay < left
cat used-before used-after
# Percent of its CPU that each burner's groups used, by the kernel's account. One that
# was not there yet (a CPU gets another where one group cannot carry its weight) has
# used nothing before.
awk '
    FNR == NR { up[$2] = begun[$1] = $3; usage[$2] = $4; next }
    { used[$1] += ($4 - usage[$2]) / ($3 - ($2 in up ? up[$2] : begun[$1])) }
    END {
        for (cpu = 0; cpu < 4; cpu++)
            printf "%s%.2f", (cpu ? "," : "["), used[cpu] / 1e4
        print "]"
    }' used-before used-after | result used-replay
killer compare replay

seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
echo "seed $seed"
killer rounds 2 "$seed"
killer both "$seed" restore
# That it undoes is looked at, not how well an emulated second is held.
killer both "$seed" load 20 --cpus 0 -d 1s --no-out --tolerance 100,100
systemctl stop busy@1.service busy@2.service
