// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
pub(crate) use crate::fake_machine::fake;

const STAT: &str = "20071 (tricky) name (x) S 20070 20071 1 0 -1 4194304 1012 0 0 0 731 29 5 2 20 -5 3 0 97231 \
9437184 230 18446744073709551615 94000 94100 140000 0 0 0 0 0 0 0 0 0 17 5 7 1 0 0 0 0 0 0 0 0 0 0 0\n";

pub(crate) fn text(dir: &tempfile::TempDir, name: &str) -> String {
    fs::read_to_string(dir.path().join(name)).unwrap()
}

#[test]
fn stat_of_a_process_with_a_nasty_name() {
    let (_dir, root) = fake(&[("proc/20071/stat", STAT)]);
    let stat = Process::new(&root, 20071).stat().unwrap();
    assert_eq!(stat.name, "tricky) name (x");
    assert_eq!((stat.state, stat.parent), ('S', 20070));
    let times = stat.times;
    assert_eq!((times.user_ticks, times.system_ticks), (731, 29));
    assert_eq!((times.ended_ticks, times.start_ticks), (7, 97231));
    assert_eq!((stat.nice, stat.threads), (-5, 3));
    assert_eq!((stat.cpu, stat.rt_priority, stat.policy), (5, 7, 1));
}

#[test]
fn a_name_cut_within_a_character() {
    let (dir, root) = fake(&[("proc/1/stat", "")]);
    let mut text = STAT.as_bytes().to_vec();
    text[7] = 0xc3;
    fs::write(dir.path().join("proc/1/stat"), text).unwrap();
    assert_eq!(Process::new(&root, 1).stat().unwrap().parent, 20070);
}

#[test]
fn stat_that_is_cut_is_refused() {
    let (_dir, root) = fake(&[("proc/1/stat", "1 (init) S 0 1"), ("proc/2/stat", "")]);
    for pid in [1, 2] {
        let error = Process::new(&root, pid).stat().unwrap_err();
        assert!(matches!(error, Error::Parse { .. }), "{error}");
    }
    assert!(Process::new(&root, 3).stat().unwrap_err().is_absent());
}

#[test]
fn schedstat_migrations_and_memory() {
    let (_dir, root) = fake(&[
        ("proc/7/schedstat", "2046 1231 4\n"),
        (
            "proc/7/sched",
            "cat (7, #threads: 1)\n---\n\
             se.exec_start                                :       1023361.642720\n\
             se.nr_migrations                             :                   12\n",
        ),
        (
            "proc/7/smaps_rollup",
            "55d0-7ffc ---p 00000000 00:00 0                          [rollup]\n\
             Rss:                1600 kB\n\
             Private_Clean:       120 kB\n\
             Private_Dirty:        88 kB\n",
        ),
        (
            "proc/7/status",
            "Name:\tcat\nVmPeak:\t    3000 kB\nVmHWM:\t    1800 kB\nVmRSS:\t    1600 kB\n",
        ),
        ("proc/7/cmdline", "sandbag\0load\0\x0050\0"),
    ]);
    let process = Process::new(&root, 7);
    let stat = process.schedstat().unwrap();
    assert_eq!(
        (stat.exec_ns, stat.run_delay_ns, stat.slices),
        (2046, 1231, 4)
    );
    assert_eq!(process.migrations().unwrap(), Some(12));
    assert_eq!(process.private_kib().unwrap(), 208);
    let memory = process.memory().unwrap();
    assert_eq!((memory.resident_kib, memory.peak_kib), (1600, 1800));
    let words = process.command_line().unwrap();
    assert_eq!(words, ["sandbag", "load", "", "50"]);
}

#[test]
fn what_a_kernel_thread_does_not_have() {
    let (_dir, root) = fake(&[
        ("proc/2/cmdline", ""),
        ("proc/2/status", "Name:\tkthreadd\n"),
        ("proc/2/schedstat", "1 2\n"),
        ("proc/2/smaps_rollup", ""),
    ]);
    let process = Process::new(&root, 2);
    assert!(process.command_line().unwrap().is_empty());
    assert_eq!(process.memory().unwrap(), Memory::default());
    assert_eq!(process.migrations().unwrap(), None);
    assert!(process.schedstat().is_err());
    assert!(process.private_kib().is_err());
}

#[test]
fn children_of_all_threads() {
    let (_dir, root) = fake(&[
        ("proc/5/task/5/children", "9 7 \n"),
        ("proc/5/task/6/children", "8 \n"),
        ("proc/6/task/6/children", "x\n"),
    ]);
    assert_eq!(Process::new(&root, 5).children().unwrap(), [7, 8, 9]);
    assert!(Process::new(&root, 6).children().is_err());
    assert!(Process::new(&root, 7).children().unwrap_err().is_absent());
}

#[test]
fn scans_leave_out_what_has_just_ended() {
    let (dir, root) = fake(&[
        ("proc/20071/stat", STAT),
        ("proc/20071/task/20071/stat", STAT),
        ("proc/20071/task/20072/stat", STAT),
        ("proc/self/stat", STAT),
    ]);
    fs::create_dir(dir.path().join("proc/30000")).unwrap();
    assert_eq!(processes(&root).unwrap().len(), 1);
    assert_eq!(threads(&root).unwrap().len(), 2);
}

#[test]
fn scans_leave_out_what_is_hidden() {
    let failed = |errno| Error::Read {
        path: PathBuf::from("/proc/1/stat"),
        cause: std::io::Error::from_raw_os_error(errno),
    };
    for (errno, left_out) in [
        (libc::EPERM, true),
        (libc::EACCES, true),
        (libc::ESRCH, true),
        (libc::EMFILE, false),
    ] {
        assert_eq!(is_left_out(&failed(errno)), left_out, "{errno}");
    }
}

#[test]
fn the_live_machine() {
    let root = Root::default();
    let me = Process::current(&root);
    let stat = me.stat().unwrap();
    assert_eq!(stat.pid, std::process::id());
    assert!(me.memory().unwrap().peak_kib > 0);
    assert!(me.private_kib().unwrap() > 0);
    assert!(!me.command_line().unwrap().is_empty());
    let is_me = |p: &ProcessStat| p.pid == me.pid() && p.parent == stat.parent;
    assert!(processes(&root).unwrap().iter().any(is_me));
    assert!(threads(&root).unwrap().iter().any(|t| t.pid == me.pid()));
    let mut child = std::process::Command::new("sleep");
    let mut child = child.arg("60").spawn().unwrap();
    assert!(me.children().unwrap().contains(&child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
}
