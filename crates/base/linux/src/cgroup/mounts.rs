// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the cpu controller is, and our own place in its tree.

use std::path::{Path, PathBuf};

use super::version::Version;
use crate::mountinfo::{self, Mount};
use crate::{Error, Result, Root};

/// The hierarchies that carry CPU time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchies {
    /// Interface of the cpu controller.
    pub version: Version,
    /// Mount point of the cpu controller (v1) or of the tree (v2).
    pub cpu: PathBuf,
    /// Mount point of cpuacct where v1 mounts it apart; the same as `cpu`
    /// where they are mounted together; `None` on v2 or where it is absent.
    pub cpuacct: Option<PathBuf>,
    /// Our own group's path below `cpu`, empty for the root of the mount.
    pub own: PathBuf,
    /// Our own group's path below `cpuacct`.
    pub own_cpuacct: PathBuf,
}

impl Hierarchies {
    pub fn own_dir(&self) -> PathBuf {
        self.cpu.join(&self.own)
    }
}

/// The hierarchy of one controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupTree {
    /// Its interface; controllers may differ in it.
    pub version: Version,
    pub mount: PathBuf,
    /// Our own group's path below `mount`, empty for the root of the mount.
    pub own: PathBuf,
}

impl GroupTree {
    pub fn own_dir(&self) -> PathBuf {
        // Without a slash at the end.
        self.mount
            .components()
            .chain(self.own.components())
            .collect()
    }
}

/// The hierarchies that this process sees, and its place in each.
pub(crate) struct Mounts {
    all: Vec<Mount>,
    own: String,
    /// Whose place is meant; `None` is this process.
    of: Option<u32>,
}

impl Mounts {
    pub(crate) fn read(root: &Root) -> Result<Self> {
        Self::of(root, None)
    }

    /// The same with the place of process `of` in them; `None` is this process.
    pub(crate) fn of(root: &Root, of: Option<u32>) -> Result<Self> {
        let mut all = mountinfo::read(root)?;
        // A tree from outside of our cgroup namespace: where we are in it cannot
        // be known, and nothing in it is ours.
        all.retain(|mount| mount.kind.starts_with("cgroup") && !mount.top.starts_with("/.."));
        Ok(Self {
            all,
            own: root.read(groups_file(of))?,
            of,
        })
    }

    /// The v1 hierarchy that carries a controller.
    fn v1(&self, controller: &str) -> Option<&Mount> {
        self.all
            .iter()
            .find(|m| m.kind == "cgroup" && m.has(controller))
    }

    /// The v2 trees; almost always one.
    fn v2(&self) -> impl Iterator<Item = &Mount> {
        self.all.iter().filter(|m| m.kind == "cgroup2")
    }

    /// Our own group's path below a mount: that of a v1 controller, or of v2
    /// for `None`. It is the top where it cannot be seen from here; another process would be
    /// taken from its group, and put there.
    fn own(&self, mount: &Mount, controller: Option<&str>) -> Result<PathBuf> {
        let own = own_path(&self.own, controller, &mount.top);
        match (own, self.of) {
            (None, Some(pid)) => Err(Error::Missing {
                what: format!(
                    "the group of process {pid} in the tree at {}",
                    mount.point.display()
                ),
                remedy: "it is outside of the part that is mounted there: mount the machine's \
                         /sys/fs/cgroup; a container also needs the machine's cgroup namespace \
                         (--cgroupns=host)"
                    .into(),
            }),
            (own, _) => Ok(own.unwrap_or_default()),
        }
    }

    fn v1_tree(&self, controller: &str) -> Result<Option<GroupTree>> {
        let tree = self.v1(controller).map(|mount| {
            Ok(GroupTree {
                version: Version::V1,
                mount: mount.point.clone(),
                own: self.own(mount, Some(controller))?,
            })
        });
        tree.transpose()
    }

    fn v2_tree(&self, mount: &Mount) -> Result<GroupTree> {
        Ok(GroupTree {
            version: Version::V2,
            mount: mount.point.clone(),
            own: self.own(mount, None)?,
        })
    }

    /// The v1 hierarchy of a controller, else the first v2 tree.
    pub(crate) fn with(&self, controller: &str) -> Result<Option<GroupTree>> {
        match self.v1_tree(controller)? {
            None => self
                .v2()
                .next()
                .map(|mount| self.v2_tree(mount))
                .transpose(),
            tree => Ok(tree),
        }
    }

    /// The v1 hierarchy of a controller, else the first v2 tree whose root
    /// offers it.
    pub(crate) fn offering(&self, controller: &str) -> Result<Option<GroupTree>> {
        if let Some(tree) = self.v1_tree(controller)? {
            return Ok(Some(tree));
        }
        for mount in self.v2() {
            let offered = crate::root::read(&mount.point.join("cgroup.controllers"))?;
            if offered.split_whitespace().any(|c| c == controller) {
                return self.v2_tree(mount).map(Some);
            }
        }
        Ok(None)
    }
}

/// Where trees of groups are mounted, of either version.
pub fn mount_points(root: &Root) -> Result<Vec<PathBuf>> {
    let mounts = Mounts::read(root)?;
    Ok(mounts.all.into_iter().map(|mount| mount.point).collect())
}

fn groups_file(of: Option<u32>) -> String {
    of.map_or("/proc/self/cgroup".to_owned(), |pid| {
        format!("/proc/{pid}/cgroup")
    })
}

/// The groups that a process is in, a line for each hierarchy.
///
/// # Errors
/// [`Error::Read`] if it has ended.
pub fn groups_of(root: &Root, pid: u32) -> Result<String> {
    root.read(groups_file(Some(pid)))
}

/// Finds the cpu controller: a v1 hierarchy that carries it, else the v2 tree
/// if its root offers it.
pub fn find(root: &Root) -> Result<Hierarchies> {
    find_of(root, None)
}

/// The same with the place of process `of` in it; `None` is this process.
///
/// # Errors
/// [`Error::Missing`] if there is no such controller; also where the place of `of`, on v1 in any
/// hierarchy in which a node has a group, is outside of what is mounted.
pub fn find_of(root: &Root, of: Option<u32>) -> Result<Hierarchies> {
    let mounts = Mounts::of(root, of)?;
    if let Some(tree) = mounts.offering("cpu")? {
        let cpuacct = match tree.version {
            Version::V1 => {
                mounts.v1_tree("cpuset")?;
                mounts.v1_tree("freezer")?;
                mounts.v1_tree("cpuacct")?
            }
            Version::V2 => None,
        };
        return Ok(Hierarchies {
            version: tree.version,
            cpu: tree.mount,
            own: tree.own,
            own_cpuacct: cpuacct.as_ref().map(|t| t.own.clone()).unwrap_or_default(),
            cpuacct: cpuacct.map(|tree| tree.mount),
        });
    }
    Err(Error::Missing {
        what: "the cgroup cpu controller".into(),
        remedy: "mount it (mount -t cgroup2 none /sys/fs/cgroup), or boot without \
                 cgroup_disable=cpu; in a container, run it with its own writable cgroup tree"
            .into(),
    })
}

/// A process's path in one hierarchy by its `/proc/PID/cgroup`, relative to the part of
/// the tree that is mounted (a container may see only its own).
fn own_path(own: &str, controller: Option<&str>, top: &str) -> Option<PathBuf> {
    own.lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let _id = fields.next()?;
            Some((fields.next()?, fields.next()?))
        })
        .find(|(controllers, _)| match controller {
            Some(wanted) => controllers.split(',').any(|c| c == wanted),
            None => controllers.is_empty(),
        })
        // Out of our cgroup namespace: where that is cannot be known.
        .filter(|(_, path)| !path.starts_with("/.."))
        .and_then(|(_, path)| Path::new(path).strip_prefix(top).ok().map(Path::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::fake;

    #[test]
    fn a_place_outside_of_the_namespace_is_none() {
        let own = "0::/../../x\n";
        assert_eq!(own_path(own, None, "/"), None);
        assert_eq!(own_path("0::/x/y\n", None, "/"), Some("x/y".into()));
    }

    /// Its node would be made elsewhere, and it would go there at the end.
    #[test]
    fn another_process_whose_place_is_not_mounted_is_none() {
        let v1 = |controller: &str| {
            format!(
                "41 30 0:33 /docker/ab /sys/fs/cgroup/{controller} rw - cgroup x rw,{controller}\n"
            )
        };
        let v1 = ["cpu", "cpuset"].map(v1).concat();
        let v2 = "41 30 0:33 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let home = |mountinfo: &str, groups: &str| {
            let (_dir, root) = fake(&[
                ("proc/self/mountinfo", mountinfo),
                ("proc/self/cgroup", groups),
                ("proc/7/cgroup", groups),
                ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
            ]);
            assert!(find(&root).is_ok(), "{groups}");
            find_of(&root, Some(7)).map(|found| found.own)
        };
        let inside = "3:cpu:/docker/ab/x\n4:cpuset:/docker/ab\n";
        assert_eq!(home(&v1, inside).unwrap(), Path::new("x"));
        for (mounts, groups) in [
            (v1.as_str(), "3:cpu:/system.slice/x\n4:cpuset:/docker/ab\n"),
            (&v1, "3:cpu:/../x\n4:cpuset:/docker/ab\n"),
            (&v1, "3:cpu:/docker/ab/x\n4:cpuset:/\n"),
            (v2, "0::/../x\n"),
        ] {
            let error = home(mounts, groups).unwrap_err();
            assert!(matches!(error, Error::Missing { .. }), "{error}");
            assert!(error.to_string().contains("process 7"), "{error}");
        }
    }

    #[test]
    fn a_tree_from_outside_the_namespace_is_none() {
        let line = "25 1 0:22 /../.. /sys/fs/cgroup rw - cgroup2 none rw\n";
        let (_dir, root) = tree(line, "0::/\n");
        assert!(find(&root).is_err());
    }

    fn tree(mountinfo: &str, cgroup: &str) -> (tempfile::TempDir, Root) {
        fake(&[
            ("proc/self/mountinfo", mountinfo),
            ("proc/self/cgroup", cgroup),
        ])
    }

    const V1: &str = "\
31 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
33 31 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 31 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn a_hybrid_machine_has_its_cpu_controller_in_v1() {
        let (_dir, root) = tree(V1, "4:memory:/a\n2:cpu,cpuacct:/user/1\n0::/\n");
        let found = find(&root).unwrap();
        assert_eq!(found.version, Version::V1);
        assert_eq!(found.cpu, root.path("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(found.cpuacct.as_ref(), Some(&found.cpu));
        assert_eq!(found.own, Path::new("user/1"));
    }

    #[test]
    fn a_container_sees_its_own_part_of_the_tree() {
        let mount = "40 39 0:33 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n";
        let (_dir, root) = fake(&[
            ("proc/self/mountinfo", mount),
            ("proc/self/cgroup", "0::/docker/x/app\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io\n"),
        ]);
        let found = find(&root).unwrap();
        assert_eq!(found.version, Version::V2);
        assert_eq!(found.own, Path::new("app"));
    }

    /// systemd writes `-` in a name as `\x2d`, and the list of mounts `\` as `\134`.
    #[test]
    fn a_part_of_the_tree_with_an_escaped_name_is_found() {
        let mount = r"40 39 0:33 /machine.slice/machine-a\134x2db.scope /sys/fs/cgroup/cpu rw - cgroup none rw,cpu";
        let own = r"3:cpu:/machine.slice/machine-a\x2db.scope/app";
        let (_dir, root) = tree(mount, own);
        assert_eq!(find(&root).unwrap().own, Path::new("app"));
    }

    #[test]
    fn a_tree_without_the_controller_is_said_to_miss_it() {
        let mount = "40 39 0:33 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let (_dir, root) = fake(&[
            ("proc/self/mountinfo", mount),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory pids\n"),
        ]);
        let error = find(&root).unwrap_err().to_string();
        assert!(error.contains("cpu controller is missing"), "{error}");
    }
}
