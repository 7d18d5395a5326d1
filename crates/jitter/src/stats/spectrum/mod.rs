// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Periodic components of the events of a CPU.
//!
//! There are two spectra: of the starts of events, each with weight 1, and of the noise,
//! each with its length as weight. The power at a frequency is
//! `|sum w exp(-2 pi i f t)|^2 / sum w^2`: 1 in the mean for events at random times
//! (Poisson), and exponentially distributed, at every frequency. Unknown time is masked, and
//! the contribution of the mean rate within the known time is subtracted, so that gaps make
//! no peak (Brault and White 1971; the zero-mean periodogram of a masked series).
//!
//! A peak is significant if events without periodic components would show one as high
//! anywhere in the spectrum with a probability of at most [`FALSE_ALARM`]. It is relative to
//! the floor: 1, or the median of its neighbours where that is more, because bursts raise
//! whole regions. Sums over 4, 16 and 64 multiples of a frequency are tested in the same
//! way, and count in the probability. Peaks that a stronger one leaks through the gaps of
//! the recording are not counted; those at multiples of another's frequency are its
//! harmonics. Each frequency is then refined on the exact times of the events, which also
//! rejects aliases of the bins.

mod fold;
mod gamma;
mod lines;
mod power;
mod refine;

use serde::Serialize;

use crate::CpuTrace;

pub use fold::Fold;

/// Probability that events at random times show any peak at all on a CPU.
pub const FALSE_ALARM: f64 = 0.001;
/// Least number of periods of a component in a trace.
pub const LEAST_PERIODS: usize = 8;
/// Most components that are reported; the strongest.
const MOST_COMPONENTS: usize = 24;

/// The periodic components of a CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spectrum {
    pub cpu: u32,
    /// Periods were looked for from here, ns...
    pub shortest_ns: f64,
    /// ...to here, ns.
    pub longest_ns: f64,
    /// As [`FALSE_ALARM`].
    pub false_alarm: f64,
    /// Ascending periods.
    pub components: Vec<Component>,
    /// For a figure: bands of frequencies, ascending.
    #[serde(skip)]
    pub bands: Vec<Band>,
}

/// The most that a spectrum has in a narrow band of frequencies. Powers are
/// relative to that of as many events at random times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Band {
    /// Its middle.
    pub frequency_hz: f64,
    /// Of the starts.
    pub starts: f64,
    /// Of the noise.
    pub noise: f64,
    /// Above this a peak of the starts is one.
    pub needed: f64,
}

/// In which spectrum a component was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundIn {
    /// That of the starts: events come at the same phase.
    Starts,
    /// That of the noise: long events do.
    Noise,
    /// In both.
    Both,
}

/// Events that come again and again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Component {
    /// From one to the next, ns.
    pub period_ns: f64,
    /// Where the first is due, ns after the begin of the trace; of the first
    /// stretch of [`Self::coherent_ns`].
    pub phase_ns: f64,
    /// Standard deviation of their distance from where they are due, ns.
    pub jitter_ns: f64,
    /// How many events it has; an estimate, for others come at its phase by
    /// chance.
    pub events: u64,
    /// The share of the known periods that have their event.
    pub share_of_periods: f64,
    /// Its share of all the noise of this CPU, percent.
    pub noise_pct: f64,
    /// Height of the peak over the floor, in the spectrum where it is higher.
    pub power: f64,
    /// How many peaks at multiples of its frequency are taken for its own.
    pub harmonics: u32,
    /// For so long it keeps its phase, ns; the whole trace at most.
    pub coherent_ns: f64,
    pub found_in: FoundIn,
    /// Which events are its own.
    #[serde(skip)]
    pub fold: Fold,
}

/// The periodic components of a CPU; `None` if it has no events, or was
/// looked at for no time.
pub fn spectrum(cpu: &CpuTrace) -> Option<Spectrum> {
    let begin = cpu.known.first()?.from_ns;
    let end = cpu.known.last()?.until_ns;
    let passes = power::passes(cpu, begin, end);
    if cpu.events.is_empty() || passes.is_empty() {
        return None;
    }
    let looked: usize = passes.iter().map(power::Pass::frequencies).sum();
    // Two spectra are searched, and each for several sums of multiples.
    let each = FALSE_ALARM / (2 * lines::SUMS.len() * looked.max(1)) as f64;
    let mut components: Vec<Component> = Vec::new();
    let mut bands = Vec::new();
    let mut periods = (f64::INFINITY, 0.0f64);
    for pass in &passes {
        let power = power::Power::of(cpu, pass, each);
        periods.0 = periods.0.min(pass.shortest_ns());
        periods.1 = periods.1.max(pass.longest_ns());
        bands.extend(power.bands());
        let found = lines::components(cpu, &power, each);
        // What is too slow for one pass may show its multiples in the other.
        components.retain(|fast| !found.iter().any(|slow| is_multiple(fast, slow, pass)));
        components.extend(found);
    }
    components.sort_by(|a, b| b.power.total_cmp(&a.power));
    components.truncate(MOST_COMPONENTS);
    components.sort_by(|a, b| a.period_ns.total_cmp(&b.period_ns));
    bands.sort_by(|a, b| a.frequency_hz.total_cmp(&b.frequency_hz));
    Some(Spectrum {
        cpu: cpu.cpu,
        shortest_ns: periods.0,
        longest_ns: periods.1,
        false_alarm: FALSE_ALARM,
        components,
        bands,
    })
}

/// Whether a component of the first pass is a multiple of a slower one.
fn is_multiple(fast: &Component, slow: &Component, pass: &power::Pass) -> bool {
    let times = slow.period_ns / fast.period_ns;
    let beside_hz = (times - times.round()).abs() * 1e9 / slow.period_ns;
    let near = pass.step_hz() * times.max(1.0);
    times > 1.5 && beside_hz <= near && fast.power <= 4.0 * slow.power
}

#[cfg(test)]
mod tests;
