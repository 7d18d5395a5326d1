// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag scale`: OS jitter in a parallel program.

mod bench;
mod output;
mod page;
mod predict;
mod table;
mod values;
mod view;

use clap::{Args, Subcommand};
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;

/// What OS jitter does to a parallel program at scale
#[derive(Debug, Args)]
pub struct ScaleArgs {
    #[command(subcommand)]
    action: ScaleAction,
}

#[derive(Debug, Subcommand)]
enum ScaleAction {
    /// Measure the slowdown on ranks of this machine, or on virtual ranks
    Bench(bench::BenchArgs),
    /// Predict the slowdown on many nodes from a trace of one node
    Predict(predict::PredictArgs),
}

/// Runs the command.
pub fn main(args: &ScaleArgs, messages: &Messages) -> Result<u8> {
    match &args.action {
        ScaleAction::Bench(args) => bench::main(args, messages),
        ScaleAction::Predict(args) => predict::main(args, messages),
    }
}
