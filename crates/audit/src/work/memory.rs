// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A three-dimensional array whose elements are moved between neighbours of
//! neighbouring dimensions.

use std::fs;

use sandbag_kernel::Root;

use super::Work;
use crate::memory_room::{self, RESERVE};

/// The array: so many elements along each edge.
pub(super) struct Planes {
    elements: Vec<u64>,
    edge: usize,
    /// The plane where the next run begins.
    next: usize,
}

/// Touched between two looks at what is left.
const STEP: usize = 64 << 20;

impl Planes {
    /// An array of at most so many bytes, all of it touched. While it grows the
    /// machine is watched: before it runs out of memory the array is given up,
    /// and should the kernel have to kill somebody all the same, it will be this
    /// process.
    pub(super) fn new(bytes: u64) -> Result<Self, String> {
        // Anybody may make himself likelier.
        let _ = fs::write("/proc/self/oom_score_adj", "1000");
        let edge = ((bytes / 8) as f64).cbrt().floor().max(4.0) as usize;
        let count = edge.pow(3);
        let mut elements: Vec<u64> = Vec::new();
        elements
            .try_reserve_exact(count)
            .map_err(|_| format!("{} MiB cannot be had", count >> 17))?;
        let root = Root::default();
        while elements.len() < count {
            let more = (STEP / 8).min(count - elements.len());
            let left = memory_room::room(&root).map_err(|e| e.to_string())?;
            if left < RESERVE + (more as u64) * 8 {
                return Err(format!(
                    "only {} MiB of memory are left after {} of {} MiB: ask for less",
                    left >> 20,
                    elements.len() >> 17,
                    count >> 17
                ));
            }
            let from = elements.len() as u64;
            elements.extend(from..from + more as u64);
        }
        Ok(Self {
            elements,
            edge,
            next: 0,
        })
    }

    /// Moves the elements of a row each to its neighbour in the next dimension:
    /// plane, row, place within the row, and back. No element is lost.
    #[inline]
    pub(super) fn row(&mut self, plane: usize, row: usize) {
        let edge = self.edge;
        let (above, below) = ((plane + 1) % edge, (row + 1) % edge);
        let at = |plane: usize, row: usize| (plane * edge + row) * edge;
        let (here, next_plane, next_row) = (at(plane, row), at(above, row), at(plane, below));
        for place in 0..edge - 1 {
            let first = self.elements[here + place];
            self.elements[here + place] = self.elements[next_plane + place];
            self.elements[next_plane + place] = self.elements[next_row + place];
            self.elements[next_row + place] = self.elements[here + place + 1];
            self.elements[here + place + 1] = first;
        }
    }

    pub(super) fn edge(&self) -> usize {
        self.edge
    }

    pub(super) fn mib(&self) -> usize {
        self.elements.len() >> 17
    }
}

impl Work for Planes {
    fn run(&mut self, units: u64) -> Result<(), String> {
        for _ in 0..units {
            for row in 0..self.edge {
                self.row(self.next, row);
            }
            self.next = (self.next + 1) % self.edge;
        }
        Ok(())
    }

    fn about(&self) -> String {
        format!(
            "elements of an array of {0} x {0} x {0} words ({1} MiB) moved between neighbours of \
             neighbouring dimensions",
            self.edge,
            self.mib()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_element_is_lost_and_most_are_moved() {
        let mut planes = Planes::new(9 * 9 * 9 * 8 + 7).unwrap();
        assert_eq!(planes.edge(), 9);
        planes.run(30).unwrap();
        let moved = planes.elements.iter().enumerate();
        let moved = moved.filter(|(at, x)| *at as u64 != **x).count();
        assert!(moved > 600, "{moved}");
        planes.elements.sort_unstable();
        assert!(
            planes
                .elements
                .iter()
                .enumerate()
                .all(|(at, x)| at as u64 == *x)
        );
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let error = Planes::new(1 << 50).err().unwrap();
        assert!(error.contains("MiB"), "{error}");
    }
}
