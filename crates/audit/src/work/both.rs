// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory, calls and words in one program, as in the paper.

use std::path::Path;

use super::Work;
use super::io::Words;
use super::memory::Planes;
use super::syscall;

/// A row of the array, a call, a word; again.
pub(super) struct Both {
    planes: Planes,
    words: Words,
    at: usize,
}

impl Both {
    pub(super) fn new(bytes: u64, path: &Path) -> Result<Self, String> {
        Ok(Self {
            words: Words::new(path)?,
            planes: Planes::new(bytes)?,
            at: 0,
        })
    }
}

impl Work for Both {
    fn run(&mut self, units: u64) -> Result<(), String> {
        let edge = self.planes.edge();
        for number in 0..units {
            self.planes.row(self.at / edge, self.at % edge);
            self.at = (self.at + 1) % (edge * edge);
            syscall::call();
            let word = self.words.word(number);
            word.map_err(|cause| self.words.failed(&cause))?;
        }
        Ok(())
    }

    fn about(&self) -> String {
        format!(
            "a row of {} words moved within an array of {} MiB, then a call, then {}",
            self.planes.edge(),
            self.planes.mib(),
            self.words.about()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_round_the_array() {
        let mut both = Both::new(8 * 125, Path::new("/dev/null")).unwrap();
        both.run(60).unwrap();
        assert_eq!(both.at, 10);
        assert!(both.about().contains("/dev/null"));
    }
}
