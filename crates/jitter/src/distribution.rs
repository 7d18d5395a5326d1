// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of events by length, as tools write them that do not record single events:
//! lengths are known to a bin, times not at all.

use std::fmt;

use sandbag_ui::quantity::time;
use serde::Serialize;

/// What is counted. Only counts of the same can be held against each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// The length of each event, as in a trace.
    #[default]
    Length,
    /// How late the interrupt of a timer came.
    InterruptLatency,
    /// How late a kernel thread ran that a timer woke.
    ThreadLatency,
    /// How late a program ran that a timer woke.
    ProgramLatency,
    /// How much of each stretch of this length was taken away, by however
    /// many events.
    Noise {
        /// How long a stretch is, ns.
        quantum_ns: u64,
    },
}

impl Quantity {
    /// Whether figures of the two mean the same. Quanta are measured, so they
    /// may differ by a little.
    pub fn is_as(self, other: Self) -> bool {
        match (self, other) {
            (Self::Noise { quantum_ns: a }, Self::Noise { quantum_ns: b }) => {
                a.abs_diff(b) as f64 <= a.max(b) as f64 * SAME_QUANTUM
            }
            _ => self == other,
        }
    }
}

/// Quanta that differ by this part of the longer are the same.
const SAME_QUANTUM: f64 = 0.02;

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "lengths of events",
            Self::InterruptLatency => "latencies of a timer's interrupt",
            Self::ThreadLatency => "latencies of a thread woken by a timer",
            Self::ProgramLatency => "latencies of a program woken by a timer",
            Self::Noise { quantum_ns } if *quantum_ns >= 1_000_000 => {
                return write!(f, "noise in each {} ms", *quantum_ns as f64 / 1e6);
            }
            Self::Noise { quantum_ns } => {
                return write!(f, "noise in each {} us", *quantum_ns as f64 / 1e3);
            }
        })
    }
}

/// Number of values from `from_ns` to below `until_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    pub from_ns: u64,
    /// Its end, excluded; after `from_ns`.
    pub until_ns: u64,
    pub count: u64,
}

impl Bin {
    pub(crate) const fn new(from_ns: u64, until_ns: u64, count: u64) -> Self {
        Self {
            from_ns,
            until_ns,
            count,
        }
    }
}

/// Number of values at or above `from_ns`, which no bin holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TailCount {
    /// The end of the last bin.
    pub from_ns: u64,
    pub count: u64,
}

impl TailCount {
    pub(crate) const fn new(from_ns: u64, count: u64) -> Self {
        Self { from_ns, count }
    }

    /// `None` where nothing lies above.
    pub(crate) fn above(from_ns: u64, count: Option<u64>) -> Option<Self> {
        let count = count.filter(|count| *count > 0)?;
        Some(Self { from_ns, count })
    }
}

/// How often a tracer saw each kind of cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Causes {
    /// Nothing the kernel knows of: hardware or hypervisor.
    pub hardware: u64,
    /// Interrupts that cannot be masked.
    pub nmi: u64,
    pub irq: u64,
    pub softirq: u64,
    pub thread: u64,
}

impl Causes {
    pub(crate) fn add(&mut self, more: Self) {
        for (sum, more) in [
            (&mut self.hardware, more.hardware),
            (&mut self.nmi, more.nmi),
            (&mut self.irq, more.irq),
            (&mut self.softirq, more.softirq),
            (&mut self.thread, more.thread),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// What was counted on one CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CpuCounts {
    pub cpu: u32,
    pub quantity: Quantity,
    /// Ascending, without overlap, none of them empty of count; there are none
    /// where the tool gave totals only.
    pub bins: Vec<Bin>,
    /// What no bin holds.
    pub beyond: Option<TailCount>,
    /// For how long was looked.
    pub known_ns: Option<u64>,
    /// How long all events were together, where the tool says so.
    pub noise_ns: Option<u64>,
    /// The longest single one that the tool names.
    pub longest_ns: Option<u64>,
    /// How often which cause was seen.
    pub causes: Option<Causes>,
}

/// Where a quantile lies, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    Is(u64),
    /// Below the end of its bin.
    Below(u64),
    /// At or above the end of the last bin.
    NotBelow(u64),
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, ns) = match self {
            Self::Is(ns) => ("", ns),
            Self::Below(ns) => ("< ", ns),
            Self::NotBelow(ns) => (">= ", ns),
        };
        write!(f, "{sign}{}", time(*ns as f64))
    }
}

impl CpuCounts {
    pub fn new(cpu: u32, quantity: Quantity) -> Self {
        Self {
            cpu,
            quantity,
            ..Self::default()
        }
    }

    /// Adds a bin behind the others, unless it is empty.
    pub(crate) fn add_bin(&mut self, from_ns: u64, until_ns: u64, count: u64) {
        if count > 0 {
            self.bins.push(Bin::new(from_ns, until_ns, count));
        }
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        let beyond = self.beyond.map_or(0, |beyond| beyond.count);
        let counts = self.bins.iter().map(|bin| bin.count);
        counts.fold(beyond, u64::saturating_add)
    }

    /// The quantile at a percentage; `None` if nothing was counted.
    pub fn quantile(&self, part_pct: f64) -> Option<Quantile> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((count as f64 * part_pct / 100.0).ceil() as u64).clamp(1, count);
        let mut passed = 0u64;
        for bin in &self.bins {
            passed = passed.saturating_add(bin.count);
            if passed >= rank {
                return Some(Quantile::Below(bin.until_ns));
            }
        }
        self.beyond.map(|beyond| Quantile::NotBelow(beyond.from_ns))
    }

    /// Those that are at least so long; `None` where that cannot be told, as in a bin that
    /// `ns` divides, or of totals.
    pub(crate) fn above(&self, ns: u64) -> Option<Self> {
        if ns == 0 {
            return Some(self.clone());
        }
        let is_cut = |bin: &Bin| bin.from_ns < ns && bin.until_ns > ns;
        if self.quantity != Quantity::Length || self.bins.iter().any(is_cut) {
            return None;
        }
        let longer = self.bins.iter().filter(|bin| bin.from_ns >= ns);
        Some(Self {
            bins: longer.copied().collect(),
            noise_ns: None,
            ..self.clone()
        })
    }

    /// The narrowest and the widest bin.
    pub fn resolution_ns(&self) -> Option<(u64, u64)> {
        let widths = self.bins.iter().map(|bin| bin.until_ns - bin.from_ns);
        widths.clone().min().zip(widths.max())
    }

    /// What all events took together, at least and at most: what the tool says,
    /// or what follows from the bins. `None` for latencies, which take nothing,
    /// and where events lie beyond the last bin.
    pub fn noise_bounds_ns(&self) -> Option<(u64, u64)> {
        if let Some(noise_ns) = self.noise_ns {
            return Some((noise_ns, noise_ns));
        }
        let takes = matches!(self.quantity, Quantity::Length | Quantity::Noise { .. });
        let all_in_bins = self.beyond.is_none_or(|beyond| beyond.count == 0);
        (takes && all_in_bins && !self.bins.is_empty()).then(|| {
            let sum = |of: fn(&Bin) -> u64| {
                let terms = self
                    .bins
                    .iter()
                    .map(|bin| bin.count.saturating_mul(of(bin)));
                terms.fold(0, u64::saturating_add)
            };
            (sum(|bin| bin.from_ns), sum(|bin| bin.until_ns))
        })
    }

    /// The share of the known time that was taken, at least and at most,
    /// percent.
    pub fn noise_pct(&self) -> Option<(f64, f64)> {
        let known_ns = self.known_ns.filter(|ns| *ns > 0)? as f64;
        let (least, most) = self.noise_bounds_ns()?;
        let part = |ns: u64| ns as f64 / known_ns * 100.0;
        Some((part(least), part(most)))
    }
}

/// What a tool counted, CPU by CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    pub recorder: String,
    /// In the order of the file.
    pub series: Vec<CpuCounts>,
    /// What the user should hear.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> CpuCounts {
        let bin = |from_us: u64, count| Bin::new(from_us * 1000, (from_us + 10) * 1000, count);
        CpuCounts {
            bins: vec![bin(0, 90), bin(10, 8), bin(40, 1)],
            beyond: Some(TailCount::new(50_000, 1)),
            known_ns: Some(1_000_000_000),
            ..CpuCounts::new(0, Quantity::Length)
        }
    }

    #[test]
    fn quantiles_are_bins_or_bounds() {
        let s = series();
        assert_eq!(s.count(), 100);
        assert_eq!(s.quantile(50.0), Some(Quantile::Below(10_000)));
        assert_eq!(s.quantile(99.0), Some(Quantile::Below(50_000)));
        assert_eq!(s.quantile(100.0), Some(Quantile::NotBelow(50_000)));
        assert_eq!(CpuCounts::new(0, Quantity::Length).quantile(50.0), None);
        assert_eq!(s.resolution_ns(), Some((10_000, 10_000)));
    }

    #[test]
    fn longer_ones_are_those_of_whole_bins() {
        let mut s = series();
        s.beyond = None;
        let longer = s.above(10_000).unwrap();
        assert_eq!(longer.count(), 9);
        assert_eq!(longer.noise_bounds_ns(), Some((120_000, 210_000)));
        assert_eq!(s.above(45_000), None);
        assert_eq!(s.above(0), Some(s));
    }

    #[test]
    fn the_share_is_bounded_where_nothing_lies_beyond() {
        let mut s = series();
        assert_eq!(s.noise_pct(), None);
        s.beyond = None;
        let (least, most) = s.noise_pct().unwrap();
        assert!((least - 0.012).abs() < 1e-9, "{least}");
        assert!((most - 0.111).abs() < 1e-9, "{most}");
        s.quantity = Quantity::ProgramLatency;
        assert_eq!(s.noise_pct(), None);
    }
}
