// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of a trace: described once, shown on the terminal and on a page.

use crate::attribution::cause::longest as longest_of;
use crate::attribution::{ProcessInfo, ProcessRow, SourceRow, foremost};
use crate::stats::{Correlation, FoundIn, QUANTILES_PCT, Spectrum, summarise};
use crate::{JitterTrace, Notes};
use comfy_table::CellAlignment;
use maud::{Markup, html};
use sandbag_ui::quantity::{period, time};
use sandbag_ui::table::{plain, right};
use sandbag_ui::text::visible;

/// On a page, tables with more rows scroll.
const LONG: usize = 16;
/// Causes that are listed; the others are summed.
const MOST_CAUSES: usize = 20;

/// Words, read from the left; all others are figures.
#[derive(Clone)]
struct TextColumn {
    head: String,
    /// After the head, smaller on a page.
    unit: &'static str,
    is_text: bool,
}

fn figure(head: &str) -> TextColumn {
    TextColumn {
        head: head.to_owned(),
        unit: "",
        is_text: false,
    }
}

fn pct(head: &str) -> TextColumn {
    TextColumn {
        unit: "%",
        ..figure(head)
    }
}

fn text(head: &str) -> TextColumn {
    TextColumn {
        is_text: true,
        ..figure(head)
    }
}

/// Columns and rows; `None` is a value that there is not.
pub(crate) struct TextTable {
    columns: Vec<TextColumn>,
    rows: Vec<Vec<Option<String>>>,
}

impl TextTable {
    fn new(columns: Vec<TextColumn>, rows: Vec<Vec<Option<String>>>) -> Self {
        Self { columns, rows }
    }

    /// How many rows it has.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// For a terminal.
    pub(crate) fn terminal(&self) -> comfy_table::Table {
        let heads = self.columns.iter().map(|column| match column.unit {
            "" => column.head.clone(),
            unit => format!("{} {unit}", column.head),
        });
        let mut table = plain(heads);
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| cell.as_deref().unwrap_or("-")));
        }
        let mut table = right(table);
        for (column, _) in table
            .column_iter_mut()
            .zip(&self.columns)
            .filter(|(_, described)| described.is_text)
        {
            column.set_cell_alignment(CellAlignment::Left);
        }
        table
    }

    /// For a page.
    pub(crate) fn html(&self) -> Markup {
        html! {
            div .table.long[self.rows.len() > LONG] {
                table {
                    thead {
                        tr {
                            @for column in &self.columns {
                                th .text[column.is_text] {
                                    (column.head) @if !column.unit.is_empty() { small { (column.unit) } }
                                }
                            }
                        }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (i, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
                                    @let cell = cell.as_deref().unwrap_or("\u{2013}");
                                    @if i == 0 { th .text[column.is_text] { (cell) } }
                                    @else { td .text[column.is_text] { (cell) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What a quantile is called.
pub(crate) fn quantile_name(part_pct: f64) -> String {
    match part_pct {
        100.0 => "longest".to_owned(),
        part => format!("p{part}"),
    }
}

fn time_of(ns: u64) -> Option<String> {
    Some(time(ns as f64))
}

fn cell(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

/// How often and how long, by CPU.
pub(crate) fn summary(trace: &JitterTrace) -> TextTable {
    let mut columns = ["CPU", "known", "events", "per s"].map(figure).to_vec();
    columns.push(pct("noise"));
    columns.extend(QUANTILES_PCT.map(|part| figure(&quantile_name(part))));
    let rows = trace.cpus.iter().map(|cpu| {
        let s = summarise(cpu);
        let mut row = vec![
            cell(s.cpu),
            cell(time(s.known_s * 1e9)),
            cell(s.events),
            Some(format!("{:.0}", s.rate_per_s)),
            Some(format!("{:.4}", s.noise_pct)),
        ];
        let of = |i: usize| s.quantiles_ns.and_then(|all| time_of(all[i]));
        row.extend((0..QUANTILES_PCT.len()).map(of));
        row
    });
    TextTable::new(columns, rows.collect())
}

/// How the events were found; of an imported trace what could be detected.
pub(crate) fn how_found(notes: &Notes) -> TextTable {
    let columns = [
        "CPU",
        "detectable above",
        "least difference",
        "loop",
        "reading",
        "storing",
        "drift ppm",
        "dropped",
        "page faults",
    ];
    let rows = notes.cpus.iter().map(|cpu| {
        let own = |said: String| cpu.is_own().then_some(said);
        vec![
            cell(cpu.cpu),
            cell(time(cpu.detectable_ns())),
            own(time(cpu.least_ns)),
            own(time(cpu.loop_ns)),
            own(time(cpu.read_ns)),
            own(time(cpu.store_ns)),
            own(format!("{:.2}", cpu.drift_ppm)),
            own(cpu.dropped.to_string()),
            own(cpu.faults.to_string()),
        ]
    });
    TextTable::new(columns.map(figure).to_vec(), rows.collect())
}

/// Who took how much.
pub(crate) fn causes(all: &[SourceRow]) -> TextTable {
    let columns = vec![
        text("cause"),
        text("kind"),
        figure("events"),
        figure("times"),
        figure("gross"),
        figure("net"),
        pct("noise"),
        figure("longest"),
    ];
    let line = |cause: &str, kind: &str, row: &SourceRow| {
        vec![
            Some(visible(cause)),
            cell(kind),
            cell(row.events),
            cell(row.times),
            time_of(row.gross_ns),
            time_of(row.net_ns),
            Some(format!("{:.2}", row.share_pct)),
            time_of(row.longest_ns),
        ]
    };
    let (foremost, others) = foremost(all, MOST_CAUSES);
    let mut rows: Vec<_> = foremost
        .iter()
        .map(|row| {
            let (cause, kind) = row.who.names();
            line(cause, kind, row)
        })
        .collect();
    rows.extend(others.map(|(count, row)| line(&format!("{count} others"), "", &row)));
    TextTable::new(columns, rows)
}

/// The processes behind the causes, with what /proc had of them, in at most so
/// many characters.
pub(crate) fn processes(all: &[ProcessRow], wide: usize) -> TextTable {
    let columns = vec![
        figure("PID"),
        text("name"),
        figure("net"),
        pct("noise"),
        text("unit or group"),
        text("command"),
    ];
    let rows = all.iter().map(|row| {
        let of = |text: fn(&ProcessInfo) -> &String| {
            let text = row.details.as_ref().map(text);
            let text = text.filter(|text| !text.is_empty());
            text.map(|text| visible(text).chars().take(wide).collect())
        };
        vec![
            cell(row.pid),
            Some(visible(&row.name)),
            time_of(row.net_ns),
            Some(format!("{:.2}", row.share_pct)),
            of(|one| &one.group),
            of(|one| &one.command),
        ]
    });
    TextTable::new(columns, rows.collect())
}

/// The `count` longest events.
pub(crate) fn longest(trace: &JitterTrace, count: usize) -> TextTable {
    let all = longest_of(trace, count);
    let mut columns = ["CPU", "at", "length"].map(figure).to_vec();
    let has_causes = all.iter().any(|one| one.causes.is_some());
    columns.extend(has_causes.then(|| text("net of each cause")));
    let rows = all.into_iter().map(|one| {
        let mut row = vec![
            cell(one.cpu),
            Some(format!("{:.6} s", one.event.start_ns as f64 / 1e9)),
            time_of(one.event.length_ns),
        ];
        row.extend(one.causes.map(Some));
        row
    });
    TextTable::new(columns, rows.collect())
}

/// Periodic components.
pub(crate) fn components(spectra: &[Option<Spectrum>]) -> TextTable {
    let columns = vec![
        figure("CPU"),
        figure("period"),
        figure("jitter of phase"),
        figure("events"),
        pct("of periods"),
        pct("of noise"),
        figure("harmonics"),
        figure("power"),
        figure("keeps phase"),
        figure("found in"),
    ];
    let found = spectra.iter().flatten();
    let all = found.flat_map(|one| one.components.iter().map(|component| (one.cpu, component)));
    let rows = all.map(|(cpu, one)| {
        vec![
            cell(cpu),
            Some(period(one.period_ns)),
            Some(time(one.jitter_ns)),
            cell(one.events),
            Some(format!("{:.1}", one.share_of_periods * 100.0)),
            Some(format!("{:.1}", one.noise_pct)),
            cell(one.harmonics),
            Some(format!("{:.0}", one.power)),
            Some(time(one.coherent_ns)),
            cell(match one.found_in {
                FoundIn::Starts => "starts",
                FoundIn::Noise => "noise",
                FoundIn::Both => "both",
            }),
        ]
    });
    TextTable::new(columns, rows.collect())
}

/// What pairs of CPUs have in common.
pub(crate) fn pairs<'a>(pairs: impl IntoIterator<Item = &'a Correlation>) -> TextTable {
    let columns = vec![
        figure("CPUs"),
        pct("together"),
        pct("by chance"),
        figure(""),
        figure("lag"),
        figure("noise in"),
        figure("correlation"),
        figure("by chance"),
        figure(""),
    ];
    let judged = |by: i8| match by {
        1 => "more",
        -1 => "less",
        _ => "",
    };
    let rows = pairs.into_iter().map(|one| {
        let chance = &one.chance_pct;
        let noise = one.foremost_noise();
        vec![
            Some(format!("{}, {}", one.a, one.b)),
            Some(format!("{:.2}", one.together_pct)),
            Some(format!("{:.2} to {:.2}", chance.least, chance.most)),
            cell(judged(chance.judge(one.together_pct))),
            one.lag_ns.map(|ns| format!("{} us", ns / 1000)),
            noise.and_then(|noise| time_of(noise.bin_ns)),
            noise.map(|noise| format!("{:.3}", noise.r)),
            noise.map(|noise| format!("{:.3} to {:.3}", noise.chance.least, noise.chance.most)),
            noise.map(|noise| judged(noise.chance.judge(noise.r)).to_owned()),
        ]
    });
    TextTable::new(columns, rows.collect())
}
