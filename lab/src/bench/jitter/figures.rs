// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures by name, a value per round, and their tables.

use serde::{Deserialize, Serialize};

use sandbag_stats::{median, range};

use crate::bench::markdown::{MarkdownTable, number};

/// What a figure should be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Target {
    /// Nobody asked for anything.
    None,
    /// At most so much.
    Most(f64),
    /// At least so much.
    Least(f64),
}

impl Target {
    fn met(self, value: f64) -> Option<bool> {
        match self {
            Self::None => None,
            Self::Most(most) => Some(value <= most),
            Self::Least(least) => Some(value >= least),
        }
    }

    fn text(self) -> String {
        match self {
            Self::None => "-".to_owned(),
            Self::Most(most) => format!("<= {most}"),
            Self::Least(least) => format!(">= {least}"),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Figure {
    what: String,
    target: Target,
    values: Vec<f64>,
}

/// A table of figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct FigureGroup {
    title: String,
    figures: Vec<Figure>,
}

/// All of them, in the order in which they first came.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Figures(Vec<FigureGroup>);

impl Figures {
    /// A value of a round.
    pub fn add(&mut self, title: &str, what: &str, target: Target, value: f64) {
        let place = self.0.iter().position(|group| group.title == title);
        let place = place.unwrap_or_else(|| {
            self.0.push(FigureGroup {
                title: title.to_owned(),
                figures: Vec::new(),
            });
            self.0.len() - 1
        });
        let group = &mut self.0[place].figures;
        match group.iter_mut().find(|figure| figure.what == what) {
            Some(figure) => figure.values.push(value),
            None => group.push(Figure {
                what: what.to_owned(),
                target,
                values: vec![value],
            }),
        }
    }

    /// The values of other rounds, too.
    pub fn extend(&mut self, others: &Self) {
        for group in &others.0 {
            for figure in &group.figures {
                for value in &figure.values {
                    self.add(&group.title, &figure.what, figure.target, *value);
                }
            }
        }
    }

    /// The tables.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for group in &self.0 {
            let mut table =
                MarkdownTable::new(&["", "target", "median", "least", "greatest", "met"]);
            for figure in &group.figures {
                let (low, high) = range(&figure.values).unzip();
                let middle = median(&figure.values);
                let met = middle.and_then(|value| figure.target.met(value));
                table.push(vec![
                    figure.what.clone(),
                    figure.target.text(),
                    number(middle, 3),
                    number(low, 3),
                    number(high, 3),
                    match met {
                        None => "-",
                        Some(true) => "yes",
                        Some(false) => "no",
                    }
                    .to_owned(),
                ]);
            }
            text += &format!("\n## {}\n\n{}", group.title, table.render());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_by_the_median() {
        let mut figures = Figures::default();
        for value in [9.0, 1.0, 2.0] {
            figures.add("A", "at most", Target::Most(2.0), value);
            figures.add("A", "at least", Target::Least(2.5), value);
            figures.add("B", "any", Target::None, value);
        }
        let mut twice = Figures::default();
        twice.extend(&figures);
        let text = twice.render();
        let line = |what: &str| text.lines().find(|l| l.contains(what)).unwrap().to_owned();
        assert!(line("at most").contains("<= 2") && line("at most").trim().ends_with("yes |"));
        assert!(line("at least").contains("no |"), "{text}");
        assert!(line("any").contains("2.000") && line("any").contains("9.000"));
        assert!(text.find("## A") < text.find("## B"));
    }
}
