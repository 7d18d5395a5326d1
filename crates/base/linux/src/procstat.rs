// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/stat`: what each CPU did since boot, in ticks of `USER_HZ`.
//!
//! Source: Documentation/filesystems/proc.rst, section 1.7 ("Miscellaneous
//! kernel statistics in /proc/stat"). Only online CPUs have a line. `guest` is
//! already contained in `user`, and `guest_nice` in `nice`.
//!
//! One tick is 10 ms on every current Linux, so a single interval of 100 ms
//! resolves a load to about ten points; the sums over many intervals are exact.
//! On kernels that account at the timer interrupt (`TICK_CPU_ACCOUNTING`) the
//! busy states are samples besides.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use nix::sys::statfs::{FUSE_SUPER_MAGIC, FsType, fstatfs};
use nix::unistd::{SysconfVar, sysconf};

use crate::{Error, Result, Root};

/// Length of one tick of `/proc/stat` and `/proc/PID/stat`, from
/// `sysconf(_SC_CLK_TCK)`; 10 ms where the C library does not say.
pub fn tick_ns() -> u64 {
    let hz = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    1_000_000_000 / u64::try_from(hz).unwrap_or(100).max(1)
}

/// Cumulative counters of one CPU in ticks; columns that an old kernel does
/// not have are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// User mode, guests included.
    pub user: u64,
    /// User mode at positive nice, guests included.
    pub nice: u64,
    /// Kernel mode.
    pub system: u64,
    pub idle: u64,
    /// Idle while a task waited for I/O; may decrease.
    pub iowait: u64,
    /// Interrupts.
    pub irq: u64,
    /// Soft interrupts.
    pub softirq: u64,
    /// Time that the hypervisor gave to others.
    pub steal: u64,
    /// Part of `user` that ran a guest.
    pub guest: u64,
    /// Part of `nice` that ran a guest.
    pub guest_nice: u64,
}

impl CpuTimes {
    /// What happened between `earlier` and `self`; `tick_ns` as
    /// [`tick_ns()`].
    ///
    /// `idle` and `iowait` count as one: the kernel books a running idle
    /// period under one of them when it is asked and perhaps under the other
    /// when the period ends, so that only their sum is steady.
    pub fn since(&self, earlier: &Self, tick_ns: u64) -> CpuDelta {
        let mut back = 0;
        let mut delta = |now: u64, before: u64| {
            back = back.max(before.saturating_sub(now));
            now.saturating_sub(before)
        };
        let busy = delta(self.user, earlier.user)
            + delta(self.nice, earlier.nice)
            + delta(self.system, earlier.system)
            + delta(self.irq, earlier.irq)
            + delta(self.softirq, earlier.softirq);
        let idle = delta(self.idle + self.iowait, earlier.idle + earlier.iowait);
        let steal = delta(self.steal, earlier.steal);
        CpuDelta {
            busy_ns: busy * tick_ns,
            idle_ns: idle * tick_ns,
            steal_ns: steal * tick_ns,
            back_ns: back * tick_ns,
        }
    }
}

/// What one CPU did between two samples, in nanoseconds (whole ticks).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuDelta {
    /// User, nice, system, irq and softirq.
    pub busy_ns: u64,
    /// Idle and iowait.
    pub idle_ns: u64,
    /// Steal.
    pub steal_ns: u64,
    /// Largest decrease of a counter, 0 in order. A tick or two is a race of
    /// the kernel's bookkeeping; more means that the CPU was away or that the
    /// machine was booted in between, and that this delta says nothing. The
    /// counters that decreased contribute 0.
    pub back_ns: u64,
}

impl CpuDelta {
    /// Time that programs on this machine could have had.
    pub fn delivered_ns(&self) -> u64 {
        self.busy_ns + self.idle_ns
    }

    /// All accounted time. It differs from the wall time by some ticks in
    /// either direction, which is why a load is never a share of wall time.
    pub fn total_ns(&self) -> u64 {
        self.delivered_ns() + self.steal_ns
    }

    /// The load: busy share of the delivered time, 0 to 1; `None` if nothing
    /// was delivered.
    pub fn load(&self) -> Option<f64> {
        ratio(self.busy_ns, self.delivered_ns())
    }

    /// Steal as a share of all time, 0 to 1; `None` if no time was accounted.
    pub fn steal(&self) -> Option<f64> {
        ratio(self.steal_ns, self.total_ns())
    }
}

/// The part of a task's time that was delivered, where its clock counts stolen time, too (ns):
/// steal falls into the time in which the CPU was not idle, and the kernel does not say
/// which task was current then.
pub fn without_steal(own_ns: u64, steal_ns: u64, not_idle_ns: u64) -> u64 {
    let stolen = steal_ns as f64 * own_ns as f64 / not_idle_ns.max(own_ns).max(1) as f64;
    own_ns.saturating_sub(stolen as u64)
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// One reading of `/proc/stat`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatSample {
    /// The online CPUs, ascending.
    pub cpus: Vec<(u32, CpuTimes)>,
    /// Time of boot, seconds since 1970 by the present wall clock; `None` if
    /// the kernel does not say.
    pub btime: Option<u64>,
}

impl StatSample {
    /// The counters of `cpu`; `None` while it is offline.
    pub fn get(&self, cpu: u32) -> Option<&CpuTimes> {
        let at = self.cpus.binary_search_by_key(&cpu, |(n, _)| *n).ok()?;
        Some(&self.cpus[at].1)
    }
}

/// `/proc/stat`, kept open.
#[derive(Debug)]
pub struct ProcStat {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    sample: StatSample,
}

impl ProcStat {
    /// Opens `/proc/stat` under `root`.
    ///
    /// # Errors
    /// It cannot be read; [`Error::Missing`] where it is not the kernel's.
    pub fn open(root: &Root) -> Result<Self> {
        let path = root.path("/proc/stat");
        let file = File::open(&path).map_err(Error::read(&path))?;
        if let (true, Ok(system)) = (root.is_live(), fstatfs(&file)) {
            refuse_lxcfs(system.filesystem_type())?;
        }
        Ok(Self {
            path,
            file,
            buffer: vec![0; 16 << 10],
            sample: StatSample::default(),
        })
    }

    /// Reads the counters. Nothing is allocated once the buffers have grown
    /// to the file's size.
    pub fn sample(&mut self) -> Result<&StatSample> {
        let mut sample = std::mem::take(&mut self.sample);
        let outcome = self.sample_into(&mut sample);
        self.sample = sample;
        outcome.map(|()| &self.sample)
    }

    /// As [`Self::sample`], into a sample of the caller's, who keeps two of
    /// them to take differences.
    pub fn sample_into(&mut self, into: &mut StatSample) -> Result<()> {
        let file = &self.file;
        let length = read_whole(&mut self.buffer, |part, offset| file.read_at(part, offset))
            .map_err(Error::read(&self.path))?;
        parse(&self.buffer[..length], into).map_err(|line| {
            Error::parse(
                &self.path,
                "`cpuN` in ascending order with at least 4 counters",
                &String::from_utf8_lossy(line),
            )
        })
    }
}

/// The counters of lxcfs are those of a container, whose CPUs it numbers from 0.
/// With all CPUs, too, they lack the load of others and the steal where the container has a
/// group of cpuacct (`proc_stat_read` in lxcfs's `src/proc_fuse.c`).
fn refuse_lxcfs(kind: FsType) -> Result<()> {
    if kind != FUSE_SUPER_MAGIC {
        return Ok(());
    }
    Err(Error::Missing {
        what: "/proc/stat of the kernel (that of lxcfs is there, which counts the container)"
            .to_owned(),
        remedy: "umount /proc/stat in the container".to_owned(),
    })
}

/// Fills `buffer` from offset 0 to the end, growing it where it is too small,
/// and returns the length. A short read is not the end: the kernel may hand
/// out a large file in pieces; it makes the text once, at offset 0, so the
/// pieces fit together.
fn read_whole(
    buffer: &mut Vec<u8>,
    mut read_at: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut length = 0;
    loop {
        if length == buffer.len() {
            buffer.resize(buffer.len().max(512) * 2, 0);
        }
        match read_at(&mut buffer[length..], length as u64) {
            Ok(0) => return Ok(length),
            Ok(more) => length += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Parses the text of `/proc/stat`; the error is the offending line.
fn parse<'a>(text: &'a [u8], into: &mut StatSample) -> std::result::Result<(), &'a [u8]> {
    into.cpus.clear();
    into.btime = None;
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(rest) = line.strip_prefix(b"cpu") {
            if rest.first() == Some(&b' ') {
                continue;
            }
            let entry = parse_cpu(rest).ok_or(line)?;
            if into.cpus.last().is_some_and(|(last, _)| *last >= entry.0) {
                return Err(line);
            }
            into.cpus.push(entry);
        } else if let Some(rest) = line.strip_prefix(b"btime ") {
            into.btime = Some(number(rest).ok_or(line)?);
        }
    }
    if into.cpus.is_empty() {
        return Err(b"");
    }
    Ok(())
}

/// `0 10600 331675 ...`: number of the CPU, then its counters.
fn parse_cpu(text: &[u8]) -> Option<(u32, CpuTimes)> {
    let mut words = text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let cpu = u32::try_from(number(words.next()?)?).ok()?;
    // Kernels have at least the first 4.
    let mut column = |required: bool| match words.next() {
        Some(word) => number(word),
        None => (!required).then_some(0),
    };
    let times = CpuTimes {
        user: column(true)?,
        nice: column(true)?,
        system: column(true)?,
        idle: column(true)?,
        iowait: column(false)?,
        irq: column(false)?,
        softirq: column(false)?,
        steal: column(false)?,
        guest: column(false)?,
        guest_nice: column(false)?,
    };
    Some((cpu, times))
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
