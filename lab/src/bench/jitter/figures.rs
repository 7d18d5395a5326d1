// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures by name, a value per round, and their tables.

use serde::{Deserialize, Serialize};

use sandbag_stats::{median, range};

use crate::table::{Table, number, yes};

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub enum Target {
    #[default]
    None,
    Most(f64),
    Least(f64),
}

impl Target {
    fn text(self) -> String {
        match self {
            Self::None => "-".to_owned(),
            Self::Most(most) => format!("<= {most}"),
            Self::Least(least) => format!(">= {least}"),
        }
    }

    fn met(self, value: f64) -> String {
        match self {
            Self::None => "-".to_owned(),
            Self::Most(most) => yes(value <= most),
            Self::Least(least) => yes(value >= least),
        }
    }
}

/// A figure: the heading of its table, its name, and a value per round.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Figure {
    title: String,
    what: String,
    target: Target,
    values: Vec<f64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Figures(Vec<Figure>);

impl Figures {
    pub fn add(&mut self, title: &str, what: &str, target: Target, value: f64) {
        let mut all = self.0.iter_mut();
        match all.find(|figure| figure.title == title && figure.what == what) {
            Some(figure) => figure.values.push(value),
            None => self.0.push(Figure {
                title: title.to_owned(),
                what: what.to_owned(),
                target,
                values: vec![value],
            }),
        }
    }

    pub fn add_all<'a>(
        &mut self,
        title: &str,
        values: impl IntoIterator<Item = (&'a str, Target, f64)>,
    ) {
        for (what, target, value) in values {
            self.add(title, what, target, value);
        }
    }

    /// Adds the values of other rounds.
    pub fn extend(&mut self, others: &Self) {
        for figure in &others.0 {
            for value in &figure.values {
                self.add(&figure.title, &figure.what, figure.target, *value);
            }
        }
    }

    pub fn render(&self) -> String {
        let mut tables: Vec<(&str, Table)> = Vec::new();
        for figure in &self.0 {
            if !tables.iter().any(|(title, _)| *title == figure.title) {
                let heads = ["", "target", "median", "least", "greatest", "met"];
                tables.push((&figure.title, Table::new(heads)));
            }
            let (low, high) = range(&figure.values).unzip();
            let middle = median(&figure.values);
            let row = vec![
                figure.what.clone(),
                figure.target.text(),
                number(middle, 3),
                number(low, 3),
                number(high, 3),
                middle.map_or_else(String::new, |value| figure.target.met(value)),
            ];
            let own = tables.iter_mut().find(|(title, _)| *title == figure.title);
            own.into_iter()
                .for_each(|(_, table)| table.push(row.clone()));
        }
        let text = |(title, table): &(&str, Table)| format!("\n## {title}\n\n{}", table.markdown());
        tables.iter().map(text).collect()
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
