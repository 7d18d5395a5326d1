// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::cell::Cell as Shared;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use sandbag_linux::procstat::CpuTimes;
use sandbag_profile::{InputSource, Profile, ReadOptions};

use super::*;

const MS: u64 = 1_000_000;
const TICK: u64 = 10 * MS;

/// Time that passes only by waiting. Wait number n comes `delays[n]` late.
struct FakeClock {
    now_ns: Rc<Shared<u64>>,
    waits: usize,
    delays: Vec<(usize, u64)>,
    stop_at_ns: Option<u64>,
}

impl RecordClock for FakeClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn wait_until(&mut self, deadline_ns: u64) -> io::Result<Wake> {
        let wait = self.waits;
        self.waits += 1;
        if let Some(stop) = self.stop_at_ns
            && stop < deadline_ns
        {
            self.now_ns.set(self.now_ns.get().max(stop));
            return Ok(Wake::Stopped);
        }
        let delay = self.delays.iter().find(|(n, _)| *n == wait);
        let delay = delay.map_or(60_000, |(_, ns)| *ns);
        self.now_ns.set(self.now_ns.get().max(deadline_ns + delay));
        Ok(Wake::Due)
    }

    fn cpu_ns(&self) -> u64 {
        self.waits as u64 * 1000
    }

    fn suspended_ns(&self) -> u64 {
        0
    }

    fn date(&self) -> jiff::Timestamp {
        "2026-11-21T01:10:52.1234567Z".parse().unwrap()
    }
}

/// CPU 0 is busy for a quarter of the time, CPU 1 for three quarters; CPU 1
/// is offline for a while; CPU 2 comes later.
struct FakeSource {
    now_ns: Rc<Shared<u64>>,
    offline_ns: std::ops::Range<u64>,
    second_ns: u64,
}

impl StatSource for FakeSource {
    fn sample_into(&mut self, into: &mut StatSample) -> sandbag_linux::Result<()> {
        let now = self.now_ns.get() - BEGIN;
        let cpu = |cpu: u32, quarters: u64| {
            let times = CpuTimes {
                user: 1000 + now * quarters / 4 / TICK,
                idle: 1000 + now * (4 - quarters) / 4 / TICK,
                ..CpuTimes::default()
            };
            (cpu, times)
        };
        into.cpus.clear();
        into.cpus.push(cpu(0, 1));
        if !self.offline_ns.contains(&now) {
            into.cpus.push(cpu(1, 3));
        }
        if now >= self.second_ns {
            into.cpus.push(cpu(2, 0));
        }
        Ok(())
    }

    fn tick_ns(&self) -> u64 {
        TICK
    }
}

const BEGIN: u64 = 5_000_000_007;

struct Setting {
    options: RecordOptions,
    delays: Vec<(usize, u64)>,
    stop_at_ms: Option<u64>,
    offline_ms: std::ops::Range<u64>,
    third_cpu_ms: u64,
}

fn setting(interval_ms: u64, duration_ms: Option<u64>) -> Setting {
    Setting {
        options: RecordOptions {
            interval_ns: interval_ms * MS,
            duration_ns: duration_ms.map(|ms| ms * MS),
            cpus: None,
            steal_as_load: false,
            host: Some("node7".into()),
        },
        delays: Vec::new(),
        stop_at_ms: None,
        offline_ms: 0..0,
        third_cpu_ms: u64::MAX / MS,
    }
}

impl Setting {
    fn recorder(&self) -> Recorder<FakeSource, FakeClock> {
        let now_ns = Rc::new(Shared::new(BEGIN));
        let source = FakeSource {
            now_ns: Rc::clone(&now_ns),
            offline_ns: self.offline_ms.start * MS..self.offline_ms.end * MS,
            second_ns: self.third_cpu_ms * MS,
        };
        let clock = FakeClock {
            now_ns,
            waits: 0,
            delays: self.delays.clone(),
            stop_at_ns: self.stop_at_ms.map(|ms| BEGIN + ms * MS),
        };
        Recorder::new(source, clock, self.options.clone()).unwrap()
    }

    fn run(&self) -> (String, RecordReport) {
        let mut out = Vec::new();
        let report = self.recorder().run(&mut out, None).unwrap();
        (String::from_utf8(out).unwrap(), report)
    }
}

fn times(text: &str) -> Vec<f64> {
    text.lines()
        .filter(|l| !l.starts_with('#') && !l.starts_with("time"))
        .map(|l| l.split(',').next().unwrap().parse().unwrap())
        .collect()
}

fn read(text: &str) -> Profile {
    let name: Arc<str> = "recording".into();
    let source = InputSource::spool(&mut text.as_bytes(), name).unwrap();
    Profile::collect(source.open(None, &ReadOptions::default()).unwrap()).unwrap()
}

#[test]
fn a_recording_as_it_stands_in_the_file() {
    let (text, report) = setting(1000, Some(3000)).run();
    assert_eq!(
        text,
        "# sandbag profile 1\n\
         # note: load is the busy share of the delivered time (all time minus steal), of /proc/stat\n\
         # host: node7\n\
         # begins: 2026-11-21T01:10:52.123Z\n\
         # interval: 1\n\
         time,cpu0,cpu1,steal0,steal1\n\
         0,25,75,0,0\n\
         1,25,75,0,0\n\
         2,25,75,0,0\n\
         3,end\n"
    );
    assert_eq!((report.samples, report.late, report.missed), (3, 0, 0));
    assert_eq!((report.length_ns, report.stopped), (3000 * MS, false));
    assert_eq!((report.cpu_ns, report.worst_late_ns), (3000, 60_000));
    assert_eq!(report.cpus[1].load_pct, Some(75.0));
    assert!(report.warnings().is_empty());
    let slept = RecordReport {
        suspended_ns: 1500 * MS,
        ..report.clone()
    };
    assert!(slept.warnings()[0].starts_with("the machine slept for 1.5 s"));
    assert!((report.cost_pct() - 1e-4).abs() < 1e-12);
}

/// The load is a share of all time then, and a steal column would be of the delivered time.
#[test]
fn a_recording_with_steal_as_load_has_no_steal_columns() {
    let mut s = setting(1000, Some(1000));
    s.options.steal_as_load = true;
    let (text, _) = s.run();
    assert!(text.ends_with("time,cpu0,cpu1\n0,25,75\n1,end\n"), "{text}");
    assert!(!read(&text).header.has_steal);
}

/// Duration and stop, ms; the wait that is late and by how much; times of the
/// rows, s; late and missed samples; what was dropped, ms.
#[test]
fn rows_end_at_their_deadlines_or_where_they_were_sampled() {
    type Case<'a> = (
        Option<u64>,
        Option<u64>,
        &'a [(usize, u64)],
        &'a [f64],
        [u64; 3],
    );
    let cases: [Case<'_>; 11] = [
        // The rest of the duration belongs to the last row.
        (Some(2050), None, &[], &[0.0, 1.0, 2.05], [0, 0, 0]),
        (Some(2100), None, &[], &[0.0, 1.0, 2.0, 2.1], [0, 0, 0]),
        (Some(300), None, &[], &[0.0, 0.3], [0, 0, 0]),
        // A late sample has its real time and the grid is kept.
        (
            Some(4000),
            None,
            &[(1, 300)],
            &[0.0, 1.0, 2.3, 3.0, 4.0],
            [1, 0, 0],
        ),
        // Due at 1, taken at 3.7: those of 2, 3 and 4 are left out.
        (
            Some(6000),
            None,
            &[(0, 2700)],
            &[0.0, 3.7, 5.0, 6.0],
            [1, 3, 0],
        ),
        // What is left then is shorter than a row may be.
        (Some(2000), None, &[(0, 950)], &[0.0, 1.95, 2.05], [1, 1, 0]),
        // Later than the end.
        (Some(3000), None, &[(1, 5000)], &[0.0, 1.0, 7.0], [1, 1, 0]),
        // A stop ends the row where it is, or drops one that is too short,
        // unless there is no other.
        (None, Some(2500), &[], &[0.0, 1.0, 2.0, 2.5], [0, 0, 0]),
        (None, Some(2040), &[], &[0.0, 1.0, 2.0], [0, 0, 40]),
        (None, Some(40), &[], &[0.0, 0.04], [0, 0, 0]),
        (Some(2000), None, &[], &[0.0, 1.0, 2.0], [0, 0, 0]),
    ];
    for (duration, stop, delays, expected, [late, missed, dropped_ms]) in cases {
        let mut s = setting(1000, duration);
        s.stop_at_ms = stop;
        s.delays = delays.iter().map(|(n, ms)| (*n, ms * MS)).collect();
        let (text, report) = s.run();
        assert_eq!(times(&text), expected);
        assert_eq!((report.late, report.missed), (late, missed), "{expected:?}");
        assert_eq!(report.dropped_ns, dropped_ms * MS, "{expected:?}");
        assert_eq!(report.samples as usize, expected.len() - 1);
        assert_eq!(report.stopped, stop.is_some());
        if let [(_, ms)] = delays {
            assert_eq!(report.worst_late_ns, ms * MS);
            let start = format!(
                "1 of {} samples came late (worst {ms}.0 ms)",
                report.samples
            );
            assert!(report.warnings()[0].starts_with(&start), "{start}");
        }
        read(&text);
    }
}

#[test]
fn an_offline_cpu_leaves_empty_cells() {
    let mut s = setting(1000, Some(5000));
    s.offline_ms = 1500..2500;
    let (text, report) = s.run();
    let rows: Vec<_> = text.lines().skip(6).collect();
    assert_eq!(rows[0], "0,25,75,0,0");
    assert_eq!(rows[1], "1,25,,0,");
    assert_eq!(rows[2], "2,25,,0,");
    assert_eq!(rows[3], "3,25,75,0,0");
    assert_eq!((report.cpus[0].holes, report.cpus[1].holes), (0, 2));
    assert_eq!(
        report.warnings(),
        ["the load of CPU 1 is unknown in 2 of 5 rows"]
    );
    let profile = read(&text);
    assert_eq!(profile.steps[1].cells[1], None);
}

#[test]
fn a_cpu_that_comes_later_is_told() {
    let mut s = setting(1000, Some(3000));
    s.third_cpu_ms = 1500;
    let (text, report) = s.run();
    assert!(text.contains("time,cpu0,cpu1,steal0,steal1\n"));
    assert_eq!(report.unrecorded, [2]);
    assert!(report.warnings()[0].starts_with("CPU 2 came online"));
    // with a column from the beginning
    s.options.cpus = Some("1-2".parse().unwrap());
    let (text, report) = s.run();
    assert!(
        text.ends_with("0,75,,0,\n1,75,,0,\n2,75,0,0,0\n3,end\n"),
        "{text}"
    );
    assert!(report.unrecorded.is_empty());
}

#[test]
fn a_killed_recording_can_be_read_to_its_last_row() {
    let (text, _) = setting(100, Some(1000)).run();
    let killed = text.strip_suffix("1,end\n").unwrap();
    let profile = read(killed);
    assert_eq!(profile.steps.len(), 10);
    assert_eq!(profile.steps[9].end_ns, 1000 * MS);
}

/// Every write and flush as it comes.
#[derive(Default)]
struct Journal(Rc<std::cell::RefCell<Vec<String>>>);

impl Write for Journal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        self.0.borrow_mut().push(text);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().push("flush".into());
        Ok(())
    }
}

#[test]
fn each_row_leaves_at_once() {
    let journal = Journal::default();
    let entries = Rc::clone(&journal.0);
    setting(1000, Some(2000))
        .recorder()
        .run(journal, None)
        .unwrap();
    let entries = entries.borrow();
    let at = entries.iter().position(|e| e.starts_with("0,")).unwrap();
    assert_eq!(
        entries[at..at + 4],
        ["0,25,75,0,0\n", "flush", "1,25,75,0,0\n", "flush"]
    );
}

#[test]
fn a_full_disk_is_an_error() {
    let error = setting(1000, Some(2000))
        .recorder()
        .run(std::fs::File::create("/dev/full").unwrap(), None)
        .unwrap_err();
    assert!(matches!(error, Error::Output(_)));
    assert!(error.to_string().contains("No space left"), "{error}");
}

/// A command that takes a tenth of CPU 0 and half of CPU 1.
struct FakeCommand {
    calls: u64,
    interval_ns: u64,
    fails_at: u64,
    /// From when on its time on CPU 1 is not known.
    unknown_from: u64,
}

impl CommandClock for FakeCommand {
    fn per_cpu_ns(&mut self, out: &mut [Option<u64>]) -> sandbag_linux::Result<()> {
        if self.calls == self.fails_at {
            return Err(sandbag_linux::Error::Missing {
                what: "the group".into(),
                remedy: "keep it".into(),
            });
        }
        out[0] = Some(77 + self.calls * self.interval_ns / 10);
        let known = self.calls < self.unknown_from;
        out[1] = known.then_some(33 + self.calls * self.interval_ns / 2);
        self.calls += 1;
        Ok(())
    }

    fn counts_steal(&self) -> bool {
        true
    }
}

fn record_beside_command(
    duration_ms: u64,
    fails_at: u64,
    unknown_from: u64,
) -> (String, Result<RecordReport>) {
    let command = FakeCommand {
        calls: 0,
        interval_ns: 1000 * MS,
        fails_at,
        unknown_from,
    };
    let mut out = Vec::new();
    let recorder = setting(1000, Some(duration_ms)).recorder();
    let report = recorder.run(&mut out, Some(Box::new(command)));
    (String::from_utf8(out).unwrap(), report)
}

#[test]
fn the_opposing_load_is_recorded_beside_a_command_until_its_clock_fails() {
    let (text, report) = record_beside_command(2000, u64::MAX, u64::MAX);
    assert!(
        text.ends_with("\n0,15,25,0,0\n1,15,25,0,0\n2,end\n"),
        "{text}"
    );
    assert_eq!(text.matches("# note: ").count(), 3);
    assert_eq!(report.unwrap().cpus[0].load_pct, Some(15.0));
    read(&text);
    let (text, report) = record_beside_command(9000, 3, u64::MAX);
    let error = report.unwrap_err().to_string();
    assert_eq!(error, "the group is missing: keep it");
    assert_eq!(read(&text).steps.len(), 2);
}

/// A suspend takes CPU 1 and its event offline between two samples, which both see the CPU.
#[test]
fn a_command_whose_clock_stands_still_is_no_opposing_load() {
    let (text, report) = record_beside_command(4000, u64::MAX, 2);
    let rows = "\n0,15,25,0,0\n1,15,,0,\n2,15,,0,\n3,15,,0,\n4,end\n";
    assert!(text.ends_with(rows), "{text}");
    let report = report.unwrap();
    assert_eq!(report.cpus[1].load_pct, Some(25.0));
    assert_eq!(
        report.warnings(),
        ["the load of CPU 1 is unknown in 3 of 4 rows"]
    );
}

#[test]
fn the_live_machine_for_a_moment() {
    let source = ProcStat::open(&sandbag_linux::Root::default()).unwrap();
    let options = setting(100, Some(300)).options;
    let clock = crate::record::LiveClock::new(Vec::new()).unwrap();
    let recorder = Recorder::new(source, clock, options).unwrap();
    let cpus = recorder.cpus().len();
    let mut out = Vec::new();
    let report = recorder.run(&mut out, None).unwrap();
    assert!(report.length_ns >= 300 * MS && report.cpu_ns > 0);
    assert_eq!(report.cpus.len(), cpus);
    read(&String::from_utf8(out).unwrap());
}
