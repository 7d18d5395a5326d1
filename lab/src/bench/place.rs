// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups for competitors, beside sandbag's, under a name of our own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use sandbag_linux::Root;
use sandbag_linux::cgroup::{self, Hierarchies, Version, Weight};

/// Every group of the benchmark begins with this.
pub const PREFIX: &str = "sandbag-lab-";
/// How long a group may refuse to go after its last task died.
const REMOVAL: Duration = Duration::from_secs(3);

/// Which cgroup version has the cpu controller, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    tree: Hierarchies,
    /// systemd owns the root group of v2.
    systemd: bool,
}

impl Layout {
    /// What this machine has at present.
    pub fn detect(root: &Root) -> Result<Self> {
        let tree = cgroup::find(root)?;
        let systemd = root.path("/run/systemd/system").exists();
        Ok(Self {
            systemd: systemd && tree.version == Version::V2,
            tree,
        })
    }

    pub fn name(&self) -> &'static str {
        match self.tree.version {
            Version::V1 => "v1",
            Version::V2 => "v2",
        }
    }

    /// The cpuacct hierarchy of v1, if it is mounted.
    pub fn cpuacct(&self) -> Option<&Path> {
        self.tree.cpuacct.as_deref()
    }

    /// Whether groups can be made beside those of the machine.
    pub fn makes_groups(&self) -> bool {
        !self.systemd
    }

    /// Makes a group of this weight in v2's scale (100 is the default); v1
    /// gets the same multiple of its default of 1024.
    pub fn make(&self, name: &str, weight: u32) -> Result<PlaceGroup> {
        if self.systemd {
            bail!(
                "the root group belongs to systemd: competitors in groups beside it are not measured here"
            );
        }
        let path = self
            .tree
            .cpu
            .join(format!("{PREFIX}{}-{name}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        let group = PlaceGroup { path };
        cgroup::Group::at(self.tree.version, group.path.clone(), None)
            .set_weight(Weight(f64::from(weight) / 100.0))?;
        Ok(group)
    }

    /// Removes all groups of all benchmarks, and kills what is in them.
    /// Returns how many there were.
    pub fn clean(&self) -> Result<usize> {
        let mut removed = 0;
        let top = &self.tree.cpu;
        let entries = fs::read_dir(top).with_context(|| format!("list {}", top.display()))?;
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                remove(&entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

#[derive(Debug)]
pub struct PlaceGroup {
    path: PathBuf,
}

impl PlaceGroup {
    /// The file that takes processes into the group: `0` is the writer.
    pub fn entrance(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    pub fn take(&self, pid: u32) -> sandbag_linux::Result<()> {
        sandbag_linux::root::write(&self.entrance(), pid)
    }
}

impl Drop for PlaceGroup {
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
        // Gone already is as good.
        let _ = cgroup::kill_all(path);
        match cgroup::remove_dir(path, Duration::ZERO) {
            Err(_) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(10)),
            outcome => return Ok(outcome?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with both versions, controllers mounted apart.
    const HYBRID: &str = "\
24 23 0:4 / /proc rw,relatime - proc proc rw
31 23 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:27 / /sys/fs/cgroup/cpu rw,nosuid,relatime - cgroup cgroup rw,cpu
33 31 0:28 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
34 31 0:29 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
36 31 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    fn fake(mounts: &str) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        fs::create_dir_all(root.path("/proc/self")).unwrap();
        fs::write(root.path("/proc/self/mountinfo"), mounts).unwrap();
        fs::write(root.path("/proc/self/cgroup"), "").unwrap();
        for line in mounts.lines() {
            fs::create_dir_all(root.path(line.split(' ').nth(4).unwrap())).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn v1_is_taken_where_cpu_is_mounted() {
        let (_dir, root) = fake(HYBRID);
        let layout = Layout::detect(&root).unwrap();
        assert_eq!(layout.name(), "v1");
        assert!(layout.tree.cpu.ends_with("sys/fs/cgroup/cpu") && layout.cpuacct().is_some());
    }

    #[test]
    fn v2_needs_the_controller() {
        let (_dir, root) = fake("40 39 0:33 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let controllers = root.path("/sys/fs/cgroup/cgroup.controllers");
        fs::write(&controllers, "memory pids\n").unwrap();
        assert!(Layout::detect(&root).is_err());
        fs::write(&controllers, "cpuset cpu memory\n").unwrap();
        let layout = Layout::detect(&root).unwrap();
        assert_eq!(layout.name(), "v2");
        fs::create_dir_all(root.path("/run/systemd/system")).unwrap();
        let layout = Layout::detect(&root).unwrap();
        let e = layout.make("x", 100).unwrap_err();
        assert!(
            !layout.makes_groups() && e.to_string().contains("systemd"),
            "{e}"
        );
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
}
