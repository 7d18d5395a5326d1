// SPDX-License-Identifier: Apache-2.0 OR MIT
use sandbag_linux::procstat::CpuDelta;
use sandbag_run::journal::RunInfo;

use super::*;
use crate::live::Reading;
use crate::node::protocol::{CpuSpeed, Status};

const SMALL: Look = Look {
    columns: 80,
    lines: 24,
    colours: false,
};
const LARGE: Look = Look {
    columns: 200,
    lines: 50,
    colours: true,
};

fn cpu(cpu: u32, asked_pct: f64, got_pct: f64) -> CpuReading {
    CpuReading {
        cpu,
        asked_pct,
        got_pct,
        total_ns: 0,
        burns: true,
        kernel: Some(CpuDelta {
            busy_ns: 900_000_000,
            idle_ns: 90_000_000,
            steal_ns: 10_000_000,
            back_ns: 0,
        }),
    }
}

fn run(pid: u32, load: &str, cpus: Vec<CpuReading>, node: Option<Status>) -> WatchedRun {
    let numbers: Vec<String> = cpus.iter().map(|cpu| cpu.cpu.to_string()).collect();
    let info = RunInfo {
        pid,
        cpus: numbers.join(","),
        method: "pace".to_owned(),
        started_s: u64::MAX,
        ..RunInfo::of_this_process(load)
    };
    let reading = Reading {
        cpus,
        paused: false,
    };
    WatchedRun::seen(info, node, reading, Some(123.4))
}

fn node(speed: f64) -> Status {
    Status {
        name: "small".to_owned(),
        pid: 12,
        cpus: "1".to_owned(),
        speeds: vec![CpuSpeed {
            cpu: 1,
            asked: speed,
            got: None,
        }],
        method: "hogs".to_owned(),
        members: Vec::new(),
    }
}

/// Two runs, seen for over a minute, with a load that grows.
fn seen() -> (Screen, Vec<WatchedRun>) {
    let (mut screen, mut runs) = (Screen::default(), Vec::new());
    for second in 0..70 {
        let got = f64::from(second) * 1.4;
        runs = vec![
            run(
                11,
                "constant 50 %",
                vec![cpu(0, 50.0, got), cpu(2, 50.0, 50.02)],
                None,
            ),
            run(12, "node small", vec![cpu(1, 70.0, 69.9)], Some(node(0.3))),
        ];
        screen.note(&runs);
    }
    (screen, runs)
}

/// Colours made visible.
fn shown(lines: &[String]) -> String {
    let trimmed: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    trimmed.join("\n").replace('\x1b', "^[")
}

#[test]
fn a_screen_of_80_by_24_shows_the_first_run() {
    let (mut screen, runs) = seen();
    insta::assert_snapshot!(shown(&screen.frame(&runs, SMALL)));
}

#[test]
fn a_large_screen_shows_the_next_run_and_asks() {
    let (mut screen, runs) = seen();
    screen.next(&runs);
    screen.asks = screen.selected(&runs).map(|run| run.run.id());
    insta::assert_snapshot!(shown(&screen.frame(&runs, LARGE)));
    screen.next(&runs);
    assert!(shown(&screen.frame(&runs, LARGE)).contains("^[[31m  +46.60^[[0m"));
}

#[test]
fn what_is_seen_once_is_plain_text() {
    let (_, runs) = seen();
    insta::assert_snapshot!(Screen::text(&runs));
}

#[test]
fn the_error_of_a_node_is_got_minus_asked_in_speed() {
    let slow = run(12, "node small", vec![cpu(1, 70.0, 72.0)], Some(node(0.3)));
    let [asked, got, error, ..] = figures(&slow, &slow.reading.cpus[0]);
    assert_eq!([asked, got, error], ["0.300", "0.280", "-2.00"]);
}

#[test]
fn every_frame_has_the_size_that_was_asked() {
    let (mut screen, mut runs) = seen();
    let many = (0..300).map(|n| cpu(n, 20.0, 20.0)).collect();
    runs.push(run(13, "constant 20 %", many, None));
    screen.note(&runs);
    screen.next(&runs);
    screen.next(&runs);
    for (columns, lines) in [(80, 24), (200, 50), (20, 5), (1, 1), (40, 3)] {
        let look = Look {
            columns,
            lines,
            colours: false,
        };
        let frame = screen.frame(&runs, look);
        assert_eq!(frame.len(), lines, "{columns}x{lines}");
        assert!(frame.iter().all(|line| line.chars().count() <= columns));
    }
    for _ in 0..1000 {
        screen.scroll(true);
    }
    assert!(shown(&screen.frame(&runs, SMALL)).contains("  299    20.00"));
    // One key is enough to be one CPU before the end.
    screen.scroll(false);
    assert!(!shown(&screen.frame(&runs, SMALL)).contains("  299    20.00"));
}

#[test]
fn what_has_ended_is_neither_selected_nor_asked_about() {
    let (mut screen, mut runs) = seen();
    screen.asks = screen.selected(&runs).map(|run| run.run.id());
    runs.remove(0);
    screen.note(&runs);
    assert_eq!(screen.asks, None);
    assert_eq!(screen.selected(&runs).unwrap().run.pid, 12);
    screen.note(&[]);
    assert!(screen.selected(&[]).is_none());
    assert!(screen.frame(&[], SMALL)[0].contains("no run"));
}

#[test]
fn a_run_that_is_paused_has_no_error() {
    let mut stopped = run(12, "node small", vec![cpu(1, 70.0, 0.0)], Some(node(0.3)));
    stopped.reading.paused = true;
    let row = Screen::default().row(&stopped, &stopped.reading.cpus[0], LARGE);
    assert!(!row.contains("70.0") && !row.contains('\x1b'), "{row}");
    assert_eq!(figures(&stopped, &stopped.reading.cpus[0])[2], "-");
}
