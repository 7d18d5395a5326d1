// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files by which the hosts of an experiment speak with each other.
//!
//! Each process writes one file and no other does: rank 0 `leader.json`, the others their
//! number. A file is replaced as a whole, and read by opening it again, which is what shared
//! file systems promise to show (NFS: close-to-open). Every process draws a number of chance; a
//! file that does not name the leader's is of an earlier experiment.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use sandbag_run::directory::create;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::output::make_dir;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clocks::{ClockState, Offset};

/// Of these files, within the directory of the experiment.
const DIR: &str = "meeting";
const LEADER: &str = "leader.json";
/// A larger file is none of ours, bytes.
const LARGEST: u64 = 16 << 20;
/// A larger record of an experiment or a run is none of ours, bytes.
pub(crate) const LARGEST_RECORD: u64 = 64 << 20;

/// What rank 0 says to all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeaderNote {
    pub nonce: String,
    pub sandbag: String,
    pub ranks: u32,
    /// When this was written, by the leader's clock, ns since 1970.
    pub at_ns: i64,
    /// Grows with each writing: the leader lives.
    pub beat: u64,
    pub plan: Option<StartPlan>,
    pub end: Option<EarlyEnd>,
    /// All have ended, and rank 0 has written the record.
    #[serde(default)]
    pub is_over: bool,
}

/// The start that all agreed on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartPlan {
    /// By the leader's clock, ns since 1970.
    pub start_ns: i64,
    /// Who takes part, by rank.
    pub members: Vec<PlannedMember>,
}

impl StartPlan {
    /// Leaves that there was a plan: a late process must not answer.
    pub(crate) fn forget(&mut self) {
        self.members.clear();
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedMember {
    pub rank: u32,
    pub host: String,
    pub nonce: String,
    /// Of its clock against the leader's.
    pub offset: Offset,
    pub clock: ClockState,
}

/// Why the experiment ended before its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyEnd {
    pub rank: u32,
    pub host: String,
    /// RFC 3339, UTC, by the clock of who noticed.
    pub at: String,
    pub why: String,
}

/// A signal to sandbag itself: the usual end of what has no length.
pub const INTERRUPTED: &str = "it was interrupted";

impl EarlyEnd {
    /// Whether a signal to sandbag asked for it.
    pub fn is_asked(&self) -> bool {
        self.why == INTERRUPTED
    }
}

/// What another rank says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberNote {
    pub nonce: String,
    /// Of the leader that this one follows.
    pub leader: String,
    pub rank: u32,
    /// How many hosts it counts.
    pub ranks: u32,
    pub host: String,
    /// Of the kernel's boot: two ranks of one host are seen by it.
    pub boot: String,
    pub sandbag: String,
    /// [`LeaderNote::at_ns`] that this answers.
    pub echo_ns: i64,
    /// When that was read and this written, by this host's clock.
    pub read_ns: i64,
    pub written_ns: i64,
    pub clock: ClockState,
    pub beat: u64,
    pub ended: Option<MemberEnd>,
}

/// How sandbag ended on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberEnd {
    pub code: u8,
    /// RFC 3339, UTC.
    pub at: String,
    /// Why this host's part counts as failed.
    pub failure: Option<String>,
}

/// The directory in which they meet.
#[derive(Debug, Clone)]
pub struct MeetingPlace {
    dir: PathBuf,
    /// Of files that this process has not finished.
    suffix: String,
}

impl MeetingPlace {
    /// Makes it.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn in_dir(out: &Path) -> Result<Self> {
        let dir = out.join(DIR);
        make_dir(&dir).with_context(|| dir.display().to_string())?;
        Ok(Self {
            dir,
            suffix: format!("{}.new", nonce()?),
        })
    }

    /// # Errors
    /// The file cannot be written.
    pub fn write_leader(&self, note: &LeaderNote) -> Result<()> {
        self.write(LEADER, note, |_| Ok(()))
    }

    /// The last word of a rank is on the disk then, or what it said before still stands.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_member(&self, note: &MemberNote) -> Result<()> {
        self.write(&member_file(note.rank), note, |file| finish(note, file))
    }

    /// `None` if it is not there, or none of ours.
    pub fn leader(&self) -> Option<LeaderNote> {
        self.read(LEADER)
    }

    pub fn member(&self, rank: u32) -> Option<MemberNote> {
        self.read(&member_file(rank))
            .filter(|note: &MemberNote| note.rank == rank)
    }

    fn write(
        &self,
        name: &str,
        note: &impl Serialize,
        finish: impl FnOnce(&fs::File) -> io::Result<()>,
    ) -> Result<()> {
        let path = self.dir.join(name);
        let new = self.dir.join(format!("{name}.{}", self.suffix));
        let text = serde_json::to_vec(note)?;
        // Root must not write through a link that another user has put there.
        let written = create(&new)
            .and_then(|mut file| file.write_all(&text).and_then(|()| finish(&file)))
            .and_then(|()| fs::rename(&new, &path));
        written.with_context(|| path.display().to_string())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&read_limited(&self.dir.join(name), LARGEST).ok()?).ok()
    }
}

fn finish(note: &MemberNote, file: &fs::File) -> io::Result<()> {
    match note.ended {
        // A quota, or the server of a network file system, may refuse it only now.
        Some(_) => sandbag_input::sync(file),
        None => Ok(()),
    }
}

fn member_file(rank: u32) -> String {
    format!("{rank}.json")
}

/// A file of at most `most` bytes; a larger one is an error, as is what is no file.
pub(crate) fn read_limited(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is no ordinary file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(most + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("is larger than {most} bytes")));
    }
    Ok(bytes)
}

/// A number of chance, as text.
///
/// # Errors
/// The kernel gives none.
pub fn nonce() -> Result<String> {
    let mut bytes = [0u8; 8];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("/dev/urandom")?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;
    use crate::meeting::Member;

    #[test]
    fn a_word_that_the_disk_refuses_does_not_replace_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let place = MeetingPlace::in_dir(dir.path()).unwrap();
        let leader = Member::here(0, 2).unwrap().leader_note();
        let mut note = Member::here(1, 2).unwrap().answer(&leader, 1);
        place.write_member(&note).unwrap();
        let before = note.clone();
        note.beat += 1;
        let full = |_: &fs::File| Err(io::Error::from_raw_os_error(libc::EDQUOT));
        let refused = place.write(&member_file(1), &note, full).unwrap_err();
        assert!(refused.line().contains("1.json"), "{}", refused.line());
        assert_eq!(place.member(1), Some(before));
        note.ended = Some(MemberEnd {
            code: 0,
            at: String::new(),
            failure: None,
        });
        place.write_member(&note).unwrap();
        assert_eq!(place.member(1), Some(note));
    }

    #[test]
    fn a_last_word_is_synced_where_the_file_can_be() {
        let dir = tempfile::tempdir().unwrap();
        let leader = Member::here(0, 2).unwrap().leader_note();
        let mut note = Member::here(1, 2).unwrap().answer(&leader, 1);
        // What cannot be synced: without a reason of its own, and as some file systems answer.
        let by_path = fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(dir.path())
            .unwrap();
        let pipe = fs::File::from(std::os::fd::OwnedFd::from(io::pipe().unwrap().1));
        assert!(finish(&note, &by_path).is_ok());
        note.ended = Some(MemberEnd {
            code: 0,
            at: String::new(),
            failure: None,
        });
        let error = finish(&note, &by_path).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        finish(&note, &pipe).unwrap();
    }
}
