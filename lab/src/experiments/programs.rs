// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs with a given amount of work, made once for an experiment: those of KRASH's
//! tables III to V, and threads that meet at barriers.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::statvfs::statvfs;

use crate::experiment::NotHere;
use crate::program::{command, is_there, run};
use crate::setup::Setup;

/// What the copy copies, MiB; the paper's file.
const COPY_MIB: u64 = 1024;
/// The same in the short form.
const COPY_QUICK_MIB: u64 = 256;
/// Room beyond the two files, MiB.
const SPARE_MIB: u64 = 256;
/// Processes of the exchange; the paper's DT has 80.
const RANKS: u32 = 80;
/// The same in the short form.
const RANKS_QUICK: u32 = 16;
/// Exchanges of the full form; the short one makes a tenth.
const ROUNDS: u64 = 200_000;
const MESSAGE: u64 = 4096;
const JOBS: u32 = 16;
/// To build a program of ours.
const BUILD: Duration = Duration::from_secs(120);

const EXCHANGE: &str = include_str!("../workload/exchange.c");
/// Meetings of the threads of OpenMP.
const STEPS: u64 = 5_000;
const BARRIERS: &str = include_str!("../workload/barriers.c");

/// A program, ready to be run again and again.
#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    pub about: String,
    pub words: Vec<OsString>,
    check: Check,
}

#[derive(Debug)]
enum Check {
    Copy(PathBuf, PathBuf),
    /// This is among the lines that it says.
    Line(String),
    /// There is this number of object files.
    Objects(PathBuf, usize),
}

impl Program {
    /// Brings the disk into the same state before every run: nothing of an
    /// earlier one is there or left to be written.
    pub fn clear(&self) -> Result<()> {
        match &self.check {
            Check::Copy(_, to) => match fs::remove_file(to) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| to.display().to_string());
                }
                _ => nix::unistd::sync(),
            },
            Check::Objects(dir, _) => {
                for entry in fs::read_dir(dir)? {
                    fs::remove_file(entry?.path())?;
                }
            }
            Check::Line(_) => {}
        }
        Ok(())
    }

    /// Whether the run that has just ended did what it should.
    pub fn check(&self, out: &str) -> Result<()> {
        match &self.check {
            Check::Copy(from, to) => {
                let status = Command::new("cmp").arg("-s").args([from, to]).status();
                ensure!(status.context("cmp")?.success(), "the copy differs");
            }
            Check::Line(right) => {
                ensure!(
                    out.lines().any(|line| line == right),
                    "not {right:?}, but {out:?}"
                );
            }
            Check::Objects(dir, expected) => {
                let found = fs::read_dir(dir)?.count();
                ensure!(
                    found == *expected,
                    "{found} of {expected} files were compiled"
                );
            }
        }
        Ok(())
    }
}

/// Paths go beside the script, as its arguments: any byte may be in them.
fn shell(script: &str, paths: &[&Path]) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["sh".into(), "-c".into(), script.into()].into();
    words.extend(paths.iter().map(|path| path.as_os_str().to_owned()));
    words
}

/// Of a file: as it comes, to the disk at the end, and past the page cache.
pub fn copies(setup: &Setup) -> Result<Vec<Program>> {
    let mib = setup
        .chosen
        .size
        .map_or(setup.form(COPY_QUICK_MIB, COPY_MIB), u64::from);
    let room = statvfs(&setup.scratch).context("statvfs")?;
    let free_mib = (room.blocks_available() * room.fragment_size()) >> 20;
    if free_mib < 2 * mib + SPARE_MIB {
        bail!(NotHere(format!(
            "copy: {} has {free_mib} MiB free, two files of {mib} MiB want {}; choose another \
             directory with --out",
            setup.scratch.display(),
            2 * mib + SPARE_MIB
        )));
    }
    let (from, to) = (setup.scratch.join("from"), setup.scratch.join("to"));
    fill(&from, mib).with_context(|| from.display().to_string())?;
    let program = |name, sync: &str, words: &str| Program {
        name,
        about: format!("dd of a file of {mib} MiB{words}; afterwards both files are compared."),
        words: shell(
            &format!("exec dd if=\"$0\" of=\"$1\" bs=1M status=none{sync}"),
            &[from.as_path(), to.as_path()],
        ),
        check: Check::Copy(from.clone(), to.clone()),
    };
    Ok(vec![
        program("copy", "", ""),
        program("copy-sync", " conv=fdatasync", ", with fdatasync"),
        program(
            "copy-direct",
            " iflag=direct oflag=direct",
            ", past the page cache",
        ),
    ])
}

/// Bytes that no filesystem folds into nothing.
fn fill(path: &Path, mib: u64) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let mut x = 1u64;
    let mut block = vec![0u8; 1 << 20];
    for _ in 0..mib {
        for word in block.chunks_exact_mut(8) {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.copy_from_slice(&x.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    file.sync_all()
}

pub fn exchange(setup: &Setup) -> Result<Vec<Program>> {
    if !is_there("mpicc") || !is_there("mpirun") {
        bail!(NotHere(
            "exchange: no MPI here; apt-get install openmpi-bin libopenmpi-dev".to_owned()
        ));
    }
    let program = build(setup, "exchange", "mpicc", EXCHANGE)?;
    let (ranks, rounds) = setup.form((RANKS_QUICK, ROUNDS / 10), (RANKS, ROUNDS));
    let ranks = setup.chosen.size.unwrap_or(ranks);
    Ok(vec![Program {
        name: "exchange",
        about: format!(
            "{ranks} MPI processes; {rounds} times two of them, drawn by a common generator, \
             exchange {MESSAGE} bytes and compute a little (after NPB DT). Every message is \
             checked and counted."
        ),
        words: shell(
            &format!(
                "exec mpirun --allow-run-as-root --oversubscribe --bind-to none \
                 --mca mpi_yield_when_idle 1 -n {ranks} \"$0\" {rounds} {MESSAGE}"
            ),
            &[&program],
        ),
        check: Check::Line(format!("received {} wrong 0", 2 * rounds)),
    }])
}

/// Threads of OpenMP, one on each CPU.
pub fn openmp(setup: &Setup) -> Result<Vec<Program>> {
    if !is_there("gcc") {
        bail!(NotHere(
            "barriers: no gcc here; apt-get install gcc".to_owned()
        ));
    }
    let program = build(setup, "barriers", "gcc -fopenmp", BARRIERS)?;
    Ok(vec![Program {
        name: "barriers",
        about: format!("A thread of OpenMP on each CPU; {STEPS} times they compute and meet."),
        words: shell(&format!("exec \"$0\" {STEPS}"), &[&program]),
        check: Check::Line(format!("met {STEPS}")),
    }])
}

/// A program of ours in C.
fn build(setup: &Setup, name: &str, compiler: &str, text: &str) -> Result<PathBuf> {
    let (source, program) = (
        setup.scratch.join(format!("{name}.c")),
        setup.scratch.join(name),
    );
    fs::write(&source, text).with_context(|| source.display().to_string())?;
    let mut command = command("env", compiler);
    command.args(["-O2", "-o"]).args([&program, &source]);
    let built = run(command, None, BUILD)?;
    if !built.status.is_some_and(|status| status.success()) {
        bail!(NotHere(format!(
            "{name}: {compiler}: {}",
            built.last_words()
        )));
    }
    Ok(program)
}

pub fn compile(setup: &Setup) -> Result<Vec<Program>> {
    if !is_there("gcc") {
        bail!(NotHere(
            "compile: no gcc here; apt-get install gcc".to_owned()
        ));
    }
    let Some(project) = setup.sources.clone().or_else(zstd_of_the_registry) else {
        bail!(NotHere(
            "compile: no C sources; name a directory of them with --sources, such as lib/ of zstd \
             (apt-get source libzstd)"
                .to_owned()
        ));
    };
    let mut files = Vec::new();
    c_files(&project, &mut files).with_context(|| project.display().to_string())?;
    files.sort();
    if setup.quick {
        // One in three, of every directory.
        files = files.into_iter().step_by(3).collect();
    }
    if files.is_empty() {
        bail!(NotHere(format!(
            "compile: no C files in {}",
            project.display()
        )));
    }
    let objects = setup.scratch.join("objects");
    fs::create_dir_all(&objects).with_context(|| objects.display().to_string())?;
    let list = setup.scratch.join("files");
    let mut lines = String::new();
    for (n, file) in files.iter().enumerate() {
        lines += &format!("{}\0{}/{n}.o\0", file.display(), objects.display());
    }
    fs::write(&list, lines).with_context(|| list.display().to_string())?;
    let name = project.display();
    Ok(vec![Program {
        name: "compile",
        about: format!(
            "{} C files of {}, {JOBS} gcc -O2 at a time; afterwards the object files are counted.",
            files.len(),
            project
                .file_name()
                .map_or_else(|| name.to_string(), |n| n.display().to_string())
        ),
        words: shell(
            &format!(
                "exec xargs -0 -a \"$0\" -P {JOBS} -n 2 sh -c 'exec gcc -O2 -w -I\"$0\" \
                 -I\"$0/common\" -c \"$1\" -o \"$2\"' \"$1\""
            ),
            &[&list, &project],
        ),
        check: Check::Objects(objects, files.len()),
    }])
}

/// The C library that a package of Cargo's registry brings along.
fn zstd_of_the_registry() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| {
            let home = std::env::var_os("HOME")?;
            Some(PathBuf::from(home).join(".cargo"))
        })?;
    let registries = fs::read_dir(home.join("registry/src")).ok()?;
    registries
        .flatten()
        .filter_map(|registry| fs::read_dir(registry.path()).ok())
        .flat_map(Iterator::flatten)
        .filter(|package| {
            package
                .file_name()
                .to_string_lossy()
                .starts_with("zstd-sys-")
        })
        .map(|package| package.path().join("zstd/lib"))
        .find(|path| path.is_dir())
}

fn c_files(dir: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            c_files(&path, found)?;
        } else if path.extension().is_some_and(|ending| ending == "c") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_differs_is_no_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fill(&from, 1).unwrap();
        fs::copy(&from, &to).unwrap();
        let program = Program {
            name: "copy",
            about: String::new(),
            words: Vec::new(),
            check: Check::Copy(from, to.clone()),
        };
        program.check("").unwrap();
        fs::write(&to, "short").unwrap();
        assert!(
            program
                .check("")
                .unwrap_err()
                .to_string()
                .contains("differs")
        );
        program.clear().unwrap();
        assert!(!to.exists());
        program.clear().unwrap();
    }

    #[test]
    fn messages_are_counted() {
        let program = Program {
            name: "exchange",
            about: String::new(),
            words: Vec::new(),
            check: Check::Line("received 40 wrong 0".to_owned()),
        };
        program.check("a warning\nreceived 40 wrong 0\n").unwrap();
        assert!(program.check("received 39 wrong 0\n").is_err());
        assert!(program.check("received 40 wrong 1\n").is_err());
    }

    #[test]
    fn c_files_are_found_in_every_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        for file in ["a.c", "a.h", "sub/b.c"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let mut found = Vec::new();
        c_files(dir.path(), &mut found).unwrap();
        assert_eq!(found.len(), 2);
    }
}
