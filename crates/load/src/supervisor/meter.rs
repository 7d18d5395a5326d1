// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes windows of what burners noted and the kernel counted. Pure apart
//! from the memory it keeps: what belongs to windows that are not finished.
//!
//! Every moment of the run's clock is in a window. Burners note their own
//! clocks, so a supervisor that did not run for a while knows afterwards what
//! they took; of the kernel's counters it has a mean only. What is not known
//! afterwards either is a hole.

use std::collections::VecDeque;

use sandbag_linux::procstat::{CpuDelta, CpuTimes, without_steal};
use sandbag_stats::Window;
use sandbag_stats::verdict::NOISY_STEAL_PCT;
use sandbag_stats::window::share_pct;

use super::steal::StealEstimate;
use super::timeline::{LoadPiece, RequestedLoads, RunClock};
use crate::board::BOUNDARY_NS;

pub const WINDOW_NS: u64 = 1_000_000_000;

/// The kernel's counters at one moment.
#[derive(Debug, Clone, Default)]
pub struct CounterSample {
    /// When they were read, monotonic.
    pub at_ns: u64,
    /// `/proc/stat` of each loaded CPU; `None` while it is offline.
    pub times: Vec<Option<CpuTimes>>,
    /// CPU time of the command on each loaded CPU, where it is known.
    pub command_ns: Option<Vec<Option<u64>>>,
    /// Stolen time is contained in that.
    pub counts_steal: bool,
    /// CPU time of the node's programs on all CPUs, where it is not known of each.
    pub program_ns: Option<u64>,
    /// CPU time of the parts of this run that are runs of their own, on each CPU.
    pub beside_ns: Option<Vec<u64>>,
    /// CPU time of the process that slows a node as a whole, on each CPU.
    pub throttle_ns: Option<Vec<u64>>,
}

/// What grew between two samples.
fn growth(now: Option<&Vec<u64>>, before: Option<&Vec<u64>>) -> Option<Vec<u64>> {
    let pairs = now?.iter().zip(before?);
    Some(
        pairs
            .map(|(now, before)| now.saturating_sub(*before))
            .collect(),
    )
}

/// What the kernel counted between two samples.
#[derive(Debug)]
struct Interval {
    from_ns: u64,
    to_ns: u64,
    cpus: Vec<Option<CpuDelta>>,
    /// Empty where it is not known of any CPU.
    command_ns: Vec<Option<u64>>,
    program_ns: Option<u64>,
    beside_ns: Option<Vec<u64>>,
    throttle_ns: Option<Vec<u64>>,
}

impl Interval {
    fn between(before: &CounterSample, after: &CounterSample, tick_ns: u64) -> Self {
        let delta = |(now, before): (&Option<CpuTimes>, &Option<CpuTimes>)| {
            let (now, before) = (*now).zip(*before)?;
            Some(now.since(&before, tick_ns))
        };
        let pairs = after.times.iter().zip(&before.times);
        let cpus: Vec<Option<CpuDelta>> = pairs.map(delta).collect();
        let commands = after.command_ns.iter().zip(&before.command_ns);
        let mut command_ns: Vec<Option<u64>> = commands
            .flat_map(|(now, before)| now.iter().zip(before))
            .map(|(now, before)| Some((*now)?.saturating_sub((*before)?)))
            .collect();
        if after.counts_steal {
            let length_ns = after.at_ns - before.at_ns;
            for (own_ns, delta) in command_ns.iter_mut().zip(&cpus) {
                if let (Some(own_ns), Some(delta)) = (own_ns, delta) {
                    let not_idle_ns = length_ns.saturating_sub(delta.idle_ns);
                    *own_ns = without_steal(*own_ns, delta.steal_ns, not_idle_ns);
                }
            }
        }
        Self {
            from_ns: before.at_ns,
            to_ns: after.at_ns,
            cpus,
            command_ns,
            program_ns: after
                .program_ns
                .zip(before.program_ns)
                .map(|(now, before)| now.saturating_sub(before)),
            beside_ns: growth(after.beside_ns.as_ref(), before.beside_ns.as_ref()),
            throttle_ns: growth(after.throttle_ns.as_ref(), before.throttle_ns.as_ref()),
        }
    }

    fn overlap_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let end = self.to_ns.min(to_ns);
        end.saturating_sub(self.from_ns.max(from_ns))
    }

    /// Too long to say in which part of it time was stolen, and enough was
    /// stolen for that to change an answer.
    fn hides_steal(&self, cpu: usize) -> bool {
        let length_ns = self.to_ns - self.from_ns;
        let stolen_ns = self
            .cpus
            .get(cpu)
            .copied()
            .flatten()
            .map_or(0, |d| d.steal_ns);
        length_ns > WINDOW_NS * 3 / 2 && share_pct(stolen_ns, length_ns) > NOISY_STEAL_PCT
    }
}

/// What the kernel counted in a window.
#[derive(Debug, Default)]
struct WindowCounts {
    steal_ns: f64,
    busy_ns: Option<f64>,
    command_ns: Option<f64>,
    covered_ns: u64,
    unknown: bool,
    /// Most time that may have been stolen, where it is not known when it was.
    hidden_steal_ns: Option<u64>,
}

/// What the burners of one CPU took between two boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurnerTime {
    pub ns: u64,
    /// Steal that the burners saw while they ran, ns.
    pub stolen_ns: u64,
    pub hole: bool,
}

/// Where finished windows go: first the ten (or fewer) short ones, then the
/// window that they make up.
pub trait Windows {
    /// A window of [`BOUNDARY_NS`]; the steal of its second is spread evenly.
    fn short(&mut self, window: &Window);
    /// A window of `WINDOW_NS`, or the rest at the end of a run.
    fn whole(&mut self, window: &Window);
    /// The same of a hole that is one only because it is not known when time was stolen.
    fn hiding_steal(&mut self, window: &Window) {
        self.whole(window);
    }
    /// Before the windows of all CPUs: CPU time of the node's programs in them together, where
    /// it is not known of each CPU.
    fn programs(&mut self, _used_ns: Option<u64>) {}
}

/// Assembles windows.
#[derive(Debug)]
pub struct Meter {
    cpus: Vec<u32>,
    tick_ns: u64,
    asked: RequestedLoads,
    last: Option<CounterSample>,
    intervals: VecDeque<Interval>,
    /// Run time at which the next window begins.
    next_ns: u64,
    /// Run time of a pause, and how long the program ran in it.
    unloaded: Vec<(u64, u64)>,
    steal: Vec<StealEstimate>,
    latest: Vec<Option<Window>>,
    /// CPU time of the node's programs in these, where it is not known of each CPU.
    latest_program_ns: Option<u64>,
    /// CPU time of the other parts of the run so far, where there are any.
    beside_ns: Vec<Option<u64>>,
}

/// Time without counters, or of a program without its load, that a window may
/// contain: what signals and wake-ups take.
const SLACK_NS: u64 = BOUNDARY_NS;
/// A counter that falls by no more is a race of the kernel's bookkeeping, ticks.
const RACE_TICKS: u64 = 2;

impl Meter {
    pub fn new(cpus: Vec<u32>, tick_ns: u64) -> Self {
        Self {
            steal: vec![StealEstimate::default(); cpus.len()],
            latest: vec![None; cpus.len()],
            latest_program_ns: None,
            beside_ns: vec![None; cpus.len()],
            cpus,
            tick_ns,
            asked: RequestedLoads::default(),
            last: None,
            intervals: VecDeque::new(),
            next_ns: 0,
            unloaded: Vec::new(),
        }
    }

    pub fn ask(&mut self, piece: LoadPiece) {
        self.asked.push(piece);
    }

    /// From its start on this piece is asked, and nothing of what was announced.
    pub fn set(&mut self, piece: LoadPiece) {
        self.asked.set(piece);
    }

    /// CPU time of the other parts of the run on a CPU, by index, pauses left out.
    pub fn beside_ns(&self, cpu: usize) -> Option<u64> {
        self.beside_ns.get(cpu).copied().flatten()
    }

    pub fn latest(&self, cpu: usize) -> Option<&Window> {
        self.latest.get(cpu)?.as_ref()
    }

    /// CPU time of the node's programs in the latest windows, where it is not known of each CPU.
    pub fn latest_program_ns(&self) -> Option<u64> {
        self.latest_program_ns
    }

    /// Adds the kernel's counters. They may be read at any time: a window
    /// gets its part of what was counted between two samples.
    pub fn sample(&mut self, sample: CounterSample) {
        if let Some(last) = &self.last
            && sample.at_ns > last.at_ns
        {
            let interval = Interval::between(last, &sample, self.tick_ns);
            let beside = interval.beside_ns.iter().flatten();
            for (sum, ns) in self.beside_ns.iter_mut().zip(beside) {
                *sum = Some(sum.unwrap_or(0) + ns);
            }
            self.intervals.push_back(interval);
        }
        self.last = Some(sample);
    }

    /// Share of the CPU (by index) that was certainly idle between the last two samples, 0
    /// to 1: what the kernel counted may be a tick too much at either end. `None` if they
    /// tell of more than a moment ago: a supervisor that is late has not seen what came since.
    pub fn idle_share(&self, cpu: usize, now_ns: u64) -> Option<f64> {
        let last = self.intervals.back()?;
        if now_ns.saturating_sub(last.from_ns) > WINDOW_NS * 3 / 2 {
            return None;
        }
        let delta = last.cpus.get(cpu)?.filter(|delta| !self.fell(delta))?;
        let idle_ns = delta.idle_ns.saturating_sub(2 * self.tick_ns);
        Some(idle_ns as f64 / (last.to_ns - last.from_ns) as f64)
    }

    /// Whether a counter fell, so that the idle time is not known. Kernels without commit
    /// 71fee48fb772 (6.8) begin to count it anew for a CPU that was offline, as in a suspend.
    fn fell(&self, delta: &CpuDelta) -> bool {
        delta.back_ns > RACE_TICKS * self.tick_ns
    }

    /// The run stood still at this run time. The sample before it was
    /// [added](Self::sample), `after` is the one at its end; `unloaded_ns` is
    /// the CPU time that the program used in between, when it should have
    /// been stopped: the load was absent for as long.
    pub fn pause(&mut self, run_ns: u64, after: CounterSample, unloaded_ns: u64) {
        self.last = Some(after);
        // As in the clock, a pause belongs to the window that it ends.
        self.unloaded.push((run_ns.max(1), unloaded_ns));
    }

    /// Makes the windows of [`WINDOW_NS`] that end by the run time `until_ns`,
    /// and of the rest before it another if it is the `end`. `taken` says what
    /// the burners of a CPU (by index) took between two run times.
    pub fn finish(
        &mut self,
        clock: &RunClock,
        until_ns: u64,
        end: bool,
        mut taken: impl FnMut(usize, u64, u64) -> BurnerTime,
        out: &mut dyn Windows,
    ) {
        while self.next_ns < until_ns {
            let (from, to) = (self.next_ns, (self.next_ns + WINDOW_NS).min(until_ns));
            if to < from + WINDOW_NS && !end {
                return;
            }
            self.latest_program_ns =
                self.program_ns(clock.monotonic_ns(from), clock.monotonic_ns(to));
            out.programs(self.latest_program_ns);
            for cpu in 0..self.cpus.len() {
                self.window(cpu, clock, (from, to), &mut taken, out);
            }
            self.next_ns = to;
            self.asked.forget_before(to);
            self.unloaded.retain(|(at, _)| *at > to);
            let to = clock.monotonic_ns(to);
            self.intervals.retain(|interval| interval.to_ns > to);
        }
    }

    /// CPU time that the program used in pauses between two run times.
    fn unloaded_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let within = |(run, _): &&(u64, u64)| from_ns < *run && *run <= to_ns;
        self.unloaded.iter().filter(within).map(|(_, ns)| ns).sum()
    }

    /// CPU time of the node's programs between two times (monotonic), where it is known of
    /// all CPUs together.
    fn program_ns(&self, from_ns: u64, to_ns: u64) -> Option<u64> {
        let parts = self.intervals.iter().filter_map(|interval| {
            let overlap = interval.overlap_ns(from_ns, to_ns);
            let share = overlap as f64 / (interval.to_ns - interval.from_ns) as f64;
            (overlap > 0).then(|| interval.program_ns.map(|ns| ns as f64 * share))
        });
        let parts = parts.collect::<Option<Vec<f64>>>()?;
        (!parts.is_empty()).then(|| parts.iter().sum::<f64>().round() as u64)
    }

    fn window_counts(&self, cpu: usize, from_ns: u64, to_ns: u64) -> WindowCounts {
        let mut counted = WindowCounts {
            busy_ns: Some(0.0),
            command_ns: Some(0.0),
            ..WindowCounts::default()
        };
        for interval in &self.intervals {
            let overlap = interval.overlap_ns(from_ns, to_ns);
            if overlap == 0 {
                continue;
            }
            let share = overlap as f64 / (interval.to_ns - interval.from_ns) as f64;
            let Some(delta) = interval.cpus.get(cpu).copied().flatten() else {
                counted.unknown = true;
                continue;
            };
            counted.covered_ns += overlap;
            if interval.hides_steal(cpu) {
                let before_ns = counted.hidden_steal_ns.unwrap_or(0);
                counted.hidden_steal_ns = Some(before_ns + delta.steal_ns);
            }
            counted.steal_ns += delta.steal_ns as f64 * share;
            // By the idle time, which kernels without a tick in idle keep
            // exactly. Busy ticks are samples on many: a burner with a period
            // of 10 ms is seen always or never.
            let length_ns = (interval.to_ns - interval.from_ns) as f64;
            let busy_ns = length_ns - delta.idle_ns as f64 - delta.steal_ns as f64;
            let ours = [&interval.beside_ns, &interval.throttle_ns];
            let ours = ours.into_iter().flatten().filter_map(|all| all.get(cpu));
            let ours_ns = ours.sum::<u64>() as f64;
            let known = counted.busy_ns.filter(|_| !self.fell(&delta));
            counted.busy_ns = known.map(|sum| sum + (busy_ns - ours_ns) * share);
            let command = interval.command_ns.get(cpu).copied().flatten();
            let both = counted.command_ns.zip(command);
            counted.command_ns = both.map(|(sum, ns)| sum + ns as f64 * share);
        }
        counted
    }

    fn window(
        &mut self,
        cpu: usize,
        clock: &RunClock,
        (from_ns, to_ns): (u64, u64),
        taken: &mut impl FnMut(usize, u64, u64) -> BurnerTime,
        out: &mut dyn Windows,
    ) {
        let of_clock = clock.length_ns(from_ns, to_ns);
        let unloaded_ns = self.unloaded_ns(from_ns, to_ns);
        let length_ns = of_clock + unloaded_ns;
        let counted =
            self.window_counts(cpu, clock.monotonic_ns(from_ns), clock.monotonic_ns(to_ns));
        let parts: Vec<(u64, u64, BurnerTime)> = (from_ns..to_ns)
            .step_by(BOUNDARY_NS as usize)
            .map(|start| (start, (start + BOUNDARY_NS).min(to_ns)))
            // What is taken of a part that ends between two boundaries, as the last of a
            // run may, is noted at the next one; after that end nothing is taken.
            .map(|(start, end)| {
                let noted_ns = end.next_multiple_of(BOUNDARY_NS);
                (start, end, taken(cpu, start, noted_ns))
            })
            .collect();
        let burner_ns: u64 = parts.iter().map(|(_, _, part)| part.ns).sum();
        let seen_ns = parts.iter().map(|(_, _, part)| part.stolen_ns).sum();
        let covered = !counted.unknown && counted.covered_ns + SLACK_NS >= of_clock;
        let known = covered && counted.hidden_steal_ns.is_none();
        let absent = |part: &BurnerTime| part.hole || !covered || unloaded_ns > SLACK_NS;
        let hole = |part: &BurnerTime| absent(part) || !known;
        let steal_ns = self.steal[cpu]
            .add(
                counted.steal_ns.round() as u64,
                seen_ns,
                burner_ns as f64 / length_ns as f64,
                self.tick_ns,
            )
            .min(length_ns);
        for (start_ns, end_ns, part) in &parts {
            let (start_ns, end_ns) = (*start_ns, *end_ns);
            let part_ns = clock.length_ns(start_ns, end_ns) + self.unloaded_ns(start_ns, end_ns);
            let steal = u128::from(steal_ns) * u128::from(part_ns) / u128::from(length_ns);
            out.short(&Window {
                cpu: self.cpus[cpu],
                start_ns,
                length_ns: part_ns,
                asked_pct: self.asked.mean_pct(cpu, start_ns, end_ns),
                burner_ns: part.ns,
                steal_ns: steal as u64,
                busy_ns: None,
                command_ns: None,
                hole: hole(part),
            });
        }
        let whole = Window {
            cpu: self.cpus[cpu],
            start_ns: from_ns,
            length_ns,
            asked_pct: self.asked.mean_pct(cpu, from_ns, to_ns),
            burner_ns,
            steal_ns,
            busy_ns: counted
                .busy_ns
                .filter(|_| known)
                .map(|ns| ns.max(0.0).round() as u64),
            command_ns: counted
                .command_ns
                .filter(|_| known)
                .map(|ns| ns.round() as u64),
            hole: parts.iter().any(|(_, _, part)| hole(part)),
        };
        // Half of the load was there, whenever the time was stolen.
        let least_ns = length_ns.saturating_sub(counted.hidden_steal_ns.unwrap_or(0));
        let was_there = burner_ns as f64 >= whole.asked_pct / 200.0 * least_ns as f64;
        let is_absent = parts.iter().any(|(_, _, part)| absent(part));
        if whole.hole && was_there && !is_absent {
            out.hiding_steal(&whole);
        } else {
            out.whole(&whole);
        }
        self.latest[cpu] = Some(whole);
    }
}

#[cfg(test)]
mod absence;

#[cfg(test)]
mod tests;
