# SPDX-License-Identifier: Apache-2.0 OR MIT
# For docs/results: the share that two spinners in a group of their own get, beside another
# group of the same weight with five spinners, and as soon as that group also has a task on
# each CPU that sleeps 1 ms at a time. No sandbag. Also by hand, as root:
#
#   PATH=target/x86_64-unknown-linux-gnu/debug:$PATH CGROUP=/sys/fs/cgroup/cpu \
#       sh tests/guest/results/weights.sh

groups=${CGROUP:-/sys/fs/cgroup}
uname -r
mkdir "$groups/competitor" "$groups/program"

# in_of GROUP WORKER...: spinners in that group, for six seconds.
in_of() (
    group=$1
    shift
    # Only here: older kernels forget the CPUs of a task that enters a group with a cpuset.
    echo 0 > "$groups/$group/cgroup.procs" && exec ${on_cpu:+taskset "$on_cpu"} spinner 6 "$@"
)

# say WHAT: what the competitor got.
say() {
    echo "round $round, $1: the competitor got, % of each CPU:" \
        $(grep -o '"spun_pct":[0-9.]*' competitor.json | cut -d: -f2 | cut -c1-5)
}

for round in 1 2 3; do
    for others in "" sleepers; do
        # shellcheck disable=SC2086 # none is no word
        in_of program any any any any any $others > program.json &
        in_of competitor all > competitor.json
        wait
        say "${others:-no sleepers}"
    done
    # On one CPU no group's weight there depends on other CPUs, so that none changes
    # when a task wakes up.
    on_cpu=1
    in_of program any any any sleepers > program.json &
    in_of competitor 0 > competitor.json
    wait
    say "sleepers, all on CPU 0"
    on_cpu=
done
rm -f program.json competitor.json
rmdir "$groups/competitor" "$groups/program"
