// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all experiments are told: with what, where, and how long.

use std::path::PathBuf;
use std::time::Duration;

use sandbag_linux::CpuList;

use crate::place::RunPlace;

/// What all experiments are told.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The sandbag under test.
    pub sandbag: PathBuf,
    /// This program, for the lab's own workloads.
    pub own: PathBuf,
    /// The CPUs of this machine.
    pub cpus: CpuList,
    /// The short form: fewer cells, shorter programs, fewer rounds.
    pub quick: bool,
    /// Methods that are compared.
    pub methods: Methods,
    /// What one program may take.
    pub limit: Duration,
    /// A C project to compile, in place of the one that is found.
    pub sources: Option<PathBuf>,
    /// For files of the moment; goes with the experiment.
    pub scratch: PathBuf,
    /// For files that stay, the experiment's own.
    pub dir: PathBuf,
}

/// Which methods work on these CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Methods {
    /// Those that put a load on CPUs.
    pub loading: Vec<String>,
    /// Those that slow a node.
    pub slowing: Vec<String>,
    /// Why others do not.
    pub refused: Vec<String>,
}

impl Setup {
    /// Where programs run on some of the CPUs.
    #[must_use]
    pub fn place<'a>(&'a self, cpus: &'a CpuList) -> RunPlace<'a> {
        RunPlace {
            sandbag: &self.sandbag,
            cpus,
            scratch: &self.scratch,
            limit: self.limit,
        }
    }

    /// One value for the short form, one for the full one.
    pub fn form<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::Path;

    /// For experiments that start no sandbag.
    pub(crate) fn setup(dir: &Path) -> Setup {
        Setup {
            sandbag: PathBuf::from("/no/sandbag"),
            own: "sandbag-lab".into(),
            cpus: CpuList::from_iter([0]),
            quick: true,
            methods: Methods::default(),
            limit: Duration::from_secs(1),
            sources: None,
            scratch: dir.to_owned(),
            dir: dir.to_owned(),
        }
    }
}
