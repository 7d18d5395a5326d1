// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a fit has to say: the models beside the recording, and the commands
//! that make such profiles.

use std::fmt::Write as _;
use std::path::Path;

use crate::statistics::{LAGS, MOST_CORRELATED, QUANTILES_PCT};
use crate::synth::fit::FitFigures;
use crate::{Format, StepLength};
use comfy_table::{CellAlignment, Table, presets};
use sandbag_linux::CpuList;
use sandbag_ui::quantity::Seconds;

use super::{FitResult, FittedModel, RankedModel};

/// What is made besides the model itself.
pub(super) struct FitOutputs<'a> {
    pub(super) cpus: &'a CpuList,
    pub(super) step_ns: u64,
    pub(super) length_ns: u64,
    pub(super) output: Option<&'a Path>,
    pub(super) to: Option<Format>,
}

/// The table, what it says, and the commands.
pub(super) fn text(fitted: &FitResult, made: &FitOutputs<'_>) -> String {
    let mut text = String::new();
    for line in table(fitted).lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push('\n');
    if let [nearer, further] = &fitted.models[..] {
        let _ = writeln!(
            text,
            "{} comes nearer. A model is judged by the distance of the distributions in\n\
             standard deviations of the recording and that of the autocorrelations, together:\n\
             {:.3} for {}, {:.3} for {}.\n",
            nearer.model.name(),
            nearer.distance.sum,
            nearer.model.name(),
            further.distance.sum,
            further.model.name(),
        );
    }
    for judged in &fitted.models {
        let _ = writeln!(text, "{}", command(&judged.model, made));
    }
    text
}

/// What a user should know before believing the fit.
pub(super) fn cautions(fitted: &FitResult, recorded: StepLength) -> Vec<String> {
    let mut cautions = Vec::new();
    let recording = &fitted.recording;
    let has_chain = |judged: &&RankedModel| matches!(judged.model, FittedModel::OnOff(_));
    let means = || recording.means_pct.iter().flatten().copied();
    let apart = means().fold(f64::NEG_INFINITY, f64::max) - means().fold(f64::INFINITY, f64::min);
    if apart > recording.sd_points {
        cautions.push(format!(
            "the means of the CPUs are up to {apart:.1} points apart, and the models have one for \
             all: fit them one by one (--select)"
        ));
    }
    let news = fitted.ar.as_ref().and_then(|ar| ar.correlation);
    if let Some(news) = news.filter(|news| news.mean < 0.0) {
        cautions.push(format!(
            "what is new on one CPU goes against what is new on another (correlation {:.2} in the \
             mean): one factor common to all cannot make that, so that AR has 0 there",
            news.mean
        ));
    }
    if recording.times.is_none() && !fitted.models.iter().any(|judged| has_chain(&judged)) {
        cautions.push(format!(
            "no on/off: no CPU is at one time above and at another below {:.1} %",
            fitted.threshold_pct
        ));
    }
    if recording.means_pct.len() > MOST_CORRELATED {
        cautions.push(format!(
            "above {MOST_CORRELATED} CPUs it is left out how they go together: the correlation of \
             AR is 0"
        ));
    }
    let alike = recording.correlation.filter(|r| r.mean.abs() > 0.1);
    if let Some((alike, _)) = alike.zip(fitted.models.iter().find(has_chain)) {
        cautions.push(format!(
            "the CPUs go together (correlation {:.2} in the mean); on/off draws each by itself",
            alike.mean
        ));
    }
    for judged in &fitted.models {
        let FittedModel::OnOff(model) = &judged.model else {
            continue;
        };
        let step_s = recorded.ns as f64 / 1e9;
        if recorded.is_usual && model.on_s.min(model.off_s) < step_s {
            cautions.push(
                "times on or off are hardly longer than a step: little of them is seen, and \
                 those of on/off are uncertain"
                    .to_owned(),
            );
        }
    }
    cautions
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

fn table(fitted: &FitResult) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let mut header = vec![String::new(), "recording".to_owned()];
    header.extend(fitted.models.iter().map(|judged| judged.model.name()));
    table.set_header(header);
    let mut row = |name: String, of: &dyn Fn(&FitFigures) -> String| {
        let models = fitted.models.iter().map(|judged| &judged.figures);
        let mut cells = vec![name];
        cells.extend([&fitted.recording].into_iter().chain(models).map(of));
        table.add_row(cells);
    };
    row("mean %".into(), &|f| number(Some(f.mean_pct), 2));
    row("standard deviation".into(), &|f| {
        number(Some(f.sd_points), 2)
    });
    for (i, part) in QUANTILES_PCT.iter().enumerate() {
        row(format!("p{part} %"), &|f| {
            number(Some(f.quantiles_pct[i]), 1)
        });
    }
    for (i, lag) in LAGS.iter().enumerate() {
        if fitted.recording.autocorrelation[i].is_some() {
            let after = Seconds(fitted.recording.step_ns.saturating_mul(*lag as u64));
            row(format!("autocorrelation after {after}"), &|f| {
                number(f.autocorrelation[i], 3)
            });
        }
    }
    if let Some(pairs) = fitted.recording.correlation {
        let between = format!(
            "correlation of CPUs ({:.2} to {:.2})",
            pairs.least, pairs.most
        );
        row(between, &|f| number(f.correlation.map(|r| r.mean), 3));
    }
    let threshold = fitted.threshold_pct;
    row(format!("time above {threshold:.1} %, mean, s"), &|f| {
        number(f.times.map(|times| times.on_s), 2)
    });
    row("time below".into(), &|f| {
        number(f.times.map(|times| times.off_s), 2)
    });
    let mut off = |name: &str, of: &dyn Fn(&RankedModel) -> String| {
        let mut cells = vec![name.to_owned(), String::new()];
        cells.extend(fitted.models.iter().map(of));
        table.add_row(cells);
    };
    off("a quantile is off by, points", &|judged| {
        number(Some(judged.distance.distribution_points), 2)
    });
    off("Kolmogorov-Smirnov distance", &|judged| {
        number(Some(judged.distance.ks), 3)
    });
    off("autocorrelation is off by (rms)", &|judged| {
        number(judged.distance.autocorrelation, 3)
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The command line that makes the profile that `-o` writes.
fn command(model: &FittedModel, made: &FitOutputs<'_>) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut text = "sandbag synth ".to_owned();
    let seed = match model {
        FittedModel::OnOff(model) => {
            let _ = write!(
                text,
                "onoff --high {} --low {} --on {} --off {}",
                model.on_pct, model.off_pct, model.on_s, model.off_s
            );
            model.seed
        }
        FittedModel::Ar(model) => {
            let weights: Vec<String> = model.weights.iter().map(f64::to_string).collect();
            let _ = write!(
                text,
                "ar --mean {} --weights {} --noise {} --correlation {} --step {}",
                model.mean_pct,
                weights.join(","),
                model.noise_points,
                model.correlation,
                seconds(made.step_ns),
            );
            model.seed
        }
    };
    let output = made.output.unwrap_or(Path::new("OUT"));
    let _ = write!(
        text,
        " --seed {seed} --cpus {} -d {} -o {}",
        made.cpus,
        seconds(made.length_ns),
        quoted(&output.to_string_lossy()),
    );
    if let Some(to) = made.to {
        let _ = write!(text, " --to {to}");
    }
    text
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_it_has_to_be() {
        assert_eq!(quoted("out/day-1.csv"), "out/day-1.csv");
        assert_eq!(quoted("my day.csv"), "'my day.csv'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
