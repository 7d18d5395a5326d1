// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where ranks with a common position can begin.

use sandbag_jitter::JitterTrace;
use sandbag_jitter::replay::Sync;

use super::drift::{Drift, Units};
use super::options::PredictOptions;
use super::sweep::units;
use super::threads::map_each;
use super::windows::CpuGroup;
use crate::{Error, Result};

/// The positions at which ranks can begin: the pieces of all units.
pub(super) fn positions(trace: &JitterTrace, options: &PredictOptions) -> Result<Units> {
    let units = units(trace, options.group);
    let work_ns = options.quantum_ns;
    let pieces = map_each(options.threads, units.len(), |i| {
        CpuGroup::new(&units[i], work_ns).collect()
    });
    let units = Units::new(pieces);
    let drift = options.drift.unwrap_or(Drift::NONE);
    let drift = match options.sync {
        Sync::Phases(1) | Sync::None => Drift::NONE,
        // Ranks that are set back every K phases drift for K phases at most.
        Sync::Phases(every) => drift.advance(u64::from(every), options.phases),
        Sync::Once => drift,
    };
    let needed_ns = drift.longest_ns().saturating_add(1);
    if units.longest_ns() > needed_ns {
        Ok(units)
    } else {
        Err(Error::TooShort {
            what: "a quantum and the drift of all phases, on all CPUs together,",
            needed_ns: needed_ns.saturating_add(work_ns),
            longest_ns: units.longest_ns().saturating_add(work_ns),
        })
    }
}
