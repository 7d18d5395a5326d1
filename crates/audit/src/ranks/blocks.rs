// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures by block and CPU, and how they are compared.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Ratios: ranks of logarithms. Figures above 0.
    Ratio,
    /// Ratios of sums: counts, which may be 0.
    Sums,
    /// Differences: ranks of the figures.
    Points,
    /// Differences of means: what comes seldom and then is much.
    Means,
}

impl Scale {
    /// Shifts beyond this are not looked for: with nothing to go by, an interval
    /// reaches so far. As logarithm a factor of 10; points.
    pub fn widest(self) -> f64 {
        match self {
            Self::Ratio | Self::Sums => std::f64::consts::LN_10,
            Self::Points | Self::Means => 100.0,
        }
    }

    /// Whether a shift is where the search for it ended: nothing is known of it
    /// but that it is not smaller.
    pub fn is_open(self, shift: f64) -> bool {
        shift.abs() >= 0.999 * self.widest()
    }

    /// The middle of figures as they are compared.
    pub(super) fn middle(self, figures: &[f64]) -> f64 {
        match self {
            Self::Ratio | Self::Points => sandbag_stats::median(figures).unwrap_or(0.0),
            Self::Sums | Self::Means => figures.iter().sum::<f64>() / figures.len() as f64,
        }
    }

    /// A shift as percent (of points: themselves).
    pub fn pct(self, shift: f64) -> f64 {
        match self {
            Self::Ratio | Self::Sums => shift.exp_m1() * 100.0,
            Self::Points | Self::Means => shift,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Blocks {
    pub(super) cpus: usize,
    pub(super) figures: Vec<f64>,
    /// Of each block, its round.
    pub(super) rounds: Vec<u32>,
}

impl Blocks {
    pub fn new(cpus: usize) -> Self {
        Self {
            cpus,
            ..Self::default()
        }
    }

    /// Adds a block: a figure of each CPU, not below 0. Others are passed over.
    pub fn push(&mut self, round: u32, figures: &[f64]) {
        let sane = |x: &f64| x.is_finite() && *x >= 0.0;
        if figures.len() == self.cpus && figures.iter().all(sane) {
            self.figures.extend(figures);
            self.rounds.push(round);
        }
    }

    /// Two of the CPUs.
    pub(super) fn pair(&self, one: usize, other: usize) -> Self {
        let figures = self.iter().flat_map(|(_, row)| [row[one], row[other]]);
        Self {
            cpus: 2,
            figures: figures.collect(),
            rounds: self.rounds.clone(),
        }
    }

    pub fn len(&self) -> usize {
        self.rounds.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    pub fn has_zeros(&self) -> bool {
        self.figures.contains(&0.0)
    }

    pub fn sum(&self) -> f64 {
        self.figures.iter().sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[f64])> {
        let figures = self.figures.chunks_exact(self.cpus.max(1));
        self.rounds.iter().copied().zip(figures)
    }
}
