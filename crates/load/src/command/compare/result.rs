// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `compare.json` and the table: everything that is known about a comparison.

use std::fmt::Write as _;

use crate::report::run::Run;
use sandbag_stats::{PairedRatio, Tolerance, Verdict, median, paired_ratio};
use serde::Serialize;

use super::baseline::Sameness;

/// Version of `compare.json`; readers ignore fields they do not know.
pub const FORMAT: u32 = 1;

/// Which of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparedProgram {
    A,
    B,
}

impl ComparedProgram {
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }
}

/// One run of one program.
#[derive(Debug, Clone, Serialize)]
pub struct OneRun {
    pub number: usize,
    pub pair: usize,
    pub program: ComparedProgram,
    pub dir: String,
    pub verdict: Verdict,
    pub reason: String,
    /// Both runs of the pair were kept: it counts.
    pub counted: bool,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub wall_s: f64,
    pub cpu_s: f64,
    /// CPU time that was there for it on the loaded CPUs, seconds.
    pub available_s: Option<f64>,
    /// CPU time used per CPU time available.
    pub efficiency: Option<f64>,
    pub warnings: Vec<String>,
}

impl OneRun {
    /// From the record of a run with a command; `None` if there was none.
    pub fn of(
        number: usize,
        pair: usize,
        program: ComparedProgram,
        dir: &str,
        run: &Run,
    ) -> Option<Self> {
        let command = run.command.as_ref()?;
        Some(Self {
            number,
            pair,
            program,
            dir: dir.to_owned(),
            verdict: run.verdict,
            reason: run.reason.clone(),
            counted: false,
            exit_code: command.exit_code,
            signal: command.signal,
            wall_s: command.wall_s,
            cpu_s: command.user_s + command.system_s,
            available_s: command.available_s,
            efficiency: command.efficiency,
            warnings: run.warnings.clone(),
        })
    }

    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0)
    }
}

/// One program over its counted runs.
#[derive(Debug, Clone, Serialize)]
pub struct ProgramSummary {
    pub command: Vec<String>,
    pub counted: usize,
    pub kept: usize,
    pub missed: usize,
    pub undecided: usize,
    pub wall_s: Option<f64>,
    pub cpu_s: Option<f64>,
    pub efficiency: Option<f64>,
}

/// Ratios A/B over the pairs that count, with 95 % intervals.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Ratios {
    pub wall: Option<PairedRatio>,
    pub cpu: Option<PairedRatio>,
    /// Of the work done per CPU time available, both programs' work being 1:
    /// that of B's available time to A's.
    pub work_per_available: Option<PairedRatio>,
}

/// A comparison, finished or not.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    pub format: u32,
    pub sandbag: &'static str,
    pub started_at: String,
    pub arguments: Vec<String>,
    pub profile: String,
    pub method: String,
    /// What counts as kept, and as the same.
    pub tolerance: Tolerance,
    pub wanted: usize,
    pub order: &'static str,
    /// All pairs that were wanted, or could be had, are done.
    pub complete: bool,
    pub a: ProgramSummary,
    pub b: ProgramSummary,
    pub ratios: Ratios,
    /// The proof that the loads were the same.
    pub loads: Sameness,
    pub runs: Vec<OneRun>,
}

pub fn side(program: ComparedProgram, command: &[String], runs: &[OneRun]) -> ProgramSummary {
    let mine: Vec<&OneRun> = runs.iter().filter(|r| r.program == program).collect();
    let with = |verdict| mine.iter().filter(|r| r.verdict == verdict).count();
    let over = |value: fn(&OneRun) -> Option<f64>| {
        let counted = mine.iter().filter(|r| r.counted);
        median(&counted.filter_map(|r| value(r)).collect::<Vec<f64>>())
    };
    ProgramSummary {
        command: command.to_vec(),
        counted: mine.iter().filter(|r| r.counted).count(),
        kept: with(Verdict::Kept),
        missed: with(Verdict::Missed),
        undecided: with(Verdict::Undecided),
        wall_s: over(|r| Some(r.wall_s)),
        cpu_s: over(|r| Some(r.cpu_s)),
        efficiency: over(|r| r.efficiency),
    }
}

pub fn ratios(runs: &[OneRun]) -> Ratios {
    let of = |program, value: fn(&OneRun) -> Option<f64>| {
        let mut mine: Vec<&OneRun> = runs
            .iter()
            .filter(|r| r.counted && r.program == program)
            .collect();
        mine.sort_by_key(|r| r.pair);
        mine.into_iter().map(value).collect::<Option<Vec<f64>>>()
    };
    let ratio = |first, second, value| paired_ratio(&of(first, value)?, &of(second, value)?);
    let (a, b) = (ComparedProgram::A, ComparedProgram::B);
    Ratios {
        wall: ratio(a, b, |r| Some(r.wall_s)),
        cpu: ratio(a, b, |r| Some(r.cpu_s)),
        work_per_available: ratio(b, a, |r| r.available_s),
    }
}

/// Marks the runs of pairs of which both runs were kept and, unless failures
/// do not matter, succeeded. Returns how many pairs that are.
pub fn mark_counted(runs: &mut [OneRun], ignore_failure: bool) -> usize {
    let good: Vec<(usize, ComparedProgram)> = runs
        .iter()
        .filter(|r| r.verdict == Verdict::Kept && (ignore_failure || r.is_success()))
        .map(|r| (r.pair, r.program))
        .collect();
    let both = |pair| {
        good.contains(&(pair, ComparedProgram::A)) && good.contains(&(pair, ComparedProgram::B))
    };
    for run in runs.iter_mut() {
        run.counted = both(run.pair);
    }
    runs.iter()
        .filter(|r| r.counted && r.program == ComparedProgram::A)
        .count()
}

pub fn table(comparison: &Comparison) -> String {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
    };
    // Writing to a String cannot fail.
    let mut text = String::new();
    let pairs = comparison.ratios.wall.map_or(0, |ratio| ratio.pairs);
    let _ = writeln!(text, "A/B over {pairs} pairs, with 95 % intervals:");
    for (name, ratio) in [
        ("wall time", comparison.ratios.wall),
        ("CPU time", comparison.ratios.cpu),
        (
            "work per CPU time that was available",
            comparison.ratios.work_per_available,
        ),
    ] {
        let said = ratio.map_or("not known".to_owned(), |r| match r.pairs {
            1 => format!("{:.4} (one pair: no interval)", r.ratio),
            _ => format!("{:.4} ({:.4} to {:.4})", r.ratio, r.low, r.high),
        });
        let _ = writeln!(text, "  {name:36}  {said}");
    }
    let verdict = match comparison.loads.verdict {
        Verdict::Kept => "the same",
        Verdict::Missed => "not the same",
        Verdict::Undecided => "not known to be the same",
    };
    let _ = writeln!(
        text,
        "The loads were {verdict}: {}",
        comparison.loads.reason
    );
    for cpu in &comparison.loads.cpus {
        let _ = writeln!(
            text,
            "  load of CPU {:<4} A {:.3} %, B {:.3} %: {:+.3} points apart",
            cpu.cpu, cpu.a_got_pct, cpu.b_got_pct, cpu.difference_points
        );
    }
    text += "\n    wall s (median)  CPU s (median)  efficiency  runs: kept missed undecided\n";
    for (name, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        let _ = writeln!(
            text,
            "{name}   {:>15}  {:>14}  {:>10}  {:>10} {:>6} {:>9}  {}",
            number(side.wall_s, 3),
            number(side.cpu_s, 3),
            number(side.efficiency, 3),
            side.kept,
            side.missed,
            side.undecided,
            side.command.join(" "),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pair: usize, program: ComparedProgram, verdict: Verdict, wall_s: f64) -> OneRun {
        OneRun {
            number: 1,
            pair,
            program,
            dir: String::new(),
            verdict,
            reason: String::new(),
            counted: false,
            exit_code: Some(0),
            signal: None,
            wall_s,
            cpu_s: wall_s / 2.0,
            available_s: Some(wall_s),
            efficiency: Some(0.5),
            warnings: Vec::new(),
        }
    }

    fn two_pairs_and_a_spoilt_one() -> Vec<OneRun> {
        use ComparedProgram::{A, B};
        use Verdict::{Kept, Undecided};
        vec![
            run(1, A, Kept, 2.0),
            run(1, B, Kept, 1.0),
            run(2, B, Kept, 50.0),
            run(2, A, Undecided, 70.0),
            run(3, B, Kept, 2.0),
            run(3, A, Kept, 4.0),
        ]
    }

    #[test]
    fn only_pairs_that_were_kept_on_both_sides_count_and_all_are_shown() {
        let mut runs = two_pairs_and_a_spoilt_one();
        assert_eq!(mark_counted(&mut runs, false), 2);
        let ratios = ratios(&runs);
        let wall = ratios.wall.unwrap();
        assert_eq!(wall.pairs, 2);
        assert!((wall.ratio - 2.0).abs() < 1e-9);
        // The same work in twice the available time.
        assert!((ratios.work_per_available.unwrap().ratio - 0.5).abs() < 1e-9);
        let a = side(ComparedProgram::A, &[], &runs);
        assert_eq!((a.counted, a.kept, a.undecided), (2, 2, 1));
        assert_eq!(a.wall_s, Some(3.0));
    }

    #[test]
    fn a_program_that_failed_spoils_its_pair_unless_that_does_not_matter() {
        let mut runs = two_pairs_and_a_spoilt_one();
        runs[0].exit_code = Some(1);
        assert_eq!(mark_counted(&mut runs, false), 1);
        assert_eq!(mark_counted(&mut runs, true), 2);
    }

    #[test]
    fn without_figures_there_is_no_ratio() {
        let mut runs = two_pairs_and_a_spoilt_one();
        runs[0].available_s = None;
        mark_counted(&mut runs, false);
        assert!(ratios(&runs).work_per_available.is_none());
        assert!(ratios(&[]).wall.is_none());
    }
}
