# SPDX-License-Identifier: Apache-2.0 OR MIT
# An ordinary user in a unit that systemd delegates to him (Delegate=yes): a
# load is held in its group, and the group is as before afterwards.

cat > /run/delegated.sh <<'UNIT'
own=/sys/fs/cgroup$(cut -d: -f3- /proc/self/cgroup)
cd "$RUNTIME_DIRECTORY" || exit 1
export XDG_RUNTIME_DIR=$RUNTIME_DIRECTORY
# The group must hold no process; docs/explanation/groups.md.
mkdir "$own/shell" && echo $$ > "$own/shell/cgroup.procs" || exit 1
left() {
    { find "$own" -mindepth 1 -type d; cat "$own/cgroup.subtree_control"
      find "$XDG_RUNTIME_DIR" -name '*.journal'; } > "$1"
}
left before
sandbag load 50 --cpus all -d 60s --cgroup "$own" --out run -- spinner 5 all > held
echo "exit status $?" > status
left after
cp run/run.json run.json
chmod a+r ./*
UNIT
systemd-run --quiet --wait --collect -p Delegate=yes -p User=nobody \
    -p RuntimeDirectory=delegated -p RuntimeDirectoryPreserve=yes \
    -E PATH="$PATH" sh /run/delegated.sh
echo "unit: exit status $?"
cd /run/delegated || exit 1
cat status
result left-delegated < held
result run-delegated < run.json
diff before after > difference
awk '{ printf "%s\"%s\"", (NR > 1 ? "," : "["), $0 } END { print NR ? "]" : "[]" }' difference |
    result difference
