# SPDX-License-Identifier: Apache-2.0 OR MIT
# Linpack (hpcc's HPL, with the rest of its suite at its smallest) on all CPUs,
# again and again for SECONDS; each run's residuals are checked.
# linpack.sh DIRECTORY SECONDS RANKS; the directory has hpccinf.txt
cd "$1" || exit 1
begin=$(date +%s.%N)
end=$(($(date +%s) + $2))
runs=0
while [ "$(date +%s)" -lt "$end" ]; do
    rm -f hpccoutf.txt
    mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$3" hpcc >/dev/null 2>&1 ||
        exit 2
    grep -q '1 tests completed and passed residual checks' hpccoutf.txt || exit 3
    runs=$((runs + 1))
done
awk -v runs=$runs -v begin="$begin" -v now="$(date +%s.%N)" \
    'BEGIN { printf "runs %d seconds %.3f\n", runs, now - begin }'
