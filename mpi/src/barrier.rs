// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MPI's barrier.

use mpi::topology::SimpleCommunicator;
use mpi::traits::Source as _;
use mpi::traits::{Communicator as _, CommunicatorCollectives as _, Destination as _, Root as _};
use sandbag_scale::bench::{Messages, RankBarrier};

/// A barrier that is polled (MPI_Ibarrier and MPI_Test), so that events of a rank run while it
/// waits.
pub struct MpiBarrier<'a> {
    world: &'a SimpleCommunicator,
    says: u32,
    /// Yield the CPU between polls, because ranks wait for CPU time.
    yields: bool,
}

impl<'a> MpiBarrier<'a> {
    pub fn new(world: &'a SimpleCommunicator, yields: bool) -> Self {
        Self {
            world,
            says: 0,
            yields,
        }
    }
}

impl RankBarrier for MpiBarrier<'_> {
    fn rank(&self) -> u32 {
        self.world.rank().unsigned_abs()
    }

    fn size(&self) -> u32 {
        self.world.size().unsigned_abs()
    }

    fn wait(&mut self, says: u32, idle: &mut dyn FnMut()) {
        self.says = says;
        let mut request = self.world.immediate_barrier();
        while let Err(again) = request.test() {
            request = again;
            idle();
            if self.yields {
                std::thread::yield_now();
            }
        }
    }

    fn announcement(&mut self) -> u32 {
        self.world.process_at_rank(0).broadcast_into(&mut self.says);
        self.says
    }
}

impl Messages for MpiBarrier<'_> {
    fn send(&mut self, to: u32, value: u64) {
        self.world.process_at_rank(to.cast_signed()).send(&value);
    }

    fn receive(&mut self, from: u32) -> u64 {
        let other = self.world.process_at_rank(from.cast_signed());
        other.receive::<u64>().0
    }
}
