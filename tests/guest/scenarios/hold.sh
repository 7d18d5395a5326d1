# SPDX-License-Identifier: Apache-2.0 OR MIT
# 50 % of each CPU by each method, against one pinned spinner per CPU.
# For each: what was left for the spinners, and what sandbag says it took.

# hold NAME "METHOD OPTIONS" COMMAND...: the load ends with the command, which
# measures for five seconds; the time given is only a bound.
hold() {
    name=$1
    method=$2
    shift 2
    # shellcheck disable=SC2086 # the options are words
    sandbag load 50 --cpus all -d 30s --method $method --out "run-$name" -- "$@" \
        > "left-$name" 2> "said-$name"
    echo "$name: exit status $?"
    cat "said-$name"
    result "left-$name" < "left-$name"
    result "run-$name" < "run-$name/run.json"
}

hold pace pace spinner 5 all
# Emulated timers are late by whole periods of 20 ms, and what is not refilled
# in time is lost.
hold quota "quota --period 200ms" spinner 5 all
hold shares shares spinner 5 all

# The spinners leave sandbag's group for the root group: a load is held
# against tasks outside all our groups too.
hold pace-outside pace sh -c 'echo 0 > /sys/fs/cgroup/cgroup.procs && exec spinner 5 all'
