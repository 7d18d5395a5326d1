// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of random tasks, and of too many.

use proptest::prelude::*;

use crate::testing::{message, read};
use crate::{Format, NS_PER_S};

fn google(start_s: u64, end_s: u64, machine: u32, rate: &str) -> String {
    format!(
        "{start_s}000000,{end_s}000000,3418309,0,{machine},{rate},\
         0.06,0.07,0.001,0.06,0.07,0.0004,0.0006,0.1,0.1,2.5,0.01,1,0,0.002\n"
    )
}

#[test]
fn more_tasks_at_a_time_than_are_held() {
    let text = google(600, 900, 7, "0.25").repeat(65_537);
    let got = message(&text, Format::Google2011);
    assert!(got.contains("google-2011: more than 65536 tasks"), "{got}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tasks_keep_their_work(
        tasks in prop::collection::vec((0u64..50, 1u64..50, 0u32..20), 1..20),
    ) {
        let rows: String = tasks.iter().map(|(start, length, rate)| {
            google(600 + start, 600 + start + length, 7, &format!("0.{rate:03}"))
        }).collect();
        let work: f64 = tasks.iter().map(|(_, length, rate)| *length as f64 * f64::from(*rate) / 10.0).sum();
        let p = read(&rows);
        let done: f64 = p.steps.iter().map(|step| {
            step.cells[0].map_or(0.0, |c| c.load_pct) * step.length_ns() as f64 / NS_PER_S as f64
        }).sum();
        prop_assert!((done - work).abs() < 1e-6, "{} {}", done, work);
    }
}
