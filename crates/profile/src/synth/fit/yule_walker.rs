// SPDX-License-Identifier: Apache-2.0 OR MIT
//! AR(p) from a recording: the equations of Yule and Walker, solved by Levinson
//! and Durbin, the order by Akaike's criterion.

use std::collections::VecDeque;

use crate::statistics::MOST_CORRELATED;
use crate::{BoxSteps, Result, Steps, algebra};

use crate::synth::autoregressive::is_stable;

/// The highest order.
const MOST: usize = 16;

/// The process that a recording looks like, all CPUs together, each around its
/// own mean.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedAr {
    /// Mean load of all CPUs, percent.
    pub mean_pct: f64,
    /// Standard deviation of what is new in each step, points.
    pub noise_points: f64,
    /// Weights of the last values, the latest first; at least one.
    pub weights: Vec<f64>,
    /// Correlation of what is new between two CPUs; `None` for one CPU,
    /// and for more than [`MOST_CORRELATED`].
    pub correlation: Option<Pairs>,
}

/// A figure of all pairs of CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pairs {
    /// In the mean.
    pub mean: f64,
    /// Of the pair with the least.
    pub least: f64,
    /// Of the pair with the greatest.
    pub most: f64,
}

impl Pairs {
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (mut count, mut sum, mut least, mut most) =
            (0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            count += 1.0;
            sum += value;
            least = f64::min(least, value);
            most = f64::max(most, value);
        }
        (count > 0.0).then(|| Self {
            mean: sum / count,
            least,
            most,
        })
    }
}

/// Fits it to pieces of `step_ns`; the profile is opened twice. `None` where
/// the load does not vary.
///
/// # Errors
/// The streams', or a step of length 0.
pub fn fit_ar(open: &dyn Fn() -> Result<BoxSteps>, step_ns: u64) -> Result<Option<FittedAr>> {
    let lags = lags(algebra::resample(open()?, step_ns)?)?;
    let known: f64 = lags.iter().map(|cpu| cpu.lags[0].count).sum();
    let covariances = covariances(&lags);
    // Rounding of the sums is far below a ten-thousandth of a point.
    if known < 2.0 || covariances[0] < 1e-8 {
        return Ok(None);
    }
    // CPUs that go together say no more than one.
    let counts = lags.iter().map(|cpu| cpu.lags[0].count);
    let longest = counts.fold(0.0, f64::max);
    // Ten values per weight, or there is nothing to see but chance.
    let most = (longest as usize / 10).clamp(1, MOST);
    let order = best(&levinson(&covariances[..=most]), longest);
    let means: Vec<f64> = lags.iter().map(Lags::mean).collect();
    let correlation = innovations(algebra::resample(open()?, step_ns)?, &means, &order.weights)?;
    let sum: f64 = lags.iter().map(|cpu| cpu.lags[0].x).sum();
    Ok(Some(FittedAr {
        mean_pct: MIDDLE + sum / known,
        noise_points: libm::sqrt(order.variance),
        weights: order.weights,
        correlation,
    }))
}

/// Sums are taken about the middle of the scale, so that they keep their
/// digits where a load hardly varies.
const MIDDLE: f64 = 50.0;

/// Sums over pairs of values at one distance in steps.
#[derive(Clone, Copy, Default)]
struct Products {
    count: f64,
    x: f64,
    y: f64,
    xy: f64,
}

struct Lags {
    last: VecDeque<Option<f64>>,
    lags: [Products; MOST + 1],
}

impl Lags {
    fn add(&mut self, value: Option<f64>) {
        self.last.push_front(value);
        self.last.truncate(MOST + 1);
        let Some(x) = value else { return };
        for (products, y) in self.lags.iter_mut().zip(&self.last) {
            if let Some(y) = y {
                products.count += 1.0;
                products.x += x;
                products.y += y;
                products.xy += x * y;
            }
        }
    }

    fn mean(&self) -> f64 {
        MIDDLE + self.lags[0].x / self.lags[0].count.max(1.0)
    }
}

fn lags(mut steps: BoxSteps) -> Result<Vec<Lags>> {
    let new = || Lags {
        last: VecDeque::new(),
        lags: [Products::default(); MOST + 1],
    };
    let mut all: Vec<Lags> = steps.header().cpus.iter().map(|_| new()).collect();
    while let Some(step) = steps.next_step()? {
        for (lags, cell) in all.iter_mut().zip(&step.cells) {
            lags.add(cell.map(|cell| cell.load_pct - MIDDLE));
        }
    }
    Ok(all)
}

/// Of all CPUs, each about its own mean. Like the usual estimate they are drawn
/// towards 0 by what the lag leaves out, which makes them those of a process
/// that stays around its mean.
fn covariances(all: &[Lags]) -> [f64; MOST + 1] {
    let mut covariances = [0.0; MOST + 1];
    for (lag, covariance) in covariances.iter_mut().enumerate() {
        let (mut sum, mut pairs, mut possible, mut length) = (0.0, 0.0, 0.0, 0.0);
        for cpu in all {
            let Products { count, x, y, xy } = cpu.lags[lag];
            let mean = cpu.mean() - MIDDLE;
            sum += xy - mean * (x + y) + count * mean * mean;
            pairs += count;
            let known = cpu.lags[0].count;
            length += known;
            possible += (known - lag as f64).max(0.0);
        }
        if pairs > 0.0 {
            *covariance = sum / pairs * possible / length;
        }
    }
    covariances
}

struct Order {
    weights: Vec<f64>,
    /// Of what is new.
    variance: f64,
}

/// The solutions for orders 1, 2 and so on, as far as they go.
fn levinson(covariances: &[f64]) -> Vec<Order> {
    /// With less left there is no telling what is new.
    const LEAST_LEFT: f64 = 1e-9;
    let mut orders: Vec<Order> = Vec::new();
    let mut weights: Vec<f64> = Vec::new();
    let mut variance = covariances[0];
    for order in 1..covariances.len() {
        let explained: f64 = (0..order - 1)
            .map(|i| weights[i] * covariances[order - 1 - i])
            .sum();
        let last = (covariances[order] - explained) / variance;
        weights = (0..order - 1)
            .map(|i| weights[i] - last * weights[order - 2 - i])
            .chain([last])
            .collect();
        variance *= 1.0 - last * last;
        // Holes can make covariances that no process has.
        if !is_stable(&weights) || variance < LEAST_LEFT * covariances[0] {
            break;
        }
        orders.push(Order {
            weights: weights.clone(),
            variance,
        });
    }
    if orders.is_empty() {
        orders.push(Order {
            weights: vec![0.0],
            variance: covariances[0],
        });
    }
    orders
}

/// The least of n ln(variance) + 2 p (Akaike 1974).
fn best(orders: &[Order], count: f64) -> Order {
    let criterion =
        |order: &&Order| count * libm::log(order.variance) + 2.0 * order.weights.len() as f64;
    let best = orders
        .iter()
        .min_by(|a, b| criterion(a).total_cmp(&criterion(b)));
    let best = best.unwrap_or(&orders[0]);
    Order {
        weights: best.weights.clone(),
        variance: best.variance,
    }
}

/// How what is new on one CPU goes with what is new on another.
fn innovations(mut steps: BoxSteps, means: &[f64], weights: &[f64]) -> Result<Option<Pairs>> {
    let count = means.len();
    if count > MOST_CORRELATED {
        return Ok(None);
    }
    let mut past: Vec<VecDeque<Option<f64>>> = vec![VecDeque::new(); count];
    // Of each CPU with those before it: the products with the other and with
    // themselves.
    let mut products: Vec<Vec<[f64; 3]>> = (0..count).map(|i| vec![[0.0; 3]; i]).collect();
    let mut new = vec![None; count];
    while let Some(step) = steps.next_step()? {
        for i in 0..count {
            let value = step.cells[i].map(|cell| cell.load_pct - means[i]);
            // What is unknown of the past stands at its mean.
            let remembered = weights.iter().zip(&past[i]);
            let remembered: f64 = remembered.map(|(w, x)| w * x.unwrap_or(0.0)).sum();
            new[i] = value.map(|value| value - remembered);
            past[i].push_front(value);
            past[i].truncate(weights.len());
        }
        for (row, x) in products.iter_mut().zip(&new) {
            let Some(x) = x else { continue };
            for ([xx, xy, yy], y) in row.iter_mut().zip(&new) {
                let Some(y) = y else { continue };
                *xx += x * x;
                *xy += x * y;
                *yy += y * y;
            }
        }
    }
    let pairs = products.iter().flatten();
    let pairs = pairs.filter(|[xx, _, yy]| *xx > 0.0 && *yy > 0.0);
    Ok(Pairs::of(
        pairs.map(|[xx, xy, yy]| xy / libm::sqrt(xx * yy)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::{Autoregressive, autoregressive};
    use crate::{Format, NS_PER_S, Profile, ProfileCell, ProfileHeader, Step, constant};

    const N: u64 = 20_000;

    fn model(weights: &[f64], correlation: f64) -> Autoregressive {
        Autoregressive {
            mean_pct: 50.0,
            noise_points: 4.0,
            weights: weights.to_vec(),
            correlation,
            seed: 1,
        }
    }

    fn fit(model: &Autoregressive, cpus: &[u32]) -> FittedAr {
        let open = || autoregressive(model.clone(), cpus, NS_PER_S, N * NS_PER_S);
        fit_ar(&open, NS_PER_S).unwrap().unwrap()
    }

    #[test]
    fn a_process_gives_its_parameters_back() {
        for weights in [&[0.8][..], &[0.6, 0.2], &[-0.5], &[0.5, -0.3, 0.4]] {
            for correlation in [0.0, 0.6] {
                let model = model(weights, correlation);
                let fit = fit(&model, &[0, 1]);
                let n = N as f64;
                // The variance of the last weight is 1/n, those of the others
                // are less (up to the weights' own order); of superfluous ones
                // 1/n. Both CPUs together say less than one alone twice, so
                // that four standard deviations of one are enough.
                assert!(fit.weights.len() >= weights.len(), "{fit:?}");
                for (lag, weight) in fit.weights.iter().enumerate() {
                    let expected = weights.get(lag).copied().unwrap_or(0.0);
                    assert!(
                        (weight - expected).abs() < 4.0 / n.sqrt(),
                        "{model:?} {fit:?}"
                    );
                }
                // Of a standard deviation and of a correlation.
                let within = 4.0 / (2.0 * n).sqrt();
                assert!((fit.noise_points / 4.0 - 1.0).abs() < within, "{fit:?}");
                let got = fit.correlation.unwrap().mean;
                let within = 4.0 * (1.0 - correlation * correlation) / n.sqrt();
                assert!((got - correlation).abs() < within, "{correlation}: {fit:?}");
                // The mean of AR(p) has a deviation of
                // noise / (1 - sum of weights) / sqrt(n).
                let sum: f64 = weights.iter().sum();
                let within = 4.0 * 4.0 / (1.0 - sum) / n.sqrt();
                assert!((fit.mean_pct - 50.0).abs() < within, "{fit:?}");
            }
        }
    }

    #[test]
    fn a_low_order_is_preferred_where_it_does() {
        // The criterion picks one too high now and then, seldom many.
        let orders: Vec<usize> = (1..=10)
            .map(|seed| {
                let model = Autoregressive {
                    seed,
                    ..model(&[0.7], 0.0)
                };
                fit(&model, &[0]).weights.len()
            })
            .collect();
        assert!(
            orders.iter().filter(|p| **p <= 2).count() >= 6,
            "{orders:?}"
        );
    }

    #[test]
    fn levinson_solves_the_equations() {
        let covariances = [4.0, 2.0, 1.5, -0.3, 0.1];
        for order in levinson(&covariances) {
            let p = order.weights.len();
            for k in 1..=p {
                let sum: f64 = (0..p)
                    .map(|i| order.weights[i] * covariances[k.abs_diff(i + 1)])
                    .sum();
                assert!((sum - covariances[k]).abs() < 1e-9);
            }
            let explained: f64 = (0..p).map(|i| order.weights[i] * covariances[i + 1]).sum();
            assert!((covariances[0] - explained - order.variance).abs() < 1e-9);
        }
    }

    #[test]
    fn holes_and_opposite_cpus() {
        // One CPU is what the other leaves; every tenth value is missing.
        let whole = autoregressive(model(&[0.7], 0.0), &[0], NS_PER_S, N * NS_PER_S).unwrap();
        let mut profile = Profile::collect(whole).unwrap();
        profile.header = ProfileHeader::new(vec![0, 1], Format::Synthetic);
        for (i, step) in profile.steps.iter_mut().enumerate() {
            let load = step.cells[0].unwrap().load_pct;
            let known = i % 10 != 7;
            step.cells = [load, 100.0 - load]
                .map(|load| known.then(|| ProfileCell::load(load)))
                .to_vec();
        }
        let open = || Ok(profile.clone().into_steps());
        let fit = fit_ar(&open, NS_PER_S).unwrap().unwrap();
        assert!((fit.weights[0] - 0.7).abs() < 0.03, "{fit:?}");
        assert!(fit.correlation.unwrap().mean < -0.999, "{fit:?}");
    }

    #[test]
    fn of_many_cpus_no_pairs_are_compared() {
        let cpus: Vec<u32> = (0..=MOST_CORRELATED as u32).collect();
        for (count, some) in [(MOST_CORRELATED, true), (1 + MOST_CORRELATED, false)] {
            let model = model(&[0.5], 0.9);
            let open = || autoregressive(model.clone(), &cpus[..count], 1, 40);
            let fit = fit_ar(&open, 1).unwrap().unwrap();
            assert_eq!(fit.correlation.is_some(), some);
        }
    }

    #[test]
    fn what_does_not_vary_has_none_and_what_is_short_is_fitted_all_the_same() {
        let open = || Ok(constant(&[0, 1], 30.0, 100 * NS_PER_S));
        assert_eq!(fit_ar(&open, NS_PER_S).unwrap(), None);
        let step = |start_ns, load| Step {
            start_ns,
            end_ns: start_ns + 1,
            cells: vec![Some(ProfileCell::load(load))],
        };
        let short = Profile {
            header: ProfileHeader::new(vec![0], Format::Synthetic),
            steps: vec![step(0, 10.0), step(1, 90.0), step(2, 10.0)],
            warnings: Vec::new(),
        };
        let fit = fit_ar(&|| Ok(short.clone().into_steps()), 1)
            .unwrap()
            .unwrap();
        assert!(fit.noise_points.is_finite() && is_stable(&fit.weights));
    }
}
