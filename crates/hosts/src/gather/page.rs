// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of an experiment on many hosts: verdict, heat map of hosts and time, table.

use maud::{Markup, html};
use sandbag_ui::page::static_page;
use sandbag_ui::text::{clock, visible};

use super::heat::{OFF_COLOUR, UNKNOWN_COLOUR, colour, picture};
use super::table::{COLUMNS, sentences};
use super::{Gathered, GatheredHost};

const STYLE: &str = "
.heat { display: grid; grid-template-columns: auto 1fr; gap: 0 .6rem; margin: 1rem 0; }
.heat img { width: 100%; image-rendering: pixelated; display: block; }
.heat .names { display: grid; text-align: right; font-size: .8rem; line-height: 1; overflow: hidden; }
.heat .names span { align-self: center; }
.heat .time { grid-column: 2; display: flex; justify-content: space-between; font-size: .8rem; }
.swatch { display: inline-block; width: 1.2em; height: .8em; margin: 0 .3em 0 1em; }
td.reason { text-align: left; white-space: normal; min-width: 14rem; }
";

/// All rows of the heat map, pixels, and of one.
const TALLEST: usize = 900;
const TALLEST_ROW: usize = 26;
/// Rows that are lower have no room for a name.
const NAMED_ROW: usize = 11;

pub(super) fn page(gathered: &Gathered) -> String {
    let body = html! {
        header {
            p .what { "gathered · " (gathered.hosts.len()) " hosts · " (clock(gathered.length_s)) }
            h1 { span .verdict.(gathered.verdict.to_string()) { (gathered.verdict.to_string()) } }
            p .reason { (visible(&gathered.reason)) "." }
            @for sentence in sentences(gathered) { p { (visible(&sentence)) } }
        }
        (heat(gathered))
        section {
            h2 { "Hosts" }
            p .note { "Those that need a look first. Loads and errors are means over CPUs and time; the start is that after the first host." }
            table {
                thead { tr { @for column in &COLUMNS { th { (column.head) } } th { "reason" } } }
                tbody { @for host in &gathered.hosts { (row(host)) } }
            }
        }
    };
    static_page("sandbag: many hosts", STYLE, &body)
}

fn row(host: &GatheredHost) -> Markup {
    html! {
        tr {
            @for column in &COLUMNS { td { (visible(&(column.value)(host))) } }
            td .reason { (visible(&host.reason)) }
        }
    }
}

fn heat(gathered: &Gathered) -> Markup {
    let hosts = &gathered.hosts;
    if hosts.iter().all(|host| host.course.is_empty()) {
        return html! {};
    }
    let row = (TALLEST / hosts.len().max(1)).clamp(1, TALLEST_ROW);
    let height = format!("height:{}px", row * hosts.len());
    let [off, unknown] =
        [OFF_COLOUR, UNKNOWN_COLOUR].map(|[r, g, b]| format!("#{r:02x}{g:02x}{b:02x}"));
    html! {
        section {
            h2 { "Load of each host over time" }
            p .note {
                i .swatch style=(format!("background:{}", colour(0.0))) {} "0 %"
                i .swatch style=(format!("background:{}", colour(50.0))) {} "50 %"
                i .swatch style=(format!("background:{}", colour(100.0))) {} "100 %"
                i .swatch style=(format!("background:{off}")) {} "error beyond the tolerance"
                i .swatch style=(format!("background:{unknown}")) {} "no data"
            }
            div .heat {
                div .names style=(height) {
                    @if row >= NAMED_ROW { @for host in hosts { span { (visible(&host.host)) } } }
                }
                img alt=(format!("load of {} hosts over {}", hosts.len(), clock(gathered.length_s)))
                    style=(height) src=(picture(hosts));
                div .time { span { "0" } span { (clock(gathered.length_s)) } }
            }
        }
    }
}
