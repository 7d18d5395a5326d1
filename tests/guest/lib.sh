# SPDX-License-Identifier: Apache-2.0 OR MIT
# What a scenario can use. It runs as root in a directory of its own, with busybox's or Debian's
# commands, `spinner`, and, where the host has one, `sandbag`.

# result NAME < JSON: hands a result to the host.
result() {
    printf '@result %s ' "$1"
    tr -d '\n'
    echo
}

# in_group GROUP COMMAND...: runs COMMAND in a group of the v2 tree.
in_group() (
    group=$1
    shift
    echo 0 > "/sys/fs/cgroup/$group/cgroup.procs" && exec "$@"
)

# file NAME: hands a file to the host (scripts/guest-results takes it).
file() {
    echo "@file $1"
    base64 "$1"
    echo "@done"
}

# The emulated counter is the host's, but QEMU does not say that it is one.
has_counter() {
    sed 's/^flags.*: /&constant_tsc nonstop_tsc /' /proc/cpuinfo > cpuinfo
    mount --bind "$PWD/cpuinfo" /proc/cpuinfo
}

# alive: says so every now and then. A guest that prints nothing for long is taken for
# one that hangs.
alive() {
    while sleep 30; do
        echo ...
    done
}
