// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The embarrassingly parallel benchmark of the NAS Parallel Benchmarks (EP),
//! written from the specification (Bailey et al., RNR-94-007, section 2.1):
//! pairs of uniform deviates of a linear congruential generator modulo 2^46
//! become Gaussian deviates by the polar method; their sums are the check.
//!
//! KRASH's and Fracas' tables are of this program.

use std::thread;

/// Multiplier of the generator, 5^13.
const A: u64 = 1_220_703_125;
const SEED: u64 = 271_828_183;
const MASK: u64 = (1 << 46) - 1;
/// Pairs of a block; the generator jumps to the beginning of each.
const BLOCK: u64 = 1 << 16;
/// Largest relative deviation of the sums that the specification allows.
const EPSILON: f64 = 1e-8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// 2^24 pairs: a second.
    S,
    W,
    /// 2^28 pairs: some ten seconds.
    A,
    B,
    C,
}

impl Class {
    pub const ALL: [Self; 5] = [Self::S, Self::W, Self::A, Self::B, Self::C];

    pub fn name(self) -> &'static str {
        ["S", "W", "A", "B", "C"][self as usize]
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|class| class.name().eq_ignore_ascii_case(name))
    }

    /// Pairs of uniform deviates.
    pub fn pairs(self) -> u64 {
        1 << [24, 25, 28, 30, 32][self as usize]
    }

    /// The published sums of all X and of all Y.
    fn published(self) -> (f64, f64) {
        match self {
            Self::S => (-3.247_834_652_034_74e3, -6.958_407_078_382_297e3),
            Self::W => (-2.863_319_731_645_753e3, -6.320_053_679_109_499e3),
            Self::A => (-4.295_875_165_629_892e3, -1.580_732_573_678_431e4),
            Self::B => (4.033_815_542_441_498e4, -2.660_669_192_809_235e4),
            Self::C => (4.764_367_927_995_374e4, -8.084_072_988_043_731e4),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    pub x: f64,
    pub y: f64,
    /// Pairs by the larger of |X| and |Y|, rounded down.
    pub annuli: [u64; 10],
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.x += other.x;
        self.y += other.y;
        for (sum, more) in self.annuli.iter_mut().zip(other.annuli) {
            *sum += more;
        }
    }

    /// Whether these are the published sums of the class.
    pub fn are_right(&self, class: Class) -> bool {
        let (x, y) = class.published();
        let off = |got: f64, published: f64| ((got - published) / published).abs();
        off(self.x, x) <= EPSILON && off(self.y, y) <= EPSILON
    }
}

fn next(state: u64, multiplier: u64) -> u64 {
    // The low 46 bits of a product do not depend on what is above 2^64.
    state.wrapping_mul(multiplier) & MASK
}

/// The generator after `count` steps from its seed.
fn after(mut count: u64) -> u64 {
    let (mut state, mut power) = (SEED, A);
    while count > 0 {
        if count & 1 == 1 {
            state = next(state, power);
        }
        power = next(power, power);
        count >>= 1;
    }
    state
}

/// One block of pairs, the `index`th of `length`.
fn block(index: u64, length: u64) -> Sums {
    let scale = 0.5f64.powi(46);
    let mut state = after(2 * index * length);
    let mut uniform = || {
        state = next(state, A);
        2.0 * (state as f64 * scale) - 1.0
    };
    let mut sums = Sums::default();
    for _ in 0..length {
        let (x, y) = (uniform(), uniform());
        let t = x * x + y * y;
        if t > 1.0 {
            continue;
        }
        let factor = (-2.0 * t.ln() / t).sqrt();
        let (x, y) = (x * factor, y * factor);
        sums.x += x;
        sums.y += y;
        sums.annuli[(x.abs().max(y.abs()) as usize).min(9)] += 1;
    }
    sums
}

/// All pairs of the class by `tasks` threads, block by block in turn.
pub fn run(class: Class, tasks: u64) -> Sums {
    let blocks = class.pairs() / BLOCK;
    let of_task = |task: u64| {
        let mut sums = Sums::default();
        for index in (task..blocks).step_by(tasks as usize) {
            sums.add(&block(index, BLOCK));
        }
        sums
    };
    let mut all = Sums::default();
    thread::scope(|scope| {
        let others: Vec<_> = (1..tasks)
            .map(|task| scope.spawn(move || of_task(task)))
            .collect();
        all.add(&of_task(0));
        for other in others {
            // A thread that only computes does not panic.
            if let Ok(sums) = other.join() {
                all.add(&sums);
            }
        }
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumping_ahead_is_stepping() {
        let mut state = SEED;
        for _ in 0..1000 {
            state = next(state, A);
        }
        assert_eq!(after(1000), state);
    }

    #[test]
    fn the_multiplier_is_the_published_one() {
        assert_eq!(A, 5u64.pow(13));
    }

    /// The published sums, with one thread and with three: the order in which
    /// they are added hardly matters.
    #[test]
    fn the_sums_are_the_published_ones() {
        for tasks in [1, 3] {
            let sums = run(Class::S, tasks);
            assert!(sums.are_right(Class::S), "{sums:?}");
            // Published with the sums.
            assert_eq!(sums.annuli.iter().sum::<u64>(), 13_176_389);
            assert!(!sums.are_right(Class::W));
        }
    }

    #[test]
    fn every_class_has_its_letter() {
        for class in Class::ALL {
            assert_eq!(Class::by_name(class.name()), Some(class));
            assert_eq!(class.pairs() % BLOCK, 0);
        }
        assert_eq!(Class::by_name("D"), None);
    }
}
