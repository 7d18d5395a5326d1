// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups of the tests' own, beside sandbag's.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use sandbag_linux::Root;
use sandbag_linux::cgroup::{self, Group, Weight};

/// A group at the top of the tree, removed at the end.
pub struct CompetingTask {
    dir: PathBuf,
}

impl CompetingTask {
    /// With a weight in cgroup v2's units (100 is the default).
    pub fn with_weight(weight: u64) -> anyhow::Result<Self> {
        let tree = cgroup::find(&Root::default())?;
        let dir = tree.cpu.join("machine-test");
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        let this = Self { dir };
        Group::at(tree.version, this.dir.clone(), None)
            .set_weight(Weight(weight as f64 / 100.0))?;
        Ok(this)
    }

    /// A command line that begins in the group.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        let enter = format!("echo $$ > {}/cgroup.procs && {script}", self.dir.display());
        command.args(["-c", &enter]);
        command
    }
}

impl Drop for CompetingTask {
    fn drop(&mut self) {
        // Empty once what was started in it was waited for.
        let _ = fs::remove_dir(&self.dir);
    }
}
