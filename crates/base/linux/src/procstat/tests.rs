// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use proptest::prelude::*;
use std::fmt::Write as _;
use std::fs;

const TWO_CPUS: &str = "\
cpu  18255 0 4174 180571 1165 0 147 12 0 0
cpu0 8181 0 1664 92151 112 0 52 6 0 0
cpu1 10073 0 2509 88419 1053 0 94 5 0 0
intr 323071 0 0 0 0 0 0 0 0 0
ctxt 1043287
btime 1795223000
processes 20871
procs_running 1
procs_blocked 0
softirq 148231 0 34507 0 11 8921 0 0 31523 0 73269
";

fn fake(text: &str) -> (tempfile::TempDir, Root) {
    crate::process::tests::fake(&[("proc/stat", text)])
}

#[test]
fn reads_each_cpu_and_the_time_of_boot() {
    let (_dir, root) = fake(TWO_CPUS);
    let mut stat = ProcStat::open(&root).unwrap();
    let sample = stat.sample().unwrap();
    assert_eq!(sample.btime, Some(1_795_223_000));
    assert_eq!(sample.cpus.len(), 2);
    let cpu1 = sample.get(1).unwrap();
    assert_eq!((cpu1.user, cpu1.iowait, cpu1.steal), (10073, 1053, 5));
    assert_eq!(sample.get(2), None);
}

#[test]
fn the_same_file_is_read_again() {
    let (dir, root) = fake(TWO_CPUS);
    let mut stat = ProcStat::open(&root).unwrap();
    stat.sample().unwrap();
    fs::write(
        dir.path().join("proc/stat"),
        TWO_CPUS.replace("10073", "10074"),
    )
    .unwrap();
    assert_eq!(stat.sample().unwrap().get(1).unwrap().user, 10074);
}

#[test]
fn a_cpu_that_goes_offline_has_no_line() {
    let (dir, root) = fake(TWO_CPUS);
    let mut stat = ProcStat::open(&root).unwrap();
    stat.sample().unwrap();
    let rest: String = TWO_CPUS
        .lines()
        .filter(|l| !l.starts_with("cpu0"))
        .map(|l| format!("{l}\n"))
        .collect();
    fs::write(dir.path().join("proc/stat"), rest).unwrap();
    let sample = stat.sample().unwrap();
    assert_eq!(sample.get(0), None);
    assert!(sample.get(1).is_some());
}

#[test]
fn kernels_with_fewer_columns() {
    let mut sample = StatSample::default();
    parse(b"cpu  1 2 3 4\ncpu0 1 2 3 4\n", &mut sample).unwrap();
    assert_eq!(sample.cpus[0].1.idle, 4);
    assert_eq!(sample.cpus[0].1.steal, 0);
    // RHEL 6: nine columns
    parse(
        b"cpu0 1684734 41 1222120 31318207 26030 3810 505855 0 1049625\n",
        &mut sample,
    )
    .unwrap();
    assert_eq!(sample.cpus[0].1.guest, 1_049_625);
    // a future column
    parse(b"cpu0 1 2 3 4 5 6 7 8 9 10 11\n", &mut sample).unwrap();
    assert_eq!(sample.cpus[0].1.guest_nice, 10);
}

#[test]
fn two_thousand_cpus_through_a_growing_buffer() {
    let mut text = String::from("cpu  0 0 0 0 0 0 0 0 0 0\n");
    for cpu in 0..2048 {
        writeln!(text, "cpu{cpu} {cpu} 0 0 9999999999 0 0 0 0 0 0").unwrap();
    }
    text.push_str("btime 1\n");
    let (_dir, root) = fake(&text);
    let mut stat = ProcStat::open(&root).unwrap();
    assert_eq!(stat.sample().unwrap().cpus.len(), 2048);
    assert_eq!(stat.sample().unwrap().get(2047).unwrap().user, 2047);
    let (buffer, cpus) = (stat.buffer.capacity(), stat.sample.cpus.capacity());
    stat.sample().unwrap();
    assert_eq!(
        (stat.buffer.capacity(), stat.sample.cpus.capacity()),
        (buffer, cpus)
    );
}

#[test]
fn what_is_not_proc_stat_is_refused() {
    let mut sample = StatSample::default();
    for bad in [
        "",
        "btime 5\n",
        "cpu0 1 2 3\n",
        "cpu0 1 2 3 x\n",
        "cpux 1 2 3 4\n",
        "cpu1 1 2 3 4\ncpu0 1 2 3 4\n",
        "cpu0 -1 2 3 4\n",
        "cpu0 1 2 3 4\nbtime soon\n",
    ] {
        assert!(parse(bad.as_bytes(), &mut sample).is_err(), "{bad}");
    }
    let (_dir, root) = fake("cpu0 1 2 3\n");
    let error = ProcStat::open(&root).unwrap().sample().unwrap_err();
    assert!(error.to_string().ends_with("found `cpu0 1 2 3`"), "{error}");
    assert!(ProcStat::open(&Root::at("/nonexistent")).is_err());
}

#[test]
fn load_is_a_share_of_the_delivered_time() {
    let before = CpuTimes {
        user: 100,
        idle: 100,
        guest: 40,
        ..CpuTimes::default()
    };
    let now = CpuTimes {
        user: 120,
        system: 10,
        irq: 4,
        softirq: 6,
        idle: 130,
        iowait: 10,
        steal: 20,
        guest: 60,
        ..before
    };
    let delta = now.since(&before, 10_000_000);
    assert_eq!(delta.busy_ns, 400_000_000);
    assert_eq!(delta.delivered_ns(), 800_000_000);
    assert_eq!(delta.total_ns(), 1_000_000_000);
    assert_eq!(delta.load(), Some(0.5));
    assert_eq!(delta.steal(), Some(0.2));
    assert_eq!(delta.back_ns, 0);
    let nothing = now.since(&now, 10_000_000);
    assert_eq!((nothing.load(), nothing.steal()), (None, None));
}

#[test]
fn iowait_may_turn_into_idle_and_counters_that_go_back_are_flagged() {
    let times = |user, idle, iowait| CpuTimes {
        user,
        idle,
        iowait,
        ..CpuTimes::default()
    };
    for (before, now, delta) in [
        (times(0, 100, 50), times(0, 130, 30), (0, 20, 0)),
        (times(5000, 9000, 0), times(10, 9001, 0), (0, 2, 4990 * 2)),
    ] {
        let got = now.since(&before, 2);
        assert_eq!((got.busy_ns, got.idle_ns, got.back_ns), delta);
    }
}

#[test]
fn a_file_of_lxcfs_is_refused_and_one_of_a_disk_is_not() {
    use nix::sys::statfs::{EXT4_SUPER_MAGIC, PROC_SUPER_MAGIC, TMPFS_MAGIC};
    let error = refuse_lxcfs(FUSE_SUPER_MAGIC).unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
    // Tests mount files of their own there.
    for kind in [PROC_SUPER_MAGIC, EXT4_SUPER_MAGIC, TMPFS_MAGIC] {
        refuse_lxcfs(kind).unwrap();
    }
}

#[test]
fn the_live_file() {
    let mut stat = ProcStat::open(&Root::default()).unwrap();
    assert!(!stat.sample().unwrap().cpus.is_empty());
    assert!(tick_ns() > 0);
}

proptest! {
    #[test]
    fn pieces_of_any_size_make_the_same_text(
        text in prop::collection::vec(any::<u8>(), 0..5000),
        pieces in prop::collection::vec(1usize..700, 1..50),
    ) {
        let mut sizes = pieces.iter().cycle();
        let mut interrupted = false;
        let mut buffer = Vec::new();
        let length = read_whole(&mut buffer, |part, offset| {
            interrupted = !interrupted;
            if interrupted {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let rest = &text[offset as usize..];
            let n = (*sizes.next().unwrap()).min(rest.len()).min(part.len());
            part[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        })
        .unwrap();
        prop_assert_eq!(&buffer[..length], &text[..]);
    }
}
