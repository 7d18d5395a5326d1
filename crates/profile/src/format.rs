// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The formats and how they are told apart.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Fault};

/// A file format, or where else a profile came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Our own versioned CSV.
    Native,
    /// KRASH's profile, in both of its dialects.
    Krash,
    /// `sadf -j`.
    SadfJson,
    /// `sadf -d`.
    SadfCsv,
    /// `sar -P ALL`.
    SarText,
    /// Snapshots of `/proc/stat`.
    ProcStat,
    /// SimGrid availability traces; written only.
    SimGrid,
    /// Made here, not read.
    Synthetic,
}

impl Format {
    /// Every format that can be named.
    pub const ALL: [Self; 7] = [
        Self::Native,
        Self::Krash,
        Self::SadfJson,
        Self::SadfCsv,
        Self::SarText,
        Self::ProcStat,
        Self::SimGrid,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Krash => "krash",
            Self::SadfJson => "sadf-json",
            Self::SadfCsv => "sadf-csv",
            Self::SarText => "sar",
            Self::ProcStat => "procstat",
            Self::SimGrid => "simgrid",
            Self::Synthetic => "synthetic",
        }
    }

    /// What the beginning of a file looks like; `None` where it looks like
    /// nothing known.
    ///
    /// `head` is decompressed and without byte order mark; some kilobytes are
    /// enough.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Self> {
        if head.trim_ascii_start().starts_with(b"{") {
            return Some(Self::SadfJson);
        }
        let lines = || head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
        let filled = || lines().filter(|l| !l.is_empty());
        let first = filled().next()?;
        if first.starts_with(b"# sandbag profile") {
            Some(Self::Native)
        } else if first.starts_with(b"# hostname;interval;timestamp;") || sadf_row(first) {
            Some(Self::SadfCsv)
        } else if first.starts_with(b"Linux ") || filled().take(50).any(sar_header) {
            Some(Self::SarText)
        } else if filled().any(procstat_line) {
            Some(Self::ProcStat)
        } else {
            let bare = || filled().filter(|l| !l.starts_with(b"#"));
            if bare().next().is_some_and(native_header) {
                Some(Self::Native)
            } else if bare().take(20).any(krash_line) {
                Some(Self::Krash)
            } else {
                None
            }
        }
    }
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(u8::is_ascii_whitespace)
        .filter(|f| !f.is_empty())
}

/// A row of `sadf -d` whose header was cut off, or a restart line.
fn sadf_row(line: &[u8]) -> bool {
    let mut cells = line.split(|b| *b == b';');
    let interval = cells.nth(1);
    interval.is_some_and(|i| i == b"-1" || crate::number::whole(i).is_some())
        && cells
            .next()
            .is_some_and(|t| t.len() >= 10 && t[0].is_ascii_digit())
        && cells.next().is_some()
}

fn sar_header(line: &[u8]) -> bool {
    fields(line).any(|f| f == b"CPU") && fields(line).any(|f| f == b"%idle")
}

fn procstat_line(line: &[u8]) -> bool {
    let mut f = fields(line);
    f.next().is_some_and(|name| {
        name.strip_prefix(b"cpu")
            .is_some_and(|n| n.is_empty() || crate::number::whole(n).is_some())
    }) && f.clone().count() >= 4
        && f.all(|n| crate::number::whole(n).is_some())
}

fn native_header(line: &[u8]) -> bool {
    let lower = line.to_ascii_lowercase();
    let first = lower.split(|b| matches!(b, b',' | b';' | b'\t')).next();
    first.is_some_and(|name| crate::number::unquoted(name) == b"time")
        && lower.len() > first.map_or(0, <[u8]>::len)
}

fn krash_line(line: &[u8]) -> bool {
    [&b"cpu"[..], b"kill", b"cgroup_root", b"all_name"]
        .iter()
        .any(|word| {
            line.strip_prefix(*word).is_some_and(|rest| {
                let rest = rest.trim_ascii_start();
                rest.is_empty() || rest[0] == b'{' || rest[0] == b'=' || rest[0].is_ascii_digit()
            })
        })
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|f| f.name() == text)
            .ok_or_else(|| Fault::NoSuchFormat(text.to_owned()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for f in Format::ALL {
            assert_eq!(f.to_string().parse::<Format>().unwrap(), f);
        }
        assert!("xml".parse::<Format>().is_err());
    }

    #[rstest]
    #[case("# sandbag profile 1\ntime,cpu0\n", Some(Format::Native))]
    #[case("time,cpu0\n0,50\n", Some(Format::Native))]
    #[case("# mine\n\"Time\";\"cpu0\"\n0;50\n", Some(Format::Native))]
    #[case("# mine\ncpu {\n profile { 0 { 0 5 } } }", Some(Format::Krash))]
    #[case("kill 20", Some(Format::Krash))]
    #[case("all_name = x\n", Some(Format::Krash))]
    #[case("{\"sysstat\": {", Some(Format::SadfJson))]
    #[case("\n# hostname;interval;timestamp;CPU;%user", Some(Format::SadfCsv))]
    #[case(
        "vm;-1;2026-11-21 01:10:53 UTC;LINUX-RESTART\t(2 CPU)",
        Some(Format::SadfCsv)
    )]
    #[case("Linux 6.1 (vm) \t11/21/26\n\n", Some(Format::SarText))]
    #[case("01:10:52  CPU  %user  %idle\n", Some(Format::SarText))]
    #[case(
        "# epoch 1795223452.4\ncpu  1 2 3 4\ncpu0 1 2 3 4",
        Some(Format::ProcStat)
    )]
    #[case("hello", None)]
    #[case("", None)]
    fn detection(#[case] head: &str, #[case] format: Option<Format>) {
        assert_eq!(Format::detect(head.as_bytes()), format);
        assert_eq!(
            Format::detect(head.replace('\n', "\r\n").as_bytes()),
            format
        );
    }
}
