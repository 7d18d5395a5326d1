// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the groups are, for every kind of tree; drawn and argued in
//! docs/explanation/groups.md.
//!
//! One rule for all: each burner has a group of its own directly below the
//! top of the tree, because the weight of a common parent would be divided
//! over the CPUs that it burns on, and because a burner must compete with
//! everything on its CPU and not only with the wrapped command. No
//! foreign task is moved.

mod by_hand;
mod by_systemd;
mod holder;
mod node;

use std::path::{Path, PathBuf};

use sandbag_linux::cgroup::{self, Hierarchies, Version, Weight};
use sandbag_linux::container::CpuLimit;
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root, container, root};

use crate::error::{Error, Result};
use crate::journal::{self, Entry, Journal};
use crate::lock::Lock;
use crate::online::check_usable;
use crate::run_process::RunId;

pub use by_systemd::dir_of_scope;
pub use holder::Holder;
pub use node::other_cpus;

/// Every group and unit of ours begins with this.
pub const PREFIX: &str = "sandbag";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutKind {
    /// cgroup v1: directories at the root of the cpu hierarchy.
    V1,
    /// cgroup v2 without systemd: directories at the root of the tree.
    V2,
    /// cgroup v2 that belongs to systemd: units asked of PID 1.
    V2Systemd,
    /// A v2 group that was handed to us (`--cgroup`): directories in it.
    Delegated,
}

impl std::fmt::Display for LayoutKind {
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
    kind: LayoutKind,
    hierarchies: Hierarchies,
    /// Directory in which our groups are made.
    base: PathBuf,
}

/// Who is put into a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenant {
    /// The `nth` burner of a CPU.
    Burner {
        cpu: u32,
        /// 0 for the first.
        nth: usize,
    },
    Command,
}

impl Layout {
    /// Finds the tree. `delegated` is the user's `--cgroup PATH`.
    ///
    /// # Errors
    /// [`Error::NotPossible`] with the remedy where no group can be made.
    pub fn find(root: &Root, delegated: Option<&Path>) -> Result<Self> {
        let remedy = "sandbag doctor says what works here";
        let hierarchies =
            cgroup::find(root).map_err(|error| Error::not_possible(error.to_string(), remedy))?;
        if let Some(path) = delegated {
            return Self::delegated_layout(hierarchies, path);
        }
        let (kind, base) = match hierarchies.version {
            Version::V1 => (LayoutKind::V1, hierarchies.cpu.clone()),
            Version::V2 if container::systemd(root) => {
                (LayoutKind::V2Systemd, hierarchies.cpu.clone())
            }
            Version::V2 => (LayoutKind::V2, hierarchies.cpu.clone()),
        };
        let layout = Self {
            kind,
            hierarchies,
            base,
        };
        layout.check_access()?;
        Ok(layout)
    }

    fn delegated_layout(hierarchies: Hierarchies, path: &Path) -> Result<Self> {
        let base = if path.starts_with(&hierarchies.cpu) {
            path.to_owned()
        } else {
            hierarchies.cpu.join(path.strip_prefix("/").unwrap_or(path))
        };
        // Without links and `..`: what is noted in the journal must be undone
        // where it was done.
        let real = base.canonicalize().ok();
        let real = real.filter(|dir| dir.is_dir() && dir.starts_with(&hierarchies.cpu));
        let Some(base) = real else {
            return Err(Error::not_possible(
                format!("{} is not a group", base.display()),
                "--cgroup takes a directory of the cgroup tree, or a path below its root",
            ));
        };
        if hierarchies.version == Version::V2 {
            let offered = root::read(&base.join("cgroup.controllers"))?;
            if !offered.split_whitespace().any(|c| c == "cpu") {
                return Err(Error::not_possible(
                    format!("the cpu controller is not delegated to {}", base.display()),
                    "its parent must list cpu in cgroup.subtree_control (systemd: \
                     Delegate=cpu, and CPUAccounting or DefaultCPUAccounting=yes)",
                ));
            }
        }
        let layout = Self {
            kind: LayoutKind::Delegated,
            hierarchies,
            base,
        };
        layout.check_access()?;
        Ok(layout)
    }

    fn check_access(&self) -> Result<()> {
        if self.kind == LayoutKind::V2Systemd {
            // PID 1 decides by the caller; only root is let through unasked.
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
        // SAFETY: no arguments, cannot fail.
        let remedy = if unsafe { libc::geteuid() } == 0 {
            "root may not write there: in a container, mount the machine's /sys/fs/cgroup with write \
             permission and add the capability DAC_OVERRIDE, or run it privileged \
             (docs/how-to/kubernetes.md)"
        } else {
            "run as root, or give a delegated v2 group with --cgroup (docs/explanation/groups.md \
             says how to make one)"
        };
        Err(Error::not_possible(
            format!("no permission to make groups in {}", self.base.display()),
            remedy,
        ))
    }

    pub fn kind(&self) -> LayoutKind {
        self.kind
    }

    pub fn version(&self) -> Version {
        self.hierarchies.version
    }

    /// The CPUs that groups made here can use: on v1 those of our own cpuset, on v2 those of the
    /// cpuset above them.
    pub fn usable(&self, topology: &Topology) -> CpuList {
        if self.version() == Version::V1 {
            return topology.usable.clone();
        }
        // Without the controller a group has the CPUs of the one above.
        let above = self.base.ancestors();
        let above = above.take_while(|dir| dir.starts_with(&self.hierarchies.cpu));
        let found = above.filter_map(|dir| {
            let text = root::read(&dir.join("cpuset.cpus.effective")).ok()?;
            text.trim().parse::<CpuList>().ok()
        });
        found.into_iter().next().map_or_else(
            || topology.online.clone(),
            |cpus| cpus.intersection(&topology.online),
        )
    }

    /// Refuses CPUs that are not [usable](Self::usable).
    ///
    /// # Errors
    /// [`Error::NotPossible`] for the first.
    pub fn check_usable(&self, topology: &Topology, cpus: &CpuList) -> Result<()> {
        check_usable(&self.usable(topology), cpus)
    }

    /// The tightest cap on the group in which ours are made and those above it: it is for all
    /// of ours together. The group that we were started in may have another.
    pub fn cpu_limit(&self) -> sandbag_linux::Result<Option<CpuLimit>> {
        container::cpu_limit_at(&self.base, &self.hierarchies.cpu)
    }

    /// Mount points and our own place.
    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    /// Most weight that one group can carry.
    pub fn most_weight(&self) -> Weight {
        Weight::range(self.version()).1
    }

    /// Makes the tree ready: on v2 the cpu controller must be enabled for
    /// the groups below the base.
    pub fn prepare(&self, journal: &mut Journal) -> Result<()> {
        if self.version() == Version::V1 || self.kind == LayoutKind::V2Systemd {
            Ok(())
        } else {
            self.check_empty()?;
            self.enable(journal, "cpu")
        }
    }

    /// Below a group with processes the kernel lets cpu be enabled, because it
    /// could divide it between threads, but takes no process into the groups
    /// there (EOPNOTSUPP). Only the root of all may have both; it alone has no
    /// `cgroup.type`.
    fn check_empty(&self) -> Result<()> {
        let full = self.base.join("cgroup.type").exists()
            && !root::read(&self.base.join("cgroup.procs"))?
                .trim()
                .is_empty();
        if full {
            Err(self.has_processes())
        } else {
            Ok(())
        }
    }

    fn has_processes(&self) -> Error {
        Error::not_possible(
            format!("{} has processes of its own", self.base.display()),
            "a v2 group cannot have both processes and groups with controllers: move them into a \
             group below it first, or give another with --cgroup",
        )
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
        // Enabled by another run: the last run to end undoes it.
        // Enabled by anything else: it is not ours to undo.
        if is_enabled && !journal::of_others(journal).contains(&entry) {
            return Ok(());
        }
        journal.note(entry)?;
        if is_enabled {
            return Ok(());
        }
        root::write(&path, format!("+{controller}")).map_err(|error| match error.errno() {
            Some(libc::EBUSY) => self.has_processes(),
            _ => error.into(),
        })
    }

    /// Makes the group of a tenant and puts the process into it.
    pub fn settle(
        &self,
        journal: &mut Journal,
        run: RunId,
        tenant: Tenant,
        pid: u32,
    ) -> Result<Holder> {
        match self.kind {
            LayoutKind::V2Systemd => self.settle_by_systemd(journal, run, tenant, pid),
            LayoutKind::V1 | LayoutKind::V2 | LayoutKind::Delegated => {
                self.settle_by_hand(journal, run, tenant, pid)
            }
        }
    }
}

#[cfg(test)]
mod tests;
