// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a sweep: thresholds, a response curve and a table of each metric, the runs.

use maud::html;
use sandbag_stats::Verdict;
use sandbag_ui::chart::{self, Chart, ChartSeries, figure};
use sandbag_ui::page::{signed, static_page};
use sandbag_ui::text::{command_line, visible};

use super::{by_metric, cells, heads, number, title};
use crate::answer::{Answer, sentences};
use crate::record::Sweep;
use crate::threshold::Outcome;

/// The page, without any script.
pub fn page(sweep: &Sweep) -> String {
    let failed = sweep
        .thresholds
        .iter()
        .any(|one| one.outcome == Outcome::Failed);
    let unsure = sweep
        .thresholds
        .iter()
        .any(|one| one.outcome == Outcome::Unsure);
    let same = sweep.same_load.as_ref();
    let (class, words) = match (same.map(|same| same.verdict), failed, unsure) {
        (Some(Verdict::Kept), ..) => ("kept", "the loads were the same"),
        (Some(Verdict::Missed), ..) => ("missed", "the loads were not the same"),
        (Some(Verdict::Undecided), ..) => {
            ("undecided", "not known whether the loads were the same")
        }
        _ if sweep.thresholds.is_empty() => ("", "no threshold was given"),
        (_, true, _) => ("missed", "a threshold was exceeded"),
        (_, _, true) => ("undecided", "a threshold could not be decided"),
        _ => ("kept", "no threshold was exceeded"),
    };
    let baseline = visible(&sweep.conditions[0].name);
    let metrics = by_metric(sweep);
    let body = html! {
        header {
            p .what {
                @if same.is_none() { "sweep · " (sweep.conditions.len()) " conditions · " } @else { "comparison · " }
                (sweep.runs.len()) " runs · "
                (visible(&sweep.started_at))
            }
            h1 { span .verdict.(class) { (words) } }
            @if let Some(same) = same { p .reason { (same.reason) } }
            @for sentence in sentences(sweep, &sweep.metrics[0].name) { p .reason { (visible(&sentence)) } }
            @for one in &sweep.thresholds {
                p { (one.outcome.name()) ": fails if " code { (visible(&one.fail_if)) } ": " (one.reason) }
            }
            @if !sweep.complete { p { "Not all runs were made." } }
        }
        @for (at, (metric, answers)) in metrics.iter().enumerate() {
            section {
                h2 { (visible(&title(sweep, metric))) }
                @if at > 0 { @for sentence in sentences(sweep, metric) { p { (visible(&sentence)) } } }
                (figure("Median of each condition, with its least and greatest run", Some(curve(sweep, metric, answers)), &[]))
                table {
                    thead { tr { @for head in heads(sweep) { th { (visible(&head)) } } } }
                    tbody {
                        @for one in answers {
                            tr { @for cell in cells(sweep, one) { td { (visible(&cell)) } } }
                        }
                    }
                }
                p .note { "Ratios are within blocks" @if sweep.conditions.len() > 1 { ", to " (baseline) } "; geometric means with Student's interval." }
            }
        }
        @if let Some(same) = same {
            section {
                h2 { "The load of each CPU" }
                table {
                    thead { tr { @for head in ["CPU", "asked, %", "A got, %", "B got, %", "apart, points"] { th { (head) } } } }
                    tbody { @for cpu in &same.cpus { tr {
                        td { (cpu.cpu) }
                        td { (number(cpu.a_asked_pct)) }
                        td { (format!("{:.3}", cpu.a_got_pct)) }
                        td { (format!("{:.3}", cpu.b_got_pct)) }
                        td { (signed(cpu.difference_points, 3)) }
                    } } }
                }
            }
        }
        section {
            h2 { "Programs and conditions" }
            dl .facts {
                @for one in &sweep.programs {
                    div { dt { (visible(&one.name)) } dd { code { (command_line(&one.command)) } } }
                }
                @for one in &sweep.conditions {
                    div { dt { (visible(&one.name)) } dd { code { (command_line(&one.words)) } } }
                }
            }
        }
        section {
            h2 { "Runs" }
            table {
                thead { tr { th { "run" } th { "block" } th { "condition" } th { "program" } th { "condition was" } th { "ended with" }
                    @for one in &sweep.metrics { th { (visible(&one.name)) } } } }
                tbody { @for run in &sweep.runs { tr {
                    td { (visible(&run.dir)) }
                    td { (run.block) }
                    td { (visible(&sweep.conditions[run.condition].name)) }
                    td { (visible(&sweep.programs[run.program].name)) }
                    td { (run.verdict) @if run.verdict != Verdict::Kept { " (" (visible(&run.reason)) ")" } }
                    td { @match (run.timed_out, run.exit_code, run.signal) {
                        (true, ..) => "--timeout",
                        (_, _, Some(signal)) => { "signal " (signal) },
                        (_, Some(code), _) => (code),
                        _ => "-",
                    } }
                    @for one in &sweep.metrics {
                        td { (run.values.get(&one.name).map_or_else(|| "-".to_owned(), |value| number(*value))) }
                    }
                } } }
            }
        }
        footer { "sandbag " (visible(&sweep.sandbag)) ", seed " (sweep.seed) }
    };
    static_page("sandbag sweep", chart::STYLE, &body)
}

/// The response of each program.
fn curve(sweep: &Sweep, metric: &str, answers: &[&Answer]) -> Chart {
    let series = sweep.programs.iter().enumerate().map(|(at, program)| {
        let own = answers.iter().filter(|one| one.program == at);
        let bars: Vec<(f64, f64, f64, f64)> = own
            .filter_map(|one| Some((one.condition as f64, one.least?, one.median?, one.greatest?)))
            .collect();
        ChartSeries {
            name: program.name.clone(),
            colour: Some(at),
            points: Vec::new(),
            line: bars.iter().map(|bar| (bar.0, bar.2)).collect(),
            bars,
        }
    });
    let about = sweep.metrics.iter().find(|one| one.name == metric);
    Chart {
        about: format!("{metric} by condition"),
        x: "condition".to_owned(),
        // Long labels would lie on the numbers.
        y: about
            .filter(|one| !one.unit.is_empty())
            .map_or(metric, |one| &one.unit)
            .to_owned(),
        names: sweep
            .conditions
            .iter()
            .map(|one| one.name.clone())
            .collect(),
        series: series.collect(),
        from_zero: true,
        band: None,
    }
}
