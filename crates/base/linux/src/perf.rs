// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The time that a control group spent on each CPU, by perf events.
//!
//! cgroup v2 has no per-CPU clock of a group. A software event
//! (`PERF_COUNT_SW_TASK_CLOCK`) on one CPU, restricted to a group
//! (`PERF_FLAG_PID_CGROUP`), is one: it advances while a task of the group, or
//! of a group below it, is the current task of that CPU. It is a *wall* clock:
//! steal and interrupts that fall into that time are counted, and on the root
//! group idle time is counted too. No mount and no process are needed for it,
//! but the group must lie in the hierarchy that has the `perf_event`
//! controller, which is the v2 tree unless the controller is mounted
//! separately.
//!
//! The same way `PERF_COUNT_SW_CPU_MIGRATIONS` counts how often a task of the
//! group came to a CPU from another, those of tasks that ended included.
//!
//! Source: perf_event_open(2), include/uapi/linux/perf_event.h.

mod idle_timers;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::path::{Path, PathBuf};

use crate::clock::{self, Nanos};
use crate::{CpuList, Error, Result};
pub use idle_timers::IdleTimers;

const TYPE_SOFTWARE: u32 = 1;
const SAMPLE_IP: u64 = 1;
const ANY_TASK: libc::c_int = -1;
const COUNT_SW_CPU_CLOCK: u64 = 0;
const COUNT_SW_TASK_CLOCK: u64 = 1;
const COUNT_SW_CPU_MIGRATIONS: u64 = 4;
const FLAG_PID_CGROUP: libc::c_ulong = 1 << 2;
const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

/// The form of `struct perf_event_attr` that has a clock (`PERF_ATTR_SIZE_VER3`, Linux 4.1).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    bits: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
}

const _: () = assert!(size_of::<Attributes>() == 96);

/// Counters of one group, one per CPU (and one file descriptor each).
#[derive(Debug)]
struct Counters {
    dir: PathBuf,
    counters: Vec<(u32, File)>,
}

impl Counters {
    /// Of a group; `what` is the event in words, `config` its number.
    fn of_group(dir: &Path, cpus: &CpuList, what: &str, config: u64) -> Result<Self> {
        let group = File::open(dir).map_err(Error::read(dir))?;
        let flags = FLAG_PID_CGROUP | FLAG_FD_CLOEXEC;
        Self::open(dir, cpus, what, |cpu| {
            open_event(&counting(config), group.as_raw_fd(), cpu, flags)
        })
    }

    fn open(
        dir: &Path,
        cpus: &CpuList,
        what: &str,
        open: impl Fn(u32) -> io::Result<File>,
    ) -> Result<Self> {
        let mut counters = Vec::with_capacity(cpus.len());
        for cpu in cpus.iter() {
            match open(cpu) {
                Ok(counter) => counters.push((cpu, counter)),
                Err(cause) if cause.raw_os_error() == Some(libc::ENODEV) => {}
                Err(cause) => {
                    return Err(Error::Call {
                        call: "perf_event_open",
                        arguments: format!("{what} of group {} on CPU {cpu}", dir.display()),
                        cause,
                    });
                }
            }
        }
        Ok(Self {
            dir: dir.to_owned(),
            counters,
        })
    }

    /// The counter of a CPU; `None` where it was offline at the beginning.
    fn of_cpu(&self, cpu: u32) -> Option<&File> {
        let at = self.counters.binary_search_by_key(&cpu, |(n, _)| *n).ok()?;
        Some(&self.counters[at].1)
    }

    fn read(&self, counter: &File) -> Result<u64> {
        let mut count = [0; 8];
        let mut counter = counter;
        counter
            .read_exact(&mut count)
            .map_err(Error::read(&self.dir))?;
        Ok(u64::from_ne_bytes(count))
    }
}

/// The time of one group on each CPU.
#[derive(Debug)]
pub struct GroupClock {
    time: Counters,
    /// The clocks of the CPUs: they stand still from the same moment on as the time.
    cpu_clocks: Counters,
    /// Where each of them was when it last went on.
    last: BTreeMap<u32, ClockReading>,
}

impl GroupClock {
    /// Begins to count, from 0, on those of `cpus` that are online. A CPU that
    /// goes offline, also in a suspend, takes its counter along: the count stands still from
    /// then on, also when the CPU comes back.
    ///
    /// # Errors
    /// [`Error::Read`] if the directory cannot be opened; [`Error::Call`] if
    /// the kernel refuses: EBADF where the directory is no group, ENOENT where
    /// it is a group of a hierarchy without the `perf_event` controller,
    /// EINVAL for a CPU that this kernel can never have, EACCES or EPERM without
    /// CAP_PERFMON (CAP_SYS_ADMIN before 5.8) unless
    /// `kernel.perf_event_paranoid` is below 1, EMFILE where the limit of open
    /// files is below twice the number of CPUs.
    pub fn open(dir: &Path, cpus: &CpuList) -> Result<Self> {
        let time = Counters::of_group(dir, cpus, "task clock", COUNT_SW_TASK_CLOCK)?;
        let cpu_clock = counting(COUNT_SW_CPU_CLOCK);
        let cpu_clocks = Counters::open(dir, cpus, "CPU clock beside that", |cpu| {
            open_event(&cpu_clock, ANY_TASK, cpu, FLAG_FD_CLOEXEC)
        })?;
        let begin = ClockReading::take(|| Ok(0))?;
        let cpus = cpu_clocks.counters.iter();
        let last = cpus.map(|(cpu, _)| (*cpu, begin)).collect();
        Ok(Self {
            time,
            cpu_clocks,
            last,
        })
    }

    /// Wall time in nanoseconds, since [`Self::open`], in which `cpu` ran
    /// tasks of the group; `None` for a CPU that was offline then or since then.
    pub fn ns(&mut self, cpu: u32) -> Result<Option<u64>> {
        let Some(time) = self.time.of_cpu(cpu) else {
            return Ok(None);
        };
        let ns = self.time.read(time)?;
        let counter = self.cpu_clocks.of_cpu(cpu);
        let (Some(counter), Some(last)) = (counter, self.last.get_mut(&cpu)) else {
            return Ok(None);
        };
        // Afterwards: while the CPU's clock goes on, all of the time was counted.
        let now = ClockReading::take(|| self.cpu_clocks.read(counter))?;
        Ok(last.goes_on_to(now).then_some(ns))
    }
}

/// A reading of a CPU's clock, and when it was taken (`CLOCK_MONOTONIC_RAW`).
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    count_ns: u64,
    /// Just before and just after it: we may have been preempted in between.
    before_ns: Nanos,
    after_ns: Nanos,
}

/// How far a CPU's clock may be behind: where the kernel finds time stamps unstable, it corrects
/// them from tick to tick, at 100 Hz at the slowest. And the part of the time that the clocks
/// may differ by: before Linux 6.7 all events of a CPU are stopped at each change of its group
/// for a few microseconds.
const BEHIND_NS: u64 = 20_000_000;
const DRIFT: u64 = 20;

impl ClockReading {
    fn take(read: impl FnOnce() -> Result<u64>) -> Result<Self> {
        let before_ns = clock::monotonic_raw();
        Ok(Self {
            count_ns: read()?,
            before_ns,
            after_ns: clock::monotonic_raw(),
        })
    }

    /// Whether the clock did not stand still until a later reading, which takes the place of
    /// this one if it advanced: one that stands still is behind once enough time has passed.
    fn goes_on_to(&mut self, now: Self) -> bool {
        let passed_ns = now.before_ns.saturating_sub(self.after_ns);
        let counted_ns = now.count_ns.saturating_sub(self.count_ns);
        let goes_on = counted_ns + BEHIND_NS + passed_ns / DRIFT >= passed_ns;
        // Once it stands still it counts nothing, and falls behind this reading.
        if counted_ns > 0 {
            *self = now;
        }
        goes_on
    }
}

/// The migrations of one group's tasks, all of them, also of those that ended.
#[derive(Debug)]
pub struct GroupMigrations(Counters);

impl GroupMigrations {
    /// Begins to count, from 0, arrivals on those of `cpus` that are online.
    pub fn open(dir: &Path, cpus: &CpuList) -> Result<Self> {
        Counters::of_group(dir, cpus, "migrations", COUNT_SW_CPU_MIGRATIONS).map(Self)
    }

    /// Migrations to the CPUs since [`Self::open`]. Asks every CPU, so not
    /// often.
    pub fn count(&self) -> Result<u64> {
        let counters = self.0.counters.iter();
        counters.map(|(_, counter)| self.0.read(counter)).sum()
    }
}

/// An event that only counts.
fn counting(config: u64) -> Attributes {
    Attributes {
        kind: TYPE_SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config,
        ..Attributes::default()
    }
}

/// `of` is a process, [`ANY_TASK`], or the descriptor of a group.
fn open_event(
    attributes: &Attributes,
    of: libc::c_int,
    cpu: u32,
    flags: libc::c_ulong,
) -> io::Result<File> {
    let no_group_of_events: libc::c_int = -1;
    // SAFETY: `attributes` is a complete structure of the size it states and
    // outlives the call; the other arguments are plain numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            of,
            cpu as libc::c_int,
            no_group_of_events,
            flags,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor; nothing else owns it.
    Ok(unsafe { File::from_raw_fd(fd as libc::c_int) })
}

/// A timer of one CPU whose handler never leaves the kernel: an event of the CPU's
/// clock that is sampled every `period_ns` into nowhere. It ticks until the
/// descriptor is closed.
///
/// # Errors
/// [`Error::Call`]: as of [`GroupClock::open`], EINVAL also for a period of 0.
pub fn sampled_clock(cpu: u32, period_ns: u64) -> Result<File> {
    let attributes = Attributes {
        sample_period: period_ns,
        sample_type: SAMPLE_IP,
        ..counting(COUNT_SW_CPU_CLOCK)
    };
    open_event(&attributes, ANY_TASK, cpu, FLAG_FD_CLOEXEC).map_err(|cause| Error::Call {
        call: "perf_event_open",
        arguments: format!("CPU clock sampled every {period_ns} ns on CPU {cpu}"),
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_no_group_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let cpus = CpuList::from_iter([0]);
        let clock = GroupClock::open(dir.path(), &cpus).map(drop);
        let migrations = GroupMigrations::open(dir.path(), &cpus).map(drop);
        for (opened, event) in [(clock, "task clock"), (migrations, "migrations")] {
            let text = opened.unwrap_err().to_string();
            let begin = format!("perf_event_open({event} of group /");
            assert!(text.starts_with(&begin), "{text}");
            assert!(text.contains(" on CPU 0): "), "{text}");
        }
        let missing = GroupClock::open(&dir.path().join("none"), &cpus);
        assert!(missing.unwrap_err().is_absent());
    }

    #[test]
    fn a_clock_that_stood_still_does_not_go_on() {
        const MS: u64 = 1_000_000;
        let at = |count_ms: u64, ms: u64| ClockReading {
            count_ns: count_ms * MS,
            before_ns: ms * MS,
            after_ns: ms * MS,
        };
        // Count and time of each reading, ms, and whether the clock goes on.
        let cases: [&[(u64, u64, bool)]; 5] = [
            // Corrected from tick to tick, and faster.
            &[(90, 100, true), (110, 110, true), (2000, 1110, true)],
            // Still for a whole interval, and for the end of one.
            &[(100, 100, true), (100, 200, false), (100, 300, false)],
            &[(100, 100, true), (150, 200, false), (150, 300, false)],
            // Too short to be seen at once.
            &[(100, 100, true), (100, 110, true), (100, 125, false)],
            // One part in twenty-five, not one in ten; alive again after that.
            &[
                (960_000, 1_000_000, true),
                (1_860_000, 2_000_000, false),
                (2_850_000, 3_000_000, true),
            ],
        ];
        for readings in cases {
            let mut last = at(0, 0);
            for (count, ms, goes_on) in readings {
                let found = last.goes_on_to(at(*count, *ms));
                assert_eq!(found, *goes_on, "{count} ms at {ms} ms of {readings:?}");
            }
        }
        // Preempted after the reading, and before it.
        let mut last = ClockReading {
            after_ns: 1000 * MS,
            ..at(0, 0)
        };
        let late = ClockReading {
            after_ns: 5000 * MS,
            ..at(2000, 3000)
        };
        assert!(last.goes_on_to(late));
    }

    #[test]
    fn without_cpus_there_is_nothing_to_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut clock = GroupClock::open(dir.path(), &CpuList::default()).unwrap();
        assert_eq!(clock.ns(0).unwrap(), None);
        let migrations = GroupMigrations::open(dir.path(), &CpuList::default()).unwrap();
        assert_eq!(migrations.count().unwrap(), 0);
    }

    /// A shell in a v2 group is moved to and fro by its affinity.
    #[test]
    #[ignore = "needs root, two CPUs and a v2 tree; make unit runs it"]
    fn the_migrations_and_the_time_of_a_group_are_counted() {
        let tree = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .map(Path::new)
            .into_iter()
            .find(|dir| dir.join("cgroup.procs").exists());
        let (Some(tree), true) = (tree, Path::new("/sys/devices/system/cpu/cpu1").exists()) else {
            eprintln!("skipped: no v2 tree, or one CPU");
            return;
        };
        let group = tree.join(format!("sandbag-test-{}", std::process::id()));
        std::fs::create_dir(&group).unwrap();
        let counted = std::panic::catch_unwind(|| {
            let cpus = CpuList::from_iter([0, 1]);
            let counters = GroupMigrations::open(&group, &cpus).unwrap();
            let mut clock = GroupClock::open(&group, &cpus).unwrap();
            let script = "read go; for n in 1 2 3 4 5; do \
                              taskset -cp 0 $$; taskset -cp 1 $$; \
                          done";
            let mut child = std::process::Command::new("sh")
                .args(["-c", script])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();
            drop(child.stdin.take());
            child.wait().unwrap();
            let used = [0, 1].map(|cpu| clock.ns(cpu).unwrap());
            assert!(
                used.iter().all(|ns| ns.is_some_and(|ns| ns > 0)),
                "{used:?}"
            );
            counters.count().unwrap()
        });
        // EBUSY until the last process is quite gone.
        while std::fs::remove_dir(&group).is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) {}
        // The first move may be to where it was.
        let counted = counted.unwrap();
        assert!((9..1000).contains(&counted), "{counted}");
    }
}
