// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Long vectors, no I/O, vectorised as this CPU can.

use std::hint::black_box;

use super::test_work::TestWork;

/// Elements of a vector: three of them fill a good part of the second-level
/// cache, so that the CPU decides and not the memory that all CPUs share.
const ELEMENTS: usize = 8192;

type Pass = fn(&mut [f64], &[f64], &[f64]);

/// a = a/2 + b c, again and again: bounded, whatever the number of passes.
pub(super) struct Vectors {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    pass: Pass,
    how: &'static str,
}

impl Vectors {
    pub(super) fn new() -> Self {
        let (pass, how) = best();
        let of = |step: f64| (0..ELEMENTS).map(|at| (at as f64 * step).sin()).collect();
        Self {
            a: vec![0.0; ELEMENTS],
            b: of(0.1),
            c: of(0.3),
            pass,
            how,
        }
    }
}

/// The widest instructions that this CPU has.
fn best() -> (Pass, &'static str) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the CPU has what the function needs.
        return (|a, b, c| unsafe { wide(a, b, c) }, "AVX2 and FMA");
    }
    (plain, "the architecture's base")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn wide(a: &mut [f64], b: &[f64], c: &[f64]) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = a.mul_add(0.5, b * c);
    }
}

fn plain(a: &mut [f64], b: &[f64], c: &[f64]) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = *a * 0.5 + b * c;
    }
}

impl TestWork for Vectors {
    fn run(&mut self, units: u64) -> Result<(), String> {
        for _ in 0..units {
            (self.pass)(black_box(&mut self.a), &self.b, &self.c);
        }
        black_box(&self.a);
        Ok(())
    }

    fn describe(&self) -> String {
        format!(
            "three vectors of {ELEMENTS} numbers multiplied and added, with {}",
            self.how
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_come_to_the_same() {
        let mut one = Vectors::new();
        let mut other = Vectors {
            pass: plain,
            ..Vectors::new()
        };
        one.run(50).unwrap();
        other.run(50).unwrap();
        for (x, y) in one.a.iter().zip(&other.a) {
            assert!((x - y).abs() < 1e-9 && x.abs() <= 2.0, "{x} {y}");
        }
    }
}
