// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From peaks to components: which peaks are lines, and which of those are
//! harmonics of others.

use super::power::{One, Power};
use super::refine::{Refined, refine};
use super::{Component, FoundIn, fold};
use crate::CpuTrace;

/// Peaks that are looked at, the highest.
const MOST_PEAKS: usize = 1000;
/// A peak is one beside a stronger line if it is so many times higher than
/// what that line leaks there.
const OVER_LEAK: f64 = 4.0;
/// Lines nearer than this share of their frequency are one: clocks drift.
const SAME: f64 = 0.001;
/// A harmonic has at most so many times the power of its fundamental: more
/// would be a component of its own that happens to be at a multiple.
const OVER_FUNDAMENTAL: f64 = 4.0;
/// Steps that a harmonic may lie beside a multiple.
const BESIDE: f64 = 1.5;
/// On the exact times a line has at least this share of what it needs.
const CONFIRMED: f64 = 0.5;

/// A peak that no other one explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// Frequency in steps of the pass.
    pub(super) at: usize,
    pub(super) in_starts: bool,
    pub(super) in_noise: bool,
}

/// The lines of both spectra, ascending.
pub(super) fn lines(power: &Power) -> Vec<Line> {
    let (starts, noise) = (of_one(power, &power.starts), of_one(power, &power.noise));
    let line = |at, in_starts| Line {
        at,
        in_starts,
        in_noise: !in_starts,
    };
    let mut lines: Vec<Line> = starts.into_iter().map(|at| line(at, true)).collect();
    for at in noise {
        match lines.iter_mut().find(|line| line.at.abs_diff(at) <= 1) {
            Some(same) => same.in_noise = true,
            None => lines.push(line(at, false)),
        }
    }
    lines.sort_unstable_by_key(|line| line.at);
    lines
}

fn of_one(power: &Power, one: &One) -> Vec<usize> {
    let pass = &power.pass;
    let is_peak = |at: &usize| {
        one.significance(*at) >= 1.0
            && one.power[*at] >= one.power[*at - 1]
            && one.power[*at] > one.power[*at + 1]
    };
    let mut peaks: Vec<usize> = (pass.first..pass.end).filter(is_peak).collect();
    peaks.sort_unstable_by(|a, b| one.power[*b].total_cmp(&one.power[*a]));
    peaks.truncate(MOST_PEAKS);
    let mut lines: Vec<usize> = Vec::new();
    for at in peaks {
        let leaked: f64 = lines
            .iter()
            .map(|line| one.power[*line].sqrt() * power.leaks(line.abs_diff(at)))
            .sum();
        let near = lines
            .iter()
            .any(|line| line.abs_diff(at) as f64 <= SAME * at as f64);
        if !near && one.power[at] > OVER_LEAK * leaked * leaked {
            lines.push(at);
        }
    }
    lines
}

/// Folds harmonics into their fundamentals and looks at the events of each.
pub(super) fn components(cpu: &CpuTrace, power: &Power, lines: &[Line]) -> Vec<Component> {
    let step = power.pass.step_hz();
    let mut found: Vec<(Line, Refined, u32)> = Vec::new();
    for line in lines {
        let hz = line.at as f64 * step;
        let is_harmonic = |(fundamental, refined, _): &&mut (Line, Refined, u32)| {
            let times = (hz / refined.hz).round();
            let beside = (hz - times * refined.hz).abs() / step;
            let weak =
                |one: &One| one.power[line.at] <= OVER_FUNDAMENTAL * one.power[fundamental.at];
            times >= 2.0
                && beside <= BESIDE
                && (!line.in_starts || weak(&power.starts))
                && (!line.in_noise || weak(&power.noise))
        };
        // Of several the one of which it is the lowest multiple.
        if let Some((_, _, harmonics)) = found.iter_mut().rev().find(is_harmonic) {
            *harmonics += 1;
            continue;
        }
        let by_noise = power.noise.significance(line.at) > power.starts.significance(line.at);
        let one = if by_noise {
            &power.noise
        } else {
            &power.starts
        };
        let refined = refine(cpu, &power.pass, line.at, by_noise);
        if refined.power >= CONFIRMED * one.needed {
            found.push((*line, refined, 0));
        }
    }
    let component = |(line, refined, harmonics): &(Line, Refined, u32)| {
        let fold = fold::fold(cpu, refined)?;
        let over = |one: &One| one.power[line.at] / one.floor[line.at];
        Some(Component {
            period_ns: fold.period_ns,
            phase_ns: fold.phase_ns,
            jitter_ns: fold.jitter_ns,
            events: fold.events.round() as u64,
            share_of_periods: fold.events / fold.periods.max(1.0),
            noise_pct: fold.noise_pct,
            power: over(&power.starts).max(over(&power.noise)),
            harmonics: *harmonics,
            coherent_ns: refined.coherent_ns,
            found_in: match (line.in_starts, line.in_noise) {
                (true, true) => FoundIn::Both,
                (false, true) => FoundIn::Noise,
                _ => FoundIn::Starts,
            },
            fold: fold.fold,
        })
    };
    found.iter().filter_map(component).collect()
}
