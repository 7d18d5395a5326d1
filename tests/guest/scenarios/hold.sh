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

# hold NAME "METHOD OPTIONS" COMMAND...: the load ends with the command, which
# measures; the time given is only a bound.
hold() {
    name=$1
    method=$2
    shift 2
    # shellcheck disable=SC2086 # the options are words
    sandbag load 50 --cpus all -d 60s --method $method --out "run-$name" -- "$@" \
        > "left-$name" 2> "said-$name"
    echo "$name: exit status $?"
    cat "said-$name"
    result "left-$name" < "left-$name"
    result "run-$name" < "run-$name/run.json"
}

# 25 s where a load has to be held on each CPU: the host takes one emulated CPU or
# another away for some tenths of a second, which is a tenth of five seconds.
hold pace pace spinner 25 all
hold quota quota spinner 25 all
# The same with a period that emulated timers do not miss; docs/testing.md has
# what was measured.
hold quota-200ms "quota --period 200ms" spinner 25 all
hold shares shares spinner 5 all

# The spinners leave sandbag's group for the root group: a load is held
# against tasks outside all our groups too.
hold pace-outside pace sh -c 'echo 0 > /sys/fs/cgroup/cgroup.procs && exec spinner 25 all'
