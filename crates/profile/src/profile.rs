// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile that is wholly in memory.

use crate::{BoxSteps, ProfileHeader, Result, Step, Steps};

/// A collected profile: for short ones, for tests, for plots.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub header: ProfileHeader,
    /// Contiguous from 0.
    pub steps: Vec<Step>,
    /// What reading it had to say.
    pub warnings: Vec<String>,
}

impl Profile {
    /// Reads all of it.
    pub fn collect(mut from: impl Steps) -> Result<Self> {
        let mut steps = Vec::new();
        while let Some(step) = from.next_step()? {
            steps.push(step);
        }
        Ok(Self {
            header: from.header().clone(),
            steps,
            warnings: from.warnings(),
        })
    }

    /// End of the last step; 0 without one.
    pub fn end_ns(&self) -> u64 {
        self.steps.last().map_or(0, |s| s.end_ns)
    }

    /// The profile as a stream.
    pub fn into_steps(self) -> BoxSteps {
        Box::new(ProfileSteps {
            header: self.header,
            steps: self.steps.into_iter(),
            warnings: self.warnings,
        })
    }
}

struct ProfileSteps {
    header: ProfileHeader,
    steps: std::vec::IntoIter<Step>,
    warnings: Vec<String>,
}

impl Steps for ProfileSteps {
    fn header(&self) -> &ProfileHeader {
        &self.header
    }
    fn next_step(&mut self) -> Result<Option<Step>> {
        Ok(self.steps.next())
    }
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}
