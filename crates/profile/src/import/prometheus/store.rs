// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The series of one machine, held in memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::import::counters::STATES;
use crate::import::sample::count_warnings;
use crate::import::timeline::stamp;
use crate::number::cpu_number;
use crate::{Fault, Format};

use super::labels::{Answers, Labels, MODES, MachineLabels, Mode, OtherLabels, is_counter, mode};

/// 1 GiB. A day of 64 CPUs in steps of 15 s has 3 million.
const MAX_VALUES: usize = 64 << 20;
/// How many machines and metrics are remembered for a message.
const REMEMBERED: usize = 1000;
/// The most machines to choose from, as of a trace.
const MOST_MACHINES: usize = 1 << 20;
const LISTED: usize = 5;
/// The most series that follow each other for one CPU and mode.
const MAX_PARTS: usize = 1000;

const NEED_LABELS: &str =
    "keep the labels cpu and mode, as in `sum by (instance, cpu, mode) (...)`";

/// A value and when it was so, ns since 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MetricPoint {
    pub(super) ns: i64,
    pub(super) value: f64,
}

/// The points of one CPU by the number of the mode; `None` where the mode is
/// not there.
pub(super) type Modes = [Option<Vec<MetricPoint>>; STATES];

/// Where a point belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PointKey {
    cpu: u32,
    mode: usize,
    part: usize,
}

/// A series of one CPU and mode. Another one, with other labels, may follow it in time.
struct SeriesPart {
    name: String,
    labels: OtherLabels,
    points: Vec<MetricPoint>,
}

impl SeriesPart {
    fn text(&self) -> String {
        format!("{}{}", self.name, self.labels)
    }
}

/// Takes in series, in any order, and keeps those of one machine.
#[derive(Default)]
pub(super) struct Store {
    wanted: Option<String>,
    /// How well the machine that is kept answers to the wanted name.
    best: Answers,
    /// Machines that answer as well; a profile is of one.
    machines: BTreeSet<MachineLabels>,
    /// All there are.
    known: BTreeSet<MachineLabels>,
    cpus: BTreeMap<u32, [Vec<SeriesPart>; STATES]>,
    values: usize,
    /// Whether a series is called as a counter is.
    pub(super) named: bool,
    /// Values that are none.
    pub(super) unknown: u64,
    /// Other values for a time that had one.
    pub(super) duplicates: u64,
    guests: u64,
    /// A mode that means nothing here.
    odd_mode: Option<String>,
    without_cpu: u64,
    /// Names of series that are no CPU time.
    passed: BTreeSet<String>,
}

pub(super) struct PointStore {
    pub(super) machine: MachineLabels,
    pub(super) cpus: BTreeMap<u32, Modes>,
    pub(super) warnings: Vec<String>,
    pub(super) named: bool,
}

impl Store {
    pub(super) fn new(wanted: Option<&str>) -> Self {
        Self {
            wanted: wanted.map(str::to_owned),
            ..Self::default()
        }
    }

    /// A series of some other metric.
    pub(super) fn pass(&mut self, name: &str) {
        if self.passed.len() < REMEMBERED && !self.passed.contains(name) {
            self.passed.insert(name.to_owned());
        }
    }

    /// Where the points of a series go; `None` if they are not wanted.
    pub(super) fn series(&mut self, labels: Labels) -> Result<Option<PointKey>, Fault> {
        let name = labels.name.as_deref().unwrap_or("a series without a name");
        let Some(mode_name) = labels.mode.as_deref() else {
            self.pass(name);
            return Ok(None);
        };
        if name.starts_with("node_cpu_guest") {
            self.guests += 1;
            return Ok(None);
        }
        let state = match mode(mode_name) {
            Mode::Known(state) => state as usize,
            Mode::Guest => {
                self.guests += 1;
                return Ok(None);
            }
            Mode::Unknown => {
                self.odd_mode.get_or_insert_with(|| mode_name.to_owned());
                return Ok(None);
            }
        };
        let Some(cpu) = labels.cpu.as_deref() else {
            self.without_cpu += 1;
            return Ok(None);
        };
        // `cpu0` before version 0.16.
        let digits = cpu.strip_prefix("cpu").unwrap_or(cpu);
        let cpu = cpu_number(digits.as_bytes())
            .ok_or_else(|| Fault::syntax("the number of a CPU as label `cpu`", cpu.as_bytes()))?;
        if !self.takes(&labels.machine) {
            return Ok(None);
        }
        self.named |= is_counter(name);
        let parts = &mut self.cpus.entry(cpu).or_default()[state];
        let same = |part: &SeriesPart| part.name == name && part.labels == labels.others;
        let known = parts.iter().position(same);
        let part = known.unwrap_or(parts.len());
        if known.is_none() {
            let new = SeriesPart {
                name: name.to_owned(),
                labels: labels.others,
                points: Vec::new(),
            };
            // Without its instance it may be of another machine.
            let follows = |before: &SeriesPart| {
                before.name == name && labels.machine.instance.is_some() && part < MAX_PARTS
            };
            if let Some(before) = parts.first().filter(|before| !follows(before)) {
                return Err(several_series(cpu, state, before, &new));
            }
            parts.push(new);
        }
        Ok(Some(PointKey {
            cpu,
            mode: state,
            part,
        }))
    }

    /// Whether it is the machine that is kept, as far as is known by now.
    fn takes(&mut self, machine: &MachineLabels) -> bool {
        if self.known.len() < REMEMBERED && !self.known.contains(machine) {
            self.known.insert(machine.clone());
        }
        let Some(answers) = machine.answers(self.wanted.as_deref()) else {
            return false;
        };
        if answers > self.best && !self.machines.is_empty() {
            return false;
        }
        if answers < self.best {
            self.machines.clear();
            self.cpus.clear();
            self.values = 0;
            self.named = false;
        }
        self.best = answers;
        if !self.machines.contains(machine) && self.machines.len() < MOST_MACHINES {
            self.machines.insert(machine.clone());
        }
        if self.machines.len() > 1 {
            // It will be asked which; nothing more is kept.
            self.cpus.clear();
            self.values = 0;
            return false;
        }
        true
    }

    /// A point of a series. Points come in the order of their times, also
    /// where a series goes on in a later document.
    pub(super) fn point(&mut self, at: PointKey, point: MetricPoint) -> Result<(), Fault> {
        let modes = self.cpus.get_mut(&at.cpu);
        let Some(part) = modes.and_then(|modes| modes[at.mode].get_mut(at.part)) else {
            return Ok(());
        };
        if !point.value.is_finite() {
            self.unknown += 1;
            return Ok(());
        }
        let points = &mut part.points;
        match points.last() {
            Some(last) if point.ns < last.ns => {
                return Err(Fault::TimesGoBack {
                    now: seconds(point.ns),
                    last: seconds(last.ns),
                    remedy: "; put what was asked for in parts in the order of its times",
                });
            }
            // Two parts may share the moment between them.
            Some(last) if point.ns == last.ns => {
                self.duplicates += u64::from(point.value != last.value);
                return Ok(());
            }
            _ => {}
        }
        if self.values == MAX_VALUES {
            return Err(Fault::TooManyValues(MAX_VALUES));
        }
        self.values += 1;
        points.push(point);
        Ok(())
    }

    /// The one machine.
    pub(super) fn finish(self, format: Format) -> Result<PointStore, Fault> {
        if self.machines.len() > 1 {
            return Err(choice_fault(&self.machines, None));
        }
        let mut warnings = self.warnings();
        let Some(machine) = self.machines.into_iter().next() else {
            return Err(match self.wanted {
                Some(wanted) if !self.known.is_empty() => choice_fault(&self.known, Some(wanted)),
                _ if self.without_cpu > 0 => Fault::NoSingleCpu(NEED_LABELS),
                _ => Fault::lacks(format, empty_text(&self.passed, self.odd_mode.as_deref())),
            });
        };
        let mut cpus = BTreeMap::new();
        let mut joints = Joints::default();
        for (cpu, modes) in self.cpus {
            let mut joined = Modes::default();
            for (mode, parts) in modes.into_iter().enumerate() {
                joined[mode] = join(parts, &mut joints)
                    .map_err(|two| several_series(cpu, mode, &two.0, &two.1))?;
            }
            if joined.iter().any(Option::is_some) {
                cpus.insert(cpu, joined);
            }
        }
        warnings.extend(joints.warning());
        Ok(PointStore {
            machine,
            cpus,
            warnings,
            named: self.named,
        })
    }

    fn warnings(&self) -> Vec<String> {
        let mut all = count_warnings([
            (
                self.unknown,
                "{} values are NaN or infinite and count as not there",
            ),
            (
                self.duplicates,
                "{} values have the time of the one before them and were left out",
            ),
            (
                self.guests,
                "{} series of guest time were left out; user and nice contain it",
            ),
        ]);
        if let Some(mode) = &self.odd_mode {
            all.push(format!(
                "series with modes that are not known here, such as {mode}, were left out"
            ));
        }
        all
    }
}

fn several_series(cpu: u32, mode: usize, first: &SeriesPart, second: &SeriesPart) -> Fault {
    Fault::SeveralSeries {
        of: format!("cpu{cpu} {}", MODES[mode]),
        first: first.text(),
        second: second.text(),
    }
}

/// Where one series ended and another, with other labels, went on.
#[derive(Default)]
struct Joints {
    times_ns: BTreeSet<i64>,
    /// What is different in the labels before and after the first one.
    labels: Option<(OtherLabels, OtherLabels)>,
}

impl Joints {
    fn add(&mut self, before: &SeriesPart, part: &SeriesPart, ns: i64) {
        if self.times_ns.first().is_none_or(|first| ns < *first) {
            let (old, new) = (&before.labels, &part.labels);
            self.labels = Some((old.without(new), new.without(old)));
        }
        self.times_ns.insert(ns);
    }

    fn warning(&self) -> Option<String> {
        let (old, new) = self.labels.as_ref()?;
        Some(format!(
            "its series got other labels {} times and were joined; the first time, at {}, {old} \
             became {new}",
            self.times_ns.len(),
            stamp(*self.times_ns.first()?),
        ))
    }
}

/// The points of series of one CPU and mode of which each begins after the one before ended:
/// an exporter that was started anew may have another label `pod`, and the kernel's counters
/// went on. Series that overlap are the error.
fn join(
    mut parts: Vec<SeriesPart>,
    joints: &mut Joints,
) -> Result<Option<Vec<MetricPoint>>, Box<(SeriesPart, SeriesPart)>> {
    parts.retain(|part| !part.points.is_empty());
    parts.sort_by_key(|part| part.points[0].ns);
    let mut parts = parts.into_iter();
    let Some(mut joined) = parts.next() else {
        return Ok(None);
    };
    for part in parts {
        let begin_ns = part.points[0].ns;
        if joined.points.last().is_some_and(|last| last.ns >= begin_ns) {
            return Err(Box::new((joined, part)));
        }
        joints.add(&joined, &part, begin_ns);
        joined.labels = part.labels;
        joined.points.extend(part.points);
    }
    Ok(Some(joined.points))
}

fn seconds(ns: i64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}

fn choice_fault(machines: &BTreeSet<MachineLabels>, asked: Option<String>) -> Fault {
    let names: Vec<String> = machines.iter().map(MachineLabels::to_string).collect();
    let first = names[..names.len().min(LISTED)].join(", ");
    let known = match names.len() {
        1 => format!("there is one machine, {first}"),
        n if n <= LISTED => format!("there are {n} machines, {first}"),
        n @ (REMEMBERED | MOST_MACHINES) => format!("there are {n} machines or more, {first} ..."),
        n => format!("there are {n} machines, {first} ..."),
    };
    let name = |machine: &MachineLabels| machine.name().unwrap_or_default().to_owned();
    Fault::WhichMachine {
        known,
        asked,
        names: machines.iter().map(name).collect(),
    }
}

/// Why nothing was kept.
fn empty_text(passed: &BTreeSet<String>, odd_mode: Option<&str>) -> String {
    if let Some(mode) = odd_mode {
        return format!("mode {mode} and others that it has are not known here");
    }
    if passed.is_empty() {
        return "it holds no series; check the labels and the time that were asked for".into();
    }
    let names: Vec<&str> = passed.iter().map(String::as_str).take(LISTED).collect();
    let more = if passed.len() > LISTED { " ..." } else { "" };
    format!(
        "it holds no series of node_cpu_seconds_total with labels cpu and mode, but {}{more}",
        names.join(", ")
    )
}
