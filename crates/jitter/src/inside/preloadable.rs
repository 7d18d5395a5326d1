// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether a library can be preloaded into a program before it is started: the
//! dynamic linker does not report that it did not.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sandbag_run::program;

use crate::inside::error::{Error, Result};
use crate::inside::library::{LIBRARY, PLAN_VARIABLE};

/// Interpreters that are scripts themselves; the kernel has a similar limit.
const DEPTH: u32 = 5;
/// Larger programs are not searched for our calls.
const LOOKED_THROUGH: u64 = 1 << 30;

/// Checks that `program`, which can be executed, loads the library when this user and
/// group start it. Of a script its interpreter is checked; programs that these start
/// are not.
///
/// # Errors
/// [`Error::NotPreloadable`] with the reason; or it cannot be read.
pub fn check(program: &Path, uid: u32, gid: u32) -> Result<()> {
    let mut program = program.to_owned();
    for _ in 0..DEPTH {
        let head = head(&program, 4096).map_err(Error::file(&program))?;
        match interpreter(&head) {
            Some(interpreter) => program = interpreter,
            None => return check_elf(&program, &head, uid, gid),
        }
    }
    Ok(())
}

fn head(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut head)?;
    Ok(head)
}

/// `#!INTERPRETER [ARGUMENT]`; of env(1) the program that it is to start.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(|byte| b" \t\r".contains(byte))
        .filter(|word| !word.is_empty())
        .map(|word| PathBuf::from(OsStr::from_bytes(word)));
    let interpreter = words.next()?;
    if interpreter.file_name() != Some("env".as_ref()) {
        return Some(interpreter);
    }
    let plain = |word: &PathBuf| {
        let bytes = word.as_os_str().as_bytes();
        !bytes.starts_with(b"-") && !bytes.contains(&b'=')
    };
    let named = words.find(plain);
    Some(named.and_then(program::on_path).unwrap_or(interpreter))
}

fn check_elf(program: &Path, head: &[u8], uid: u32, gid: u32) -> Result<()> {
    let no = |why: &str| {
        Err(Error::NotPreloadable {
            program: program.to_owned(),
            why: why.to_owned(),
        })
    };
    if !head.starts_with(b"\x7fELF") || head.len() < 64 {
        // The shell runs what the kernel does not know.
        return Ok(());
    }
    // Class, byte order; machine.
    if head[4..6] != LIBRARY[4..6] || head[18..20] != LIBRARY[18..20] {
        return no(
            "it is for another kind of machine (32 bits?) than sandbag, \
                   whose library it cannot load",
        );
    }
    let linked = has_interpreter(program, head).map_err(Error::file(program))?;
    if !linked && !asks_by_itself(program) {
        return no("it is statically linked, and no library can be preloaded into it");
    }
    let meta = fs::metadata(program).map_err(Error::file(program))?;
    let gains = (meta.mode() & 0o4000 != 0 && meta.uid() != uid)
        || (meta.mode() & 0o2010 == 0o2010 && meta.gid() != gid)
        || (uid != 0 && has_capabilities(program));
    if gains {
        no(
            "it runs with privileges of its own (setuid, setgid or capabilities), \
                and the dynamic linker then ignores LD_PRELOAD",
        )
    } else {
        Ok(())
    }
}

/// Whether it has a program header of type PT_INTERP (elf(5)), which names a dynamic
/// linker. Class and byte order are ours.
fn has_interpreter(program: &Path, head: &[u8]) -> std::io::Result<bool> {
    const PT_INTERP: u32 = 3;
    let u16_at = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let offset = u64::from_ne_bytes(head[32..40].try_into().unwrap_or_default());
    let (size, count) = (usize::from(u16_at(54)), usize::from(u16_at(56)));
    let mut file = File::open(program)?;
    file.seek(SeekFrom::Start(offset.min(i64::MAX as u64)))?;
    let mut table = Vec::new();
    file.take((size * count) as u64).read_to_end(&mut table)?;
    let mut entries = table.chunks_exact(size.max(4));
    Ok(entries.any(|entry| entry[..4] == PT_INTERP.to_ne_bytes()))
}

/// A static program that was linked with jitter.c has the name of the variable.
fn asks_by_itself(program: &Path) -> bool {
    let is_small = fs::metadata(program).is_ok_and(|meta| meta.len() <= LOOKED_THROUGH);
    is_small
        && fs::read(program)
            .is_ok_and(|bytes| memchr::memmem::find(&bytes, PLAN_VARIABLE.as_bytes()).is_some())
}

fn has_capabilities(program: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(program.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: two C strings; asks for the length only.
    unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        ) > 0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("#!/bin/sh\n", Some("/bin/sh"))]
    #[case("#! /bin/sh -e\n", Some("/bin/sh"))]
    #[case("#!/usr/bin/env -S nonexistent-program\n", Some("/usr/bin/env"))]
    #[case("#!\n", None)]
    #[case("plain", None)]
    fn interpreters(#[case] text: &str, #[case] found: Option<&str>) {
        assert_eq!(interpreter(text.as_bytes()), found.map(PathBuf::from));
    }

    #[test]
    fn programs_and_scripts_of_this_machine_are_accepted() {
        check(Path::new("/bin/sh"), 0, 0).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        for text in ["#!/usr/bin/env sh\n", "echo of a shell\n"] {
            fs::write(&script, text).unwrap();
            check(&script, 0, 0).unwrap();
        }
        fs::write(&script, "#!/nonexistent\n").unwrap();
        assert!(matches!(check(&script, 0, 0), Err(Error::File { .. })));
    }

    #[test]
    fn programs_that_load_no_library_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("sh");
        let error = |uid| check(&copy, uid, 0).unwrap_err().to_string();
        let mut bytes = fs::read("/bin/sh").unwrap();
        fs::write(&copy, &bytes).unwrap();
        let owner = fs::metadata(&copy).unwrap().uid();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
        check(&copy, owner, 0).unwrap();
        let setuid = error(owner + 1);
        assert!(
            setuid.contains("setuid") && setuid.contains("--cpus"),
            "{setuid}"
        );
        // Without program headers.
        bytes[56..58].fill(0);
        fs::write(&copy, &bytes).unwrap();
        assert!(error(0).contains("statically linked"));
        // With our calls.
        bytes.extend(PLAN_VARIABLE.as_bytes());
        fs::write(&copy, &bytes).unwrap();
        check(&copy, owner, 0).unwrap();
        bytes[4] = 1;
        fs::write(&copy, &bytes).unwrap();
        assert!(error(0).contains("another kind of machine"));
    }
}
