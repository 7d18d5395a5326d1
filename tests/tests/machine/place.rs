// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a test works: a directory of its own, the program under test, and
//! the machine as it was before.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use sandbag_linux::{Root, process};
use sandbag_machine_tests::guest;
use sandbag_machine_tests::ours::{self, Role};
use sandbag_machine_tests::state::State;
use sandbag_run::program::on_path;
use serde_json::Value;

use crate::processes::pid_of;
use crate::run_record::RunRecord;

/// Debian's unprivileged user and group.
pub const NOBODY: u32 = 65534;
/// The program that spins and measures what it got.
pub const SPINNER: &str = env!("CARGO_BIN_EXE_spinner");
/// Nothing here takes so long unless it hangs.
const HANGS: Duration = Duration::from_secs(60);
/// Another run may be over soon.
const OTHERS: Duration = Duration::from_secs(20);
/// The promise: as found within 2 s.
pub const PROMISED: Duration = Duration::from_secs(2);
/// What is not as before then is left behind; between the two this machine
/// may just have been busy with something else.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Others were waited for in vain.
static IS_IN_USE: AtomicBool = AtomicBool::new(false);

/// Whether these tests can run at all.
pub fn root() -> Result<(), String> {
    guest::sandbag()?;
    if !geteuid().is_root() {
        return Err("not root".to_owned());
    }
    // There groups are scopes, and who survives a run stays in one (docs/explanation/groups.md).
    let systemd = Path::new("/run/systemd/system").is_dir();
    if systemd && Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return Err(
            "cgroup v2 under systemd, where survivors stay in scopes: see docs/testing.md"
                .to_owned(),
        );
    }
    let begin = Instant::now();
    loop {
        let entries = fs::read_dir("/run/sandbag").into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name());
        // The nodes' directory stays.
        match names.find(|name| name.to_string_lossy().ends_with(".journal")) {
            None => return Ok(()),
            // Nothing that this machine cannot do: no reason to skip the tests.
            Some(name) if begin.elapsed() > OTHERS || IS_IN_USE.load(Ordering::Relaxed) => {
                IS_IN_USE.store(true, Ordering::Relaxed);
                panic!(
                    "/run/sandbag/{} is there: another sandbag runs, or was killed",
                    name.display()
                );
            }
            Some(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// For tests that change more than sandbag itself would.
pub fn disposable() -> Result<(), String> {
    match std::env::var_os("SANDBAG_DISPOSABLE") {
        Some(value) if value == "1" => root(),
        _ => Err("SANDBAG_DISPOSABLE=1 is not set".to_owned()),
    }
}

/// The program of the experiments and benchmarks: `SANDBAG_LAB_BIN`.
pub fn lab_program() -> Result<PathBuf, String> {
    let Some(path) = std::env::var_os("SANDBAG_LAB_BIN") else {
        return Err("SANDBAG_LAB_BIN is not set".to_owned());
    };
    let path = PathBuf::from(path);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("no sandbag-lab at {}", path.display()))
    }
}

/// For figures beside those that `make test` has of the same subject.
pub fn repeated() -> Result<(), String> {
    root()?;
    sandbag_machine_tests::case::only_in_all()
}

/// Like [`root`], with the program of the experiments.
pub fn lab() -> Result<(), String> {
    lab_program()?;
    root()
}

/// Whether these programs are there.
pub fn have(programs: &[&str]) -> Result<(), String> {
    match programs.iter().find(|name| on_path(name).is_none()) {
        Some(missing) => Err(format!("no {missing}")),
        None => Ok(()),
    }
}

/// Like [`root`], with a second CPU.
pub fn two_cpus() -> Result<(), String> {
    match std::thread::available_parallelism() {
        Ok(count) if count.get() >= 2 => root(),
        _ => Err("fewer than 2 CPUs".to_owned()),
    }
}

/// The directory of our copy of the program. A copy, so that its processes can
/// be distinguished from those of other runs; executable by every user.
static COPY: Mutex<Option<tempfile::TempDir>> = Mutex::new(None);

fn copy() -> anyhow::Result<PathBuf> {
    let mut copy = COPY.lock().unwrap_or_else(|poison| poison.into_inner());
    if let Some(dir) = &*copy {
        return Ok(dir.path().join("sandbag"));
    }
    let dir = tempfile::tempdir()?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
    let program = dir.path().join("sandbag");
    fs::copy(guest::sandbag().map_err(anyhow::Error::msg)?, &program)?;
    *copy = Some(dir);
    Ok(program)
}

/// Removes the copy; a static is never dropped.
pub fn remove_copy() {
    COPY.lock()
        .unwrap_or_else(|poison| poison.into_inner())
        .take();
}

/// Where a test works.
pub struct MachinePlace {
    pub sandbag: PathBuf,
    pub before: State,
    dir: tempfile::TempDir,
}

/// A program that ended.
#[derive(Debug)]
pub struct PlaceExit {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl PlaceExit {
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Fails with everything that was said if the code is another.
    pub fn expect(self, code: i32) -> anyhow::Result<Self> {
        let (status, said) = (self.status, format!("{}{}", self.out, self.err));
        ensure!(
            self.code() == code,
            "{status} instead of {code}; it said: {said}"
        );
        Ok(self)
    }

    /// Fails unless the code is one of these.
    pub fn expect_any(self, codes: &[i32]) -> anyhow::Result<Self> {
        ensure!(codes.contains(&self.code()), "{self:?}");
        Ok(self)
    }

    /// Fails unless it ended with a verdict on the load: kept, missed or
    /// undecided.
    pub fn judged(self) -> anyhow::Result<Self> {
        self.expect_any(&[0, 3, 4])
    }

    /// Fails unless standard output has all of these texts.
    pub fn shows(self, texts: &[&str]) -> anyhow::Result<Self> {
        for text in texts {
            ensure!(self.out.contains(text), "no {text:?} in: {}", self.out);
        }
        Ok(self)
    }

    /// Standard output as JSON.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.out).with_context(|| format!("{self:?}"))
    }

    /// Fails unless standard error has all of these texts.
    pub fn says(self, texts: &[&str]) -> anyhow::Result<Self> {
        for text in texts {
            ensure!(self.err.contains(text), "no {text:?} in: {}", self.err);
        }
        Ok(self)
    }
}

/// Runs a case in a place of its own, and fails unless the machine is then as
/// it was before.
pub fn in_place(case: fn(&MachinePlace) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let place = MachinePlace::new()?;
    case(&place)?;
    place.as_before()?;
    Ok(())
}

impl MachinePlace {
    pub fn new() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        Ok(Self {
            sandbag: copy()?,
            before: State::read()?,
            dir,
        })
    }

    /// The program under test.
    pub fn program_path(&self) -> &Path {
        &self.sandbag
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A run of sandbag in our directory, silent on standard output.
    pub fn sandbag<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        self.program(&self.sandbag, arguments)
    }

    /// As started by that user through sudo.
    pub fn sudo<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.sandbag(arguments);
        command
            .env("SUDO_UID", NOBODY.to_string())
            .env("SUDO_GID", NOBODY.to_string())
            .env("SUDO_USER", "nobody");
        command
    }

    /// sandbag-lab in our directory, on our copy of sandbag.
    pub fn lab(&self, words: &str) -> anyhow::Result<Command> {
        let lab = lab_program().map_err(anyhow::Error::msg)?;
        let mut command = self.program(lab, words.split_whitespace());
        if words.starts_with("run ") {
            command.arg("--sandbag").arg(&self.sandbag);
        }
        Ok(command)
    }

    /// Any program in our directory.
    pub fn program<S: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(program);
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .current_dir(self.dir.path())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a script of bash to its end; `$S` is sandbag.
    pub fn bash(&self, script: &str) -> anyhow::Result<PlaceExit> {
        let mut bash = self.program("bash", ["-c", script]);
        finish(bash.env("S", &self.sandbag).spawn()?)
    }

    /// Runs sandbag to its end; the words are separated by blanks.
    pub fn run(&self, words: &str) -> anyhow::Result<PlaceExit> {
        finish(self.sandbag(words.split_whitespace()).spawn()?)
    }

    /// Runs sandbag with a shell script as its command.
    pub fn script(&self, options: &str, script: &str) -> anyhow::Result<PlaceExit> {
        finish(self.start_script(options, script)?)
    }

    /// Starts what [`MachinePlace::script`] runs.
    pub fn start_script(&self, options: &str, script: &str) -> anyhow::Result<Child> {
        let words = options.split_whitespace().chain(["--", "sh", "-c", script]);
        Ok(self.sandbag(words).spawn()?)
    }

    /// Starts sandbag with a shell script that writes its process id to the file
    /// `pid`, and waits for that.
    pub fn start_ready(&self, options: &str, script: &str) -> anyhow::Result<(Child, Pid)> {
        let _ = fs::remove_file(self.path("pid"));
        let run = self.start_script(options, script)?;
        Ok((run, self.pid("pid")?))
    }

    /// Runs sandbag, which must end with this code and say all of this.
    pub fn answers(&self, words: &str, code: i32, says: &[&str]) -> anyhow::Result<PlaceExit> {
        self.run(words)?.expect(code)?.says(says)
    }

    /// Fails unless a directory in ours has `count` entries.
    pub fn has_files(&self, dir: &str, count: usize) -> anyhow::Result<()> {
        let found: Vec<_> = fs::read_dir(self.path(dir))?.flatten().collect();
        ensure!(found.len() == count, "{count} files expected: {found:?}");
        Ok(())
    }

    /// Starts a run without a command.
    pub fn start(&self, words: &str) -> anyhow::Result<Child> {
        Ok(self.sandbag(words.split_whitespace()).spawn()?)
    }

    /// Starts a run without a command and waits for its burners.
    pub fn start_burning(&self, words: &str, burners: usize) -> anyhow::Result<Child> {
        let run = self.start(words)?;
        self.burners(burners)?;
        Ok(run)
    }

    /// Our processes of this kind.
    pub fn ours(&self, role: Role) -> Vec<Pid> {
        ours::of_role(&self.sandbag, role)
    }

    /// Waits for a process of a role.
    pub fn one_of(&self, role: Role) -> anyhow::Result<Pid> {
        wait_for(&format!("{role:?}"), || self.ours(role).first().copied())
    }

    /// Waits for `count` burners.
    pub fn burners(&self, count: usize) -> anyhow::Result<Vec<Pid>> {
        wait_for("burners", || {
            let found = self.ours(Role::Burner);
            (found.len() >= count).then_some(found)
        })
    }

    /// Waits until a file in our directory has contents.
    pub fn written(&self, name: &str) -> anyhow::Result<String> {
        let path = self.path(name);
        wait_for(name, || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            text.ends_with('\n').then(|| text.trim().to_owned())
        })
    }

    /// A process id that a script writes to a file in our directory.
    pub fn pid(&self, name: &str) -> anyhow::Result<Pid> {
        Ok(Pid::from_raw(self.written(name)?.parse()?))
    }

    /// A JSON file in our directory.
    pub fn json(&self, name: &str) -> anyhow::Result<Value> {
        serde_json::from_str(&text_of(self.path(name))?).with_context(|| name.to_owned())
    }

    /// Writes `made.json`: a trace with the same events on these CPUs, each with
    /// its begin and length, ns.
    pub fn trace(
        &self,
        cpus: impl IntoIterator<Item = u32>,
        events: impl IntoIterator<Item = [u64; 2]>,
    ) -> anyhow::Result<()> {
        let events: Vec<[u64; 2]> = events.into_iter().collect();
        let cpus: BTreeMap<_, _> = cpus.into_iter().map(|cpu| (cpu, &events)).collect();
        Ok(fs::write(
            self.path("made.json"),
            serde_json::to_string(&cpus)?,
        )?)
    }

    /// The record of a run started with `--out NAME`.
    pub fn record(&self, name: &str) -> anyhow::Result<RunRecord> {
        RunRecord::read(&self.path(name))
    }

    /// Fails if the machine is not as before within [`PATIENCE`]; returns how
    /// long that took.
    pub fn as_before(&self) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        loop {
            let processes = ours::find(&self.sandbag);
            let difference = of_sandbag(self.before.difference(&State::read()?), &self.sandbag);
            if processes.is_empty() && difference.is_empty() {
                return Ok(begin.elapsed());
            }
            if begin.elapsed() > PATIENCE {
                bail!("left behind: {processes:?}, {difference:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for MachinePlace {
    /// A test that failed must not make the next one fail.
    fn drop(&mut self) {
        let begin = Instant::now();
        loop {
            let ours = ours::find(&self.sandbag);
            if ours.is_empty() || begin.elapsed() > PATIENCE {
                break;
            }
            for (pid, _) in ours {
                let _ = kill(pid, Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // What they wrapped lives on.
        for pid in process::pids(&Root::default()).unwrap_or_default() {
            let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            if pid != std::process::id() && cwd.starts_with(self.dir.path()) {
                let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
            }
        }
        let _ = self.run("restore");
    }
}

/// Without the groups that others made or removed meanwhile, and their
/// settings: on a machine in use they come and go. Also without those of runs
/// of another program than ours that go on.
fn of_sandbag(difference: Vec<String>, ours: &Path) -> Vec<String> {
    let groups: Vec<String> = difference
        .iter()
        .filter_map(|line| line.get(2..)?.strip_prefix("group "))
        .filter(|path| !path.contains("sandbag"))
        .map(str::to_owned)
        .collect();
    let theirs = |line: &String| groups.iter().any(|group| line.contains(group.as_str()));
    // Podman mounts its store when it is asked for a container.
    let of_podman = |line: &String| line.contains(" /var/lib/containers/");
    difference
        .into_iter()
        .filter(|line| !theirs(line) && !of_podman(line) && !of_a_foreign_run(line, ours))
        .collect()
}

/// Whether a line is of a run by its process id, which is gone since or lives
/// and is not ours; or of a task that is gone, or real-time and not ours.
fn of_a_foreign_run(line: &str, ours: &Path) -> bool {
    let number = |before: &str| {
        let rest = line.split(before).nth(1)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()
    };
    let foreign = |pid: &str| {
        let program = fs::read_link(format!("/proc/{pid}/exe"));
        program.is_ok_and(|program| program != ours)
    };
    if let Some(pid) = number("/sandbag-").or_else(|| number("/run/sandbag/")) {
        return line.starts_with('-') || foreign(pid);
    }
    if let Some(pid) = number(" task ") {
        let gone = !Path::new("/proc").join(pid).exists();
        return gone || line.starts_with("+ real-time") && foreign(pid);
    }
    false
}

/// The end of a program, with what it said; fails if it hangs.
pub fn finish(mut child: Child) -> anyhow::Result<PlaceExit> {
    let out = child.stdout.take().map(collect);
    let err = child.stderr.take().map(collect);
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begin.elapsed() > HANGS {
            child.kill()?;
            child.wait()?;
            bail!("it hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |reader: Option<std::thread::JoinHandle<String>>| {
        reader.and_then(|r| r.join().ok()).unwrap_or_default()
    };
    Ok(PlaceExit {
        status,
        out: text(out),
        err: text(err),
    })
}

fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Sends a signal to a program and waits for its end.
pub fn end(child: Child, signal: Signal) -> anyhow::Result<PlaceExit> {
    kill(pid_of(&child), signal)?;
    finish(child)
}

/// Waits until a condition holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) -> anyhow::Result<()> {
    wait_for(what, || condition().then_some(()))
}

/// Asks until there is an answer.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if begin.elapsed() > HANGS / 3 {
            bail!("waited in vain for {what}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The text of a file of `/proc` or our own.
pub fn text_of(path: impl AsRef<Path>) -> anyhow::Result<String> {
    let path = path.as_ref();
    fs::read_to_string(path).with_context(|| path.display().to_string())
}
