// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Zones, as programs write them behind their stamps.

use crate::number::{NS_PER_S, whole};

/// How far a zone is ahead of UTC: `UTC+10`, `UTC-5:30` (not POSIX, whose
/// signs are the other way round), `+0530`, `+05:30`, `UTC`, `Z`. `None` for
/// abbreviations, which name no zone for certain.
pub(super) fn zone_ns(text: &[u8]) -> Option<i64> {
    if matches!(text, b"UTC" | b"GMT" | b"Z") {
        return Some(0);
    }
    let (sign, digits) = match text.strip_prefix(b"UTC").unwrap_or(text) {
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.iter().position(|b| *b == b':') {
        Some(colon) => (&digits[..colon], &digits[colon + 1..]),
        None if digits.len() == 4 => digits.split_at(2),
        None => (digits, &b"0"[..]),
    };
    let (hours, minutes) = (whole(hours)?, whole(minutes)?);
    let seconds = (hours <= 26 && minutes < 60).then(|| hours * 3600 + minutes * 60)?;
    Some(sign * i64::try_from(seconds * NS_PER_S).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("UTC+0", Some(0))]
    #[case("UTC+10", Some(36_000))]
    #[case("UTC-5", Some(-18_000))]
    #[case("UTC+5:30", Some(19_800))]
    #[case("-03:30", Some(-12_600))]
    // What pcp2json makes of a zone without a name.
    #[case("UTC+03>-3", None)]
    #[case("UTC+5:75", None)]
    #[case("UTC+99", None)]
    #[case("CET", None)]
    fn zones(#[case] text: &str, #[case] expected_s: Option<i64>) {
        let ns = expected_s.map(|s| s * NS_PER_S as i64);
        assert_eq!(zone_ns(text.as_bytes()), ns);
    }

    proptest! {
        #[test]
        fn anything_may_stand_there(bytes: Vec<u8>, text in "(UTC)?[+-][0-9:]{0,8}") {
            zone_ns(&bytes);
            zone_ns(text.as_bytes());
        }
    }
}
