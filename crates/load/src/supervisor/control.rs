// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands from outside while a run goes on: what a virtual node answers.

use std::os::fd::BorrowedFd;

use sandbag_linux::clock;

use super::SupervisedRun;
use super::feed::Feed;
use super::timeline::LoadPiece;
use sandbag_run::error::Result;

pub trait Control {
    /// Becomes readable when there is something to serve.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Serves what is there, without waiting for anybody for long.
    fn serve(&mut self, run: &mut dyn ControlTarget);
}

/// One CPU of a run, to be shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuLevel {
    pub cpu: u32,
    /// Load asked now, percent.
    pub asked_pct: f64,
    /// Load of the last whole second, percent of the delivered time.
    pub got_pct: Option<f64>,
}

/// What can be asked of a run.
pub trait ControlTarget {
    /// Every loaded CPU, in the order of the plan.
    fn levels(&self) -> Vec<CpuLevel>;

    /// From the next period on these loads, percent, in the order of the
    /// plan; what the profile had for later is forgotten.
    fn set_levels(&mut self, percent: &[f64]) -> Result<()>;

    /// The processes in the node.
    fn members(&self) -> Vec<u32>;

    fn admit(&mut self, pid: u32) -> Result<()>;

    fn stop(&mut self);
}

/// A run with what it needs to be changed.
pub(super) struct Changing<'r, 'a> {
    pub(super) run: &'r mut SupervisedRun<'a>,
    pub(super) feed: &'r mut Feed,
    pub(super) stop: bool,
}

/// What giving all burners their orders may take.
const LEAD_NS: u64 = 1_000_000;
/// Pieces that are asked until something else is.
const FOR_GOOD_NS: u64 = u64::MAX / 4;

impl ControlTarget for Changing<'_, '_> {
    fn levels(&self) -> Vec<CpuLevel> {
        let run = &*self.run;
        let now = run.clock.run_ns(clock::monotonic());
        let in_force = |p: &&LoadPiece| p.start_ns <= now && now < p.end_ns;
        // One that was set a moment ago is as good as in force.
        let piece = run.ahead.iter().find(in_force).or(run.ahead.front());
        let asked = |n: usize| {
            piece
                .and_then(|p| p.asked_pct.get(n).copied())
                .unwrap_or(0.0)
        };
        let got = |n: usize| {
            let window = run.meter.latest(n)?;
            let delivered = window.length_ns.saturating_sub(window.steal_ns);
            (delivered > 0).then(|| window.burner_ns as f64 * 100.0 / delivered as f64)
        };
        run.cpus
            .iter()
            .enumerate()
            .map(|(n, cpu)| CpuLevel {
                cpu: cpu.number(),
                asked_pct: asked(n),
                got_pct: got(n),
            })
            .collect()
    }

    fn set_levels(&mut self, percent: &[f64]) -> Result<()> {
        let run = &mut *self.run;
        let common = run.common();
        // A grid point that no burner has passed when the last of them has its
        // order, so that all CPUs change in the same period.
        let period_ns = run.method.duty.period_ns().max(1);
        let from_ns = (clock::monotonic() + LEAD_NS).next_multiple_of(period_ns);
        let run_ns = run.clock.run_ns(from_ns);
        self.feed.hold_open();
        run.profile_end_ns = None;
        run.ahead.clear();
        run.meter.cut(run_ns);
        for cpu in &mut run.cpus {
            cpu.void_orders(&common);
        }
        let piece = LoadPiece {
            start_ns: run_ns,
            end_ns: run_ns + FOR_GOOD_NS,
            asked_pct: percent.to_vec(),
        };
        run.order_piece(&common, &piece, run_ns);
        run.meter.ask(piece.clone());
        run.ahead.push_back(piece);
        if let Some(node) = &mut run.node {
            node.changes += 1;
        }
        for (cpu, pct) in run.cpus.iter_mut().zip(percent) {
            let level = run.method.serves(pct / 100.0);
            cpu.make_room(&common, &mut run.journal, level)?;
        }
        Ok(())
    }

    fn members(&self) -> Vec<u32> {
        self.run.members()
    }

    fn admit(&mut self, pid: u32) -> Result<()> {
        let run = &mut *self.run;
        run.enter_node(pid)
    }

    fn stop(&mut self) {
        self.stop = true;
    }
}
