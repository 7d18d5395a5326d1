// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves the cpu controllers of a machine from cgroup v1 to v2 and back.
//!
//! A machine that mounts v1 `cpu`, `cpuset` and `cpuacct` beside a v2 tree gives these
//! controllers to the v2 tree a moment after the v1 hierarchies are unmounted, and takes
//! them back when they are mounted again. This changes the whole machine, so it needs
//! `SANDBAG_DISPOSABLE=1` and hierarchies without groups, which would keep the controllers.
//! A helper process mounts everything again when its pipe to the benchmark closes; if it is
//! killed too, the next start and `sandbag-lab clean` do so from [`JOURNAL`].
//!
//! The way back first disables the controllers in every group of the v2 tree: the kernel
//! answers EBUSY to a v1 mount while a v2 group has them, and for a moment afterwards.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{SigHandler, Signal, signal};
use sandbag_linux::Root;
use sandbag_linux::child::ChildSetup as _;
use sandbag_linux::mountinfo::{self, Mount};
use sandbag_linux::signals::ENDING;
use serde::{Deserialize, Serialize};

/// What was mounted before the switch; exists exactly while it is not undone.
pub const JOURNAL: &str = "/run/sandbag-lab/mounts.json";
/// Controllers that move.
const MOVED: [&str; 3] = ["cpu", "cpuset", "cpuacct"];
/// Of these, the ones that v2 knows by name (cpuacct is part of it always).
const ENABLED: [&str; 2] = ["cpu", "cpuset"];
/// How long the kernel may take to hand the controllers over.
const HAND_OVER: Duration = Duration::from_secs(10);
/// How long a hierarchy may be busy because a process reads a file of it.
const BUSY: Duration = Duration::from_secs(2);
/// How long the way back may take; sandbag's own guardian needs up to 2 s to
/// take down a run that was killed.
const WAY_BACK: Duration = Duration::from_secs(60);

/// The v1 mounts to take away and to put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountBackup {
    mounts: Vec<Mount>,
    v2: PathBuf,
}

impl MountBackup {
    /// The plan for a machine with these mounts.
    fn plan(mounts: &[Mount]) -> Result<Self> {
        let v2 = mounts
            .iter()
            .find(|m| m.kind == "cgroup2")
            .context("no cgroup2 tree is mounted: mount one to measure v2")?
            .point
            .clone();
        let moved: Vec<Mount> = mounts
            .iter()
            .filter(|m| m.kind == "cgroup" && MOVED.iter().any(|c| m.has(c)))
            .cloned()
            .collect();
        ensure!(
            !moved.is_empty(),
            "cpu is not mounted as cgroup v1: this machine is on v2 already"
        );
        for m in &moved {
            let (_, data) = split_options(m);
            ensure!(
                data.split(',').all(|o| MOVED.contains(&o)),
                "{} is mounted with `{data}`, of which only {} may be moved",
                m.point.display(),
                MOVED.join(", ")
            );
        }
        Ok(Self { mounts: moved, v2 })
    }

    /// The saved mounts that are not among `now`.
    fn missing<'a>(&'a self, now: &[Mount]) -> Vec<&'a Mount> {
        self.mounts.iter().filter(|m| !now.contains(m)).collect()
    }
}

fn split_options(mount: &Mount) -> (MsFlags, String) {
    let mut flags = MsFlags::empty();
    let mut data = Vec::new();
    let options = mount.options.iter().map(String::as_str);
    for option in mount.flags.split(',').chain(options) {
        match option {
            "rw" => {}
            "ro" => flags |= MsFlags::MS_RDONLY,
            "nosuid" => flags |= MsFlags::MS_NOSUID,
            "nodev" => flags |= MsFlags::MS_NODEV,
            "noexec" => flags |= MsFlags::MS_NOEXEC,
            "noatime" => flags |= MsFlags::MS_NOATIME,
            "nodiratime" => flags |= MsFlags::MS_NODIRATIME,
            "relatime" => flags |= MsFlags::MS_RELATIME,
            own => data.push(own),
        }
    }
    (flags, data.join(","))
}

/// Refuses hierarchies that have groups: unmounted, they would live on and
/// keep their controllers.
fn refuse_groups(saved: &MountBackup) -> Result<()> {
    for m in &saved.mounts {
        let groups = children(&m.point);
        if let Some(group) = groups.first() {
            bail!(
                "{} exists: the controllers can only be moved while the v1 hierarchies have no groups",
                group.display()
            );
        }
    }
    Ok(())
}

/// Directories directly below `path`, sorted; none where it cannot be read.
fn children(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
        .map(|e| e.path())
        .collect();
    found.sort();
    found
}

/// Disables the moved controllers in `group` and below, deepest first.
fn disable_below(group: &Path) -> Result<()> {
    for child in children(group) {
        disable_below(&child)?;
    }
    let control = group.join("cgroup.subtree_control");
    let enabled =
        fs::read_to_string(&control).with_context(|| format!("read {}", control.display()))?;
    for controller in ENABLED {
        if enabled.split_whitespace().any(|c| c == controller) {
            sandbag_linux::root::write(&control, format!("-{controller}"))?;
        }
    }
    Ok(())
}

/// The machine is on v2 while this lives.
#[derive(Debug)]
pub struct OnV2 {
    helper: Child,
    pipe: Option<ChildStdin>,
}

impl OnV2 {
    pub fn switch(program: &Path) -> Result<Self> {
        ensure!(
            std::env::var_os("SANDBAG_DISPOSABLE").is_some_and(|v| v == "1"),
            "measuring v2 moves the machine's cgroup controllers: set SANDBAG_DISPOSABLE=1 if it may be spoilt"
        );
        ensure!(
            nix::unistd::geteuid().is_root(),
            "moving cgroup controllers needs root"
        );
        let root = Root::default();
        let saved = MountBackup::plan(&mountinfo::read(&root)?)?;
        refuse_groups(&saved)?;
        write_journal(&saved)?;
        let this = match Self::start_helper(program) {
            Ok(this) => this,
            Err(e) => {
                // Nothing was moved yet: this only removes the journal.
                restore()?;
                return Err(e);
            }
        };
        // From here on, dropping `this` undoes everything.
        for m in &saved.mounts {
            unmount(&m.point)?;
        }
        wait_for_controllers(&saved.v2.join("cgroup.controllers"))?;
        let control = saved.v2.join("cgroup.subtree_control");
        for controller in ENABLED {
            sandbag_linux::root::write(&control, format!("+{controller}"))?;
        }
        Ok(this)
    }

    fn start_helper(program: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .arg("hierarchy-guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut helper = command.own_session().spawn().context("start the helper")?;
        let pipe = helper.stdin.take();
        let mut line = String::new();
        if let Some(output) = helper.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        ensure!(line == "ready\n", "the helper did not start");
        Ok(Self { helper, pipe })
    }

    /// Puts everything back and says whether that succeeded.
    pub fn back(mut self) -> Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> Result<()> {
        if self.pipe.take().is_none() {
            return Ok(());
        }
        let status = self.helper.wait().context("wait for the helper")?;
        ensure!(
            status.success(),
            "the cgroup mounts were not restored: run `sandbag-lab clean`"
        );
        Ok(())
    }
}

impl Drop for OnV2 {
    fn drop(&mut self) {
        if let Err(e) = self.undo() {
            eprintln!("sandbag-lab: {e:#}");
        }
    }
}

/// `sandbag-lab hierarchy-guard`: waits for the end of the pipe, then puts
/// the mounts back.
pub fn guard() -> Result<()> {
    for s in ENDING.into_iter().chain([Signal::SIGPIPE]) {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { signal(s, SigHandler::SigIgn) }.context("ignore signals")?;
    }
    println!("ready");
    let mut nothing = Vec::new();
    // An error on the pipe is an end of it, too.
    let _ = std::io::stdin().read_to_end(&mut nothing);
    restore().map(drop)
}

/// Puts the mounts back if the journal says that they were moved; true if
/// there was something to do.
pub fn restore() -> Result<bool> {
    let Some(text) = crate::journal::text(Path::new(JOURNAL))? else {
        return Ok(false);
    };
    let saved: MountBackup =
        serde_json::from_str(&text).with_context(|| format!("parse {JOURNAL}"))?;
    let root = Root::default();
    retry(WAY_BACK, || restore_once(&root, &saved).map(|()| true))?;
    fs::remove_file(JOURNAL).with_context(|| format!("remove {JOURNAL}"))?;
    Ok(true)
}

fn restore_once(root: &Root, saved: &MountBackup) -> Result<()> {
    if saved.missing(&mountinfo::read(root)?).is_empty() {
        return Ok(());
    }
    disable_below(&saved.v2)?;
    for m in saved.missing(&mountinfo::read(root)?) {
        let (flags, data) = split_options(m);
        mount(
            Some(m.source.as_str()),
            &m.point,
            Some(m.kind.as_str()),
            flags,
            Some(data.as_str()),
        )
        .with_context(|| format!("mount {data} at {}", m.point.display()))?;
    }
    let now = mountinfo::read(root)?;
    if let Some(m) = saved.missing(&now).first() {
        bail!(
            "{} is not mounted with `{}` again",
            m.point.display(),
            m.options.join(",")
        );
    }
    Ok(())
}

fn write_journal(saved: &MountBackup) -> Result<()> {
    let path = Path::new(JOURNAL);
    ensure!(
        !path.exists(),
        "{JOURNAL} exists: another run is on v2, or one was killed; see `sandbag-lab clean`"
    );
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    }
    crate::journal::put(path, serde_json::to_string_pretty(saved)?.as_bytes())
}

/// Tries something every 100 ms until it is done or fails at the end of `time`; whether it
/// was done.
fn retry(time: Duration, mut attempt: impl FnMut() -> Result<bool>) -> Result<bool> {
    let give_up = Instant::now() + time;
    loop {
        match attempt() {
            Ok(false) | Err(_) if Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(100));
            }
            outcome => return outcome,
        }
    }
}

/// Unmounts, with retries: a process that reads a file there makes it busy for a moment.
fn unmount(target: &Path) -> Result<()> {
    let unmounted = retry(BUSY, || match umount2(target, MntFlags::empty()) {
        Err(nix::errno::Errno::EBUSY) => Ok(false),
        outcome => Ok(outcome.map(|()| true)?),
    });
    let unmounted = unmounted.with_context(|| format!("unmount {}", target.display()))?;
    ensure!(
        unmounted,
        "unmount {0}: EBUSY for {BUSY:?}: some process holds a file or directory in it \
         (`fuser -vm {0}` names those that can be looked at; PID 1 of some virtual \
         machines cannot); v2 can be measured after a boot with \
         cgroup_no_v1=cpu,cpuset,cpuacct, or in a guest (`make guest`)",
        target.display()
    );
    Ok(())
}

fn wait_for_controllers(file: &Path) -> Result<()> {
    let there = retry(HAND_OVER, || {
        let there = sandbag_linux::root::read(file)?;
        let is_there = |name: &&str| there.split_whitespace().any(|one| one == *name);
        Ok(ENABLED.iter().all(is_there))
    })?;
    ensure!(
        there,
        "{} still lacks cpu and cpuset after {HAND_OVER:?}: a process holds the v1 \
         hierarchies (another mount namespace, an open file below a detached mount); \
         after a reboot it may work, or measure v2 in a guest",
        file.display()
    );
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A machine with both versions, controllers mounted apart.
    pub const HYBRID: &str = "\
24 23 0:4 / /proc rw,relatime - proc proc rw
31 23 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:27 / /sys/fs/cgroup/cpu rw,nosuid,relatime - cgroup cgroup rw,cpu
33 31 0:28 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
34 31 0:29 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    fn mounts(text: &str) -> Vec<Mount> {
        mountinfo::parse_all(&Root::default(), text)
    }

    #[test]
    fn the_plan_takes_the_cpu_controllers_and_nothing_else() {
        let saved = MountBackup::plan(&mounts(HYBRID)).unwrap();
        let points: Vec<_> = saved.mounts.iter().map(|m| m.point.clone()).collect();
        assert_eq!(
            points,
            ["cpu", "cpuacct", "cpuset"].map(|c| Path::new("/sys/fs/cgroup").join(c))
        );
        assert_eq!(saved.v2, Path::new("/sys/fs/cgroup/unified"));
        let text = serde_json::to_string(&saved).unwrap();
        assert_eq!(serde_json::from_str::<MountBackup>(&text).unwrap(), saved);
    }

    #[test]
    fn what_cannot_be_moved_is_an_error() {
        let with_memory = HYBRID.replace("rw,cpuacct", "rw,cpuacct,memory");
        let only_v1: String = HYBRID.lines().take(6).map(|l| format!("{l}\n")).collect();
        let only_v2 = "36 31 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        for (text, expected) in [
            (with_memory.as_str(), "cpuacct,memory"),
            (&only_v1, "no cgroup2 tree"),
            (only_v2, "v2 already"),
        ] {
            let e = MountBackup::plan(&mounts(text)).unwrap_err();
            assert!(e.to_string().contains(expected), "{e}");
        }
    }

    #[test]
    fn what_is_missing_is_found_by_place_and_options() {
        let before = mounts(HYBRID);
        let saved = MountBackup::plan(&before).unwrap();
        assert!(saved.missing(&before).is_empty());
        let mut now = before;
        now.retain(|m| !m.has("cpuset"));
        now.reverse();
        let missing = saved.missing(&now);
        assert_eq!(missing.len(), 1);
        assert!(missing[0].has("cpuset"));
    }

    #[test]
    fn options_become_flags_and_data() {
        let line = "32 31 0:27 / /x rw,nosuid,nodev,noexec,relatime - cgroup c rw,cpu,cpuacct";
        let (flags, data) = split_options(&mounts(line)[0]);
        assert_eq!(data, "cpu,cpuacct");
        assert_eq!(
            flags,
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RELATIME
        );
    }

    #[test]
    fn hierarchies_with_groups_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let saved = MountBackup::plan(&mountinfo::parse_all(&root, HYBRID)).unwrap();
        refuse_groups(&saved).unwrap();
        fs::create_dir_all(root.path("/sys/fs/cgroup/cpuset/docker")).unwrap();
        let e = refuse_groups(&saved).unwrap_err();
        assert!(e.to_string().contains("cpuset/docker"), "{e}");
    }

    #[test]
    fn controllers_are_disabled_where_they_are_enabled() {
        let dir = tempfile::tempdir().unwrap();
        let (deep, plain) = (dir.path().join("a/b"), dir.path().join("c"));
        for group in [&deep, &plain] {
            fs::create_dir_all(group).unwrap();
        }
        let control = |group: &Path| group.join("cgroup.subtree_control");
        fs::write(control(dir.path()), "cpuset cpu\n").unwrap();
        fs::write(control(&dir.path().join("a")), "cpu\n").unwrap();
        fs::write(control(&deep), "\n").unwrap();
        fs::write(control(&plain), "pids\n").unwrap();
        disable_below(dir.path()).unwrap();
        let read = |group: &Path| fs::read_to_string(control(group)).unwrap();
        assert_eq!(read(dir.path()), "-cpuset");
        assert_eq!(read(&dir.path().join("a")), "-cpu");
        assert_eq!(read(&plain), "pids\n");
    }
}
