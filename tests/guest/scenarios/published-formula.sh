# SPDX-License-Identifier: Apache-2.0 OR MIT
# The published way to take 50 % of each CPU, by hand: one group per burner,
# one base group for everything else, equal weights. The kernel divides the
# base group's weight over the CPUs on which it is busy, so each burner gets
# N / (N + 1) of its CPU instead of the half: .80 on four CPUs.

groups=/sys/fs/cgroup
cpus=$(($(nproc) - 1))

mkdir "$groups/base"
for cpu in $(seq 0 "$cpus"); do
    mkdir "$groups/burn$cpu"
    in_group "burn$cpu" spinner 9 "$cpu" > "burner$cpu" &
done
sleep 1
in_group base spinner 5 all | result left
wait
for cpu in $(seq 0 "$cpus"); do
    result burner < "burner$cpu"
done
