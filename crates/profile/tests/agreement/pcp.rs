// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One archive of Performance Co-Pilot, exported by three of its tools (see
//! fixtures/README.md): the importers agree to the rounding of each format.

use sandbag_profile::{Profile, ProfileCell};

fn read(name: &str) -> Profile {
    super::read(&super::fixture("tools").join(name))
}

/// Every known cell with its step's number.
fn cells(p: &Profile) -> Vec<Vec<ProfileCell>> {
    let known = |cells: &[Option<ProfileCell>]| cells.iter().map(|c| c.unwrap()).collect();
    p.steps.iter().map(|s| known(&s.cells)).collect()
}

const S: u64 = 1_000_000_000;

#[test]
fn the_dump_is_exact() {
    let p = read("pmdumplog.txt");
    // By hand from the first two records: 330 + 100 of 1000 ms.
    let first = p.steps[0].cells[0].unwrap();
    assert_eq!(p.steps[0].end_ns, 1_001_872_000);
    assert!((first.load_pct - 43.0).abs() < 1e-9, "{first:?}");
    assert_eq!(p.end_ns(), 38_999_044_000);
}

#[test]
fn counters_agree_exactly() {
    let dump = cells(&read("pmdumplog.txt"));
    for (name, steps) in [("pmrep.counters.csv", 39), ("pcp2json.counters.json", 11)] {
        let p = read(name);
        assert_eq!(cells(&p), dump[..steps], "{name}");
        // Stamps are whole seconds there.
        assert!(p.steps.iter().all(|s| s.length_ns() == S), "{name}");
    }
}

#[test]
fn rates_agree_to_their_three_decimals() {
    let dump = cells(&read("pmdumplog.txt"));
    let p = read("pcp2json.rates.json");
    for (rates, exact) in cells(&p).iter().flatten().zip(dump.iter().flatten()) {
        // Eight rates of 0.0005 each, of 1000.
        assert!(
            (rates.load_pct - exact.load_pct).abs() < 4e-4,
            "{rates:?} {exact:?}"
        );
        assert!((rates.steal_pct - exact.steal_pct).abs() < 4e-4);
    }
}

/// Without `-u` pmrep takes its values at moments of its own, between the
/// records of the archive, so a rate holds partly in one step of the archive
/// and partly in the next. How much is the same for all rows.
#[test]
fn interpolated_rates_agree_up_to_their_phase() {
    let dump = cells(&read("pmdumplog.txt"));
    let p = read("pmrep.rates.csv");
    let rates = cells(&p);
    assert_eq!(rates.len(), 39 - 1);
    let worst = |share: f64| {
        let mut worst: f64 = 0.0;
        for (i, row) in rates.iter().enumerate() {
            for (cpu, rate) in row.iter().enumerate() {
                let (a, b) = (dump[i][cpu].load_pct, dump[i + 1][cpu].load_pct);
                worst = worst.max((share * a + (1.0 - share) * b - rate.load_pct).abs());
            }
        }
        worst
    };
    let (share, worst) = (0..1000)
        .map(|n| f64::from(n) / 1000.0)
        .map(|share| (share, worst(share)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap();
    assert!(share < 0.05, "{share}");
    // Interpolated counters are whole ms, so each rate is off by up to 1 of 1000.
    assert!(worst < 0.15, "{worst}");
}
