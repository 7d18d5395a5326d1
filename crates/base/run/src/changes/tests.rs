// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use sandbag_linux::Root;
use sandbag_linux::cgroup::Freezer;

use crate::process_identity::ProcessIdentity;
use crate::testing;
use crate::undo::{Leftovers, undo_in_temp as undo};

/// A machine, and the directory of its journals.
struct FakeChanges {
    dir: tempfile::TempDir,
}

impl FakeChanges {
    fn new(files: &[(&str, &str)]) -> Self {
        let (dir, _) = testing::machine(files);
        Self { dir }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn text(&self, path: &str) -> String {
        testing::text(self.path(path))
    }

    fn journal(&self, pid: u32) -> Journal {
        self.journal_in("journals", pid)
    }

    fn journal_in(&self, dir: &str, pid: u32) -> Journal {
        testing::journal(&self.path(dir), testing::info(pid), &[])
    }

    fn sysctl(&self) -> Sysctl {
        Sysctl::new(&Root::at(self.dir.path()), "kernel.sched_rt_runtime_us")
    }
}

/// Undoes entries as the guardian would, from a journal of their own.
fn undo_all(entries: &[Entry]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let journal = testing::journal(dir.path(), testing::info(1), entries);
    undo(journal, Leftovers::AsNoted)
}

const RT: &str = "proc/sys/kernel/sched_rt_runtime_us";
const BUDGET: &str = "cpu/node/cpu.rt_runtime_us";
const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

#[test]
fn a_sysctl_is_noted_before_it_is_set_and_put_back() {
    let fake = FakeChanges::new(&[(RT, "950000\n")]);
    let mut journal = fake.journal(1);
    set_sysctl(&mut journal, &fake.sysctl(), -1).unwrap();
    assert_eq!(fake.text(RT), "-1");
    let entries = journal.entries().unwrap();
    let noted = Setting {
        of: SettingOf::Sysctl,
        path: fake.path(RT),
        old: "950000".into(),
    };
    assert_eq!(entries[1], Entry::Setting(noted));
    for _ in 0..2 {
        assert_eq!(undo_all(&entries), Vec::<String>::new());
        assert_eq!(fake.text(RT), "950000");
    }
}

#[test]
fn what_was_announced_but_not_written_is_left_as_it_is() {
    let fake = FakeChanges::new(&[(RT, "950000\n")]);
    let mut journal = fake.journal(1);
    note(&mut journal, SettingOf::Sysctl, &fake.path(RT), None).unwrap();
    assert_eq!(undo_all(&journal.entries().unwrap()), Vec::<String>::new());
    // Not even written: the newline is still there.
    assert_eq!(fake.text(RT), "950000\n");
}

#[test]
fn a_setting_that_is_not_there_is_an_error_and_not_noted() {
    let fake = FakeChanges::new(&[]);
    let mut journal = fake.journal(1);
    assert!(set_sysctl(&mut journal, &fake.sysctl(), -1).is_err());
    assert_eq!(journal.entries().unwrap().len(), 1);
}

#[test]
fn the_budget_of_a_group_that_is_gone_needs_no_undoing() {
    let fake = FakeChanges::new(&[(BUDGET, "0\n")]);
    let mut journal = fake.journal(1);
    note(&mut journal, SettingOf::RtRuntime, &fake.path(BUDGET), None).unwrap();
    fs::write(fake.path(BUDGET), "900000").unwrap();
    let entries = journal.entries().unwrap();
    assert_eq!(undo_all(&entries), Vec::<String>::new());
    assert_eq!(fake.text(BUDGET), "0");
    fs::remove_dir_all(fake.path("cpu/node")).unwrap();
    assert_eq!(undo_all(&entries), Vec::<String>::new());
}

#[test]
fn alternating_frequencies_are_noted_once() {
    let governor = format!("{POLICY}/scaling_governor");
    let speed = format!("{POLICY}/scaling_setspeed");
    let fake = FakeChanges::new(&[(&governor, "schedutil\n"), (&speed, "<unsupported>\n")]);
    let mut journal = fake.journal(1);
    // Without the governor the file has no value that could be put back.
    note(&mut journal, SettingOf::Cpufreq, &fake.path(&speed), None).unwrap();
    assert_eq!(journal.entries().unwrap().len(), 1);
    set_cpufreq(&mut journal, &fake.path(&governor), "userspace").unwrap();
    fs::write(fake.path(&speed), "2930000\n").unwrap();
    for khz in [2_000_000, 2_400_000, 2_000_000] {
        set_cpufreq(&mut journal, &fake.path(&speed), khz).unwrap();
    }
    let entries = journal.entries().unwrap();
    assert_eq!(entries.len(), 3, "{entries:?}");
    assert_eq!(undo_all(&entries), Vec::<String>::new());
    assert_eq!(fake.text(&governor), "schedutil");
    assert_eq!(fake.text(&speed), "2930000");
    // The governor is back, the speed has no value again.
    fs::write(fake.path(&speed), "<unsupported>\n").unwrap();
    assert_eq!(undo_all(&entries), Vec::<String>::new());
    assert_eq!(fake.text(&speed), "<unsupported>\n");
}

#[test]
fn a_second_run_notes_what_the_first_one_found() {
    let fake = FakeChanges::new(&[(RT, "950000\n")]);
    let mut first = fake.journal(1);
    set_sysctl(&mut first, &fake.sysctl(), -1).unwrap();
    let mut second = fake.journal(2);
    set_sysctl(&mut second, &fake.sysctl(), -1).unwrap();
    let entries = second.entries().unwrap();
    assert!(matches!(&entries[1], Entry::Setting(s) if s.old == "950000"));
    // The first to end leaves it to the other.
    assert_eq!(undo(first, Leftovers::GoBack), Vec::<String>::new());
    assert_eq!(fake.text(RT), "-1");
    assert_eq!(undo(second, Leftovers::GoBack), Vec::<String>::new());
    assert_eq!(fake.text(RT), "950000");
}

#[test]
fn what_was_before_a_dead_run_is_back_after_a_later_one() {
    for dead_first in [true, false] {
        let fake = FakeChanges::new(&[(RT, "950000\n")]);
        let mut first = fake.journal(1);
        set_sysctl(&mut first, &fake.sysctl(), -1).unwrap();
        let dead = testing::abandon(first);
        let mut later = fake.journal(2);
        set_sysctl(&mut later, &fake.sysctl(), -1).unwrap();
        let restore = || {
            let dead = Journal::take_over(&dead).unwrap().unwrap();
            assert_eq!(undo(dead, Leftovers::AsNoted), Vec::<String>::new());
        };
        if dead_first {
            restore();
            assert_eq!(fake.text(RT), "-1");
        }
        assert_eq!(undo(later, Leftovers::GoBack), Vec::<String>::new());
        assert_eq!(fake.text(RT), "950000");
        if !dead_first {
            restore();
            assert_eq!(fake.text(RT), "950000");
        }
    }
}

#[test]
fn runs_that_do_not_see_each_other_leave_what_the_first_one_found() {
    // Of another mount namespace or user: two registries, one machine.
    for first_ends_first in [true, false] {
        let fake = FakeChanges::new(&[(RT, "950000\n")]);
        let mut first = fake.journal(1);
        set_sysctl(&mut first, &fake.sysctl(), -1).unwrap();
        let mut second = fake.journal_in("elsewhere", 2);
        set_sysctl(&mut second, &fake.sysctl(), -1).unwrap();
        assert_eq!(fake.text(RT), "-1");
        let in_order = if first_ends_first {
            [first, second]
        } else {
            [second, first]
        };
        for journal in in_order {
            assert_eq!(undo(journal, Leftovers::GoBack), Vec::<String>::new());
        }
        assert_eq!(fake.text(RT), "950000");
    }
}

#[test]
fn looking_noting_and_setting_are_one_step() {
    let fake = FakeChanges::new(&[(RT, "950000\n")]);
    let mut journal = fake.journal(1);
    let lock = Lock::of(journal.dir()).unwrap();
    std::thread::scope(|scope| {
        let path = journal.path().to_owned();
        let set = scope.spawn(|| set_sysctl(&mut journal, &fake.sysctl(), -1));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(journal::read(&path).unwrap().entries.len(), 1);
        assert_eq!(fake.text(RT), "950000\n");
        drop(lock);
        set.join().unwrap().unwrap();
    });
    assert_eq!(fake.text(RT), "-1");
}

#[test]
fn a_frozen_group_is_thawed_and_one_that_is_gone_is_no_problem() {
    for file in ["freezer.state", "cgroup.freeze"] {
        let fake = FakeChanges::new(&[(&format!("sandbag-1-node/{file}"), "")]);
        fs::write(fake.path("sandbag-1-node/cgroup.events"), "frozen 1\n").unwrap();
        let freezer = Freezer::detect(&fake.path("sandbag-1-node")).unwrap();
        let mut journal = fake.journal(1);
        let dir = freezer.dir().to_owned();
        journal.note(Entry::Frozen { dir }).unwrap();
        freezer.freeze(Duration::from_secs(1)).unwrap();
        let frozen = fake.text(&format!("sandbag-1-node/{file}"));
        assert!(["FROZEN", "1"].contains(&&*frozen), "{frozen}");
        let entries = journal.entries().unwrap();
        assert_eq!(undo_all(&entries), Vec::<String>::new());
        let thawed = fake.text(&format!("sandbag-1-node/{file}"));
        assert!(["THAWED", "0"].contains(&&*thawed), "{thawed}");
        fs::remove_dir_all(fake.path("sandbag-1-node")).unwrap();
        assert_eq!(undo_all(&entries), Vec::<String>::new());
    }
}

#[test]
fn a_stopped_process_goes_on() {
    let fake = FakeChanges::new(&[]);
    let mut journal = fake.journal(1);
    let mut child = testing::sleeper();
    let root = Root::default();
    let named = ProcessIdentity::of(&root, child.id()).unwrap().unwrap();
    let processes = vec![named];
    journal.note(Entry::Stopped { processes }).unwrap();
    named.signal(libc::SIGSTOP).unwrap();
    let state = || {
        let process = sandbag_linux::process::Process::new(&root, child.id());
        process.stat().unwrap().state
    };
    while state() != 'T' {
        std::thread::yield_now();
    }
    let entries = journal.entries().unwrap();
    assert_eq!(undo_all(&entries), Vec::<String>::new());
    while state() == 'T' {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(undo_all(&entries), Vec::<String>::new());
}
