// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of a run's program, from the groups that its journal names.

use std::path::{Path, PathBuf};

use sandbag_linux::{Root, cgroup, clock, root};
use sandbag_run::journal::{self, Entry};
use sandbag_run::layout::dir_of_scope;

/// The group of a run's command or node, looked at again and again.
#[derive(Debug, Default)]
pub struct ProgramUse {
    dirs: Vec<PathBuf>,
    /// When it was looked at (monotonic) and what had been used, ns.
    before: Option<(u64, u64)>,
}

impl ProgramUse {
    /// Of the run with this journal and supervisor; without a program there is nothing to
    /// see.
    pub fn of(journal: &Path, supervisor: u32) -> Self {
        let entries = journal::read(journal).map(|contents| contents.entries);
        let entries = entries.unwrap_or_default();
        let dirs = entries.iter().find_map(|entry| match entry {
            Entry::Group {
                dirs,
                back: Some(_),
            } => Some(dirs.clone()),
            Entry::NodeSlice { dir, .. } | Entry::UnitCpus { dir, .. } => Some(vec![dir.clone()]),
            _ => None,
        });
        // Under systemd the command is in a scope, of which the journal has the name.
        let scope = || {
            entries.iter().find_map(|entry| match entry {
                Entry::Unit { name, keep: true } => {
                    let mount = cgroup::find(&Root::default()).ok()?.cpu;
                    Some(vec![dir_of_scope(&mount, supervisor, name)?])
                }
                _ => None,
            })
        };
        Self {
            dirs: dirs.or_else(scope).unwrap_or_default(),
            before: None,
        }
    }

    /// Whether nothing is known of a program, or not yet.
    pub fn is_unknown(&self) -> bool {
        self.dirs.is_empty()
    }

    /// What it used since the last look, percent of one CPU.
    pub fn look(&mut self) -> Option<f64> {
        let now = (
            clock::monotonic(),
            self.dirs.iter().find_map(|dir| used_ns(dir))?,
        );
        let (at, used) = self.before.replace(now)?;
        let share = now.1.saturating_sub(used) as f64 / now.0.saturating_sub(at).max(1) as f64;
        Some(100.0 * share)
    }
}

/// CPU time of all that ever ran in a group and below it, ns; `None` where this directory
/// does not keep it.
pub fn used_ns(dir: &Path) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    if let Ok(text) = root::read(&dir.join("cpuacct.usage")) {
        return number(&text);
    }
    let stat = root::read(&dir.join("cpu.stat")).ok()?;
    let us = stat
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "))?;
    number(us).map(|us| us * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn either_version_of_groups_says_what_was_used() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(used_ns(dir.path()), None);
        fs::write(dir.path().join("cpu.stat"), "nr_periods 0\n").unwrap();
        assert_eq!(used_ns(dir.path()), None);
        fs::write(dir.path().join("cpu.stat"), "usage_usec 17\nuser_usec 3\n").unwrap();
        assert_eq!(used_ns(dir.path()), Some(17_000));
        fs::write(dir.path().join("cpuacct.usage"), "99\n").unwrap();
        assert_eq!(used_ns(dir.path()), Some(99));
    }
}
