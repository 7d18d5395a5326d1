# SPDX-License-Identifier: Apache-2.0 OR MIT
# Virtual nodes of the first four CPUs at half their speed: what one spinner on
# each CPU, four on each, and one in all get. Then nodes of several speeds at once.

killer() { command killer --state machine.json "$@"; }
killer before

# in_node NAME "METHOD OPTIONS" WORKER...: the result is what the spinners say.
in_node() {
    name=$1
    method=$2
    shift 2
    # shellcheck disable=SC2086 # the options are words
    sandbag slow --cpus 0-3 --speed 0.5 --method $method --no-out -- \
        spinner 5 "$@" > got 2> said
    echo "$name: exit status $?"
    cat said
    result "got-$name" < got
}

for method in hogs pace quota; do
    in_node "$method-each" $method all
    in_node "$method-four-each" $method all all all all
done
# The longest period there is: emulated CPUs take turns of some milliseconds on
# few real ones, so their gaps cannot begin at the same moment.
for method in hogs pace rt; do
    in_node "$method-one" "$method --period 100ms" any
done
in_node quota-one "quota --period 100ms" any

# HPCC's figure 2: nodes of 75, 40, 60 and, where there are eight CPUs, 25 %. The
# longest period here, too: when all are busy an emulated CPU waits for longer than a
# burner's debts of 10 ms are kept.
node() { # NAME CORES SPEED
    cat >> nodes.toml <<NODE

[[node]]
name = "$1"
cores = $2
speed = "$3"
command = ["sh", "-c", "spinner 8 all > got-$1"]
NODE
    nodes="$nodes $1"
}
nodes=
printf '[defaults]\nperiod = "100ms"\n' > nodes.toml
node a 1 75%
node b 1 40%
node c 2 60%
[ "$(nproc)" -lt 8 ] || node d 4 25%
sandbag slow nodes.toml --no-out 2>&1
echo "several nodes: exit status $?"
for node in $nodes; do
    result "got-node-$node" < "got-$node"
done
killer compare nodes

# A container that runs already, as an engine without systemd makes it: it stays in its
# group, which is confined until the end, also after kill -9.
box=/sys/fs/cgroup/libpod-$(printf '0f1e2d3c4b5a6978%.0s' 1 2 3 4).scope
mkdir "$box"
sh -c "echo \$\$ > $box/cgroup.procs; exec sleep 3600" &
program=$!
all=$(cat /sys/fs/cgroup/cpuset.cpus.effective)
until_cpus() { # CPUS: what the container may use
    for _ in $(seq 300); do
        [ "$(cat "$box/cpuset.cpus.effective")" = "$1" ] && return
        sleep 0.1
    done
}
seen() { # NAME: its CPUs, those of its process, and how many processes are in it
    printf '["%s","%s",%s]' "$(cat "$box/cpuset.cpus.effective")" \
        "$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/$program/status)" \
        "$(wc -l < "$box/cgroup.procs")" | result "$1"
}
for way in stop kill; do
    sandbag slow --container 0f1e2d3c4b5a --cpus 0-1 --speed 0.5 --no-out 2> said &
    supervisor=$!
    until_cpus 0-1
    sleep 2
    seen "container-inside-$way"
    if [ $way = stop ]; then kill -TERM $supervisor; else kill -9 $supervisor; fi
    wait $supervisor
    until_cpus "$all"
    seen "container-after-$way"
    cat said
done
kill $program
wait
for _ in $(seq 50); do rmdir "$box" && break; sleep 0.1; done
killer compare container
