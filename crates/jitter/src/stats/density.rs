// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The density of lengths by a Parzen window (a Gaussian kernel) on their
//! decimal logarithm, as figures 1 to 4 of the paper show it.

/// Points at equal distances of log10(length in ns), on which densities are
/// compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    pub from: f64,
    pub until: f64,
    /// How many, at least 2.
    pub points: usize,
}

impl Grid {
    /// For traces of any machine: 10 ns to 10 s, 100 points a decade.
    pub fn standard() -> Self {
        Self {
            from: 1.0,
            until: 10.0,
            points: 901,
        }
    }

    /// Distance of two neighbours.
    pub fn step(&self) -> f64 {
        (self.until - self.from) / (self.points - 1) as f64
    }

    pub fn values(&self) -> impl Iterator<Item = f64> + use<> {
        let (from, step) = (self.from, self.step());
        (0..self.points).map(move |i| from + step * i as f64)
    }
}

/// A density over log10(length in ns); its integral over the grid is 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Density {
    pub grid: Grid,
    /// Standard deviation of the kernel, decades.
    pub bandwidth: f64,
    /// At each point, per decade.
    pub values: Vec<f64>,
}

/// So far from its middle a Gaussian kernel is nothing, standard deviations.
const REACH: f64 = 5.0;

impl Density {
    /// Of these lengths; `bandwidth` in decades, `None`: Silverman's rule
    /// (Density Estimation, 1986, section 3.4.2). `None` without lengths.
    pub fn of(lengths_ns: &[u64], grid: Grid, bandwidth: Option<f64>) -> Option<Self> {
        if lengths_ns.is_empty() {
            return None;
        }
        let bandwidth = match bandwidth {
            Some(given) => given.max(grid.step()),
            None => self::bandwidth(lengths_ns, grid),
        };
        let mut values = spread(&fine_histogram(lengths_ns, grid), grid, bandwidth);
        let sum: f64 = values.iter().sum::<f64>() * grid.step();
        debug_assert!(sum > 0.0);
        values.iter_mut().for_each(|value| *value /= sum);
        Some(Self {
            grid,
            bandwidth,
            values,
        })
    }
}

/// Bins of a histogram between two points of the grid: equal lengths are
/// frequent, so lengths are counted before the kernel is laid on them.
pub(super) const FINE: usize = 4;

/// How many lengths are nearest to each of [`FINE`] values per step.
pub(super) fn fine_histogram(lengths_ns: &[u64], grid: Grid) -> Vec<u64> {
    let last = (grid.points - 1) * FINE;
    let fine = grid.step() / FINE as f64;
    let mut histogram = vec![0; last + 1];
    for ns in lengths_ns {
        let log = (*ns.max(&1) as f64).log10();
        // Beyond the grid there are no points: its ends hold what is there.
        let bin = ((log - grid.from) / fine).round();
        histogram[bin.clamp(0.0, last as f64) as usize] += 1;
    }
    histogram
}

/// A kernel for each of these, summed at the points; not yet a density. Of
/// the sum of two histograms it is the sum.
pub(super) fn spread(histogram: &[u64], grid: Grid, bandwidth: f64) -> Vec<f64> {
    let mut values = vec![0.0; grid.points];
    let reach = (REACH * bandwidth / grid.step()).ceil() as usize;
    let fine = grid.step() / FINE as f64;
    let kernel: Vec<f64> = (0..=(reach + 1) * FINE)
        .map(|distance| {
            let z = distance as f64 * fine / bandwidth;
            (-z * z / 2.0).exp()
        })
        .collect();
    for (bin, n) in histogram.iter().enumerate().filter(|(_, n)| **n > 0) {
        let nearest = bin / FINE;
        let first = nearest.saturating_sub(reach);
        let around = values.iter_mut().enumerate();
        for (i, value) in around.take(nearest + reach + 1).skip(first) {
            *value += *n as f64 * kernel[(i * FINE).abs_diff(bin)];
        }
    }
    values
}

/// Silverman's rule for these lengths, but no less than a step of the grid:
/// below that a kernel would fall between two points.
pub(super) fn bandwidth(lengths_ns: &[u64], grid: Grid) -> f64 {
    let logs = lengths_ns.iter().map(|ns| (*ns.max(&1) as f64).log10());
    silverman(logs.collect()).max(grid.step())
}

/// 0.9 min(sd, IQR / 1.34) n^(-1/5).
fn silverman(mut logs: Vec<f64>) -> f64 {
    sandbag_stats::sort(&mut logs);
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let sd = (logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    let quarter = logs.len() / 4;
    let range = (logs[logs.len() - 1 - quarter] - logs[quarter]) / 1.34;
    let width = if range > 0.0 { sd.min(range) } else { sd };
    0.9 * width * n.powf(-0.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sandbag_stats::Chance;

    #[test]
    fn a_lognormal_sample_has_its_density() {
        // Normal in log10, mean 3, sd 0.5.
        let mut chance = Chance::new(1, "density");
        let mut length = || 10f64.powf(3.0 + 0.5 * chance.normal()).round() as u64;
        let lengths: Vec<u64> = (0..20_000).map(|_| length()).collect();
        let density = Density::of(&lengths, Grid::standard(), None).unwrap();
        for (x, got) in density.grid.values().zip(&density.values) {
            let z = (x - 3.0) / 0.5;
            let expected = (-z * z / 2.0).exp() / (0.5 * (2.0 * std::f64::consts::PI).sqrt());
            assert!((got - expected).abs() < 0.05, "{x}: {got}, {expected}");
        }
    }

    proptest! {
        #[test]
        fn it_integrates_to_one(lengths in prop::collection::vec(0u64.., 1..200)) {
            let density = Density::of(&lengths, Grid::standard(), None).unwrap();
            let sum: f64 = density.values.iter().sum::<f64>() * density.grid.step();
            prop_assert!((sum - 1.0).abs() < 1e-9);
            prop_assert!(density.values.iter().all(|v| v.is_finite() && *v >= 0.0));
        }
    }
}
