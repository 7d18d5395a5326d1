// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `top` shows, as lines of text: pure.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use sandbag_run::run_process::RunId;
use sandbag_ui::text::signed;

use crate::live::{CpuReading, WatchedRun, words};

/// Seconds that are remembered of each CPU.
const REMEMBERED: usize = 60;
/// Runs that are listed at most; the selected one is always among them.
const RUNS: usize = 5;
/// From which error on, points, a figure is marked; a window beyond the second is missed.
const MARKED: [(f64, &str); 2] = [(3.0, "\x1b[31m"), (1.0, "\x1b[33m")];

/// How large, and whether in colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub columns: usize,
    pub lines: usize,
    pub colours: bool,
}

/// What the user chose, and what was seen.
#[derive(Debug, Default)]
pub struct Screen {
    selected: Option<RunId>,
    /// CPUs that are scrolled past.
    skipped: usize,
    /// The run that is to be stopped, if that is confirmed.
    pub asks: Option<RunId>,
    history: BTreeMap<(RunId, u32), VecDeque<f64>>,
}

impl Screen {
    /// Takes in what was seen of the runs now.
    pub fn note(&mut self, runs: &[WatchedRun]) {
        let lives = |id: &RunId| runs.iter().any(|run| run.run.id() == *id);
        self.history.retain(|(id, _), _| lives(id));
        self.asks = self.asks.take().filter(&lives);
        for run in runs {
            for cpu in &run.reading.cpus {
                let seen = self.history.entry((run.run.id(), cpu.cpu)).or_default();
                seen.push_back(match run.node {
                    Some(_) => 100.0 - cpu.got_pct,
                    None => cpu.got_pct,
                });
                if seen.len() > REMEMBERED {
                    seen.pop_front();
                }
            }
        }
        if !self.selected.as_ref().is_some_and(&lives) {
            self.selected = runs.first().map(|run| run.run.id());
            self.skipped = 0;
        }
    }

    /// The run that is shown.
    pub fn selected<'a>(&self, runs: &'a [WatchedRun]) -> Option<&'a WatchedRun> {
        let is_it = |run: &&WatchedRun| Some(run.run.id()) == self.selected;
        runs.iter().find(is_it)
    }

    /// Shows the next run.
    pub fn next(&mut self, runs: &[WatchedRun]) {
        let at = runs
            .iter()
            .position(|run| Some(run.run.id()) == self.selected);
        let next = at.map_or(0, |at| at + 1) % runs.len().max(1);
        self.selected = runs.get(next).map(|run| run.run.id());
        self.skipped = 0;
    }

    /// Scrolls through the CPUs.
    pub fn scroll(&mut self, down: bool) {
        self.skipped = if down {
            self.skipped + 1
        } else {
            self.skipped.saturating_sub(1)
        };
    }

    /// The whole screen: exactly `look.lines` lines of at most `look.columns` columns. What was
    /// scrolled beyond the last CPU is forgotten.
    pub fn frame(&mut self, runs: &[WatchedRun], look: Look) -> Vec<String> {
        let mut lines = vec![match runs.len() {
            0 => "no run of this user; start one elsewhere: sandbag load 50 -d 1m".to_owned(),
            1 => "1 run".to_owned(),
            n => format!("{n} runs"),
        }];
        let at = runs
            .iter()
            .position(|run| Some(run.run.id()) == self.selected);
        let first = at.unwrap_or(0).saturating_sub(RUNS - 1);
        for (n, run) in runs.iter().enumerate().skip(first).take(RUNS) {
            let mark = if Some(n) == at { '>' } else { ' ' };
            lines.push(format!("{mark} {}", line_of(run)));
        }
        if let Some(run) = self.selected(runs) {
            lines.push(String::new());
            lines.push(head(run));
            let room = look.lines.saturating_sub(lines.len() + 1).max(1);
            let rows = &run.reading.cpus;
            self.skipped = self.skipped.min(rows.len().saturating_sub(room));
            for cpu in rows.iter().skip(self.skipped).take(room) {
                lines.push(self.row(run, cpu, look));
            }
            let left = rows.len().saturating_sub(self.skipped + room);
            if let (true, Some(last)) = (left > 0, lines.last_mut()) {
                *last = format!("... {} CPUs more below", left + 1);
            }
        }
        let mut lines: Vec<String> = lines
            .iter()
            .take(look.lines.saturating_sub(1))
            .map(|l| cut(l, look.columns))
            .collect();
        lines.resize(look.lines.saturating_sub(1), String::new());
        lines.push(cut(&self.foot(runs), look.columns));
        lines
    }

    fn foot(&self, runs: &[WatchedRun]) -> String {
        let asked = runs.iter().find(|run| Some(run.run.id()) == self.asks);
        match asked {
            Some(run) => format!("stop {}? y or n", words::number(&run.run)),
            None => "q quit   tab next run   s stop it   up, down other CPUs".to_owned(),
        }
    }

    fn row(&self, run: &WatchedRun, cpu: &CpuReading, look: Look) -> String {
        let figures = figures(run, cpu);
        let error = cpu.error_points();
        let colour = MARKED
            .into_iter()
            .find(|(from, _)| look.colours && !run.reading.paused && error.abs() > *from);
        let marked = |text: &str| match colour {
            Some((_, on)) => format!("{on}{text}\x1b[0m"),
            None => text.to_owned(),
        };
        let empty = VecDeque::new();
        let seen = self.history.get(&(run.run.id(), cpu.cpu)).unwrap_or(&empty);
        let room = look.columns.saturating_sub(WIDTH).min(REMEMBERED);
        let [asked, got, error, others, steal] = figures;
        let mut text = format!("{:>5}{asked:>9}{got:>9}", cpu.cpu);
        let _ = write!(text, "{}", marked(&format!("{error:>8}")));
        let _ = write!(text, "{others:>8}{steal:>7}  {}", bars(seen, room));
        text
    }

    /// All runs as text for a program or a pipe.
    pub fn text(runs: &[WatchedRun]) -> String {
        let mut text = String::new();
        for run in runs {
            let _ = writeln!(text, "{}\n{}", line_of(run), head(run).trim_end());
            for cpu in &run.reading.cpus {
                let [asked, got, error, others, steal] = figures(run, cpu);
                let _ = writeln!(
                    text,
                    "{:>5}{asked:>9}{got:>9}{error:>8}{others:>8}{steal:>7}",
                    cpu.cpu
                );
            }
        }
        text
    }
}

/// Columns of the figures, with the blanks before the bars.
const WIDTH: usize = 5 + 9 + 9 + 8 + 8 + 7 + 2;

fn line_of(run: &WatchedRun) -> String {
    let mut text = words::heading(&run.run, &words::load_of(&run.run, run.node.as_ref()));
    if let Some(pct) = run.program_pct {
        let _ = write!(text, "; its program takes {pct:.0} % of a CPU");
    }
    if run.reading.paused {
        text += "; paused";
    }
    if run.reading.cpus.is_empty() && !run.run.cpus.is_empty() {
        text += "; its memory cannot be seen from here";
    }
    text
}

fn head(run: &WatchedRun) -> String {
    let (asked, got) = match run.node {
        Some(_) => ("speed", "got"),
        None => ("asked %", "got %"),
    };
    format!(
        "{:>5}{asked:>9}{got:>9}{:>8}{:>8}{:>7}  got in the last minute",
        "CPU", "error", "others", "steal"
    )
}

/// Asked, got, error, others, steal; a node's as speeds.
fn figures(run: &WatchedRun, cpu: &CpuReading) -> [String; 5] {
    let part = |pct: Option<f64>| pct.map_or("-".to_owned(), |pct| format!("{pct:.1}"));
    let (asked, got) = match run.node {
        Some(_) => {
            let speed = |pct: f64| format!("{:.3}", 1.0 - pct / 100.0);
            (speed(cpu.asked_pct), speed(cpu.got_pct))
        }
        None => (
            format!("{:.2}", cpu.asked_pct),
            format!("{:.2}", cpu.got_pct),
        ),
    };
    // Too much load is too little speed.
    let error = match run.node {
        Some(_) => -cpu.error_points(),
        None => cpu.error_points(),
    };
    // While it is paused nothing is asked.
    let error = if run.reading.paused {
        "-".to_owned()
    } else {
        signed(error, 2)
    };
    [
        asked,
        got,
        error,
        part(cpu.others_pct()),
        part(cpu.steal_pct()),
    ]
}

/// Loads as a bar of eighths each, the newest at the right.
fn bars(seen: &VecDeque<f64>, room: usize) -> String {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |pct: &f64| EIGHTHS[(pct / 12.5).round().clamp(0.0, 8.0) as usize];
    seen.iter()
        .skip(seen.len().saturating_sub(room))
        .map(bar)
        .collect()
}

/// The first columns of a line; colours take none.
fn cut(line: &str, columns: usize) -> String {
    let (mut text, mut left, mut in_colour) = (String::new(), columns, false);
    for c in line.chars() {
        in_colour |= c == '\x1b';
        if in_colour {
            in_colour = c != 'm';
        } else if left == 0 {
            continue;
        } else {
            left -= 1;
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests;
