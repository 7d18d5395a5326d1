// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An instance: what it traces, and what is in its buffers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::TraceFs;
use super::format::EventFormat;
use super::ring::PageLayout;
use crate::root::{read, read_value, write};
use crate::{CpuList, Error, Result};

/// An instance. It outlives this value: [`TraceFs::remove`] ends it.
#[derive(Debug)]
pub struct Instance {
    pub(super) dir: PathBuf,
    pub(super) fs: TraceFs,
}

/// What was lost of a CPU's events since the buffer was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LossCounts {
    /// Overwritten by later ones.
    pub overrun: u64,
    /// Not written.
    pub dropped: u64,
}

impl LossCounts {
    /// Both.
    pub fn all(self) -> u64 {
        self.overrun.saturating_add(self.dropped)
    }
}

impl Instance {
    /// Takes an instance whose directory is `dir`: for trees of files.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let fs = TraceFs {
            dir: dir.clone(),
            _mount: None,
        };
        Self { dir, fs }
    }

    /// Begins or ends writing to the buffers.
    pub fn set_on(&self, on: bool) -> Result<()> {
        write(&self.dir.join("tracing_on"), u8::from(on))
    }

    /// The clocks that stamps can be of.
    pub fn clocks(&self) -> Result<Vec<String>> {
        let text = read(&self.dir.join("trace_clock"))?;
        let names = text
            .split_whitespace()
            .map(|name| name.trim_matches(['[', ']']));
        Ok(names.map(str::to_owned).collect())
    }

    /// Chooses one of them.
    pub fn set_clock(&self, name: &str) -> Result<()> {
        write(&self.dir.join("trace_clock"), name)
    }

    /// Traces these CPUs only, each with a buffer of at least `buffer_kib` KiB.
    pub fn set_cpus(&self, cpus: &CpuList, buffer_kib: u64) -> Result<()> {
        write(&self.dir.join("tracing_cpumask"), mask(cpus))?;
        for cpu in cpus.iter() {
            write(&self.of_cpu(cpu).join("buffer_size_kb"), buffer_kib)?;
        }
        Ok(())
    }

    /// Memory of all its buffers, KiB.
    pub fn buffer_kib(&self) -> Result<u64> {
        read_value(&self.dir.join("buffer_total_size_kb"), "a number of KiB")
    }

    /// Sets an option of the tracer; one that this kernel does not have is
    /// left alone.
    pub fn set_option(&self, name: &str, on: bool) -> Result<()> {
        match write(&self.dir.join("options").join(name), u8::from(on)) {
            Err(error) if error.is_absent() => Ok(()),
            other => other,
        }
    }

    /// Whether the kernel has such an event.
    pub fn has_event(&self, system: &str, name: &str) -> bool {
        self.event(system, name).is_dir()
    }

    /// The events of a system, in order; none where there is no such system.
    pub fn events(&self, system: &str) -> Vec<String> {
        let listing = fs::read_dir(self.dir.join("events").join(system));
        let entries = listing.into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| entry.path().join("format").exists())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// How the kernel writes an event.
    pub fn format(&self, system: &str, name: &str) -> Result<EventFormat> {
        let path = self.event(system, name).join("format");
        let text = read(&path)?;
        EventFormat::parse(&text).ok_or_else(|| {
            Error::parse(
                &path,
                "a name, an ID and fields with offset and size",
                &text,
            )
        })
    }

    /// Lets only those pass of which a condition holds, as in `comm ~ "x*"`.
    pub fn set_filter(&self, system: &str, name: &str, condition: &str) -> Result<()> {
        write(&self.event(system, name).join("filter"), condition)
    }

    /// Traces an event.
    pub fn enable(&self, system: &str, name: &str) -> Result<()> {
        write(&self.event(system, name).join("enable"), 1)
    }

    /// How the pages of its buffers are laid out.
    pub fn layout(&self) -> Result<PageLayout> {
        let path = self.dir.join("events/header_page");
        // In an instance of some kernels there is only the whole tree's.
        let path = if path.exists() {
            path
        } else {
            self.fs.dir.join("events/header_page")
        };
        let text = read_large(&path)?;
        PageLayout::parse(&text)
            .ok_or_else(|| Error::parse(&path, "`commit` and `data` with offset and size", &text))
    }

    /// Takes what is in a CPU's buffer, page by page; `each` is given whole
    /// pages.
    pub fn take(&self, cpu: u32, layout: &PageLayout, mut each: impl FnMut(&[u8])) -> Result<()> {
        let path = self.of_cpu(cpu).join("trace_pipe_raw");
        let failed = Error::read(&path);
        let mut file: File = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .map_err(failed)?;
        let mut page = vec![0; layout.page_bytes()];
        loop {
            match file.read(&mut page) {
                Ok(0) => return Ok(()),
                Ok(n) => each(&page[..n]),
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(failed(cause)),
            }
        }
    }

    /// What was lost of a CPU's events so far.
    pub fn lost(&self, cpu: u32) -> Result<LossCounts> {
        let text = read(&self.of_cpu(cpu).join("stats"))?;
        let number = |name: &str| {
            let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
            values
                .next()
                .and_then(|value| value.trim().parse().ok())
                .unwrap_or(0)
        };
        Ok(LossCounts {
            overrun: number("overrun:"),
            dropped: number("dropped events:"),
        })
    }

    fn of_cpu(&self, cpu: u32) -> PathBuf {
        self.dir.join(format!("per_cpu/cpu{cpu}"))
    }

    fn event(&self, system: &str, name: &str) -> PathBuf {
        self.dir.join("events").join(system).join(name)
    }
}

/// The text of a file that the kernel gives to the first `read` or not at all
/// (`show_header` in kernel/trace/trace_events.c): the standard library begins
/// with one of 32 bytes.
fn read_large(path: &Path) -> Result<String> {
    let failed = Error::read(path);
    let mut buffer = vec![0; 16 << 10];
    let mut file = File::open(path).map_err(failed)?;
    let mut length = 0;
    loop {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(failed(cause)),
        }
    }
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// A mask as the kernel reads it: words of 32 bits, the highest first.
fn mask(cpus: &CpuList) -> String {
    let last = cpus.iter().next_back().unwrap_or(0);
    let mut words = vec![0u32; last as usize / 32 + 1];
    for cpu in cpus.iter() {
        words[cpu as usize / 32] |= 1 << (cpu % 32);
    }
    let words: Vec<String> = words
        .iter()
        .rev()
        .map(|word| format!("{word:08x}"))
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::{fake, text};

    #[test]
    fn masks_have_their_highest_word_first() {
        for (cpus, said) in [
            ("0-1", "00000003"),
            ("1,31", "80000002"),
            ("0,32,65", "00000002,00000001,00000001"),
        ] {
            assert_eq!(mask(&cpus.parse().unwrap()), said, "{cpus}");
        }
    }

    #[test]
    fn an_instance_is_told_what_to_do() {
        let (dir, _) = fake(&[
            ("tracing_on", "1"),
            ("tracing_cpumask", "f"),
            ("trace_clock", "[local] global x86-tsc mono_raw\n"),
            ("per_cpu/cpu2/buffer_size_kb", "1"),
            (
                "per_cpu/cpu2/stats",
                "entries: 5\noverrun: 7\ncommit overrun: 0\nnow ts: 1.5\ndropped events: 2\n",
            ),
        ]);
        let instance = Instance::at(dir.path());
        instance.set_on(false).unwrap();
        instance.set_cpus(&"2".parse().unwrap(), 640).unwrap();
        instance.set_option("not-of-this-kernel", true).unwrap();
        assert_eq!(text(&dir, "tracing_on"), "0");
        assert_eq!(text(&dir, "tracing_cpumask"), "00000004");
        assert_eq!(text(&dir, "per_cpu/cpu2/buffer_size_kb"), "640");
        let clocks = instance.clocks().unwrap();
        assert_eq!(clocks, ["local", "global", "x86-tsc", "mono_raw"]);
        assert_eq!(instance.lost(2).unwrap().all(), 9);
        assert!(!instance.has_event("irq", "irq_handler_entry"));
        assert!(instance.events("irq").is_empty());
    }
}
