// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the groups are, for every kind of tree; drawn and argued in
//! docs/groups.md.
//!
//! One rule for all: each burner has a group of its own directly below the
//! top of the tree, because the weight of a common parent would be divided
//! over the CPUs that it burns on, and because a burner must compete with
//! everything on its CPU and not only with the wrapped command. Nobody else's
//! task is moved.

mod node;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbag_kernel::cgroup::{self, Cap, Group, Hierarchies, Version, Weight};
use sandbag_kernel::{Root, container, root};

use crate::error::{Error, Result};
use crate::journal::{self, Entry, Journal};
use crate::lock::Lock;
use crate::systemd;

/// Every group and unit of ours begins with this.
pub const PREFIX: &str = "sandbag";

/// The kinds of trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// cgroup v1: directories at the root of the cpu hierarchy.
    V1,
    /// cgroup v2 without systemd: directories at the root of the tree.
    V2,
    /// cgroup v2 that belongs to systemd: units asked of PID 1.
    V2Systemd,
    /// A v2 group that was handed to us (`--cgroup`): directories in it.
    Delegated,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
            Self::V2Systemd => "v2-systemd",
            Self::Delegated => "delegated",
        })
    }
}

/// The tree of this machine and our place in it.
#[derive(Debug, Clone)]
pub struct Layout {
    kind: Kind,
    hierarchies: Hierarchies,
    /// Directory in which our groups are made.
    base: PathBuf,
}

/// A group with what made it: a directory of ours, or systemd.
#[derive(Debug)]
pub struct Holder {
    group: Group,
    slice: Option<String>,
    scope: Option<String>,
}

/// Who is put into a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenant {
    /// The `nth` burner of a CPU.
    Burner {
        /// CPU number.
        cpu: u32,
        /// 0 for the first.
        nth: usize,
    },
    /// The wrapped command.
    Command,
}

impl Layout {
    /// Finds the tree. `delegated` is the user's `--cgroup PATH`.
    ///
    /// # Errors
    /// [`Error::NotPossible`] with the remedy where no group can be made.
    pub fn find(root: &Root, delegated: Option<&Path>) -> Result<Self> {
        let hierarchies = cgroup::find(root).map_err(|error| Error::NotPossible {
            what: error.to_string(),
            remedy: "sandbag doctor says what works here".into(),
        })?;
        if let Some(path) = delegated {
            return Self::delegated(hierarchies, path);
        }
        let (kind, base) = match hierarchies.version {
            Version::V1 => (Kind::V1, hierarchies.cpu.clone()),
            Version::V2 if container::systemd(root) => (Kind::V2Systemd, hierarchies.cpu.clone()),
            Version::V2 => (Kind::V2, hierarchies.cpu.clone()),
        };
        let layout = Self {
            kind,
            hierarchies,
            base,
        };
        layout.check_access()?;
        Ok(layout)
    }

    fn delegated(hierarchies: Hierarchies, path: &Path) -> Result<Self> {
        let not_possible = |what: String, remedy: &str| Error::NotPossible {
            what,
            remedy: remedy.into(),
        };
        let base = match path.starts_with(&hierarchies.cpu) {
            true => path.to_owned(),
            false => hierarchies.cpu.join(path.strip_prefix("/").unwrap_or(path)),
        };
        if !base.is_dir() {
            return Err(not_possible(
                format!("{} is not a group", base.display()),
                "--cgroup takes a directory of the cgroup tree, or a path below its root",
            ));
        }
        if hierarchies.version == Version::V2 {
            let offered = root::read(&base.join("cgroup.controllers"))?;
            if !offered.split_whitespace().any(|c| c == "cpu") {
                return Err(not_possible(
                    format!("the cpu controller is not delegated to {}", base.display()),
                    "its parent must list cpu in cgroup.subtree_control (systemd: \
                     Delegate=cpu, and CPUAccounting or DefaultCPUAccounting=yes)",
                ));
            }
        }
        let layout = Self {
            kind: Kind::Delegated,
            hierarchies,
            base,
        };
        layout.check_access()?;
        Ok(layout)
    }

    fn check_access(&self) -> Result<()> {
        if self.kind == Kind::V2Systemd {
            // PID 1 decides by who asks; only root is let through unasked.
            // SAFETY: no arguments, cannot fail.
            if unsafe { libc::geteuid() } == 0 {
                return Ok(());
            }
        } else {
            let path = std::ffi::CString::new(self.base.as_os_str().as_encoded_bytes())
                .unwrap_or_default();
            // SAFETY: a valid C string.
            if unsafe { libc::access(path.as_ptr(), libc::W_OK) } == 0 {
                return Ok(());
            }
        }
        Err(Error::NotPossible {
            what: format!("no permission to make groups in {}", self.base.display()),
            remedy: "run as root, or give a delegated v2 group with --cgroup (docs/groups.md \
                     says how to make one)"
                .into(),
        })
    }

    /// Which kind of tree.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Interface version of the tree.
    #[must_use]
    pub fn version(&self) -> Version {
        self.hierarchies.version
    }

    /// Mount points and our own place.
    #[must_use]
    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    /// Most weight that one group can carry.
    #[must_use]
    pub fn most_weight(&self) -> Weight {
        Weight::range(self.version()).1
    }

    /// Makes the tree ready: on v2 the cpu controller must be enabled for
    /// the groups below the base.
    pub fn prepare(&self, journal: &mut Journal) -> Result<()> {
        match self.version() == Version::V1 || self.kind == Kind::V2Systemd {
            true => Ok(()),
            false => self.enable(journal, "cpu"),
        }
    }

    /// Enables a controller for the groups below the base of a v2 tree.
    fn enable(&self, journal: &mut Journal, controller: &str) -> Result<()> {
        let path = self.base.join("cgroup.subtree_control");
        let entry = Entry::Controller {
            path: path.clone(),
            name: controller.into(),
        };
        // A run that ends now must see our note before it disables it, or we
        // must see that it is disabled.
        let _lock = Lock::of(journal.dir())?;
        let enabled = root::read(&path)?;
        let is_enabled = enabled.split_whitespace().any(|c| c == controller);
        // Enabled by another run: whoever ends last undoes it. Enabled by
        // somebody else: it is not ours to undo.
        if is_enabled && !journal::of_others(journal).contains(&entry) {
            return Ok(());
        }
        journal.note(entry)?;
        if is_enabled {
            return Ok(());
        }
        root::write(&path, format!("+{controller}")).map_err(|error| match error.errno() {
            Some(libc::EBUSY) => Error::NotPossible {
                what: format!("{} has processes of its own", self.base.display()),
                remedy: "a v2 group cannot have both processes and groups with controllers: \
                         move them into a group below it first, or give another with --cgroup"
                    .into(),
            },
            _ => error.into(),
        })
    }

    fn name(run: u32, tenant: Tenant) -> String {
        match tenant {
            Tenant::Burner { cpu, nth: 0 } => format!("{PREFIX}-{run}-cpu{cpu}"),
            Tenant::Burner { cpu, nth } => format!("{PREFIX}-{run}-cpu{cpu}.{nth}"),
            Tenant::Command => format!("{PREFIX}-{run}-cmd"),
        }
    }

    /// Makes the group of a tenant and puts the process into it.
    pub fn settle(
        &self,
        journal: &mut Journal,
        run: u32,
        tenant: Tenant,
        pid: u32,
    ) -> Result<Holder> {
        match self.kind {
            Kind::V2Systemd => self.settle_by_systemd(journal, run, tenant, pid),
            Kind::V1 | Kind::V2 | Kind::Delegated => self.settle_by_hand(journal, run, tenant, pid),
        }
    }

    fn settle_by_hand(
        &self,
        journal: &mut Journal,
        run: u32,
        tenant: Tenant,
        pid: u32,
    ) -> Result<Holder> {
        let name = Self::name(run, tenant);
        let h = &self.hierarchies;
        // On v1 groups may be nested at will, so the command stays where it
        // was, one level deeper. On v2 a group with processes can have no
        // children with controllers: the command gets a sibling.
        let nested = tenant == Tenant::Command && self.kind == Kind::V1;
        let cpu = match nested {
            true => h.own_dir().join(&name),
            false => self.base.join(&name),
        };
        // Burners need no accounting: they have clocks of their own.
        let accounting = h
            .cpuacct
            .as_ref()
            .filter(|mount| tenant == Tenant::Command && **mount != h.cpu);
        let group = Group::at(
            self.version(),
            cpu,
            accounting.map(|mount| mount.join(&h.own_cpuacct).join(&name)),
        );
        let back = (tenant == Tenant::Command).then(|| {
            let mut back = vec![h.own_dir()];
            back.extend(accounting.map(|mount| mount.join(&h.own_cpuacct)));
            back
        });
        journal.note(Entry::Group {
            dirs: group.dirs().map(Path::to_owned).collect(),
            back,
        })?;
        group.make()?;
        group.add(pid)?;
        Ok(Holder {
            group,
            slice: None,
            scope: None,
        })
    }

    fn settle_by_systemd(
        &self,
        journal: &mut Journal,
        run: u32,
        tenant: Tenant,
        pid: u32,
    ) -> Result<Holder> {
        let failed = |what| Error::NotPossible {
            what,
            remedy: "see the journal of PID 1 (journalctl -u init.scope), or give a delegated \
                     group with --cgroup"
                .into(),
        };
        // No dash in a slice's name: sandbag-0.slice would lie inside
        // sandbag.slice, whose weight would be divided over all our CPUs.
        let (slice, made) = match tenant {
            Tenant::Burner { cpu, nth } => (format!("{PREFIX}{run}c{cpu}n{nth}.slice"), true),
            Tenant::Command => (self.own_slice(), false),
        };
        let scope = match tenant {
            Tenant::Burner { cpu, nth } => format!("{PREFIX}{run}c{cpu}n{nth}.scope"),
            Tenant::Command => format!("{PREFIX}{run}cmd.scope"),
        };
        if made {
            journal.note(Entry::Unit {
                name: slice.clone(),
                keep: false,
            })?;
            systemd::start_slice(&slice, 100).map_err(failed)?;
        }
        journal.note(Entry::Unit {
            name: scope.clone(),
            keep: !made,
        })?;
        systemd::start_scope(&scope, &slice, pid).map_err(failed)?;
        let dir = wait_for_group(&self.hierarchies.cpu, pid, &scope).map_err(failed)?;
        // The burner's weight is that of its slice: the scope is alone in it.
        let dir = match made {
            true => dir.parent().map_or(dir.clone(), Path::to_owned),
            false => dir,
        };
        Ok(Holder {
            group: Group::at(Version::V2, dir, None),
            slice: made.then_some(slice),
            scope: Some(scope),
        })
    }

    /// The slice we run in ourselves: the command stays there.
    fn own_slice(&self) -> String {
        self.hierarchies
            .own
            .iter()
            .rev()
            .filter_map(|part| part.to_str())
            .find(|part| part.ends_with(".slice"))
            .unwrap_or("system.slice")
            .to_owned()
    }
}

/// StartTransientUnit answers before the job is done; the scope is there when
/// the process is in it.
fn wait_for_group(mount: &Path, pid: u32, scope: &str) -> std::result::Result<PathBuf, String> {
    let give_up = Instant::now() + Duration::from_secs(20);
    loop {
        let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"));
        match path {
            Some(path) if path.ends_with(scope) => return Ok(mount.join(path)),
            _ if Instant::now() > give_up => {
                return Err(format!("systemd did not start {scope} within 20 s"));
            }
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

impl Holder {
    /// The group, for reading.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The systemd scope, where there is one.
    #[must_use]
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }

    /// Sets the weight.
    pub fn set_weight(&self, weight: Weight) -> Result<()> {
        match &self.slice {
            None => Ok(self.group.set_weight(weight)?),
            Some(slice) => {
                let units = (weight.0 * 100.0).round().clamp(1.0, 10_000.0) as u64;
                systemd::set_weight(slice, units).map_err(|what| Error::NotPossible {
                    what,
                    remedy: "the weight of a slice of ours was refused".into(),
                })
            }
        }
    }

    /// Sets or removes the cap.
    pub fn set_cap(&self, cap: Option<Cap>) -> Result<()> {
        if self.slice.is_some() && cap.is_some() {
            return Err(Error::NotPossible {
                what: "systemd cannot set the burst that a cap needs to be exact".into(),
                remedy: "use --method pace, or give a delegated group with --cgroup".into(),
            });
        }
        match self.slice {
            Some(_) => Ok(()),
            None => Ok(self.group.set_cap(cap)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_run_and_cpu() {
        let burner = |cpu, nth| Layout::name(7, Tenant::Burner { cpu, nth });
        assert_eq!(burner(3, 0), "sandbag-7-cpu3");
        assert_eq!(burner(3, 2), "sandbag-7-cpu3.2");
        assert_eq!(Layout::name(7, Tenant::Command), "sandbag-7-cmd");
    }

    fn fake_v2(controllers: &str) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("sys/fs/cgroup");
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        fs::write(tree.join("cgroup.controllers"), controllers).unwrap();
        fs::write(tree.join("cgroup.subtree_control"), "").unwrap();
        fs::write(
            dir.path().join("proc/self/cgroup"),
            "0::/user.slice/u.scope\n",
        )
        .unwrap();
        fs::write(
            dir.path().join("proc/self/mountinfo"),
            "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        )
        .unwrap();
        let root = Root::at(dir.path());
        (dir, root)
    }

    #[test]
    fn without_the_controller_the_remedy_is_said() {
        let (_dir, root) = fake_v2("memory pids\n");
        let error = Layout::find(&root, None).unwrap_err();
        assert!(matches!(error, Error::NotPossible { .. }), "{error}");
    }

    #[test]
    fn a_delegated_group_without_cpu_is_refused() {
        let (_dir, root) = fake_v2("cpu\n");
        let own = root.path("/sys/fs/cgroup/mine");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("cgroup.controllers"), "memory\n").unwrap();
        let error = Layout::find(&root, Some(&own)).unwrap_err().to_string();
        assert!(error.contains("not delegated"), "{error}");
    }

    #[test]
    fn systemd_is_recognised_and_the_command_keeps_its_slice() {
        let (dir, root) = fake_v2("cpu\n");
        assert_eq!(Layout::find(&root, None).unwrap().kind(), Kind::V2);
        fs::create_dir_all(dir.path().join("run/systemd/system")).unwrap();
        // Only root is let through by PID 1.
        // SAFETY: no arguments, cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            let layout = Layout::find(&root, None).unwrap();
            assert_eq!(layout.kind(), Kind::V2Systemd);
            assert_eq!(layout.own_slice(), "user.slice");
        }
    }

    #[test]
    fn the_controller_is_noted_before_it_is_enabled() {
        let (dir, root) = fake_v2("cpu\n");
        let layout = Layout::find(&root, None).unwrap();
        let mut journal = journal(dir.path(), 1);
        layout.prepare(&mut journal).unwrap();
        assert!(matches!(
            journal.entries().unwrap().last(),
            Some(Entry::Controller { .. })
        ));
        let control = root.path("/sys/fs/cgroup/cgroup.subtree_control");
        assert_eq!(fs::read_to_string(control).unwrap(), "+cpu");
    }

    fn journal(dir: &Path, pid: u32) -> Journal {
        let info = crate::journal::RunInfo {
            pid,
            cpus: "0".into(),
            method: "pace".into(),
            load: String::new(),
            command: vec![],
            started_s: 0,
            board_fd: 0,
            kill: false,
        };
        Journal::create(dir, info).unwrap()
    }

    #[test]
    fn the_controller_outlives_the_run_that_enabled_it_while_another_needs_it() {
        use crate::undo::{Leftovers, undo};
        let (dir, root) = fake_v2("cpu\n");
        let layout = Layout::find(&root, None).unwrap();
        let control = root.path("/sys/fs/cgroup/cgroup.subtree_control");
        let mut first = journal(dir.path(), 1);
        layout.prepare(&mut first).unwrap();
        // What a kernel says of it.
        fs::write(&control, "cpu\n").unwrap();
        // The first is ending while the second starts: one waits for the
        // other, and the controller is there for the second.
        let lock = Lock::of(dir.path()).unwrap();
        let mut second = journal(dir.path(), 2);
        std::thread::scope(|scope| {
            let starting = scope.spawn(|| layout.prepare(&mut second));
            std::thread::sleep(Duration::from_millis(50));
            let noted = crate::journal::read(&dir.path().join("2.journal")).unwrap();
            assert_eq!(noted.entries.len(), 1, "noted without the lock");
            drop(lock);
            starting.join().unwrap().unwrap();
        });
        assert_eq!(undo(first, Leftovers::GoBack), Vec::<String>::new());
        assert_eq!(fs::read_to_string(&control).unwrap(), "cpu\n");
        assert_eq!(undo(second, Leftovers::GoBack), Vec::<String>::new());
        assert_eq!(fs::read_to_string(&control).unwrap(), "-cpu");
    }

    #[test]
    fn a_controller_that_somebody_else_enabled_is_not_noted() {
        let (dir, root) = fake_v2("cpu\n");
        let layout = Layout::find(&root, None).unwrap();
        let control = root.path("/sys/fs/cgroup/cgroup.subtree_control");
        fs::write(control, "cpu\n").unwrap();
        let mut journal = journal(dir.path(), 1);
        layout.prepare(&mut journal).unwrap();
        assert_eq!(journal.entries().unwrap().len(), 1);
    }
}
