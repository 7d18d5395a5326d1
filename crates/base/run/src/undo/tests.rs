// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::fs;

use super::undo_in_temp as undo;
use super::*;
use crate::journal::{RunInfo, SettingOf};
use crate::testing;
use units::tests::FakeUnits;

/// A journal in a directory of its own below `dir`.
fn journal(dir: &Path, pid: u32, kill: bool, entries: &[Entry]) -> Journal {
    let info = RunInfo {
        kill,
        ..testing::info(pid)
    };
    testing::journal(&dir.join("journals"), info, entries)
}

/// Undoes entries as the guardian would.
fn undo_all(entries: &[Entry]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    undo(journal(dir.path(), 1, false, entries), Leftovers::AsNoted)
}

/// A file with this text, below `dir`.
fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    testing::put(dir.path(), &[(name, text)]);
    dir.path().join(name)
}

fn setting(of: SettingOf, path: &Path, old: &str) -> Entry {
    Entry::Setting(Setting {
        of,
        path: path.to_owned(),
        old: old.into(),
    })
}

fn controller(path: &Path, name: &str) -> Entry {
    Entry::Controller {
        path: path.to_owned(),
        name: name.into(),
    }
}

#[test]
fn what_was_announced_but_not_done_is_no_problem() {
    let dir = tempfile::tempdir().unwrap();
    let entries = [testing::group(&dir.path().join("sandbag-1-cpu0"))];
    assert_eq!(undo_all(&entries), Vec::<String>::new());
}

#[test]
fn a_group_with_children_goes_children_first() {
    let dir = tempfile::tempdir().unwrap();
    let group = dir.path().join("sandbag-1-cmd");
    fs::create_dir_all(group.join("below/deeper")).unwrap();
    let entries = [Entry::Group {
        dirs: vec![group.clone()],
        back: Some(vec![dir.path().to_owned()]),
    }];
    assert_eq!(undo_all(&entries), Vec::<String>::new());
    assert!(!group.exists());
}

#[test]
fn a_controller_that_another_run_needs_stays() {
    let dir = tempfile::tempdir().unwrap();
    let control = file(&dir, "cgroup.subtree_control", "cpu");
    let entries = [controller(&control, "cpu")];
    let first = journal(dir.path(), 1, false, &entries);
    let second = journal(dir.path(), 2, false, &entries);
    assert_eq!(undo(first, Leftovers::GoBack), Vec::<String>::new());
    assert_eq!(testing::text(&control), "cpu");
    assert_eq!(undo(second, Leftovers::GoBack), Vec::<String>::new());
    assert_eq!(testing::text(&control), "-cpu");
    let journals = journal::all(&dir.path().join("journals")).unwrap();
    assert!(journals.is_empty());
}

#[test]
fn a_controller_that_groups_of_others_use_is_not_waited_for() {
    let refused = |errno| {
        Err(sandbag_linux::Error::Write {
            path: "cgroup.subtree_control".into(),
            value: "-cpu".into(),
            cause: std::io::Error::from_raw_os_error(errno),
        })
    };
    assert_eq!(disabled(Ok(()), || false), Ok(()));
    assert_eq!(disabled(refused(libc::EBUSY), || false), Ok(()));
    // Of a run, which ends.
    assert!(disabled(refused(libc::EBUSY), || true).is_err());
    assert!(disabled(refused(libc::EACCES), || false).is_err());
}

#[test]
fn a_run_in_a_group_below_is_found() {
    let [top, below] = ["/cgroup", "/cgroup/mine"].map(|dir| {
        let control = Path::new(dir).join("cgroup.subtree_control");
        (controller(&control, "cpu"), control)
    });
    let in_both = [top.0, below.0];
    assert!(is_enabled_below(&top.1, "cpu", &in_both));
    assert!(!is_enabled_below(&top.1, "cpuset", &in_both));
    assert!(!is_enabled_below(&below.1, "cpu", &in_both));
}

#[test]
fn a_setting_that_another_run_needs_stays() {
    let dir = tempfile::tempdir().unwrap();
    let sysctl = file(&dir, "sched_rt_runtime_us", "-1");
    let entries = [setting(SettingOf::Sysctl, &sysctl, "950000")];
    let first = journal(dir.path(), 1, false, &entries);
    let second = journal(dir.path(), 2, false, &entries);
    assert_eq!(undo(first, Leftovers::GoBack), Vec::<String>::new());
    assert_eq!(testing::text(&sysctl), "-1");
    assert_eq!(undo(second, Leftovers::GoBack), Vec::<String>::new());
    assert_eq!(testing::text(&sysctl), "950000");
}

#[test]
fn what_only_a_dead_run_names_is_put_back() {
    let dir = tempfile::tempdir().unwrap();
    let sysctl = file(&dir, "sched_rt_runtime_us", "-1");
    let control = file(&dir, "cgroup.subtree_control", "cpu");
    let entries = [
        setting(SettingOf::Sysctl, &sysctl, "950000"),
        controller(&control, "cpu"),
    ];
    let ending = journal(dir.path(), 1, false, &entries);
    let dead = testing::abandon(journal(dir.path(), 2, false, &entries));
    assert_eq!(undo(ending, Leftovers::GoBack), Vec::<String>::new());
    assert_eq!(testing::text(&sysctl), "950000");
    assert_eq!(testing::text(&control), "-cpu");
    // Its own undoing changes nothing more.
    let dead = Journal::take_over(&dead).unwrap().unwrap();
    assert_eq!(undo(dead, Leftovers::AsNoted), Vec::<String>::new());
    assert_eq!(testing::text(&sysctl), "950000");
}

#[test]
fn dead_runs_that_keep_their_journals_do_not_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let sysctl = file(&dir, "sched_rt_runtime_us", "-1");
    let entries = [setting(SettingOf::Sysctl, &sysctl, "950000")];
    // Both are held at first, as `restore` holds them.
    let found = [1, 2].map(|pid| {
        let journal = journal(dir.path(), pid, false, &entries);
        let good = testing::text(journal.path());
        fs::write(journal.path(), format!("nonsense\n{good}")).unwrap();
        journal
    });
    for (journal, now) in found.into_iter().zip(["-1", "950000"]) {
        let path = journal.path().to_owned();
        let left = undo(journal, Leftovers::AsNoted);
        assert_eq!(left.len(), 1, "{left:?}");
        testing::await_dead(&path);
        assert_eq!(testing::text(&sysctl), now);
    }
}

#[test]
fn what_is_shared_is_put_back_and_the_journal_removed_under_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let control = file(&dir, "cgroup.subtree_control", "cpu");
    let ending = journal(dir.path(), 1, false, &[controller(&control, "cpu")]);
    let journals = ending.dir().to_owned();
    // Another run that is between looking and noting.
    let lock = Lock::of(&journals).unwrap();
    std::thread::scope(|scope| {
        let end = scope.spawn(|| undo(ending, Leftovers::GoBack));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(testing::text(&control), "cpu");
        assert_eq!(journal::all(&journals).unwrap().len(), 1);
        drop(lock);
        assert_eq!(end.join().unwrap(), Vec::<String>::new());
    });
    assert_eq!(testing::text(&control), "-cpu");
}

#[test]
fn a_bad_line_is_said_the_rest_undone_and_the_journal_kept() {
    let dir = tempfile::tempdir().unwrap();
    let cpu0 = dir.path().join("sandbag-1-cpu0");
    fs::create_dir(&cpu0).unwrap();
    let journal = journal(dir.path(), 1, false, &[testing::group(&cpu0)]);
    let path = journal.path().to_owned();
    let good = testing::text(&path);
    fs::write(&path, format!("nonsense\n{good}")).unwrap();
    let left = undo(journal, Leftovers::GoBack);
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].contains("1.journal:1"), "{left:?}");
    assert!(!cpu0.exists() && path.exists());
}

/// `--kill` is for sandbag's death.
#[test]
fn what_a_command_left_goes_back_even_with_kill_unless_sandbag_died() {
    for (leftovers, lives) in [(Leftovers::GoBack, true), (Leftovers::AsNoted, false)] {
        let dir = tempfile::tempdir().unwrap();
        let (group, home) = (dir.path().join("sandbag-1-cmd"), dir.path().join("home"));
        fs::create_dir(&group).unwrap();
        fs::create_dir(&home).unwrap();
        let mut child = testing::sleeper();
        let pid = child.id().to_string();
        fs::write(group.join("cgroup.procs"), &pid).unwrap();
        fs::write(home.join("cgroup.procs"), "").unwrap();
        let entry = Entry::Group {
            dirs: vec![group.clone()],
            back: Some(vec![home.clone()]),
        };
        // It stays in the list of the fake group, which is reported.
        let journal = journal(dir.path(), 1, true, &[entry]);
        let path = journal.path().to_owned();
        let left = undo(journal, leftovers);
        assert_eq!(left.len(), 1, "{left:?}");
        // For who tries again.
        let is_over = journal::read(&path)
            .unwrap()
            .entries
            .contains(&Entry::CommandOver);
        assert_eq!(is_over, lives);
        let moved = testing::text(home.join("cgroup.procs"));
        assert_eq!(moved == pid, lives, "{leftovers:?}");
        assert_eq!(child.try_wait().unwrap().is_none(), lives, "{leftovers:?}");
        let _ = child.kill();
        child.wait().unwrap();
    }
}

/// PID 1 would wait for what ignores SIGTERM.
#[test]
fn what_a_dead_sandbag_leaves_in_a_scope_is_killed_where_that_was_asked() {
    let dir = tempfile::tempdir().unwrap();
    let unit = |name: &str, keep| Entry::Unit {
        name: name.to_owned(),
        keep,
    };
    let entries = [
        unit("sandbag7c0n0.scope", false),
        unit("sandbag7cmd.scope", true),
    ];
    for (kill, killed, stopped) in [
        (false, &[][..], &["sandbag7c0n0.scope"][..]),
        (
            true,
            &["sandbag7cmd.scope"],
            &["sandbag7cmd.scope", "sandbag7c0n0.scope"],
        ),
    ] {
        let mut manager = FakeUnits::default();
        let allowed = UndoScope::below(dir.path());
        let journal = journal(dir.path(), 7, kill, &entries);
        undo_by(journal, Leftovers::AsNoted, &allowed, &mut manager);
        assert_eq!(manager.killed, killed);
        assert_eq!(manager.stopped, stopped);
    }
}

/// Everything at once: nothing runs before it may, and nothing is given back
/// while it is used.
#[test]
fn what_stands_still_goes_on_and_settings_are_back_before_groups_go() {
    let dir = tempfile::tempdir().unwrap();
    let cpu0 = dir.path().join("sandbag-1-cpu0");
    let state = file(&dir, "sandbag-1-cpu0/freezer.state", "FROZEN\n");
    let budget = file(&dir, "sandbag-1-cpu0/cpu.rt_runtime_us", "900000\n");
    let entries = [
        Entry::Frozen { dir: cpu0.clone() },
        setting(SettingOf::RtRuntime, &budget, "0"),
        testing::group(&cpu0),
    ];
    // The group is the last change and yet the last to go: on a plain
    // directory with files in it that fails, and by then all else is done.
    let left = undo_all(&entries);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(testing::text(state), "THAWED");
    assert_eq!(testing::text(budget), "0");
}

#[test]
fn a_setting_that_is_refused_is_tried_again_after_the_others_and_then_said() {
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("cpufreq");
    // A directory cannot be read as a file.
    let bad = policy.join("scaling_min_freq");
    fs::create_dir_all(&bad).unwrap();
    let good = policy.join("scaling_max_freq");
    fs::write(&good, "1").unwrap();
    let entries = [&good, &bad].map(|path| setting(SettingOf::Cpufreq, path, "5"));
    let first = journal(dir.path(), 1, false, &entries);
    let path = first.path().to_owned();
    let left = undo(first, Leftovers::AsNoted);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(testing::text(&good), "5");
    // A value that is set afterwards stays.
    fs::write(&good, "7").unwrap();
    testing::await_dead(&path);
    let again = journal::read(&path).unwrap();
    assert_eq!(again.entries[1..], [setting(SettingOf::Cpufreq, &bad, "5")]);
}

#[test]
fn stopped_processes_of_a_group_go_on() {
    use sandbag_linux::Root;
    use sandbag_linux::process::Process;
    let child = testing::sleeper();
    let state = |wanted: bool| {
        let process = Process::new(&Root::default(), child.id());
        while (process.stat().unwrap().state == 'T') != wanted {
            std::thread::yield_now();
        }
    };
    // SAFETY: a signal to a child that was not waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGSTOP) };
    state(true);
    let dir = tempfile::tempdir().unwrap();
    let group = dir.path().join("sandbag-1-node");
    fs::create_dir(&group).unwrap();
    fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();
    let entries = [
        Entry::StoppedGroup { dir: group },
        Entry::StoppedGroup {
            dir: dir.path().join("sandbag-1-node2"),
        },
    ];
    assert_eq!(undo_all(&entries), Vec::<String>::new());
    state(false);
    testing::end(child);
}

#[test]
fn who_entered_a_node_of_systemd_goes_on_where_he_came_from() {
    let dir = tempfile::tempdir().unwrap();
    let slice = dir.path().join("sandbag7node.slice");
    let scope = slice.join("sandbag7node0.scope");
    let entries = [
        Entry::NodeSlice {
            name: "sandbag7node.slice".into(),
            dir: slice.clone(),
            back: "system.slice".into(),
        },
        Entry::NodeScope {
            dir: scope.clone(),
            back: "user-1000.slice".into(),
            home: None,
        },
    ];
    fs::create_dir_all(&scope).unwrap();
    fs::write(scope.join("cgroup.procs"), "11\n").unwrap();
    let mut manager = FakeUnits {
        list: scope.join("cgroup.procs"),
        ..FakeUnits::default()
    };
    let by = |manager: &mut FakeUnits, kill, leftovers| {
        let allowed = UndoScope::below(dir.path());
        let journal = journal(dir.path(), 7, kill, &entries);
        undo_by(journal, leftovers, &allowed, manager).all()
    };
    let none = Vec::<String>::new();
    assert_eq!(by(&mut manager, false, Leftovers::AsNoted), none);
    let name = "sandbag7left0.scope".to_owned();
    let left = (name, "user-1000.slice".to_owned(), vec![11]);
    assert_eq!(manager.started, [left]);
    // With the command over it is the same even with --kill; everything may
    // be gone already.
    fs::remove_dir_all(&slice).unwrap();
    assert_eq!(by(&mut manager, true, Leftovers::GoBack), none);
    assert_eq!(by(&mut manager, true, Leftovers::AsNoted), none);
    assert_eq!(manager.started.len(), 1);
    assert_eq!(manager.stopped, ["sandbag7node.slice"; 3]);
}

/// Should a journal be forged all the same.
#[test]
fn a_forged_journal_writes_nowhere_and_kills_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let shadow = file(&dir, "shadow", "before");
    let control = file(&dir, "control", "before");
    let mut child = testing::sleeper();
    let theirs = dir.path().join("system.slice");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("cgroup.procs"), child.id().to_string()).unwrap();
    let entries = [
        setting(SettingOf::Cpufreq, &shadow, "root::0:0::/:/bin/sh"),
        controller(&control, "NAME"),
        testing::group(&theirs),
    ];
    let journal = journal(dir.path(), 1, true, &entries);
    let path = journal.path().to_owned();
    let allowed = UndoScope::below(dir.path());
    let left = undo_by(journal, Leftovers::AsNoted, &allowed, &mut units::Systemd);
    assert_eq!((left.never.len(), left.later.len()), (3, 0), "{left:?}");
    for kept in [shadow, control] {
        assert_eq!(testing::text(kept), "before");
    }
    assert!(theirs.exists() && path.exists());
    assert!(child.try_wait().unwrap().is_none(), "killed");
    testing::end(child);
}

#[test]
fn the_undo_does_not_wait_for_a_lock_that_is_never_released() {
    let dir = tempfile::tempdir().unwrap();
    let sysctl = file(&dir, "sched_rt_runtime_us", "-1");
    let entry = setting(SettingOf::Sysctl, &sysctl, "950000");
    let journal = journal(dir.path(), 1, false, &[entry]);
    let _lock = Lock::of(journal.dir()).unwrap();
    let begin = Instant::now();
    assert_eq!(undo(journal, Leftovers::GoBack), Vec::<String>::new());
    assert_eq!(testing::text(&sysctl), "950000");
    // Not for ever.
    assert!(begin.elapsed() < 40 * LOCK_PATIENCE);
}

#[test]
fn what_was_changed_before_the_machine_was_started_anew_is_not_put_back() {
    let dir = tempfile::tempdir().unwrap();
    let sysctl = file(&dir, "sched_rt_runtime_us", "950000");
    let info = RunInfo {
        process: Some(RunProcess {
            boot: "another".into(),
            ..RunProcess::own().unwrap()
        }),
        ..testing::info(7)
    };
    let entries = [setting(SettingOf::Sysctl, &sysctl, "5")];
    let journal = testing::journal(&dir.path().join("journals"), info, &entries);
    let path = journal.path().to_owned();
    assert_eq!(undo(journal, Leftovers::AsNoted), Vec::<String>::new());
    assert_eq!(testing::text(&sysctl), "950000");
    assert!(!path.exists());
}
