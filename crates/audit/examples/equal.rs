// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How often are equal CPUs called unequal, and how often is a slow one found?
//!
//!     cargo run --release -p sandbag-audit --example equal -- 2000
//!
//! Audits are simulated ([`sandbag_audit::simulate`]), as many as the argument
//! says, in several worlds.

use std::thread;

use sandbag_audit::simulate::{World, audit, unequal, upper_bound};

fn main() {
    let argument = |at| std::env::args().nth(at);
    let audits: u64 = argument(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(200);
    let only = argument(2);
    let base = World::default();
    let worlds = [
        ("2 CPUs", base.clone()),
        (
            "4 CPUs",
            World {
                cpus: 4,
                rounds: (12, 24),
                ..base.clone()
            },
        ),
        (
            "no disturbances",
            World {
                quiet_s: 1e9,
                ..base.clone()
            },
        ),
        (
            "bursts of 10 s",
            World {
                burst_s: 10.0,
                quiet_s: 60.0,
                ..base.clone()
            },
        ),
        (
            "12 rounds",
            World {
                rounds: (12, 12),
                ..base.clone()
            },
        ),
        (
            "quick: 6 rounds, tolerance 2 %",
            World {
                rounds: (6, 12),
                tolerance_pct: 2.0,
                precision_pct: 1.0,
                ..base.clone()
            },
        ),
        (
            "6 rounds, tolerance 0.5 %",
            World {
                rounds: (6, 6),
                ..base.clone()
            },
        ),
        (
            "1 % more CPU time",
            World {
                slower_pct: (0.0, 1.0),
                ..base.clone()
            },
        ),
        (
            "1 % more elapsed time",
            World {
                slower_pct: (1.0, 0.0),
                ..base.clone()
            },
        ),
        (
            "a load of 1 % in slices of 3 ms",
            World {
                load: (1.0, 3.0),
                ..base
            },
        ),
    ];
    for (name, world) in worlds {
        if only
            .as_ref()
            .is_some_and(|only| !name.contains(only.as_str()))
        {
            continue;
        }
        let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
        let count = |from: u64| {
            let seeds = (from..audits).step_by(threads as usize);
            let found = seeds.map(|seed| unequal(&audit(&world, seed), None));
            found.fold((0u64, 0u64), |(any, one), cpus| {
                (
                    any + u64::from(!cpus.is_empty()),
                    one + u64::from(cpus == [1]),
                )
            })
        };
        let (any, one) = thread::scope(|scope| {
            let all: Vec<_> = (0..threads)
                .map(|from| scope.spawn(move || count(from)))
                .collect();
            let all = all.into_iter().filter_map(|one| one.join().ok());
            all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        });
        println!(
            "{name}: {any} of {audits} audits call a CPU unequal (upper 95 % bound {:.2} %), {one} \
             of them CPU 1 alone",
            upper_bound(any, audits, 0.95) * 100.0
        );
    }
}
