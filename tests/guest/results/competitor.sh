# SPDX-License-Identifier: Apache-2.0 OR MIT
# For docs/results: programs beside a load and beside an equal competitor, on this guest's
# scheduler. Its programs come with `--with`. Rows, because a guest is never quiet enough for tables.

uname -r
alive &
sandbag-lab run competitor --quick --rounds 3 --loads 20,50,80 --size 50 \
    --programs sleepers,redis,memcached --out "$PWD/results" 2>&1
echo "exit code $?"
kill $!
file results/competitor/rows.csv
