// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The papers' experiments. Each is a file here and a line in [`all`].

mod errors;
mod micro;
mod obtrusive;
mod precision;
mod replay;

use crate::experiment::Paper;

/// All of them, in the order in which they are run.
#[must_use]
pub fn all() -> Vec<Box<dyn Paper>> {
    vec![
        Box::new(precision::Precision::default()),
        Box::new(obtrusive::Obtrusive::default()),
        Box::new(replay::Replay),
        Box::new(errors::Errors),
        Box::new(micro::Micro::default()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_told_apart_by_name() {
        let mut names: Vec<&str> = all().iter().map(|e| e.name()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// `make lab QUICK=1` on a fresh clone is to take an hour, of which the
    /// build takes a third on two CPUs.
    #[test]
    fn the_short_form_has_time_for_all() {
        let minutes: u32 = all().iter().map(|e| e.minutes(true)).sum();
        assert!(minutes <= 40, "{minutes}");
    }

    #[test]
    fn nobody_gives_up_before_the_rounds_are_over() {
        for experiment in all() {
            assert!(experiment.most_rounds() >= experiment.rounds(false));
            assert!(experiment.rounds(true) <= experiment.rounds(false));
        }
    }
}
