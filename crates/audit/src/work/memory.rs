// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A three-dimensional array whose elements are moved between neighbours of
//! neighbouring dimensions.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sandbag_linux::Root;

use super::test_work::TestWork;
use crate::memory_room;

/// A cube of elements.
pub(super) struct Planes {
    elements: Vec<u64>,
    edge: usize,
    /// The plane where the next run begins.
    next: usize,
}

/// Touched between two looks at what is left.
const STEP: usize = 64 << 20;

impl Planes {
    /// An array of at most `bytes` bytes, all of it touched. While it grows the free
    /// memory is watched: before the machine runs out of it the array is given up.
    /// Should the kernel have to kill a process all the same, it will be this one.
    pub(super) fn new(bytes: u64) -> Result<Self, String> {
        // Any process may make itself likelier to be killed.
        let _ = fs::write("/proc/self/oom_score_adj", "1000");
        let edge = ((bytes / 8) as f64).cbrt().floor().max(4.0) as usize;
        let count = edge.pow(3);
        let root = Root::default();
        let room = memory_room::room(&root).map_err(|e| e.to_string())?;
        let reserve = memory_room::reserve(room);
        if count as u64 * 8 + reserve > room {
            return Err(format!(
                "{} MiB do not fit: {} are free, and {} of them are left to others; ask for {} \
                 (--memory)",
                count >> 17,
                room >> 20,
                reserve >> 20,
                (room - reserve) >> 20
            ));
        }
        let mut elements: Vec<u64> = Vec::new();
        elements
            .try_reserve_exact(count)
            .map_err(|_| format!("{} MiB cannot be had", count >> 17))?;
        while elements.len() < count {
            let more = (STEP / 8).min(count - elements.len());
            let left = memory_room::room(&root).map_err(|e| e.to_string())?;
            if left < reserve + (more as u64) * 8 {
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

    /// The rows of `count` planes, from where the last run ended.
    fn planes(&mut self, count: u64) {
        for _ in 0..count {
            for row in 0..self.edge {
                self.row(self.next, row);
            }
            self.next = (self.next + 1) % self.edge;
        }
    }

    pub(super) fn edge(&self) -> usize {
        self.edge
    }

    pub(super) fn mib(&self) -> usize {
        self.elements.len() >> 17
    }
}

/// An array that several works move about in, one at a time.
#[derive(Clone)]
pub(super) struct SharedArray(Arc<Mutex<Planes>>);

impl SharedArray {
    /// Locks the array.
    pub(super) fn take(&self) -> MutexGuard<'_, Planes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives works of the same size the same array, so that there is one of it
/// however large it is.
#[derive(Default)]
pub(super) struct Keeper {
    bytes: u64,
    planes: Weak<Mutex<Planes>>,
}

impl Keeper {
    /// The array of this size; new unless one is in use.
    pub(super) fn of(&mut self, bytes: u64) -> Result<SharedArray, String> {
        if let Some(planes) = self.planes.upgrade().filter(|_| self.bytes == bytes) {
            return Ok(SharedArray(planes));
        }
        let planes = Arc::new(Mutex::new(Planes::new(bytes)?));
        (self.bytes, self.planes) = (bytes, Arc::downgrade(&planes));
        Ok(SharedArray(planes))
    }
}

pub(super) struct Moves(pub(super) SharedArray);

impl TestWork for Moves {
    fn run(&mut self, units: u64) -> Result<(), String> {
        self.0.take().planes(units);
        Ok(())
    }

    fn describe(&self) -> String {
        let planes = self.0.take();
        format!(
            "elements of an array of {0} x {0} x {0} words ({1} MiB) moved between neighbours of \
             neighbouring dimensions",
            planes.edge(),
            planes.mib()
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
        planes.planes(30);
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
    fn works_of_the_same_size_share_an_array() {
        let mut keeper = Keeper::default();
        let (one, other) = (keeper.of(8 * 125).unwrap(), keeper.of(8 * 125).unwrap());
        assert!(Arc::ptr_eq(&one.0, &other.0));
        let smaller = keeper.of(8 * 64).unwrap();
        assert!(!Arc::ptr_eq(&one.0, &smaller.0));
        Moves(one).run(3).unwrap();
        drop(smaller);
        assert_eq!(keeper.of(8 * 64).unwrap().take().edge(), 4);
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let error = Planes::new(1 << 50).err().unwrap();
        assert!(error.contains("MiB"), "{error}");
    }
}
