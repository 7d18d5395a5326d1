// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::Path;

use sha2::{Digest, Sha256};

use super::frame::SCRIPT;
use super::*;
use crate::report::fixture::{self, Fixture};
use crate::report::nodes::NodeRows;
use sandbag_ui::page::{COMMON, ECHARTS, STYLE};

#[path = "../../../../base/ui/tests/support/readable.rs"]
mod readable;

use readable::readable;

fn render_fixture(fixture: &Fixture) -> String {
    let (_dir, achieved) = fixture.achieved();
    render(&fixture.run, &achieved)
}

/// The page without the parts that are the same in every report.
fn own_part(page: &str) -> String {
    page.replace(ECHARTS, "")
        .replace(SCRIPT, "")
        .replace(COMMON, "")
        .replace(STYLE, "")
}

/// The figures of each run in the page.
fn all_data(page: &str) -> serde_json::Value {
    let (_, json) = page.split_once(r#"id="data">"#).unwrap();
    serde_json::from_str(json.split_once("</script>").unwrap().0).unwrap()
}

fn data(page: &str) -> serde_json::Value {
    all_data(page)[0].clone()
}

#[test]
fn the_vendored_bundle_is_the_one_that_was_checked_in() {
    let sums = include_str!("../../../../base/ui/vendor/SHA256SUMS");
    let expected = sums.split_whitespace().next().unwrap();
    let digest = Sha256::digest(ECHARTS);
    let found: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(found, expected, "run crates/base/ui/vendor/build.sh");
}

#[test]
fn the_page_asks_for_nothing_from_outside() {
    let page = render_fixture(&fixture::quiet());
    assert!(page.contains("default-src 'none'"));
    for tag in ["src=", "href=", "@import", "url("] {
        assert!(!own_part(&page).contains(tag), "{tag}");
        assert!(
            ![SCRIPT, COMMON, STYLE]
                .iter()
                .any(|part| part.contains(tag)),
            "{tag}"
        );
    }
}

#[test]
fn no_embedded_script_can_end_its_own_element() {
    assert!(!ECHARTS.contains("</script"));
    assert!(!SCRIPT.contains("</script") && !COMMON.contains("</script"));
    assert!(!STYLE.contains("</style"));
}

#[test]
fn hostile_names_stay_text() {
    let page = render_fixture(&fixture::holes_and_steal());
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(!page.contains('\u{1b}'));
    insta::assert_snapshot!("holes_and_steal", readable(&page));
}

#[test]
fn few_cpus_have_a_chart_each_and_many_a_heat_map() {
    insta::assert_snapshot!("quiet", readable(&render_fixture(&fixture::quiet())));
    insta::assert_snapshot!("large", readable(&render_fixture(&fixture::large())));
}

#[test]
fn verdict_and_reason_open_the_page() {
    insta::assert_snapshot!(
        "missed",
        readable(&render_fixture(&fixture::missing_load()))
    );
}

#[test]
fn a_node_is_shown_in_speeds_and_what_is_not_known_is_not_shown() {
    let mut node = fixture::node();
    node.run.cpus.iter_mut().for_each(|c| c.headroom_pct = None);
    let page = render_fixture(&node);
    assert!(!page.contains("slowest possible"));
    assert!(render_fixture(&fixture::node()).contains("slowest possible"));
    insta::assert_snapshot!("node", readable(&page));
    let data = data(&page);
    assert_eq!(data["quantity"], "speed");
    assert_eq!(data["lines"][1]["asked"][59], 30.0);
    let loads = render_fixture(&fixture::quiet());
    assert_eq!(self::data(&loads)["quantity"], "load");
    assert!(!own_part(&loads).contains("speed"));
}

#[test]
fn what_a_cap_takes_from_a_node_is_no_busy_time_of_its_cpus() {
    let mut node = fixture::node();
    let cpu = &mut node.run.cpus[0];
    (cpu.burner_s, cpu.command_s, cpu.busy_s) = (30.0, Some(30.0), Some(48.76));
    let others = "<td>30.00</td><td>30.00</td><td>18.76</td><td>48.76</td>";
    assert!(!render_fixture(&node).contains(others));
    node.run.method.name = "cap".to_owned();
    assert!(render_fixture(&node).contains(others));
}

#[test]
fn what_held_beside_the_speed_has_a_table() {
    let page = own_part(&render_fixture(&fixture::combined()));
    for text in [
        "Beside the speed",
        "30 % of the slowed CPUs",
        "24.01",
        "55.40",
        "missed",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

fn rendered_nodes(all: &[Fixture]) -> String {
    let dir = tempfile::tempdir().unwrap();
    for made in all {
        let own = dir.path().join(&made.run.node.as_ref().unwrap().name);
        std::fs::create_dir(&own).unwrap();
        made.write_achieved(&own.join("achieved.csv"));
    }
    let runs: Vec<Run> = all.iter().map(|made| made.run.clone()).collect();
    render_nodes(&NodeRows::of(&runs), &runs, dir.path())
}

#[test]
fn several_nodes_have_a_table_and_a_chart_each_that_leads_to_their_own_page() {
    let page = rendered_nodes(&fixture::nodes());
    insta::assert_snapshot!("nodes", readable(&page));
    let data = all_data(&page);
    assert_eq!(data[3]["mean"]["asked"][0], 37.5);
    assert_eq!(data[3]["length_s"], 40.0);
}

#[test]
fn a_page_of_nodes_asks_for_nothing_and_hostile_names_stay_text() {
    let mut all = fixture::nodes();
    all.truncate(1);
    let mut runs = vec![all.remove(0).run];
    runs[0].node.as_mut().unwrap().name = "</script>javascript:alert(1)".to_owned();
    runs[0].node.as_mut().unwrap().used_s = None;
    runs[0].warnings = vec!["<b>".to_owned()];
    let page = render_nodes(&NodeRows::of(&runs), &runs, Path::new("/nonexistent"));
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(page.contains("default-src 'none'") && !page.contains("href=\"javascript"));
    assert!(!page.contains("s of CPU time"));
    assert!(page.contains("No chart: cannot read /nonexistent"));
    for tag in ["src=", "@import", "url(", "http:"] {
        assert!(!own_part(&page).contains(tag), "{tag}");
    }
    let none = render_nodes(&NodeRows::of(&[]), &[], Path::new("/nonexistent"));
    assert!(none.contains("no node left a record"));
}

#[test]
fn a_large_run_makes_a_small_page() {
    let page = render_fixture(&fixture::large());
    assert!(page.len() < 1_200_000, "{}", page.len());
    let cpus = data(&page)["rows"].as_array().unwrap().len();
    assert_eq!(cpus, 64);
}

#[test]
fn a_long_run_is_thinned_and_the_page_says_so() {
    let page = render_fixture(&fixture::long());
    assert!(page.contains("Thinned to steps of 32 s"));
    assert!(page.len() < 800_000, "{}", page.len());
    let errors = data(&page)["lines"][1]["error"].to_string();
    assert!(errors.contains("-20"), "the worst window was lost");
}

#[test]
fn without_windows_the_page_says_why_there_are_no_charts() {
    let run = fixture::quiet().run;
    let page = render(&run, Path::new("/nonexistent/achieved.csv"));
    assert!(page.contains("No charts over time: cannot read /nonexistent/achieved.csv"));
    assert!(page.contains("What the program got"));
    let empty = render_fixture(&fixture::empty());
    assert!(empty.contains("The run has no windows."));
    assert!(!own_part(&empty).contains("NaN"));
}

#[test]
fn sentences_begin_and_end_as_such() {
    assert_eq!(sentence("cpu 5 went offline"), "CPU 5 went offline.");
    assert_eq!(sentence("it was kept"), "It was kept.");
    assert_eq!(sentence("Done."), "Done.");
    assert_eq!(sentence(""), "");
}
