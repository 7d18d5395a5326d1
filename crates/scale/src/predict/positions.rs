// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where ranks can stand in a trace: the pieces of its units.

use sandbag_jitter::JitterTrace;

use super::Sync;
use super::drift::Units;
use super::options::PredictOptions;
use super::sweep::units;
use super::threads::map_each;
use super::windows::{CpuGroup, NoisePiece};
use crate::{Error, Result};

/// The pieces of all units.
pub(super) fn positions(trace: &JitterTrace, options: &PredictOptions) -> Result<Units> {
    let units = units(trace, options.group);
    let work_ns = options.quantum_ns;
    let pieces: Vec<Vec<NoisePiece>> = map_each(options.threads, units.len(), |i| {
        CpuGroup::new(&units[i], work_ns).collect()
    });
    let units = Units::new(pieces);
    let drift = match options.sync {
        Sync::Phases(1) | Sync::None => None,
        // Ranks that are set back every K phases are never further apart than after K.
        Sync::Phases(every) => options
            .drift
            .map(|drift| drift.advance(u64::from(every), options.phases)),
        Sync::Once => options.drift,
    };
    let needed_ns = drift
        .map_or(0, |drift| drift.longest_ns())
        .saturating_add(1);
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
