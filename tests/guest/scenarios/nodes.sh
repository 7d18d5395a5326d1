# SPDX-License-Identifier: Apache-2.0 OR MIT
# Virtual nodes of the first four CPUs at half their speed: what one spinner on
# each CPU, four on each, and one in all get. Then, where there are eight CPUs,
# four nodes at once.

killer() { command killer --state machine.json "$@"; }
killer before

# in_node NAME "METHOD OPTIONS" WORKER...: the result is what the spinners say.
in_node() {
    name=$1
    method=$2
    shift 2
    # shellcheck disable=SC2086 # the options are words
    sandbag slow --cpus 0-3 --speed 0.5 --method $method --no-out -- \
        spinner 5 "$@" > got 2> said
    echo "$name: exit status $?"
    cat said
    result "got-$name" < got
}

for method in hogs pace quota; do
    in_node "$method-each" $method all
    in_node "$method-four-each" $method all all all all
done
# The longest period there is: emulated CPUs take turns of some milliseconds on
# few real ones, so their gaps cannot begin at the same moment.
for method in hogs pace rt; do
    in_node "$method-one" "$method --period 100ms" any
done
in_node quota-one "quota --period 100ms" any

# HPCC's figure 2. The longest period here, too: when all eight are busy an
# emulated CPU waits for longer than a burner's debts of 10 ms are kept.
if [ "$(nproc)" -ge 8 ]; then
    cat > nodes.toml <<'NODES'
[defaults]
period = "100ms"

[[node]]
name = "a"
cores = 1
speed = "75%"
command = ["sh", "-c", "spinner 8 all > got-a"]

[[node]]
name = "b"
cores = 1
speed = "40%"
command = ["sh", "-c", "spinner 8 all > got-b"]

[[node]]
name = "c"
cores = 2
speed = "60%"
command = ["sh", "-c", "spinner 8 all > got-c"]

[[node]]
name = "d"
cores = 4
speed = "25%"
command = ["sh", "-c", "spinner 8 all > got-d"]
NODES
    sandbag slow nodes.toml --no-out 2>&1
    echo "four nodes: exit status $?"
    for node in a b c d; do
        result "got-node-$node" < "got-$node"
    done
fi
killer compare nodes
