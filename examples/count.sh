#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# A fixed amount of work: counts to COUNT and says how long that took. In a
# virtual node it says which one, and how fast the node was at the start.
count=${1:-4000000}
begin=$(date +%s%N)
n=0
while [ "$n" -lt "$count" ]; do
    n=$((n + 1))
done
ms=$((($(date +%s%N) - begin) / 1000000))
echo "${SANDBAG_NODE:-no node}: CPUs ${SANDBAG_NODE_CPUS:-all}," \
    "speed ${SANDBAG_NODE_SPEED:-1}, $ms ms"
