// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `audit`: made-up audits shown, written and compared; bad files; and what of a
//! run is decided before anything is measured.

use predicates::prelude::*;
use predicates::str::{contains, starts_with};
use sandbag_audit::fixture::{Maker, eight};
use sandbag_audit::model::Audit;

use crate::dir::Dir;
use crate::page::readable;

fn json(audit: &Audit) -> String {
    serde_json::to_string(audit).unwrap()
}

/// One with CPU 0 odd, one whose CPUs are equal, one that says nothing, and one
/// under load.
fn made() -> Dir {
    let equal = Maker::eight().odd(None);
    Dir::new()
        .with("odd.json", json(&eight()))
        .with("equal.json", json(&equal.make()))
        .with("wide.json", json(&equal.clone().scatter(0.05).make()))
        .with("again.json", json(&equal.clone().seed(2).make()))
        .with("loaded.json", json(&equal.slower(1.08).seed(3).make()))
}

#[test]
fn an_audit_is_shown_with_suspects_and_what_would_have_been_seen() {
    assert_snapshot!(made().transcript(&[
        "audit show odd.json",
        "audit show -v equal.json",
        "audit show wide.json",
    ]));
    let dir = made();
    let shown = dir.transcript(&["audit show odd.json"]);
    let shown = shown.split_once('\n').unwrap().1.to_owned();
    for line in ["show odd.json", "audit show - < odd.json"] {
        assert_eq!(dir.transcript(&[line]).split_once('\n').unwrap().1, shown);
    }
}

#[test]
fn the_verdict_is_the_exit_code_where_it_is_asked_for() {
    let dir = made();
    for (file, code) in [("equal.json", 0), ("odd.json", 3), ("wide.json", 4)] {
        dir.run(&["audit", "show", file]).code(0);
        dir.run(&["audit", "show", "--strict", file]).code(code);
    }
}

#[test]
fn an_audit_is_written_in_every_form() {
    let dir = made();
    let show = |more: &[&str]| dir.run(&[&["audit", "show", "odd.json"], more].concat());
    let found = show(&["--json"]).success();
    assert_eq!(
        serde_json::from_slice::<Audit>(&found.get_output().stdout).unwrap(),
        eight()
    );
    assert_snapshot!(dir.transcript(&[
        "audit show odd.json --format junit",
        "audit show odd.json --html page.html -q",
    ]));
    assert_snapshot!("page", readable(&dir.read("page.html")));
    show(&["-o", "-", "--to", "csv"])
        .success()
        .stdout(starts_with("kind,test,cpu,").and(contains("\neffect,noise,7,")));
    show(&["--html", "-"])
        .success()
        .stdout(dir.read("page.html"));
    show(&["--html", "-", "-o", "-", "--to", "csv"])
        .code(2)
        .stderr(contains("one form"));
    show(&["--html", "no/where/page.html"])
        .code(2)
        .stderr(contains("no/where"));
}

#[test]
fn a_page_that_exists_is_refused() {
    let dir = made().with("old.html", "mine");
    for words in ["show odd.json", "compare odd.json odd.json"] {
        dir.line(&format!("audit {words} --html old.html"))
            .code(2)
            .stderr(contains("old.html: it exists already").and(contains("--force")))
            .stderr(contains("option").not());
        assert_eq!(dir.read("old.html"), "mine");
    }
}

#[test]
fn two_audits_are_compared() {
    let dir = made();
    assert_snapshot!(dir.transcript(&[
        "audit compare equal.json again.json --tolerance 2%",
        "audit compare equal.json loaded.json --html both.html",
        "audit compare equal.json wide.json",
        "audit compare equal.json odd.json",
    ]));
    assert_snapshot!("page_of_two", readable(&dir.read("both.html")));
    let compare = |words: &str| dir.line(&format!("audit compare {words}"));
    let found = compare("equal.json odd.json --json").code(3);
    let found: serde_json::Value = serde_json::from_slice(&found.get_output().stdout).unwrap();
    assert_eq!(found["verdict"], "unequal");
    compare("equal.json loaded.json --format html")
        .code(3)
        .stdout(dir.read("both.html"));
    compare("- -").code(2).stderr(contains("name a file"));
    let before = dir.contents();
    for line in [
        "audit compare equal.json wide.json --json=wide.json --force",
        "audit show odd.json --html ./odd.json --force",
    ] {
        dir.line(line)
            .code(2)
            .stderr(contains("an input of this command"));
        assert!(before == dir.contents(), "{line}");
    }
}

#[test]
fn audits_that_are_not_alike_are_refused_unless_asked() {
    let mut other = Maker::eight().odd(None).seed(5).make();
    other.machine[0].1 = "Another CPU".to_owned();
    other.tests[0].lengths[0] = 7;
    other.tests.pop();
    let dir = made().with("other.json", json(&other));
    dir.line("audit compare equal.json other.json")
        .code(2)
        .stdout("")
        .stderr(contains("Another CPU").and(contains("lengths of test compute")))
        .stderr(contains("test noise: only in the first").and(contains("--anyway")));
    dir.line("audit compare equal.json other.json --anyway")
        .stdout(contains(
            "not alike: CPU: Made-up CPU at 3 GHz and Another CPU",
        ));
    let mut nothing = Maker::eight().make();
    nothing.tests.clear();
    let dir = dir.with("nothing.json", json(&nothing));
    dir.line("audit compare equal.json nothing.json --anyway")
        .code(2)
        .stderr(contains("in common"));
}

#[test]
fn what_is_no_audit_is_bad_input() {
    let whole = json(&eight());
    let dir = made()
        .with("cut.json", &whole[..whole.len() / 2])
        .with(
            "null.json",
            whole.replacen("\"pct\":", "\"pct\":null,\"x\":", 1),
        )
        .with(
            "huge.json",
            whole.replacen("\"took_ns\":", "\"took_ns\":9e99", 1),
        )
        .with(
            "new.json",
            whole.replacen("\"version\":1", "\"version\":99", 1),
        )
        .with(
            "length.json",
            whole.replacen("\"length\":0", "\"length\":9", 1),
        )
        .with("deep.json", "[".repeat(200_000))
        .with("none.json", "");
    for (file, said) in [
        ("cut.json", "no audit"),
        ("null.json", "no audit"),
        ("huge.json", "no audit"),
        ("new.json", "version 99"),
        ("length.json", "damaged"),
        ("deep.json", "no audit"),
        ("none.json", "no audit"),
        ("/dev/zero", "no audit"),
        ("missing.json", "there is no such file"),
    ] {
        dir.run(&["audit", "show", file])
            .code(2)
            .stdout("")
            .stderr(contains(said).and(contains(file)));
        dir.run(&["audit", "compare", "odd.json", file])
            .code(2)
            .stderr(contains(said));
    }
}

#[test]
fn man_page_names_the_exit_codes() {
    let dir = Dir::new();
    dir.run(&["generate", "man", "."]).success();
    let page = dir.read("sandbag-audit.1");
    assert!(page.contains("0 all CPUs are equal") && !page.contains("127 CMD not found"));
}
