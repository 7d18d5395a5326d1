// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::journal::{Setting, SettingOf};

#[test]
fn what_was_announced_but_not_done_is_no_problem() {
    let dir = tempfile::tempdir().unwrap();
    let entries = [Entry::Group {
        dirs: vec![dir.path().join("never-made")],
        back: None,
    }];
    assert_eq!(undo(&entries), Vec::<String>::new());
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
    assert_eq!(undo(&entries), Vec::<String>::new());
    assert!(!group.exists());
}

#[test]
fn a_controller_that_another_run_needs_stays() {
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("cgroup.subtree_control");
    fs::write(&control, "cpu").unwrap();
    fs::create_dir(dir.path().join("sandbag-9-cpu0")).unwrap();
    let entries = [Entry::Controller {
        path: control.clone(),
        name: "cpu".into(),
    }];
    assert_eq!(undo(&entries), Vec::<String>::new());
    assert_eq!(fs::read_to_string(&control).unwrap(), "cpu");
    fs::remove_dir(dir.path().join("sandbag-9-cpu0")).unwrap();
    assert_eq!(undo(&entries), Vec::<String>::new());
    assert_eq!(fs::read_to_string(&control).unwrap(), "-cpu");
}

/// Everything at once: nothing runs before it may, and nothing is given back
/// while it is used.
#[test]
fn what_stands_still_goes_on_and_settings_are_back_before_groups_go() {
    let dir = tempfile::tempdir().unwrap();
    let group = dir.path().join("sandbag-1-cpu0");
    fs::create_dir(&group).unwrap();
    let file = |name: &str, text: &str| {
        let path = group.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    file("freezer.state", "FROZEN\n");
    let budget = file("cpu.rt_runtime_us", "900000\n");
    let entries = [
        Entry::Frozen { dir: group.clone() },
        Entry::Setting(Setting {
            of: SettingOf::RtRuntime,
            path: budget.clone(),
            old: "0".into(),
        }),
        Entry::Group {
            dirs: vec![group.clone()],
            back: None,
        },
    ];
    // The group is the last change and yet the last to go: on a plain
    // directory with files in it that fails, and by then all else is done.
    let left = undo(&entries);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(
        fs::read_to_string(group.join("freezer.state")).unwrap(),
        "THAWED"
    );
    assert_eq!(fs::read_to_string(budget).unwrap(), "0");
}

#[test]
fn a_setting_that_is_refused_is_tried_again_after_the_others_and_then_said() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good");
    fs::write(&good, "1").unwrap();
    let setting = |path: &std::path::Path| {
        Entry::Setting(Setting {
            of: SettingOf::Cpufreq,
            path: path.to_owned(),
            old: "5".into(),
        })
    };
    // A directory cannot be read as a file.
    let left = undo(&[setting(&good), setting(dir.path())]);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(fs::read_to_string(good).unwrap(), "5");
}

#[test]
fn whoever_stands_still_in_a_group_goes_on() {
    use sandbag_kernel::Root;
    use sandbag_kernel::process::Process;
    use std::process::{Command, Stdio};
    let mut sleep = Command::new("sleep");
    let mut child = sleep.arg("1000").stdin(Stdio::null()).spawn().unwrap();
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
    fs::write(dir.path().join("cgroup.procs"), child.id().to_string()).unwrap();
    let entries = [
        Entry::StoppedGroup {
            dir: dir.path().to_owned(),
        },
        Entry::StoppedGroup {
            dir: dir.path().join("gone"),
        },
    ];
    assert_eq!(undo(&entries), Vec::<String>::new());
    state(false);
    child.kill().unwrap();
    child.wait().unwrap();
}
