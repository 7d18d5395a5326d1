// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parameters of all experiments: programs, CPUs, form and limits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use sandbag_linux::CpuList;

use crate::place::RunPlace;

#[derive(Debug, Clone)]
pub struct Setup {
    pub sandbag: PathBuf,
    /// This program, for the lab's own workloads.
    pub own: PathBuf,
    pub cpus: CpuList,
    /// The short form: fewer cells, shorter programs, fewer rounds.
    pub quick: bool,
    pub methods: Methods,
    /// Only these programs, of `competitor`; all, if there are none.
    pub programs: Vec<String>,
    /// These loads in place of its own, percent.
    pub loads: Vec<f64>,
    pub limit: Duration,
    /// A C project to compile, in place of the one that is found.
    pub sources: Option<PathBuf>,
    pub scratch: PathBuf,
    /// The experiment's own directory, which stays.
    pub dir: PathBuf,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Methods {
    pub loading: Vec<String>,
    pub slowing: Vec<String>,
    /// The reasons of those that do not work.
    pub refused: Vec<String>,
}

impl Setup {
    pub fn place<'a>(&'a self, cpus: &'a CpuList) -> RunPlace<'a> {
        RunPlace {
            sandbag: &self.sandbag,
            cpus,
            scratch: &self.scratch,
            limit: self.limit,
        }
    }

    /// Words that run one of the lab's own programs.
    pub fn work(&self, words: &str) -> Vec<OsString> {
        let own = std::iter::once(self.own.clone().into_os_string());
        own.chain(["work".into()])
            .chain(words.split(' ').map(OsString::from))
            .collect()
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

    pub(crate) fn setup(dir: &Path) -> Setup {
        Setup {
            sandbag: PathBuf::from("/no/sandbag"),
            own: "sandbag-lab".into(),
            cpus: CpuList::from_iter([0]),
            quick: true,
            methods: Methods::default(),
            programs: Vec::new(),
            loads: Vec::new(),
            limit: Duration::from_secs(1),
            sources: None,
            scratch: dir.to_owned(),
            dir: dir.to_owned(),
        }
    }
}
