// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this system runs in: container, limit, hypervisor, and who else has a
//! say in scheduling.
//!
//! Each of these changes what a load means (a container's limit), how groups
//! may be made (systemd) or whether weights are honoured at all (sched_ext).

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use crate::cgroup::Mounts;
use crate::root::{read, read_value};
use crate::topology::optional;
use crate::{Error, Result, Root, machine};

/// A cap on the CPU time of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuLimit {
    /// The group that has the cap: the one that was asked about, or one above it.
    pub group: PathBuf,
    pub quota_us: u64,
    pub period_us: u64,
}

impl CpuLimit {
    /// How many CPUs' worth of time that is.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }
}

impl fmt::Display for CpuLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} CPUs", self.cpus())
    }
}

/// The container this system runs in, by the name of its manager (`docker`,
/// `podman`, `lxc`, ...; `unknown` if only the process numbers give it away),
/// or `None` on a machine's own system.
pub fn container(root: &Root) -> Option<String> {
    // https://systemd.io/CONTAINER_INTERFACE/
    for path in ["/run/systemd/container", "/run/host/container-manager"] {
        if let Ok(name) = root.read(path)
            && !name.trim().is_empty()
        {
            return Some(name.trim().to_owned());
        }
    }
    for (path, name) in [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")] {
        if root.path(path).exists() {
            return Some(name.to_owned());
        }
    }
    has_own_numbers(root).then(|| "unknown".to_owned())
}

/// Whether processes have other numbers here than for the kernel; not where that cannot be
/// read.
pub fn has_own_numbers(root: &Root) -> bool {
    // PROC_PID_INIT_INO of include/linux/proc_ns.h: the first namespace of
    // process numbers has this number on every kernel.
    const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
    let namespace = fs::read_link(root.path("/proc/self/ns/pid"));
    namespace.is_ok_and(|namespace| namespace != Path::new(FIRST_PID_NAMESPACE))
}

/// The tightest cap on our own group and those above it that can be seen from
/// here (`cpu.max` or `cpu.cfs_quota_us`).
pub fn cpu_limit(root: &Root) -> Result<Option<CpuLimit>> {
    match Mounts::read(root)?.with("cpu")? {
        Some(tree) => cpu_limit_at(&tree.own_dir(), &tree.mount),
        None => Ok(None),
    }
}

/// The same on `group` and those above it in the tree at `mount`.
pub fn cpu_limit_at(group: &Path, mount: &Path) -> Result<Option<CpuLimit>> {
    let mut tightest: Option<CpuLimit> = None;
    for group in group.ancestors().take_while(|g| g.starts_with(mount)) {
        if let Some(limit) = limit_of(group)?
            && tightest.as_ref().is_none_or(|t| limit.cpus() < t.cpus())
        {
            tightest = Some(limit);
        }
    }
    Ok(tightest)
}

/// How much more memory our own group and those above it that can be seen from
/// here may take, bytes (`memory.max` or `memory.limit_in_bytes`, what can be
/// dropped of cached files not counted as taken); `None` without a limit.
///
/// Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst.
pub fn memory_room(root: &Root) -> Result<Option<u64>> {
    let Some(tree) = Mounts::read(root)?.with("memory")? else {
        return Ok(None);
    };
    let own = tree.own_dir();
    let groups = own.ancestors().take_while(|g| g.starts_with(&tree.mount));
    Ok(groups.filter_map(room_of).min())
}

fn room_of(group: &Path) -> Option<u64> {
    let number = |name: &str| read_value::<u64>(&group.join(name), "a number").ok();
    // `max` is not a number: no limit.
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let taken = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let statistics = read(&group.join("memory.stat")).unwrap_or_default();
    let field = |name: &str| {
        let mut fields = statistics.lines().filter_map(|line| line.split_once(' '));
        fields.find(|(key, _)| *key == name)?.1.parse::<u64>().ok()
    };
    // v1 counts those of the groups below apart.
    let files = field("total_inactive_file").or_else(|| field("inactive_file"));
    // v1's word for no limit is a number close to the greatest.
    (limit < 1 << 60).then(|| limit.saturating_sub(taken.saturating_sub(files.unwrap_or(0))))
}

fn limit_of(group: &Path) -> Result<Option<CpuLimit>> {
    let limit = |quota_us, period_us| CpuLimit {
        group: group.to_owned(),
        quota_us,
        period_us,
    };
    let path = group.join("cpu.max");
    if let Some(text) = optional(read(&path))? {
        let parsed = match text.trim().split_once(' ') {
            Some(("max", _)) => return Ok(None),
            Some((quota, period)) => quota.parse().ok().zip(period.parse().ok()),
            None => None,
        };
        return match parsed {
            Some((quota, period)) if period > 0 => Ok(Some(limit(quota, period))),
            _ => Err(Error::parse(&path, "`QUOTA PERIOD` or `max PERIOD`", &text)),
        };
    }
    let quota: Option<i64> = optional(read_value(&group.join("cpu.cfs_quota_us"), "a number"))?;
    let period: Option<u64> = optional(read_value(&group.join("cpu.cfs_period_us"), "a number"))?;
    Ok(match (quota.and_then(|q| u64::try_from(q).ok()), period) {
        (Some(quota), Some(period)) if period > 0 => Some(limit(quota, period)),
        _ => None,
    })
}

/// The hypervisor under this kernel, by the best name there is (`unknown` if
/// only the CPU's flag tells), or `None` on bare metal.
pub fn hypervisor(root: &Root) -> Option<String> {
    if let Ok(name) = root.read("/sys/hypervisor/type") {
        return Some(name.trim().to_owned());
    }
    let dmi = |name| root.read(format!("/sys/class/dmi/id/{name}")).ok();
    let name = [dmi("sys_vendor"), dmi("product_name")]
        .into_iter()
        .flatten()
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    // Only x86 has the flag; elsewhere the firmware's name must do.
    let flagged = machine::has_flag(root, "hypervisor");
    const NAMES: &str = "QEMU KVM VMware VirtualBox Xen Hyper-V Parallels";
    let is_virtual = flagged || NAMES.split(' ').any(|known| name.contains(known));
    let unnamed = name.is_empty().then(|| "unknown".to_owned());
    is_virtual.then_some(unnamed.unwrap_or(name))
}

/// What the kernel says of sched_ext (Documentation/scheduler/sched-ext.rst).
const SCHED_EXT: &str = "/sys/kernel/sched_ext";
/// Of the scheduler that is loaded, whose kobject is called `root`.
pub const SCHED_EXT_SCHEDULER: &str = "/sys/kernel/sched_ext/root";

/// The sched_ext scheduler that is loaded, by its name; `None` if none is.
/// Such a scheduler need not honour weights, caps or nice values.
pub fn sched_ext(root: &Root) -> Option<String> {
    let state = root.read(format!("{SCHED_EXT}/state")).ok()?;
    if state.trim() == "disabled" {
        return None;
    }
    let name = root.read(format!("{SCHED_EXT_SCHEDULER}/ops")).ok();
    Some(name.map_or_else(|| state.trim().to_owned(), |n| n.trim().to_owned()))
}

/// Whether systemd is process 1: then the top of the v2 tree is its own
/// (the test that sd_booted(3) makes).
pub fn systemd(root: &Root) -> bool {
    root.path("/run/systemd/system").is_dir()
}

/// The kernel's lockdown mode (`none`, `integrity`, `confidentiality`); `None`
/// where the kernel has none.
pub fn lockdown(root: &Root) -> Option<String> {
    let text = root.read("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_machine::{fake, put};

    #[test]
    fn containers_by_their_marks() {
        for (path, text, name) in [
            ("run/systemd/container", "lxc\n", "lxc"),
            (
                "run/host/container-manager",
                "systemd-nspawn\n",
                "systemd-nspawn",
            ),
            (".dockerenv", "", "docker"),
            ("run/.containerenv", "", "podman"),
        ] {
            let (_dir, root) = fake(&[(path, text)]);
            assert_eq!(container(&root).as_deref(), Some(name));
        }
    }

    #[test]
    fn containers_by_their_process_numbers() {
        for (namespace, name) in [
            ("pid:[4026531836]", None),
            ("pid:[4026532201]", Some("unknown")),
        ] {
            let (dir, root) = fake(&[("proc/self/ns/x", "")]);
            let link = dir.path().join("proc/self/ns/pid");
            std::os::unix::fs::symlink(namespace, link).unwrap();
            assert_eq!(container(&root).as_deref(), name);
        }
        assert_eq!(container(&fake(&[]).1), None);
    }

    const V2_MOUNT: &str = "24 1 0:22 / /proc rw - proc proc rw\n\
        29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    /// On v2; as the top of a container's tree; on v1 with a part of the tree
    /// mounted.
    #[test]
    fn the_tightest_limit_above_us() {
        let v1 =
            "41 30 0:33 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n";
        let own = "4:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab/job\n0::/system.slice\n";
        for (mounts, own, limits, cpus, group) in [
            (
                V2_MOUNT,
                "0::/a.slice/b.service\n",
                &[
                    ("a.slice/cpu.max", "150000 100000\n"),
                    ("a.slice/b.service/cpu.max", "max 100000\n"),
                ][..],
                1.5,
                "a.slice",
            ),
            (
                V2_MOUNT,
                "0::/\n",
                &[("cpu.max", "50000 100000\n")],
                0.5,
                "cgroup",
            ),
            (
                v1,
                own,
                &[
                    ("cpu,cpuacct/cpu.cfs_quota_us", "200000\n"),
                    ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
                    ("cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n"),
                    ("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n"),
                ],
                2.0,
                "cpu,cpuacct",
            ),
        ] {
            let (dir, root) = fake(&[("proc/self/cgroup", own), ("proc/self/mountinfo", mounts)]);
            put(&dir.path().join("sys/fs/cgroup"), limits);
            let limit = cpu_limit(&root).unwrap().unwrap();
            assert_eq!(limit.cpus(), cpus);
            assert!(limit.group.ends_with(group), "{limit:?}");
        }
    }

    #[test]
    fn no_limit_and_no_tree() {
        let (_dir, root) = fake(&[
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", V2_MOUNT),
        ]);
        assert_eq!(cpu_limit(&root).unwrap(), None);
        let (_dir, root) = fake(&[("proc/self/cgroup", ""), ("proc/self/mountinfo", "")]);
        assert_eq!(cpu_limit(&root).unwrap(), None);
        assert!(cpu_limit(&fake(&[]).1).unwrap_err().is_absent());
    }

    #[test]
    fn a_limit_that_is_no_limit_is_an_error() {
        for text in ["", "fast\n", "5\n", "x 100000\n", "5 0\n"] {
            let (_dir, root) = fake(&[
                ("proc/self/cgroup", "0::/\n"),
                ("proc/self/mountinfo", V2_MOUNT),
                ("sys/fs/cgroup/cpu.max", text),
            ]);
            assert!(cpu_limit(&root).is_err(), "{text}");
        }
    }

    #[test]
    fn hypervisors() {
        let flags = "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n";
        let bare = "processor\t: 0\nflags\t\t: fpu vme lahf_lm\n";
        let vendor = "sys/class/dmi/id/sys_vendor";
        let product = "sys/class/dmi/id/product_name";
        for (files, name) in [
            (vec![("proc/cpuinfo", flags)], Some("unknown")),
            (vec![("proc/cpuinfo", bare)], None),
            (
                vec![
                    ("proc/cpuinfo", flags),
                    (vendor, "Acme\n"),
                    (product, "X\n"),
                ],
                Some("Acme X"),
            ),
            (vec![("proc/cpuinfo", bare), (vendor, "Acme\n")], None),
            (vec![(vendor, "QEMU\n")], Some("QEMU")),
            (vec![("sys/hypervisor/type", "xen\n")], Some("xen")),
        ] {
            assert_eq!(hypervisor(&fake(&files).1).as_deref(), name, "{files:?}");
        }
    }

    #[test]
    fn scheduler_systemd_and_lockdown() {
        let (dir, root) = fake(&[
            ("sys/kernel/sched_ext/state", "enabled\n"),
            (&format!("{SCHED_EXT_SCHEDULER}/ops"), "scx_lavd\n"),
            (
                "sys/kernel/security/lockdown",
                "none [integrity] confidentiality\n",
            ),
        ]);
        assert_eq!(sched_ext(&root).as_deref(), Some("scx_lavd"));
        assert_eq!(lockdown(&root).as_deref(), Some("integrity"));
        assert!(!systemd(&root));
        fs::create_dir_all(dir.path().join("run/systemd/system")).unwrap();
        assert!(systemd(&root));

        let (_dir, root) = fake(&[("sys/kernel/sched_ext/state", "disabled\n")]);
        assert_eq!(sched_ext(&root), None);
        assert_eq!(lockdown(&root), None);
        let (_dir, root) = fake(&[("sys/kernel/sched_ext/state", "enabling\n")]);
        assert_eq!(sched_ext(&root).as_deref(), Some("enabling"));
    }

    #[test]
    fn the_live_machine() {
        cpu_limit(&Root::default()).unwrap();
    }
}
