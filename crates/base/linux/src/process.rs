// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `/proc/PID` says about one process or thread.
//!
//! A process that has ended is an error for which [`Error::is_absent`] holds.
//! Source: Documentation/filesystems/proc.rst and proc_pid_stat(5).

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::{Error, Result, Root};

/// One process or thread by number. Numbers are used again: compare
/// [`ProcessTimes::start_ticks`] to be sure of an old acquaintance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pid: u32,
    dir: PathBuf,
}

/// CPU time and age of a process, in ticks (see
/// [`tick_ns`](crate::procstat::tick_ns)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessTimes {
    /// User time of all threads.
    pub user_ticks: u64,
    /// System time of all threads.
    pub system_ticks: u64,
    /// User and system time of the children that it waited for, and of theirs.
    pub ended_ticks: u64,
    /// When the process began, since boot: with the pid it names a process
    /// for good.
    pub start_ticks: u64,
}

/// `/proc/PID/stat`, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat {
    /// Number of the process or thread.
    pub pid: u32,
    /// Name, at most 15 bytes.
    pub name: String,
    /// `R` running, `S` sleeping, `D` uninterruptible, `T` stopped, `t`
    /// traced, `Z` zombie, `X` dead, `I` idle kernel thread.
    pub state: char,
    pub parent: u32,
    /// CPU time and age.
    pub times: ProcessTimes,
    /// Nice value, -20 to 19.
    pub nice: i32,
    /// Number of threads.
    pub threads: u32,
    /// CPU it last ran on.
    pub cpu: u32,
    /// Real-time priority 1 to 99, else 0.
    pub rt_priority: u32,
    /// `SCHED_OTHER` 0, `FIFO` 1, `RR` 2, `BATCH` 3, `IDLE` 5, `DEADLINE` 6,
    /// `EXT` 7.
    pub policy: u32,
}

impl ProcessStat {
    /// Whether none of its threads is left. Where only the first one has ended the process
    /// has the state of a zombie, and lives.
    pub fn has_ended(&self) -> bool {
        self.state == 'X' || self.state == 'Z' && self.threads <= 1
    }
}

/// `/proc/PID/schedstat` of one thread (for a process: its first thread).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU, nanoseconds.
    pub exec_ns: u64,
    /// Time ready to run and waiting, nanoseconds.
    pub run_delay_ns: u64,
    /// Times it was given a CPU.
    pub slices: u64,
}

/// Memory of a process in KiB. The kernel adds up per-CPU counters lazily, so
/// the resident sizes may be off by some dozen pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident now (`VmRSS`); 0 for a kernel thread or a zombie.
    pub resident_kib: u64,
    /// Largest resident size so far (`VmHWM`); 0 likewise.
    pub peak_kib: u64,
}

impl Process {
    /// The process with this number; whether it exists is not asked here.
    pub fn new(root: &Root, pid: u32) -> Self {
        Self {
            pid,
            dir: root.path(format!("/proc/{pid}")),
        }
    }

    /// This process, also where `/proc` has numbers of another PID namespace.
    pub fn current(root: &Root) -> Self {
        Self {
            pid: std::process::id(),
            dir: root.path("/proc/self"),
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its thread with this number; whether it exists is not asked here.
    pub fn thread(&self, tid: u32) -> Self {
        Self {
            pid: tid,
            dir: self.dir.join(format!("task/{tid}")),
        }
    }

    /// Whether it is there and no zombie, which holds nothing any more.
    pub fn lives(&self) -> bool {
        self.stat().is_ok_and(|stat| !stat.has_ended())
    }

    /// The file of its program.
    ///
    /// # Errors
    /// [`Error::Read`] if it has ended, is a zombie or a thread of the kernel,
    /// or belongs to another user.
    pub fn program(&self) -> Result<PathBuf> {
        let path = self.dir.join("exe");
        fs::read_link(&path).map_err(|cause| Error::Read { path, cause })
    }

    /// The first word of a line of its `status`; `None` without such a line.
    pub fn status<T: FromStr>(&self, name: &str, expected: &'static str) -> Result<Option<T>> {
        let path = self.dir.join("status");
        field(&path, &read(&path)?, name, expected)
    }

    /// State, parent, times, scheduling class.
    pub fn stat(&self) -> Result<ProcessStat> {
        let path = self.dir.join("stat");
        let text = read(&path)?;
        parse_stat(&text).ok_or_else(|| Error::parse(&path, "`PID (NAME) STATE ...`", &text))
    }

    /// Run time and run delay of this thread.
    ///
    /// # Errors
    /// [`Error::Read`] if it has ended or the kernel has no
    /// `CONFIG_SCHED_INFO`, [`Error::Parse`].
    pub fn schedstat(&self) -> Result<SchedStat> {
        let path = self.dir.join("schedstat");
        let text = read(&path)?;
        let mut words = text.split_ascii_whitespace().map(u64::from_str);
        match (words.next(), words.next(), words.next()) {
            (Some(Ok(exec_ns)), Some(Ok(run_delay_ns)), Some(Ok(slices))) => Ok(SchedStat {
                exec_ns,
                run_delay_ns,
                slices,
            }),
            _ => Err(Error::parse(&path, "three numbers", &text)),
        }
    }

    /// How often the scheduler moved this thread to another CPU; `None` where
    /// the kernel does not say (`CONFIG_SCHED_DEBUG` is off).
    pub fn migrations(&self) -> Result<Option<u64>> {
        let path = self.dir.join("sched");
        let text = match read(&path) {
            Err(e) if e.is_absent() && self.dir.exists() => return Ok(None),
            other => other?,
        };
        field(&path, &text, "se.nr_migrations", "a number")
    }

    /// Memory that only this process has, KiB: what another instance of it
    /// would cost.
    ///
    /// # Errors
    /// [`Error::Read`] if it has ended or belongs to another user,
    /// [`Error::Parse`].
    pub fn private_kib(&self) -> Result<u64> {
        let path = self.dir.join("smaps_rollup");
        let text = read(&path)?;
        let mut sum = 0;
        for name in ["Private_Clean", "Private_Dirty"] {
            sum += field::<u64>(&path, &text, name, "KiB")?
                .ok_or_else(|| Error::parse(&path, "Private_Clean and Private_Dirty", &text))?;
        }
        Ok(sum)
    }

    /// Resident memory.
    pub fn memory(&self) -> Result<Memory> {
        let path = self.dir.join("status");
        let text = read(&path)?;
        Ok(Memory {
            resident_kib: field(&path, &text, "VmRSS", "KiB")?.unwrap_or(0),
            peak_kib: field(&path, &text, "VmHWM", "KiB")?.unwrap_or(0),
        })
    }

    /// Program and arguments; empty for a kernel thread or a zombie. Bytes
    /// that are not UTF-8 are replaced.
    pub fn command_line(&self) -> Result<Vec<String>> {
        let path = self.dir.join("cmdline");
        let bytes = fs::read(&path).map_err(|cause| Error::Read { path, cause })?;
        let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let words = bytes.split(|byte| *byte == 0);
        Ok(words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect())
    }

    /// Its threads.
    pub fn threads(&self) -> Result<Vec<Process>> {
        let tids = numbered_entries(&self.dir.join("task"))?;
        Ok(tids.into_iter().map(|tid| self.thread(tid)).collect())
    }

    /// Its living children and those that wait to be reaped. Exact only while
    /// they stand still (proc.rst, `/proc/PID/task/TID/children`).
    ///
    /// # Errors
    /// [`Error::Read`] if it has ended or the kernel has no
    /// `CONFIG_PROC_CHILDREN`, [`Error::Parse`].
    pub fn children(&self) -> Result<Vec<u32>> {
        let mut children = Vec::new();
        for thread in self.threads()? {
            let path = thread.dir.join("children");
            let text = match read(&path) {
                Err(e) if e.is_absent() && !thread.dir.exists() => continue,
                other => other?,
            };
            for word in text.split_ascii_whitespace() {
                let child = word.parse();
                children.push(child.map_err(|_| Error::parse(&path, "pids", &text))?);
            }
        }
        children.sort_unstable();
        Ok(children)
    }
}

/// The numbers of all processes, ascending.
pub fn pids(root: &Root) -> Result<Vec<u32>> {
    numbered_entries(&root.path("/proc"))
}

/// All processes, ascending by number; such as end meanwhile are left out, and those of
/// others where `/proc` is mounted with `hidepid`.
pub fn processes(root: &Root) -> Result<Vec<ProcessStat>> {
    stats(pids(root)?.into_iter().map(|pid| Process::new(root, pid)))
}

/// All threads of all processes: the scheduling class belongs to the thread.
pub fn threads(root: &Root) -> Result<Vec<ProcessStat>> {
    let mut all = Vec::new();
    for pid in pids(root)? {
        match Process::new(root, pid).threads() {
            Ok(threads) => all.extend(stats(threads)?),
            Err(e) if is_left_out(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(all)
}

fn stats(tasks: impl IntoIterator<Item = Process>) -> Result<Vec<ProcessStat>> {
    tasks
        .into_iter()
        .map(|task| task.stat())
        .filter(|stat| !matches!(stat, Err(e) if is_left_out(e)))
        .collect()
}

/// Whether it ended meanwhile, or is hidden from us: `hidepid=1` lists the processes of
/// others and refuses all that is in their directories (EPERM), `hidepid=2` does not list
/// them (proc.rst, section 4.1).
fn is_left_out(error: &Error) -> bool {
    error.is_absent() || matches!(error.errno(), Some(libc::EPERM | libc::EACCES))
}

/// The text of a file in which a task's name may stand: any bytes, and cut
/// within a character at the 15th.
fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(Error::read(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The entries of `dir` that are numbers, ascending.
fn numbered_entries(dir: &Path) -> Result<Vec<u32>> {
    let read_error = Error::read(dir);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(read_error)? {
        let name = entry.map_err(read_error)?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The first word after `NAME :` on a line of its own; `None` without such a
/// line.
fn field<T: FromStr>(
    path: &Path,
    text: &str,
    name: &str,
    expected: &'static str,
) -> Result<Option<T>> {
    for line in text.lines() {
        if let Some((key, value)) = line.split_once(':')
            && key.trim() == name
        {
            let word = value.split_ascii_whitespace().next().unwrap_or("");
            return match word.parse() {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(Error::parse(path, expected, line)),
            };
        }
    }
    Ok(None)
}

fn parse_stat(text: &str) -> Option<ProcessStat> {
    // The name may contain anything, brackets and blanks too: it ends at the
    // last bracket of the line.
    let (head, tail) = text.rsplit_once(')')?;
    let (pid, name) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    // `number` is the field's number in proc_pid_stat(5); the state is 3.
    fn get<T: FromStr>(fields: &[&str], number: usize) -> Option<T> {
        fields.get(number - 3)?.parse().ok()
    }
    Some(ProcessStat {
        pid: pid.trim().parse().ok()?,
        name: name.to_owned(),
        state: get(&fields, 3)?,
        parent: get(&fields, 4)?,
        times: ProcessTimes {
            user_ticks: get(&fields, 14)?,
            system_ticks: get(&fields, 15)?,
            ended_ticks: get::<u64>(&fields, 16)? + get::<u64>(&fields, 17)?,
            start_ticks: get(&fields, 22)?,
        },
        nice: get(&fields, 19)?,
        threads: get(&fields, 20)?,
        cpu: get(&fields, 39)?,
        rt_priority: get(&fields, 40)?,
        policy: get(&fields, 41)?,
    })
}

#[cfg(test)]
pub(crate) mod tests;
