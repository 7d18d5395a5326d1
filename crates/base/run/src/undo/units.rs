// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Emptying and stopping units. Processes of a unit are moved by PID 1
//! only: it takes them into a new scope, which ends with the last of
//! them.

use std::path::Path;
use std::time::{Duration, Instant};

use sandbag_linux::cgroup::kill_all;
use sandbag_linux::cpulist::BadCpuList;
use sandbag_linux::{CpuList, root};

use crate::layout::PREFIX;
use crate::members;
use crate::run_process::RunId;
use crate::systemd;

/// How long PID 1 may take to move processes that go on forking.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long processes are put back into the group that they came from.
const HOME_PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks whether they have moved.
const POLL: Duration = Duration::from_millis(5);

/// Who starts and stops units.
pub trait Manager {
    /// Starts a scope in a slice and moves processes into it; may return
    /// before they are there.
    fn start_scope(&mut self, name: &str, slice: &str, pids: &[u32]) -> Result<(), String>;
    /// Stops a unit with all that runs in it; one that is gone is stopped.
    fn stop(&mut self, name: &str) -> Result<(), String>;
    /// Kills all that runs in a unit; one that is gone has nothing.
    fn kill(&mut self, name: &str) -> Result<(), String>;
    /// Confines a unit; an empty list frees it.
    fn confine(&mut self, unit: &str, cpus: &CpuList) -> Result<(), String>;
    /// Removes what PID 1 keeps of that.
    fn forget(&mut self, unit: &str) -> Result<(), String>;
}

pub struct Systemd;

impl Manager for Systemd {
    fn start_scope(&mut self, name: &str, slice: &str, pids: &[u32]) -> Result<(), String> {
        systemd::start_scope(name, slice, pids)
    }

    fn stop(&mut self, name: &str) -> Result<(), String> {
        systemd::stop(name)
    }

    fn kill(&mut self, name: &str) -> Result<(), String> {
        systemd::kill(name)
    }

    fn confine(&mut self, unit: &str, cpus: &CpuList) -> Result<(), String> {
        match systemd::set_allowed_cpus(unit, cpus) {
            // It ended, and its properties with it.
            Err(why) if why.contains("not loaded") || why.contains("not found") => Ok(()),
            outcome => outcome,
        }
    }

    fn forget(&mut self, unit: &str) -> Result<(), String> {
        systemd::forget_cpus(unit)
    }
}

/// Ends what a run has asked PID 1 for.
pub struct Units<'a> {
    manager: &'a mut dyn Manager,
    /// Whose run: the scopes for those who go on are named by it.
    run: RunId,
    /// Scopes that were asked for.
    asked: usize,
    patience: Duration,
}

impl<'a> Units<'a> {
    /// Of a run.
    pub fn of_run(run: impl Into<RunId>, manager: &'a mut dyn Manager) -> Self {
        Self {
            manager,
            run: run.into(),
            asked: 0,
            patience: PATIENCE,
        }
    }

    pub fn stop(&mut self, name: &str) -> Result<(), String> {
        self.manager.stop(name)
    }

    /// Kills what is in a unit, which would have 90 s by default, and stops it.
    pub fn kill_all(&mut self, name: &str) -> Result<(), String> {
        let killed = self.manager.kill(name);
        self.manager.stop(name).and(killed)
    }

    /// Stops a slice whose group is at `dir`. What is in it goes on in the
    /// slice `back`, or is killed. While something of that is left the slice
    /// stays as well: it would be ended with it.
    pub fn end_slice(&mut self, name: &str, dir: &Path, back: Option<&str>) -> Result<(), String> {
        match back {
            Some(back) => self.empty(dir, back)?,
            None => self.kill(dir)?,
        }
        self.manager.stop(name)
    }

    /// Moves what is in the group at `dir` and below back into the group that it came from;
    /// where that is gone, into a scope in the slice `back`. PID 1 moves nothing into a unit
    /// that is not delegated, so this is done by hand: it was there before.
    pub fn give_back(&mut self, dir: &Path, home: &Path, back: &str) -> Result<(), String> {
        let give_up = Instant::now() + self.patience.min(HOME_PATIENCE);
        while home.is_dir() && Instant::now() < give_up {
            let pids = members::members_below(dir);
            if pids.is_empty() {
                return Ok(());
            }
            for pid in pids {
                // It may have ended meanwhile; the next round tells.
                let _ = root::write(&home.join("cgroup.procs"), pid);
            }
            std::thread::sleep(POLL);
        }
        self.empty(dir, back)
    }

    /// Lets a unit use the CPUs again that it could use before.
    pub fn free(&mut self, unit: &str, before: &str, had_file: bool) -> Result<(), String> {
        let cpus = before.parse().map_err(|bad: BadCpuList| bad.to_string())?;
        self.manager.confine(unit, &cpus)?;
        if had_file {
            Ok(())
        } else {
            self.manager.forget(unit)
        }
    }

    /// Moves what is in the group at `dir` and below into scopes in the slice
    /// `back`: one, unless it forks meanwhile.
    pub fn empty(&mut self, dir: &Path, back: &str) -> Result<(), String> {
        let give_up = Instant::now() + self.patience;
        let mut refused = String::new();
        let mut seen = Vec::new();
        loop {
            let now = members::members_below(dir);
            if now.is_empty() {
                return Ok(());
            }
            if Instant::now() > give_up {
                return Err(format!(
                    "{}: processes do not leave{refused}",
                    dir.display()
                ));
            }
            // One that ended since it was listed spoils the call for all. So
            // those that have been here for a while are moved first; what they
            // start afterwards is not here any more.
            let old: Vec<u32> = now.iter().copied().filter(|p| seen.contains(p)).collect();
            let chosen = if old.is_empty() { &now } else { &old };
            // A name may be taken by processes moved before we were killed.
            let scope = format!("{PREFIX}{}left{}.scope", self.run, self.asked);
            self.asked += 1;
            match self.manager.start_scope(&scope, back, chosen) {
                Ok(()) => wait_until_gone(dir, chosen, give_up),
                Err(why) => {
                    refused = format!(" ({why})");
                    std::thread::sleep(POLL);
                }
            }
            seen = now;
        }
    }

    /// Stopping a unit begins with a SIGTERM and waits for its effect; this
    /// does not.
    fn kill(&self, dir: &Path) -> Result<(), String> {
        let give_up = Instant::now() + self.patience;
        while !members::members_below(dir).is_empty() {
            if Instant::now() > give_up {
                return Err(format!("{}: processes do not die", dir.display()));
            }
            kill_below(dir)?;
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Groups below too, for kernels that do not kill those with it.
fn kill_below(dir: &Path) -> Result<(), String> {
    match kill_all(dir) {
        Err(error) if !error.is_absent() => return Err(error.to_string()),
        _ => {}
    }
    for below in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if below.file_type().is_ok_and(|kind| kind.is_dir()) {
            kill_below(&below.path())?;
        }
    }
    Ok(())
}

fn wait_until_gone(dir: &Path, pids: &[u32], give_up: Instant) {
    while Instant::now() < give_up
        && members::members_below(dir)
            .iter()
            .any(|pid| pids.contains(pid))
    {
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A PID 1 that moves processes between the lists of fake groups.
    #[derive(Default)]
    pub struct FakeUnits {
        /// The scope's list, to be emptied.
        pub list: PathBuf,
        /// Refusals before it obeys.
        pub refuses: usize,
        /// Who appears in the list while it moves the others.
        pub forked: Option<u32>,
        pub started: Vec<(String, String, Vec<u32>)>,
        pub stopped: Vec<String>,
        pub killed: Vec<String>,
    }

    impl Manager for FakeUnits {
        fn start_scope(&mut self, name: &str, slice: &str, pids: &[u32]) -> Result<(), String> {
            if self.refuses > 0 {
                self.refuses -= 1;
                return Err("No such process".into());
            }
            self.started
                .push((name.into(), slice.into(), pids.to_vec()));
            let text = fs::read_to_string(&self.list).unwrap();
            let stay = text
                .lines()
                .filter(|line| !pids.contains(&line.parse().unwrap()));
            let mut stay: Vec<String> = stay.map(str::to_owned).collect();
            stay.extend(self.forked.take().map(|pid| pid.to_string()));
            fs::write(&self.list, stay.join("\n")).unwrap();
            Ok(())
        }

        fn stop(&mut self, name: &str) -> Result<(), String> {
            self.stopped.push(name.into());
            Ok(())
        }

        fn kill(&mut self, name: &str) -> Result<(), String> {
            self.killed.push(name.into());
            Ok(())
        }

        fn confine(&mut self, unit: &str, cpus: &CpuList) -> Result<(), String> {
            self.started
                .push((unit.into(), cpus.to_string(), Vec::new()));
            Ok(())
        }

        fn forget(&mut self, unit: &str) -> Result<(), String> {
            self.stopped.push(unit.into());
            Ok(())
        }
    }

    /// A slice with a scope in it that has these processes.
    fn fake(processes: &str) -> (tempfile::TempDir, FakeUnits) {
        let dir = tempfile::tempdir().unwrap();
        let scope = dir.path().join("sandbag7node0.scope");
        fs::create_dir(&scope).unwrap();
        let list = scope.join("cgroup.procs");
        fs::write(&list, processes).unwrap();
        let fake = FakeUnits {
            list,
            ..FakeUnits::default()
        };
        (dir, fake)
    }

    #[test]
    fn everyone_leaves_together_and_then_the_slice_ends() {
        let (dir, mut fake) = fake("11\n12\n");
        let mut units = Units::of_run(7, &mut fake);
        let end = |units: &mut Units<'_>| {
            units.end_slice("sandbag7node.slice", dir.path(), Some("user-1000.slice"))
        };
        end(&mut units).unwrap();
        // Once more does no harm.
        end(&mut units).unwrap();
        let name = "sandbag7left0.scope".to_owned();
        let left = (name, "user-1000.slice".to_owned(), vec![11, 12]);
        assert_eq!(fake.started, [left]);
        assert_eq!(fake.stopped, ["sandbag7node.slice"; 2]);
    }

    #[test]
    fn who_ran_before_goes_on_in_its_slice_if_its_group_is_gone() {
        let (dir, mut fake) = fake("11\n12\n");
        let mut units = Units::of_run(7, &mut fake);
        let gone = dir.path().join("gone.service");
        units.give_back(dir.path(), &gone, "system.slice").unwrap();
        let left = (
            "sandbag7left0.scope".into(),
            "system.slice".into(),
            vec![11, 12],
        );
        assert_eq!(fake.started, [left]);
    }

    #[test]
    fn a_unit_may_use_again_what_it_could_before() {
        let (_dir, mut fake) = fake("");
        let mut units = Units::of_run(7, &mut fake);
        units.free("nginx.service", "0-1", true).unwrap();
        units.free("nginx.service", "", false).unwrap();
        units.free("nginx.service", "x", false).unwrap_err();
        let cpus: Vec<&str> = fake
            .started
            .iter()
            .map(|(_, cpus, _)| cpus.as_str())
            .collect();
        assert_eq!(cpus, ["0,1", ""]);
        assert_eq!(fake.stopped, ["nginx.service"]);
    }

    #[test]
    fn who_was_forked_meanwhile_follows() {
        let (dir, mut fake) = fake("11\n");
        fake.forked = Some(13);
        Units::of_run(7, &mut fake)
            .empty(dir.path(), "system.slice")
            .unwrap();
        let moved: Vec<_> = fake.started.iter().map(|s| s.2.clone()).collect();
        assert_eq!(moved, [vec![11], vec![13]]);
        assert_eq!(fake.started[1].0, "sandbag7left1.scope");
    }

    #[test]
    fn a_refused_name_is_not_tried_twice() {
        let (dir, mut fake) = fake("11\n");
        fake.refuses = 2;
        Units::of_run(7, &mut fake)
            .empty(dir.path(), "system.slice")
            .unwrap();
        assert_eq!(fake.started[0].0, "sandbag7left2.scope");
    }

    #[test]
    fn a_slice_that_cannot_be_emptied_is_not_stopped() {
        let (dir, mut fake) = fake("11\n");
        fake.refuses = usize::MAX;
        let mut units = Units::of_run(7, &mut fake);
        units.patience = Duration::from_millis(20);
        let error = units
            .end_slice("sandbag7node.slice", dir.path(), Some("system.slice"))
            .unwrap_err();
        assert!(error.contains("do not leave (No such process)"), "{error}");
        assert!(fake.stopped.is_empty());
    }

    #[test]
    fn who_is_to_be_killed_is_killed_before_the_slice_ends() {
        let mut child = crate::testing::sleeper();
        let (dir, mut fake) = fake(&child.id().to_string());
        let list = fake.list.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                child.wait().unwrap();
                fs::write(list, "").unwrap();
            });
            Units::of_run(7, &mut fake)
                .end_slice("sandbag7node.slice", dir.path(), None)
                .unwrap();
        });
        assert!(fake.started.is_empty());
        assert_eq!(fake.stopped, ["sandbag7node.slice"]);
    }
}
