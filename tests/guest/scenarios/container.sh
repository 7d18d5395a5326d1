# SPDX-License-Identifier: Apache-2.0 OR MIT
# A container with a limit of 1.5 CPUs and a cgroup tree of its own, whose root
# is the group with the limit.

box=/sys/fs/cgroup/box
mkdir "$box"
echo '150000 100000' > "$box/cpu.max"

cat > inside <<'INSIDE'
# The tree of the machine, seen from a namespace in it, as an unprivileged pod sees it.
sandbag load 50 -d 1s --no-out -q
echo $? | result outside-status
umount /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
sandbag doctor 2> said-doctor | grep 'cpu limit' | sed 's/.*/"&"/' | result doctor-limit
# The processes of a container are in the root of its tree: no place for
# groups, unless they step aside, as in examples/ci/gitlab-ci.yml.
sandbag load 50 -d 1s --no-out -q
echo $? | result refused-status
find /sys/fs/cgroup -mindepth 1 -type d | wc -l | result groups-left
if [ -e /sys/fs/cgroup/cgroup.type ]; then
  mkdir /sys/fs/cgroup/job
  for pid in $(cat /sys/fs/cgroup/cgroup.procs); do
    echo "$pid" > /sys/fs/cgroup/job/cgroup.procs || true
  done
fi
sandbag load 80 --cpus 0 -d 5s -q --out one
echo "one CPU: exit status $?"
result run-one < one/run.json
sandbag load 60 --cpus all -d 5s -q --out all
echo "four CPUs: exit status $?"
result run-all < all/run.json
INSIDE
# By its path, because busybox's unshare knows no cgroup namespaces.
in_group box /usr/bin/unshare --cgroup --mount sh -c '. /usr/lib/sandbag-guest/lib.sh; . ./inside'
