// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plain CSV, for what reads tables: a row per step (wide) or per step and CPU
//! (long). Unlike the native format a row has its end beside its begin, and
//! there is nothing but a header and rows.

use std::io::{BufWriter, Write};

use crate::native::push_percent;
use crate::{ProfileCell, Result, Steps};
use sandbag_ui::quantity::plain_seconds;

use super::report::{ExportReport, io};

/// `start_s,end_s,cpu,load_pct,steal_pct`.
pub(super) fn long(steps: &mut dyn Steps, out: &mut dyn Write) -> Result<ExportReport> {
    let cpus = steps.header().cpus.clone();
    let steal = steps.header().has_steal;
    let mut report = report(steps);
    let mut out = BufWriter::with_capacity(64 << 10, out);
    let mut row = b"start_s,end_s,cpu,load_pct".to_vec();
    if steal {
        row.extend_from_slice(b",steal_pct");
    }
    row.push(b'\n');
    out.write_all(&row).map_err(io)?;
    while let Some(step) = steps.next_step()? {
        let (start, end) = (plain_seconds(step.start_ns), plain_seconds(step.end_ns));
        for (cpu, cell) in cpus.iter().zip(&step.cells) {
            row.clear();
            row.extend_from_slice(format!("{start},{end},{cpu}").as_bytes());
            push(&mut row, cell.map(|cell| cell.load_pct));
            if steal {
                push(&mut row, cell.map(|cell| cell.steal_pct));
            }
            row.push(b'\n');
            report.steps += 1;
            out.write_all(&row).map_err(io)?;
        }
    }
    out.flush().map_err(io)?;
    Ok(report)
}

/// `start_s,end_s,cpu0,cpu1,...`, and `steal0,...` where it was recorded.
pub(super) fn wide(steps: &mut dyn Steps, out: &mut dyn Write) -> Result<ExportReport> {
    let cpus = steps.header().cpus.clone();
    let steal = steps.header().has_steal;
    let mut report = report(steps);
    let mut out = BufWriter::with_capacity(64 << 10, out);
    let mut row = b"start_s,end_s".to_vec();
    for cpu in &cpus {
        row.extend_from_slice(format!(",cpu{cpu}").as_bytes());
    }
    for cpu in cpus.iter().filter(|_| steal) {
        row.extend_from_slice(format!(",steal{cpu}").as_bytes());
    }
    row.push(b'\n');
    out.write_all(&row).map_err(io)?;
    while let Some(step) = steps.next_step()? {
        row.clear();
        let (start, end) = (plain_seconds(step.start_ns), plain_seconds(step.end_ns));
        row.extend_from_slice(format!("{start},{end}").as_bytes());
        let mut column = |of: fn(&ProfileCell) -> f64| {
            for cell in &step.cells {
                push(&mut row, cell.as_ref().map(of));
            }
        };
        column(|cell| cell.load_pct);
        if steal {
            column(|cell| cell.steal_pct);
        }
        row.push(b'\n');
        report.steps += 1;
        out.write_all(&row).map_err(io)?;
    }
    out.flush().map_err(io)?;
    Ok(report)
}

/// An unknown value is an empty cell.
fn push(row: &mut Vec<u8>, value: Option<f64>) {
    row.push(b',');
    if let Some(value) = value {
        push_percent(row, value);
    }
}

fn report(steps: &dyn Steps) -> ExportReport {
    let mut report = ExportReport::default();
    if steps.header().begins_at.is_some() || steps.header().host.is_some() {
        report
            .lost
            .push("times count from the beginning; when and where that was is not written".into());
    }
    report
}
