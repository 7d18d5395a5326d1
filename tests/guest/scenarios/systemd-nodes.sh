# SPDX-License-Identifier: Apache-2.0 OR MIT
# A virtual node under systemd, and a program in it that outlives it: by the
# node's usual end, by kill -9 of its supervisor, and of its guardian as well.
# Wherever the program was taken from, it must be there again and may use every
# CPU; when it ends, too, all is as before.

systemctl start dbus.service busy@1.service
# Makes systemd enable the cpuset controller before sandbag does: PID 1 keeps
# what it has enabled.
systemd-run --quiet --unit=pinned -p AllowedCPUs=0-3 sleep 3600
systemd-run --quiet --unit=worker -p Restart=always -p AllowedCPUs=0-3 sleep 3600
sleep 1
killer() { command killer --state machine.json "$@"; }
killer before

# node METHOD: starts one and waits until it holds its speed.
node() {
    sandbag slow --cpus 0-1 --speed 0.5 --name small --method "$1" --no-out 2> said &
    supervisor=$!
    for _ in $(seq 300); do
        sandbag slow list 2> /dev/null | grep -q ^small && return
        sleep 0.1
    done
    cat said
    echo "no node by $1"
    exit 1
}

# enter: a program of three processes, in the node.
enter() {
    # shellcheck disable=SC2016 # for the inner shell
    sandbag slow exec small -- sh -c 'sleep 3600 & exec spinner 3600 any' > /dev/null &
    program=$!
    for _ in $(seq 300); do
        grep -q node /proc/$program/cgroup && break
        sleep 0.1
    done
    sleep 1
}

# place PID...: where processes are, what they may use, their states, as JSON.
place() {
    for pid in "$@"; do
        awk -v ORS= '
            /^0::/ { print comma "{\"group\":\"" substr($0, 4) "\"" }
            /^State:/ { print ",\"state\":\"" $2 "\"" }
            /^Cpus_allowed_list:/ { print ",\"cpus\":\"" $2 "\"}" }
        ' comma="$comma" "/proc/$pid/cgroup" "/proc/$pid/status"
        comma=,
    done
}

# family PID: it and all below it.
family() {
    echo "$1"
    for child in $(cat "/proc/$1/task/$1/children"); do
        family "$child"
    done
}

# look NAME: the program's processes and our units.
look() {
    comma=
    {
        echo '{"processes":['
        # shellcheck disable=SC2046 # the numbers are words
        place $(family $program)
        echo '],"units":['
        systemctl list-units --all --plain --no-legend 'sandbag*' |
            awk -v ORS= '{ print comma "\"" $1 "\""; comma = "," }'
        echo ']}'
    } | result "$1"
}

# The process ids of sandbag's guardians. One program for all of /proc: emulated, each
# takes .05 s to start. Its own argument does not match.
guardian() {
    grep -ls '__guardia[n]' /proc/[0-9]*/cmdline | cut -d / -f 3
}

# done_with NAME: until nothing of sandbag's runs; the program's end; all must
# be as before.
done_with() {
    for _ in $(seq 200); do
        [ -e /proc/$program ] && grep -q node /proc/$program/cgroup || break
        sleep 0.1
    done
    look "after-$1"
    # shellcheck disable=SC2046 # the numbers are words
    kill -9 $(family $program)
    wait
    killer compare "$1"
}

node hogs
sandbag slow set small --speed 0.3
sleep 1
sandbag slow exec small -- spinner 5 all | result got-set
enter
look inside
sandbag slow stop small
wait $supervisor
echo "stop: exit status $?"
done_with stop

for method in hogs lim gov; do
    node $method
    enter
    kill -9 $supervisor
    done_with "kill-$method"

    node $method
    enter
    kill -STOP $(guardian)
    kill -9 $supervisor
    kill -9 $(guardian)
    sandbag restore
    echo "restore: exit status $?"
    done_with "restore-$method"
done

# A unit that runs already stays where it is, and is confined until the end: also when it
# starts again meanwhile, and after kill -9. A process of it that was moved goes back.
worker=/sys/fs/cgroup/system.slice/worker.service
# until CPUS: what the unit may use.
until_cpus() {
    for _ in $(seq 300); do
        [ "$(cat $worker/cpuset.cpus.effective 2> /dev/null || echo 0-3)" = "$1" ] && return
        sleep 0.1
    done
}
# unit NAME: the processes of the unit, and what systemd keeps of its CPUs.
unit() {
    comma=
    {
        echo '{"processes":['
        # shellcheck disable=SC2046 # the numbers are words
        place $(cat $worker/cgroup.procs)
        echo '],"units":['
        find /run/systemd/system.control /run/systemd/transient/worker.service.d \
            -name '50-AllowedCPUs.conf' 2> /dev/null | sed 's/.*/"&"/' | paste -sd , -
        echo ']}'
    } | result "$1"
}
for way in stop kill; do
    sandbag slow --unit worker --cpus 0-1 --speed 0.5 --no-out 2> said &
    supervisor=$!
    until_cpus 0-1
    sandbag slow --unit worker --cpus 2 --speed 0.5 --no-out -d 1s
    echo $? | result "unit-second-$way"
    sleep 2
    systemctl restart worker
    sleep 2
    unit "unit-inside-$way"
    if [ $way = stop ]; then kill -TERM $supervisor; else kill -9 $supervisor; fi
    wait $supervisor
    until_cpus 0-3
    sleep 2
    unit "unit-after-$way"
    killer compare "unit-$way"
done
cat said
main=$(systemctl show -p MainPID --value worker)
sandbag slow --pid "$main" --cpus 0-1 --speed 0.5 --no-out -d 3s 2> said
echo "pid: exit status $?"
unit pid-after
killer compare pid

# --kill: nothing outlives it.
sandbag slow --cpus 0-1 --speed 0.5 --no-out --kill -- spinner 3600 any all &
supervisor=$!
sleep 3
kill -9 $supervisor
wait
killer compare kill-all
