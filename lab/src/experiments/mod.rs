// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The papers' experiments. Each is a file here and a line in [`all`].

mod competitor;
mod equality;
mod errors;
mod micro;
mod migrating;
mod obtrusive;
mod precision;
mod programs;
mod replay;
mod reproduced;
mod scaling;
mod several;
mod validated;

use crate::experiment::Paper;

/// Papers, as lists have them.
const KRASH: &str = "KRASH";
const BUCHERT: &str = "Buchert et al.";
const DE: &str = "De et al.";
const CARDO: &str = "Cardo";
const OWN: &str = "sandbag";

/// All of them, in the order in which they are run.
pub fn all() -> Vec<Box<dyn Paper>> {
    let mut all: Vec<Box<dyn Paper>> = Vec::new();
    all.extend(precision::Precision::all());
    all.extend(obtrusive::Obtrusive::all());
    all.extend(replay::Replay::all());
    all.push(Box::new(several::Several::default()));
    all.push(Box::new(migrating::Migrating::default()));
    all.extend(micro::Micro::all());
    all.push(Box::new(reproduced::Reproduced::default()));
    all.extend(scaling::Scaling::all());
    all.push(Box::new(validated::Validated::default()));
    all.extend(equality::Equality::all());
    all.push(Box::new(errors::Errors));
    all.push(Box::new(competitor::Competitor::default()));
    all
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

    #[test]
    fn no_table_and_no_figure_takes_long() {
        for about in all().iter().map(|e| e.about()) {
            assert!(about.minutes[0] <= 20, "{}", about.name);
            assert!(
                about.minutes[1] <= 120 || about.paper == OWN,
                "{}",
                about.name
            );
        }
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
