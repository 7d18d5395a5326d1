// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which CPUs there are and what they share.
//!
//! Source: Documentation/admin-guide/cputopology.rst and
//! Documentation/ABI/stable/sysfs-devices-system-cpu. The kernel takes the
//! `topology` and `cache` directories of a CPU away while it is offline.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use crate::root::{read, read_value};
use crate::{CpuList, Error, Result, Root, sched};

/// One online CPU. What the kernel does not say is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// Kernel number.
    pub cpu: u32,
    /// Number of the core within its package.
    pub core: Option<i32>,
    /// Number of the package (socket).
    pub package: Option<i32>,
    /// The online CPUs of the same core, this one included.
    pub siblings: CpuList,
    /// The online CPUs that share the last-level cache, this one included.
    pub last_level_cache: Option<CpuList>,
    /// NUMA node.
    pub node: Option<u32>,
}

/// The machine's CPUs at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// CPUs that run tasks.
    pub online: CpuList,
    /// Those of them that the cpuset of this process has: all, outside of containers and of
    /// a batch system's jobs.
    pub usable: CpuList,
    /// CPUs that are there but do not run tasks.
    pub offline: CpuList,
    /// CPUs that are plugged in.
    pub present: CpuList,
    /// CPUs that may ever be plugged in; the kernel divides weights and
    /// allocates memory for these.
    pub possible: CpuList,
    /// CPUs taken from the load balancer at boot (`isolcpus=`).
    pub isolated: CpuList,
    /// The online CPUs, ascending.
    pub cpus: Vec<Cpu>,
}

impl Topology {
    /// Reads the topology.
    pub fn read(root: &Root) -> Result<Self> {
        let dir = root.path("/sys/devices/system/cpu");
        let online: CpuList = read_list(&dir.join("online")).map_err(without_sysfs)?;
        let list = |name| optional(read_list(&dir.join(name)));
        let present = list("present")?.unwrap_or_else(|| online.clone());
        let possible = list("possible")?.unwrap_or_else(|| present.clone());
        let nodes = read_nodes(&root.path("/sys/devices/system/node"))?;
        let cpus = online
            .iter()
            .map(|cpu| {
                let node = nodes.iter().find(|(_, cpus)| cpus.contains(cpu));
                read_cpu(&dir, cpu, &online, node.map(|(node, _)| *node))
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            offline: present.without(&online),
            isolated: list("isolated")?.unwrap_or_default(),
            usable: usable(root, &possible, &online),
            online,
            present,
            possible,
            cpus,
        })
    }

    /// The online CPU with this number.
    pub fn get(&self, cpu: u32) -> Option<&Cpu> {
        let at = self.cpus.binary_search_by_key(&cpu, |c| c.cpu).ok()?;
        Some(&self.cpus[at])
    }

    /// The first usable CPU of each core.
    pub fn one_per_core(&self) -> CpuList {
        let first = |c: &&Cpu| c.siblings.intersection(&self.usable).iter().next() == Some(c.cpu);
        self.cpus.iter().filter(first).map(|c| c.cpu).collect()
    }

    /// Some core has more than one online CPU: a load on one of them slows
    /// the other.
    pub fn has_smt(&self) -> bool {
        self.cpus.iter().any(|c| c.siblings.len() > 1)
    }
}

/// Every kernel has the list of the CPUs that are online, wherever /sys is mounted.
fn without_sysfs(error: Error) -> Error {
    match error {
        Error::Read { path, .. } if error.is_absent() => Error::Missing {
            what: path.display().to_string(),
            remedy: "mount it with `mount -t sysfs sysfs /sys`".to_owned(),
        },
        other => other,
    }
}

/// The online CPUs of our cpuset, of whichever version of cgroups: the kernel cuts an affinity
/// down to them. A thread of its own asks, so that ours stays as it is.
fn usable(root: &Root, possible: &CpuList, online: &CpuList) -> CpuList {
    let ask = || {
        sched::set_affinity(0, possible)?;
        sched::affinity(0)
    };
    if !root.is_live() {
        return online.clone();
    }
    let asked = std::thread::scope(|scope| {
        // At a limit of processes there is none.
        let thread = std::thread::Builder::new().spawn_scoped(scope, ask);
        thread.ok()?.join().ok()?.ok()
    });
    asked.map_or_else(|| online.clone(), |cpus| cpus.intersection(online))
}

fn read_cpu(dir: &Path, cpu: u32, online: &CpuList, node: Option<u32>) -> Result<Cpu> {
    let dir = dir.join(format!("cpu{cpu}"));
    let topology = dir.join("topology");
    // `core_cpus_list` is the name since 5.3, the other one the older name.
    let mut siblings = optional(read_list(&topology.join("core_cpus_list")))?;
    if siblings.is_none() {
        siblings = optional(read_list(&topology.join("thread_siblings_list")))?;
    }
    let alone = || CpuList::from_iter([cpu]);
    Ok(Cpu {
        cpu,
        core: optional(read_value(&topology.join("core_id"), "a number"))?,
        package: optional(read_value(
            &topology.join("physical_package_id"),
            "a number",
        ))?,
        siblings: siblings
            .map(|list| list.intersection(online))
            .filter(|list| list.contains(cpu))
            .unwrap_or_else(alone),
        last_level_cache: last_level_cache(&dir.join("cache"))?
            .map(|list| list.intersection(online)),
        node,
    })
}

/// The CPUs that share the cache of the highest level.
fn last_level_cache(dir: &Path) -> Result<Option<CpuList>> {
    let mut last: Option<(u32, CpuList)> = None;
    for index in entries(dir, "index")? {
        let dir = dir.join(format!("index{index}"));
        let level = optional(read_value(&dir.join("level"), "a level"))?;
        let cpus = optional(read_list(&dir.join("shared_cpu_list")))?;
        if let (Some(level), Some(cpus)) = (level, cpus)
            && last.as_ref().is_none_or(|(highest, _)| level > *highest)
        {
            last = Some((level, cpus));
        }
    }
    Ok(last.map(|(_, cpus)| cpus))
}

fn read_nodes(dir: &Path) -> Result<Vec<(u32, CpuList)>> {
    let nodes = entries(dir, "node")?.into_iter();
    nodes
        .map(|node| Ok((node, read_list(&dir.join(format!("node{node}/cpulist")))?)))
        .collect()
}

/// The numbers N of the entries `<prefix>N` of `dir`, ascending; none if there
/// is no such directory.
fn entries(dir: &Path, prefix: &str) -> Result<Vec<u32>> {
    let read_error = Error::read(dir);
    let mut numbers = Vec::new();
    let Some(listing) = optional(fs::read_dir(dir).map_err(read_error))? else {
        return Ok(numbers);
    };
    for entry in listing {
        let name = entry.map_err(read_error)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
        numbers.extend(number.and_then(|n| n.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// One list alone: `online`, `possible`.
///
/// # Errors
/// As [`Topology::read`].
pub fn cpus(root: &Root, list: &str) -> Result<CpuList> {
    read_list(&root.path("/sys/devices/system/cpu").join(list))
}

fn read_list(path: &Path) -> Result<CpuList> {
    let text = read(path)?;
    CpuList::from_str(&text).map_err(|_| Error::parse(path, "a list of CPUs", &text))
}

/// What is not there is `None`.
pub(crate) fn optional<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.is_absent() => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_machine;

    fn put(root: &Root, path: &str, text: &str) {
        let dir = root.path("/sys/devices/system");
        fake_machine::put(&dir, &[(path, text)]);
    }

    fn put_cpu(root: &Root, cpu: u32, core: i32, package: i32, siblings: &str, cache: &str) {
        let file = |name: &str, text: &str| put(root, &format!("cpu/cpu{cpu}/{name}"), text);
        file("topology/core_id", &format!("{core}\n"));
        file("topology/physical_package_id", &format!("{package}\n"));
        file("topology/core_cpus_list", siblings);
        for (index, level, shared) in [(0, 1, siblings), (2, 2, siblings), (3, 3, cache)] {
            file(&format!("cache/index{index}/level"), &format!("{level}\n"));
            file(&format!("cache/index{index}/shared_cpu_list"), shared);
        }
    }

    #[test]
    fn two_packages_with_smt_and_an_offline_cpu() {
        let (_dir, root) = fake_machine::fake(&[]);
        for (name, text) in [
            ("online", "0-6\n"),
            ("offline", "7-15\n"),
            ("present", "0-7\n"),
            ("possible", "0-15\n"),
            ("isolated", "3\n"),
        ] {
            put(&root, &format!("cpu/{name}"), text);
        }
        for cpu in 0..7 {
            let (core, package) = ((cpu % 4 % 2) as i32, (cpu % 4 / 2) as i32);
            let siblings = format!("{},{}\n", cpu % 4, cpu % 4 + 4);
            let cache = format!("{0}-{1},{2}-{3}\n", package * 2, package * 2 + 1, 4, 7);
            put_cpu(&root, cpu, core, package, &siblings, &cache);
        }
        put(&root, "node/node0/cpulist", "0-1,4-5\n");
        put(&root, "node/node1/cpulist", "2-3,6-7\n");
        put(&root, "node/has_cpu", "0-1\n");
        let topology = Topology::read(&root).unwrap();
        assert_eq!(topology.offline.to_string(), "7");
        assert_eq!(topology.possible.len(), 16);
        assert_eq!(topology.isolated.to_string(), "3");
        assert_eq!(topology.one_per_core().to_string(), "0-3");
        assert!(topology.has_smt());
        let cpu6 = topology.get(6).unwrap();
        assert_eq!((cpu6.core, cpu6.package), (Some(0), Some(1)));
        assert_eq!(cpu6.node, Some(1));
        assert_eq!(cpu6.siblings.to_string(), "2,6");
        let cache = cpu6.last_level_cache.as_ref().unwrap();
        assert_eq!(cache.to_string(), "2-6");
        // its sibling, CPU 7, is offline
        assert_eq!(topology.get(3).unwrap().siblings.to_string(), "3");
        assert_eq!(topology.get(7), None);
    }

    #[test]
    fn a_core_whose_first_cpu_is_offline_is_not_lost() {
        let (_dir, root) = fake_machine::fake(&[]);
        put(&root, "cpu/online", "1-3\n");
        put(&root, "cpu/present", "0-3\n");
        for cpu in 1..4 {
            let siblings = format!("{}-{}\n", cpu / 2 * 2, cpu / 2 * 2 + 1);
            put_cpu(&root, cpu, (cpu / 2) as i32, 0, &siblings, "0-3\n");
        }
        let topology = Topology::read(&root).unwrap();
        assert_eq!(topology.one_per_core().to_string(), "1,2");
    }

    #[test]
    fn a_kernel_that_says_little() {
        let (_dir, root) = fake_machine::fake(&[]);
        put(&root, "cpu/online", "0-1\n");
        put(&root, "cpu/cpu1/topology/thread_siblings_list", "0-1\n");
        put(&root, "cpu/cpu1/topology/physical_package_id", "-1\n");
        let topology = Topology::read(&root).unwrap();
        assert!(topology.offline.is_empty() && topology.isolated.is_empty());
        assert_eq!(topology.possible, topology.online);
        let cpu0 = topology.get(0).unwrap();
        assert_eq!((cpu0.core, cpu0.package, cpu0.node), (None, None, None));
        assert_eq!(cpu0.siblings.to_string(), "0");
        assert_eq!(cpu0.last_level_cache, None);
        assert_eq!(topology.get(1).unwrap().package, Some(-1));
        assert_eq!(topology.get(1).unwrap().siblings.to_string(), "0,1");
    }

    #[test]
    fn more_than_1024_cpus() {
        let (_dir, root) = fake_machine::fake(&[]);
        put(&root, "cpu/online", "0-2047\n");
        put(&root, "cpu/cpu2047/topology/core_cpus_list", "1023,2047\n");
        put(&root, "cpu/cpu1023/topology/core_cpus_list", "1023,2047\n");
        put(&root, "node/node3/cpulist", "2040-2047\n");
        let topology = Topology::read(&root).unwrap();
        assert_eq!(topology.cpus.len(), 2048);
        assert_eq!(topology.one_per_core().len(), 2047);
        assert_eq!(topology.get(2047).unwrap().node, Some(3));
    }

    #[test]
    fn no_list_or_a_bad_one_is_an_error() {
        let (_dir, root) = fake_machine::fake(&[]);
        let error = Topology::read(&root).unwrap_err().to_string();
        assert!(
            error.ends_with("mount it with `mount -t sysfs sysfs /sys`"),
            "{error}"
        );
        put(&root, "cpu/online", "zero\n");
        let error = Topology::read(&root).unwrap_err().to_string();
        let end = "expected a list of CPUs, found `zero`";
        assert!(error.ends_with(end), "{error}");
    }

    #[test]
    fn the_live_machine() {
        let topology = Topology::read(&Root::default()).unwrap();
        assert_eq!(topology.cpus.len(), topology.online.len());
        assert!(!topology.one_per_core().is_empty());
    }
}
