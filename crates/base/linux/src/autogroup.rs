// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Autogroups: tasks of the root group, put together by session.
//!
//! With autogroup, the weight of a process in the root group is its session's,
//! not its own, and its nice value counts only within the session. The session
//! has a nice value of its own. Source: sched(7), "The autogroup feature".

use crate::root::read;
use crate::sysctl::Sysctl;
use crate::{Error, Result, Root};

/// The autogroup of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Autogroup {
    /// Number; two processes with the same number are in the same one.
    pub id: u64,
    /// Nice value of the whole, -20 to 19.
    pub nice: i32,
}

/// Whether autogroup is on; `None` where the kernel does not have it.
pub fn enabled(root: &Root) -> Result<Option<bool>> {
    match Sysctl::new(root, "kernel.sched_autogroup_enabled").get_as::<u32>("0 or 1") {
        Ok(value) => Ok(Some(value != 0)),
        Err(e) if e.is_absent() => Ok(None),
        Err(e) => Err(e),
    }
}

/// The autogroup of process `pid`; `None` where it is in none. It is a fact
/// also while autogroup is off, but then without effect.
pub fn get(root: &Root, pid: u32) -> Result<Option<Autogroup>> {
    let path = root.path(format!("/proc/{pid}/autogroup"));
    let text = read(&path)?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let parsed = text
        .trim()
        .strip_prefix("/autogroup-")
        .and_then(|rest| rest.split_once(" nice "))
        .and_then(|(id, nice)| Some((id.parse().ok()?, nice.parse().ok()?)));
    match parsed {
        Some((id, nice)) => Ok(Some(Autogroup { id, nice })),
        None => Err(Error::parse(&path, "`/autogroup-N nice N`", &text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::fake;

    #[test]
    fn on_off_or_absent() {
        let file = "proc/sys/kernel/sched_autogroup_enabled";
        assert_eq!(enabled(&fake(&[(file, "1\n")]).1).unwrap(), Some(true));
        assert_eq!(enabled(&fake(&[(file, "0\n")]).1).unwrap(), Some(false));
        assert_eq!(enabled(&fake(&[]).1).unwrap(), None);
        assert!(enabled(&fake(&[(file, "yes\n")]).1).is_err());
    }

    #[test]
    fn the_group_of_a_process() {
        let (_dir, root) = fake(&[
            ("proc/7/autogroup", "/autogroup-18 nice -5\n"),
            ("proc/8/autogroup", ""),
            ("proc/9/autogroup", "18 -5\n"),
        ]);
        assert_eq!(get(&root, 7).unwrap(), Some(Autogroup { id: 18, nice: -5 }));
        assert_eq!(get(&root, 8).unwrap(), None);
        assert!(get(&root, 9).is_err());
        assert!(get(&root, 10).unwrap_err().is_absent());
    }
}
