// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups of the tests' own, beside sandbag's.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

/// A group at the top of the tree, removed at the end.
pub struct Beside {
    dir: PathBuf,
}

impl Beside {
    /// With a weight in cgroup v2's units (100 is the default).
    pub fn with_weight(weight: u64) -> anyhow::Result<Self> {
        let (mount, v2) = cpu_tree()?;
        let dir = mount.join("machine-test");
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        let this = Self { dir };
        match v2 {
            true => fs::write(this.dir.join("cpu.weight"), weight.to_string())?,
            // 1024 shares are as much as a weight of 100.
            false => fs::write(
                this.dir.join("cpu.shares"),
                (weight * 1024 / 100).to_string(),
            )?,
        }
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

impl Drop for Beside {
    fn drop(&mut self) {
        // Empty once what was started in it was waited for.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Where the cpu controller is, and whether that is v2.
fn cpu_tree() -> anyhow::Result<(PathBuf, bool)> {
    let mounts = fs::read_to_string("/proc/mounts")?;
    let rows: Vec<Vec<&str>> = mounts.lines().map(|l| l.split(' ').collect()).collect();
    let v1 = rows
        .iter()
        .find(|row| row[2] == "cgroup" && row[3].split(',').any(|option| option == "cpu"));
    let found = v1.or_else(|| rows.iter().find(|row| row[2] == "cgroup2"));
    let row = found.context("no cgroup tree with the cpu controller is mounted")?;
    Ok((row[1].into(), v1.is_none()))
}
