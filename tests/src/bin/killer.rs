// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`sandbag_machine_tests::blow`] and [`sandbag_machine_tests::killing`] for scenarios
//! of a guest.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use clap::{Parser, Subcommand};
use nix::sys::signal::Signal;
use sandbag_machine_tests::blow::{Blow, Phase};
use sandbag_machine_tests::killing::{Killing, RestoreResult};
use sandbag_machine_tests::ours::Role;
use sandbag_machine_tests::state::State;

/// How much longer an emulated machine takes to start a run.
const SLOWNESS: u32 = 10;
/// Who is killed in a round, and when: the supervisor at any moment, also while the
/// groups are being made.
const VICTIMS: [(Role, Phase); 3] = [
    (Role::Supervisor, Phase::Start),
    (Role::Guardian, Phase::Held),
    (Role::Burner, Phase::Held),
];

/// Kill sandbag's processes, compare the machine before and after
#[derive(Debug, Parser)]
struct Arguments {
    /// File in which the machine's state is kept between calls
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    /// The program under test
    #[arg(long, default_value = "/usr/bin/sandbag")]
    sandbag: PathBuf,
    /// Seconds after which what is not as before counts as left behind
    #[arg(long, default_value_t = 10)]
    patience: u64,
    #[command(subcommand)]
    verb: KillerVerb,
}

#[derive(Debug, Subcommand)]
enum KillerVerb {
    /// Write down the machine's state
    Before,
    /// Compare with what was written down
    Compare {
        /// What was done in between
        after: String,
    },
    /// Kill the supervisor, the guardian and a burner of one run each
    Rounds {
        /// How often
        count: u32,
        /// Seed of the moments and of the choice of the burner
        seed: u64,
    },
    /// Kill supervisor and guardian together, then undo by sandbag's words
    Both {
        /// Seed of the moment
        seed: u64,
        /// Arguments for sandbag
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        remedy: Vec<String>,
    },
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let KillerVerb::Before = arguments.verb {
        let state = State::read()?;
        return Ok(serde_json::to_writer(
            File::create(&arguments.state)?,
            &state,
        )?);
    }
    let mut killing = Killing {
        sandbag: &arguments.sandbag,
        before: serde_json::from_reader(File::open(&arguments.state)?)?,
        patience: Duration::from_secs(arguments.patience),
        chance: fastrand::Rng::with_seed(0),
    };
    match arguments.verb {
        KillerVerb::Before => {}
        KillerVerb::Compare { after } => print(&killing.compare(&after)?)?,
        KillerVerb::Rounds { count, seed } => {
            let mut chance = fastrand::Rng::with_seed(seed);
            for (role, phase) in VICTIMS.repeat(count as usize) {
                let blow = Blow {
                    signal: Signal::SIGKILL,
                    role,
                    phase,
                    command: false,
                };
                let struck =
                    blow.strike(&arguments.sandbag, Path::new("."), SLOWNESS, &mut chance)?;
                ensure!(struck.is_some(), "{blow}: it had ended before");
                print(&killing.compare(&blow.to_string())?)?;
            }
        }
        KillerVerb::Both { seed, remedy } => {
            killing.chance.seed(seed);
            let remedy: Vec<&str> = remedy.iter().map(String::as_str).collect();
            print(&killing.both(&remedy)?)?;
        }
    }
    Ok(())
}

fn print(restored: &RestoreResult) -> anyhow::Result<()> {
    println!("@result restored {}", serde_json::to_string(restored)?);
    Ok(())
}
