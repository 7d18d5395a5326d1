// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What users write: ranks, synchronisations, the cost of messages.

use sandbag_scale::predict::{LogGp, MOST_RANKS, Spread};

use crate::units;

/// `16`, `16,32`, `1..1e6`: powers of two from here to there, and the ends.
pub(super) fn ranks(text: &str) -> Result<Ranks, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => all.push(count(part)?),
            Some((from, until)) => {
                let (from, until) = (count(from)?, count(until)?);
                if from > until {
                    return Err(format!("{from} is more than {until}"));
                }
                all.push(from);
                let powers = (0..64).map(|power| 1u64 << power);
                all.extend(powers.filter(|n| (from..until).contains(n)));
                all.push(until);
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(Ranks(all))
}

/// Ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ranks(pub Vec<u64>);

fn count(text: &str) -> Result<u64, String> {
    let bad = || "expected numbers of ranks such as 16, 16,32 or 1..1e6".to_owned();
    let value: f64 = text.trim().parse().map_err(|_| bad())?;
    if value.fract() != 0.0 {
        return Err(bad());
    }
    match (1.0..=MOST_RANKS as f64).contains(&value) {
        true => Ok(value as u64),
        false => Err(format!("{} ranks: there are 1 to 10^9", text.trim())),
    }
}

/// A time of less than a second, mostly: `5us`, `0.2us`, `80ns`; ns.
pub(super) fn short_time(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let bad = || format!("`{text}`: expected a time with its unit, such as 5us, 80ns or 0.1ns");
    let at = text.find(|c: char| c.is_ascii_alphabetic() && c != 'e');
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let value: f64 = number.trim().parse().map_err(|_| bad())?;
    let ns = match unit.trim() {
        "ns" => value,
        "us" => value * 1e3,
        "ms" => value * 1e6,
        "s" => value * 1e9,
        "" if value == 0.0 => 0.0,
        _ => return Err(bad()),
    };
    match (0.0..=1e12).contains(&ns) {
        true => Ok(ns),
        false => Err(bad()),
    }
}

/// `L,o,g,G`.
pub(super) fn loggp(text: &str) -> Result<LogGp, String> {
    let parts: Vec<f64> = text.split(',').map(short_time).collect::<Result<_, _>>()?;
    let [l_ns, o_ns, g_ns, g_byte_ns] = parts[..] else {
        return Err("expected L,o,g,G, such as 5us,1us,0.5us,0.1ns".to_owned());
    };
    Ok(LogGp {
        l_ns,
        o_ns,
        g_ns,
        g_byte_ns,
        bytes: 1,
    })
}

/// `5300us`, `5300us,normal`.
pub(super) fn drift(text: &str) -> Result<(u64, Spread), String> {
    let (time, spread) = match text.split_once(',') {
        None => (text, Spread::Uniform),
        Some((time, "uniform")) => (time, Spread::Uniform),
        Some((time, "normal")) => (time, Spread::Normal),
        Some(_) => return Err("expected TIME, TIME,uniform or TIME,normal".to_owned()),
    };
    Ok((units::nanos(units::duration(time)?), spread))
}

/// Shares of nodes: `9:1`.
pub(super) fn shares(text: &str) -> Result<Shares, String> {
    let share = |part: &str| match part.trim().parse::<u32>() {
        Ok(share) if share > 0 => Ok(u64::from(share)),
        _ => Err("expected shares of nodes such as 9:1".to_owned()),
    };
    text.split(':')
        .map(share)
        .collect::<Result<_, _>>()
        .map(Shares)
}

/// In the order of the traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shares(pub Vec<u64>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_numbers_and_ranges() {
        assert_eq!(ranks("16"), Ok(Ranks(vec![16])));
        assert_eq!(ranks("3..20,7"), Ok(Ranks(vec![3, 4, 7, 8, 16, 20])));
        assert_eq!(ranks("1..1e6").unwrap().0.len(), 21);
        for bad in ["0", "-1", "1.5", "x", "", "8..4", "1e10", "NaN"] {
            assert!(ranks(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn messages_have_four_times() {
        let cost = loggp("5us,1us,0.5us,0.1ns").unwrap();
        assert_eq!(
            (cost.l_ns, cost.o_ns, cost.g_ns, cost.g_byte_ns),
            (5e3, 1e3, 500.0, 0.1)
        );
        assert!(loggp("5us,1us,0,0").is_ok());
        for bad in ["5us,1us", "5,1,1,1", "5us,1us,1us,-1ns", "a,b,c,d"] {
            assert!(loggp(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn drifts_have_a_shape() {
        assert_eq!(drift("5300us"), Ok((5_300_000, Spread::Uniform)));
        assert_eq!(drift("4ms,normal"), Ok((4_000_000, Spread::Normal)));
        assert!(drift("4ms,odd").is_err() && drift("far").is_err());
        assert_eq!(shares("9:1"), Ok(Shares(vec![9, 1])));
        assert!(shares("9:0").is_err());
    }
}
