// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does CPU 0 charge more for a system call than CPU 1? The plainest program that
//! could say so, to hold against an audit that does: getppid(2) and a loop without
//! calls on both in turn, CPU time of the thread, nothing else.
//!
//!     cargo run --release -p sandbag-audit --example calls -- 100

use std::hint::black_box;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{Pid, getppid};
use sandbag_stats::median;

const CALLS: u32 = 1_000_000;
const STEPS: u32 = 30_000_000;

fn main() -> nix::Result<()> {
    let pairs = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let pairs: usize = pairs.unwrap_or(100);
    // More on CPU 0, percent: calls, and steps.
    let mut more: [Vec<f64>; 2] = <[Vec<f64>; 2]>::default();
    for pair in 0..pairs {
        let mut took = [[0.0; 2]; 2];
        for turn in 0..2 {
            let cpu = (pair + turn) % 2;
            let mut only = CpuSet::new();
            only.set(cpu)?;
            sched_setaffinity(Pid::from_raw(0), &only)?;
            took[cpu] = [calls(), steps()];
        }
        for (what, more) in more.iter_mut().enumerate() {
            more.push((took[0][what] / took[1][what] - 1.0) * 100.0);
        }
    }
    for (what, more) in ["calls", "steps without calls"].iter().zip(&mut more) {
        more.sort_by(f64::total_cmp);
        let place = |part: f64| more[((more.len() - 1) as f64 * part) as usize];
        // The sign test's interval, about.
        let half = 0.98 / (more.len() as f64).sqrt();
        println!(
            "{what}: CPU 0 takes {:+.2} % (median of {pairs}; {:+.2} to {:+.2} with 95 %; half of them {:+.2} to {:+.2})",
            median(more).unwrap_or(0.0),
            place((0.5 - half).max(0.0)),
            place((0.5 + half).min(1.0)),
            place(0.25),
            place(0.75),
        );
    }
    Ok(())
}

/// CPU time of the calls, ns.
fn calls() -> f64 {
    let begin = sandbag_linux::clock::thread_cpu();
    for _ in 0..CALLS {
        black_box(getppid());
    }
    (sandbag_linux::clock::thread_cpu() - begin) as f64
}

fn steps() -> f64 {
    let begin = sandbag_linux::clock::thread_cpu();
    let mut x = 1u64;
    for _ in 0..STEPS {
        x = black_box(x.wrapping_mul(16_807) + 1);
    }
    black_box(x);
    (sandbag_linux::clock::thread_cpu() - begin) as f64
}
