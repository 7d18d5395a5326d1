// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tests that were taken up.

use std::collections::BTreeMap;

use super::order::Spec;
use super::test_work::TestWork;
use super::{combined, compute, io, memory, syscall};

/// The works that were taken up, by the numbers that they were given.
#[derive(Default)]
pub(super) struct TestBench {
    works: BTreeMap<usize, Box<dyn TestWork>>,
    array: memory::Keeper,
}

impl TestBench {
    /// Takes a work up; what it says of itself.
    pub(super) fn prepare(&mut self, test: usize, spec: &Spec) -> Result<String, String> {
        self.leave(test);
        let work: Box<dyn TestWork> = match spec {
            Spec::Memory { bytes } => Box::new(memory::Moves(self.array.of(*bytes)?)),
            Spec::Syscall => Box::new(syscall::Calls),
            Spec::Io { path } => Box::new(io::Words::new(path)?),
            Spec::Both { bytes, path } => {
                // What may be refused at once comes first.
                let words = io::Words::new(path)?;
                Box::new(combined::CombinedWork::new(self.array.of(*bytes)?, words))
            }
            Spec::Compute => Box::new(compute::Vectors::new()),
        };
        let about = work.describe();
        self.works.insert(test, work);
        Ok(about)
    }

    pub(super) fn leave(&mut self, test: usize) {
        self.works.remove(&test);
    }

    pub(super) fn get(&mut self, test: usize) -> Result<&mut dyn TestWork, String> {
        match self.works.get_mut(&test) {
            Some(work) => Ok(work.as_mut()),
            None => Err("it was not prepared".to_owned()),
        }
    }
}
