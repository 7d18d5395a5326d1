#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# How examples/database-and-compiler.json was recorded: sysstat watches each
# CPU for 150 s while a database serves clients at a rate that changes every
# 30 s (CPU 0) and a compiler works through a C library, file by file, with the
# pauses of somebody who edits in between (CPU 1). Needs root, sysstat,
# postgresql, gcc, and a directory of C files. Nothing else should run.
set -eu
sources=${1:?usage: record-example.sh DIRECTORY-OF-C-FILES OUT.json}
out=${2:?usage: record-example.sh DIRECTORY-OF-C-FILES OUT.json}
work=$(mktemp -d)
pg=$(echo /usr/lib/postgresql/*/bin)
chown postgres "$work"
as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
finish() {
    kill %2 %3 2>/dev/null || true
    as "$pg/pg_ctl" -D "$work/db" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT
as "$pg/initdb" -D "$work/db" >/dev/null
as taskset -c 0 "$pg/pg_ctl" -w -D "$work/db" -o "-k $work -h '' -c fsync=off" -l "$work/log" start >/dev/null
as "$pg/pgbench" -h "$work" -i -s 10 postgres >/dev/null 2>&1
LC_ALL=C /usr/lib/sysstat/sadc 1 151 "$work/sa" &
(
    for rate in 500 1400 800 2000 300; do
        as taskset -c 0 "$pg/pgbench" -h "$work" -c 4 -R "$rate" -T 30 -n postgres >/dev/null 2>&1
    done
) &
(
    while :; do
        for file in $(find "$sources" -name '*.c' | sort); do
            taskset -c 1 gcc -O2 -I"$sources" -I"$(dirname "$file")" -c "$file" -o "$work/o" 2>/dev/null || true
            sleep "0.$((RANDOM % 6))"
        done
    done
) &
wait %1
LC_ALL=C sadf -j "$work/sa" -- -u ALL -P ALL >"$out"
