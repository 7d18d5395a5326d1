// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::fs;
use std::time::Duration;

use super::*;
use crate::testing;

fn fake_v2(controllers: &str) -> (tempfile::TempDir, Root) {
    testing::machine(&[
        ("sys/fs/cgroup/cgroup.controllers", controllers),
        ("sys/fs/cgroup/cgroup.subtree_control", ""),
        ("proc/self/cgroup", "0::/user.slice/u.scope\n"),
        (
            "proc/self/mountinfo",
            "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        ),
    ])
}

fn journal(dir: &Path, pid: u32) -> Journal {
    testing::journal(dir, testing::info(pid), &[])
}

#[test]
fn without_the_controller_the_remedy_is_said() {
    let (_dir, root) = fake_v2("memory pids\n");
    let error = Layout::find(&root, None).unwrap_err();
    assert!(matches!(error, Error::NotPossible { .. }), "{error}");
}

#[test]
fn a_delegated_group_without_cpu_is_refused() {
    let (_dir, root) = fake_v2("cpu\n");
    let own = root.path("/sys/fs/cgroup/mine");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("cgroup.controllers"), "memory\n").unwrap();
    let error = Layout::find(&root, Some(&own)).unwrap_err().to_string();
    assert!(error.contains("not delegated"), "{error}");
}

#[test]
fn a_node_in_a_delegated_group_of_v1_is_refused_in_words() {
    let (dir, root) = testing::machine(&[
        ("sys/fs/cgroup/cpu/mine/cgroup.procs", ""),
        ("proc/self/cgroup", "3:cpu:/\n"),
        (
            "proc/self/mountinfo",
            "41 30 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
        ),
    ]);
    let layout = Layout::find(&root, Some(Path::new("/mine"))).unwrap();
    assert_eq!(layout.kind(), LayoutKind::Delegated);
    let mut journal = journal(dir.path(), 1);
    let cpus = CpuList::from_iter([0]);
    let made = layout.make_node(&root, &mut journal, RunId::from(1), &cpus, None);
    let error = made.unwrap_err();
    assert!(matches!(error, Error::NotPossible { .. }), "{error}");
    assert_eq!(journal.entries().unwrap().len(), 1, "nothing is noted");
}

#[test]
fn systemd_is_recognised() {
    let (dir, root) = fake_v2("cpu\n");
    assert_eq!(Layout::find(&root, None).unwrap().kind(), LayoutKind::V2);
    fs::create_dir_all(dir.path().join("run/systemd/system")).unwrap();
    // Only root is let through by PID 1.
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        let layout = Layout::find(&root, None).unwrap();
        assert_eq!(layout.kind(), LayoutKind::V2Systemd);
    }
}

#[test]
fn a_group_that_gets_other_cpus_is_no_node() {
    let (dir, root) = fake_v2("cpu cpuset\n");
    let layout = Layout::find(&root, None).unwrap();
    let group = "sys/fs/cgroup/user.slice/web.scope";
    let files = ["cpus", "cpus.effective"].map(|name| format!("{group}/cpuset.{name}"));
    testing::put(
        dir.path(),
        &[(files[0].as_str(), ""), (files[1].as_str(), "0-1\n")],
    );
    let group = dir.path().join(group);
    let mut journal = journal(dir.path(), 1);
    let mut adopt = |cpus: &str| layout.adopt(&mut journal, &group, &cpus.parse().unwrap());
    adopt("0-1").unwrap();
    let error = adopt("2-3").unwrap_err();
    assert!(matches!(error, Error::NotPossible { .. }), "{error}");
    let said = error.to_string();
    assert!(
        said.contains("web.scope may use only CPUs 0,1: name"),
        "{said}"
    );
}

#[test]
fn a_group_that_was_given_other_cpus_is_confined_again() {
    let (dir, root) = fake_v2("cpu cpuset\n");
    let layout = Layout::find(&root, None).unwrap();
    let name = "sys/fs/cgroup/docker/web";
    let [cpus, effective] = ["cpus", "cpus.effective"].map(|of| format!("{name}/cpuset.{of}"));
    testing::put(dir.path(), &[(cpus.as_str(), "")]);
    let own: CpuList = "2-3".parse().unwrap();
    let others = |now: &str, online: &str| {
        let files = [
            (effective.as_str(), now),
            ("sys/devices/system/cpu/online", online),
        ];
        testing::put(dir.path(), &files);
        let found = other_cpus(&root, &dir.path().join(name), &own);
        found.map(|cpus| cpus.to_string())
    };
    assert_eq!(others("2-3\n", "0-7\n"), None);
    assert_eq!(others("0-7\n", "0-7\n").unwrap(), "0-7");
    // One is offline.
    assert_eq!(others("2\n", "0-2\n"), None);
    assert_eq!(others("2\n", "0-7\n").unwrap(), "2");
    // All are, so that it has those of the group above; a load that is absent is missed anyway.
    assert_eq!(others("0-1\n", "0-1\n"), None);
    let group = dir.path().join(name);
    layout.confine_again(&group, &own).unwrap();
    let cpus: CpuList = testing::text(group.join("cpuset.cpus")).parse().unwrap();
    assert_eq!(cpus, own);
    fs::remove_dir_all(&group).unwrap();
    assert_eq!(other_cpus(&root, &group, &own), None);
}

#[test]
fn the_controller_is_noted_before_it_is_enabled() {
    let (dir, root) = fake_v2("cpu\n");
    let layout = Layout::find(&root, None).unwrap();
    let mut journal = journal(dir.path(), 1);
    layout.prepare(&mut journal).unwrap();
    assert!(matches!(
        journal.entries().unwrap().last(),
        Some(Entry::Controller { .. })
    ));
    let control = root.path("/sys/fs/cgroup/cgroup.subtree_control");
    assert_eq!(testing::text(control), "+cpu");
}

#[test]
fn the_controller_outlives_the_run_that_enabled_it_while_another_needs_it() {
    use crate::undo::{Leftovers, undo_in_temp as undo};
    let (dir, root) = fake_v2("cpu\n");
    let layout = Layout::find(&root, None).unwrap();
    let control = root.path("/sys/fs/cgroup/cgroup.subtree_control");
    let mut first = journal(dir.path(), 1);
    layout.prepare(&mut first).unwrap();
    // What a kernel says of it.
    fs::write(&control, "cpu\n").unwrap();
    // The first is ending while the second starts: one waits for the
    // other, and the controller is there for the second.
    let lock = Lock::of(dir.path()).unwrap();
    let mut second = journal(dir.path(), 2);
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| layout.prepare(&mut second));
        std::thread::sleep(Duration::from_millis(50));
        let noted = crate::journal::read(&dir.path().join("2.journal")).unwrap();
        assert_eq!(noted.entries.len(), 1, "noted without the lock");
        drop(lock);
        starting.join().unwrap().unwrap();
    });
    assert_eq!(undo(first, Leftovers::GoBack), Vec::<String>::new());
    assert_eq!(testing::text(&control), "cpu\n");
    assert_eq!(undo(second, Leftovers::GoBack), Vec::<String>::new());
    assert_eq!(testing::text(&control), "-cpu");
}

#[test]
fn a_controller_that_somebody_else_enabled_is_not_noted() {
    let (dir, root) = fake_v2("cpu\n");
    let layout = Layout::find(&root, None).unwrap();
    let control = root.path("/sys/fs/cgroup/cgroup.subtree_control");
    fs::write(control, "cpu\n").unwrap();
    let mut journal = journal(dir.path(), 1);
    layout.prepare(&mut journal).unwrap();
    assert_eq!(journal.entries().unwrap().len(), 1);
}

#[test]
fn a_group_with_processes_is_refused_before_anything_is_changed() {
    let (dir, root) = fake_v2("cpu\n");
    let tree = root.path("/sys/fs/cgroup");
    fs::write(tree.join("cgroup.type"), "domain\n").unwrap();
    fs::write(tree.join("cgroup.procs"), "1\n").unwrap();
    let layout = Layout::find(&root, None).unwrap();
    let mut journal = journal(dir.path(), 1);
    let error = layout.prepare(&mut journal).unwrap_err();
    assert!(matches!(error, Error::NotPossible { .. }), "{error}");
    assert_eq!(journal.entries().unwrap().len(), 1);
    fs::write(tree.join("cgroup.procs"), "").unwrap();
    layout.prepare(&mut journal).unwrap();
}
