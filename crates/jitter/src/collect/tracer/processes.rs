// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What /proc has of the tasks that were causes, read when a round is over.

use std::fs;

use sandbag_linux::Root;

use crate::causes::{NoiseOrigin, ProcessInfo, SourceKind};

/// Of no more than this many.
const MOST: usize = 1000;
/// Characters of a command line that are kept.
const MOST_CHARS: usize = 200;

/// The tasks that were looked up.
#[derive(Debug, Default)]
pub(super) struct Processes {
    /// Sources that were looked at.
    seen: usize,
    found: Vec<ProcessInfo>,
}

impl Processes {
    /// Looks up the tasks among the sources that are new. Those that have ended
    /// are left out.
    pub(super) fn look(&mut self, root: &Root, sources: &[NoiseOrigin]) {
        let new = sources.get(self.seen..).unwrap_or_default();
        self.seen = sources.len();
        let room = MOST.saturating_sub(self.found.len());
        let found = new.iter().filter_map(|source| process(root, source));
        self.found.extend(found.take(room));
    }

    pub(super) fn all(&self) -> &[ProcessInfo] {
        &self.found
    }
}

fn process(root: &Root, source: &NoiseOrigin) -> Option<ProcessInfo> {
    let pid = source.number.filter(|_| source.kind == SourceKind::Task)?;
    // Names and arguments are bytes.
    let read = |name: &str| {
        let bytes = fs::read(root.path(format!("/proc/{pid}/{name}"))).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    // The number may be another task's by now, or of another namespace.
    if read("comm")?.trim_end_matches('\n') != source.name {
        return None;
    }
    let words = read("cmdline").unwrap_or_default();
    let command = words.trim_end_matches('\0').replace('\0', " ");
    Some(ProcessInfo {
        pid,
        name: source.name.clone(),
        command: command.chars().take(MOST_CHARS).collect(),
        group: read("cgroup").map_or_else(String::new, |text| group(&text)),
    })
}

/// The unit of systemd, or else the path, of v2 or of systemd's v1 hierarchy.
fn group(text: &str) -> String {
    let path = |hierarchy: &str| text.lines().find_map(|line| line.strip_prefix(hierarchy));
    let named = || {
        let lines = text.lines();
        lines.filter_map(|line| line.split_once(":name=systemd:").map(|(_, path)| path))
    };
    let path = path("0::").filter(|path| *path != "/");
    let path = path.or_else(|| named().next()).unwrap_or_default();
    let is_unit = |name: &&str| name.ends_with(".service") || name.ends_with(".scope");
    path.rsplit('/').find(is_unit).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_its_command_line_and_unit_while_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path().join("proc/7");
        fs::create_dir_all(&proc).unwrap();
        fs::write(proc.join("comm"), "exe\n").unwrap();
        fs::write(proc.join("cmdline"), b"/opt/exe\0--all\0\xff\0").unwrap();
        fs::write(proc.join("cgroup"), "0::/system.slice/build.service/x\n").unwrap();
        let task = |name: &str, number| NoiseOrigin::new(SourceKind::Task, name, Some(number));
        let mut all = Processes::default();
        let sources = [task("exe", 7), task("other", 7), task("gone", 8)];
        all.look(&Root::at(dir.path()), &sources);
        all.look(&Root::at(dir.path()), &sources);
        let found = ProcessInfo {
            pid: 7,
            name: "exe".to_owned(),
            command: "/opt/exe --all \u{fffd}".to_owned(),
            group: "build.service".to_owned(),
        };
        assert_eq!(all.all(), [found]);
    }

    #[test]
    fn a_group_is_a_unit_or_a_path() {
        for (text, name) in [
            (
                "0::/user.slice/user-0.slice/session-3.scope\n",
                "session-3.scope",
            ),
            ("0::/docker/abc\n", "/docker/abc"),
            (
                "4:cpu:/x\n1:name=systemd:/system.slice/a.service\n0::/\n",
                "a.service",
            ),
            ("0::/\n", ""),
            ("", ""),
        ] {
            assert_eq!(group(text), name);
        }
    }
}
