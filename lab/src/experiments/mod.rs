// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The papers' experiments. Each is a file here and a line in [`all`].

mod competitor;
mod errors;
mod micro;
mod obtrusive;
mod precision;
mod programs;
mod replay;

use crate::experiment::Paper;

/// All of them, in the order in which they are run.
pub fn all() -> Vec<Box<dyn Paper>> {
    vec![
        Box::new(precision::Precision::default()),
        Box::new(obtrusive::Obtrusive::default()),
        Box::new(replay::Replay),
        Box::new(errors::Errors),
        Box::new(competitor::Competitor::default()),
        Box::new(micro::Micro::default()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = all().iter().map(|e| e.name()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// `make lab QUICK=1` on a fresh clone is to take five quarters of an hour, of which
    /// the build takes twenty minutes on two CPUs.
    #[test]
    fn the_short_form_has_time_for_all() {
        let minutes: u32 = all().iter().map(|e| e.about().minutes[0]).sum();
        assert!(minutes <= 55, "{minutes}");
    }

    #[test]
    fn no_cell_is_given_up_before_the_rounds_are_over() {
        for experiment in all() {
            let about = experiment.about();
            assert!(about.most_rounds >= about.rounds[1]);
            assert!(about.rounds[0] <= about.rounds[1]);
        }
    }
}
