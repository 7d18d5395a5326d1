# SPDX-License-Identifier: Apache-2.0 OR MIT
# For docs/results: an audit of all CPUs of this guest.

has_counter
alive &
sandbag -q audit run --limit 20s --rounds 6..100 --memory 16M --calls 200000 -o audit.json 2>&1
echo "exit code $?"
kill $!
file audit.json
