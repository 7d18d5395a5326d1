// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user behind sudo, and how a process becomes that user.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The user who called sudo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Name, for USER and LOGNAME.
    pub name: String,
    /// Home directory, if the user database knows it.
    pub home: Option<OsString>,
}

impl User {
    /// The user behind sudo, if we were called through it.
    pub fn behind_sudo() -> Option<Self> {
        static FOUND: OnceLock<Option<User>> = OnceLock::new();
        FOUND.get_or_init(Self::find_behind_sudo).clone()
    }

    /// A static binary cannot load the modules that resolve users from elsewhere, such as a
    /// directory of a cluster: `id` and `getent` do, and else the files are read.
    fn find_behind_sudo() -> Option<Self> {
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        // SAFETY: no arguments, cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return None;
        }
        let uid = number("SUDO_UID").filter(|uid| *uid != 0)?;
        let gid = number("SUDO_GID")?;
        let name = std::env::var("SUDO_USER").ok()?;
        let groups = said("id", &["-G", "--", &name]).and_then(|text| numbers(&text));
        let of_files = || groups_of(&text(Path::new("/etc/group")), &name, gid);
        let home = home_of(&text(Path::new("/etc/passwd")), &name);
        let of_elsewhere = || home_of(&said("getent", &["passwd", &name])?, &name);
        Some(Self {
            groups: groups.unwrap_or_else(of_files),
            home: home.or_else(of_elsewhere),
            uid,
            gid,
            name,
        })
    }
}

/// What a program printed, if it succeeded.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let ended = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    ended.status.success().then_some(text)
}

fn numbers(text: &str) -> Option<Vec<u32>> {
    let numbers: Option<Vec<u32>> = text
        .split_whitespace()
        .map(|one| one.parse().ok())
        .collect();
    numbers.filter(|numbers| !numbers.is_empty())
}

/// The text of a file, empty if there is none. The full names in it may be in any encoding.
fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// group(5): `NAME:PASSWORD:GID:MEMBER,MEMBER`.
fn groups_of(text: &str, user: &str, primary: u32) -> Vec<u32> {
    let member = text.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        let gid = fields.next()?.parse().ok()?;
        fields.next()?.split(',').any(|m| m == user).then_some(gid)
    });
    let mut groups: Vec<u32> = std::iter::once(primary).chain(member).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// passwd(5): `NAME:PASSWORD:UID:GID:GECOS:HOME:SHELL`.
fn home_of(text: &str, user: &str) -> Option<OsString> {
    text.lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&user))
        .and_then(|fields| fields.get(5).map(OsString::from))
}

impl User {
    /// Makes a command become this user before its program begins.
    pub fn become_in(self, command: &mut Command) {
        command.env("USER", &self.name).env("LOGNAME", &self.name);
        if let Some(home) = &self.home {
            command.env("HOME", home);
        }
        // SAFETY: only async-signal-safe calls on values made before.
        unsafe { command.pre_exec(move || become_user(&self)) };
    }
}

/// Gives up what the calling process may, for good; between fork and exec.
/// Async-signal-safe.
pub fn become_user(user: &User) -> io::Result<()> {
    // SAFETY: plain system calls on memory that outlives them; groups first,
    // for it takes the privilege that the last call gives up.
    let failed = unsafe {
        libc::setgroups(user.groups.len(), user.groups.as_ptr()) != 0
            || libc::setgid(user.gid) != 0
            || libc::setuid(user.uid) != 0
    };
    if failed {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_home_are_read_from_the_files() {
        let text = "root:x:0:\nadm:x:4:ann,bob\ndocker:x:999:bob\nbob:x:1000:\n";
        assert_eq!(groups_of(text, "bob", 1000), [4, 999, 1000]);
        let text = "root:x:0:0:root:/root:/bin/sh\nbob:x:1000:1000::/home/bob:/bin/sh\n";
        assert_eq!(home_of(text, "bob").unwrap(), "/home/bob");
        assert_eq!(home_of(text, "eve"), None);
    }

    #[test]
    fn groups_come_from_a_program() {
        assert_eq!(numbers("4 999 1000\n"), Some(vec![4, 999, 1000]));
        assert_eq!(numbers("id: no such user"), None);
        assert_eq!(numbers(""), None);
        assert_eq!(said("sh", &["-c", "echo 7"]).as_deref(), Some("7\n"));
        assert_eq!(said("sh", &["-c", "echo 7; exit 1"]), None);
        assert_eq!(said("/no/such/program", &[]), None);
    }

    #[test]
    fn a_name_in_another_encoding_hides_no_user() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("passwd");
        let lines = b"ann:x:1:1:Ann M\xfcller:/home/ann:/bin/sh\nbob:x:2:2::/home/bob:/bin/sh\n";
        fs::write(&file, lines).unwrap();
        for (user, home) in [("ann", "/home/ann"), ("bob", "/home/bob")] {
            assert_eq!(home_of(&text(&file), user).unwrap(), home);
        }
        assert_eq!(text(&dir.path().join("none")), "");
    }
}
