// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of `mpstat -P ALL`.
//!
//! ```text
//! Linux 6.1.0 (vm)  11/21/26  _x86_64_  (2 CPU)
//!
//! 17:58:53  CPU  %usr  %nice  %sys %iowait  %irq  %soft  %steal  %guest  %gnice  %idle
//! 17:58:54    0 35.35   0.00 10.10    0.00  0.00   0.00    0.00    0.00    0.00  54.55
//! ```
//!
//! Read as the text of sar ([`super::sar`]), whose tables it shares but for
//! the order of their columns: sar has `%steal` before `%irq`, mpstat after
//! it. With `-T` a row names its core, socket and node too.

use crate::Format;
use crate::reader::ImportReader;
use sandbag_input::head::words;

use super::import_samples;
use super::sar::{self, Sar, SarProgram};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::MpstatText,
    looks_like: |head| head.lines().take(50).any(is_header),
    open: |input| {
        import_samples(Format::MpstatText, input, |lines| {
            Box::new(Sar::new(lines, &MPSTAT))
        })
    },
};

const MPSTAT: SarProgram = SarProgram {
    format: Format::MpstatText,
    need_p_all: "run `LC_ALL=C mpstat -P ALL 1`",
    need_interval: "without an interval mpstat shows the mean since the boot: run \
                    `LC_ALL=C mpstat -P ALL 1`",
};

/// The header of a table of CPU load in the order of mpstat. Versions before
/// 10 have no steal or no irq but count interrupts.
fn is_header(line: &[u8]) -> bool {
    let place = |wanted: &[u8]| words(line).position(|name| name == wanted);
    let irq_first = match (place(b"%irq"), place(b"%steal")) {
        (Some(irq), Some(steal)) => irq < steal,
        (Some(_), None) => true,
        (None, _) => false,
    };
    sar::is_header(line) && (irq_first || place(b"intr/s").is_some())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::Format;
    use crate::testing::{assert_damage_is_answered, loads, message, read};

    const COLUMNS: &str = "  CPU %usr %nice %sys %iowait %irq %soft %steal %guest %gnice %idle\n";

    fn mpstat(rows: &str) -> String {
        format!("Linux 6.1.0 (vm) \t11/21/26 \t_x86_64_\t(2 CPU)\n\n{rows}")
    }

    /// A row of which so much is user time, and so much steal.
    fn row(stamp: &str, cpu: &str, user: f64, steal: f64) -> String {
        let idle = 100.0 - user - steal;
        format!(
            "{stamp} {cpu:>7} {user:7.2}    0.00    0.00    0.00    0.00    0.00 {steal:7.2}    \
             0.00    0.00 {idle:7.2}\n"
        )
    }

    #[test]
    fn over_midnight_with_averages_and_cpus_that_come_and_go() {
        let p = read(&mpstat(&format!(
            "23:59:58{COLUMNS}{}{}\n23:59:59{COLUMNS}{}{}{}\n00:00:01{COLUMNS}{}^C\n\n\
             Average:{COLUMNS}{}{}",
            row("23:59:59", "all", 50.0, 0.0),
            row("23:59:59", "0", 50.0, 0.0),
            row("00:00:01", "all", 30.0, 10.0),
            row("00:00:01", "0", 40.0, 20.0),
            row("00:00:01", "1", 20.0, 0.0),
            row("00:00:02", "1", 10.0, 0.0),
            row("Average:", "all", 30.0, 0.0),
            row("Average:", "0", 30.0, 0.0),
        )));
        assert_eq!(p.header.format, Format::MpstatText);
        assert_eq!(p.header.host.as_deref(), Some("vm"));
        assert_eq!(
            p.header.begins_at.unwrap().to_string(),
            "2026-11-21T23:59:58"
        );
        assert_eq!(
            loads(&p),
            [
                (1, vec![Some(50.0), None]),
                (3, vec![Some(50.0), Some(20.0)]),
                (4, vec![None, Some(10.0)]),
            ]
        );
        assert_eq!(p.steps[1].cells[0].unwrap().steal_pct, 20.0);
        assert_eq!(p.warnings.len(), 1, "{:?}", p.warnings);
    }

    #[test]
    fn by_the_twelve_hour_clock_of_an_american_locale() {
        let p = read(&mpstat(&format!(
            "11:59:59 PM{COLUMNS}{}\n12:00:00 AM{COLUMNS}{}",
            row("12:00:00 AM", "0", 50.0, 0.0),
            row("12:00:01 AM", "0", 60.0, 0.0),
        )));
        assert_eq!(loads(&p), [(1, vec![Some(50.0)]), (2, vec![Some(60.0)])]);
    }

    #[test]
    fn a_british_date_is_none() {
        let text = mpstat(&format!(
            "09:24:07{COLUMNS}{}",
            row("09:24:08", "0", 50.0, 0.0)
        ));
        let p = read(&text.replace("11/21/26", "19/05/16"));
        assert_eq!(p.header.begins_at, None);
        assert_eq!(loads(&p), [(1, vec![Some(50.0)])]);
    }

    #[test]
    fn an_offline_cpu_is_a_row_of_zeros_whatever_its_core() {
        let header = "10:00:00  CPU CORE SOCK NODE %usr %iowait %irq %steal %idle\n";
        let p = read(&mpstat(&format!(
            "{header}10:00:01 all 40.00 0.00 0.00 0.00 60.00\n\
             10:00:01 0 0 0 0 40.00 0.00 0.00 0.00 60.00\n\
             10:00:01 3 1 0 1 0.00 0.00 0.00 0.00 0.00\n\
             10:00:01 4 1 0 1 100.00 0.00 0.00 0.00 0.00\n"
        )));
        assert_eq!(p.header.cpus, [0, 3, 4]);
        assert_eq!(loads(&p), [(1, vec![Some(40.0), None, Some(100.0)])]);
    }

    #[test]
    fn the_first_versions_counted_interrupts() {
        let p = read(
            "Linux 2.4.20 (old) 03/04/03\n\n\
             10:00:00     CPU   %user   %nice %system   %idle    intr/s\n\
             10:00:01     all   25.00    0.00    0.00   75.00    100.00\n\
             10:00:01       0   25.00    0.00    0.00   75.00    100.00\n",
        );
        assert_eq!(p.header.format, Format::MpstatText);
        assert_eq!(loads(&p), [(1, vec![Some(25.0)])]);
    }

    #[test]
    fn tables_of_other_things_are_passed_over() {
        let p = read(&mpstat(&format!(
            "10:00:00{COLUMNS}{}\n10:00:00 NODE %usr %idle\n10:00:01 0 30.00 70.00\n\n\
             10:00:00 CPU intr/s\n10:00:01 0 30.00\n\n10:00:00 CPU 0/s 8/s NMI/s\n\
             10:00:01 0 30.00 70.00 1.00\n\n10:00:01{COLUMNS}{}",
            row("10:00:01", "0", 50.0, 0.0),
            row("10:00:02", "0", 60.0, 0.0),
        )));
        assert_eq!(loads(&p), [(1, vec![Some(50.0)]), (2, vec![Some(60.0)])]);
    }

    #[rstest]
    #[case(
        "10:00:01 all 0 0 0 0 0 0 0 0 0 50.00",
        "run `LC_ALL=C mpstat -P ALL 1`"
    )]
    #[case(
        "10:00:01 0 0 0 0 0 0 0 0 0 0 50,00",
        "in:4:30: `50,00` is written with"
    )]
    #[case("10:00:01 0 0 0 0 0 0 0 0 0 0 150.00", "in:4:30: %idle 150.00 is not")]
    #[case("10:00:01 0 0 0 0", "in:4: expected 11 fields")]
    #[case(
        "09:59:59 0 0 0 0 0 0 0 0 0 0 50.00",
        "09:59:59 does not come after 10:00:00"
    )]
    #[case(
        "10:00:00 0 0 0 0 0 0 0 0 0 0 50.00",
        "mpstat: all its rows have one stamp"
    )]
    #[case("", "does not look like mpstat: it has no table")]
    fn rejects(#[case] row: &str, #[case] expected: &str) {
        let header = if row.is_empty() { "" } else { COLUMNS };
        let text = mpstat(&format!("10:00:00{header}{row}\n"));
        let got = message(&text, Format::MpstatText);
        assert!(got.contains(expected), "{got}");
    }

    #[test]
    fn damage_is_answered() {
        let good = include_bytes!("../../tests/fixtures/tools/mpstat.txt");
        assert_damage_is_answered(good, Format::MpstatText);
    }
}
