// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of a recording that `show`, `compare` and `convert` are about.

use std::time::Duration;

use crate::import::JitterRecording;
use crate::{Error, Fault, Selection};
use clap::Args;

use sandbag_linux::CpuList;
use sandbag_ui::failure::Result;

use sandbag_ui::BadInput;
use sandbag_ui::units;

/// A part of a recording
#[derive(Debug, Args)]
pub struct SelectArgs {
    /// Only what begins so long after the beginning of the recording
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    from: Option<Duration>,

    /// Only what ends so long after the beginning of the recording
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    until: Option<Duration>,

    /// Only these CPUs, by their numbers in the recording
    #[arg(short, long, visible_alias = "select", value_name = "LIST", value_parser = units::cpu_list)]
    cpus: Option<CpuList>,

    /// Only what is at least so long: tools see events from different lengths on
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    above: Option<Duration>,
}

impl SelectArgs {
    /// The shortest event that is left, ns.
    pub fn above_ns(&self) -> u64 {
        self.above.map_or(0, units::nanos)
    }

    /// Where it begins, ns.
    pub fn begin_ns(&self) -> u64 {
        self.from.map_or(0, units::nanos)
    }

    /// The part of a recording; `counts_above`: of counts the short ones are
    /// left out by the caller.
    pub fn of(&self, recording: JitterRecording, counts_above: bool) -> Result<JitterRecording> {
        if let (Some(from), Some(until)) = (self.from, self.until)
            && from >= until
        {
            return Err(BadInput("--until is not after --from".to_owned()).into());
        }
        let selection = Selection {
            from_ns: self.from.map(units::nanos),
            until_ns: self.until.map(units::nanos),
            cpus: self.cpus.as_ref().map(|list| list.iter().collect()),
            above_ns: self.above_ns(),
        };
        match recording {
            _ if selection.is_all() => Ok(recording),
            JitterRecording::Trace(trace) => Ok(JitterRecording::Trace(selection.of(trace)?)),
            JitterRecording::Distribution(mut all) => {
                if selection.needs_events() || (self.above.is_some() && !counts_above) {
                    return Err(Error::from(Fault::NotEvents(all.recorder)).into());
                }
                if let Some(wanted) = &selection.cpus {
                    all.series.retain(|one| wanted.contains(&one.cpu));
                }
                if all.series.is_empty() {
                    Err(BadInput("--cpus names none of the recording".to_owned()).into())
                } else {
                    Ok(JitterRecording::Distribution(all))
                }
            }
        }
    }
}
