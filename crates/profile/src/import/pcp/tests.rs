// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sampling passes that pmlogger wrote as several records.

use proptest::prelude::*;

use crate::Format;
use crate::testing::read_as;

/// A record of pmdumplog.
fn record(stamp: &str, metrics: &[(&str, [u64; 2])]) -> String {
    let mut text = format!("\n{stamp} {} metrics\n", metrics.len());
    for (name, values) in metrics {
        text += &format!(
            "    60.0.0 (kernel.percpu.cpu.{name}):\n        inst [0 or \"cpu0\"] value {}\n        \
             inst [1 or \"cpu1\"] value {}\n",
            values[0], values[1]
        );
    }
    text
}

proptest! {
    /// However the values of a pass are spread over records, within half a
    /// second and in any order, the loads are the same.
    #[test]
    fn records_of_a_pass_may_be_split_anyhow(
        ticks in prop::collection::vec([0u64..100, 0u64..100, 0u64..100], 2..6),
        parts in prop::collection::vec([0u64..3, 0u64..3, 0u64..3], 6),
    ) {
        let (mut together, mut apart) = (String::new(), String::new());
        let mut counters = [100_000u64; 3];
        for (second, (ticks, parts)) in ticks.iter().zip(&parts).enumerate() {
            let mut all = Vec::new();
            for (i, name) in ["user", "sys", "idle"].iter().enumerate() {
                counters[i] += ticks[i];
                all.push((parts[i], (*name, [counters[i], 2 * counters[i]])));
            }
            let stamp = |part: u64| format!("10:00:{second:02}.{:02}", part * 20);
            let metrics: Vec<_> = all.iter().map(|m| m.1).collect();
            together += &record(&stamp(0), &metrics);
            let first = *parts.iter().min().unwrap();
            for part in 0..3 {
                let some: Vec<_> = all.iter().filter(|m| m.0 == part).map(|m| m.1).collect();
                if !some.is_empty() {
                    apart += &record(&stamp(part - first), &some);
                }
            }
        }
        let read = |text: &str| read_as(text.as_bytes(), Some(Format::Pmdumplog)).unwrap();
        prop_assert_eq!(read(&together), read(&apart));
    }
}
