// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From series to samples: moment by moment, all CPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::import::counters::{self, CpuState, Differences, STATES, StateTimes};
use crate::import::frame::begin;
use crate::import::sample::{ImportSample, ImportSummary, Samples, count_warnings};
use crate::import::timeline::{Timeline, stamp};
use crate::number::NS_PER_S;
use crate::{BoxSteps, Error, Fault, Format, ProfileCell, ProfileHeader, Result};
use sandbag_linux::CpuList;
use sandbag_ui::quantity::Seconds;

use super::kind::{ENOUGH, MetricKind, TOO_MUCH, Whole, kind, times_too_fast, whole};
use super::labels::MODES;
use super::store::{MetricPoint, Modes, PointStore};

/// Counters are seconds with some decimals; they are compared in microseconds.
const PER_SECOND: f64 = 1e6;
/// A counter that falls by this much, in microseconds, was reset; the kernel
/// itself makes smaller falls.
const RESET: u64 = 3_000_000;
/// An interval this many times longer than usual is a pause, which a warning
/// reports. Its mean is kept: a profile that was written as series has steps of
/// any length.
const PAUSE: i64 = 5;
/// Where the greatest rate tells its unit: nearly all of the time is spent so.
const CERTAIN: std::ops::RangeInclusive<f64> = 0.5..=TOO_MUCH;
/// The same of percent, whose range the seconds of an increase() share.
const CERTAIN_PERCENT: std::ops::RangeInclusive<f64> = 0.9..=TOO_MUCH;
/// What an increase() extrapolates to may miss the time by this part.
const NEAR: f64 = 0.05;
const UNCERTAIN: &str = "the rates do not tell whether they are shares of the time, percent, sums or \
                         seconds (increase()): all loads may be wrong by a factor; ask for rate() \
                         of all modes";
/// A stamp below this does not count from 1970.
const DATED_NS: i64 = 500_000_000 * NS_PER_S as i64;

/// All values of a CPU at one time, by the number of the mode.
type ModeValues = [f64; STATES];

/// The least value: a rate in percent that is a difference may be a little below 0.
const LEAST: f64 = -1.0;

/// The recording as steps.
pub(super) fn steps(kept: PointStore, format: Format, file: &Arc<str>) -> Result<BoxSteps> {
    let fault = |fault: Fault| fault.at(file, None);
    let states: [bool; STATES] = std::array::from_fn(|mode| {
        kept.cpus
            .values()
            .any(|modes: &Modes| modes[mode].is_some())
    });
    let interval_ns = interval_ns(&kept).ok_or_else(|| fault(Fault::OneSnapshot))?;
    let all = || kept.cpus.values().flatten().flatten();
    let least = all().flatten().map(|point| point.value);
    let least = least.fold(0.0, f64::min);
    if least < LEAST {
        return Err(fault(Fault::out_of_range("a CPU's time in a mode", least)));
    }
    let kind = kind(all().map(Vec::as_slice), kept.named);
    let not_one_machine = apart(&kept.cpus, interval_ns).or_else(|| too_fast(&kept.cpus, kind));
    if let Some(text) = not_one_machine {
        return Err(fault(Fault::lacks(format, text)));
    }
    let cpus = kept.cpus.keys().copied().collect();
    let host = kept.machine.name().map(str::to_owned);
    let first_ns = all().map(|points| points[0].ns).min().unwrap_or(0);
    let begin_ns = match kind {
        MetricKind::Counters => first_ns,
        MetricKind::Rates { .. } => first_ns.saturating_sub(interval_ns),
    };
    let mut warnings = kept.warnings;
    if let Some(text) = kind.warning_text(kept.named) {
        warnings.push(text);
    }
    let (whole, told) = whole(&states, kept.cpus.values(), kind).map_err(fault)?;
    warnings.extend(told);
    if let MetricKind::Rates { unit } = kind
        && whole != Whole::Modes
    {
        let greatest = all().flatten().map(|point| point.value);
        let greatest = greatest.fold(0.0, f64::max);
        let step_s = interval_ns as f64 / NS_PER_S as f64;
        let certain = match unit {
            100.0 => {
                CERTAIN_PERCENT.contains(&(greatest / unit))
                    && (greatest - step_s).abs() > step_s * NEAR
            }
            _ => CERTAIN.contains(&(greatest / unit)),
        };
        warnings.extend((!certain).then(|| UNCERTAIN.to_owned()));
    }
    let repeats = match whole {
        // Their sum moves with every scrape.
        Whole::Modes => BTreeSet::new(),
        _ => all().flat_map(|points| repeats(points)).collect(),
    };
    warnings.extend(incomplete(&kept.cpus, &states));
    let about = ImportSummary {
        host,
        local: false,
        undated: begin_ns < DATED_NS,
        has_steal: states[CpuState::Steal as usize],
        warnings,
    };
    let header = ProfileHeader {
        cpus,
        format,
        host: about.host.clone(),
        begins_at: begin(&about, begin_ns),
        has_steal: about.has_steal,
    };
    let samples = MergedSamples {
        file: Arc::clone(file),
        columns: kept
            .cpus
            .into_iter()
            .map(|(cpu, modes)| CpuSeries::new(cpu, modes, &states))
            .collect(),
        about,
        kind,
        whole,
        repeats,
        interval_ns,
        differences: Differences::new(PER_SECOND as u64),
        last_ns: None,
        rows: 0,
        odd: Odd::default(),
    };
    Ok(Box::new(Timeline::new(
        Box::new(samples),
        header,
        begin_ns,
        None,
    )))
}

/// The usual time between two points: the median.
fn interval_ns(kept: &PointStore) -> Option<i64> {
    let all = kept.cpus.values().flatten().flatten();
    let longest = all.max_by_key(|points| points.len())?;
    usual_ns(longest.iter().map(|point| point.ns))
}

/// Why the series cannot be put side by side: most points of one lie between those of another,
/// so that no moment has values of all of them.
fn apart(cpus: &BTreeMap<u32, Modes>, interval_ns: i64) -> Option<String> {
    let series = cpus.iter().flat_map(|(cpu, modes)| {
        let modes = modes.iter().zip(MODES);
        modes.filter_map(move |(points, mode)| Some((format!("cpu{cpu} {mode}"), points.as_ref()?)))
    });
    let series: Vec<(String, &Vec<MetricPoint>)> = series.collect();
    let (first, most) = series.iter().rev().max_by_key(|(_, points)| points.len())?;
    let other = series.iter().find(|(_, points)| {
        let (mut shared, mut between) = (0, 0);
        for point in points.iter().take(ENOUGH) {
            match most.binary_search_by_key(&point.ns, |other| other.ns) {
                Ok(_) => shared += 1,
                Err(at) if at > 0 && at < most.len() => {
                    let near = most[at].ns - most[at - 1].ns <= interval_ns.saturating_mul(2);
                    between += usize::from(near);
                }
                Err(_) => {}
            }
        }
        between > shared
    });
    let (name, points) = other?;
    Some(format!(
        "the values of {name} have other times (the first {}) than those of {first} (the first \
         {}), so that there is none of all CPUs and modes at once; ask for them with a step, \
         which gives all the same times",
        stamp(points[0].ns),
        stamp(most[0].ns)
    ))
}

/// Why counters cannot be those of CPUs: they grow faster than time does.
fn too_fast(cpus: &BTreeMap<u32, Modes>, kind: MetricKind) -> Option<String> {
    if kind != MetricKind::Counters {
        return None;
    }
    let mut cpus = cpus.iter();
    let (cpu, times) = cpus.find_map(|(cpu, modes)| Some((cpu, times_too_fast(modes)?)))?;
    Some(format!(
        "the modes of cpu{cpu} together count {times:.1} s of CPU time in a second, more than a \
         CPU has: they are sums of several machines or CPUs, or no seconds; ask for the series \
         of one machine, and of each CPU"
    ))
}

/// The median of the times between moments.
fn usual_ns(moments: impl Iterator<Item = i64>) -> Option<i64> {
    let moments: Vec<i64> = moments.collect();
    let mut between: Vec<i64> = moments
        .windows(2)
        .map(|two| two[1].saturating_sub(two[0]))
        .collect();
    let middle = between.len() / 2;
    (!between.is_empty()).then(|| *between.select_nth_unstable(middle).1)
}

/// When a counter stood still before it moved by more than the wall time: the scrape before
/// is repeated there. Without all of the modes standing still alone says nothing, because
/// idle does on a CPU that is busy. Of a stretch of more than two usual times between moves
/// only the end is repeated: the rest was busy, and the scrape after it late. Where it is more
/// than that scrape can have been late by, or no points follow, scrapes failed: all are.
fn repeats(points: &[MetricPoint]) -> Vec<i64> {
    let moves: Vec<usize> = (1..points.len())
        .filter(|at| points[*at].value != points[at - 1].value)
        .collect();
    let usual_ns = usual_ns(moves.iter().map(|at| points[*at].ns)).unwrap_or(i64::MAX);
    let (mut all, mut last) = (Vec::new(), 0);
    for at in moves {
        let (before, now) = (points[at - 1], points[at]);
        let since_ns = |ns: i64| now.ns.saturating_sub(ns);
        let wall_s = since_ns(before.ns) as f64 / NS_PER_S as f64;
        let late_ns = usual_ns.saturating_mul(2);
        let moved_s = now.value - before.value;
        let failed = since_ns(before.ns) > late_ns || moved_s > late_ns as f64 / NS_PER_S as f64;
        if moved_s > wall_s * TOO_MUCH || failed {
            let still = points[last + 1..at].iter().map(|point| point.ns);
            all.extend(still.filter(|ns| failed || since_ns(*ns) < late_ns));
        }
        last = at;
    }
    // After the last move the next one has yet to come.
    if !all.is_empty() {
        let still = points[last + 1..].iter().map(|point| point.ns);
        let since_ns = |ns: i64| ns.saturating_sub(points[last].ns);
        all.extend(still.filter(|ns| since_ns(*ns) < usual_ns));
    }
    all
}

/// CPUs that lack modes that others have: the file may be cut short.
fn incomplete(cpus: &BTreeMap<u32, Modes>, states: &[bool; STATES]) -> Option<String> {
    let lacks = |modes: &Modes| (0..STATES).any(|mode| states[mode] && modes[mode].is_none());
    let lacking: CpuList = cpus
        .iter()
        .filter(|(_, modes)| lacks(modes))
        .map(|(cpu, _)| *cpu)
        .collect();
    (!lacking.is_empty()).then(|| {
        format!(
            "CPUs {lacking} have not all of the modes that others have; their load is unknown (the \
             file may be cut short)"
        )
    })
}

#[derive(Debug, Default)]
struct Odd {
    /// Samples that repeat the one before.
    held: u64,
    restarts: u64,
    pauses: u64,
    pause_ns: u64,
    /// Begin and length of the longest.
    longest_pause_ns: (i64, i64),
    /// CPUs without any time in any mode.
    nowhere: u64,
    too_much: u64,
}

/// The series of one CPU, and how far they are read.
struct CpuSeries {
    cpu: u32,
    modes: Modes,
    /// Whether some of the modes are missing altogether.
    incomplete: bool,
    next: [usize; STATES],
    /// At the time of the row that was read last.
    now: Option<ModeValues>,
    before: Option<ModeValues>,
}

impl CpuSeries {
    fn new(cpu: u32, modes: Modes, states: &[bool; STATES]) -> Self {
        Self {
            cpu,
            incomplete: (0..STATES).any(|mode| states[mode] && modes[mode].is_none()),
            modes,
            next: [0; STATES],
            now: None,
            before: None,
        }
    }

    fn heads(&self) -> impl Iterator<Item = &MetricPoint> {
        let modes = self.modes.iter().zip(&self.next);
        modes.filter_map(|(points, next)| points.as_ref()?.get(*next))
    }

    /// Reads the points of this time; without one in every mode nothing is
    /// known.
    fn read(&mut self, ns: i64) {
        let mut values = [0.0; STATES];
        let mut whole = !self.incomplete;
        for (mode, points) in self.modes.iter().enumerate() {
            let Some(points) = points else { continue };
            match points.get(self.next[mode]) {
                Some(point) if point.ns == ns => {
                    values[mode] = point.value;
                    self.next[mode] += 1;
                }
                _ => whole = false,
            }
        }
        self.now = whole.then_some(values);
    }
}

struct MergedSamples {
    file: Arc<str>,
    columns: Vec<CpuSeries>,
    about: ImportSummary,
    kind: MetricKind,
    whole: Whole,
    /// When scrapes are repeated if nothing moves, where some modes are missing.
    repeats: BTreeSet<i64>,
    interval_ns: i64,
    differences: Differences,
    last_ns: Option<i64>,
    rows: u64,
    odd: Odd,
}

impl MergedSamples {
    /// Reads all CPUs at the next time there is.
    fn row(&mut self) -> Option<i64> {
        let ns = self.columns.iter().flat_map(CpuSeries::heads).map(|p| p.ns);
        let ns = ns.min()?;
        for column in &mut self.columns {
            column.read(ns);
        }
        self.rows += 1;
        Some(ns)
    }

    /// Whether nothing moved anywhere since the sample before: Prometheus
    /// repeats a scrape until there is another.
    fn is_held(&self, ns: i64) -> bool {
        let mut known = self.columns.iter().filter(|c| c.now.is_some()).peekable();
        (self.whole == Whole::Modes || self.repeats.contains(&ns))
            && known.peek().is_some()
            && self.columns.iter().all(|c| c.now == c.before)
    }

    fn counters(&mut self, sample: &mut ImportSample) -> bool {
        loop {
            let Some(ns) = self.row() else { return false };
            let Some(last_ns) = self.last_ns else {
                self.keep(ns);
                continue;
            };
            if self.is_held(ns) {
                self.odd.held += 1;
                continue;
            }
            let wall_ns = ns - last_ns;
            if wall_ns > self.interval_ns.saturating_mul(PAUSE) {
                self.odd.pauses += 1;
                self.odd.pause_ns = self.odd.pause_ns.saturating_add(wall_ns as u64);
                if wall_ns > self.odd.longest_pause_ns.1 {
                    self.odd.longest_pause_ns = (last_ns, wall_ns);
                }
            }
            sample.start_ns = Some(last_ns);
            sample.end_ns = ns;
            sample.slack_ns = 0;
            for column in &self.columns {
                let (Some(before), Some(now)) = (&column.before, &column.now) else {
                    sample.cells.push((column.cpu, None));
                    continue;
                };
                let (before, now) = (ticks(before), ticks(now));
                let cell = if fell(&before, &now, self.whole) {
                    self.odd.restarts += 1;
                    None
                } else if self.whole == Whole::Modes {
                    self.differences.cell(&before, &now)
                } else {
                    let spent = std::array::from_fn(|mode| {
                        now[mode].saturating_sub(before[mode]) as f64 / PER_SECOND
                    });
                    let wall_s = wall_ns as f64 / NS_PER_S as f64;
                    Some(of_wall(&spent, wall_s, self.whole, &mut self.odd))
                };
                sample.cells.push((column.cpu, cell));
            }
            self.keep(ns);
            return true;
        }
    }

    /// This row is what the next is compared with.
    fn keep(&mut self, ns: i64) {
        self.last_ns = Some(ns);
        for column in &mut self.columns {
            column.before = column.now.take();
        }
    }

    fn rates(&mut self, unit: f64, sample: &mut ImportSample) -> bool {
        let Some(ns) = self.row() else { return false };
        sample.start_ns = Some(ns.saturating_sub(self.interval_ns));
        sample.end_ns = ns;
        sample.slack_ns = self.interval_ns / 2;
        for column in &self.columns {
            let cell = column.now.as_ref().and_then(|rates| {
                // What is extrapolated can pass below 0 by a rounding.
                let rates: ModeValues = rates.map(|rate| rate.max(0.0));
                let total: f64 = rates.iter().sum();
                if total == 0.0 && self.whole == Whole::Modes {
                    self.odd.nowhere += 1;
                    return None;
                }
                let of = |state: CpuState| rates[state as usize];
                Some(match self.whole {
                    Whole::Modes => {
                        let unused = of(CpuState::Idle) + of(CpuState::Iowait);
                        counters::cell(unused, of(CpuState::Steal), total)
                    }
                    wall => of_wall(&rates, unit, wall, &mut self.odd),
                })
            });
            sample.cells.push((column.cpu, cell));
        }
        true
    }
}

/// As whole microseconds, waiting for I/O as idle. What is negative is none that ever counted.
fn ticks(values: &ModeValues) -> StateTimes {
    counters::with_iowait_as_idle(values.map(|value| (value * PER_SECOND).round() as u64))
}

/// Whether the counters began anew. Their sum never falls otherwise, whatever
/// the kernel corrects; where it is not known only a deep fall tells.
fn fell(before: &StateTimes, now: &StateTimes, whole: Whole) -> bool {
    let sum = |all: &StateTimes| all.iter().fold(0u64, |sum, one| sum.saturating_add(*one));
    let deep = before
        .iter()
        .zip(now)
        .any(|(before, now)| before.saturating_sub(*now) >= RESET);
    let idle = CpuState::Idle as usize;
    match whole {
        Whole::Modes => deep || sum(now) < sum(before),
        // All that idle is not counts as busy.
        Whole::WallLessIdle => deep || now[idle] < before[idle],
        Whole::WallLessBusy => deep,
    }
}

/// The load where the modes do not add up to all of the time, so that the
/// wall's must do.
fn of_wall(spent: &ModeValues, wall: f64, whole: Whole, odd: &mut Odd) -> ProfileCell {
    let of = |state: CpuState| spent[state as usize];
    let steal = of(CpuState::Steal).min(wall);
    let unused = match whole {
        Whole::WallLessBusy => {
            let unused = of(CpuState::Idle) + of(CpuState::Iowait);
            let used = spent.iter().sum::<f64>() - unused - of(CpuState::Steal);
            odd.too_much += u64::from(used + steal > wall * TOO_MUCH);
            (wall - steal - used).max(0.0)
        }
        _ => {
            let unused = of(CpuState::Idle) + of(CpuState::Iowait);
            odd.too_much += u64::from(unused + steal > wall * TOO_MUCH);
            unused
        }
    };
    counters::cell(unused, steal, wall)
}

impl Samples for MergedSamples {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        sample.cells.clear();
        Ok(match self.kind {
            MetricKind::Counters => self.counters(sample),
            MetricKind::Rates { unit, .. } => self.rates(unit, sample),
        })
    }

    fn about(&self) -> ImportSummary {
        let odd = &self.odd;
        let mut warnings = self.about.warnings.clone();
        warnings.extend(self.differences.warnings());
        warnings.extend(count_warnings([(
            odd.restarts,
            "in {} samples a CPU's counters began anew (a restart, or a pause in what was \
             recorded); its load is unknown there",
        )]));
        if odd.held > 0 {
            warnings.push(format!(
                "{} of {} samples repeat the one before and were joined with the one after: the \
                 step asked for, {}, is not longer than the time between two scrapes; ask \
                 without a step, by a range selector, for the scrapes themselves",
                odd.held,
                self.rows,
                Seconds(self.interval_ns as u64)
            ));
        }
        if odd.pauses > 0 {
            let (at_ns, length_ns) = odd.longest_pause_ns;
            warnings.push(format!(
                "{} times nothing was scraped for more than {PAUSE} times as long as usual, {} \
                 in all, the longest at {} for {}; there the load is the mean over the pause",
                odd.pauses,
                Seconds(odd.pause_ns),
                stamp(at_ns),
                Seconds(length_ns as u64)
            ));
        }
        warnings.extend(count_warnings([
            (
                odd.nowhere,
                "in {} samples all modes of a CPU are 0; its load is unknown there",
            ),
            (
                odd.too_much,
                "in {} samples a CPU spent more time than there was (a step that is shorter than \
                 the time between two scrapes?); its load was clipped",
            ),
        ]));
        ImportSummary {
            host: self.about.host.clone(),
            warnings,
            ..self.about
        }
    }

    fn here(&self, fault: Fault) -> Error {
        fault.at(&self.file, None)
    }
}
