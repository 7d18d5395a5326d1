// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What users write: tests, confidences, rounds, sizes of memory.

use crate::TestRequest;

/// A test of ours, by its name.
pub(super) fn test(text: &str) -> Result<TestRequest, String> {
    match text.parse::<TestRequest>() {
        Ok(TestRequest::Command { .. }) => {
            Err("a test of your own is given by --command 'name=command'".to_owned())
        }
        other => other.map_err(|error| error.to_string()),
    }
}

/// `name=command`.
pub(super) fn command(text: &str) -> Result<TestRequest, String> {
    match text.parse::<TestRequest>() {
        Ok(wanted @ TestRequest::Command { .. }) => Ok(wanted),
        _ => Err(
            "expected name=command, such as 'stream=./stream -n 3', with a name that no other \
             test has"
                .to_owned(),
        ),
    }
}

/// `99%`, `99`, `.99`: a share below 1.
pub(super) fn confidence(text: &str) -> Result<f64, String> {
    let bad = || "expected a confidence between 50 and 100 %, such as 99%".to_owned();
    let (number, pct) = match text.trim().strip_suffix('%') {
        Some(number) => (number, true),
        None => (text.trim(), false),
    };
    let number: f64 = number.trim_end().parse().map_err(|_| bad())?;
    let share = if pct || number > 1.0 {
        // 99.9 % is .999, whatever a division makes of it.
        (number * 1e10).round() / 1e12
    } else {
        number
    };
    let is_sane = share > 0.5 && share < 1.0;
    is_sane.then_some(share).ok_or_else(bad)
}

/// `0.5`, `0.5%`: percent.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let bad = || "expected a difference in percent above 0, such as 0.5%".to_owned();
    let number = text.trim().trim_end_matches('%').trim_end();
    let pct: f64 = number.parse().map_err(|_| bad())?;
    let is_sane = pct > 0.0 && pct <= 100.0;
    is_sane.then_some(pct).ok_or_else(bad)
}

/// `20`, `12..200`: the fewest and the most.
pub(super) fn rounds(text: &str) -> Result<(u32, u32), String> {
    let bad = || "expected a number of rounds, 3 or more, or FROM..TO such as 12..200".to_owned();
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad());
    let (from, to) = match text.split_once("..") {
        None => (number(text)?, number(text)?),
        Some((from, to)) => (number(from)?, number(to)?),
    };
    let is_sane = from >= 3 && from <= to;
    is_sane.then_some((from, to)).ok_or_else(bad)
}

/// What makes an audit fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FailOn {
    /// A CPU that charges more, or that others disturb
    Any,
    /// Only a CPU that itself charges more; not other programs on it
    Inequality,
}

impl FailOn {
    /// Whether others do.
    pub(super) fn contention(self) -> bool {
        self == Self::Any
    }
}

/// How much memory is meant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MemorySize {
    Bytes(u64),
    /// A share of what is available.
    Share(f64),
}

impl MemorySize {
    /// In bytes; a share is one of `available`.
    pub(super) fn bytes(self, available: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => (available as f64 * share) as u64,
        }
    }
}

/// `512M`, `2GiB`, `25%`.
pub(super) fn memory(text: &str) -> Result<MemorySize, String> {
    let bad = || "expected a size such as 512M or 2G, or a share of what is free, 25%".to_owned();
    let text = text.trim();
    if let Some(number) = text.strip_suffix('%') {
        let pct: f64 = number.trim_end().parse().map_err(|_| bad())?;
        let share = (pct > 0.0 && pct <= 100.0).then_some(pct / 100.0);
        return share.map(MemorySize::Share).ok_or_else(bad);
    }
    let at = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    let power = match unit
        .to_ascii_lowercase()
        .trim_end_matches('b')
        .trim_end_matches('i')
    {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(bad()),
    };
    let bytes = number * 1024f64.powi(power);
    let is_sane = (1.0..1e18).contains(&bytes);
    let size = is_sane.then_some(MemorySize::Bytes(bytes as u64));
    size.ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidences_are_percent_or_shares() {
        assert_eq!(confidence("99%"), Ok(0.99));
        assert_eq!(confidence("99.9"), Ok(0.999));
        assert_eq!(confidence("0.95"), Ok(0.95));
        for bad in ["0.99%", "100%", "1", "50", "x", "NaN", ""] {
            assert!(confidence(bad).is_err(), "{bad}");
        }
        assert_eq!(percent("0.5%"), Ok(0.5));
        assert!(percent("0").is_err() && percent("NaN").is_err() && percent("-1").is_err());
    }

    #[test]
    fn rounds_are_a_number_or_two() {
        assert_eq!(rounds("20"), Ok((20, 20)));
        assert_eq!(rounds("3..40"), Ok((3, 40)));
        for bad in ["2", "5..4", "", "a..b", "3..", "-1"] {
            assert!(rounds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn memory_is_a_size_or_a_share() {
        assert_eq!(memory("512M"), Ok(MemorySize::Bytes(512 << 20)));
        assert_eq!(memory("1.5 GiB"), Ok(MemorySize::Bytes(3 << 29)));
        assert_eq!(memory("4096"), Ok(MemorySize::Bytes(4096)));
        assert_eq!(memory("25%").unwrap().bytes(1000), 250);
        for bad in ["", "0", "-1M", "1X", "101%", "0%", "1e30", "NaN", "nan%"] {
            assert!(memory(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn own_tests_have_a_name_of_their_own() {
        let own = command("mine=./my_bench -n 3").unwrap();
        assert_eq!(own.name(), "mine");
        assert!(
            matches!(own, TestRequest::Command { command, .. } if command == "./my_bench -n 3")
        );
        for bad in ["mine", "=x", "compute=x", "noise=x", "io:/tmp=x", "x="] {
            assert!(command(bad).unwrap_err().contains("name=command"), "{bad}");
        }
        for known in TestRequest::all() {
            assert_eq!(test(known.name()), Ok(known.clone()));
        }
        assert!(test("").unwrap_err().contains("syscall"));
        assert!(test("a=b").unwrap_err().contains("--command"));
        assert!(test("memry").unwrap_err().contains("syscall"));
    }
}
