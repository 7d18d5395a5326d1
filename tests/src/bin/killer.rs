// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`sandbag_machine_tests::killing`] for scenarios of a guest.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use sandbag_machine_tests::killing::{Killing, RestoreResult, Victim};
use sandbag_machine_tests::state::State;

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
    /// CPUs that a run loads, from the first on
    #[arg(long, default_value_t = 2)]
    cpus: usize,
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
        cpus: arguments.cpus,
        before: serde_json::from_reader(File::open(&arguments.state)?)?,
        patience: Duration::from_secs(arguments.patience),
        chance: fastrand::Rng::with_seed(0),
    };
    match arguments.verb {
        KillerVerb::Before => {}
        KillerVerb::Compare { after } => print(&killing.compare(&after)?)?,
        KillerVerb::Rounds { count, seed } => {
            killing.chance.seed(seed);
            for _ in 0..count {
                for victim in [Victim::Supervisor, Victim::Guardian, Victim::Burner] {
                    print(&killing.round(victim)?)?;
                }
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
