// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real freezer, and `sandbag restore` on what a run may leave frozen,
//! stopped or set.

use sandbag_linux::cgroup::{Freezer, Version, find_freezer};
use sandbag_linux::{Root, cgroup};

use crate::groups::OwnGroup;
use crate::prelude::*;

cases! { CASES: can_freeze;
    a_frozen_group_stands_still_and_goes_on,
    restore_thaws_continues_and_puts_back,
}

pub fn can_freeze() -> Result<(), String> {
    root()?;
    find_freezer(&Root::default()).map_err(|error| error.to_string())?;
    Ok(())
}

const PATIENCE: Duration = Duration::from_secs(5);

/// A group that can be frozen with a process in it; both gone at the end.
struct FrozenRun {
    freezer: Freezer,
    child: Child,
    _group: OwnGroup,
}

impl FrozenRun {
    /// The process runs a shell script.
    fn new(place: &MachinePlace, name: &str, script: &str) -> Result<Self> {
        let tree = find_freezer(&Root::default())?;
        let group = OwnGroup::new(tree.mount.join(name))?;
        let dir = group.dir().to_owned();
        let this = Self {
            freezer: Freezer::at(tree.version, dir.clone()),
            child: place.program("sh", ["-c", script]).spawn()?,
            _group: group,
        };
        fs::write(dir.join("cgroup.procs"), this.child.id().to_string())?;
        Ok(this)
    }

    fn pid(&self) -> Pid {
        pid_of(&self.child)
    }
}

impl Drop for FrozenRun {
    fn drop(&mut self) {
        let _ = self.freezer.thaw();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn a_frozen_group_stands_still_and_goes_on(place: &MachinePlace) -> Result<()> {
    let frozen = FrozenRun::new(place, "machine-test-spin", "while :; do :; done")?;
    let (pid, freezer) = (frozen.pid(), &frozen.freezer);
    wait_for("the first tick", || (used(pid).ok()? > 0).then_some(()))?;
    for _ in 0..20 {
        let begin = std::time::Instant::now();
        freezer.freeze(PATIENCE)?;
        let took = begin.elapsed();
        figure!(took < Duration::from_secs(1), "freezing took {took:?}");
        ensure!(freezer.is_frozen()?, "it does not say so");
        let before = used(pid)?;
        std::thread::sleep(Duration::from_millis(60));
        ensure!(used(pid)? == before, "it ran while it was frozen");
        freezer.thaw()?;
        wait_for("a tick", || (used(pid).ok()? > before).then_some(()))?;
        ensure!(!freezer.is_frozen()?, "it still says so");
    }
    // What undoing must know: v1 keeps even the dying.
    freezer.freeze(PATIENCE)?;
    kill(pid, Signal::SIGKILL)?;
    if freezer.version() == Version::V1 {
        std::thread::sleep(Duration::from_millis(100));
        ensure!(lives(pid), "v1 lets the frozen die by now: good news");
        freezer.thaw()?;
    }
    wait_until("its death", || !lives(pid))?;
    Ok(())
}

/// A file that is put back to what it was whatever happens.
struct GroupState {
    path: PathBuf,
    before: String,
}

impl GroupState {
    fn change(path: &str, value: &str) -> Result<Self> {
        let before = text_of(path)?.trim().to_owned();
        let path = PathBuf::from(path);
        fs::write(&path, value).with_context(|| path.display().to_string())?;
        Ok(Self { path, before })
    }
}

impl Drop for GroupState {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}

/// Above every number that a process can have (PID_MAX_LIMIT).
const NOBODY: u32 = 4_194_305;
/// Time slice of SCHED_RR tasks; no test uses that class.
const SYSCTL: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";

/// No method needs these yet; the journal is written as one would.
fn restore_thaws_continues_and_puts_back(place: &MachinePlace) -> Result<()> {
    let frozen = FrozenRun::new(place, &format!("sandbag-{NOBODY}-node"), "exec sleep 1000")?;
    let mut stopped = place.program("sleep", ["1000"]).spawn()?;
    let outcome = left_behind(place, &frozen, pid_of(&stopped));
    let _ = stopped.kill();
    let _ = stopped.wait();
    drop(frozen);
    let _ = fs::remove_file(format!("/run/sandbag/{NOBODY}.journal"));
    outcome?;
    Ok(())
}

fn left_behind(place: &MachinePlace, frozen: &FrozenRun, stopped: Pid) -> Result<()> {
    let freezer = &frozen.freezer;
    freezer.freeze(PATIENCE)?;
    kill(stopped, Signal::SIGSTOP)?;
    wait_until("the stop", || state_of(stopped) == Some('T'))?;
    let sysctl = GroupState::change(SYSCTL, "90")?;
    let start_ticks = process(stopped).stat()?.times.start_ticks;
    let mut lines = vec![
        format!(
            r#"{{"entry":"run","pid":{NOBODY},"cpus":"","method":"none","load":"","command":[],"started_s":0,"board_fd":-1,"kill":false}}"#
        ),
        format!(
            r#"{{"entry":"group","dirs":["{}"],"back":null}}"#,
            freezer.dir().display()
        ),
        format!(
            r#"{{"entry":"frozen","dir":"{}"}}"#,
            freezer.dir().display()
        ),
        format!(
            r#"{{"entry":"stopped","processes":[{{"pid":{stopped},"start_ticks":{start_ticks}}}]}}"#
        ),
        format!(
            r#"{{"entry":"setting","of":"sysctl","path":"{SYSCTL}","old":"{}"}}"#,
            sysctl.before
        ),
    ];
    let budget = budget()?;
    match &budget {
        None => case::note("no real-time budgets here (CONFIG_RT_GROUP_SCHED, v1)"),
        Some((_group, path)) => {
            fs::write(path, "1000").with_context(|| path.clone())?;
            lines.push(format!(
                r#"{{"entry":"setting","of":"rt-runtime","path":"{path}","old":"0"}}"#
            ));
        }
    }
    fs::create_dir_all("/run/sandbag")?;
    fs::write(
        format!("/run/sandbag/{NOBODY}.journal"),
        lines.join("\n") + "\n",
    )?;
    place.answers("restore", 0, &["undid what process"])?;
    wait_until("SIGCONT", || state_of(stopped) == Some('S'))?;
    ensure!(text_of(SYSCTL)?.trim() == sysctl.before, "the sysctl stays");
    // Frozen when it was killed: it died when it was thawed, and only then
    // could its group go.
    ensure!(!freezer.dir().exists(), "the frozen group stays");
    ensure!(!lives(frozen.pid()), "the frozen process lives on");
    if let Some((_group, path)) = &budget {
        ensure!(text_of(path)?.trim() == "0", "the budget stays");
    }
    Ok(())
}

/// A group of ours with a real-time budget, where there are such.
fn budget() -> Result<Option<(OwnGroup, String)>> {
    let group = OwnGroup::new(cgroup::find(&Root::default())?.cpu.join("machine-test-rt"))?;
    let path = group.dir().join("cpu.rt_runtime_us");
    Ok(path.exists().then(|| {
        let path = path.display().to_string();
        (group, path)
    }))
}
