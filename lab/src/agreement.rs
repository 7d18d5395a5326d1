// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether what was measured agrees with what was published. Pure.

use serde::{Deserialize, Serialize};

use crate::summary::Median;

/// Values from which on a median has an interval.
const FEWEST: usize = 3;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    Agrees,
    Differs,
    /// Too few pairs, too noisy a machine, or words that are no number.
    Undecided,
    /// Nothing was published.
    #[default]
    Ours,
}

/// Values that agree with a published one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    low: f64,
    high: f64,
}

impl Published {
    pub const fn between(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    pub fn around(value: f64, within: f64) -> Self {
        Self::between(value - within, value + within)
    }

    /// The whole interval must lie inside, or outside.
    pub fn compare(self, ours: Option<Median>) -> Agreement {
        let Some(ours) = ours.filter(|ours| ours.n >= FEWEST) else {
            return Agreement::Undecided;
        };
        self.compare_ends((ours.low, ours.high))
    }

    /// The same of the ends of an interval.
    pub fn compare_ends(self, (low, high): (f64, f64)) -> Agreement {
        if low >= self.low && high <= self.high {
            Agreement::Agrees
        } else if high < self.low || low > self.high {
            Agreement::Differs
        } else {
            Agreement::Undecided
        }
    }
}

impl Agreement {
    /// For a table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::Undecided => "undecided",
            Self::Ours => "-",
        }
    }
}

/// A figure beside the published one, as pages and summaries show it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    pub what: String,
    pub paper: String,
    pub ours: String,
    pub agreement: Agreement,
}

impl Compared {
    /// A figure of ours, of which no paper has one.
    pub fn ours(what: String, ours: String) -> Self {
        Self {
            what,
            paper: "-".to_owned(),
            ours,
            agreement: Agreement::Ours,
        }
    }

    /// Cells of a table.
    pub fn cells(&self) -> Vec<String> {
        let word = self.agreement.word().to_owned();
        [&self.what, &self.paper, &self.ours, &word]
            .map(String::clone)
            .into()
    }
}

/// How the published figures of an experiment fare, in one sentence; empty without any.
pub fn sentence(all: &[Compared]) -> String {
    let count = |agreement| all.iter().filter(|one| one.agreement == agreement).count();
    let [agree, differ, undecided] =
        [Agreement::Agrees, Agreement::Differs, Agreement::Undecided].map(count);
    let published = agree + differ + undecided;
    if published == 0 {
        return String::new();
    }
    format!(
        "Of {published} comparison{} with published figures, {agree} agree{}, {differ} differ{}, and {undecided} \
         cannot be decided.",
        if published == 1 { "" } else { "s" },
        if agree == 1 { "s" } else { "" },
        if differ == 1 { "s" } else { "" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_agrees_when_it_lies_inside() {
        let published = Published::around(2.0, 0.2);
        let of = |values: &[f64]| published.compare(Median::of(values));
        assert_eq!(of(&[1.9, 2.0, 2.1]), Agreement::Agrees);
        assert_eq!(of(&[1.9, 2.0, 2.3]), Agreement::Undecided);
        assert_eq!(of(&[2.3, 2.4, 2.5]), Agreement::Differs);
        // One pair has no interval, and none has nothing.
        assert_eq!(of(&[2.0]), Agreement::Undecided);
        assert_eq!(of(&[]), Agreement::Undecided);
    }

    #[test]
    fn the_sentence_counts_what_was_published() {
        let one = |agreement| Compared {
            agreement,
            ..Compared::default()
        };
        let all = [Agreement::Agrees, Agreement::Ours, Agreement::Undecided].map(one);
        assert_eq!(
            sentence(&all),
            "Of 2 comparisons with published figures, 1 agrees, 0 differ, and 1 cannot be decided."
        );
        assert_eq!(sentence(&all[1..2]), "");
    }
}
