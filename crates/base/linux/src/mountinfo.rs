// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is mounted where, as this process sees it: `/proc/self/mountinfo`
//! (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::{Error, Result, Root};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Which directory of the file system is mounted: `/` if it is all of it;
    /// beginning with `/..` where it lies outside of our cgroup namespace.
    pub top: String,
    /// Where, under the root that was asked.
    pub point: PathBuf,
    /// Type of the file system.
    pub kind: String,
    /// Options of the file system itself, not of this mount; for a hierarchy of
    /// cgroup v1 these name its controllers.
    pub options: Vec<String>,
}

impl Mount {
    /// Whether `name` is among the options.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option == name)
    }
}

/// All mounts, in the kernel's order; lines that are none are passed over.
pub fn read(root: &Root) -> Result<Vec<Mount>> {
    let path = root.path("/proc/self/mountinfo");
    let text = fs::read(&path).map_err(Error::read(&path))?;
    // A directory's name may hold any bytes, and users can mount, too (FUSE). What is no
    // UTF-8 is no tree of the kernel's.
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.filter_map(|line| std::str::from_utf8(line).ok());
    Ok(lines.filter_map(|line| parse(root, line)).collect())
}

/// `ID PARENT DEV ROOT POINT OPTIONS... - TYPE SOURCE SUPER-OPTIONS`.
fn parse(root: &Root, line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let mut right = right.split(' ');
    Some(Mount {
        top: unescape(left.next()?).into_string().ok()?,
        point: root.path(Path::new(&unescape(left.next()?))),
        kind: right.next()?.to_owned(),
        // Behind what is mounted, for cgroups a free text.
        options: right.nth(1)?.split(',').map(str::to_owned).collect(),
    })
}

/// Undoes the kernel's `\040` for a space (and tab, newline, backslash).
fn unescape(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_and_rubbish_is_none() {
        let root = Root::at("/fake");
        let line =
            "36 35 98:0 /docker/x /mnt\\0402 rw,noatime master:1 - cgroup none rw,cpu,cpuacct";
        let mount = parse(&root, line).unwrap();
        assert_eq!(mount.top, "/docker/x");
        assert_eq!(mount.point, Path::new("/fake/mnt 2"));
        assert_eq!(mount.kind, "cgroup");
        assert!(mount.has("cpu") && !mount.has("cpuse"));
        for line in ["", " - ", "1 2 3 4 5 6", "36 35 98:0 / /mnt rw - ext4"] {
            assert_eq!(parse(&root, line), None, "{line}");
        }
    }

    #[test]
    fn a_mount_whose_name_is_no_text_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let mut text = b"36 35 0:40 / /home/ann/caf\xe9 rw - fuse.sshfs h: rw\n".to_vec();
        text.extend(b"37 35 0:22 / /sys/fs/cgroup rw - cgroup2 none rw\n");
        fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        fs::write(dir.path().join("proc/self/mountinfo"), text).unwrap();
        let mounts = read(&Root::at(dir.path())).unwrap();
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].kind, "cgroup2");
    }

    #[test]
    fn only_whole_codes_are_undone() {
        for (text, expected) in [
            (r"a\040b", "a b"),
            (r"a\134040", r"a\040"),
            (r"a\04", r"a\04"),
            (r"a\9", r"a\9"),
            (r"\777", r"\777"),
        ] {
            assert_eq!(unescape(text), expected, "{text}");
        }
    }
}
