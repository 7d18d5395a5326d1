#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Prolog= of slurm.conf, root: a job starts on a node without changes that a crash left, for
# example after a kill of slurmd and all of its children. Does nothing to runs that are alive. It
# never fails: a failing prolog drains the node.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
sandbag=${SANDBAG:-/usr/bin/sandbag}
[ -x "$sandbag" ] && timeout 10 "$sandbag" -q restore >/dev/null 2>&1
exit 0
