// SPDX-License-Identifier: Apache-2.0 OR MIT
//! KRASH's own profiles: whole seconds, whole percents, CPU after CPU.

use std::io::{BufWriter, Write};

use crate::algebra::Resample;
use crate::number::NS_PER_S;
use crate::{Error, Fault, Result, Steps};
use sandbag_ui::quantity::plain_seconds;

use super::report::{ExportReport, io};

/// Each second is the mean of what it covers, with 0 where the load is unknown. Entries are
/// collected first, 8 bytes each.
pub(super) fn write(steps: &mut dyn Steps, out: &mut dyn Write) -> Result<ExportReport> {
    let cpus = steps.header().cpus.clone();
    let has_steal = steps.header().has_steal;
    let mut watched = StepWatch {
        inner: steps,
        uneven: false,
        unknown_ns: 0,
    };
    let mut seconds = Resample::new(&mut watched, NS_PER_S)?;
    let mut entries: Vec<Vec<(u32, u8)>> = vec![Vec::new(); cpus.len()];
    let mut report = ExportReport::default();
    let (mut full, mut end_ns) = (0u64, 0);
    while let Some(step) = seconds.next_step()? {
        let second = u32::try_from(step.start_ns / NS_PER_S).map_err(|_| {
            Error::from(Fault::argument(
                "length for KRASH",
                plain_seconds(step.end_ns),
                "below 2^32 seconds",
            ))
        })?;
        for (cell, entries) in step.cells.iter().zip(&mut entries) {
            let load = cell.map_or(0.0, |c| c.load_pct);
            let whole = load.round();
            report.rounding_points = report.rounding_points.max((load - whole).abs());
            let whole = whole as u8;
            if entries.last().is_none_or(|(_, last)| *last != whole) {
                full += u64::from(whole == 100);
                entries.push((second, whole));
                report.steps += 1;
            }
        }
        end_ns = step.end_ns;
        seconds.skip_equal();
    }
    let end_s = end_ns.div_ceil(NS_PER_S);
    if report.rounding_points > 0.0 {
        let by = report.rounding_points;
        report.lost.push(format!(
            "loads were rounded to whole percents, by up to {by:.2} points"
        ));
    }
    if watched.uneven {
        report.lost.push(
            "steps that do not begin and end on whole seconds were averaged over each second"
                .into(),
        );
    }
    if end_s * NS_PER_S != end_ns {
        report.lost.push(format!(
            "the end was moved from {} s to {end_s} s",
            plain_seconds(end_ns)
        ));
    }
    if watched.unknown_ns > 0 {
        report.lost.push(format!(
            "{} s (summed over the CPUs) of unknown load was written as 0",
            plain_seconds(watched.unknown_ns)
        ));
    }
    if full > 0 {
        report.lost.push(format!(
            "{full} entries ask for 100, of which KRASH itself makes 99"
        ));
    }
    if has_steal {
        report.lost.push("steal is not written".into());
    }
    write_krash(&mut BufWriter::new(out), &cpus, &entries, end_s).map_err(io)?;
    Ok(report)
}

fn write_krash(
    out: &mut dyn Write,
    cpus: &[u32],
    entries: &[Vec<(u32, u8)>],
    end_s: u64,
) -> std::io::Result<()> {
    writeln!(out, "cpu {{\n\tprofile {{")?;
    for (cpu, entries) in cpus.iter().zip(entries) {
        writeln!(out, "\t\t{cpu} {{")?;
        for (second, load_pct) in entries {
            writeln!(out, "\t\t\t{second}\t{load_pct}")?;
        }
        writeln!(out, "\t\t}}")?;
    }
    writeln!(out, "\t}}\n}}\nkill {end_s}")?;
    out.flush()
}

/// Notices steps that do not lie on whole seconds, and makes unknown loads 0.
struct StepWatch<'a> {
    inner: &'a mut dyn Steps,
    uneven: bool,
    unknown_ns: u64,
}

impl Steps for StepWatch<'_> {
    fn header(&self) -> &crate::ProfileHeader {
        self.inner.header()
    }
    fn next_step(&mut self) -> Result<Option<crate::Step>> {
        let Some(mut step) = self.inner.next_step()? else {
            return Ok(None);
        };
        self.uneven |= step.start_ns % NS_PER_S != 0;
        let length_ns = step.length_ns();
        for cell in step.cells.iter_mut().filter(|cell| cell.is_none()) {
            self.unknown_ns = self.unknown_ns.saturating_add(length_ns);
            *cell = Some(crate::ProfileCell::default());
        }
        Ok(Some(step))
    }
    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }
}
