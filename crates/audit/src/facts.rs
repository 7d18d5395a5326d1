// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CPUs before anything runs: which can be tested, what they are, and how
//! they are configured.

use sandbag_kernel::topology::Topology;
use sandbag_kernel::{CpuList, Result, Root, sched};

use crate::model::{Cpu, LeftOut};

/// What is known before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// To be tested, ascending.
    pub cpus: Vec<Cpu>,
    /// Not to be.
    pub left_out: Vec<LeftOut>,
}

/// Which of the wished CPUs (none: all) can be tested; `allowed` says on which
/// of those that are online we may run.
///
/// # Errors
/// The kernel does not say which CPUs are online.
pub fn find(root: &Root, wished: &CpuList, allowed: &dyn Fn(u32) -> bool) -> Result<Facts> {
    let topology = Topology::read(root)?;
    let all = match wished.is_empty() {
        true => &topology.present,
        false => wished,
    };
    let settings = Settings::read(root, &topology.isolated);
    let hybrid = Hybrid::read(root);
    let mut facts = Facts::default();
    for cpu in all.iter() {
        let why = if !topology.possible.contains(cpu) {
            Some("this machine has no such CPU")
        } else if !topology.online.contains(cpu) {
            Some("offline")
        } else if wished.is_empty() && topology.isolated.contains(cpu) {
            Some("isolated (isolcpus): ask for it by its number to have it tested")
        } else if !allowed(cpu) {
            Some("not in our cpuset")
        } else {
            None
        };
        if let Some(why) = why {
            facts.left_out.push(LeftOut {
                cpu,
                why: why.to_owned(),
            });
            continue;
        }
        let known = topology.get(cpu);
        let number = |n: Option<i32>| n.and_then(|n| u32::try_from(n).ok());
        facts.cpus.push(Cpu {
            cpu,
            package: number(known.and_then(|cpu| cpu.package)),
            core: number(known.and_then(|cpu| cpu.core)),
            node: known.and_then(|cpu| cpu.node),
            siblings: known
                .map(|known| {
                    known
                        .siblings
                        .iter()
                        .filter(|other| *other != cpu)
                        .collect()
                })
                .unwrap_or_default(),
            kind: hybrid.kind(root, cpu),
            settings: settings.of(cpu),
        });
    }
    Ok(facts)
}

/// Whether a thread of ours may be pinned to this CPU.
#[must_use]
pub fn allowed(cpu: u32) -> bool {
    let only = CpuList::from_iter([cpu]);
    let tried = std::thread::spawn(move || sched::set_affinity(0, &only).is_ok());
    tried.join().unwrap_or(false)
}

/// Kinds of cores, where a processor has more than one.
struct Hybrid(Vec<(&'static str, CpuList)>);

impl Hybrid {
    fn read(root: &Root) -> Self {
        // Documentation/ABI/testing/sysfs-bus-event_source-devices: Intel's
        // hybrid processors have a unit of events for each kind.
        let kinds = [
            ("performance core", "/sys/devices/cpu_core/cpus"),
            ("efficiency core", "/sys/devices/cpu_atom/cpus"),
            ("low-power core", "/sys/devices/cpu_lowpower/cpus"),
        ];
        let list = |path: &str| root.read(path).ok()?.parse().ok();
        Self(
            kinds
                .into_iter()
                .filter_map(|(kind, path)| Some((kind, list(path)?)))
                .collect(),
        )
    }

    fn kind(&self, root: &Root, cpu: u32) -> Option<String> {
        let hybrid = self.0.iter().find(|(_, cpus)| cpus.contains(cpu));
        if let Some((kind, _)) = hybrid {
            return Some((*kind).to_owned());
        }
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity");
        let capacity = root.read(path).ok()?;
        Some(format!("capacity {}", capacity.trim()))
    }
}

/// What makes CPUs others than the rest.
struct Settings(Vec<(&'static str, CpuList)>);

impl Settings {
    fn read(root: &Root, isolated: &CpuList) -> Self {
        let line = root.read("/proc/cmdline").unwrap_or_default();
        let asked = |name: &str| -> Option<CpuList> {
            let mut words = line.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
        };
        let file = |path: &str| -> Option<CpuList> { root.read(path).ok()?.parse().ok() };
        let lists = [
            ("isolcpus", Some(isolated.clone())),
            (
                "nohz_full",
                file("/sys/devices/system/cpu/nohz_full").or_else(|| asked("nohz_full")),
            ),
            ("rcu_nocbs", asked("rcu_nocbs")),
            ("irqaffinity", asked("irqaffinity")),
        ];
        Self(
            lists
                .into_iter()
                .filter_map(|(name, cpus)| Some((name, cpus.filter(|cpus| !cpus.is_empty())?)))
                .collect(),
        )
    }

    fn of(&self, cpu: u32) -> Vec<String> {
        let own = self.0.iter().filter(|(_, cpus)| cpus.contains(cpu));
        own.map(|(name, _)| (*name).to_owned()).collect()
    }
}

/// Whether some CPU is in `nohz_full`.
#[must_use]
pub fn has_nohz_full(cpus: &[Cpu]) -> bool {
    cpus.iter()
        .any(|cpu| cpu.settings.iter().any(|s| s == "nohz_full"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        for (path, text) in files {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        (dir, root)
    }

    const CPU: &str = "/sys/devices/system/cpu";

    #[test]
    fn cpus_that_cannot_be_tested_are_left_out_with_the_reason() {
        let files = [
            (&*format!("{CPU}/online"), "0-2,4"),
            (&*format!("{CPU}/present"), "0-4"),
            (&*format!("{CPU}/possible"), "0-7"),
            (&*format!("{CPU}/isolated"), "4"),
        ];
        let (_dir, root) = fake(&files);
        let allowed = |cpu| cpu != 1;
        let facts = find(&root, &CpuList::default(), &allowed).unwrap();
        let tested: Vec<u32> = facts.cpus.iter().map(|cpu| cpu.cpu).collect();
        assert_eq!(tested, [0, 2]);
        let why = |cpu: u32| {
            let out = facts.left_out.iter().find(|out| out.cpu == cpu);
            out.unwrap().why.clone()
        };
        assert!(why(1).contains("cpuset") && why(3).contains("offline"));
        assert!(why(4).contains("isolcpus"));
        // Asked for by name.
        let facts = find(&root, &"4,9".parse().unwrap(), &allowed).unwrap();
        assert_eq!(facts.cpus[0].settings, ["isolcpus"]);
        assert!(facts.left_out[0].why.contains("no such"));
    }

    #[test]
    fn kinds_and_settings() {
        let files = [
            (&*format!("{CPU}/online"), "0-3"),
            (&*format!("{CPU}/cpu3/cpu_capacity"), "446\n"),
            (&*format!("{CPU}/nohz_full"), " (null)\n"),
            ("/sys/devices/cpu_core/cpus", "0-1\n"),
            ("/sys/devices/cpu_atom/cpus", "2\n"),
            ("/proc/cmdline", "quiet nohz_full=1 rcu_nocbs=1-2\n"),
        ];
        let (_dir, root) = fake(&files);
        let facts = find(&root, &CpuList::default(), &|_| true).unwrap();
        let kinds: Vec<_> = facts
            .cpus
            .iter()
            .map(|cpu| cpu.kind.as_deref().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "performance core",
                "performance core",
                "efficiency core",
                "capacity 446"
            ]
        );
        assert_eq!(facts.cpus[1].settings, ["nohz_full", "rcu_nocbs"]);
        assert!(facts.cpus[0].settings.is_empty() && has_nohz_full(&facts.cpus));
    }
}
