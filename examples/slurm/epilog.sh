#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Epilog= of slurm.conf, root: undoes what steps with --sandbag-load or --sandbag-speed left on
# this node because slurmstepd was killed. Does nothing after a job that ended as usual, and
# nothing to runs of other jobs. It never fails: a failing epilog drains the node.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
sandbag=${SANDBAG:-/usr/bin/sandbag}
[ -x "$sandbag" ] && [ -n "$SLURM_JOB_ID" ] || exit 0
# The plugin marks its runs by the number of the job.
for pid in $(timeout 5 "$sandbag" status 2>/dev/null | sed -n 's/^\([0-9]*\): .*/\1/p'); do
    if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "SANDBAG_SLURM_JOB=$SLURM_JOB_ID"; then
        timeout 8 "$sandbag" -q stop "$pid" >/dev/null 2>&1 || kill -9 "$pid" 2>/dev/null
    fi
done
# What is left of runs whose processes are all dead.
timeout 10 "$sandbag" -q restore >/dev/null 2>&1
exit 0
