// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter compare`.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use sandbag_jitter::import::Recording;
use sandbag_jitter::stats::{Grid, QUANTILES_PCT, Summary, distances, summarise};
use sandbag_jitter::{CpuTrace, Trace};

use super::show::quantile_name;
use super::{ImportArgs, counted, time};
use crate::exit::{self, BadInput};
use crate::messages::Messages;
use crate::units;

/// Compare the lengths of events of two traces, or what other tools recorded
///
/// All CPUs of a file are taken together. Where one of them holds only counts,
/// their bins say how far the two lie apart at least.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The reference
    #[arg(value_name = "A")]
    a: PathBuf,

    /// The other
    #[arg(value_name = "B")]
    b: PathBuf,

    /// Only what is at least so long: tools see events from different lengths on
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    above: Option<Duration>,

    #[command(flatten)]
    import: ImportArgs,
}

/// Runs the command.
pub fn main(args: &CompareArgs, messages: &Messages) -> Result<u8> {
    let options = args.import.options();
    let a = super::read(&args.a, &options, messages)?;
    let b = super::read(&args.b, &options, messages)?;
    let above = args
        .above
        .map_or(Ok(0), |time| u64::try_from(time.as_nanos()));
    let above_ns = above.map_err(|_| BadInput("--above is too long".to_owned()))?;
    let text = match (a, b) {
        (Recording::Trace(a), Recording::Trace(b)) => {
            exactly(&together(a, above_ns), &together(b, above_ns))?
        }
        (a, b) => counted::compare(&a, &b, above_ns)?,
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(exit::KEPT),
    }
}

/// Event by event.
fn exactly(a: &CpuTrace, b: &CpuTrace) -> Result<String> {
    let lengths =
        |cpu: &CpuTrace| -> Vec<u64> { cpu.events.iter().map(|event| event.length_ns).collect() };
    let Some(d) = distances(&lengths(a), &lengths(b), Grid::standard()) else {
        return Err(
            BadInput("one of the traces has no events: nothing to compare".to_owned()).into(),
        );
    };
    let (sa, sb) = (summarise(a), summarise(b));
    Ok(format!(
        "{}\n\nof the lengths' distributions\n\
         Kullback-Leibler divergence  {:.4} bits of B from A, {:.4} of A from B\n\
         Jensen-Shannon divergence    {:.4} bits\n\
         Kolmogorov-Smirnov distance  {:.4}\n\
         Wasserstein distance         {:.4} decades\n",
        figures(&sa, &sb),
        d.kl_bits,
        d.kl_back_bits,
        d.js_bits,
        d.ks,
        d.wasserstein_decades
    ))
}

/// All CPUs as one, of which only lengths and known time mean something.
fn together(trace: Trace, above_ns: u64) -> CpuTrace {
    let mut all = CpuTrace::default();
    for cpu in trace.cpus {
        all.known.extend(cpu.known);
        let events = cpu.events.into_iter();
        all.events
            .extend(events.filter(|event| event.length_ns >= above_ns));
    }
    all
}

fn figures(a: &Summary, b: &Summary) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["", "A", "B", "B / A"]);
    let mut row = |name: String, a: Option<f64>, b: Option<f64>, shown: fn(f64) -> String| {
        let one = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), shown);
        let ratio = a.zip(b).filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a);
        table.add_row([
            name,
            one(a),
            one(b),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
        ]);
    };
    let plain = |value: f64| format!("{value:.4}");
    row(
        "noise %".to_owned(),
        Some(a.noise_pct),
        Some(b.noise_pct),
        plain,
    );
    row(
        "events per s".to_owned(),
        Some(a.rate_per_s),
        Some(b.rate_per_s),
        |value| format!("{value:.1}"),
    );
    row("mean length".to_owned(), a.mean_ns, b.mean_ns, time);
    for (i, part) in QUANTILES_PCT.iter().enumerate() {
        let of = |s: &Summary| s.quantiles_ns.map(|all| all[i] as f64);
        row(quantile_name(*part), of(a), of(b), time);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
