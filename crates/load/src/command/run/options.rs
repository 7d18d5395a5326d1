// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options that `load` and `replay` have in common.

use std::time::Duration;

use crate::method::{Feel, PaceOptions, SharesOptions};
use crate::node::TargetName;
use crate::supervisor::{StartAt, StartOn};
use clap::Args;
use nix::sys::signal::Signal;

use super::hold_options::HoldOptions;
use super::schedule;
use sandbag_ui::failure::Result;
use sandbag_ui::units::{self, Cpus};

/// How a run is made, and what it leaves.
#[derive(Debug, Clone, Args)]
pub struct RunOptions {
    /// How the load is produced
    ///
    /// `sandbag doctor` says which methods work on this machine.
    #[arg(long, value_name = "NAME", default_value = crate::method::NAMES[0],
          value_parser = clap::builder::PossibleValuesParser::new(crate::method::NAMES))]
    pub method: String,

    /// Period of the method; for pace it must divide 100 ms [default: pace 1.6 to
    /// 20 ms, by the level; quota 20ms]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub period: Option<Duration>,

    /// Constants of pace.
    #[command(flatten)]
    pub pace: PaceOptions,

    /// Constants of shares.
    #[command(flatten)]
    pub shares: SharesOptions,

    /// What CMD notices of the load: steady, or more as of a competitor that
    /// always runs and gets the same share
    ///
    /// steady: all CPUs are taken at the same time, and sleep while nothing
    /// runs. competitor: each CPU is taken at other times than the others, and
    /// none of them sleeps (it polls, which costs power). Services that wake up
    /// often, and threads that wait for each other, notice it;
    /// docs/explanation/methods.md says how much. Of pace only.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub feel: Feel,

    /// Also write achieved-100ms.csv, one row per CPU and 100 ms
    #[arg(long, value_name = "100ms", value_parser = ["100ms"])]
    pub windows: Option<String>,

    /// Begin at this time (RFC 3339, or @ and seconds since 1970): starts
    /// several hosts together, to within 100 ms
    ///
    /// Windows and levels begin at multiples of 100 ms of each host's own
    /// monotonic clock, at which its burners note what they took; those of two
    /// hosts do not fall together. The run begins at the first one that is not
    /// before TIME and says how much later that is; CMD begins then, too, so
    /// that it meets the profile at the same place on every host.
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,

    /// Start CMD at once, and the load when CMD says so: by a byte on its
    /// descriptor FD (3 to 255), or by closing it, or by the signal USR1 or
    /// USR2 to the process $SANDBAG_PID
    ///
    /// For programs whose set-up is to run without the load. CMD gets a pipe
    /// as FD: in a shell, echo >&3 or exec 3>&-. The load begins within 120 ms,
    /// without waiting for its first level to be held; that moment is the
    /// report's time 0, while CMD's own times are those of its whole life. The
    /// signal is not passed on to CMD. With sudo CMD, which is not root, may
    /// not send it: use a descriptor.
    #[arg(long, value_name = "FD|SIGNAL", value_parser = start_on, requires = "command",
          conflicts_with = "at")]
    pub start_on: Option<StartOn>,

    /// Run CMD on these CPUs only
    #[arg(long, value_name = "LIST", value_parser = units::cpus, requires = "command")]
    pub pin: Option<Cpus>,

    /// Run the supervisor itself on this CPU
    #[arg(long, value_name = "CPU")]
    pub supervisor_cpu: Option<u32>,

    /// Show the progress bar beside a command, too
    #[arg(long)]
    pub progress: bool,

    /// Report what this program, which runs already, got: pid:N, tree:N (with its
    /// descendants), unit:NAME (of systemd) or container:NAME
    ///
    /// The program is not changed and not moved. `sandbag load` loads its CPUs, unless
    /// others are named.
    #[arg(long, value_name = "WHO", conflicts_with = "command")]
    pub beside: Option<TargetName>,

    /// How the condition is held beside a command.
    #[command(flatten)]
    pub hold: HoldOptions,
}

impl RunOptions {
    /// The time of --at. Asked before a profile is read: what is past then is wrong input, and a run
    /// that is ready later than that is late.
    ///
    /// # Errors
    /// It is no time, or past.
    pub fn start_at(&self) -> Result<Option<StartAt>> {
        self.at.as_deref().map(schedule::start_at).transpose()
    }
}

/// `3`, a descriptor of CMD; `USR1`, `SIGUSR2`.
pub fn start_on(text: &str) -> Result<StartOn, String> {
    let name = text.to_ascii_uppercase();
    match name.strip_prefix("SIG").unwrap_or(&name) {
        "USR1" => Ok(StartOn::Signal(Signal::SIGUSR1)),
        "USR2" => Ok(StartOn::Signal(Signal::SIGUSR2)),
        number => match number.parse() {
            Ok(number @ 3..=255) => Ok(StartOn::Descriptor(number)),
            Ok(0..=2) => Err("0 to 2 are CMD's input and output: take 3 to 255".to_owned()),
            _ => Err("expected a descriptor of CMD, 3 to 255, or USR1 or USR2".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_and_signals_begin_a_load() {
        assert_eq!(start_on("3"), Ok(StartOn::Descriptor(3)));
        assert_eq!(start_on("sigusr2"), Ok(StartOn::Signal(Signal::SIGUSR2)));
        assert_eq!(start_on("USR1"), Ok(StartOn::Signal(Signal::SIGUSR1)));
        assert!(start_on("1").unwrap_err().contains("input and output"));
        for text in ["256", "-1", "TERM", "", "KILL"] {
            assert!(start_on(text).unwrap_err().contains("3 to 255"), "{text}");
        }
    }
}
