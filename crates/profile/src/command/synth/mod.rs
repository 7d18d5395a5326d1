// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag synth`: a load profile from a model.

mod fit;
mod make;
mod model;

use clap::{Args, Subcommand};
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_ui::failure::Result;

use crate::command::profile_output;
use model::ModelCommand;
use sandbag_ui::messages::Messages;
use sandbag_ui::{BadInput, exit};

/// Make a load profile from a model; the same on every machine
#[derive(Debug, Args)]
pub struct SynthArgs {
    #[command(subcommand)]
    what: SynthCommand,
}

#[derive(Debug, Subcommand)]
enum SynthCommand {
    #[command(flatten)]
    Model(ModelCommand),
    Fit(fit::FitArgs),
}

pub fn main(args: &SynthArgs, messages: &Messages) -> Result<u8> {
    match &args.what {
        SynthCommand::Model(model) => make(model, messages),
        SynthCommand::Fit(args) => fit::main(args, messages),
    }
}

fn make(model: &ModelCommand, messages: &Messages) -> Result<u8> {
    let place = model.place();
    let to = profile_output::format_for(place.to, &place.output)?;
    let topology = Topology::read(&Root::default())?;
    let cpus: Vec<u32> = place.cpus.on(&topology).iter().collect();
    if cpus.is_empty() {
        return Err(BadInput("--cpus names no CPU of this machine".to_owned()).into());
    }
    let warnings = profile_output::put(
        &place.output,
        to,
        model.steps(&cpus)?,
        place.overwrite.existing(),
        messages,
    )?;
    for warning in warnings {
        messages.warning(&warning);
    }
    Ok(exit::KEPT)
}
