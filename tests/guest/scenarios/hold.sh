# SPDX-License-Identifier: Apache-2.0 OR MIT
# 50 % of each CPU, against one pinned spinner per CPU: by the published groups
# made by hand, then by each of sandbag's methods. For each: what was left for
# the spinners, and what sandbag says it took.

# Without sandbag: one group per burner, one base group for everything else,
# equal weights. The kernel divides the base group's weight over the CPUs on
# which it is busy, so each burner gets N / (N + 1) of its CPU instead of the
# half: .80 on four CPUs.
groups=/sys/fs/cgroup
mkdir "$groups/base"
for cpu in $(seq 0 $(($(nproc) - 1))); do
    mkdir "$groups/burn$cpu"
    in_group "burn$cpu" spinner 600 "$cpu" > "burner$cpu" &
done
sleep 1
in_group base spinner 5 all | result left-by-hand
for group in "$groups"/burn*; do
    echo 1 > "$group/cgroup.kill"
done
wait
rmdir "$groups/base" "$groups"/burn*

# hold NAME CPUS "METHOD OPTIONS" COMMAND...: the load ends with the command, which
# measures; the time given is only a bound.
hold() {
    name=$1
    cpus=$2
    method=$3
    shift 3
    # shellcheck disable=SC2086 # the options are words
    sandbag load 50 --cpus "$cpus" -d 60s --method $method --out "run-$name" -- "$@" \
        > "left-$name" 2> "said-$name"
    echo "$name: exit status $?" >> "said-$name"
}
# held NAME...: hands the results over.
held() {
    for name in "$@"; do
        cat "said-$name"
        result "left-$name" < "left-$name"
        result "run-$name" < "run-$name/run.json"
    done
}

# Two at once, on half of the CPUs each. 25 s where a load has to be held on each CPU: the
# host takes one emulated CPU or another away for some tenths of a second, which is a
# tenth of five seconds.
half=$(($(nproc) / 2))
low=0-$((half - 1))
high=$half-$(($(nproc) - 1))
low_ones=$(seq 0 $((half - 1)))
high_ones=$(seq $half $(($(nproc) - 1)))

# The second spinners leave sandbag's group for the root group: a load is held against
# tasks outside all our groups too.
# shellcheck disable=SC2086 # the CPUs are words
hold pace "$low" pace spinner 25 $low_ones &
# shellcheck disable=SC2016,SC2086 # the inner shell's own; the CPUs are words
hold pace-outside "$high" pace sh -c 'echo 0 > /sys/fs/cgroup/cgroup.procs && exec spinner 25 "$@"' - $high_ones &
wait
held pace pace-outside

# The second with a period that emulated timers do not miss; docs/testing.md has what was
# measured.
# shellcheck disable=SC2086 # the CPUs are words
hold quota "$low" quota spinner 25 $low_ones &
# shellcheck disable=SC2086 # the CPUs are words
hold quota-200ms "$high" "quota --period 200ms" spinner 25 $high_ones &
wait
held quota quota-200ms

hold shares all shares spinner 5 all
held shares
