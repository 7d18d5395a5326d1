// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distributions of the noise that ranks of a source meet: in their work, and in the messages of
//! a barrier.

use sandbag_jitter::replay::Sync;
use sandbag_jitter::{CpuTrace, JitterTrace};

use super::bootstrap::{Blocks, Draws};
use super::cells::{Cells, FINE};
use super::noise::Grid;
use super::options::PredictOptions;
use super::stretches::Stretches;
use super::threads::map_each;
use super::waiting::Starts;
use super::windows::CpuGroup;
use crate::{Error, Result};

/// The distributions of one source.
pub(super) struct SourceSweep {
    /// Begins of the work; all units have the same weight.
    pub work: Cells,
    /// Begins of the sender's and of the receiver's part in a round of the barrier, of single
    /// CPUs.
    pub slots: Option<[Cells; 2]>,
    /// For intervals.
    pub draws: Option<Draws>,
    /// Length of all begins of all units, ns.
    pub begins_ns: f64,
}

/// The CPUs of each unit: a node's, or one.
pub(super) fn units(trace: &JitterTrace, group: u32) -> Vec<Vec<&CpuTrace>> {
    let known: Vec<&CpuTrace> = trace.cpus.iter().filter(|cpu| cpu.known_ns() > 0).collect();
    let whole = known.chunks_exact(group as usize);
    whole.map(<[&CpuTrace]>::to_vec).collect()
}

fn end_ns(trace: &JitterTrace) -> u64 {
    let known = trace.cpus.iter().flat_map(|cpu| &cpu.known);
    known.map(|span| span.until_ns).max().unwrap_or(0)
}

/// The begins of one unit.
fn sweep(unit: &[&CpuTrace], work_ns: u64, mut blocks: Option<&mut Blocks>) -> Cells {
    let pieces = CpuGroup::new(unit, work_ns).inspect(|piece| {
        if let Some(blocks) = &mut blocks {
            blocks.add(piece);
        }
    });
    let cells = Cells::gather(Grid::new(FINE), pieces);
    let Some(stretches) = Stretches::new(unit.iter().copied(), work_ns) else {
        return cells;
    };
    if let Some(blocks) = blocks {
        *blocks = blocks.weighted(&stretches);
    }
    cells.weighted(&stretches)
}

/// The factor that gives each unit the same weight: of its begins that occur. Which of them
/// inside events do is not known yet; of a rank that waits it is none if it is alone.
fn equal_weight(cells: &Cells, starts: Starts) -> f64 {
    let (outside, inside) = cells.weights();
    let occur = match starts {
        Starts::Running | Starts::Waiting if outside > 0.0 => outside,
        _ => outside + inside,
    };
    1e9 / occur.max(1.0)
}

/// The begins of all units, each with the same weight.
fn combine(mut parts: Vec<Cells>, starts: Starts) -> Cells {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let mut all = Cells::new(Grid::new(FINE));
    for cells in &parts {
        all.add_scaled(cells, equal_weight(cells, starts));
    }
    all
}

impl SourceSweep {
    /// Of these units of the trace.
    pub(super) fn new(
        trace: &JitterTrace,
        units: &[Vec<&CpuTrace>],
        options: &PredictOptions,
    ) -> Result<Self> {
        let wanted = options.intervals && options.sync == Sync::None;
        let empty_blocks = || {
            let new = || Blocks::new(end_ns(trace), options.quantum_ns);
            wanted.then(new).flatten()
        };
        let mut blocks = empty_blocks();
        let parts: Vec<Cells> = match &mut blocks {
            // Units share the blocks, so they come one after another.
            Some(blocks) => units
                .iter()
                .map(|unit| {
                    let mut own = empty_blocks();
                    let cells = sweep(unit, options.quantum_ns, own.as_mut());
                    if let Some(own) = own {
                        blocks.add_scaled(&own, equal_weight(&cells, options.starts));
                    }
                    cells
                })
                .collect(),
            None => map_each(options.threads, units.len(), |i| {
                sweep(&units[i], options.quantum_ns, None)
            }),
        };
        let lengths = parts.iter().map(Cells::weights);
        let begins_ns: f64 = lengths.map(|(outside, inside)| outside + inside).sum();
        let work = combine(parts, options.starts);
        if begins_ns <= 0.0 {
            let longest = trace.cpus.iter().flat_map(|cpu| &cpu.known);
            return Err(Error::TooShort {
                what: "a quantum, on all CPUs of a node together,",
                needed_ns: options.quantum_ns,
                longest_ns: longest.map(|span| span.length_ns()).max().unwrap_or(0),
            });
        }
        // A message delays its own rank, not the whole node.
        let cpus: Vec<&[&CpuTrace]> = units.iter().flat_map(|unit| unit.chunks(1)).collect();
        let slots = options.barrier.slots_ns().map(|slots| {
            slots.map(|slot_ns| {
                let parts = map_each(options.threads, cpus.len(), |i| {
                    sweep(cpus[i], slot_ns.max(1), None)
                });
                combine(parts, options.starts)
            })
        });
        Ok(Self {
            work,
            slots,
            draws: blocks.map(|blocks| blocks.draw(options.seed)),
            begins_ns,
        })
    }
}
