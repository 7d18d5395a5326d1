// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of an experiment: one file without network, light and dark.

use maud::{Markup, PreEscaped, html};
use sandbag_ui::page::static_page;

use crate::table::Table;

/// Tables are text here, and figures as wide as they are drawn.
const STYLE: &str = "th, td { padding: 3px 26px 3px 0; text-align: left; white-space: normal; } \
                     svg { max-width: 100%; height: auto; } \
                     dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; }";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    title: String,
    text: String,
    points: Vec<String>,
    figure: Option<String>,
    table: Option<Table>,
}

impl Section {
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            ..Self::default()
        }
    }

    pub fn text(mut self, text: &str) -> Self {
        text.clone_into(&mut self.text);
        self
    }

    pub fn points(mut self, points: &[&str]) -> Self {
        self.points = points.iter().map(|&point| point.to_owned()).collect();
        self
    }

    /// With an SVG of [`figure::draw`](crate::figure::draw).
    pub fn figure(mut self, svg: String) -> Self {
        self.figure = Some(svg);
        self
    }

    pub fn table(mut self, table: Table) -> Self {
        self.table = Some(table);
        self
    }

    pub fn svg(&self) -> Option<&str> {
        self.figure.as_deref()
    }

    /// Title, text and table in markdown; empty without a table.
    pub fn markdown(&self) -> String {
        let table = self.table.as_ref().map(Table::markdown);
        table.map_or_else(String::new, |table| {
            format!("## {}\n\n{}\n\n{table}\n", self.title, self.text)
        })
    }

    pub fn html(&self) -> Markup {
        html! {
            section {
                h2 { (self.title) }
                @if !self.text.is_empty() { p { (self.text) } }
                @if !self.points.is_empty() { ul { @for point in &self.points { li { (point) } } } }
                @if let Some(svg) = &self.figure { figure.table { (PreEscaped(svg)) } }
                @if let Some(table) = &self.table { (table.html()) }
            }
        }
    }
}

/// The parts of a page beside its sections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    pub title: String,
    /// What is repeated, and from where.
    pub source: String,
    /// Trials that were made, and how many rounds there are.
    pub progress: String,
    /// How the published figures fare; empty without any.
    pub verdict: String,
    /// That it was not run, or failed, and why.
    pub state: Option<String>,
    /// The machine, by name and value; empty where each section has its own.
    pub machine: Vec<(String, String)>,
    /// What was skipped, each with its reason.
    pub skipped: Vec<String>,
    pub notes: Vec<String>,
}

fn list(title: &str, items: &[String]) -> Markup {
    html! {
        @if !items.is_empty() {
            h2 { (title) }
            ul { @for item in items { li { (item) } } }
        }
    }
}

pub fn render(frame: &Frame, sections: &[Section]) -> String {
    let body = html! {
        h1 { (frame.title) }
        p.what { (frame.source) }
        p { (frame.progress) }
        @if !frame.verdict.is_empty() { p { strong { (frame.verdict) } } }
        @if let Some(state) = &frame.state { p { strong { (state) } } }
        @for section in sections { (section.html()) }
        (list(&format!("Skipped ({})", frame.skipped.len()), &frame.skipped))
        (list("Notes", &frame.notes))
        @if !frame.machine.is_empty() {
            h2 { "The machine" }
            dl {
                @for (name, value) in &frame.machine { dt { (name) } dd { (value) } }
            }
        }
        footer {
            p {
                "Slowdowns are those of pairs, the unloaded run right before or after the "
                "loaded one; medians with the 95 % interval of the sign test, for fewer "
                "than six pairs the least and the greatest; one value has no interval. Pairs "
                "with more than 3 % steal or 2 % foreign load are left out; undecided means "
                "that too few were left, or that the unloaded runs or the slowdowns differ too "
                "much."
            }
        }
    };
    static_page(&frame.title, STYLE, &body)
}

/// The page as text, without its figures and the machine.
pub fn markdown(frame: &Frame, sections: &[Section]) -> String {
    let mut text = format!("# {}\n\n{}\n", frame.title, frame.progress);
    let list = |text: &mut String, items: &[String]| {
        items
            .iter()
            .for_each(|item| *text += &format!("- {item}\n"));
    };
    for section in sections {
        text += &format!("\n## {}\n\n{}\n\n", section.title, section.text);
        list(&mut text, &section.points);
        if let Some(table) = &section.table {
            text += &format!("\n{}", table.markdown());
        }
    }
    for (title, items) in [("Skipped", &frame.skipped), ("Notes", &frame.notes)] {
        if !items.is_empty() {
            text += &format!("\n## {title} ({})\n\n", items.len());
            list(&mut text, items);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_become_markup() {
        let mut table = Table::of("a");
        table.push(vec!["<script>x</script>".to_owned()]);
        let section = Section::new("t").text("1 < 2").table(table);
        let page = render(&Frame::default(), &[section]);
        assert!(!page.contains("<script>") && page.contains("1 &lt; 2"));
        assert!(!page.contains("http://") && !page.contains("https://"));
    }

    #[test]
    fn what_was_skipped_is_counted() {
        let mut frame = Frame {
            state: Some("Skipped: no root.".to_owned()),
            ..Frame::default()
        };
        assert!(render(&frame, &[]).contains("<strong>Skipped: no root.</strong>"));
        assert!(
            !render(&frame, &[]).contains("Skipped (") && !render(&frame, &[]).contains("Notes")
        );
        frame.skipped = vec!["freq: no driver".to_owned(), "copy: no room".to_owned()];
        let page = render(&frame, &[]);
        assert!(page.contains("<h2>Skipped (2)</h2>") && page.contains("<li>copy: no room</li>"));
    }
}
