// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An audit as JUnit XML, as CI systems read it: a suite for each test, a case for
//! each CPU. Unequal is a failure; what is undecided or cannot be resolved is
//! skipped with the reason; what the machine's build explains passes.
//!
//! The shape is that of the JUnit task of Apache Ant, which Jenkins, GitLab and
//! others read.

use std::fmt::Write as _;

use crate::model::{Audit, AuditVerdict, Nature, Test};
use crate::verdict::alarms;
use sandbag_ui::text::visible;

use crate::report::words::{
    confidence, cpus, detection, limits, of_cpu, size, summary, to_second, verdict, verdict_words,
};

/// The result of a case.
enum JunitOutcome {
    Passed,
    /// Its type, and the reason.
    Failed(&'static str, String),
    Skipped(String),
}

/// A case with its name, and the CPU unless nothing was measured.
struct JunitCase {
    name: String,
    cpu: Option<u32>,
    outcome: JunitOutcome,
}

/// Writes elements, indented by two blanks.
struct Xml {
    text: String,
    depth: usize,
}

impl Xml {
    fn start(&mut self, name: &str, attributes: &[(&str, &str)], end: &str) {
        let _ = write!(self.text, "\n{:1$}<{name}", "", 2 * self.depth);
        for (name, value) in attributes {
            let _ = write!(self.text, " {name}=\"{}\"", escaped(&visible(value)));
        }
        self.text += end;
    }

    fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.start(name, attributes, "/>");
    }

    fn element(&mut self, name: &str, attributes: &[(&str, &str)], inside: impl FnOnce(&mut Self)) {
        self.start(name, attributes, ">");
        self.depth += 1;
        inside(self);
        self.depth -= 1;
        let _ = write!(self.text, "\n{:1$}</{name}>", "", 2 * self.depth);
    }
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '&' => safe += "&amp;",
            '\'' => safe += "&apos;",
            '"' => safe += "&quot;",
            c => safe.push(c),
        }
    }
    safe
}

pub fn junit(audit: &Audit) -> String {
    let tests = audit.tests.iter();
    let suites: Vec<(&Test, Vec<JunitCase>)> =
        tests.map(|test| (test, cases(audit, test))).collect();
    let mut xml = Xml {
        text: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>".to_owned(),
        depth: 0,
    };
    let counts = counts(suites.iter().flat_map(|(_, cases)| cases));
    let mut attributes = vec![("name", "sandbag audit")];
    attributes.extend(counts.iter().map(|(name, n)| (*name, n.as_str())));
    let time = seconds(audit.took_ns);
    attributes.push(("time", &time));
    xml.element("testsuites", &attributes, |xml| {
        for (test, cases) in &suites {
            suite(audit, test, cases, xml);
        }
    });
    xml.text + "\n"
}

fn counts<'a>(all: impl Iterator<Item = &'a JunitCase> + Clone) -> [(&'static str, String); 4] {
    let count = |of: fn(&JunitOutcome) -> bool| {
        let found = all.clone().filter(|case| of(&case.outcome));
        found.count().to_string()
    };
    [
        ("tests", count(|_| true)),
        (
            "failures",
            count(|one| matches!(one, JunitOutcome::Failed(..))),
        ),
        ("errors", "0".to_owned()),
        (
            "skipped",
            count(|one| matches!(one, JunitOutcome::Skipped(_))),
        ),
    ]
}

fn seconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}

/// Time of the test's runs, on one CPU or on all.
fn run_time(test: &Test, on: impl Fn(u32) -> bool) -> String {
    let runs = test.samples.iter().filter(|run| on(run.cpu));
    seconds(runs.fold(0, |sum, run| sum.saturating_add(run.elapsed_ns)))
}

fn cases(audit: &Audit, test: &Test) -> Vec<JunitCase> {
    let all = cpus(test);
    if all.is_empty() {
        let why = test.failure.as_deref().unwrap_or("nothing was measured");
        return vec![JunitCase {
            name: test.name.clone(),
            cpu: None,
            outcome: JunitOutcome::Skipped(why.to_owned()),
        }];
    }
    let case = |cpu| JunitCase {
        name: format!("CPU {cpu}"),
        cpu: Some(cpu),
        outcome: outcome(audit, test, cpu),
    };
    let lost = audit.left_out.iter().filter(|_| audit.incomplete);
    let lost = lost.map(|out| JunitCase {
        // One that was lost on the way has a case of its own.
        name: if all.contains(&out.cpu) {
            format!("rest of CPU {}", out.cpu)
        } else {
            format!("CPU {}", out.cpu)
        },
        cpu: None,
        outcome: JunitOutcome::Skipped(out.why.clone()),
    });
    let rest = test.failure.iter().map(|why| JunitCase {
        name: format!("rest of {}", test.name),
        cpu: None,
        outcome: JunitOutcome::Skipped(why.clone()),
    });
    let done = all.iter().copied().map(case);
    done.chain(lost).chain(rest).collect()
}

fn outcome(audit: &Audit, test: &Test, cpu: u32) -> JunitOutcome {
    let found = of_cpu(test, cpu);
    let reasons: Vec<String> = test
        .verdicts
        .iter()
        .filter(|one| one.cpu == cpu && one.verdict == found.0)
        .map(|one| format!("{}: {}", one.quantity.word(), one.because))
        .collect();
    let reasons = format!(
        "CPU {cpu} in {}: {}; {}",
        test.name,
        verdict_words(found),
        reasons.join("; ")
    );
    match found.0 {
        _ if alarms(found.0, found.1, audit.design.contention_fails) => {
            let suspects = audit
                .suspects
                .iter()
                .filter(|suspect| suspect.cpu == cpu && suspect.tests.contains(&test.name));
            let suspects = suspects.map(|suspect| {
                format!(
                    "\nsuspect: {}: {}; remedy: {}",
                    suspect.who, suspect.evidence, suspect.remedy
                )
            });
            JunitOutcome::Failed(
                verdict_words(found),
                reasons + &suspects.collect::<String>(),
            )
        }
        AuditVerdict::Undecided | AuditVerdict::NotResolvable => JunitOutcome::Skipped(reasons),
        AuditVerdict::Unequal if found.1 == Some(Nature::Contention) => {
            JunitOutcome::Skipped(reasons)
        }
        _ => JunitOutcome::Passed,
    }
}

fn suite(audit: &Audit, test: &Test, cases: &[JunitCase], xml: &mut Xml) {
    let fact = |name: &str| audit.machine.iter().find(|(n, _)| n == name);
    let host = fact("host").map_or("localhost", |(_, value)| value);
    let begun = to_second(&audit.begun);
    let (counts, time) = (counts(cases.iter()), run_time(test, |_| true));
    let mut attributes = vec![("name", test.name.as_str())];
    attributes.extend(counts.iter().map(|(name, n)| (*name, n.as_str())));
    attributes.push(("time", &time));
    // The schema has no time zones.
    attributes.push(("timestamp", begun.trim_end_matches('Z')));
    attributes.push(("hostname", host));
    xml.element("testsuite", &attributes, |xml| {
        xml.element("properties", &[], |xml| {
            for (name, value) in properties(audit, test) {
                xml.empty("property", &[("name", &name), ("value", &value)]);
            }
        });
        for one in cases {
            case(test, one, xml);
        }
    });
}

fn properties(audit: &Audit, test: &Test) -> Vec<(String, String)> {
    let design = &audit.design;
    let facts = audit.machine.iter();
    let mut all: Vec<(String, String)> = facts
        .map(|(name, value)| (format!("machine.{name}"), value.clone()))
        .collect();
    let mut add = |name: &str, value: String| all.push((name.to_owned(), value));
    add("seed", design.seed.to_string());
    add("confidence", confidence(design.confidence));
    add("tolerance", format!("{} %", design.tolerance_pct));
    add("accounting", design.accounting.clone());
    let verdict = verdict(audit.verdict);
    add("verdict", format!("{verdict}: {}", summary(audit)));
    add("detection limit", detection(audit));
    for (q, pct) in limits(test) {
        let limit = pct.map(|pct| format!("{} {}", size(pct), q.unit()));
        let name = format!("detection limit {}", q.word());
        add(&name, limit.unwrap_or_else(|| "none".to_owned()));
    }
    if let Some(why) = &test.failure {
        add("cut short", why.clone());
    }
    all
}

fn case(test: &Test, case: &JunitCase, xml: &mut Xml) {
    let class = format!("sandbag.audit.{}", test.name);
    let time = run_time(test, |cpu| Some(cpu) == case.cpu);
    let attributes = [
        ("name", case.name.as_str()),
        ("classname", &class),
        ("time", &time),
    ];
    match &case.outcome {
        JunitOutcome::Passed => xml.empty("testcase", &attributes),
        JunitOutcome::Failed(kind, text) => xml.element("testcase", &attributes, |xml| {
            let first = text.lines().next().unwrap_or("");
            xml.start("failure", &[("message", first), ("type", kind)], ">");
            let lines: Vec<String> = text.lines().map(visible).collect();
            let _ = write!(xml.text, "{}</failure>", escaped(&lines.join("\n")));
        }),
        JunitOutcome::Skipped(text) => xml.element("testcase", &attributes, |xml| {
            xml.empty("skipped", &[("message", text)]);
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Maker, eight};

    #[test]
    fn a_case_for_each_cpu_of_each_test() {
        let text = junit(&eight());
        let count = |part: &str| text.matches(part).count();
        assert_eq!((count("<testcase "), count("<failure ")), (4 * 8, 3));
    }

    #[test]
    fn a_cpu_that_was_lost_on_the_way_has_a_case_and_one_for_the_rest() {
        let mut audit = eight();
        audit.incomplete = true;
        for cpu in [0, 9] {
            audit.left_out.push(crate::model::LeftOut {
                cpu,
                why: "lost on the way: offline".to_owned(),
            });
        }
        let text = junit(&audit);
        let count = |name: &str| text.matches(&format!("name=\"{name}\"")).count();
        assert_eq!(["CPU 0", "rest of CPU 0", "CPU 9"].map(count), [4; 3]);
    }

    /// One of each outcome, with text that is no XML.
    #[test]
    fn a_document_looks_like_this() {
        let mut audit = Maker::eight().cpus(3).make();
        audit.tests.truncate(3);
        let [first, second, third] = &mut audit.tests[..] else {
            panic!("{:?}", audit.tests);
        };
        first.name = "<a> & \"b\" 'c' \u{1b}\u{0}".to_owned();
        first.verdicts[0].verdict = AuditVerdict::Undecided;
        for one in &mut second.verdicts {
            one.because = "]]> <&> \u{7}".to_owned();
        }
        third.samples.clear();
        third.effects.clear();
        third.verdicts.clear();
        third.failure = Some("/dev/null is missing".to_owned());
        audit.machine = vec![("host".to_owned(), "</testsuites>".to_owned())];
        insta::assert_snapshot!(junit(&audit));
    }
}
