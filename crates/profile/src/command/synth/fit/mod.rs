// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag synth fit`: models fitted to a recorded profile.

mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::synth::fit::{
    Distance, FitFigures, FittedAr, before_recording, figures, fit_ar, on_off_model, times,
    two_levels,
};
use crate::synth::{Autoregressive, OnOff, autoregressive, on_off};
use crate::{BoxSteps, Format, StepLength, Steps, summarise, usual_step};
use clap::{Args, ValueEnum};
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root};
use sandbag_ui::failure::Result;

use super::model::Seed;
use crate::command::profile_output;
use crate::command::reshape::{self, Reshape, describe};
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, Overwrite};
use sandbag_ui::units;
use sandbag_ui::{BadInput, exit};

/// Fit on/off and AR to a recorded profile, show how near they come, and the
/// command line that makes such profiles
///
/// All CPUs are fitted together: one set of parameters for all, as the models
/// take it. --select fits some of them alone.
#[derive(Debug, Args)]
pub(super) struct FitArgs {
    /// The profile: a file of any known format, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Write a profile that the model makes, or - for standard output
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,

    #[command(flatten)]
    overwrite: Overwrite,

    /// Format to write: see `sandbag show --formats` [default: by the ending of
    /// OUT; else native]
    #[arg(long, value_name = "FORMAT", value_parser = profile_output::writable, requires = "output")]
    to: Option<Format>,

    /// The model to write [default: the one that comes nearer]
    #[arg(long, value_name = "MODEL", requires = "output")]
    model: Option<FitModel>,

    /// How long a profile to make [default: as long as FILE]
    #[arg(short, long, value_name = "TIME", value_parser = units::positive_duration)]
    duration: Option<Duration>,

    /// Length of the steps that are compared, and of those of AR [default: the
    /// length that most steps of FILE have, else their mean length]
    #[arg(long, value_name = "TIME", value_parser = units::step)]
    step: Option<Duration>,

    #[command(flatten)]
    seed: Seed,

    #[command(flatten)]
    reshape: Reshape,
}

/// A model that can be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FitModel {
    /// `synth onoff`.
    Onoff,
    /// `synth ar`.
    Ar,
}

/// A model with the parameters that a recording gave it.
#[derive(Debug)]
enum FittedModel {
    OnOff(OnOff),
    Ar(Autoregressive),
}

/// Steps and CPUs of the profiles that models are judged by.
const LONG: u64 = 50_000;
const CPUS: u32 = 4;
/// Most changes of load in them, where the load changes much more often than
/// once a step.
const CHANGES: f64 = 2e6;

impl FittedModel {
    fn kind(&self) -> FitModel {
        match self {
            Self::OnOff(_) => FitModel::Onoff,
            Self::Ar(_) => FitModel::Ar,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::OnOff(_) => "on/off".to_owned(),
            Self::Ar(model) => format!("AR({})", model.weights.len()),
        }
    }

    /// How long a profile it is judged by, at least one step.
    fn judged_ns(&self, step_ns: u64) -> u64 {
        let length_ns = step_ns.saturating_mul(LONG);
        match self {
            Self::OnOff(model) => {
                let cycles = CHANGES / 2.0 / f64::from(CPUS);
                let most_ns = cycles * (model.on_s + model.off_s) * 1e9;
                length_ns.min(most_ns as u64).max(step_ns)
            }
            Self::Ar(_) => length_ns,
        }
    }

    fn steps(&self, cpus: &[u32], step_ns: u64, length_ns: u64) -> crate::Result<BoxSteps> {
        match self {
            Self::OnOff(model) => on_off(*model, cpus, length_ns),
            Self::Ar(model) => autoregressive(model.clone(), cpus, step_ns, length_ns),
        }
    }
}

/// A model and how near it comes.
struct RankedModel {
    model: FittedModel,
    figures: FitFigures,
    distance: Distance,
}

/// A recording and the models for it, the nearer one first.
struct FitResult {
    recording: FitFigures,
    threshold_pct: f64,
    models: Vec<RankedModel>,
    ar: Option<FittedAr>,
}

pub(super) fn main(args: &FitArgs, messages: &Messages) -> Result<u8> {
    let to = match &args.output {
        Some(output) => {
            output::refuse_same_file(&args.file, output)?;
            args.overwrite.check(Some(output))?;
            Some((output, profile_output::format_for(args.to, output)?))
        }
        None => None,
    };
    let source = Arc::new(reshape::source(&args.file)?);
    let topology = Topology::read(&Root::default())?;
    let open = || args.reshape.open(&source, &topology);
    let mut first = open()?;
    let format = first.header().format;
    let cpus: CpuList = first.header().cpus.iter().copied().collect();
    let summary = summarise(&mut *first)?;
    messages.say(&describe(source.name(), format, &summary));
    for warning in &summary.warnings {
        messages.warning(warning);
    }
    let recorded = usual_step(open()?)?;
    let step_ns = args.step.map_or(recorded.ns, units::nanos);
    let cpu_count = u32::try_from(cpus.len())?;
    let fitted = fit(&open, step_ns, recorded, cpu_count, args.seed.seed)?;
    let made = report::FitOutputs {
        cpus: &cpus,
        step_ns,
        length_ns: args.duration.map_or(summary.end_ns, units::nanos),
        output: args.output.as_deref(),
        to: args.to,
    };
    let text = report::text(&fitted, &made);
    if args
        .output
        .as_ref()
        .is_some_and(|out| out.as_os_str() == "-")
    {
        messages.show(&text);
    } else {
        output::print(text)?;
    }
    for caution in report::cautions(&fitted, recorded) {
        messages.warning(&caution);
    }
    if let Some((output, to)) = to {
        let existing = args.overwrite.existing();
        let model = fitted.chosen(args.model)?;
        let cpus: Vec<u32> = cpus.iter().collect();
        let steps = model.steps(&cpus, made.step_ns, made.length_ns)?;
        for warning in profile_output::put(output, to, steps, existing, messages)? {
            messages.warning(&warning);
        }
    }
    Ok(exit::KEPT)
}

fn fit(
    open: &dyn Fn() -> crate::Result<BoxSteps>,
    step_ns: u64,
    recorded: StepLength,
    cpus: u32,
    seed: u32,
) -> Result<FitResult> {
    let constant = || {
        let text = "the load does not vary: there is nothing to fit, `sandbag synth constant` \
                    makes such profiles";
        BadInput(text.to_owned())
    };
    let levels = two_levels(open()?)?.ok_or_else(constant)?;
    // The steps as they are: a chain's times need no grid. Where there is one,
    // it has had its effect.
    let chain = match times(open()?, levels.threshold_pct)? {
        None => None,
        Some(seen) => {
            let (levels, times) = if recorded.is_usual {
                before_recording(levels, seen, recorded.ns)?
            } else {
                (levels, seen)
            };
            Some(FittedModel::OnOff(on_off_model(&levels, &times, seed)))
        }
    };
    let ar = fit_ar(open, step_ns)?;
    let process = ar.as_ref().map(|ar| FittedModel::Ar(ar.model(seed)));
    let recording = figures(open, step_ns, levels.threshold_pct)?.ok_or_else(constant)?;
    let few: Vec<u32> = (0..cpus.min(CPUS)).collect();
    let mut models = Vec::new();
    for model in chain.into_iter().chain(process) {
        let open = || model.steps(&few, step_ns, model.judged_ns(step_ns));
        if let Some(figures) = figures(&open, step_ns, levels.threshold_pct)? {
            models.push(RankedModel {
                distance: Distance::of(&figures, &recording),
                model,
                figures,
            });
        }
    }
    if models.is_empty() {
        return Err(constant().into());
    }
    models.sort_by(|a, b| a.distance.sum.total_cmp(&b.distance.sum));
    Ok(FitResult {
        recording,
        threshold_pct: levels.threshold_pct,
        models,
        ar,
    })
}

impl FitResult {
    fn chosen(&self, kind: Option<FitModel>) -> Result<&FittedModel> {
        let mut models = self.models.iter().map(|judged| &judged.model);
        let chosen = models.find(|model| kind.is_none_or(|kind| model.kind() == kind));
        chosen.ok_or_else(|| {
            let text = "this model cannot be fitted here; --model names the other one";
            BadInput(text.to_owned()).into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NS_PER_S;

    #[test]
    fn models_are_judged_by_so_many_steps_or_changes() {
        let of = |on_s, off_s, step_s: u64| {
            let model = OnOff {
                on_pct: 90.0,
                off_pct: 10.0,
                on_s,
                off_s,
                seed: 1,
            };
            FittedModel::OnOff(model).judged_ns(step_s * NS_PER_S) / NS_PER_S
        };
        assert_eq!(of(20.0, 60.0, 1), LONG);
        // A day as a step, and seconds of load.
        assert_eq!(of(1.0, 1.0, 86_400), 500_000);
        assert_eq!(of(1.0, 1.0, 1_000_000), 1_000_000);
    }
}
