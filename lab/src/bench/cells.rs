// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is measured: one factor at a time around a base case, which is 50 %
//! of every CPU beside five spinners in the wrapped command.

use clap::ValueEnum;
use sandbag_stats::Chance;

use crate::bench::compete::kinds::CompetitorKind;

pub const BASE_ASKED: f64 = 50.0;
pub const BASE_COUNT: usize = 5;

/// Methods of sandbag that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Method {
    /// The burner paces itself.
    Pace,
    /// Weight and hard cap.
    Quota,
    /// The published formula.
    Shares,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pace => "pace",
            Self::Quota => "quota",
            Self::Shares => "shares",
        }
    }
}

/// In the place of a factor: the base case, which belongs to every table.
pub const BASE: &str = "base";

/// Cells around the base case: the factor that is varied, and its value.
const FULL: &str = "asked/0.5 asked/1 asked/2 asked/5 asked/20 asked/80 asked/95 asked/98 asked/99 \
    competitors/spin-0 competitors/spin-1 competitors/spin-2 competitors/spin-20 \
    competitors/spin-200 competitors/mixed-5 competitors/nice-plus-5 competitors/nice-minus-5 \
    competitors/batch-5 competitors/idle-5 competitors/realtime-5 competitors/memory-5 \
    competitors/disk-5 competitors/interrupts-5 \
    place/sibling-100 place/sibling-10000 place/outside \
    disturbance/groups disturbance/steps \
    formula/20 formula/50 formula/80";

/// For the default method in the short form.
const SHORT: &str = "asked/5 asked/95 competitors/spin-0 competitors/spin-1 competitors/spin-20 \
    competitors/mixed-5 competitors/interrupts-5 place/sibling-10000 place/outside \
    disturbance/groups disturbance/steps";

/// For the other methods in the short form.
const SHORTEST: &str = "asked/95 competitors/spin-20 formula/50";

/// Where the competitors run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadTarget {
    /// In the wrapped command.
    Cmd,
    /// In a group beside sandbag's, of this weight (v2's scale).
    Sibling(u32),
    /// In no group of ours, each in a session of its own.
    Outside,
}

impl std::fmt::Display for LoadTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cmd => f.write_str("cmd"),
            Self::Sibling(weight) => write!(f, "sibling-{weight}"),
            Self::Outside => f.write_str("outside"),
        }
    }
}

/// What else happens during the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    None,
    /// A spinner moves to a new group ten times a second.
    Groups,
    /// The asked load changes each second, sometimes after half a second.
    Steps,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What it varies.
    pub factor: &'static str,
    /// The varied value, as the tables show it.
    pub label: String,
    pub method: Method,
    pub asked_pct: f64,
    pub kind: CompetitorKind,
    pub count: usize,
    pub place: LoadTarget,
    pub disturbance: Disturbance,
    /// Load and competitors on the first CPU only.
    pub one_cpu: bool,
}

impl Cell {
    /// Whether its competitors are in groups of their own beside the load's.
    pub fn needs_groups(&self) -> bool {
        matches!(self.place, LoadTarget::Sibling(_)) || self.disturbance == Disturbance::Groups
    }

    fn base(method: Method) -> Self {
        Self {
            factor: BASE,
            label: format!("base: {BASE_ASKED} %, {BASE_COUNT} spin, cmd"),
            method,
            asked_pct: BASE_ASKED,
            kind: CompetitorKind::Spin,
            count: BASE_COUNT,
            place: LoadTarget::Cmd,
            disturbance: Disturbance::None,
            one_cpu: false,
        }
    }

    /// Name for `--cells` and for the rows, such as `pace/asked/95`.
    pub fn id(&self) -> String {
        match self.factor {
            BASE => format!("{}/base", self.method.name()),
            factor => format!("{}/{factor}/{}", self.method.name(), self.label),
        }
    }

    /// The base case with one factor varied; `None` for another text.
    fn vary(&self, factor: &'static str, value: &str) -> Option<Self> {
        let mut cell = Self {
            factor,
            label: value.to_owned(),
            ..self.clone()
        };
        match factor {
            "asked" => cell.asked_pct = value.parse().ok()?,
            "competitors" => {
                let (kind, count) = value.rsplit_once('-')?;
                cell.kind = CompetitorKind::from_str(kind, false).ok()?;
                cell.count = count.parse().ok()?;
                // Where real-time groups have budgets, a real-time task can run in no
                // other group than the root's.
                if cell.kind == CompetitorKind::Realtime {
                    cell.place = LoadTarget::Outside;
                }
            }
            "place" => {
                cell.place = match value.strip_prefix("sibling-") {
                    Some(weight) => LoadTarget::Sibling(weight.parse().ok()?),
                    None => LoadTarget::Outside,
                }
            }
            "disturbance" if value == "groups" => cell.disturbance = Disturbance::Groups,
            "disturbance" => cell.disturbance = Disturbance::Steps,
            _ => return None,
        }
        Some(cell)
    }

    /// The base case with the load of the formula on a number of busy CPUs.
    fn formula(&self, asked: &str, busy: usize) -> Option<Self> {
        Some(Self {
            factor: FORMULA,
            label: format!("{asked}-on-{busy}"),
            asked_pct: asked.parse().ok()?,
            // An odd number: several per CPU, and never a chance that one CPU has none.
            count: 2 * busy + 1,
            ..self.clone()
        })
    }
}

/// The published formula against its prediction.
pub const FORMULA: &str = "formula";

/// All cells, each once, for a machine with `cpus` CPUs.
pub fn matrix(quick: bool, methods: &[Method], cpus: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for method in methods {
        let base = Cell::base(*method);
        cells.push(base.clone());
        let names = match (quick, method) {
            (false, _) => FULL,
            (true, Method::Pace) => SHORT,
            (true, _) => SHORTEST,
        };
        let shares = *method == Method::Shares;
        for (factor, value) in names
            .split_whitespace()
            .filter_map(|name| name.split_once('/'))
        {
            match factor {
                FORMULA if shares => {
                    let one = base.formula(value, 1).map(|cell| Cell {
                        one_cpu: true,
                        ..cell
                    });
                    let all = base.formula(value, cpus).filter(|_| cpus > 1);
                    cells.extend(one.into_iter().chain(all));
                }
                // `shares` is defined against the wrapped command and nothing else.
                "place" if shares => {}
                _ => cells.extend(base.vary(factor, value)),
            }
        }
    }
    cells
}

/// A step profile in sandbag's native format: a new level between 5 and 95
/// each second, every third second in two halves, different on each CPU.
pub fn step_profile(cpus: &[u32], seconds: u32, seed: u64) -> String {
    let mut chance = Chance::new(seed, "steps");
    let mut level = || (5 + chance.below(91)).to_string();
    let mut text = String::from("# sandbag profile 1\ntime");
    for cpu in cpus {
        text += &format!(",cpu{cpu}");
    }
    text.push('\n');
    let mut row = |time: String| {
        let levels: Vec<String> = cpus.iter().map(|_| level()).collect();
        text += &format!("{time},{}\n", levels.join(","));
    };
    for second in 0..seconds {
        row(second.to_string());
        if second % 3 == 2 {
            row(format!("{second}.5"));
        }
    }
    text += &format!("{seconds},end\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const ALL: [Method; 3] = [Method::Pace, Method::Quota, Method::Shares];

    #[test]
    fn every_cell_is_there_once_and_only_one_thing_varies() {
        for quick in [false, true] {
            let cells = matrix(quick, &ALL, 2);
            let ids: BTreeSet<String> = cells.iter().map(Cell::id).collect();
            assert_eq!(ids.len(), cells.len());
            for cell in cells.iter().filter(|c| c.factor != FORMULA) {
                let base = Cell::base(cell.method);
                let varied = [
                    cell.asked_pct != base.asked_pct,
                    cell.count != base.count,
                    cell.kind != base.kind,
                    cell.place != base.place && cell.kind != CompetitorKind::Realtime,
                    cell.disturbance != base.disturbance,
                ];
                let expected = usize::from(cell.factor != BASE);
                let count = varied.iter().filter(|v| **v).count();
                assert_eq!(count, expected, "{}", cell.id());
            }
        }
    }

    #[test]
    fn cells_beside_other_groups_are_told() {
        let cells = matrix(true, &[Method::Pace], 2);
        let need = cells.iter().filter(|cell| cell.needs_groups());
        let ids: BTreeSet<String> = need.map(Cell::id).collect();
        let expected = ["pace/disturbance/groups", "pace/place/sibling-10000"];
        assert_eq!(ids, expected.map(str::to_owned).into());
    }

    #[test]
    fn the_full_matrix_has_all_that_was_asked_for() {
        let cells = matrix(false, &[Method::Pace], 2);
        let of = |factor| cells.iter().filter(|c| c.factor == factor).count();
        assert_eq!(of("asked"), 9);
        assert_eq!(of("competitors"), 14);
        assert_eq!(of("place"), 3);
        assert_eq!(of("disturbance"), 2);
    }

    #[test]
    fn shares_is_not_measured_where_it_is_not_defined() {
        let cells = matrix(false, &[Method::Shares], 4);
        assert!(cells.iter().all(|c| c.factor != "place"));
        let formula: Vec<_> = cells
            .iter()
            .filter(|c| c.factor == FORMULA)
            .map(|c| (c.label.as_str(), c.count))
            .collect();
        assert_eq!(formula[..2], [("20-on-1", 3), ("20-on-4", 9)]);
    }

    #[test]
    fn a_step_profile_has_steps_of_half_a_second() {
        let text = step_profile(&[0, 3], 6, 1);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "time,cpu0,cpu3");
        assert_eq!(lines.last(), Some(&"6,end"));
        let times: Vec<&str> = lines[2..]
            .iter()
            .map(|l| l.split(',').next().unwrap())
            .collect();
        assert_eq!(times, ["0", "1", "2", "2.5", "3", "4", "5", "5.5", "6"]);
    }

    #[test]
    fn levels_stay_between_5_and_95() {
        for seed in 0..100 {
            for line in step_profile(&[0, 1], 9, seed).lines().skip(2) {
                for level in line.split(',').skip(1).filter(|l| *l != "end") {
                    let level: u32 = level.parse().unwrap();
                    assert!((5..=95).contains(&level));
                }
            }
        }
    }
}
