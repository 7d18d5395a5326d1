// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of the injectors.

use serde::{Deserialize, Serialize};

use super::InjectorNoise;
use crate::replay::limit::LeftOut;
use crate::replay::outcome::RankOutcome;

/// How an injector is doing, or how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// As it should.
    #[default]
    Well,
    /// Its CPU went offline.
    Displaced,
    /// It ended early, in words.
    Died(String),
}

/// What became of one CPU.
#[derive(Debug, Clone)]
pub struct CpuOutcome {
    /// Kernel number.
    pub cpu: u32,
    /// What injecting costs there.
    pub measured: InjectorNoise,
    /// What was suffered.
    pub outcome: RankOutcome,
    /// What the limit would leave out of a whole portion.
    pub left_out: LeftOut,
    /// How long it was, ns.
    pub ran_ns: u64,
    /// Its injector did not run for this long while events were due: it was
    /// stopped, or had no CPU. Pauses of the whole run are not contained, ns.
    pub stood_ns: u64,
    /// How its injector fared.
    pub health: Health,
}
