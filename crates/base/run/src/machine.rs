// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine as run.json has it, and what could make a run unrepeatable.

use std::collections::BTreeMap;

use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root, container, cpufreq, machine};
use serde::{Deserialize, Serialize};

use crate::layout::Layout;

/// The machine a run was made on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MachineFacts {
    pub host: String,
    /// `uname -r`.
    pub kernel: String,
    /// Model name of the CPU.
    pub cpu_model: String,
    pub cpus_online: u32,
    /// Group layout in use: `v1`, `v2`, `v2-systemd`, `delegated`.
    pub layout: String,
    /// Hypervisor, container and other facts, free-form key to value
    /// (governor, turbo, smt, virtualisation, cpu_limit, clocksource ...).
    pub facts: BTreeMap<String, String>,
}

pub fn describe(root: &Root, topology: &Topology, layout: &str) -> MachineFacts {
    let mut facts = BTreeMap::new();
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            facts.insert(name.to_owned(), value);
        }
    };
    let first = topology.online.iter().next();
    let frequency = first.and_then(|cpu| cpufreq::frequency(root, cpu).ok().flatten());
    let driver = match &frequency {
        Some(frequency) => frequency.driver.clone(),
        None => Some("none".to_owned()),
    };
    fact("frequency_driver", driver);
    fact("governor", frequency.and_then(|f| f.governor));
    fact("turbo", cpufreq::turbo(root).ok().flatten().map(on_off));
    fact("smt", Some(on_off(topology.has_smt())));
    fact("hypervisor", container::hypervisor(root));
    fact("container", container::container(root));
    fact("sched_ext", container::sched_ext(root));
    let limit = container::cpu_limit(root).ok().flatten();
    fact("cpu_limit", limit.map(|limit| limit.to_string()));
    let clock = root.read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    fact("clocksource", clock.ok().map(|name| name.trim().to_owned()));
    MachineFacts {
        host: machine::host(root).unwrap_or_default(),
        kernel: machine::kernel(root).unwrap_or_default(),
        cpu_model: machine::cpuinfo(root, "model name").unwrap_or_default(),
        cpus_online: topology.online.len() as u32,
        layout: layout.to_owned(),
        facts,
    }
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// What could make the same run come out differently another time.
pub fn unrepeatable(
    machine: &MachineFacts,
    topology: &Topology,
    layout: &Layout,
    loaded: &CpuList,
) -> Vec<String> {
    let fact = |name: &str| machine.facts.get(name).map(String::as_str);
    let mut warnings = Vec::new();
    if let Some(governor) = fact("governor").filter(|g| *g != "performance") {
        warnings.push(format!(
            "the frequency governor is {governor}: the same CPU time can be more or less work \
             (set performance for repeatable runs)"
        ));
    }
    if fact("turbo") == Some("on") {
        warnings.push("turbo is on: how fast a CPU runs depends on how many are busy".to_owned());
    }
    let mut of_load = topology.cpus.iter().filter(|cpu| loaded.contains(cpu.cpu));
    let shared = of_load.any(|cpu| cpu.siblings.iter().any(|other| !loaded.contains(other)));
    if shared {
        warnings.push(
            "a loaded CPU has an SMT sibling that is not loaded: what runs there slows both \
             (--cpus core takes one per core)"
                .to_owned(),
        );
    }
    let of_groups = layout.cpu_limit().ok().flatten();
    let of_groups = of_groups.map(|limit| limit.to_string());
    if let Some(limit) = &of_groups {
        warnings.push(format!(
            "sandbag's groups are under a CPU limit of {limit}: loads are percent of a CPU, not \
             of the limit, and all groups together cannot exceed it"
        ));
    }
    if let Some(limit) = fact("cpu_limit").filter(|own| of_groups.as_deref() != Some(*own)) {
        warnings.push(format!(
            "sandbag was started under a CPU limit of {limit}: a program beside the load may be \
             under it"
        ));
    }
    if let Some(scheduler) = fact("sched_ext") {
        warnings.push(format!(
            "the sched_ext scheduler {scheduler} is loaded: it may ignore group weights"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::testing;

    /// As under `systemd-run --scope -p CPUQuota=50%`, and in a group that was handed to us.
    #[test]
    fn a_limit_is_for_the_load_where_it_is_above_the_groups_of_the_burners() {
        let (_dir, root) = testing::machine(&[
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
            ("sys/fs/cgroup/a.scope/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/a.scope/cgroup.controllers", "cpu\n"),
            ("sys/fs/cgroup/b/cpu.max", "70000 100000\n"),
            ("sys/fs/cgroup/b/c/cgroup.controllers", "cpu\n"),
            ("proc/self/cgroup", "0::/a.scope\n"),
            (
                "proc/self/mountinfo",
                "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            ),
        ]);
        let topology = Topology::read(&root).unwrap();
        let facts = describe(&root, &topology, "v2");
        let warnings = |delegated: Option<&str>| {
            let layout = Layout::find(&root, delegated.map(Path::new)).unwrap();
            let warnings = unrepeatable(&facts, &topology, &layout, &topology.online);
            let of_limits = warnings
                .into_iter()
                .filter(|text| text.contains("CPU limit"));
            of_limits.collect::<Vec<_>>()
        };
        let own = "sandbag was started under a CPU limit of 0.50 CPUs";
        let top = warnings(None);
        assert!(matches!(&top[..], [one] if one.starts_with(own)), "{top:?}");
        let below = warnings(Some("/b/c"));
        let groups = "sandbag's groups are under a CPU limit of 0.70 CPUs";
        assert!(
            matches!(&below[..], [one, two] if one.starts_with(groups) && two.starts_with(own)),
            "{below:?}"
        );
        assert_eq!(warnings(Some("/a.scope")).len(), 1);
    }
}
