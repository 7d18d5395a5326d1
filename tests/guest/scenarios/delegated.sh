# SPDX-License-Identifier: Apache-2.0 OR MIT
# An ordinary user in a group that root handed over: a load is held there, the
# command's exit status is passed on, and nothing is left, also after kill -9.

mine=/sys/fs/cgroup/mine
user=1000
mkdir "$mine" "$mine/shell" /run/user1000 out
for group in "$mine" "$mine/shell"; do
    chown $user:$user "$group" "$group/cgroup.procs" "$group/cgroup.subtree_control" \
        "$group/cgroup.threads"
done
chown $user:$user /run/user1000 out
chmod 700 /run/user1000
cd out || exit 1

# The user's shell steps aside, as docs/explanation/groups.md says. By its path, because
# busybox has a setpriv of its own that cannot do this.
as_user() {
    in_group mine/shell env XDG_RUNTIME_DIR=/run/user1000 \
        /usr/bin/setpriv --reuid $user --regid $user --clear-groups "$@"
}
# What is below the group, what it enabled, and the user's journals.
left() {
    { find "$mine" -mindepth 1 -type d; cat "$mine/cgroup.subtree_control"
      find /run/user1000 -type f; } | sed 's/.*/"&"/' | paste -sd , - | sed 's/.*/[&]/' |
        result "$1"
}

# Burners and guardians call themselves sandbag too.
ours() {
    grep -l '^sandbag' /proc/[0-9]*/cmdline 2> /dev/null | wc -l
}

left tree-before
as_user sandbag load 50 --cpus all -d 60s --cgroup "$mine" --out run -- spinner 5 all > left
echo "held: exit status $?"
result left-delegated < left
result run-delegated < run/run.json
as_user sandbag load 50 --cpus all -d 60s --cgroup "$mine" --no-out -q -- sh -c 'exit 7'
echo $? | result exit-status
as_user sandbag sweep --load 0,30 --speed 1,.5 --method pace --runs 1 --warm-up 0 --repeats 0 \
    --cpus all --cgroup "$mine" --out sweep -q -- sleep 1
echo $? | result sweep-status
left tree-after

as_user sandbag load 50 --cpus all -d 60s --cgroup "$mine" --no-out -q -- sleep 20 &
run=$!
supervisor=
for _ in 1 2 3 4 5 6 7 8 9 10; do
    supervisor=$(find "$mine" -name 'sandbag-*-cmd' | sed 's/.*sandbag-\(.*\)-cmd/\1/')
    [ -n "$supervisor" ] && break
    sleep 1
done
echo "killing $supervisor"
kill -9 "$supervisor"
wait "$run"
echo $? | result killed-status
# Its guardian undoes it; the emulator needs time for everything.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    sleep 1
    [ "$(ours)" = 0 ] && break
done
wait
ours | result processes-after-kill
left tree-after-kill
# Not handed over: the root of the tree.
as_user sandbag load 50 -d 1s --no-out
echo $? | result refused-status
