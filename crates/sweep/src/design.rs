// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which run is next. A block has a run of every cell (a condition of a program), in an order
//! of chance; runs whose condition was not kept are made again at the end of their block.

use std::collections::BTreeSet;

use sandbag_stats::chance::Chance;

/// How many cells, blocks and repetitions there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Design {
    pub cells: usize,
    /// None: as many as the time allows.
    pub blocks: Option<usize>,
    /// Blocks before this one are over.
    pub first: usize,
    /// How often a run of a cell is made again in a block, at most.
    pub repeats: usize,
    /// How many runs are made again in all, at most.
    pub spoilt: usize,
    pub seed: u64,
}

/// A run that is to be made, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// From 1.
    pub block: usize,
    pub cell: usize,
}

impl Design {
    /// Goes on after these runs with a new block. One that was interrupted stays unfinished,
    /// because its ratios would compare two states of the machine, and another takes its place.
    pub fn resumed(self, done: &[(Turn, bool)]) -> Self {
        let blocks: BTreeSet<usize> = done.iter().map(|(turn, _)| turn.block).collect();
        let is_open = |block: &&usize| {
            let until = done.iter().filter(|(turn, _)| turn.block <= **block);
            let until: Vec<(Turn, bool)> = until.copied().collect();
            self.in_block(**block, &until).is_some()
        };
        let open = blocks.iter().filter(is_open).count();
        Self {
            blocks: self.blocks.map(|wanted| wanted + open),
            first: blocks.last().map_or(1, |last| last + 1),
            ..self
        }
    }

    /// The next run after these, of which `true` are those that count.
    pub fn next(&self, done: &[(Turn, bool)]) -> Option<Turn> {
        let blocks = done.iter().map(|(turn, _)| turn.block);
        let last = blocks.fold(self.first, usize::max);
        let most = self.blocks.unwrap_or(last + 1);
        (last..=most).find_map(|block| self.in_block(block, done))
    }

    fn in_block(&self, block: usize, done: &[(Turn, bool)]) -> Option<Turn> {
        let order = self.order(block);
        let tries = |cell: usize| {
            done.iter()
                .filter(move |(turn, _)| *turn == Turn { block, cell })
        };
        let cells: BTreeSet<Turn> = done.iter().map(|(turn, _)| *turn).collect();
        let made_again = done.len() - cells.len();
        let fresh = order.iter().find(|cell| tries(**cell).next().is_none());
        let again = || {
            order.iter().find(|cell| {
                let counts = tries(**cell).any(|(_, counts)| *counts);
                !counts && tries(**cell).count() <= self.repeats && made_again < self.spoilt
            })
        };
        fresh.or_else(again).map(|cell| Turn { block, cell: *cell })
    }

    /// The cells of a block (Fisher and Yates).
    fn order(&self, block: usize) -> Vec<usize> {
        let mut chance = Chance::new(self.seed, &format!("block {block}"));
        let mut order: Vec<usize> = (0..self.cells).collect();
        for at in (1..order.len()).rev() {
            let other = chance.below(at as u64 + 1) as usize;
            order.swap(at, other);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(design: Design, counts: impl Fn(usize, usize) -> bool) -> Vec<(Turn, bool)> {
        let mut done = Vec::new();
        while let Some(turn) = design.next(&done) {
            let tries = done.iter().filter(|(other, _)| *other == turn).count();
            done.push((turn, counts(turn.cell, tries)));
            assert!(done.len() < 1000);
        }
        done
    }

    const DESIGN: Design = Design {
        cells: 4,
        blocks: Some(3),
        first: 1,
        repeats: 2,
        spoilt: usize::MAX,
        seed: 7,
    };

    #[test]
    fn a_spoilt_run_is_made_again_at_the_end_of_its_block() {
        let done = all(DESIGN, |cell, tries| cell != 1 || tries > 0);
        assert_eq!(done.len(), 3 * 5);
        for block in done.chunks(5) {
            assert!(block.iter().all(|(turn, _)| turn.block == block[0].0.block));
            assert_eq!(block[4].0.cell, 1);
        }
        // One that never counts is given up.
        let done = all(DESIGN, |cell, _| cell != 1);
        assert_eq!(done.len(), 3 * (3 + 3));
        // Or because there were too many of them.
        let design = Design {
            spoilt: 4,
            ..DESIGN
        };
        let done = all(design, |cell, _| cell != 1);
        assert_eq!(done.len(), 3 * 4 + 4);
    }

    #[test]
    fn an_interrupted_block_is_replaced() {
        let mut done = all(DESIGN, |_, _| true);
        // One block and half of the next.
        done.truncate(6);
        let design = DESIGN.resumed(&done);
        while let Some(turn) = design.next(&done) {
            done.push((turn, true));
        }
        let runs = |block: usize| done.iter().filter(|(turn, _)| turn.block == block).count();
        assert_eq!([1, 2, 3, 4, 5].map(runs), [4, 2, 4, 4, 0]);
        assert_eq!(DESIGN.resumed(&done).next(&done), None);
        assert_eq!(DESIGN.resumed(&[]), DESIGN);
    }

    #[test]
    fn without_a_number_of_blocks_there_is_always_another() {
        let design = Design {
            blocks: None,
            ..DESIGN
        };
        let mut done = Vec::new();
        for _ in 0..40 {
            done.push((design.next(&done).unwrap(), true));
        }
        assert_eq!(done[39].0.block, 10);
    }

    proptest! {
        #[test]
        fn every_cell_has_a_run_in_every_block(cells in 1usize..9, blocks in 1usize..6, seed: u64) {
            let design = Design { cells, blocks: Some(blocks), repeats: 0, seed, ..DESIGN };
            let done = all(design, |_, _| true);
            prop_assert_eq!(done.len(), cells * blocks);
            for (at, block) in done.chunks(cells).enumerate() {
                let mut seen: Vec<usize> = block.iter().map(|(turn, _)| turn.cell).collect();
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..cells).collect::<Vec<_>>());
                prop_assert!(block.iter().all(|(turn, _)| turn.block == at + 1));
            }
        }
    }
}
