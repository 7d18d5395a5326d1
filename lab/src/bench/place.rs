// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups for competitors, beside sandbag's, under a name of our own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::Root;
use sandbag_linux::cgroup::{self, Version, Weight};

use crate::bench::mounts::{cgroup_mounts, v1_mount, v2_mount};

/// Every group of the benchmark begins with this.
pub const PREFIX: &str = "sandbag-lab-";
/// How long a group may refuse to go after its last task died.
const REMOVAL: Duration = Duration::from_secs(3);

/// Which cgroup version has the cpu controller, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// Version 1.
    V1 {
        /// The cpu hierarchy.
        cpu: PathBuf,
        /// The cpuacct hierarchy, if it is mounted.
        cpuacct: Option<PathBuf>,
    },
    /// Version 2.
    V2 {
        /// The tree.
        tree: PathBuf,
        /// systemd owns the root group.
        systemd: bool,
    },
}

impl Layout {
    /// What this machine has at present.
    pub fn detect(root: &Root) -> Result<Self> {
        let mounts = cgroup_mounts(&root.read("/proc/self/mounts")?);
        if let Some(cpu) = v1_mount(&mounts, "cpu") {
            return Ok(Self::V1 {
                cpu: root.path(cpu),
                cpuacct: v1_mount(&mounts, "cpuacct").map(|p| root.path(p)),
            });
        }
        let tree = root.path(v2_mount(&mounts).context("no cgroup file system is mounted")?);
        let there = sandbag_linux::root::read(&tree.join("cgroup.controllers"))?;
        ensure!(
            there.split_whitespace().any(|c| c == "cpu"),
            "{} has no cpu controller",
            tree.display()
        );
        Ok(Self::V2 {
            tree,
            systemd: root.path("/run/systemd/system").exists(),
        })
    }

    /// `v1` or `v2`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::V1 { .. } => "v1",
            Self::V2 { .. } => "v2",
        }
    }

    fn top(&self) -> &Path {
        match self {
            Self::V1 { cpu, .. } => cpu,
            Self::V2 { tree, .. } => tree,
        }
    }

    /// Makes a group of this weight in v2's scale (100 is the default); v1
    /// gets the same multiple of its default of 1024.
    pub fn make(&self, name: &str, weight: u32) -> Result<Group> {
        if let Self::V2 { systemd: true, .. } = self {
            bail!(
                "the root group belongs to systemd: competitors in groups beside it are not measured here"
            );
        }
        let path = self
            .top()
            .join(format!("{PREFIX}{}-{name}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        let group = Group { path };
        let version = match self {
            Self::V1 { .. } => Version::V1,
            Self::V2 { .. } => Version::V2,
        };
        cgroup::Group::at(version, group.path.clone(), None)
            .set_weight(Weight(f64::from(weight) / 100.0))?;
        Ok(group)
    }

    /// Removes all groups of all benchmarks, and kills what is in them.
    /// Returns how many there were.
    pub fn clean(&self) -> Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(self.top())
            .with_context(|| format!("list {}", self.top().display()))?
            .flatten()
        {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                remove(&entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// A group; dropping it kills what is in it and removes it.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// The file that takes processes into the group: `0` is the writer.
    pub fn entrance(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Moves a process in.
    pub fn take(&self, pid: u32) -> sandbag_linux::Result<()> {
        sandbag_linux::root::write(&self.entrance(), pid)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(e) = remove(&self.path) {
            eprintln!("sandbag-lab loads: {e:#}; see `sandbag-lab clean`");
        }
    }
}

/// Kills what is in a group and removes it, again and again for a while: the
/// kernel says EBUSY until the last dead task is gone.
fn remove(path: &Path) -> Result<()> {
    let give_up = Instant::now() + REMOVAL;
    loop {
        let tasks = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        for pid in pids(&tasks) {
            // Gone already is as good.
            let _ = kill(pid, Signal::SIGKILL);
        }
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) if Instant::now() > give_up => {
                return Err(e).with_context(|| format!("remove {}", path.display()));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// The pids in a `cgroup.procs`; never 0 (a task of another pid namespace),
/// which would mean ourselves.
fn pids(text: &str) -> impl Iterator<Item = Pid> + '_ {
    text.lines()
        .filter_map(|l| l.trim().parse::<i32>().ok())
        .filter(|pid| *pid > 1)
        .map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::mounts::tests::HYBRID;

    fn fake(mounts: &str) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        fs::create_dir_all(root.path("/proc/self")).unwrap();
        fs::write(root.path("/proc/self/mounts"), mounts).unwrap();
        for line in mounts.lines() {
            fs::create_dir_all(root.path(line.split(' ').nth(1).unwrap())).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn v1_is_taken_where_cpu_is_mounted() {
        let (_dir, root) = fake(HYBRID);
        let layout = Layout::detect(&root).unwrap();
        assert_eq!(layout.name(), "v1");
        let Layout::V1 { cpu, cpuacct } = &layout else {
            panic!()
        };
        assert!(cpu.ends_with("sys/fs/cgroup/cpu") && cpuacct.is_some());
    }

    #[test]
    fn v2_needs_the_controller() {
        let (_dir, root) = fake("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        let controllers = root.path("/sys/fs/cgroup/cgroup.controllers");
        fs::write(&controllers, "memory pids\n").unwrap();
        assert!(Layout::detect(&root).is_err());
        fs::write(&controllers, "cpuset cpu memory\n").unwrap();
        let layout = Layout::detect(&root).unwrap();
        assert_eq!(layout.name(), "v2");
        fs::create_dir_all(root.path("/run/systemd/system")).unwrap();
        let layout = Layout::detect(&root).unwrap();
        let e = layout.make("x", 100).unwrap_err();
        assert!(e.to_string().contains("systemd"), "{e}");
    }

    #[test]
    fn a_group_that_cannot_be_weighed_is_removed_again() {
        let (_dir, root) = fake(HYBRID);
        let layout = Layout::detect(&root).unwrap();
        // A plain directory has no cpu.shares.
        assert!(layout.make("x", 100).is_err());
        let left = fs::read_dir(root.path("/sys/fs/cgroup/cpu"))
            .unwrap()
            .count();
        assert_eq!(left, 0);
    }

    #[test]
    fn clean_removes_ours_and_only_ours() {
        let (_dir, root) = fake(HYBRID);
        let cpu = root.path("/sys/fs/cgroup/cpu");
        for name in ["sandbag-lab-1-a", "sandbag-lab-2-b", "docker", "sandbag-1"] {
            fs::create_dir(cpu.join(name)).unwrap();
        }
        assert_eq!(Layout::detect(&root).unwrap().clean().unwrap(), 2);
        assert!(cpu.join("docker").exists() && cpu.join("sandbag-1").exists());
    }

    #[test]
    fn nobody_kills_pid_zero_or_one() {
        let found: Vec<_> = pids("0\n1\n17\nx\n-5\n").collect();
        assert_eq!(found, [Pid::from_raw(17)]);
    }
}
