// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs with a given amount of work, made once for an experiment: those of KRASH's
//! tables III to V, and threads that meet at barriers.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::statvfs::statvfs;

use crate::experiment::NotHere;
use crate::program::{command, is_there, run};
use crate::setup::Setup;
use sandbag_ui::BadInput;

/// What the copy copies, MiB; the paper's file.
const COPY_MIB: u64 = 1024;
/// What dd copies at once.
const BLOCK: usize = 1 << 20;
/// Room beyond the two files, MiB.
const SPARE_MIB: u64 = 256;
/// Processes of the exchange: those of NPB DT's shuffle, class A, as in the paper.
const RANKS: u32 = 80;
/// Blocks that each source sends, and in the short form.
const ROUNDS: u64 = 4000;
const ROUNDS_QUICK: u64 = 400;
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
            Check::Copy(_, to) => {
                spoil(to).with_context(|| to.display().to_string())?;
                nix::unistd::sync();
            }
            Check::Objects(dir, _) => {
                each(dir, "o", &mut |path| Ok(fs::remove_file(path)?))?;
                nix::unistd::sync();
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
                let found = count(dir, "o")?;
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
    let mib = setup.chosen.size.map_or(COPY_MIB, u64::from);
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
    for path in [&from, &to] {
        fill(path, mib).with_context(|| path.display().to_string())?;
    }
    let program = |name, sync: &str, words: &str| Program {
        name,
        about: format!(
            "dd of a file of {mib} MiB over another one{words}; afterwards both are compared."
        ),
        words: shell(
            &format!("exec dd if=\"$0\" of=\"$1\" bs=1M status=none conv=notrunc{sync}"),
            &[from.as_path(), to.as_path()],
        ),
        check: Check::Copy(from.clone(), to.clone()),
    };
    Ok(vec![
        program("copy", "", ""),
        program("copy-sync", ",fdatasync", ", with fdatasync"),
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
    let mut block = vec![0u8; BLOCK];
    for _ in 0..mib {
        for word in block.chunks_exact_mut(8) {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.copy_from_slice(&x.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    file.sync_all()
}

/// Makes the copy wrong in each block and keeps its pages: memory that was freed may have gone
/// back to a hypervisor (free page reporting), and then a copy waits for it, up to 16 times as long.
fn spoil(path: &Path) -> std::io::Result<()> {
    let file = File::options().write(true).open(path)?;
    for at in (0..file.metadata()?.len()).step_by(BLOCK) {
        file.write_all_at(b"spoilt..", at)?;
    }
    Ok(())
}

pub fn exchange(setup: &Setup) -> Result<Vec<Program>> {
    if !is_there("mpicc") || !is_there("mpirun") {
        bail!(NotHere(
            "exchange: no MPI here; apt-get install openmpi-bin libopenmpi-dev".to_owned()
        ));
    }
    let program = build(setup, "exchange", "mpicc", EXCHANGE)?;
    let rounds = setup.form(ROUNDS_QUICK, ROUNDS);
    let ranks = setup.chosen.size.unwrap_or(RANKS);
    let Some(stages) = (1..16).find(|stages| ranks == (stages + 1) << stages) else {
        bail!(BadInput(format!(
            "--size {ranks}: the graph of the exchange has 4, 12, 32, 80 or 192 processes"
        )));
    };
    let messages = 2 * rounds * u64::from(stages) * (1 << stages);
    Ok(vec![Program {
        name: "exchange",
        about: format!(
            "{ranks} MPI processes, the shuffle graph of NPB DT: {} sources send {rounds} blocks \
             of {MESSAGE} bytes each through {} layers of comparators to as many sinks, which \
             check the sums. {messages} messages are counted.",
            1 << stages,
            stages - 1
        ),
        words: shell(
            &format!(
                "exec mpirun --allow-run-as-root --oversubscribe --bind-to none \
                 --mca mpi_yield_when_idle 1 -n {ranks} \"$0\" {rounds} {MESSAGE}"
            ),
            &[&program],
        ),
        check: Check::Line(format!("received {messages} wrong 0")),
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

/// A source tree of thousands of files, by its own make.
pub fn compile(setup: &Setup) -> Result<Vec<Program>> {
    let missing = ["gcc", "make"].into_iter().find(|name| !is_there(name));
    if let Some(name) = missing {
        bail!(NotHere(format!(
            "compile: no {name} here; apt-get install {name}"
        )));
    }
    let Some(tree) = setup.sources.clone().or_else(fetched_sources) else {
        bail!(NotHere(
            "compile: no sources here; scripts/setup-lab fetches those of Debian's busybox, or \
             name a tree of them with --sources"
                .to_owned()
        ));
    };
    let objects = setup.scratch.join("objects");
    fs::create_dir_all(&objects).with_context(|| objects.display().to_string())?;
    // A part of it in the short form.
    let target = setup.form("libbb/", "");
    let program = Program {
        name: "compile",
        about: String::new(),
        words: shell(
            &format!("exec make -s -j{JOBS} -C \"$0\" O=\"$1\" {target} >&2"),
            &[&tree, &objects],
        ),
        check: Check::Objects(objects.clone(), 0),
    };
    // Its traffic control does not build with the headers of current kernels.
    let configure = "make -s -C \"$0\" O=\"$1\" defconfig >&2 && \
                     sed -i 's/^CONFIG_TC=y/# CONFIG_TC is not set/' \"$1/.config\" && \
                     make -s -C \"$0\" O=\"$1\" prepare scripts >&2";
    for words in [&shell(configure, &[&tree, &objects]), &program.words] {
        // Objects of the tools that configure it are not built again.
        program.clear()?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let built = run(command, None, BUILD)?;
        if !built.status.is_some_and(|status| status.success()) {
            bail!(NotHere(format!(
                "compile: {}: {}",
                tree.display(),
                built.last_words()
            )));
        }
    }
    let built = count(&objects, "o")?;
    let about = format!(
        "make -j{JOBS} {target} in {}, a tree of {} files in C; {built} objects are built and \
         counted.",
        tree.file_name().unwrap_or_default().display(),
        count(&tree, "c")?,
    );
    Ok(vec![Program {
        about,
        check: Check::Objects(objects, built),
        ..program
    }])
}

/// Where `scripts/setup-lab` puts them.
fn fetched_sources() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("sandbag-lab/busybox")).filter(|path| path.is_dir())
}

/// Files of this ending in all directories, each of which `of` is called with.
fn each(dir: &Path, ending: &str, of: &mut impl FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            each(&path, ending, of)?;
        } else if path.extension().is_some_and(|own| own == ending) {
            of(&path)?;
        }
    }
    Ok(())
}

fn count(dir: &Path, ending: &str) -> Result<usize> {
    let mut count = 0;
    each(dir, ending, &mut |_| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_differs_is_no_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let copy = || fs::copy(&from, &to).unwrap();
        fill(&from, 3).unwrap();
        copy();
        let program = Program {
            name: "copy",
            about: String::new(),
            words: Vec::new(),
            check: Check::Copy(from.clone(), to.clone()),
        };
        program.check("").unwrap();
        // Each block on its own is wrong afterwards, in a file of the same size.
        program.clear().unwrap();
        let (right, spoilt) = (fs::read(&from).unwrap(), fs::read(&to).unwrap());
        let both = right.chunks(BLOCK).zip(spoilt.chunks(BLOCK));
        assert!(spoilt.len() == right.len() && both.clone().all(|(a, b)| a != b));
        let said = program.check("").unwrap_err().to_string();
        assert!(said.contains("differs"), "{said}");
        copy();
        program.check("").unwrap();
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
    fn objects_are_counted_and_removed_in_every_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        for file in ["a.o", "a.h", "sub/b.o"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let program = Program {
            name: "compile",
            about: String::new(),
            words: Vec::new(),
            check: Check::Objects(dir.path().to_owned(), 2),
        };
        program.check("").unwrap();
        program.clear().unwrap();
        assert!(program.check("").is_err());
        assert!(dir.path().join("a.h").exists());
    }
}
