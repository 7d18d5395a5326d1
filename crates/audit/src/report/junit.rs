// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An audit as JUnit XML, as CI systems read it: a suite for each test, a case for
//! each CPU. Unequal is a failure; what is undecided or cannot be resolved is
//! skipped, and says why; what the machine's build explains passes.
//!
//! The shape is that of the JUnit task of Apache Ant, which Jenkins, GitLab and
//! others read.

use std::io;

use crate::model::{Audit, AuditVerdict, Nature, Test};
use crate::verdict::alarms;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use sandbag_ui::text::visible;

use crate::report::words::{
    capitalize, confidence, cpus, detection, limits, of_cpu, quantity, size, summary, unit,
    verdict, verdict_words,
};

/// What becomes of a case.
enum JunitOutcome {
    Passed,
    /// Its type, and what is said of it.
    Failed(&'static str, String),
    Skipped(String),
}

/// The document.
#[must_use]
pub fn junit(audit: &Audit) -> String {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    // Nothing fails in memory.
    let _ = document(audit, &mut writer);
    let mut text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    text.push('\n');
    text
}

fn document(audit: &Audit, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let suites: Vec<(&Test, Vec<(String, JunitOutcome)>)> = audit
        .tests
        .iter()
        .map(|test| (test, cases(audit, test)))
        .collect();
    let all = || suites.iter().flat_map(|(_, cases)| cases);
    writer
        .create_element("testsuites")
        .with_attribute(("name", "sandbag audit"))
        .with_attributes(counts(all()).iter().map(|(name, n)| (*name, n.as_str())))
        .with_attribute(("time", seconds(audit.took_ns).as_str()))
        .write_inner_content(|writer| {
            for (test, cases) in &suites {
                suite(audit, test, cases, writer)?;
            }
            Ok(())
        })?;
    Ok(())
}

fn counts<'a>(
    cases: impl Iterator<Item = &'a (String, JunitOutcome)> + Clone,
) -> [(&'static str, String); 4] {
    let failed = cases
        .clone()
        .filter(|(_, one)| matches!(one, JunitOutcome::Failed(..)));
    let skipped = cases
        .clone()
        .filter(|(_, one)| matches!(one, JunitOutcome::Skipped(_)));
    [
        ("tests", cases.clone().count().to_string()),
        ("failures", failed.count().to_string()),
        ("errors", "0".to_owned()),
        ("skipped", skipped.count().to_string()),
    ]
}

fn seconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}

/// The case of a CPU, by its name.
fn cases(audit: &Audit, test: &Test) -> Vec<(String, JunitOutcome)> {
    let all = cpus(test);
    if all.is_empty() {
        let why = test.failure.clone();
        let why = why.unwrap_or_else(|| "nothing was measured".to_owned());
        return vec![(test.name.clone(), JunitOutcome::Skipped(why))];
    }
    all.into_iter()
        .map(|cpu| (format!("CPU {cpu}"), outcome(audit, test, cpu)))
        .collect()
}

fn outcome(audit: &Audit, test: &Test, cpu: u32) -> JunitOutcome {
    let found = of_cpu(test, cpu);
    let said: Vec<String> = test
        .verdicts
        .iter()
        .filter(|one| one.cpu == cpu && one.verdict == found.0)
        .map(|one| format!("{}: {}", quantity(one.quantity), one.because))
        .collect();
    let said = format!(
        "CPU {cpu} in {}: {}; {}",
        test.name,
        verdict_words(found),
        said.join("; ")
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
            JunitOutcome::Failed(verdict_words(found), said + &suspects.collect::<String>())
        }
        AuditVerdict::Undecided | AuditVerdict::NotResolvable => JunitOutcome::Skipped(said),
        AuditVerdict::Unequal if found.1 == Some(Nature::Contention) => JunitOutcome::Skipped(said),
        _ => JunitOutcome::Passed,
    }
}

fn suite(
    audit: &Audit,
    test: &Test,
    cases: &[(String, JunitOutcome)],
    writer: &mut Writer<Vec<u8>>,
) -> io::Result<()> {
    let time: u64 = test
        .samples
        .iter()
        .fold(0, |sum, one| sum.saturating_add(one.elapsed_ns));
    let fact = |name: &str| audit.machine.iter().find(|(n, _)| n == name);
    let host = fact("host").map_or("localhost", |(_, value)| value.as_str());
    let name = visible(&test.name);
    writer
        .create_element("testsuite")
        .with_attribute(("name", name.as_str()))
        .with_attributes(
            counts(cases.iter())
                .iter()
                .map(|(name, n)| (*name, n.as_str())),
        )
        .with_attribute(("time", seconds(time).as_str()))
        // The schema knows no zones.
        .with_attribute((
            "timestamp",
            visible(capitalize(&audit.begun).trim_end_matches('Z')).as_str(),
        ))
        .with_attribute(("hostname", visible(host).as_str()))
        .write_inner_content(|writer| {
            properties(audit, test, writer)?;
            for (name, outcome) in cases {
                case(test, name, outcome, writer)?;
            }
            Ok(())
        })?;
    Ok(())
}

fn properties(audit: &Audit, test: &Test, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
    let design = &audit.design;
    let mut all: Vec<(String, String)> = audit
        .machine
        .iter()
        .map(|(name, value)| (format!("machine.{name}"), value.clone()))
        .collect();
    let mut add = |name: &str, value: String| all.push((name.to_owned(), value));
    add("seed", design.seed.to_string());
    add("confidence", confidence(design.confidence));
    add("tolerance", format!("{} %", design.tolerance_pct));
    add("accounting", design.accounting.clone());
    add(
        "verdict",
        format!("{}: {}", verdict(audit.verdict), summary(audit)),
    );
    add("detection limit", detection(audit));
    for (q, pct) in limits(test) {
        add(
            &format!("detection limit {}", quantity(q)),
            pct.map_or("none".to_owned(), |pct| {
                format!("{} {}", size(pct), unit(q))
            }),
        );
    }
    if let Some(why) = &test.failure {
        add("cut short", why.clone());
    }
    writer
        .create_element("properties")
        .write_inner_content(|writer| {
            for (name, value) in &all {
                writer
                    .create_element("property")
                    .with_attribute(("name", visible(name).as_str()))
                    .with_attribute(("value", visible(value).as_str()))
                    .write_empty()?;
            }
            Ok(())
        })?;
    Ok(())
}

fn case(
    test: &Test,
    name: &str,
    outcome: &JunitOutcome,
    writer: &mut Writer<Vec<u8>>,
) -> io::Result<()> {
    let cpu = name
        .strip_prefix("CPU ")
        .and_then(|cpu| cpu.parse::<u32>().ok());
    let here = test.samples.iter().filter(|sample| Some(sample.cpu) == cpu);
    let time: u64 = here.fold(0, |sum, one| sum.saturating_add(one.elapsed_ns));
    let name = visible(name);
    let class = format!("sandbag.audit.{}", visible(&test.name));
    let element = writer
        .create_element("testcase")
        .with_attribute(("name", name.as_str()))
        .with_attribute(("classname", class.as_str()))
        .with_attribute(("time", seconds(time).as_str()));
    match outcome {
        JunitOutcome::Passed => element.write_empty()?,
        JunitOutcome::Failed(kind, text) => element.write_inner_content(|writer| {
            let lines: Vec<String> = text.lines().map(visible).collect();
            writer
                .create_element("failure")
                .with_attribute(("message", lines.first().map_or("", String::as_str)))
                .with_attribute(("type", *kind))
                .write_text_content(BytesText::new(&lines.join("\n")))?;
            Ok(())
        })?,
        JunitOutcome::Skipped(text) => element.write_inner_content(|writer| {
            writer
                .create_element("skipped")
                .with_attribute(("message", visible(text).as_str()))
                .write_empty()?;
            Ok(())
        })?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Maker, eight};
    use quick_xml::Reader;

    /// What stands in what, and which attributes there must be, after the schema
    /// of the JUnit task of Ant.
    fn check(text: &str) -> (usize, usize, usize) {
        let mut reader = Reader::from_str(text);
        let (mut path, mut found) = (Vec::<String>::new(), (0, 0, 0));
        loop {
            let event = reader.read_event().expect(text);
            let (start, is_empty) = match &event {
                Event::Start(start) => (start, false),
                Event::Empty(start) => (start, true),
                Event::End(_) => {
                    path.pop();
                    continue;
                }
                Event::Eof => break,
                _ => continue,
            };
            let name = String::from_utf8(start.name().as_ref().to_vec()).unwrap();
            let (parent, needed): (&str, &[&str]) = match name.as_str() {
                "testsuites" => ("", &["tests", "failures"]),
                "testsuite" => (
                    "testsuites",
                    &[
                        "name",
                        "tests",
                        "failures",
                        "errors",
                        "skipped",
                        "time",
                        "timestamp",
                        "hostname",
                    ],
                ),
                "properties" => ("testsuite", &[]),
                "property" => ("properties", &["name", "value"]),
                "testcase" => ("testsuite", &["name", "classname", "time"]),
                "failure" => ("testcase", &["message", "type"]),
                "skipped" => ("testcase", &["message"]),
                other => panic!("{other} is no element of JUnit"),
            };
            assert_eq!(path.last().map_or("", String::as_str), parent, "{name}");
            for attribute in needed {
                let value = start.try_get_attribute(attribute).unwrap();
                let value = value.unwrap_or_else(|| panic!("{name} has no {attribute}"));
                let value = value.unescape_value().unwrap();
                if ["tests", "failures", "errors", "skipped"].contains(attribute) {
                    value.parse::<u32>().unwrap();
                }
                if *attribute == "time" {
                    value.parse::<f64>().unwrap();
                }
            }
            match name.as_str() {
                "testcase" => found.0 += 1,
                "failure" => found.1 += 1,
                "skipped" => found.2 += 1,
                _ => {}
            }
            if !is_empty {
                path.push(name);
            }
        }
        assert!(path.is_empty());
        found
    }

    #[test]
    fn a_case_for_each_cpu_of_each_test() {
        let text = junit(&eight());
        assert_eq!(check(&text), (4 * 8, 3, 0));
        assert!(text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name"));
        assert!(
            text.contains("<testsuite name=\"syscall\" tests=\"8\" failures=\"1\""),
            "{text}"
        );
        assert!(
            text.contains("suspect: interrupt 36") && text.contains("name=\"seed\" value=\"1\"")
        );
    }

    #[test]
    fn what_is_undecided_is_skipped() {
        let (_, failed, skipped) = check(&junit(&Maker::eight().odd(None).scatter(0.05).make()));
        assert!(failed == 0 && skipped > 8);
        let mut failed = eight();
        failed.tests[2].samples.clear();
        failed.tests[2].effects.clear();
        failed.tests[2].verdicts.clear();
        failed.tests[2].failure = Some("/dev/null is missing".to_owned());
        let text = junit(&failed);
        assert_eq!(check(&text), (3 * 8 + 1, 2, 1));
        assert!(
            text.contains("<skipped message=\"/dev/null is missing\"/>"),
            "{text}"
        );
    }

    #[test]
    fn no_text_can_become_markup_or_no_xml_at_all() {
        let mut audit = eight();
        audit.tests[0].name = "<a> & \"b\" \u{1b}\u{0}".to_owned();
        audit.machine[0].1 = "</testsuites>".to_owned();
        for one in &mut audit.tests[1].verdicts {
            one.because = "]]> <&> \u{7}".to_owned();
        }
        let text = junit(&audit);
        check(&text);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    }
}
