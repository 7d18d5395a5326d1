// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What chance does: probabilities, their correction for many, the middle.

use sandbag_stats::{normal_cdf, normal_quantile};

/// The value below which a standard normal variable is with the probability `p`.
pub fn quantile(p: f64) -> f64 {
    normal_quantile(p.clamp(1e-300, 1.0 - 1e-16))
}

/// The probability that a standard normal variable is above that.
pub(super) fn tail(z: f64) -> f64 {
    normal_cdf(-z)
}

/// Holm's correction ("A simple sequentially rejective multiple test
/// procedure", 1979): each probability as it is when all of them are looked at,
/// among `comparisons`, of which those not given are none to speak of.
pub fn holm(probabilities: &[f64], comparisons: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let all = comparisons.max(probabilities.len());
    let mut corrected = vec![1.0; probabilities.len()];
    let mut most = 0.0f64;
    for (rank, at) in order.into_iter().enumerate() {
        most = most.max(probabilities[at] * (all - rank) as f64);
        corrected[at] = most.min(1.0);
    }
    corrected
}

/// The probability that the CPU's sum is as far from its mean as it is, to
/// either side, each block's ranks being dealt at random: by enumeration, sum
/// by sum.
pub(super) fn exact_p(ranks: &[f64], cpus: usize, cpu: usize) -> f64 {
    // Means of ranks are whole or half numbers.
    let twice: Vec<usize> = ranks.iter().map(|x| (x * 2.0).round() as usize).collect();
    let blocks = || twice.chunks_exact(cpus);
    let most: usize = blocks().map(|b| b.iter().copied().max().unwrap_or(0)).sum();
    let mut chances = vec![0.0f64; most + 1];
    chances[0] = 1.0;
    let mut reached = 0;
    for block in blocks() {
        let mut next = vec![0.0; most + 1];
        for rank in block {
            for sum in 0..=reached {
                next[sum + rank] += chances[sum] / cpus as f64;
            }
        }
        reached += block.iter().copied().max().unwrap_or(0);
        chances = next;
    }
    let own: usize = blocks().map(|block| block[cpu]).sum();
    let mean: f64 = blocks()
        .map(|b| b.iter().sum::<usize>() as f64 / cpus as f64)
        .sum();
    let far = (own as f64 - mean).abs() - 1e-6;
    let beyond = chances.iter().enumerate();
    beyond
        .filter(|(sum, _)| (*sum as f64 - mean).abs() >= far)
        .map(|(_, chance)| chance)
        .sum()
}

/// The median; 0 of nothing. Sorts.
pub fn middle(all: &mut [f64]) -> f64 {
    sandbag_stats::sort(all);
    sandbag_stats::middle(all).unwrap_or(0.0)
}
