// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One pass over a profile: what it holds, and whether it can be read to its
//! end at all.

use crate::model::Mean;
use crate::{Result, Steps};

/// A profile in a few figures.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileSummary {
    pub end_ns: u64,
    pub steps: u64,
    pub shortest_step_ns: u64,
    pub longest_step_ns: u64,
    /// In the order of the header.
    pub cpus: Vec<CpuSummary>,
    pub warnings: Vec<String>,
}

/// One CPU of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuSummary {
    pub cpu: u32,
    /// Mean load over the time in which it is known, weighted with the
    /// delivered time; `None` if it is never known (the next two likewise).
    pub mean_load_pct: Option<f64>,
    pub min_load_pct: Option<f64>,
    pub max_load_pct: Option<f64>,
    /// Mean steal over the known time.
    pub mean_steal_pct: Option<f64>,
    /// For how long the load is unknown.
    pub unknown_ns: u64,
}

#[derive(Default)]
struct SummarySteps {
    mean: Mean,
    range: Option<(f64, f64)>,
}

/// Reads the profile to its end. Commands that act on a profile do this first:
/// a profile that passes can be read again without an error.
pub fn summarise(steps: &mut dyn Steps) -> Result<ProfileSummary> {
    let cpus = steps.header().cpus.clone();
    let mut all: Vec<SummarySteps> = cpus.iter().map(|_| SummarySteps::default()).collect();
    let mut summary = ProfileSummary {
        end_ns: 0,
        steps: 0,
        shortest_step_ns: u64::MAX,
        longest_step_ns: 0,
        cpus: Vec::new(),
        warnings: Vec::new(),
    };
    while let Some(step) = steps.next_step()? {
        summary.steps += 1;
        summary.end_ns = step.end_ns;
        summary.shortest_step_ns = summary.shortest_step_ns.min(step.length_ns());
        summary.longest_step_ns = summary.longest_step_ns.max(step.length_ns());
        for (seen, cell) in all.iter_mut().zip(&step.cells) {
            seen.mean.add(*cell, step.length_ns());
            if let Some(cell) = cell {
                let (min, max) = seen.range.unwrap_or((cell.load_pct, cell.load_pct));
                seen.range = Some((min.min(cell.load_pct), max.max(cell.load_pct)));
            }
        }
    }
    summary.shortest_step_ns = summary.shortest_step_ns.min(summary.end_ns);
    summary.cpus = cpus
        .iter()
        .zip(all)
        .map(|(cpu, seen)| {
            let mean = seen.mean.cell();
            CpuSummary {
                cpu: *cpu,
                mean_load_pct: mean.map(|m| m.load_pct),
                min_load_pct: seen.range.map(|r| r.0),
                max_load_pct: seen.range.map(|r| r.1),
                mean_steal_pct: mean.map(|m| m.steal_pct),
                unknown_ns: seen.mean.unknown_ns,
            }
        })
        .collect();
    summary.warnings = steps.warnings();
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile;

    #[test]
    fn the_figures_of_a_small_profile() {
        let p = profile(
            &[0, 2],
            &[
                (10, &[Some(50.0), None]),
                (30, &[Some(10.0), None]),
                (35, &[None, None]),
            ],
        );
        let s = summarise(&mut *p.into_steps()).unwrap();
        assert_eq!((s.end_ns, s.steps), (35, 3));
        assert_eq!((s.shortest_step_ns, s.longest_step_ns), (5, 20));
        assert!((s.cpus[0].mean_load_pct.unwrap() - 700.0 / 30.0).abs() < 1e-9);
        assert_eq!(s.cpus[0].min_load_pct, Some(10.0));
        assert_eq!(s.cpus[0].max_load_pct, Some(50.0));
        assert_eq!(s.cpus[0].unknown_ns, 5);
        assert_eq!(s.cpus[1].cpu, 2);
        assert_eq!(s.cpus[1].mean_load_pct, None);
        assert_eq!(s.cpus[1].unknown_ns, 35);
    }
}
