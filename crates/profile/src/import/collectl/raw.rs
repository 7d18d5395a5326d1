// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The raw files of collectl: a line with the time, then lines of `/proc` as
//! they are.
//!
//! ```text
//! >>> 1795283934.001 <<<
//! cpu  4197887 6459 393936 2847255 11151 0 5099 4656 0 0
//! cpu0 2122138 3251 205120 1390562 7213 0 2447 2333 0 0
//! intr 32449797
//! load 0.41 0.97 1.41 2/107 5019
//! ```
//!
//! How the lines of the CPUs are read: [`super::super::snapshots`].

use crate::import::import_samples;
use crate::import::snapshots::{SnapshotFormat, SnapshotStamp, Snapshots};
use crate::reader::ImportReader;
use crate::{Fault, Format, Result};

use super::{Block, is_collectl, is_table_header, marker};

pub(in crate::import) const READER: ImportReader = ImportReader {
    format: Format::CollectlRaw,
    // The comments may be longer than what is looked at.
    looks_like: |head| {
        is_collectl(head) && !head.lines().any(is_table_header)
            || head.data().next().is_some_and(|line| marker(line).is_ok())
    },
    open: |input| {
        import_samples(Format::CollectlRaw, input, |lines| {
            Box::new(Snapshots::new(CollectlRaw::default(), lines))
        })
    },
};

#[derive(Default)]
struct CollectlRaw {
    block: Block,
}

impl SnapshotFormat for CollectlRaw {
    const FORMAT: Format = Format::CollectlRaw;
    const NO_TIME: &'static str = "collectl writes `>>> <epoch seconds> <<<`, and the beginning of the file may be lost; \
         write such a line with its time, or leave the snapshot out";

    fn other_line(&mut self, line: &[u8]) -> Result<Option<SnapshotStamp>, Fault> {
        if line.starts_with(b">>>") {
            return Ok(Some(SnapshotStamp {
                ns: marker(line)?,
                dated: true,
                local: false,
            }));
        }
        if line.starts_with(b"#") {
            self.block.take(Self::FORMAT, line)?;
        }
        Ok(None)
    }

    fn hertz(&self) -> u64 {
        self.block.hertz
    }

    fn host(&self) -> Option<String> {
        self.block.host.name()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::Format;
    use crate::testing::{assert_damage_is_answered, loads, message, read};

    const HEAD: &str = "\
################################################################################
# Collectl:   V4.3.1-1  HiRes: 1  Options: -sC
# Host:       vm  DaemonOpts:
# Date:       20261121-175853  Secs: 1795283933 TZ: +0100
# SubSys:     C Options:  Interval: 1 NumCPUs: 2  NumBud: 0 Flags: i
# HZ:         1000  Arch: x86_64-linux-gnu PageSize: 4096
################################################################################
";

    const TWO: &str = "\
>>> 1795283934.001 <<<
cpu  1 2 3 4
cpu0 1000 0 1000 10000 1000 0 0 0 0 0
cpu1 0 0 0 0 0 0 0 0 0 0
intr 32449797
>>> 1795283935.501 <<<
cpu0 1200 0 1200 10300 1100 0 0 200 50 0
cpu1 500 0 0 500 0 0 0 0 0 0
";

    #[test]
    fn a_file_begun_anew_goes_on() {
        let again = "\
>>> 1795283940.001 <<<
proc:1 stat 5 6 7
cpu0 1200 0 1200 10300 1100 0 0 200 50 0
cpu1 500 0 0 2500 0 0 0 0 0 0
>>> 1795283941.001 <<<
";
        let p = read(&format!("{HEAD}{TWO}{HEAD}{again}"));
        assert_eq!(p.header.format, Format::CollectlRaw);
        assert_eq!(p.header.host.as_deref(), Some("vm"));
        assert_eq!(
            p.header.begins_at.unwrap().to_string(),
            "2026-11-21T17:58:54.001Z"
        );
        assert_eq!(
            loads(&p),
            [
                (1, vec![Some(50.0), Some(50.0)]),
                (6, vec![Some(0.0), Some(0.0)]),
            ]
        );
        assert_eq!(p.steps[0].cells[0].unwrap().steal_pct, 20.0);
        assert_eq!(p.warnings.len(), 1, "{:?}", p.warnings);
    }

    #[test]
    fn ticks_per_second_say_what_a_restart_is() {
        // 2999 ticks are less than 3 s of a thousand and far more of a hundred.
        let three = "\
>>> 1795283936.501 <<<
cpu0 1300 0 1200 7301 1100 0 0 200 50 0
cpu1 600 0 0 600 0 0 0 0 0 0
";
        let p = read(&format!("{HEAD}{TWO}{three}"));
        assert_eq!(loads(&p)[1], (2, vec![Some(100.0), Some(50.0)]));
        let hundred = HEAD.replace("1000", "100");
        let p = read(&format!("{hundred}{TWO}{three}"));
        assert_eq!(loads(&p)[1], (2, vec![None, Some(50.0)]));
    }

    #[rstest]
    #[case("", "it has no lines `cpu<N> ...`")]
    #[case(">>> 1795283934.001 <<<\ncpu0 1 2 3 4\n", "one snapshot holds no load")]
    #[case("cpu0 1 2 3 4\n", "in:8: collectl-raw: no line before")]
    #[case(">>> noon <<<\n", "in:8:1: expected a time such as")]
    #[case(">>> 1795283934.001 <\n", "in:8:1: expected a time such as")]
    #[case("# Host:       vn\n", "this line is of host vn")]
    #[case(
        ">>> 2 <<<\ncpu0 1 2 3 4\n>>> 1 <<<\ncpu0 1 2 3 4\n",
        "does not come after"
    )]
    fn rejects(#[case] rest: &str, #[case] expected: &str) {
        let got = message(&format!("{HEAD}{rest}"), Format::CollectlRaw);
        assert!(got.contains(expected), "{got}");
    }

    #[test]
    fn damage_is_answered() {
        assert_damage_is_answered(format!("{HEAD}{TWO}"), Format::CollectlRaw);
    }
}
