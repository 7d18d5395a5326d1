// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of other users, whose journals are not ours to read: by what `/proc` shows to everybody.

use std::fmt;
use std::path::Path;

use sandbag_linux::Root;
use sandbag_linux::process::{Process, processes};
use sandbag_ui::text::command_line;

use crate::child::GUARDIAN_VERB;
use crate::error::{Error, Result};

/// A run of another user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherRun {
    /// Its supervisor.
    pub pid: u32,
    /// The user, by number: names may come from a directory that a static program cannot ask.
    pub uid: u32,
    /// Its command line.
    pub words: Vec<String>,
}

impl OtherRun {
    fn refusal(&self) -> Error {
        let Self { pid, uid, .. } = self;
        let what = format!("run {pid} belongs to user {uid}");
        Error::not_possible(what, "change or end it as that user")
    }
}

impl fmt::Display for OtherRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, uid, words } = self;
        write!(f, "{pid}: of user {uid}: {}", command_line(words))
    }
}

/// The runs of other users, by process number. Every run has a guardian, a child of its
/// supervisor; of one that is gone, of some other program. Where `/proc` hides the processes of others there are none.
pub fn runs(root: &Root) -> Vec<OtherRun> {
    // SAFETY: no arguments, cannot fail.
    runs_but_of(unsafe { libc::geteuid() }, root)
}

/// Refuses to change the run `pid` if it is another user's.
///
/// # Errors
/// [`Error::NotPossible`] if it is.
pub fn refuse(root: &Root, pid: u32) -> Result<()> {
    runs(root)
        .iter()
        .find(|run| run.pid == pid)
        .map_or(Ok(()), |run| Err(run.refusal()))
}

fn runs_but_of(own_uid: u32, root: &Root) -> Vec<OtherRun> {
    let all = processes(root).unwrap_or_default().into_iter();
    let mut runs: Vec<OtherRun> = all
        .filter_map(|guardian| {
            let of_guardian = Process::new(root, guardian.pid);
            let words = of_guardian.command_line().ok()?;
            let is_guardian = words.get(1).is_some_and(|word| word == GUARDIAN_VERB);
            if !is_guardian {
                return None;
            }
            let supervisor = Process::new(root, guardian.parent);
            let words = supervisor.command_line().ok()?;
            let name = Path::new(words.first()?).file_name()?.to_str()?;
            if !name.starts_with("sandbag") {
                return None;
            }
            let uid = supervisor.status("Uid", "a user id").ok()??;
            (uid != own_uid).then_some(OtherRun {
                pid: supervisor.pid(),
                uid,
                words,
            })
        })
        .collect();
    runs.sort_by_key(|run| run.pid);
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn stat(pid: u32, parent: u32) -> String {
        format!("{pid} (sandbag) S {parent} 1 1 0 -1 0{}\n", " 0".repeat(43))
    }

    #[test]
    fn runs_of_others_are_known_by_their_guardian() {
        let guardian = "sandbag\0__guardian\0/run/sandbag/7.journal\0";
        let files = [
            ("proc/7/stat", stat(7, 1)),
            ("proc/7/cmdline", "sandbag\0load\x0050\0".to_owned()),
            (
                "proc/7/status",
                "Name:\tsandbag\nUid:\t0\t0\t0\t0\n".to_owned(),
            ),
            ("proc/8/stat", stat(8, 7)),
            ("proc/8/cmdline", guardian.to_owned()),
            // Its supervisor was killed.
            ("proc/9/stat", stat(9, 6)),
            ("proc/6/stat", stat(6, 1)),
            (
                "proc/6/cmdline",
                "/lib/systemd/systemd\0--user\0".to_owned(),
            ),
            (
                "proc/6/status",
                "Name:\tsystemd\nUid:\t0\t0\t0\t0\n".to_owned(),
            ),
            ("proc/9/cmdline", guardian.to_owned()),
            ("proc/10/stat", stat(10, 7)),
            ("proc/10/cmdline", "sandbag\0__burner\0{}\0".to_owned()),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(at, text)| (*at, &**text)).collect();
        let (_dir, root) = testing::machine(&files);
        let found = runs_but_of(1000, &root);
        let texts: Vec<String> = found.iter().map(OtherRun::to_string).collect();
        assert_eq!(texts, ["7: of user 0: sandbag load 50"]);
        assert!(runs_but_of(0, &root).is_empty());
        let refusal = found[0].refusal().to_string();
        assert!(refusal.contains("run 7 belongs to user 0"), "{refusal}");
    }
}
