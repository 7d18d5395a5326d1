// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::causes::{
    Attribution, AttributionSummary, Cause, CpuCauses, NoiseOrigin, ProcessInfo, SourceKind,
};
use crate::fixture::{self, SECOND, periodic, poisson};
use crate::stats::{correlations, likeness, spectrum};
use crate::synth::Lengths;

use super::*;

fn trace(cpus: u32, per_s: f64) -> JitterTrace {
    let tick = periodic(4e6, 1_000.0, Lengths::Fixed(8_000.0));
    let others = poisson(per_s, Lengths::lognormal(3_000.0, 1.0));
    fixture::trace(cpus, 2 * SECOND, 1, vec![others, tick])
}

fn page_of(name: &str, trace: &JitterTrace, worst: usize) -> String {
    let spectra: Vec<_> = trace.cpus.iter().map(spectrum).collect();
    let correlations = &correlations(&trace.cpus);
    render(&TracePage {
        name,
        trace,
        spectra: &spectra,
        correlations,
        worst,
    })
}

fn page_of_two(a: &JitterTrace, b: &JitterTrace) -> String {
    let (a_name, b_name, likeness) = ("a.sbj", "b.sbj", &likeness(a, b).unwrap());
    render_comparison(&ComparisonPage {
        a_name,
        a,
        b_name,
        b,
        likeness,
    })
}

fn data(page: &str) -> serde_json::Value {
    let start = page.find(r#"id="data">"#).unwrap() + r#"id="data">"#.len();
    let end = start + page[start..].find("</script>").unwrap();
    serde_json::from_str(&page[start..end]).unwrap()
}

#[test]
fn a_page_has_the_figures_of_its_trace() {
    let page = page_of("a.sbj", &trace(2, 300.0), 5);
    assert!(page.contains("default-src 'none'"));
    assert_eq!(page.matches("</script>").count(), 3);
    let data = data(&page);
    assert_eq!(data["density"].as_array().unwrap().len(), 2);
    assert_eq!(data["events"].as_array().unwrap().len(), 2);
    let shares = data["shares"][0]["noise"].as_array().unwrap();
    assert_eq!(shares.last().unwrap()[1], 100.0);
    assert!(page.contains("4.0000 ms"), "the tick");
    assert_eq!(data["lags"].as_array().unwrap().len(), 1);
}

#[test]
fn who_took_how_much_is_told_where_it_is_known() {
    let mut trace = trace(1, 300.0);
    assert!(!page_of("a.sbj", &trace, 5).contains("Time per cause"));
    let event = trace.cpus[0].events[0];
    let causes = CpuCauses::new(
        0,
        trace.cpus[0].known.clone(),
        vec![Cause::new(event.start_ns, event.length_ns, 0)],
    );
    trace.attribution = Some(Box::new(Attribution {
        sources: vec![NoiseOrigin::new(SourceKind::Task, "<kworker>", Some(7))],
        cpus: vec![causes],
        about: AttributionSummary {
            processes: vec![ProcessInfo {
                pid: 7,
                name: "<kworker>".to_owned(),
                command: "/opt/exe <all>".to_owned(),
                group: "build.service".to_owned(),
            }],
            ..AttributionSummary::default()
        },
    }));
    let page = page_of("a.sbj", &trace, trace.cpus[0].events.len());
    assert!(page.contains("Time per cause"));
    assert!(page.contains("&lt;kworker&gt;"), "not escaped");
    assert!(page.contains("hypervisor or hardware"));
    // Processes have what /proc had of them, and the longest their causes.
    assert!(page.contains("build.service") && page.contains("/opt/exe &lt;all&gt;"));
    let longest = page.split("<h2>Longest events</h2>").nth(1).unwrap();
    assert!(longest.contains("net of each cause"));
    assert!(longest.contains("task &lt;kworker&gt; (7)"), "no cause");
}

#[test]
fn many_cpus_share_charts() {
    let page = page_of("a.sbj", &trace(10, 50.0), 5);
    let data = data(&page);
    assert_eq!(data["events"].as_array().unwrap().len(), 1);
    assert_eq!(data["matrix"]["cpus"].as_array().unwrap().len(), 10);
    assert_eq!(data["lags"].as_array().unwrap().len(), MOST_LAGS);
    assert_eq!(page.matches("data-chart=\"events\"").count(), 1);
}

#[test]
fn hostile_names_stay_text_and_a_trace_without_events_has_a_page() {
    let mut quiet = trace(1, 0.0);
    quiet.cpus[0].events.clear();
    quiet.header.host = Some("</script><script>alert(1)\u{1b}".to_owned());
    let page = page_of("<b>&.sbj", &quiet, 5);
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(!page.contains("<script>alert") && !page.contains('\u{1b}'));
    assert!(page.contains("&lt;b&gt;&amp;.sbj"));
}

#[test]
fn two_traces_have_a_verdict() {
    let (a, b) = (trace(2, 300.0), trace(2, 900.0));
    let page = page_of_two(&a, &b);
    assert!(page.contains("verdict missed\">differs"));
    assert_eq!(data(&page)["density"].as_array().unwrap().len(), 2);
    assert!(page_of_two(&a, &a).contains("verdict kept\">same"));
    let mut quiet = a.clone();
    quiet.cpus.iter_mut().for_each(|cpu| cpu.events.clear());
    let page = page_of_two(&a, &quiet);
    assert!(page.contains("verdict missed\">differs") && page.contains("(99 %)"));
    assert!(!page.contains("<h2>Distances</h2>") && !page.contains("NaN<"));
    assert_eq!(data(&page)["density"].as_array().unwrap().len(), 1);
    assert!(page_of_two(&quiet, &quiet).contains("verdict kept\">same"));
}

#[test]
fn no_script_can_end_its_own_element() {
    assert!(!SCRIPT.contains("</script"));
    for tag in ["src=", "href=", "@import", "url("] {
        assert!(!SCRIPT.contains(tag), "{tag}");
    }
}

/// JavaScriptCore throws if there are more than 65536.
#[test]
fn points_of_all_cpus_are_not_spread_into_arguments() {
    assert!(!SCRIPT.contains("(...xs)"));
}
