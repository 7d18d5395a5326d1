// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Precision and intrusiveness (KRASH, table II): NAS EP on all CPUs under a
//! load of 50 %, by each method.

mod page;

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::{Context as _, Result, ensure};
use sandbag_load::report::Run;

use super::KRASH;
use crate::condition::Condition;
use crate::experiment::{About, Choices, Experiment, Paper, Remarks};
use crate::pair::PairTrial;
use crate::place::Runner as _;
use crate::reading::{own_words, whole_time};
use crate::row::Row;
use crate::setup::Setup;
use crate::summary::mean_sd;
use crate::workload::WorkReport;
use crate::workload::ep::Class;

const LOAD_PCT: f64 = 50.0;
/// EP unloaded takes about so long, seconds; the paper's took 21.4.
const WANTED_S: f64 = 20.0;
/// The same in the short form.
const WANTED_QUICK_S: f64 = 2.0;
/// By how much time grows from class to class.
const CLASSES: [(Class, f64); 5] = [
    (Class::S, 1.0),
    (Class::W, 2.0),
    (Class::A, 16.0),
    (Class::B, 64.0),
    (Class::C, 256.0),
];

/// What is chosen for a machine.
const CLASS: &str = "class of EP";

pub(super) struct Precision {
    about: &'static About,
    class: Option<Class>,
}

static TABLES: [&About; 2] = [
    &About {
        name: "krash-table-1",
        paper: KRASH,
        what: "features of each method, measured: precision, resolution, cost, what it slows",
        source: "KRASH (Perarnau and Huard, IPDPS 2010), table I",
        rounds: [3, 10],
        most_rounds: 30,
        minutes: [3, 60],
        page: |measured| Ok(page::features(measured.rows)),
        summary: |_| Vec::new(),
    },
    &About {
        name: "krash-table-2",
        paper: KRASH,
        what: "NAS EP on all CPUs under a load of 50 %, by each method: time, load perceived, cost",
        source: "KRASH (Perarnau and Huard, IPDPS 2010), table II",
        rounds: [6, 10],
        most_rounds: 30,
        minutes: [9, 120],
        page: |measured| page::sections(measured.rows, measured.chosen),
        summary: page::summary,
    },
];

/// EP in a node of half speed by the process limiter; the number of processes follows.
const LIMITED: &str = "lim-";
const LIMITED_PROCESSES: [u32; 3] = [1, 8, 80];

impl Precision {
    /// Tables I and II.
    pub fn all() -> impl Iterator<Item = Box<dyn Paper>> {
        TABLES
            .iter()
            .map(|about| Box::new(Self { about, class: None }) as Box<dyn Paper>)
    }

    fn has_limited(&self, setup: &Setup) -> bool {
        let lim = setup.methods.slowing.iter().any(|method| method == "lim");
        lim && std::ptr::eq(self.about, TABLES[1])
    }

    /// This number of EP of the smallest class at once.
    fn many(setup: &Setup, count: u32) -> Vec<OsString> {
        let script = format!(
            "for i in $(seq {count}); do \"$0\" \"$@\" >/dev/null & all=\"$all $!\"; done; \
             for one in $all; do wait $one || exit 1; done"
        );
        let shell: [OsString; 3] = ["sh".into(), "-c".into(), script.into()];
        let ep = setup.work("ep --class S --tasks 1");
        shell.into_iter().chain(ep).collect()
    }

    fn words(&self, setup: &Setup) -> Vec<OsString> {
        let class = self.class.unwrap_or(Class::S).name();
        setup.work(&format!("ep --class {class} --tasks {}", setup.cpus.len()))
    }
}

impl Experiment for Precision {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.about.name
    }

    fn cells(&self, setup: &Setup) -> Vec<String> {
        let mut cells = vec!["spinners".to_owned()];
        cells.extend(setup.methods.loading.iter().cloned());
        if self.has_limited(setup) {
            cells.extend(LIMITED_PROCESSES.map(|count| format!("{LIMITED}{count}")));
        }
        cells
    }

    fn measure(&mut self, setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let place = setup.place(&setup.cpus);
        if let Some(count) = cell.strip_prefix(LIMITED) {
            let trial = PairTrial {
                programs: &[&format!("ep, {count} at once")],
                words: &Self::many(setup, count.parse()?),
                condition: &Condition::Node {
                    method: "lim".to_owned(),
                    speed: 1.0 - LOAD_PCT / 100.0,
                },
                ..PairTrial::new(cell, round, &setup.cpus)
            };
            return Ok(trial.pairs(&place, &whole_time, &figures));
        }
        let condition = match cell {
            "spinners" => Condition::Spinners,
            method => Condition::load(method, LOAD_PCT),
        };
        let words = self.words(setup);
        let trial = PairTrial {
            programs: &["ep"],
            words: &words,
            condition: &condition,
            ..PairTrial::new(cell, round, &setup.cpus)
        };
        Ok(trial.pairs(&place, &own_words, &figures))
    }
}

impl Paper for Precision {
    fn about(&self) -> &'static About {
        self.about
    }

    /// Chooses the class whose time is nearest to the wanted one.
    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<Remarks> {
        if let Some(class) = chosen.get(CLASS).and_then(|name| Class::by_name(name)) {
            self.class = Some(class);
            return Ok(Remarks::default());
        }
        self.class = Some(Class::S);
        let met = setup
            .place(&setup.cpus)
            .meet(&Condition::Unloaded, &self.words(setup))?;
        ensure!(
            met.ended.status.is_some(),
            "EP class S took longer than the limit"
        );
        let done: WorkReport = serde_json::from_str(&met.ended.out).context("what EP says")?;
        ensure!(
            done.right,
            "the sums of EP class S are wrong on this machine"
        );
        let wanted = setup.form(WANTED_QUICK_S, WANTED_S);
        let off = |factor: f64| (done.seconds * factor / wanted).ln().abs();
        let nearest = CLASSES
            .iter()
            .min_by(|a, b| off(a.1).total_cmp(&off(b.1)))
            .map(|(class, _)| *class);
        self.class = nearest;
        let name = nearest.map_or("S", Class::name);
        chosen.insert(CLASS.to_owned(), name.to_owned());
        Ok(Remarks::default())
    }
}

/// What sandbag says of the run.
fn figures(run: &Run) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let mut add = |name: &str, value: f64| figures.insert(name.to_owned(), value);
    let got: Vec<f64> = run.cpus.iter().map(|cpu| cpu.got_pct).collect();
    if let Some((mean, _)) = mean_sd(&got) {
        add("got_pct", mean);
    }
    add("supervisor_pct", run.supervisor.pct_per_cpu);
    if let Some(error) = run.error_1s {
        add("error_sd", error.sd_points);
        add("error_mean_abs", error.mean_abs_points);
    }
    // The smallest window in which 95 % of the errors are at most 2 points.
    const WITHIN: f64 = 2.0;
    let fine = run.error_100ms.is_some_and(|e| e.p95_abs_points <= WITHIN);
    let coarse = run.error_1s.is_some_and(|e| e.p95_abs_points <= WITHIN);
    match (fine, coarse) {
        (true, _) => add("resolution_s", 0.1),
        (false, true) => add("resolution_s", 1.0),
        _ => None,
    };
    figures
}
