// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user reads on the terminal: a table for each test, suspects with their
//! remedies, the verdict, and what would have been seen.

mod comparison;

use std::collections::BTreeSet;

use crate::model::{Audit, AuditVerdict, CpuVerdict, Effect, Nature, Quantity, Suspect, Test};
use comfy_table::{CellAlignment, Table};
use sandbag_ui::quantity::time;
use sandbag_ui::table::plain;
use sandbag_ui::text::{clock, visible};

use crate::report::words::{
    capitalize, cpus, detection, detection_of, mark, middle, of_cpu, quantities, quantity, signed,
    size, span, summary, unit, verdict, verdict_words, verdicts,
};
pub use comparison::comparison;

/// No terminal is taken for narrower.
pub const COLUMNS: usize = 80;
/// With more CPUs than this only those are listed of which there is something to
/// say.
const MOST_ROWS: usize = 16;
/// As many of them as this.
const MOST_ODD: usize = 12;
/// Sentences about unequal CPUs, unless all are wanted.
const MOST_SENTENCES: usize = 8;

/// How it is shown.
#[derive(Debug, Clone, Copy)]
pub struct TerminalStyle {
    /// Columns of the terminal.
    pub columns: usize,
    /// Every CPU and every sentence, however many.
    pub all: bool,
}

impl Default for TerminalStyle {
    fn default() -> Self {
        Self {
            columns: COLUMNS,
            all: false,
        }
    }
}

impl TerminalStyle {
    fn columns(&self) -> usize {
        self.columns.max(COLUMNS)
    }

    /// Whether no line is too long.
    fn holds(&self, table: &str) -> bool {
        table
            .lines()
            .all(|line| line.chars().count() <= self.columns())
    }

    /// Wraps with a hanging indent.
    fn wrap(&self, indent: &str, text: &str) -> String {
        let hanging = format!("{indent}  ");
        // Lines that are too long are hard to read.
        let options = textwrap::Options::new(self.columns().min(100))
            .initial_indent(indent)
            .subsequent_indent(&hanging)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        textwrap::fill(&visible(text), options) + "\n"
    }
}

/// An audit, ending in a newline, without colours.
#[must_use]
pub fn audit(audit: &Audit, look: &TerminalStyle) -> String {
    let mut out = look.wrap("", &heading(audit));
    // All tables in the same form.
    let wide = audit.tests.iter().all(|test| {
        let rows = TerminalRows::choose(test, &cpus(test), look);
        look.holds(&table(test, &rows, &quantities(test), true))
    });
    for test in &audit.tests {
        out.push('\n');
        out += &test_lines(test, look, wide);
    }
    out.push('\n');
    if !audit.suspects.is_empty() {
        out += "Suspects, likeliest first\n";
        for (i, suspect) in audit.suspects.iter().enumerate() {
            out += &suspect_lines(i + 1, suspect, look);
        }
        out.push('\n');
    }
    let said = format!("{}: {}", verdict(audit.verdict), summary(audit));
    out += &look.wrap("", &said);
    out += &look.wrap("", &detection(audit));
    for left in &audit.left_out {
        out += &look.wrap("", &format!("left out: CPU {}, {}", left.cpu, left.why));
    }
    for test in &audit.tests {
        if let (Some(why), false) = (&test.failure, test.effects.is_empty()) {
            out += &look.wrap("", &format!("test {}: {why}", test.name));
        }
    }
    for remark in &audit.remarks {
        out += &look.wrap("", &format!("note: {remark}"));
    }
    out
}

fn heading(audit: &Audit) -> String {
    let fact = |name: &str| audit.machine.iter().find(|(n, _)| n == name);
    let fact = |name: &str| fact(name).map(|(_, value)| value.clone());
    let mut parts = vec![match audit.cpus.len() {
        1 => "audit of 1 CPU".to_owned(),
        n => format!("audit of {n} CPUs"),
    }];
    parts.extend(fact("CPU"));
    parts.extend(fact("kernel").map(|release| format!("Linux {release}")));
    parts.push(capitalize(&audit.begun));
    parts.push(format!("took {}", clock(audit.took_ns as f64 / 1e9)));
    parts.push(format!("seed {}", audit.design.seed));
    parts.join(", ")
}

/// What a test did, in a sentence.
pub(crate) fn test_facts(test: &Test) -> String {
    let lengths: Vec<String> = test.lengths.iter().map(u64::to_string).collect();
    let rounds = test.samples.iter().map(|sample| sample.round).max();
    let mut parts = Vec::new();
    if !test.about.is_empty() {
        parts.push(test.about.clone());
    }
    // A command of the user's has but one.
    if lengths.len() > 1 {
        parts.push(format!("{} {}", lengths.join(", "), test.unit));
    }
    match rounds {
        None => {}
        Some(0) => parts.push("1 round".to_owned()),
        Some(last) => parts.push(format!("{} rounds", u64::from(last) + 1)),
    }
    parts.join("; ")
}

/// Of so few CPUs each one's times are told, not those of the middle one.
const FEW: usize = 4;

/// What CPUs took, in words; empty where that is not known.
pub(crate) fn middles(test: &Test) -> String {
    let of = |cpu: Option<u32>| -> String {
        let told = |q: Quantity| {
            let here = test.effects.iter();
            let here = here.filter(|effect| effect.quantity == q);
            let here = here.filter(|effect| cpu.is_none_or(|cpu| cpu == effect.cpu));
            // One CPU alone has figures and no effects.
            let alone = || at_greatest(test, q);
            let value = middle(here.map(|effect| effect.middle)).or_else(alone)?;
            Some(match q {
                share if share.is_share() => format!("{} {value:.3} %", quantity(q)),
                _ => format!("{} {}", quantity(q), time(value)),
            })
        };
        let all: Vec<String> = measured_quantities(test)
            .into_iter()
            .filter_map(told)
            .collect();
        all.join(", ")
    };
    let all = cpus(test);
    let few = all
        .iter()
        .map(|cpu| format!("CPU {cpu}: {}", of(Some(*cpu))));
    match (of(None).is_empty(), all.len() <= FEW) {
        (true, _) => String::new(),
        (_, true) => format!(
            "at the greatest length {}",
            few.collect::<Vec<_>>().join("; ")
        ),
        (_, false) => format!("the middle CPU at the greatest length: {}", of(None)),
    }
}

fn measured_quantities(test: &Test) -> Vec<Quantity> {
    let mut all = quantities(test);
    if all.is_empty() {
        all = crate::effects::quantities(test.is_noise()).to_vec();
        all.sort_unstable();
    }
    all
}

/// The middle of all runs at the greatest length.
fn at_greatest(test: &Test, of: Quantity) -> Option<f64> {
    let length = test.samples.iter().map(|sample| sample.length).max()?;
    let here = test.samples.iter().filter(|sample| sample.length == length);
    middle(here.filter_map(|sample| sample.figure(of)))
}

fn test_lines(test: &Test, look: &TerminalStyle, wide: bool) -> String {
    if let (true, Some(why)) = (test.effects.is_empty(), &test.failure) {
        return look.wrap("", &format!("{}: failed: {why}", test.name));
    }
    let mut out = look.wrap("", &format!("{}: {}", test.name, verdict(test.verdict)));
    out += &look.wrap("  ", &test_facts(test));
    let all = cpus(test);
    if test.samples.is_empty() {
        return out;
    }
    out += &look.wrap("  ", &middles(test));
    if test.effects.is_empty() {
        return out;
    }
    let rows = TerminalRows::choose(test, &all, look);
    let all = quantities(test);
    let whole = table(test, &rows, &all, wide);
    out += &if look.holds(&whole) {
        whole
    } else {
        // What is the difference of two other columns goes first.
        let some: Vec<Quantity> = all.into_iter().filter(|q| *q != Quantity::User).collect();
        table(test, &rows, &some, wide)
    };
    out += &legend_of(test);
    for text in detection_of(test) {
        out += &look.wrap("  ", &text);
    }
    let said = |one: &&CpuVerdict| one.verdict == AuditVerdict::Unequal || look.all;
    let said: Vec<&CpuVerdict> = test.verdicts.iter().filter(said).collect();
    let most = if look.all { usize::MAX } else { MOST_SENTENCES };
    for one in said.iter().take(most) {
        let text = format!(
            "CPU {}, {}: {}",
            one.cpu,
            quantity(one.quantity),
            one.because
        );
        out += &look.wrap("  ", &text);
    }
    if said.len() > most {
        out += &format!("  and {} more (-v)\n", said.len() - most);
    }
    out
}

/// The CPUs that have a row of their own, and those that share one.
struct TerminalRows {
    own: Vec<u32>,
    others: Vec<u32>,
}

impl TerminalRows {
    fn choose(test: &Test, all: &[u32], look: &TerminalStyle) -> Self {
        let worst = |cpu: u32| {
            let here = test.effects.iter().filter(|effect| effect.cpu == cpu);
            here.map(|effect| effect.pct.abs()).fold(0.0, f64::max)
        };
        let odd = |cpu: u32| match of_cpu(test, cpu).0 {
            AuditVerdict::Equal | AuditVerdict::NotResolvable => None,
            found => Some((found == AuditVerdict::Unequal, worst(cpu))),
        };
        Self::of(all, look, odd)
    }

    /// All, or where they are many the oddest, by whether it is certain and how
    /// much it is.
    fn of(all: &[u32], look: &TerminalStyle, odd: impl Fn(u32) -> Option<(bool, f64)>) -> Self {
        if look.all || all.len() <= MOST_ROWS {
            return Self {
                own: all.to_vec(),
                others: Vec::new(),
            };
        }
        let odd = all.iter().filter_map(|cpu| Some((*cpu, odd(*cpu)?)));
        let mut odd: Vec<(u32, (bool, f64))> = odd.collect();
        odd.sort_by(|(_, a), (_, b)| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
        odd.truncate(MOST_ODD);
        let own: Vec<u32> = odd.iter().map(|(cpu, _)| *cpu).collect();
        let others = all.iter().filter(|cpu| !own.contains(cpu));
        Self {
            others: others.copied().collect(),
            own,
        }
    }
}

/// One figure: the effect with its interval, from and to or half of it, and the
/// mark of its verdict. Half of it only where it lies about the effect, else both
/// ends are all there is room for.
pub(crate) fn figure(
    of: Quantity,
    pct: f64,
    interval: Option<(f64, f64)>,
    verdict: Option<AuditVerdict>,
    wide: bool,
) -> String {
    let mark = match verdict.map_or("", mark) {
        "" => " ",
        mark => mark,
    };
    // What cannot be told has no figure.
    if verdict == Some(AuditVerdict::NotResolvable) {
        return format!("- {mark}");
    }
    let end = |pct: f64| {
        if of.is_open(pct) {
            "?".to_owned()
        } else {
            signed(pct).trim().to_owned()
        }
    };
    match interval {
        None => format!("{} ±-   {mark}", signed(pct)),
        Some((low, high)) if wide => {
            format!("{} ({} to {}){mark}", signed(pct), end(low), end(high))
        }
        Some((low, high)) if of.is_open(low) && of.is_open(high) => {
            format!("{} ±?   {mark}", signed(pct))
        }
        Some((low, high)) => {
            let (above, below) = (high - pct, pct - low);
            // Ends that read alike would look like an exact figure.
            let is_narrow = end(low) == end(high);
            if is_narrow || above.min(below) >= EVEN * above.max(below) {
                format!("{} ±{}{mark}", signed(pct), size(above.max(below)))
            } else {
                format!("{}..{}{mark}", end(low), end(high))
            }
        }
    }
}

/// An interval lies about its effect if the shorter side has this part of the
/// longer one.
const EVEN: f64 = 0.7;

fn table(test: &Test, rows: &TerminalRows, quantities: &[Quantity], wide: bool) -> String {
    let verdicts = verdicts(test);
    let effect = |cpu: u32, q: Quantity| -> Option<&Effect> {
        let mut all = test.effects.iter();
        all.find(|effect| effect.cpu == cpu && effect.quantity == q)
    };
    let cell = |cpu: u32, q: Quantity| {
        effect(cpu, q).map_or_else(
            || "- ".to_owned(),
            |effect| {
                let found = verdicts.get(&(cpu, q)).map(|one| one.verdict);
                figure(q, effect.pct, Some(effect.together_pct), found, wide)
            },
        )
    };
    let pct = |cpu: u32, q: Quantity| effect(cpu, q).map(|effect| effect.pct);
    let word = |cpus: &[u32]| {
        let worst = cpus.iter().map(|cpu| of_cpu(test, *cpu));
        let worst = worst.max_by_key(|found| match found.0 {
            AuditVerdict::NotResolvable => AuditVerdict::Equal,
            other => other,
        });
        worst.map_or("", verdict_words)
    };
    by_cpu(rows, quantities, cell, pct, word)
}

/// A column for each quantity, and the verdict: a row for each CPU that has one,
/// and one for the others, with the range of their `pct`.
fn by_cpu(
    rows: &TerminalRows,
    quantities: &[Quantity],
    cell: impl Fn(u32, Quantity) -> String,
    pct: impl Fn(u32, Quantity) -> Option<f64>,
    word: impl Fn(&[u32]) -> &'static str,
) -> String {
    let of_quantity = |q: &Quantity| format!("{} {} ", quantity(*q), unit(*q));
    let header = std::iter::once("CPU".to_owned())
        .chain(quantities.iter().map(of_quantity))
        .chain(["verdict".to_owned()]);
    let mut table = plain(header);
    for cpu in &rows.own {
        let mut row = vec![cpu.to_string()];
        row.extend(quantities.iter().map(|q| cell(*cpu, *q)));
        row.push(word(&[*cpu]).to_owned());
        table.add_row(row);
    }
    if !rows.others.is_empty() {
        let mut row = vec![match (rows.others.len(), rows.own.is_empty()) {
            (n, true) => format!("all {n}"),
            (1, false) => "1 other".to_owned(),
            (n, false) => format!("{n} others"),
        }];
        let others = || rows.others.iter();
        row.extend(
            quantities
                .iter()
                .map(|q| span(others().filter_map(|cpu| pct(*cpu, *q)))),
        );
        row.push(word(&rows.others).to_owned());
        table.add_row(row);
    }
    lines(table)
}

/// Without the blanks at the end; figures to the right, the last column to the
/// left.
fn lines(mut table: Table) -> String {
    let columns = table.column_count();
    for (i, column) in table.column_iter_mut().enumerate() {
        if i + 1 < columns {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let all = table.lines();
    all.map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The marks that occur in the table of a test.
fn legend_of(test: &Test) -> String {
    let designed = Some(Nature::Designed);
    let beyond = if test.verdicts.iter().any(|one| one.nature == designed) {
        "* beyond chance (by design: no alarm)"
    } else {
        "* beyond chance"
    };
    legend(beyond, test.verdicts.iter().map(|one| one.verdict), None)
}

/// The marks of these verdicts, and one more where it occurs.
fn legend(
    beyond: &str,
    verdicts: impl Iterator<Item = AuditVerdict>,
    more: Option<&str>,
) -> String {
    let found: BTreeSet<AuditVerdict> = verdicts.collect();
    let marks = [
        (AuditVerdict::Unequal, beyond),
        (AuditVerdict::Undecided, "? undecided"),
        (AuditVerdict::NotResolvable, "~ not resolvable here"),
    ];
    let marks = marks
        .into_iter()
        .filter(|(verdict, _)| found.contains(verdict));
    let all: Vec<&str> = marks.map(|(_, mark)| mark).chain(more).collect();
    if all.is_empty() {
        String::new()
    } else {
        format!("  {}\n", all.join("   "))
    }
}

fn suspect_lines(number: usize, suspect: &Suspect, look: &TerminalStyle) -> String {
    let explains = suspect.explains_pct.map_or_else(String::new, |pct| {
        format!("; would explain {} %", size(pct))
    });
    let seen = if suspect.tests.is_empty() {
        String::new()
    } else {
        format!("; seen in {}", suspect.tests.join(", "))
    };
    let who = format!(
        "{number}. CPU {}, {}: {}",
        suspect.cpu, suspect.kind, suspect.who
    );
    let mut out = look.wrap("  ", &who);
    out += &look.wrap("     ", &format!("{}{explains}{seen}", suspect.evidence));
    out += &look.wrap("     ", &format!("remedy: {}", suspect.remedy));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Maker, eight};
    use crate::model::LeftOut;

    fn widest(text: &str) -> usize {
        text.lines()
            .map(|line| line.chars().count())
            .max()
            .unwrap_or(0)
    }

    /// The usual 80 columns are in the tests of the command line.
    #[test]
    fn a_wide_terminal_shows_both_ends() {
        let mut found = eight();
        found.left_out = vec![LeftOut {
            cpu: 9,
            why: "offline".to_owned(),
        }];
        let look = TerminalStyle {
            columns: 140,
            all: false,
        };
        let text = audit(&found, &look);
        assert!(widest(&text) <= 140, "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn of_many_cpus_the_odd_ones_are_named_and_the_rest_counted() {
        let many = Maker::eight().cpus(128).odd(Some(37)).make();
        let text = audit(&many, &TerminalStyle::default());
        assert!(widest(&text) <= COLUMNS, "{text}");
        insta::assert_snapshot!(text);
        let all = TerminalStyle {
            all: true,
            ..TerminalStyle::default()
        };
        let text = audit(&many, &all);
        assert!(!text.contains("others") && text.lines().count() > 4 * 128);
    }

    #[test]
    fn all_kinds_of_audits_fit() {
        let mut empty = eight();
        empty.tests.clear();
        let mut failed = eight();
        failed.tests[0].effects.clear();
        failed.tests[0].failure = Some("no room for \u{1b}[31m 1 GiB".to_owned());
        let mut huge = eight();
        for effect in &mut huge.tests[1].effects {
            effect.pct = 1e300;
            effect.together_pct = (-1e300, f64::MAX);
        }
        let undecided = Maker::eight().scatter(0.2).make();
        for found in [
            &empty,
            &failed,
            &huge,
            &undecided,
            &Maker::eight().cpus(1).make(),
        ] {
            let text = audit(found, &TerminalStyle::default());
            assert!(widest(&text) <= COLUMNS, "{text}");
            assert!(!text.contains('\u{1b}') && !text.contains("inf") && !text.contains("NaN"));
        }
        assert!(audit(&undecided, &TerminalStyle::default()).contains("? undecided"));
        assert!(audit(&failed, &TerminalStyle::default()).contains("compute: failed: no room"));
    }
}
