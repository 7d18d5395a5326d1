// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory, calls and words in one program, as in the paper.

use super::io::Words;
use super::memory::SharedArray;
use super::syscall;
use super::test_work::TestWork;

/// A row of the array, a call, a word; again.
pub(super) struct CombinedWork {
    array: SharedArray,
    words: Words,
    at: usize,
}

impl CombinedWork {
    pub(super) fn new(array: SharedArray, words: Words) -> Self {
        Self {
            array,
            words,
            at: 0,
        }
    }
}

impl TestWork for CombinedWork {
    fn run(&mut self, units: u64) -> Result<(), String> {
        let mut planes = self.array.take();
        let edge = planes.edge();
        for number in 0..units {
            planes.row(self.at / edge, self.at % edge);
            self.at = (self.at + 1) % (edge * edge);
            syscall::call();
            let word = self.words.word(number);
            word.map_err(|cause| self.words.write_error(&cause))?;
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let planes = self.array.take();
        format!(
            "a row of {} words moved within an array of {} MiB, then a call, then {}",
            planes.edge(),
            planes.mib(),
            self.words.describe()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::work::memory::Keeper;

    #[test]
    fn it_goes_round_the_array() {
        let array = Keeper::default().of(8 * 125).unwrap();
        let mut both = CombinedWork::new(array, Words::new(Path::new("/dev/null")).unwrap());
        both.run(60).unwrap();
        assert_eq!(both.at, 10);
        assert!(both.describe().contains("/dev/null"));
    }
}
