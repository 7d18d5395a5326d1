// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One group.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::version::Version;
use crate::pidfd::PidFd;
use crate::root::{read, read_value, write};
use crate::sched::{self, Attributes};
use crate::{Error, Result};

const QUOTA: &str = "cpu.cfs_quota_us";
const PERIOD: &str = "cpu.cfs_period_us";
const BURST_V1: &str = "cpu.cfs_burst_us";
const MAX: &str = "cpu.max";
const BURST_V2: &str = "cpu.max.burst";
const PROCS: &str = "cgroup.procs";

/// Weight of a group in units of the kernel's default, which is that of one
/// task of nice 0 (v1: 1024 shares, v2: 100).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Weight(pub f64);

impl Weight {
    /// Smallest and largest weight that a version takes.
    pub fn range(version: Version) -> (Self, Self) {
        match version {
            // MIN_SHARES, MAX_SHARES in kernel/sched/sched.h.
            Version::V1 => (Self(2.0 / 1024.0), Self(256.0)),
            Version::V2 => (Self(0.01), Self(100.0)),
        }
    }

    fn text(self, version: Version) -> String {
        let (least, most) = Self::range(version);
        let units = self.0.clamp(least.0, most.0) * Self::file(version).1;
        format!("{}", units.round() as u64)
    }

    /// The file that has it, and the value of the default weight there.
    fn file(version: Version) -> (&'static str, f64) {
        match version {
            Version::V1 => ("cpu.shares", 1024.0),
            Version::V2 => ("cpu.weight", 100.0),
        }
    }
}

/// A hard limit: `quota` of CPU time per `period`, of which `burst` may be
/// saved up (Documentation/scheduler/sched-bwc.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// CPU time per period, us; at least 1000.
    pub quota_us: u64,
    /// Period, us; 1000 to 1 000 000.
    pub period_us: u64,
    /// Unused quota that may be kept, us; at most `quota_us`. Written only
    /// where the kernel has it (about 5.14 and later).
    pub burst_us: u64,
}

/// A group: one directory per hierarchy (v1 keeps accounting apart).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    version: Version,
    cpu: PathBuf,
    cpuacct: Option<PathBuf>,
}

impl Group {
    /// The group at directory `cpu`, and at `cpuacct` where accounting has a
    /// hierarchy of its own. Nothing is made.
    pub fn at(version: Version, cpu: PathBuf, cpuacct: Option<PathBuf>) -> Self {
        let cpuacct = cpuacct.filter(|dir| *dir != cpu);
        Self {
            version,
            cpu,
            cpuacct,
        }
    }

    /// Directory in the cpu hierarchy.
    pub fn dir(&self) -> &Path {
        &self.cpu
    }

    /// Directory in which the group's CPU time is accounted.
    pub fn accounting_dir(&self) -> &Path {
        self.cpuacct.as_deref().unwrap_or(&self.cpu)
    }

    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.cpu.as_path()).chain(self.cpuacct.as_deref())
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// Makes the directories. A directory that exists already is an error: it
    /// belongs to another program.
    pub fn make(&self) -> Result<()> {
        for dir in self.dirs() {
            fs::create_dir(dir).map_err(Error::make(dir))?;
        }
        Ok(())
    }

    /// Sets the weight, clamped to what the version takes.
    pub fn set_weight(&self, weight: Weight) -> Result<()> {
        let (file, _) = Weight::file(self.version);
        write(&self.cpu.join(file), weight.text(self.version))
    }

    /// Whether the group still has a weight that it was given; `true` if it cannot be read.
    pub fn has_weight(&self, weight: Weight) -> bool {
        let file = self.cpu.join(Weight::file(self.version).0);
        fs::read_to_string(file).map_or(true, |now| now.trim_end() == weight.text(self.version))
    }

    /// Gives the group the least weight there is and lets whatever wakes outside it preempt
    /// its tasks at once, or gives it an ordinary weight again (`cpu.idle`, Linux 5.15).
    pub fn set_idle(&self, idle: bool) -> Result<()> {
        write(&self.cpu.join("cpu.idle"), u8::from(idle))
    }

    /// Whether the group is still idle as it was made; `true` if that cannot be read.
    pub fn stays_idle(&self) -> bool {
        let now = fs::read_to_string(self.cpu.join("cpu.idle"));
        now.map_or(true, |now| now.trim_end() == "1")
    }

    pub fn weight(&self) -> Result<Weight> {
        let (file, default) = Weight::file(self.version);
        let units: f64 = read_value(&self.cpu.join(file), "a number")?;
        Ok(Weight(units / default))
    }

    /// Sets or removes the cap.
    ///
    /// Every write refills the pool and forgives debt, even one of the same
    /// value: write only on change. The burst is set to 0 first, because it
    /// may not exceed the quota at any moment.
    pub fn set_cap(&self, cap: Option<Cap>) -> Result<()> {
        let burst = self.cpu.join(match self.version {
            Version::V1 => BURST_V1,
            Version::V2 => BURST_V2,
        });
        let has_burst = burst.exists();
        if has_burst {
            write(&burst, 0)?;
        }
        match (self.version, cap) {
            (Version::V1, None) => write(&self.cpu.join(QUOTA), -1)?,
            (Version::V2, None) => write(&self.cpu.join(MAX), "max")?,
            (Version::V1, Some(cap)) => {
                // Quota and period change one after the other: without a
                // quota no pair in between can be refused.
                write(&self.cpu.join(QUOTA), -1)?;
                write(&self.cpu.join(PERIOD), cap.period_us)?;
                write(&self.cpu.join(QUOTA), cap.quota_us)?;
            }
            (Version::V2, Some(cap)) => write(
                &self.cpu.join(MAX),
                format!("{} {}", cap.quota_us, cap.period_us),
            )?,
        }
        match cap {
            Some(cap) if has_burst => write(&burst, cap.burst_us.min(cap.quota_us)),
            _ => Ok(()),
        }
    }

    /// The cap as the kernel has it now: it may double quota and period by
    /// itself when the period timer cannot keep up.
    pub fn cap(&self) -> Result<Option<Cap>> {
        let number = |name: &str| read_value::<u64>(&self.cpu.join(name), "a number");
        let (quota_us, period_us, burst) = match self.version {
            Version::V1 => {
                let quota: i64 = read_value(&self.cpu.join(QUOTA), "a number")?;
                let Ok(quota) = u64::try_from(quota) else {
                    return Ok(None);
                };
                (quota, number(PERIOD)?, BURST_V1)
            }
            Version::V2 => {
                let path = self.cpu.join(MAX);
                let text = read(&path)?;
                let bad = || Error::parse(&path, "`QUOTA PERIOD` or `max PERIOD`", &text);
                let (quota, period) = text.trim().split_once(' ').ok_or_else(bad)?;
                if quota == "max" {
                    return Ok(None);
                }
                (
                    quota.parse().map_err(|_| bad())?,
                    period.parse().map_err(|_| bad())?,
                    BURST_V2,
                )
            }
        };
        let burst_us = match number(burst) {
            Err(error) if error.is_absent() => 0,
            other => other?,
        };
        Ok(Some(Cap {
            quota_us,
            period_us,
            burst_us,
        }))
    }

    /// Times the group was throttled so far (`cpu.stat`).
    pub fn throttled(&self) -> Result<u64> {
        let path = self.cpu.join("cpu.stat");
        let text = read(&path)?;
        text.lines()
            .find_map(|line| line.strip_prefix("nr_throttled "))
            .and_then(|n| n.trim().parse().ok())
            .ok_or_else(|| Error::parse(&path, "nr_throttled", &text))
    }

    /// Moves a process, all its threads, into the group. 0 is the caller.
    ///
    /// # Errors
    /// As [`add_to`].
    pub fn add(&self, pid: u32) -> Result<()> {
        self.dirs().try_for_each(|dir| add_to(dir, pid))
    }

    /// The processes in the group, not those in groups below.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        for dir in self.dirs() {
            all.extend(processes(dir)?);
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Kills every process in the group, on v2 also those below it; see
    /// [`kill_all`].
    pub fn kill(&self) -> Result<()> {
        kill_all(&self.cpu)
    }

    /// Removes the directories. The kernel answers EBUSY for a while after
    /// the last process died, so this tries again until `patience` is over;
    /// what is gone already counts as removed.
    pub fn remove(&self, patience: Duration) -> Result<()> {
        self.dirs().try_for_each(|dir| remove_dir(dir, patience))
    }
}

/// The processes in the group at `dir`, not those in groups below, nor those
/// outside our process namespace.
pub fn processes(dir: &Path) -> Result<Vec<u32>> {
    let list = read(&dir.join(PROCS))?;
    let pids = list.lines().filter_map(|line| line.trim().parse().ok());
    Ok(pids.filter(|pid| *pid != 0).collect())
}

/// Moves a process, all its threads, into the group at `dir`. 0 is the caller.
///
/// # Errors
/// [`Error::Missing`] for a real-time process where groups have real-time budgets and a new
/// one has none (v1, `CONFIG_RT_GROUP_SCHED`); else [`Error::Write`].
pub fn add_to(dir: &Path, pid: u32) -> Result<()> {
    write(&dir.join(PROCS), pid).map_err(|error| {
        let refused = error.errno() == Some(libc::EINVAL);
        if refused && sched::attributes_of(pid).is_ok_and(Attributes::is_real_time) {
            Error::Missing {
                what: format!("the real-time budget of a new group, for process {pid},"),
                remedy: "make it an ordinary one first, as by chrt --other --pid 0 PID".into(),
            }
        } else {
            error
        }
    })
}

/// Kills every process in the group at `dir`; where the kernel does it at
/// once (v2, 5.14), those in groups below it as well. Those that are gone
/// already do not matter.
pub fn kill_all(dir: &Path) -> Result<()> {
    let at_once = dir.join("cgroup.kill");
    if at_once.exists() && write(&at_once, 1).is_ok() {
        return Ok(());
    }
    // Not all at once: descriptors are limited.
    for some in processes(dir)?.chunks(64) {
        let mut held = Vec::with_capacity(some.len());
        for pid in some {
            match PidFd::open(*pid) {
                Ok(one) => held.push(one),
                Err(error) if error.errno() == Some(libc::ENOSYS) => {
                    // SAFETY: a signal, to a process that the kernel just
                    // listed.
                    unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
                }
                Err(error) => ended(Err(error))?,
            }
        }
        // A descriptor is bound to its process: if the number is still in the
        // group, that process is to be killed.
        let now = processes(dir)?;
        for one in held.iter().filter(|one| now.contains(&one.pid())) {
            ended(one.signal(libc::SIGKILL))?;
        }
    }
    Ok(())
}

/// A process that has ended needs no signal.
fn ended(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.is_absent() => Ok(()),
        other => other,
    }
}

/// Removes one group directory; see [`Group::remove`].
pub fn remove_dir(dir: &Path, patience: Duration) -> Result<()> {
    let give_up = Instant::now() + patience;
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(cause)
                if cause.raw_os_error() != Some(libc::EBUSY) || Instant::now() >= give_up =>
            {
                return Err(Error::Remove {
                    path: dir.to_owned(),
                    cause,
                });
            }
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::{fake, text};
    use std::io::Write as _;

    fn group(version: Version, files: &[(&str, &str)]) -> (tempfile::TempDir, Group) {
        let (dir, _) = fake(files);
        let group = Group::at(version, dir.path().to_owned(), None);
        (dir, group)
    }

    #[test]
    fn a_weight_is_written_in_the_versions_own_units() {
        let (dir, v1) = group(Version::V1, &[("cpu.shares", "1024\n")]);
        v1.set_weight(Weight(3.0)).unwrap();
        assert_eq!(text(&dir, "cpu.shares"), "3072");
        v1.set_weight(Weight(1e9)).unwrap();
        assert_eq!(text(&dir, "cpu.shares"), "262144");
        let (dir, v2) = group(Version::V2, &[("cpu.weight", "100\n")]);
        v2.set_weight(Weight(3.0)).unwrap();
        assert_eq!(text(&dir, "cpu.weight"), "300");
        v2.set_weight(Weight(0.0)).unwrap();
        assert_eq!(text(&dir, "cpu.weight"), "1");
        assert_eq!(v2.weight().unwrap(), Weight(0.01));
        assert!(v2.has_weight(Weight(0.01)) && !v2.has_weight(Weight(1.0)));
        assert!(v2.stays_idle());
        fs::write(dir.path().join("cpu.idle"), "0\n").unwrap();
        assert!(!v2.stays_idle());
    }

    #[test]
    fn a_cap_reads_back() {
        let cap = Cap {
            quota_us: 10_000,
            period_us: 20_000,
            burst_us: 10_000,
        };
        let (dir, v2) = group(
            Version::V2,
            &[("cpu.max", "max 100000\n"), ("cpu.max.burst", "0\n")],
        );
        assert_eq!(v2.cap().unwrap(), None);
        v2.set_cap(Some(cap)).unwrap();
        assert_eq!(text(&dir, "cpu.max"), "10000 20000");
        assert_eq!(v2.cap().unwrap(), Some(cap));
        let files = [
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
        ];
        let (_dir, v1) = group(Version::V1, &files);
        assert_eq!(v1.cap().unwrap(), None);
        v1.set_cap(Some(cap)).unwrap();
        // A kernel without burst: the rest is kept.
        assert_eq!(v1.cap().unwrap(), Some(Cap { burst_us: 0, ..cap }));
    }

    #[test]
    fn a_missing_control_file_is_named_with_the_value() {
        let (_dir, v1) = group(Version::V1, &[]);
        let error = v1.set_weight(Weight(1.0)).unwrap_err().to_string();
        assert!(error.starts_with("write `1024` to "), "{error}");
        assert!(error.contains("cpu.shares"), "{error}");
    }

    #[test]
    fn a_group_that_exists_is_not_taken_over() {
        let (_dir, group) = group(Version::V1, &[]);
        assert!(matches!(group.make(), Err(Error::Make { .. })));
    }

    #[test]
    fn who_is_listed_is_killed_and_who_has_left_is_not() {
        use std::process::{Child, Command, Stdio};
        let sleeper = || -> Child {
            let mut sleep = Command::new("sleep");
            sleep.arg("1000").stdin(Stdio::null()).spawn().unwrap()
        };
        let (mut inside, mut outside) = (sleeper(), sleeper());
        let list = format!("{}\n0\n4194305\n", inside.id());
        let (_dir, group) = group(Version::V1, &[("cgroup.procs", &list)]);
        assert_eq!(group.processes().unwrap(), [inside.id(), 4_194_305]);
        group.kill().unwrap();
        inside.wait().unwrap();
        // The list as a FIFO: the number is there at the first look and gone
        // at the second, as when it was given to another process meanwhile.
        let (dir, second) = self::group(Version::V1, &[("empty", "")]);
        let [list, empty] = ["cgroup.procs", "empty"].map(|name| dir.path().join(name));
        nix::unistd::mkfifo(&list, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let pid = outside.id();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut first = fs::OpenOptions::new().write(true).open(&list).unwrap();
                first.write_all(format!("{pid}\n").as_bytes()).unwrap();
                // The first look ends when this thread closes the FIFO, so the second one
                // finds the empty file.
                fs::rename(&empty, &list).unwrap();
            });
            second.kill().unwrap();
        });
        let lives = outside.try_wait().unwrap().is_none();
        outside.kill().unwrap();
        outside.wait().unwrap();
        assert!(lives);
    }

    #[test]
    fn removing_what_is_gone_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        remove_dir(&dir.path().join("never"), Duration::ZERO).unwrap();
    }
}
