// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user reads on the terminal: the verdict, a table for each test, suspects with
//! their remedies, and what would have been seen.

mod comparison;
mod style;
mod table;

use sandbag_ui::quantity::time;
use sandbag_ui::text::clock;

use super::figures::FigureTable;
use super::words::{
    count_cpus, cpus, detection, detection_of, quantities, size, summary, to_second, verdict,
};
use crate::effects::median;
use crate::model::{Audit, AuditVerdict, CpuVerdict, Quantity, Suspect, Test, unique};
use table::{are_wide, table_lines};

pub use comparison::comparison;
pub use style::{COLUMNS, TerminalStyle};

/// Sentences about unequal CPUs, unless all are wanted.
const MOST_SENTENCES: usize = 8;

/// An audit, ending in a newline, without colours.
pub fn audit(audit: &Audit, look: &TerminalStyle) -> String {
    let verdict = verdict(audit.verdict);
    let mut out = look.wrap("", &format!("{verdict}: {}", summary(audit)));
    out += &look.wrap("", &heading(audit));
    let tables: Vec<FigureTable> = audit.tests.iter().map(FigureTable::of_test).collect();
    let wide = are_wide(&tables, look);
    for (test, figures) in audit.tests.iter().zip(&tables) {
        out.push('\n');
        out += &test_lines(test, figures, look, wide);
    }
    out.push('\n');
    if !audit.suspects.is_empty() {
        out += "Suspects, likeliest first\n";
        for (i, suspect) in audit.suspects.iter().enumerate() {
            out += &suspect_lines(i + 1, suspect, look);
        }
        out.push('\n');
    }
    let mut texts = vec![detection(audit)];
    let left = audit.left_out.iter();
    texts.extend(left.map(|left| format!("left out: CPU {}, {}", left.cpu, left.why)));
    let failed = audit.tests.iter().filter(|test| !test.effects.is_empty());
    texts.extend(failed.filter_map(|test| {
        let why = test.failure.as_ref()?;
        Some(format!("test {}: {why}", test.name))
    }));
    texts.extend(audit.remarks.iter().map(|remark| format!("note: {remark}")));
    out + &texts
        .iter()
        .map(|text| look.wrap("", text))
        .collect::<String>()
}

fn heading(audit: &Audit) -> String {
    let fact = |name: &str| audit.machine.iter().find(|(n, _)| n == name);
    let fact = |name: &str| fact(name).map(|(_, value)| value.clone());
    let mut parts = vec![format!("audit of {}", count_cpus(audit.cpus.len()))];
    parts.extend(fact("CPU"));
    parts.extend(fact("kernel").map(|release| format!("Linux {release}")));
    parts.push(to_second(&audit.begun));
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

/// Up to this number of CPUs, the times of each are shown, not those of the middle one.
const FEW: usize = 4;

/// The median times of the CPUs in words; empty without figures.
pub(crate) fn middles(test: &Test) -> String {
    let quantities = match quantities(test) {
        none if none.is_empty() => {
            unique(crate::effects::quantities(test.is_noise()).iter().copied())
        }
        all => all,
    };
    let of = |cpu: Option<u32>| -> String {
        let words = |q: &Quantity| {
            let here = test.effects.iter().filter(|effect| effect.quantity == *q);
            let here = here.filter(|effect| cpu.is_none_or(|cpu| cpu == effect.cpu));
            // A single CPU has figures and no effects.
            let value = median(here.map(|effect| effect.middle));
            let value = value.or_else(|| at_greatest(test, *q))?;
            Some(match q {
                share if share.is_share() => format!("{} {value:.3} %", q.word()),
                _ => format!("{} {}", q.word(), time(value)),
            })
        };
        let all: Vec<String> = quantities.iter().filter_map(words).collect();
        all.join(", ")
    };
    let (cpus, all) = (cpus(test), of(None));
    if all.is_empty() || cpus.len() > FEW {
        let start = "the middle CPU at the greatest length: ";
        return if all.is_empty() {
            all
        } else {
            format!("{start}{all}")
        };
    }
    let few = cpus
        .iter()
        .map(|cpu| format!("CPU {cpu}: {}", of(Some(*cpu))));
    let few: Vec<String> = few.collect();
    format!("at the greatest length {}", few.join("; "))
}

/// The median of all runs at the greatest length.
fn at_greatest(test: &Test, of: Quantity) -> Option<f64> {
    let length = test.samples.iter().map(|sample| sample.length).max()?;
    let here = test.samples.iter().filter(|sample| sample.length == length);
    median(here.filter_map(|sample| sample.figure(of)))
}

fn test_lines(test: &Test, figures: &FigureTable, look: &TerminalStyle, wide: bool) -> String {
    if let (true, Some(why)) = (test.effects.is_empty(), &test.failure) {
        return look.wrap("", &format!("{}: failed: {why}", test.name));
    }
    let mut out = look.wrap("", &format!("{}: {}", test.name, verdict(test.verdict)));
    out += &look.wrap("  ", &test_facts(test));
    if test.samples.is_empty() {
        return out;
    }
    out += &look.wrap("  ", &middles(test));
    if test.effects.is_empty() {
        return out;
    }
    out += &table_lines(figures, look, wide);
    for text in detection_of(test) {
        out += &look.wrap("  ", &text);
    }
    let is_shown = |one: &&CpuVerdict| one.verdict == AuditVerdict::Unequal || look.all;
    let shown: Vec<&CpuVerdict> = test.verdicts.iter().filter(is_shown).collect();
    let most = if look.all { usize::MAX } else { MOST_SENTENCES };
    for one in shown.iter().take(most) {
        let (cpu, quantity) = (one.cpu, one.quantity.word());
        out += &look.wrap("  ", &format!("CPU {cpu}, {quantity}: {}", one.because));
    }
    if shown.len() > most {
        out += &format!("  and {} more (-v)\n", shown.len() - most);
    }
    out
}

fn suspect_lines(number: usize, suspect: &Suspect, look: &TerminalStyle) -> String {
    let Suspect { cpu, kind, who, .. } = suspect;
    let mut evidence = suspect.evidence.clone();
    if let Some(pct) = suspect.explains_pct {
        evidence += &format!("; would explain {} %", size(pct));
    }
    if !suspect.tests.is_empty() {
        evidence += &format!("; seen in {}", suspect.tests.join(", "));
    }
    look.wrap("  ", &format!("{number}. CPU {cpu}, {kind}: {who}"))
        + &look.wrap("     ", &evidence)
        + &look.wrap("     ", &format!("remedy: {}", suspect.remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Maker, eight};
    use crate::model::{AuditVerdict, LeftOut};

    fn widest(text: &str) -> usize {
        let widths = text.lines().map(|line| line.chars().count());
        widths.max().unwrap_or(0)
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
    fn what_is_open_of_a_cpu_that_was_lost_is_not_for_more_time() {
        let mut found = Maker::eight().odd(None).make();
        let verdicts = found.tests.iter_mut().flat_map(|test| &mut test.verdicts);
        for one in verdicts.filter(|one| one.cpu == 3) {
            one.verdict = AuditVerdict::Undecided;
        }
        for cpu in [3, 9] {
            found.left_out.push(LeftOut {
                cpu,
                why: "lost on the way: offline".to_owned(),
            });
        }
        found.incomplete = true;
        crate::verdict::again(&mut found, true);
        let said = crate::report::words::summary(&found);
        let expected = "nothing is known of what was not tested: CPU 3 (after it was lost on the \
                        way: offline), CPU 9 (lost on the way: offline)";
        assert_eq!(said, expected);
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
        let one = Maker::eight().cpus(1).make();
        for found in [&empty, &failed, &huge, &undecided, &one] {
            let text = audit(found, &TerminalStyle::default());
            assert!(widest(&text) <= COLUMNS, "{text}");
            assert!(!text.contains('\u{1b}') && !text.contains("inf") && !text.contains("NaN"));
        }
        assert!(audit(&undecided, &TerminalStyle::default()).contains("? undecided"));
        assert!(audit(&failed, &TerminalStyle::default()).contains("compute: failed: no room"));
    }
}
