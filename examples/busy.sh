#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Keeps every CPU busy: one spinning process per CPU, for SECONDS.
seconds=${1:-30}
# timeout is out of the terminal's reach.
pids=
trap 'kill $pids 2>/dev/null; exit 130' INT TERM
for _ in $(seq "$(nproc)"); do
    timeout "$seconds" sh -c 'while :; do :; done' &
    pids="$pids $!"
done
wait
