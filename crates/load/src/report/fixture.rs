// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made-up runs that look like real ones, for tests
//! of tables and pages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::report::achieved::{AchievedRow, AchievedWriter};
use crate::report::run::{
    CommandResult, CpuResult, MethodUsed, NodeUse, Part, PartCpu, Run, SupervisorCost,
};
use sandbag_run::{directory::FORMAT, machine::MachineFacts};
use sandbag_stats::{Accuracy, Tolerance, Verdict, VerdictCounter, Window};

const SECOND: u64 = 1_000_000_000;

/// A run and its windows.
pub struct Fixture {
    pub run: Run,
    pub windows: Vec<Window>,
}

impl Fixture {
    pub fn write_achieved(&self, path: &Path) {
        let mut writer = AchievedWriter::create(path).unwrap();
        writer.append(&self.windows).unwrap();
    }

    /// Its windows as a file, which goes with the directory.
    pub fn achieved(&self) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("achieved.csv");
        self.write_achieved(&path);
        (dir, path)
    }
}

/// One window of a file.
pub fn row(cpu: u32, time_s: f64, length_s: f64, asked_pct: f64, got_pct: f64) -> AchievedRow {
    AchievedRow {
        time_s,
        length_s,
        cpu,
        asked_pct,
        got_pct,
        error_points: got_pct - asked_pct,
        burner_s: got_pct / 100.0 * length_s,
        steal_pct: 0.0,
        busy_pct: None,
        command_pct: None,
        hole: 0,
    }
}

/// What one CPU does in one second.
#[derive(Clone, Copy, Default)]
struct Second {
    asked_pct: f64,
    error_points: f64,
    steal_pct: f64,
    hole: bool,
}

/// Splitmix64 (Steele, Lea & Flood 2014), so that every run of the tests sees
/// the same figures.
struct Normal(u64);

impl Normal {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal, mean 0, deviation `sd`.
    fn draw(&mut self, sd: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.unit()).sum();
        (sum - 6.0) * sd
    }
}

/// 2 CPUs x 30 s, unequal steps, beside a busy program: kept.
pub fn quiet() -> Fixture {
    let mut chance = Normal(1);
    simulate(&[0, 1], 30, true, |cpu, t| Second {
        asked_pct: [
            [20.0, 65.0, 35.5, 80.0, 50.0],
            [45.0, 30.0, 72.5, 25.0, 60.0],
        ][cpu as usize][(t / 6) as usize],
        error_points: chance.draw(0.06),
        ..Second::default()
    })
}

/// 64 CPUs x 10 min of a day's rhythm, without a command: kept.
pub fn large() -> Fixture {
    let mut chance = Normal(2);
    let cpus: Vec<u32> = (0..64).collect();
    simulate(&cpus, 600, false, |cpu, t| {
        let wave = (t as f64 / 90.0 + f64::from(cpu) / 9.0).sin();
        let step = ((t / 15 + u64::from(cpu) * 7) % 5) as f64;
        Second {
            asked_pct: (45.0 + 30.0 * wave + 5.0 * step).clamp(0.5, 99.0),
            error_points: chance.draw(if cpu == 37 { 0.5 } else { 0.08 }),
            steal_pct: if chance.unit() > 0.97 {
                chance.unit() * 4.0
            } else {
                0.0
            },
            hole: false,
        }
    })
}

/// 2 CPUs x 3 h, thinned, with one second in which the load was gone: kept.
pub fn long() -> Fixture {
    let mut chance = Normal(5);
    simulate(&[0, 1], 3 * 3600, true, |cpu, t| {
        let rhythm = (t as f64 / 1500.0 + f64::from(cpu)).sin();
        Second {
            asked_pct: (50.0 + 35.0 * rhythm + if (t / 300) % 2 == 0 { 8.0 } else { 0.0 }).round(),
            error_points: if (cpu, t) == (1, 7000) {
                -20.0
            } else {
                chance.draw(0.15)
            },
            ..Second::default()
        }
    })
}

/// 4 CPUs x 60 s by the published formula: far off.
pub fn missing_load() -> Fixture {
    let mut chance = Normal(3);
    let mut fixture = simulate(&[0, 1, 2, 3], 60, true, |cpu, t| {
        let asked_pct =
            [10.0, 30.0, 50.0, 70.0, 90.0, 50.0][((t / 10) as usize + cpu as usize) % 6];
        Second {
            asked_pct,
            error_points: (asked_pct * (100.0 - asked_pct) / 150.0) + chance.draw(1.2),
            ..Second::default()
        }
    });
    fixture.run.method = MethodUsed {
        name: "shares".to_owned(),
        ..MethodUsed::default()
    };
    fixture.run.warnings = vec![
        "cpu 2 was within 0.4 points of its headroom for 11 s; ask for less or use --method pace"
            .to_owned(),
        "the frequency governor is powersave: CPU time is not work; see sandbag doctor".to_owned(),
    ];
    fixture
}

/// 3 CPUs x 40 s on a shared host: steal everywhere, cpu 5 goes offline for
/// 8 s, and the names are hostile.
pub fn holes_and_steal() -> Fixture {
    let mut chance = Normal(4);
    let mut fixture = simulate(&[1, 4, 5], 40, true, |cpu, t| {
        let hole = cpu == 5 && (20..28).contains(&t);
        Second {
            asked_pct: 50.0 + 25.0 * f64::from(i32::from(t % 20 >= 10)),
            error_points: if hole { f64::NAN } else { chance.draw(0.9) },
            steal_pct: (6.0 + 6.0 * (t as f64 / 5.0).sin() + chance.draw(1.5)).max(0.0),
            hole,
        }
    });
    let run = &mut fixture.run;
    run.paused_s = 2.5;
    run.machine.host = "<script>alert(1)</script>\u{1b}[31m".to_owned();
    run.arguments = ["replay", "it's \"a\" </script> day.csv", "--", "./app"]
        .map(str::to_owned)
        .to_vec();
    run.profile = "it's \"a\" </script> day.csv".to_owned();
    run.warnings = vec!["cpu 5 went offline at 20 s and came back at 28 s".to_owned()];
    fixture
}

/// A virtual node of 2 unequal CPUs x 60 s, one of which is slowed further
/// after half of the time: speeds 80 and 40, then 30 %. Kept.
pub fn node() -> Fixture {
    let mut chance = Normal(6);
    let speeds = |cpu, t| [80.0, if t < 30 { 40.0 } else { 30.0 }][cpu as usize];
    as_node("small", &[0, 1], 60, |cpu, t| {
        // The window of the change is a little late.
        let late = if (cpu, t) == (1, 30) { -0.8 } else { 0.0 };
        (speeds(cpu, t), late + chance.draw(0.1))
    })
}

/// The same beside a load and jitter, of which the load was missed.
pub fn combined() -> Fixture {
    let mut fixture = node();
    for (cpu, left_pct) in fixture.run.cpus.iter_mut().zip([55.4, 24.3]) {
        cpu.left_pct = Some(left_pct);
    }
    let part = |name: &str, asked: &str, verdict, cells: [(f64, f64); 2]| Part {
        name: name.to_owned(),
        asked: asked.to_owned(),
        verdict,
        reason: "mean absolute error as it was".to_owned(),
        cpus: (0..)
            .zip(cells)
            .map(|(cpu, (asked_pct, got_pct))| PartCpu {
                cpu,
                asked_pct,
                got_pct,
            })
            .collect(),
        warnings: vec!["it was late".to_owned()],
    };
    fixture.run.add_parts(vec![
        part(
            "load",
            "30 % of the slowed CPUs",
            Verdict::Missed,
            [(24.0, 24.01), (10.5, 8.25)],
        ),
        part(
            "jitter",
            "the jitter of day.sbj",
            Verdict::Kept,
            [(0.52, 0.53), (0.41, 0.41)],
        ),
    ]);
    fixture
}

/// Four nodes on 8 CPUs, as in figure 2 of Buchert, Nussbaum & Gustedt (HPCC
/// 2011), but one of them far from what was asked, and one unequal inside.
pub fn nodes() -> Vec<Fixture> {
    let mut chance = Normal(7);
    let mut around = move |sd| chance.draw(sd);
    let mut all = vec![
        as_node("one", &[0], 40, |_, _| (75.0, around(0.1))),
        as_node("two", &[1], 40, |_, _| (40.0, around(0.1))),
        as_node("three", &[2, 3], 40, |_, t| {
            (if t < 20 { 60.0 } else { 90.0 }, 6.0 + around(1.5))
        }),
        as_node("four", &[4, 5, 6, 7], 40, |cpu, _| {
            (if cpu < 6 { 25.0 } else { 50.0 }, around(0.2))
        }),
    ];
    all[2].run.method.name = "quota".to_owned();
    let used = all[2].run.node.as_mut().unwrap();
    (used.throttled_times, used.throttled_s) = (Some(612), Some(21.4));
    all[2].run.warnings = vec!["the phase of quota cannot be controlled".to_owned()];
    let used = all[3].run.node.as_mut().unwrap();
    (used.used_s, used.waited_s, used.speed_changes) = (None, None, 0);
    all
}

/// `speed` gives speed and its error, both as the reader of a node sees them.
fn as_node(
    name: &str,
    cpus: &[u32],
    seconds: u64,
    mut speed: impl FnMut(u32, u64) -> (f64, f64),
) -> Fixture {
    let mut fixture = simulate(cpus, seconds, true, |cpu, t| {
        let (asked, error) = speed(cpu, t);
        Second {
            asked_pct: 100.0 - asked,
            error_points: -error,
            ..Second::default()
        }
    });
    let run = &mut fixture.run;
    run.method = MethodUsed {
        name: "hogs".to_owned(),
        period_ms: 100.0,
        parameters: BTreeMap::new(),
    };
    run.profile = "constant".to_owned();
    run.arguments = ["slow", "--cpus", "0-1", "--", "./app"]
        .map(str::to_owned)
        .to_vec();
    run.node = Some(NodeUse {
        name: name.to_owned(),
        entered: 3,
        used_s: Some(run.cpus.iter().filter_map(|c| c.command_s).sum()),
        throttled_times: None,
        throttled_s: None,
        waited_s: Some(4.25),
        speed_changes: 1,
    });
    fixture
}

/// A run that failed before its first window.
pub fn empty() -> Fixture {
    let mut fixture = simulate(&[], 0, false, |_, _| Second::default());
    fixture.run.verdict = Verdict::Missed;
    fixture.run.reason = "the run ended before its first window".to_owned();
    fixture
}

fn simulate(
    cpus: &[u32],
    seconds: u64,
    command: bool,
    mut second: impl FnMut(u32, u64) -> Second,
) -> Fixture {
    let mut windows = Vec::new();
    for t in 0..seconds {
        for &cpu in cpus {
            windows.push(window(cpu, t, second(cpu, t), command));
        }
    }
    let mut counter = VerdictCounter::default();
    let foreign_pct = |w: &Window| w.foreign_pct(true).filter(|_| command);
    for w in &windows {
        counter.add(w, foreign_pct(w));
    }
    let tolerance = Tolerance::default();
    let verdict = counter.verdict(tolerance);
    let stats = counter.accuracy().stats();
    let mut run = Run {
        format: FORMAT,
        sandbag: "0.1.0".to_owned(),
        started_at: "2026-03-01T12:00:00Z".to_owned(),
        began_at: Some("2026-03-01T12:00:00.6Z".to_owned()),
        arguments: arguments(command),
        machine: machine(cpus.len() as u32),
        method: MethodUsed {
            name: "pace".to_owned(),
            period_ms: 10.0,
            parameters: BTreeMap::from([
                ("weight".to_owned(), "10000".to_owned()),
                ("slice_us".to_owned(), "100".to_owned()),
            ]),
        },
        profile: "day.csv".to_owned(),
        length_s: seconds as f64,
        load_began_s: None,
        paused_s: 0.0,
        cpus: cpus.iter().map(|c| cpu_result(*c, &windows)).collect(),
        error_1s: stats,
        error_100ms: None,
        error_distribution: counter.accuracy().distribution().collect(),
        noisy_share: counter.noisy_share(),
        tolerance,
        verdict,
        reason: String::new(),
        warnings: Vec::new(),
        supervisor: SupervisorCost {
            cpu_s: 0.0021 * seconds as f64,
            pct_per_cpu: 0.011,
            wakeups: seconds + 9,
            writes: 14,
            resident_kib: 5_412,
            burner_private_kib: 188,
            worst_switch_delay_ms: 0.31,
        },
        command: None,
        seed: None,
        node: None,
        watched: None,
        parts: Vec::new(),
        commands: Vec::new(),
    };
    if let Some(stats) = stats {
        run.reason = format!(
            "the mean error over {} windows of 1 s is {:.2} points and {:.1} % of them are within {} points",
            stats.windows,
            stats.mean_abs_points,
            counter.accuracy().share_within(tolerance.window_points) * 100.0,
            tolerance.window_points,
        );
    }
    if counter.holes() > 0 {
        run.reason = format!("the load was absent in {} windows", counter.holes());
    }
    if command {
        run.command = Some(command_result(&run));
    }
    Fixture { run, windows }
}

fn window(cpu: u32, t: u64, s: Second, command: bool) -> Window {
    let steal_ns = (s.steal_pct / 100.0 * SECOND as f64) as u64;
    let delivered = (SECOND - steal_ns) as f64;
    let got_pct = (s.asked_pct + s.error_points).clamp(0.0, 100.0);
    let burner_ns = if s.hole {
        0
    } else {
        (delivered * got_pct / 100.0) as u64
    };
    let left = if s.hole {
        0.0
    } else {
        delivered - burner_ns as f64
    };
    let command_ns = command.then_some((left * 0.985) as u64);
    Window {
        cpu,
        start_ns: t * SECOND,
        length_ns: SECOND,
        asked_pct: s.asked_pct,
        burner_ns,
        steal_ns,
        busy_ns: Some(burner_ns + command_ns.unwrap_or(0) + 2_000_000),
        command_ns,
        hole: s.hole,
    }
}

fn cpu_result(cpu: u32, windows: &[Window]) -> CpuResult {
    let mine: Vec<&Window> = windows.iter().filter(|w| w.cpu == cpu).collect();
    let whole: Vec<&&Window> = mine.iter().filter(|w| !w.hole).collect();
    let sum = |f: &dyn Fn(&Window) -> u64| mine.iter().map(|w| f(w)).sum::<u64>();
    let delivered = sum(&Window::delivered_ns) as f64;
    let mut accuracy = Accuracy::default();
    whole.iter().for_each(|w| accuracy.add(w.error_points()));
    let command = sum(&|w| w.command_ns.unwrap_or(0)) as f64 / 1e9;
    CpuResult {
        cpu,
        asked_pct: mine.iter().map(|w| w.asked_pct).sum::<f64>() / mine.len() as f64,
        got_pct: sum(&|w| w.burner_ns) as f64 / delivered * 100.0,
        error_1s: accuracy.stats(),
        error_100ms: None,
        steal_pct: mine.iter().map(|w| w.steal_pct()).sum::<f64>() / mine.len() as f64,
        holes: (mine.len() - whole.len()) as u64,
        headroom_pct: Some(97.4),
        weight_changes: 1,
        burner_s: sum(&|w| w.burner_ns) as f64 / 1e9,
        command_s: mine.first().and_then(|w| w.command_ns).map(|_| command),
        busy_s: Some(sum(&|w| w.busy_ns.unwrap_or(0)) as f64 / 1e9),
        foreign_pct: None,
        left_pct: None,
    }
}

fn command_result(run: &Run) -> CommandResult {
    let used: f64 = run.cpus.iter().filter_map(|c| c.command_s).sum();
    CommandResult {
        arguments: ["./app", "--threads", "2"].map(str::to_owned).to_vec(),
        exit_code: Some(0),
        signal: None,
        asked_to_end: false,
        wall_s: run.length_s - 0.21,
        user_s: used * 0.97,
        system_s: used * 0.03,
        available_s: Some(used / 0.985),
        used_s: Some(used),
        efficiency: Some(0.985),
        switches: (412, 18_233),
        max_rss_kib: None,
        migrations: Some(27),
        migrations_of: Some("all threads".to_owned()),
    }
}

fn arguments(command: bool) -> Vec<String> {
    let mut all = vec!["replay", "day.csv"];
    if command {
        all.extend(["--", "./app", "--threads", "2"]);
    }
    all.into_iter().map(str::to_owned).collect()
}

fn machine(cpus: u32) -> MachineFacts {
    MachineFacts {
        host: "node17".to_owned(),
        kernel: "6.1.0-28-amd64".to_owned(),
        cpu_model: "AMD EPYC 7543 32-Core Processor".to_owned(),
        cpus_online: cpus,
        layout: "v2-systemd".to_owned(),
        facts: [
            ("governor", "performance"),
            ("turbo", "off"),
            ("smt", "on: cpus 0-1 share a core"),
            ("virtualisation", "kvm"),
            ("clocksource", "tsc"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into(),
    }
}
