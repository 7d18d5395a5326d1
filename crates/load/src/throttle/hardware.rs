// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The speeds that a machine has: its frequencies, and standing still by the
//! freezer. Where no frequency can be set there is one speed, full.

use sandbag_linux::Result;
use sandbag_linux::cgroup::Freezer;
use sandbag_linux::clock::monotonic;

use super::governor::Speeds;
use crate::frequencies::Ladder;

#[derive(Debug)]
pub struct Hardware {
    ladder: Option<Ladder>,
    freezer: Option<Freezer>,
    step: Option<usize>,
    frozen: bool,
}

impl Hardware {
    /// Nothing is set. Without a freezer it cannot stand still.
    pub fn new(ladder: Option<Ladder>, freezer: Option<Freezer>) -> Self {
        Self {
            ladder,
            freezer,
            step: None,
            frozen: false,
        }
    }

    fn freeze(&mut self, now: u64) -> Result<Option<u64>> {
        let Some(freezer) = &self.freezer else {
            return Ok(None);
        };
        if self.frozen {
            return Ok(Some(now));
        }
        // Before the attempt: whatever comes of it is to be thawed.
        self.frozen = true;
        // Not waited for: no program of the group goes on from here, also
        // those that wait for a CPU to freeze on.
        match freezer.begin() {
            Ok(()) => Ok(Some(monotonic())),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn thaw(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.frozen, false) {
            return Ok(());
        }
        match self.freezer.as_ref().map_or(Ok(()), Freezer::thaw) {
            // Its group is gone.
            Err(error) if error.is_absent() => Ok(()),
            other => other,
        }
    }
}

impl Speeds for Hardware {
    fn speeds(&self) -> &[f64] {
        self.ladder.as_ref().map_or(&[1.0], Ladder::speeds)
    }

    fn set(&mut self, step: Option<usize>, now: u64) -> Result<Option<u64>> {
        let Some(index) = step else {
            return self.freeze(now);
        };
        if self.step == step && !self.frozen {
            return Ok(Some(now));
        }
        if let (Some(ladder), true) = (&self.ladder, self.step != step) {
            ladder.set(index)?;
            self.step = step;
        }
        self.thaw()?;
        Ok(Some(monotonic()))
    }

    fn keep(&mut self) -> Result<bool> {
        match (&self.ladder, self.step) {
            (Some(ladder), Some(step)) if !ladder.holds(step) => {
                ladder.set_again(step)?;
                Ok(false)
            }
            _ => Ok(true),
        }
    }

    fn release(&mut self) -> Result<()> {
        let thawed = self.thaw();
        if self.step.take().is_some()
            && let Some(ladder) = &self.ladder
        {
            ladder.release()?;
        }
        thawed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frequencies::tests::{FakePolicy, X5570};
    use crate::frequencies::{FrequencyOptions, Ladder};
    use sandbag_linux::cgroup::Version;
    use std::fs;

    fn freezer() -> (tempfile::TempDir, Freezer) {
        let dir = tempfile::tempdir().unwrap();
        // What is written is what the file then says: frozen at once.
        fs::write(dir.path().join("freezer.state"), "THAWED").unwrap();
        let freezer = Freezer::at(Version::V1, dir.path().to_owned());
        (dir, freezer)
    }

    #[test]
    fn frequency_before_thaw_and_both_released() {
        let fake = FakePolicy::new(&[(&[0, 1, 2, 3], X5570)]);
        let ladder = Ladder::read(&fake.root, &[0, 1, 2, 3], FrequencyOptions::default()).unwrap();
        let (dir, freezer) = freezer();
        let state = || fs::read_to_string(dir.path().join("freezer.state")).unwrap();
        let mut hardware = Hardware::new(ladder, Some(freezer));
        assert!(hardware.set(None, 5).unwrap().is_some());
        assert_eq!(state(), "FROZEN");
        // Frozen already: nothing is written, and it counts from now.
        fs::write(dir.path().join("freezer.state"), "as it was").unwrap();
        assert_eq!(hardware.set(None, 6).unwrap(), Some(6));
        assert_eq!(state(), "as it was");
        hardware.set(Some(0), 7).unwrap();
        assert_eq!(state(), "THAWED");
        assert_eq!(fake.text(0, "scaling_setspeed"), "1600000");
        assert_eq!(hardware.set(Some(0), 8).unwrap(), Some(8));
        hardware.set(None, 9).unwrap();
        hardware.release().unwrap();
        assert_eq!(state(), "THAWED");
        assert_eq!(fake.text(0, "scaling_setspeed"), "2930000");
    }

    #[test]
    fn a_group_that_is_gone_is_no_failure() {
        let (dir, freezer) = freezer();
        let mut hardware = Hardware::new(None, Some(freezer));
        assert_eq!(hardware.speeds(), [1.0]);
        assert!(hardware.set(None, 0).unwrap().is_some());
        hardware.set(Some(0), 1).unwrap();
        drop(dir);
        assert_eq!(hardware.set(None, 0).unwrap(), None);
        hardware.release().unwrap();
        assert_eq!(Hardware::new(None, None).set(None, 0).unwrap(), None);
    }
}
