// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exact frequency of a line, from the exact times of events: first within
//! segments, as the transform saw it, then over stretches twice as long, again
//! and again, as long as the line keeps its phase.

use sandbag_stats::Complex;

use super::power::Pass;
use crate::CpuTrace;

/// Pieces of a segment, in each of which a line hardly turns whatever its
/// exact frequency.
const PIECES: usize = 16;
/// Trial frequencies within one step on each side.
const TRIALS: i32 = 16;
/// The powers of stretches, added up, stay what they are for noise when the
/// stretches become longer, and grow for a line; it still keeps its phase with
/// this share of the growth.
const KEEPS_PHASE: f64 = 0.4;

/// A clock drifts if stretches of half the length, each with a frequency of its own, have
/// this factor more of the squared amplitude...
const DRIFTS: f64 = 1.1;
/// ...and each stands out by this power: the phase of a weak one is chance.
const LEAST_POWER: f64 = 20.0;

/// Where the events of a line are due in a stretch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Due {
    pub(super) hz: f64,
    /// Turns from the begin of the stretch to the middle of the line's events,
    /// -0.5 to 0.5.
    pub(super) phase: f64,
}

/// A line on exact times.
#[derive(Debug, Clone)]
pub(super) struct RefinedLine {
    /// Events count their lengths.
    pub(super) by_noise: bool,
    pub(super) hz: f64,
    /// Mean over the segments, relative to events at random times.
    pub(super) power: f64,
    /// Begin of the first stretch.
    pub(super) begin_ns: u64,
    /// Length of the stretches over which it keeps its phase.
    pub(super) coherent_ns: f64,
    /// In each of them.
    pub(super) due: Vec<Due>,
}

impl RefinedLine {
    /// The frequency of which this one is a multiple; its phases are not.
    pub(super) fn divide(mut self, times: usize) -> Self {
        self.hz /= times as f64;
        self
    }

    /// The same at another frequency, a multiple or a part; if its clock drifts, in
    /// stretches in which it hardly does.
    pub(super) fn at(mut self, cpu: &CpuTrace, pass: &Pass, hz: f64) -> Self {
        let pieces = Pieces::of(cpu, pass, hz, self.by_noise);
        let amplitude = |power: f64, together: usize| {
            (power - pieces.squares) / pieces.power_of_a_line(together)
        };
        let mut together = pieces.all.len().div_ceil(self.due.len().max(1)).max(1);
        self.hz = hz;
        self.due = pieces.due(together, |_| 0.0);
        let mut most = amplitude(power(&pieces.all, together, 0.0), together);
        let mut shorter = together;
        // Two pieces have a frequency.
        while shorter > 2 {
            shorter = shorter.div_ceil(2);
            let width = 1e9 / (pieces.piece_ns * shorter as f64);
            let own = pieces
                .all
                .chunks(shorter)
                .map(|chunk| best(chunk, chunk.len(), 0.0, width));
            let own: Vec<(f64, f64)> = own.collect();
            let power: f64 = own.iter().map(|(_, power)| power).sum();
            if power < LEAST_POWER * pieces.squares {
                break;
            }
            if amplitude(power, shorter) > DRIFTS * most {
                most = amplitude(power, shorter);
                together = shorter;
                self.due = pieces.due(shorter, |i| own[i].0);
            }
        }
        self.coherent_ns = together as f64 * pieces.piece_ns;
        self
    }
}

struct RefinePiece {
    /// Since the begin, s.
    middle_s: f64,
    sum: Complex,
}

/// Sums over the events of each piece of time at a frequency.
struct Pieces {
    all: Vec<RefinePiece>,
    hz: f64,
    piece_ns: f64,
    /// Sum of the squared weights of all events.
    squares: f64,
}

/// Refines the frequency `at` (in steps of the pass); events weigh 1 each or, `by_noise`,
/// their length.
pub(super) fn refine(cpu: &CpuTrace, pass: &Pass, at: usize, by_noise: bool) -> RefinedLine {
    let coarse_hz = at as f64 * pass.step_hz();
    let pieces = Pieces::of(cpu, pass, coarse_hz, by_noise);
    let mut together = PIECES;
    let (mut offset_hz, mut power) = best(&pieces.all, together, 0.0, pass.step_hz());
    let in_segments = power / pieces.squares;
    while together < pieces.all.len() {
        let width = 1e9 / (pieces.piece_ns * together as f64);
        let twice = together * 2;
        let (better_hz, more) = best(&pieces.all, twice, offset_hz, width);
        let growth = pieces.power_of_a_line(twice) / pieces.power_of_a_line(together);
        if more < power * (1.0 + KEEPS_PHASE * (growth - 1.0)) {
            break;
        }
        (offset_hz, power, together) = (better_hz, more, twice);
    }
    let together = together.min(pieces.all.len());
    RefinedLine {
        by_noise,
        hz: coarse_hz + offset_hz,
        power: in_segments,
        begin_ns: pass.begin_ns,
        coherent_ns: together as f64 * pieces.piece_ns,
        due: pieces.due(together, |_| offset_hz),
    }
}

impl Pieces {
    /// Sums at a frequency, without what the mean rate of the events gives within the known
    /// time.
    fn of(cpu: &CpuTrace, pass: &Pass, hz: f64, by_noise: bool) -> Self {
        let count = (pass.segments as usize).saturating_mul(PIECES);
        let piece_ns = pass.segment_ns / PIECES as f64;
        let turn = std::f64::consts::TAU * hz;
        let seconds = |ns: u64| (ns as f64 - pass.begin_ns as f64) / 1e9;
        let mut pieces: Vec<RefinePiece> = (0..count)
            .map(|i| RefinePiece {
                middle_s: (i as f64 + 0.5) * piece_ns / 1e9,
                sum: Complex::default(),
            })
            .collect();
        let (mut weights, mut squares) = (0.0, 0.0);
        for event in &cpu.events {
            let t = seconds(event.start_ns);
            let piece = ((t * 1e9 / piece_ns) as usize).min(count - 1);
            let weight = pass.weight(event, by_noise);
            pieces[piece].sum += Complex::from_polar(weight, -turn * t);
            weights += weight;
            squares += weight * weight;
        }
        let known_s: f64 = cpu.known_ns() as f64 / 1e9;
        let rate = if known_s > 0.0 {
            weights / known_s
        } else {
            0.0
        };
        // The integral of exp(-i turn t) from a to b.
        let constant = |a: f64, b: f64| {
            let end = |t: f64| Complex::from_polar(1.0, -turn * t);
            (end(b) - end(a)) * Complex::new(0.0, 1.0 / turn)
        };
        for span in &cpu.known {
            let (from, until) = (seconds(span.from_ns), seconds(span.until_ns));
            let first = (from.max(0.0) * 1e9 / piece_ns) as usize;
            for (i, piece) in pieces.iter_mut().enumerate().skip(first) {
                let begin = i as f64 * piece_ns / 1e9;
                if begin >= until {
                    break;
                }
                let (a, b) = (from.max(begin), until.min(begin + piece_ns / 1e9));
                if b > a {
                    piece.sum -= constant(a, b) * rate;
                }
            }
        }
        let squares = squares.max(f64::MIN_POSITIVE);
        Self {
            all: pieces,
            hz,
            piece_ns,
            squares,
        }
    }

    /// When the events of a line are due in each stretch of `together` pieces; its frequency
    /// there is `offset_hz` beside that of the pieces.
    fn due(&self, together: usize, offset_hz: impl Fn(usize) -> f64) -> Vec<Due> {
        let due = |(i, stretch): (usize, &[RefinePiece])| {
            let hz = self.hz + offset_hz(i);
            // Turned to the begin of the stretch; events lie where the sum points.
            let begin_s = i as f64 * together as f64 * self.piece_ns / 1e9;
            let phase = sum(stretch, offset_hz(i)).arg() / std::f64::consts::TAU;
            let turned = -phase - hz * begin_s;
            Due {
                hz,
                phase: turned - turned.round(),
            }
        };
        self.all.chunks(together).enumerate().map(due).collect()
    }

    /// The power of a line of amplitude 1 in stretches of `together` pieces.
    fn power_of_a_line(&self, together: usize) -> f64 {
        let chunks = self.all.chunks(together);
        chunks.map(|chunk| (chunk.len() * chunk.len()) as f64).sum()
    }
}

/// The sum over pieces, as seen from a frequency beside.
fn sum(pieces: &[RefinePiece], offset_hz: f64) -> Complex {
    let turn = std::f64::consts::TAU * offset_hz;
    let turned = pieces
        .iter()
        .map(|piece| piece.sum * Complex::from_polar(1.0, -turn * piece.middle_s));
    turned.sum()
}

/// The sum of the powers of stretches of `together` pieces, as seen from a frequency beside.
fn power(pieces: &[RefinePiece], together: usize, offset_hz: f64) -> f64 {
    let chunks = pieces.chunks(together);
    chunks.map(|chunk| sum(chunk, offset_hz).norm_sqr()).sum()
}

/// The best frequency near `around`, and its power: the sum over stretches of `together`
/// pieces.
fn best(pieces: &[RefinePiece], together: usize, around: f64, width: f64) -> (f64, f64) {
    let power = |offset: f64| power(pieces, together, offset);
    let step = width / f64::from(TRIALS);
    let mut best = (around, 0.0);
    for trial in -TRIALS..=TRIALS {
        let offset = around + f64::from(trial) * step;
        let power = power(offset);
        if power > best.1 {
            best = (offset, power);
        }
    }
    // Near its top a peak is a parabola.
    let (low, high) = (power(best.0 - step), power(best.0 + step));
    let bend = low - 2.0 * best.1 + high;
    if bend < 0.0 {
        let offset = best.0 + 0.5 * step * (low - high) / bend;
        let top = power(offset);
        if top > best.1 {
            best = (offset, top);
        }
    }
    best
}
