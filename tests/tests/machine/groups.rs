// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups of the tests' own, beside sandbag's.

use sandbag_linux::Root;
use sandbag_linux::cgroup::{self, Group, Weight};

use crate::prelude::*;

/// A directory of a cgroup tree, removed at the end.
pub struct OwnGroup(PathBuf);

impl OwnGroup {
    /// What tests that were stopped by a signal left under this name is removed first, with
    /// its processes if the name is the tests' own: a service may have the others.
    pub fn new(dir: PathBuf) -> Result<Self> {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("machine-test") {
            let _ = fs::remove_dir(&dir);
        } else if dir.exists() {
            // A frozen process of v1 does not die (only a freezer has the file).
            let _ = fs::write(dir.join("freezer.state"), "THAWED");
            wait_for("the end of an earlier group", || {
                for pid in text_of(dir.join("cgroup.procs")).ok()?.lines() {
                    let pid = pid.parse().ok().filter(|pid| *pid > 1)?;
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
                fs::remove_dir(&dir).ok()
            })?;
        }
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        Ok(Self(dir))
    }

    pub fn dir(&self) -> &Path {
        &self.0
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        // Empty once what was started in it was waited for.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A group at the top of the tree.
pub struct CompetingTask {
    group: OwnGroup,
}

impl CompetingTask {
    /// With a weight in cgroup v2's units (100 is the default).
    pub fn with_weight(weight: u64) -> Result<Self> {
        let tree = cgroup::find(&Root::default())?;
        let group = OwnGroup::new(tree.cpu.join("machine-test"))?;
        Group::at(tree.version, group.dir().to_owned(), None)
            .set_weight(Weight(weight as f64 / 100.0))?;
        Ok(Self { group })
    }

    pub fn dir(&self) -> &Path {
        self.group.dir()
    }

    /// A command line that begins in the group.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        let enter = format!(
            "echo $$ > {}/cgroup.procs && {script}",
            self.dir().display()
        );
        command.args(["-c", &enter]);
        command
    }
}
