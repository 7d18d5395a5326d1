// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter compare`.

use std::path::{Path, PathBuf};

use crate::import::JitterRecording;
use crate::page::{self as html, ComparisonPage};
use crate::stats::{
    Grid, Interval, Likeness, LikenessVerdict, Measure, QUANTILES_PCT, Quantiles, TraceSummary,
    distances, likeness, summarise,
};
use crate::{CpuTrace, JitterTrace};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use sandbag_ui::failure::Result;
use sandbag_ui::quantity::time;
use sandbag_ui::table::{plain, right};

use super::select::SelectArgs;
use super::{ImportArgs, count_table, page};
use crate::tables::quantile_name;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, JsonArgs, Overwrite};
use sandbag_ui::{BadInput, exit};

/// Compare the lengths of events of two traces, or what other tools recorded
///
/// All CPUs of a file are taken together. Two traces differ if they lie further
/// apart than parts of the same one do (block bootstrap); they are the same if
/// not, and if those parts are near each other. Where one file holds only
/// counts, their bins say how far the two lie apart at least, and there is no
/// verdict.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The reference
    #[arg(value_name = "A")]
    a: PathBuf,

    /// The other
    #[arg(value_name = "B")]
    b: PathBuf,

    /// A page with figures: densities and cumulative shares overlaid,
    /// quantiles, distances, verdict; - for standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    overwrite: Overwrite,

    #[command(flatten)]
    json: JsonArgs,

    /// Exit with 3 if the traces differ, with 4 if that cannot be said
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    select: SelectArgs,

    #[command(flatten)]
    import: ImportArgs,
}

/// Runs the command.
pub fn main(args: &CompareArgs, messages: &Messages) -> Result<u8> {
    args.overwrite.check(args.html.as_deref())?;
    args.json.check(args.overwrite)?;
    let options = args.import.of_events();
    let one = |path: &Path| -> Result<JitterRecording> {
        args.select.of(super::read(path, &options, messages)?, true)
    };
    let verdict = match (one(&args.a)?, one(&args.b)?) {
        (JitterRecording::Trace(a), JitterRecording::Trace(b)) => traces(args, &a, &b, messages)?,
        _ if args.html.is_some() || args.json.path().is_some() => {
            let text = "--html and --json are for events; one of the files holds only how they are \
                        distributed";
            return Err(BadInput(text.to_owned()).into());
        }
        // Lower bounds of the distances decide nothing.
        (a, b) => {
            output::print(count_table::compare(&a, &b, args.select.above_ns())?)?;
            LikenessVerdict::Undecided
        }
    };
    Ok(match verdict {
        LikenessVerdict::Differs if args.strict => exit::MISSED,
        LikenessVerdict::Undecided if args.strict => exit::UNDECIDED,
        _ => exit::KEPT,
    })
}

fn traces(
    args: &CompareArgs,
    a: &JitterTrace,
    b: &JitterTrace,
    messages: &Messages,
) -> Result<LikenessVerdict> {
    let Some(likeness) = likeness(a, b) else {
        let text = "one of the traces has no events: nothing to compare";
        return Err(BadInput(text.to_owned()).into());
    };
    let is_stdout = |path: Option<&Path>| path.is_some_and(|path| path.as_os_str() == "-");
    let is_page = is_stdout(args.html.as_deref());
    if is_page && is_stdout(args.json.path()) {
        let text = "standard output takes one form: give the page or the JSON a file";
        return Err(BadInput(text.to_owned()).into());
    }
    if let Some(file) = &args.html {
        let names = [&args.a, &args.b].map(|path| path.display().to_string());
        let page = html::render_comparison(&ComparisonPage {
            a_name: &names[0],
            a,
            b_name: &names[1],
            b,
            likeness: &likeness,
        });
        page::write(file, &page, args.overwrite.existing(), messages)?;
    }
    let text = || {
        if is_page {
            return Ok(String::new());
        }
        exactly(&pooled(a), &pooled(b), &likeness)
    };
    args.json
        .put_or(&likeness, text, args.overwrite.existing())?;
    Ok(likeness.verdict)
}

/// Event by event.
fn exactly(a: &CpuTrace, b: &CpuTrace, likeness: &Likeness) -> Result<String> {
    let lengths =
        |cpu: &CpuTrace| -> Vec<u64> { cpu.events.iter().map(|event| event.length_ns).collect() };
    let Some(d) = distances(&lengths(a), &lengths(b), Grid::standard()) else {
        return Err(
            BadInput("one of the traces has no events: nothing to compare".to_owned()).into(),
        );
    };
    let (sa, sb) = (summarise(a), summarise(b));
    let within = |of: &Interval| format!("{:.4} to {:.4}", of.low, of.high);
    Ok(format!(
        "{}\n\nof the lengths' distributions (95 %)\n\
         Kullback-Leibler divergence  {:.4} bits of B from A ({}), {:.4} of A from B ({})\n\
         Jensen-Shannon divergence    {:.4} bits ({})\n\
         Kolmogorov-Smirnov distance  {:.4} ({})\n\
         Wasserstein distance         {:.4} decades ({})\n\n{}",
        figures(&sa, &sb, likeness),
        d.kl_bits,
        within(&likeness.kl_bits),
        d.kl_back_bits,
        within(&likeness.kl_back_bits),
        d.js_bits,
        within(&likeness.js.difference),
        d.ks,
        within(&likeness.ks),
        d.wasserstein_decades,
        within(&likeness.wasserstein_decades),
        verdict_text(likeness)
    ))
}

fn word(verdict: LikenessVerdict) -> &'static str {
    match verdict {
        LikenessVerdict::Same => "same",
        LikenessVerdict::Differs => "differs",
        LikenessVerdict::Undecided => "undecided",
    }
}

/// The verdict, and what it rests on.
fn verdict_text(found: &Likeness) -> String {
    let mut table = plain(["", "B against A", "95 %", "limit", "resolution", ""]);
    let mut row = |name: &str, one: &Measure, shown: fn(f64) -> String| {
        let of = one.difference;
        table.add_row([
            name.to_owned(),
            shown(of.value),
            format!("{} to {}", shown(of.low), shown(of.high)),
            shown(one.limit),
            shown(one.resolution),
            word(one.verdict).to_owned(),
        ]);
    };
    row("lengths, bits", &found.js, |bits| format!("{bits:.4}"));
    row("rate, ratio", &found.rate, |ln| format!("{:.3}", ln.exp()));
    row("noise, ratio", &found.noise, |ln| {
        format!("{:.3}", ln.exp())
    });
    format!(
        "limit: what 99 in 100 pairs of parts of the same trace do not exceed\n{}\n\n{}: {}\n",
        right(table),
        word(found.verdict),
        found.reason
    )
}

/// All CPUs as one, of which only lengths and known time mean something.
fn pooled(trace: &JitterTrace) -> CpuTrace {
    let mut all = CpuTrace::default();
    for cpu in &trace.cpus {
        all.known.extend(&cpu.known);
        all.events.extend(&cpu.events);
    }
    all
}

fn figures(a: &TraceSummary, b: &TraceSummary, likeness: &Likeness) -> Table {
    let within = |of: Option<Interval>| {
        of.map_or_else(String::new, |of| {
            format!("{} to {}", time(of.low), time(of.high))
        })
    };
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["", "A", "B", "B / A", "A, 95 %", "B, 95 %"]);
    let mut row = |name: String,
                   a: Option<f64>,
                   b: Option<f64>,
                   shown: fn(f64) -> String,
                   between: Option<&Quantiles>| {
        let one = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), shown);
        let ratio = a.zip(b).filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a);
        table.add_row([
            name,
            one(a),
            one(b),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
            within(between.map(|one| one.a)),
            within(between.map(|one| one.b)),
        ]);
    };
    let plain = |value: f64| format!("{value:.4}");
    row(
        "noise %".to_owned(),
        Some(a.noise_pct),
        Some(b.noise_pct),
        plain,
        None,
    );
    row(
        "events per s".to_owned(),
        Some(a.rate_per_s),
        Some(b.rate_per_s),
        |value| format!("{value:.1}"),
        None,
    );
    row("mean length".to_owned(), a.mean_ns, b.mean_ns, time, None);
    for (i, part) in QUANTILES_PCT.iter().enumerate() {
        let of = |s: &TraceSummary| s.quantiles_ns.map(|all| all[i] as f64);
        let between = likeness.quantiles.get(i);
        row(quantile_name(*part), of(a), of(b), time, between);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
