// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far the clocks of two hosts are apart, and what each says of itself.

use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// The wall clock, ns since 1970.
pub fn wall_ns() -> i64 {
    i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}

/// One exchange of stamps: sent and answered by the leader's clock, read and written by the
/// other's, ns.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    pub sent_ns: i64,
    pub read_ns: i64,
    pub written_ns: i64,
    pub answered_ns: i64,
}

/// How far a clock is ahead of the leader's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Offset {
    pub ms: f64,
    /// Largest error of that: half of the shortest round trip (RFC 5905, section 8).
    pub within_ms: f64,
}

impl Offset {
    /// `None` for stamps that go back.
    pub fn of(exchange: &Exchange) -> Option<Self> {
        let there = exchange.read_ns.checked_sub(exchange.sent_ns)?;
        let back = exchange.written_ns.checked_sub(exchange.answered_ns)?;
        let round = exchange.answered_ns.checked_sub(exchange.sent_ns)?;
        let held = exchange.written_ns.checked_sub(exchange.read_ns)?;
        if round < held || held < 0 {
            return None;
        }
        Some(Self {
            ms: (there as f64 + back as f64) / 2e6,
            within_ms: (round - held) as f64 / 2e6,
        })
    }

    /// Whether two clocks are surely not the same.
    pub fn is_certain(&self) -> bool {
        self.ms.abs() > self.within_ms
    }

    /// What a time of the leader's is moved by on this host, ns: nothing where that may be
    /// the error of the exchange.
    pub fn correction_ns(&self) -> i64 {
        if self.is_certain() {
            (self.ms * 1e6).round() as i64
        } else {
            0
        }
    }
}

/// What the kernel, and chrony where it runs, say of a host's clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockState {
    /// `synchronised`, `not synchronised`: by the kernel's flag, which drivers of virtual
    /// machines leave unset although the clock is right.
    pub kernel: String,
    /// The kernel's bound on the error, where it is synchronised.
    pub kernel_within_ms: Option<f64>,
    /// chrony's bound: offset, dispersion and half of the delay to its source.
    pub chrony_within_ms: Option<f64>,
}

impl ClockState {
    /// Of this host, now.
    pub fn here() -> Self {
        // SAFETY: all zero asks for nothing to be changed, and the call fills it in.
        let (state, timex) = unsafe {
            let mut timex: libc::timex = std::mem::zeroed();
            (libc::adjtimex(&raw mut timex), timex)
        };
        let is_set = state >= 0 && timex.status & libc::STA_UNSYNC == 0;
        Self {
            kernel: if is_set {
                "synchronised"
            } else {
                "not synchronised"
            }
            .to_owned(),
            kernel_within_ms: is_set.then_some(timex.maxerror as f64 / 1e3),
            chrony_within_ms: chrony(),
        }
    }

    /// The smaller bound.
    pub fn within_ms(&self) -> Option<f64> {
        let both = [self.kernel_within_ms, self.chrony_within_ms];
        both.into_iter().flatten().min_by(f64::total_cmp)
    }
}

fn chrony() -> Option<f64> {
    let mut chronyc = Command::new("chronyc");
    chronyc
        .args(["-c", "tracking"])
        .stderr(Stdio::null())
        .stdin(Stdio::null());
    let output = chronyc
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    tracking(&String::from_utf8_lossy(&output.stdout))
}

/// The bound of chronyc(1), ms, of a line of `chronyc -c tracking`.
fn tracking(line: &str) -> Option<f64> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let (offset, delay, dispersion) = (number(4)?, number(10)?, number(11)?);
    let is_set = fields.last().is_some_and(|state| !state.contains("Not"));
    let bound = (offset.abs() + dispersion + delay / 2.0) * 1e3;
    (is_set && bound.is_finite()).then_some(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(stamps: [i64; 4]) -> Option<Offset> {
        let [sent_ns, read_ns, written_ns, answered_ns] = stamps.map(|ms| ms * 1_000_000);
        Offset::of(&Exchange {
            sent_ns,
            read_ns,
            written_ns,
            answered_ns,
        })
    }

    #[test]
    fn an_offset_is_right_within_half_of_the_round_trip() {
        // The other is 5000 ms ahead: 3 ms there, 1 ms back.
        let found = offset([0, 5003, 5004, 5]).unwrap();
        assert_eq!((found.ms, found.within_ms), (5001.0, 2.0));
        assert!((found.ms - 5000.0).abs() <= found.within_ms);
        assert_eq!(found.correction_ns(), 5_001_000_000);
        // Within its error it is none.
        let found = offset([0, 3, 4, 5]).unwrap();
        assert_eq!((found.ms, found.correction_ns()), (1.0, 0));
        // Stamps that no exchange has.
        assert_eq!(offset([0, 3, 2, 5]), None);
        assert_eq!(offset([9, 3, 4, 5]), None);
        assert_eq!(
            offset([0, i64::MIN / 1_000_000, i64::MAX / 1_000_000, 5]),
            None
        );
    }

    #[test]
    fn chrony_s_bound_is_offset_dispersion_and_half_the_delay() {
        let line = "C0A80001,ntp,3,1700000000.1,0.000010,0.00001,0.00002,1.5,0.001,0.1,\
                    0.000400,0.000200,64.2,Normal\n";
        let found = tracking(line).unwrap();
        assert!((found - 0.41).abs() < 1e-9, "{found}");
        assert_eq!(tracking(&line.replace("Normal", "Not synchronised")), None);
        assert_eq!(tracking("506 Cannot talk to daemon"), None);
    }

    #[test]
    fn this_host_s_clock_says_something() {
        assert!(ClockState::here().kernel.ends_with("synchronised"));
    }
}
