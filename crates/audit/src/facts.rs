// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CPUs before anything runs: which can be tested, what they are, and how
//! they are configured.

use std::sync::mpsc::channel;

use sandbag_linux::cgroup::partitions;
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Result, Root, sched};

use crate::model::{Cpu, LeftOut};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// To be tested, ascending.
    pub cpus: Vec<Cpu>,
    /// Not to be.
    pub left_out: Vec<LeftOut>,
}

/// Where we may run.
#[derive(Debug, Clone)]
pub struct CpuAccess {
    /// Affinity mask of this process, set by `taskset` or a batch system. Other CPUs
    /// are tested only if they are named.
    pub affinity: CpuList,
    /// Whether the kernel lets us.
    pub may_run: fn(u32) -> bool,
}

impl CpuAccess {
    pub fn here() -> Result<Self> {
        Ok(Self {
            affinity: sched::affinity(0)?,
            may_run,
        })
    }
}

/// Which of the wished CPUs (none: all) can be tested.
pub fn find(root: &Root, wished: &CpuList, allowed: &CpuAccess) -> Result<Facts> {
    let topology = Topology::read(root)?;
    let all = if wished.is_empty() {
        &topology.present
    } else {
        wished
    };
    let settings = Settings::read(root, &topology.isolated);
    let kinds = Kinds::read(root, &topology.online);
    let mut facts = Facts::default();
    for cpu in all.iter() {
        let why = if !topology.possible.contains(cpu) {
            Some("this machine has no such CPU")
        } else if !topology.online.contains(cpu) {
            Some("offline")
        } else if wished.is_empty() && topology.isolated.contains(cpu) {
            Some("isolated (isolcpus): ask for it by its number to have it tested")
        } else if wished.is_empty() && !allowed.affinity.contains(cpu) && (allowed.may_run)(cpu) {
            Some("not in our affinity mask (taskset): ask for it by its number to have it tested")
        } else if !(allowed.may_run)(cpu) {
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
        let siblings = known.map(|known| known.siblings.iter().filter(|other| *other != cpu));
        facts.cpus.push(Cpu {
            cpu,
            package: number(known.and_then(|cpu| cpu.package)),
            core: number(known.and_then(|cpu| cpu.core)),
            node: known.and_then(|cpu| cpu.node),
            siblings: siblings.map(Iterator::collect).unwrap_or_default(),
            kind: kinds.of(root, cpu),
            settings: settings.of(cpu),
        });
    }
    Ok(facts)
}

/// Whether a thread of ours may be pinned to this CPU. It sleeps meanwhile: where
/// real-time tasks leave no time it would never come back.
fn may_run(cpu: u32) -> bool {
    let (send_thread, thread) = channel();
    let (over, is_over) = channel::<()>();
    let sleeper = std::thread::Builder::new().spawn(move || {
        let _ = send_thread.send(nix::unistd::gettid().as_raw().cast_unsigned());
        let _ = is_over.recv();
    });
    let before = sched::affinity(0);
    // Without a thread nothing can be tested; the process that works will say why.
    let (Ok(sleeper), Ok(thread), Ok(before)) = (sleeper, thread.recv(), before) else {
        return true;
    };
    let may = sched::set_affinity(thread, &CpuList::from_iter([cpu])).is_ok();
    let back = sched::set_affinity(thread, &before);
    drop(over);
    if back.is_ok() {
        let _ = sleeper.join();
    }
    may
}

/// Kinds of cores, where a processor has more than one.
struct Kinds {
    hybrid: Vec<(&'static str, CpuList)>,
    /// Some cores may run faster than others (Intel's favoured cores).
    has_favoured: bool,
}

impl Kinds {
    fn read(root: &Root, online: &CpuList) -> Self {
        // Documentation/ABI/testing/sysfs-bus-event_source-devices: Intel's
        // hybrid processors have a unit of events for each kind.
        let kinds = [
            ("performance core", "/sys/devices/cpu_core/cpus"),
            ("efficiency core", "/sys/devices/cpu_atom/cpus"),
            ("low-power core", "/sys/devices/cpu_lowpower/cpus"),
        ];
        let list = |path: &str| root.read(path).ok()?.parse().ok();
        let mut most: Vec<u64> = online
            .iter()
            .filter_map(|cpu| most_khz(root, cpu))
            .collect();
        most.sort_unstable();
        Self {
            hybrid: kinds
                .into_iter()
                .filter_map(|(kind, path)| Some((kind, list(path)?)))
                .collect(),
            has_favoured: most.first() != most.last(),
        }
    }

    fn of(&self, root: &Root, cpu: u32) -> Option<String> {
        let hybrid = self.hybrid.iter().find(|(_, cpus)| cpus.contains(cpu));
        let kind = hybrid.map(|(kind, _)| (*kind).to_owned()).or_else(|| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity");
            let capacity = root.read(path).ok()?;
            Some(format!("capacity {}", capacity.trim()))
        });
        let favoured = self.has_favoured.then(|| most_khz(root, cpu)).flatten();
        let favoured = favoured.map(|khz| format!("up to {} MHz", khz / 1000));
        let parts: Vec<String> = kind.into_iter().chain(favoured).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// The highest frequency that the hardware gives this CPU.
fn most_khz(root: &Root, cpu: u32) -> Option<u64> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq");
    root.read(path).ok()?.trim().parse().ok()
}

/// What makes CPUs others than the rest.
struct Settings(Vec<(String, CpuList)>);

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
        let lists = lists.into_iter().filter_map(|(name, cpus)| {
            Some((name.to_owned(), cpus.filter(|cpus| !cpus.is_empty())?))
        });
        let partitions = partitions(root).into_iter().map(|one| {
            let name = match one.kind.as_str() {
                "exclusive" => format!("the exclusive cpuset {}", one.group),
                kind => format!("the {kind} cpuset partition {}", one.group),
            };
            (name, one.cpus)
        });
        Self(lists.chain(partitions).collect())
    }

    fn of(&self, cpu: u32) -> Vec<String> {
        let own = self.0.iter().filter(|(_, cpus)| cpus.contains(cpu));
        own.map(|(name, _)| name.clone()).collect()
    }
}

pub fn has_nohz_full(cpus: &[Cpu]) -> bool {
    let mut settings = cpus.iter().flat_map(|cpu| &cpu.settings);
    settings.any(|setting| setting == "nohz_full")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::tree;

    const CPU: &str = "/sys/devices/system/cpu";

    #[test]
    fn cpus_that_cannot_be_tested_are_left_out_with_the_reason() {
        let files = [
            (&*format!("{CPU}/online"), "0-2,4"),
            (&*format!("{CPU}/present"), "0-4"),
            (&*format!("{CPU}/possible"), "0-7"),
            (&*format!("{CPU}/isolated"), "4"),
        ];
        let (_dir, root) = tree(&files);
        let allowed = CpuAccess {
            affinity: "0-2,4".parse().unwrap(),
            may_run: |cpu| cpu != 1,
        };
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
        // Where a batch system put us.
        let allowed = CpuAccess {
            affinity: "2".parse().unwrap(),
            ..allowed
        };
        let facts = find(&root, &CpuList::default(), &allowed).unwrap();
        assert_eq!(facts.cpus.len(), 1);
        assert!(facts.left_out[0].why.contains("taskset"));
        let facts = find(&root, &"0,2".parse().unwrap(), &allowed).unwrap();
        assert_eq!(facts.cpus.len(), 2);
    }

    #[test]
    fn kinds_and_settings() {
        let files = [
            (&*format!("{CPU}/online"), "0-3"),
            (&*format!("{CPU}/cpu3/cpu_capacity"), "446\n"),
            (
                &*format!("{CPU}/cpu0/cpufreq/cpuinfo_max_freq"),
                "5200000\n",
            ),
            (
                &*format!("{CPU}/cpu1/cpufreq/cpuinfo_max_freq"),
                "5000000\n",
            ),
            (&*format!("{CPU}/nohz_full"), " (null)\n"),
            ("/sys/devices/cpu_core/cpus", "0-1\n"),
            ("/sys/devices/cpu_atom/cpus", "2\n"),
            ("/proc/cmdline", "quiet nohz_full=1 rcu_nocbs=1-2\n"),
        ];
        let (_dir, root) = tree(&files);
        let everywhere = CpuAccess {
            affinity: "0-3".parse().unwrap(),
            may_run: |_| true,
        };
        let facts = find(&root, &CpuList::default(), &everywhere).unwrap();
        let kinds: Vec<_> = facts
            .cpus
            .iter()
            .map(|cpu| cpu.kind.as_deref().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "performance core, up to 5200 MHz",
                "performance core, up to 5000 MHz",
                "efficiency core",
                "capacity 446"
            ]
        );
        assert_eq!(facts.cpus[1].settings, ["nohz_full", "rcu_nocbs"]);
        assert!(facts.cpus[0].settings.is_empty() && has_nohz_full(&facts.cpus));
    }
}
