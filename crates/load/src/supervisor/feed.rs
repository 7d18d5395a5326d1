// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the profile one piece ahead, so that its end is known in time.

use sandbag_profile::{BoxSteps, ProfileCell, Steps as _};

use super::timeline::LoadPiece;
use sandbag_run::error::Result;

/// The profile as pieces.
pub struct Feed {
    steps: BoxSteps,
    next: Option<LoadPiece>,
    begun: bool,
    end_ns: Option<u64>,
    unknown: u64,
}

impl Feed {
    pub fn new(steps: BoxSteps) -> Self {
        Self {
            steps,
            next: None,
            begun: false,
            end_ns: None,
            unknown: 0,
        }
    }

    pub fn peek(&mut self) -> Result<Option<&LoadPiece>> {
        if !self.begun {
            self.begun = true;
            self.next = self.read()?;
        }
        Ok(self.next.as_ref())
    }

    pub fn next(&mut self) -> Result<Option<LoadPiece>> {
        self.peek()?;
        let Some(piece) = self.next.take() else {
            return Ok(None);
        };
        self.next = self.read()?;
        if self.next.is_none() {
            self.end_ns = Some(piece.end_ns);
        }
        Ok(Some(piece))
    }

    /// What is left of the profile is not wanted; its end stays, where that is known.
    pub fn hold_open(&mut self, length_ns: Option<u64>) {
        self.begun = true;
        self.next = None;
        self.end_ns = self.end_ns.or(length_ns);
    }

    fn read(&mut self) -> Result<Option<LoadPiece>> {
        let Some(step) = self.steps.next_step().map_err(sandbag_run::Error::input)? else {
            return Ok(None);
        };
        self.unknown += u64::from(step.cells.iter().any(Option::is_none));
        let load = |cell: &Option<ProfileCell>| cell.map_or(0.0, |cell| cell.load_pct);
        let asked_pct = step.cells.iter().map(load).collect();
        Ok(Some(LoadPiece {
            start_ns: step.start_ns,
            end_ns: step.end_ns,
            asked_pct,
        }))
    }

    pub fn end_ns(&self) -> Option<u64> {
        self.end_ns
    }

    /// What this has to say; what the profile's reader has was said when it was read as a whole.
    pub fn warning(&self) -> Option<String> {
        (self.unknown > 0).then(|| {
            format!(
                "{} pieces of the profile have CPUs without a value; no load was put there",
                self.unknown
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_known_with_the_last_piece() {
        let mut feed = Feed::new(sandbag_profile::constant(&[0, 1], 30.0, 5_000));
        assert_eq!(feed.peek().unwrap().unwrap().asked_pct, [30.0, 30.0]);
        assert_eq!(feed.end_ns(), None);
        assert!(feed.next().unwrap().is_some());
        assert_eq!(feed.end_ns(), Some(5_000));
        assert!(feed.next().unwrap().is_none());
    }

    #[test]
    fn one_that_is_held_open_keeps_an_end_that_is_known() {
        let mut feed = Feed::new(sandbag_profile::constant(&[0], 30.0, 5_000));
        feed.hold_open(None);
        assert!(feed.next().unwrap().is_none());
        assert_eq!(feed.end_ns(), None);
        let mut feed = Feed::new(sandbag_profile::constant(&[0], 30.0, 5_000));
        feed.next().unwrap();
        feed.hold_open(Some(7_000));
        assert_eq!(feed.end_ns(), Some(5_000));
        let mut feed = Feed::new(sandbag_profile::constant(&[0], 30.0, 5_000));
        feed.hold_open(Some(7_000));
        assert_eq!(feed.end_ns(), Some(7_000));
    }
}
