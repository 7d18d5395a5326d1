// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--at TIME`: a moment of the wall clock as one of the monotonic clock.

use crate::board::BOUNDARY_NS;
use crate::supervisor::StartAt;
use jiff::Timestamp;
use sandbag_linux::clock;
use sandbag_ui::failure::Result;

use sandbag_ui::BadInput;

/// The beginning at an RFC 3339 time or at `@SECONDS` since 1970. The wall clock
/// is looked at once: what it does afterwards moves nothing.
pub fn start_at(text: &str) -> Result<StartAt> {
    let at = parse(text).ok_or_else(|| {
        BadInput(format!(
            "--at {text}: expected a time such as 2030-01-31T12:00:00Z or @1900000000"
        ))
    })?;
    let ahead = at.as_nanosecond() - Timestamp::now().as_nanosecond();
    let ahead = u64::try_from(ahead).map_err(|_| {
        sandbag_ui::Failure::from(BadInput(format!("--at {text}: that time is past")))
    })?;
    Ok(StartAt {
        at_ns: clock::monotonic() + ahead,
        wall: Some(at),
    })
}

/// How much later than at a monotonic time a run begins, ns: at the first
/// boundary after it. Another base for the boundaries would make it exact, but
/// it is all burners' and all runs' one clock that they are counted on.
pub fn delay_ns(at_ns: u64) -> u64 {
    at_ns.next_multiple_of(BOUNDARY_NS) - at_ns
}

fn parse(text: &str) -> Option<Timestamp> {
    match text.strip_prefix('@') {
        None => text.parse().ok(),
        Some(seconds) => {
            let ns = (seconds.parse::<f64>().ok()? * 1e9).round();
            Timestamp::from_nanosecond(ns as i128).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_at_the_next_boundary() {
        assert_eq!(delay_ns(7 * BOUNDARY_NS), 0);
        assert_eq!(delay_ns(7 * BOUNDARY_NS + 1), BOUNDARY_NS - 1);
    }

    #[test]
    fn times_to_come_are_ahead_and_past_ones_refused() {
        let soon = Timestamp::now().as_second() + 100;
        let start = start_at(&format!("@{soon}")).unwrap();
        assert_eq!(start.wall, Some(Timestamp::from_second(soon).unwrap()));
        let ahead = start.at_ns - clock::monotonic();
        assert!((98_000_000_000..101_000_000_000).contains(&ahead));
        assert!(start_at("2001-01-01T00:00:00Z").is_err());
        assert!(start_at("noon").is_err());
    }
}
