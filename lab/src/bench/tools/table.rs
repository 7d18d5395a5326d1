// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of the comparison. Pure.

use std::fmt::Write as _;

use sandbag_linux::CpuList;
use sandbag_stats::{Accuracy, range};

use super::Case;
use super::run::Window;
use crate::bench::markdown::{Table, number};

/// The windows of one case over all rounds.
#[derive(Debug)]
pub struct Group {
    /// The case.
    pub case: Case,
    /// Of all CPUs and rounds.
    pub windows: Vec<Window>,
    /// Why runs have none.
    pub failures: Vec<String>,
}

impl Group {
    /// Without any yet.
    pub fn new(case: Case) -> Self {
        Self {
            case,
            windows: Vec::new(),
            failures: Vec::new(),
        }
    }

    fn mean(&self, of: impl Fn(&Window) -> f64) -> Option<f64> {
        let count = self.windows.len();
        (count > 0).then(|| self.windows.iter().map(of).sum::<f64>() / count as f64)
    }
}

/// The report, in markdown.
pub fn report(
    machine: &[(&'static str, String)],
    cpus: &CpuList,
    windows: u32,
    groups: &[Group],
) -> String {
    let mut out = String::from("# The same load by others\n\n");
    for (name, value) in machine {
        let _ = writeln!(out, "- {name}: {value}");
    }
    let _ = write!(
        out,
        "- runs: {windows} windows of 1 s, CPUs {cpus}\n\n\
         Percent of each CPU's delivered time, by the clocks of the tasks, read from outside; \
         errors are points, over the windows of all CPUs. stress-ng runs once per CPU, pinned \
         there (`--cpu 1 --taskset CPU`). Started from one shell, tool and spinners share a \
         scheduling group (autogroup); from two shells each has one.\n\n"
    );
    let mut table = Table::new(&[
        "tool",
        "started from",
        "spinners",
        "asked %",
        "got % (range)",
        "mean abs error",
        "worst",
        "left for the spinners %",
        "windows",
    ]);
    let mut lines: Vec<&Group> = groups.iter().filter(|g| !g.windows.is_empty()).collect();
    // The tools one below the other under the same question.
    lines.sort_by_key(|g| {
        let c = g.case;
        (
            c.shells_name(),
            c.asked_pct,
            c.spinners,
            c.tool_name() == "sandbag load",
        )
    });
    for g in lines {
        table.push(line(g));
    }
    out += &table.render();
    for g in groups {
        for failure in &g.failures {
            let _ = writeln!(out, "\n- {} failed: {failure}", g.case.id());
        }
    }
    out
}

fn line(g: &Group) -> Vec<String> {
    let asked = f64::from(g.case.asked_pct);
    let mut accuracy = Accuracy::default();
    for window in &g.windows {
        accuracy.add(window.got_pct - asked);
    }
    let got: Vec<f64> = g.windows.iter().map(|w| w.got_pct).collect();
    let spread =
        range(&got).map_or_else(String::new, |(low, high)| format!(" ({low:.1}-{high:.1})"));
    let stats = accuracy.stats();
    vec![
        g.case.tool_name().to_owned(),
        g.case.shells_name().to_owned(),
        g.case.spinners.to_string(),
        g.case.asked_pct.to_string(),
        number(g.mean(|w| w.got_pct), 1) + &spread,
        number(stats.as_ref().map(|s| s.mean_abs_points), 2),
        number(stats.as_ref().map(|s| s.worst_points), 2),
        number(g.mean(|w| w.left_pct), 1),
        g.windows.len().to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_was_got_and_how_far_off_it_was() {
        let mut group = Group::new(Case::all()[0]);
        for got_pct in [30.0, 36.0] {
            group.windows.push(Window {
                cpu: 0,
                got_pct,
                left_pct: 100.0 - got_pct,
            });
        }
        let line = line(&group);
        assert_eq!(line[4], "33.0 (30.0-36.0)");
        assert_eq!(line[5..8], ["17.00", "-20.00", "67.0"]);
    }

    #[test]
    fn what_failed_is_said_and_what_was_not_run_is_left_out() {
        let mut groups: Vec<Group> = Case::all().into_iter().map(Group::new).collect();
        groups[0].failures.push("no CPU".to_owned());
        groups[1].windows.push(Window {
            cpu: 0,
            got_pct: 50.0,
            left_pct: 50.0,
        });
        let text = report(&[], &"0-1".parse().unwrap(), 5, &groups);
        assert!(text.contains("stress-ng/50/spin-2/one failed: no CPU"));
        assert_eq!(text.matches("| stress-ng").count(), 1, "{text}");
    }
}
