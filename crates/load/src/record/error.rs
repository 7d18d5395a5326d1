// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a recording did not begin or ended early.

use std::io;

pub type Result<T> = std::result::Result<T, Error>;

/// A failed recording. What was written before stays and can be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kernel(#[from] sandbag_linux::Error),
    #[error("write the recording: {0}; what was written before can be read")]
    Output(#[source] io::Error),
    #[error("wait for the next sample: {0}")]
    Wait(#[source] io::Error),
    #[error(
        "an interval of {0} ms is too short: the kernel counts in ticks of 10 ms, so 100 ms is the least that tells a load"
    )]
    Interval(u64),
    #[error("a duration of {0} ms is too short: the least is 100 ms")]
    Duration(u64),
}

impl sandbag_ui::ExitStatus for Error {}
