# SPDX-License-Identifier: Apache-2.0 OR MIT
# A trace of this guest, what it predicts, and the benchmark under it: ranks that meet, and
# ranks one after another. An emulated CPU takes 80 us for a tick: events are what is longer
# than 20 us, and phases are long.

has_counter

sandbag jitter record --cpus 0-1 -d 6s --threshold 20us -o node.sbj 2>&1
echo $? | result status-record

sandbag scale predict node.sbj --ranks 1..4096 --quantum 5ms -q -o predicted.json
echo $? | result status-predicted
result predicted < predicted.json

sandbag scale bench --ranks 2 --quantum 5ms -d 6s --jitter node.sbj --sync phase --json met.json 2>&1
echo $? | result status-met
result met < met.json

sandbag scale bench --virtual --ranks 16 --quantum 2ms -d 3s --jitter node.sbj --json virtual.json 2>&1
echo $? | result status-virtual
result virtual < virtual.json
