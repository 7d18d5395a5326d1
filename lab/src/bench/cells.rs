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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Factor {
    /// Nothing: the base case, which belongs to every table.
    Base,
    Asked,
    Competitors,
    Place,
    Disturbance,
    /// The published formula against its prediction.
    Formula,
}

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
    pub factor: Factor,
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
    fn base(method: Method) -> Self {
        Self {
            factor: Factor::Base,
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

    /// Name for `--cells` and for the raw rows, such as `pace/asked/95`.
    pub fn id(&self) -> String {
        let factor = match self.factor {
            Factor::Base => return format!("{}/base", self.method.name()),
            Factor::Asked => "asked",
            Factor::Competitors => "competitors",
            Factor::Place => "place",
            Factor::Disturbance => "disturbance",
            Factor::Formula => "formula",
        };
        format!("{}/{factor}/{}", self.method.name(), self.label)
    }
}

struct Levels<'a> {
    asked: &'a [f64],
    counts: &'a [usize],
    kinds: &'a [CompetitorKind],
    places: &'a [LoadTarget],
    disturbances: &'a [Disturbance],
    formula: &'a [f64],
}

const FULL: Levels<'_> = Levels {
    asked: &[0.5, 1.0, 2.0, 5.0, 20.0, 80.0, 95.0, 98.0, 99.0],
    counts: &[0, 1, 2, 20, 200],
    kinds: &[
        CompetitorKind::Mixed,
        CompetitorKind::NicePlus,
        CompetitorKind::NiceMinus,
        CompetitorKind::Batch,
        CompetitorKind::Idle,
        CompetitorKind::Realtime,
        CompetitorKind::Memory,
        CompetitorKind::Disk,
        CompetitorKind::Interrupts,
    ],
    places: &[
        LoadTarget::Sibling(100),
        LoadTarget::Sibling(10_000),
        LoadTarget::Outside,
    ],
    disturbances: &[Disturbance::Groups, Disturbance::Steps],
    formula: &[20.0, 50.0, 80.0],
};

/// For the default method in the short form.
const SHORT: Levels<'_> = Levels {
    asked: &[5.0, 95.0],
    counts: &[0, 1, 20],
    kinds: &[CompetitorKind::Mixed, CompetitorKind::Interrupts],
    places: &[LoadTarget::Sibling(10_000), LoadTarget::Outside],
    disturbances: &[Disturbance::Groups, Disturbance::Steps],
    formula: &[],
};

/// For the other methods in the short form.
const SHORTEST: Levels<'_> = Levels {
    asked: &[95.0],
    counts: &[20],
    kinds: &[],
    places: &[],
    disturbances: &[],
    formula: &[50.0],
};

/// All cells, each once, for a machine with `cpus` CPUs.
pub fn matrix(quick: bool, methods: &[Method], cpus: usize) -> Vec<Cell> {
    methods
        .iter()
        .flat_map(|method| {
            let levels = match (quick, method) {
                (false, _) => &FULL,
                (true, Method::Pace) => &SHORT,
                (true, _) => &SHORTEST,
            };
            around(*method, levels, cpus)
        })
        .collect()
}

fn around(method: Method, levels: &Levels<'_>, cpus: usize) -> Vec<Cell> {
    let base = Cell::base(method);
    let mut cells = vec![base.clone()];
    cells.extend(levels.asked.iter().map(|asked| Cell {
        factor: Factor::Asked,
        label: asked.to_string(),
        asked_pct: *asked,
        ..base.clone()
    }));
    cells.extend(levels.counts.iter().map(|count| Cell {
        factor: Factor::Competitors,
        label: format!("spin-{count}"),
        count: *count,
        ..base.clone()
    }));
    cells.extend(levels.kinds.iter().map(|kind| {
        // Where real-time groups have budgets, a real-time task can run in no
        // other group than the root's.
        let place = match kind {
            CompetitorKind::Realtime => LoadTarget::Outside,
            _ => LoadTarget::Cmd,
        };
        Cell {
            factor: Factor::Competitors,
            label: format!("{}-{BASE_COUNT}", kind_name(*kind)),
            kind: *kind,
            place,
            ..base.clone()
        }
    }));
    // `shares` is defined against the wrapped command and nothing else.
    if method != Method::Shares {
        cells.extend(levels.places.iter().map(|place| Cell {
            factor: Factor::Place,
            label: place.to_string(),
            place: *place,
            ..base.clone()
        }));
    }
    cells.extend(levels.disturbances.iter().map(|disturbance| {
        Cell {
            factor: Factor::Disturbance,
            label: match disturbance {
                Disturbance::Groups => "groups",
                Disturbance::Steps => "steps",
                Disturbance::None => "none",
            }
            .to_owned(),
            disturbance: *disturbance,
            ..base.clone()
        }
    }));
    if method == Method::Shares {
        for asked in levels.formula {
            for one_cpu in [true, false] {
                let busy = if one_cpu { 1 } else { cpus };
                cells.push(Cell {
                    factor: Factor::Formula,
                    label: format!("{asked}-on-{busy}"),
                    asked_pct: *asked,
                    // An odd number: several per CPU, and never a chance that
                    // one CPU has none.
                    count: 2 * busy + 1,
                    one_cpu,
                    ..base.clone()
                });
            }
        }
    }
    cells
}

/// The name under which `compete` knows a kind.
pub fn kind_name(kind: CompetitorKind) -> String {
    kind.to_possible_value()
        .map_or_else(String::new, |v| v.get_name().to_owned())
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
            for cell in cells.iter().filter(|c| c.factor != Factor::Formula) {
                let base = Cell::base(cell.method);
                let varied = [
                    cell.asked_pct != base.asked_pct,
                    cell.count != base.count,
                    cell.kind != base.kind,
                    cell.place != base.place && cell.kind != CompetitorKind::Realtime,
                    cell.disturbance != base.disturbance,
                ];
                let expected = usize::from(cell.factor != Factor::Base);
                let count = varied.iter().filter(|v| **v).count();
                assert_eq!(count, expected, "{}", cell.id());
            }
        }
    }

    #[test]
    fn the_full_matrix_has_all_that_was_asked_for() {
        let cells = matrix(false, &[Method::Pace], 2);
        let of = |factor| cells.iter().filter(|c| c.factor == factor).count();
        assert_eq!(of(Factor::Asked), 9);
        assert_eq!(of(Factor::Competitors), 14);
        assert_eq!(of(Factor::Place), 3);
        assert_eq!(of(Factor::Disturbance), 2);
    }

    #[test]
    fn shares_is_not_measured_where_it_is_not_defined() {
        let cells = matrix(false, &[Method::Shares], 4);
        assert!(cells.iter().all(|c| c.factor != Factor::Place));
        let formula: Vec<_> = cells
            .iter()
            .filter(|c| c.factor == Factor::Formula)
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
