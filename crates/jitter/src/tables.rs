// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of traces: described once, printed on the terminal and on pages.

use crate::attribution::cause::longest as longest_of;
use crate::attribution::{ProcessRow, SourceRow, foremost};
use crate::causes::ProcessInfo;
use crate::stats::{
    Correlation, FoundIn, Interval, LengthFigures, Likeness, LikenessVerdict, Measure,
    QUANTILES_PCT, Spectrum, TraceSummary, summarise,
};
use crate::{CpuTrace, JitterTrace, Notes};
use comfy_table::CellAlignment;
use maud::{Markup, html};
use sandbag_ui::quantity::{period, time};
use sandbag_ui::table::{plain, right};
use sandbag_ui::text::visible;

/// On a page, tables with more rows scroll.
const LONG: usize = 16;
/// Causes that are listed; the others are summed.
const MOST_CAUSES: usize = 20;

/// Columns and rows; `None` is a value that does not exist.
pub(crate) struct TextTable {
    /// Heads of columns. One that ends with `%` shows it as a unit; one that begins with `<`
    /// is of text, aligned left; all others are of figures.
    heads: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl TextTable {
    pub(crate) fn new<T: Into<String>>(heads: impl IntoIterator<Item = T>) -> Self {
        let heads = heads.into_iter().map(Into::into).collect();
        Self {
            heads,
            rows: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, row: impl IntoIterator<Item = Option<String>>) {
        self.rows.push(row.into_iter().collect());
    }

    fn with(mut self, rows: impl IntoIterator<Item = Vec<Option<String>>>) -> Self {
        self.rows.extend(rows);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn terminal(&self) -> comfy_table::Table {
        let mut table = plain(self.heads.iter().map(|head| head.trim_start_matches('<')));
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| cell.as_deref().unwrap_or("-")));
        }
        let mut table = right(table);
        for (column, head) in table.column_iter_mut().zip(&self.heads) {
            if head.starts_with('<') {
                column.set_cell_alignment(CellAlignment::Left);
            }
        }
        table
    }

    pub(crate) fn html(&self) -> Markup {
        let is_text = |column: usize| self.heads[column].starts_with('<');
        let class = |cell: &str| VERDICTS.iter().find(|(_, _, word)| *word == cell);
        html! {
            div .table.long[self.rows.len() > LONG] {
                table {
                    thead {
                        tr {
                            @for (i, head) in self.heads.iter().enumerate() {
                                @let head = head.trim_start_matches('<');
                                th .text[is_text(i)] {
                                    @match head.strip_suffix(" %") {
                                        Some(head) => { (head) small { "%" } }
                                        None => (head),
                                    }
                                }
                            }
                        }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (i, cell) in row.iter().enumerate() {
                                    @let cell = cell.as_deref().unwrap_or("\u{2013}");
                                    @if i == 0 { th .text[is_text(i)] { (cell) } }
                                    @else {
                                        td .text[is_text(i)] {
                                            @match class(cell) {
                                                Some((_, class, _)) => span .verdict.(class) { (cell) },
                                                None => (cell),
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The class of a verdict on a page, and its word.
const VERDICTS: [(LikenessVerdict, &str, &str); 3] = [
    (LikenessVerdict::Same, "kept", "same"),
    (LikenessVerdict::Differs, "missed", "differs"),
    (LikenessVerdict::Undecided, "undecided", "undecided"),
];

/// Class and word of a verdict.
pub(crate) fn verdict_words(verdict: LikenessVerdict) -> (&'static str, &'static str) {
    let found = VERDICTS.iter().find(|(one, ..)| *one == verdict);
    found.map_or(("", ""), |(_, class, word)| (class, word))
}

/// Name of a quantile.
pub(crate) fn quantile_name(part_pct: f64) -> String {
    match part_pct {
        100.0 => "longest".to_owned(),
        part => format!("p{part}"),
    }
}

pub(crate) fn time_cell(ns: u64) -> Option<String> {
    Some(time(ns as f64))
}

pub(crate) fn cell(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

fn digits(value: f64, digits: usize) -> Option<String> {
    Some(format!("{value:.digits$}"))
}

fn interval(of: Interval, shown: impl Fn(f64) -> String) -> Option<String> {
    Some(format!("{} to {}", shown(of.low), shown(of.high)))
}

/// Rate, noise and quantiles, by CPU.
pub(crate) fn summary(trace: &JitterTrace) -> TextTable {
    let heads = ["CPU", "known", "events", "per s", "noise %"].map(str::to_owned);
    let table = TextTable::new(heads.into_iter().chain(QUANTILES_PCT.map(quantile_name)));
    table.with(trace.cpus.iter().map(|cpu| {
        let s = summarise(cpu);
        let mut row = vec![
            cell(s.cpu),
            cell(time(s.known_s * 1e9)),
            cell(s.events),
            digits(s.rate_per_s, 0),
            digits(s.noise_pct, 4),
        ];
        let of = |i: usize| s.quantiles_ns.and_then(|all| time_cell(all[i]));
        row.extend((0..QUANTILES_PCT.len()).map(of));
        row
    }))
}

/// How the events were found; of an imported trace only what could be detected.
pub(crate) fn how_found(notes: &Notes) -> TextTable {
    let table = TextTable::new([
        "CPU",
        "detectable above",
        "least difference",
        "loop",
        "reading",
        "storing",
        "drift ppm",
        "dropped",
        "page faults",
    ]);
    table.with(notes.cpus.iter().map(|cpu| {
        let own = [
            time(cpu.least_ns),
            time(cpu.loop_ns),
            time(cpu.read_ns),
            time(cpu.store_ns),
            format!("{:.2}", cpu.drift_ppm),
            cpu.dropped.to_string(),
            cpu.faults.to_string(),
        ];
        let mut row = vec![cell(cpu.cpu), cell(time(cpu.detectable_ns()))];
        row.extend(own.map(|text| cpu.is_own().then_some(text)));
        row
    }))
}

/// Time per cause.
pub(crate) fn causes(all: &[SourceRow]) -> TextTable {
    let line = |cause: &str, kind: &str, row: &SourceRow| {
        vec![
            Some(visible(cause)),
            cell(kind),
            cell(row.events),
            cell(row.times),
            time_cell(row.gross_ns),
            time_cell(row.net_ns),
            digits(row.share_pct, 2),
            time_cell(row.longest_ns),
        ]
    };
    let (foremost, others) = foremost(all, MOST_CAUSES);
    let heads = [
        "<cause", "<kind", "events", "times", "gross", "net", "noise %", "longest",
    ];
    let named = foremost.iter().map(|row| {
        let (cause, kind) = row.who.names();
        line(cause, kind, row)
    });
    let others = others.map(|(count, row)| line(&format!("{count} others"), "", &row));
    TextTable::new(heads).with(named).with(others)
}

/// The processes behind the causes with their facts from /proc, cut off after `width`
/// characters.
pub(crate) fn processes(all: &[ProcessRow], width: usize) -> TextTable {
    let heads = [
        "PID",
        "<name",
        "net",
        "noise %",
        "<unit or group",
        "<command",
    ];
    TextTable::new(heads).with(all.iter().map(|row| {
        let of = |text: fn(&ProcessInfo) -> &String| {
            let text = row.details.as_ref().map(text);
            let text = text.filter(|text| !text.is_empty())?;
            Some(visible(text).chars().take(width).collect())
        };
        vec![
            cell(row.pid),
            Some(visible(&row.name)),
            time_cell(row.net_ns),
            digits(row.share_pct, 2),
            of(|one| &one.group),
            of(|one| &one.command),
        ]
    }))
}

/// The `count` longest events.
pub(crate) fn longest(trace: &JitterTrace, count: usize) -> TextTable {
    let all = longest_of(trace, count);
    let has_causes = all.iter().any(|one| one.causes.is_some());
    let causes = has_causes.then_some("<net of each cause");
    let table = TextTable::new(["CPU", "at", "length"].into_iter().chain(causes));
    table.with(all.into_iter().map(|one| {
        let at = format!("{:.6} s", one.event.start_ns as f64 / 1e9);
        let mut row = vec![cell(one.cpu), Some(at), time_cell(one.event.length_ns)];
        row.extend(one.causes.map(Some));
        row
    }))
}

/// Periodic components.
pub(crate) fn components(spectra: &[Option<Spectrum>]) -> TextTable {
    let table = TextTable::new([
        "CPU",
        "period",
        "jitter of phase",
        "events",
        "of periods %",
        "of noise %",
        "harmonics",
        "power",
        "keeps phase",
        "found in",
    ]);
    let found = spectra.iter().flatten();
    let all = found.flat_map(|one| one.components.iter().map(|component| (one.cpu, component)));
    table.with(all.map(|(cpu, one)| {
        vec![
            cell(cpu),
            Some(period(one.period_ns)),
            Some(time(one.jitter_ns)),
            cell(one.events),
            digits(one.share_of_periods * 100.0, 1),
            digits(one.noise_pct, 1),
            cell(one.harmonics),
            digits(one.power, 0),
            Some(time(one.coherent_ns)),
            cell(match one.found_in {
                FoundIn::Starts => "starts",
                FoundIn::Noise => "noise",
                FoundIn::Both => "both",
            }),
        ]
    }))
}

/// Correlation of pairs of CPUs.
pub(crate) fn pairs<'a>(pairs: impl IntoIterator<Item = &'a Correlation>) -> TextTable {
    let table = TextTable::new([
        "CPUs",
        "together %",
        "by chance %",
        "",
        "lag",
        "noise in",
        "correlation",
        "by chance",
        "",
    ]);
    let judged = |by: i8| match by {
        1 => "more",
        -1 => "less",
        _ => "",
    };
    table.with(pairs.into_iter().map(|one| {
        let chance = &one.chance_pct;
        let noise = one.foremost_noise();
        vec![
            Some(format!("{}, {}", one.a, one.b)),
            digits(one.together_pct, 2),
            Some(format!("{:.2} to {:.2}", chance.least, chance.most)),
            cell(judged(chance.judge(one.together_pct))),
            one.lag_ns.map(|ns| format!("{} us", ns / 1000)),
            noise.and_then(|noise| time_cell(noise.bin_ns)),
            noise.and_then(|noise| digits(noise.r, 3)),
            noise.map(|noise| format!("{:.3} to {:.3}", noise.chance.least, noise.chance.most)),
            noise.map(|noise| judged(noise.chance.judge(noise.r)).to_owned()),
        ]
    }))
}

/// All CPUs of two traces, side by side.
pub(crate) fn compared(a: &JitterTrace, b: &JitterTrace, likeness: &Likeness) -> TextTable {
    let pooled = |trace: &JitterTrace| {
        let mut all = CpuTrace::default();
        for cpu in &trace.cpus {
            all.known.extend(&cpu.known);
            all.events.extend(&cpu.events);
        }
        summarise(&all)
    };
    let (a, b) = (pooled(a), pooled(b));
    let mut table = TextTable::new([
        "<",
        "A",
        "B",
        "B / A",
        "A, 95 % interval",
        "B, 95 % interval",
    ]);
    let mut add = |name: String,
                   of: &dyn Fn(&TraceSummary) -> Option<f64>,
                   shown: fn(f64) -> String,
                   bounds: [Option<Interval>; 2]| {
        let (a, b) = (of(&a), of(&b));
        let ratio = a.zip(b).filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a);
        let bounds = bounds.map(|of| of.map_or(Some(String::new()), |of| interval(of, time)));
        let ratio = ratio.and_then(|ratio| digits(ratio, 3));
        table.add(
            [Some(name), a.map(shown), b.map(shown), ratio]
                .into_iter()
                .chain(bounds),
        );
    };
    let one_digit = |value: f64| format!("{value:.1}");
    let four_digits = |value: f64| format!("{value:.4}");
    add(
        "known".to_owned(),
        &|s| Some(s.known_s * 1e9),
        time,
        [None; 2],
    );
    add(
        "events".to_owned(),
        &|s| Some(s.events as f64),
        |n| n.to_string(),
        [None; 2],
    );
    add(
        "noise %".to_owned(),
        &|s| Some(s.noise_pct),
        four_digits,
        [None; 2],
    );
    add(
        "events per s".to_owned(),
        &|s| Some(s.rate_per_s),
        one_digit,
        [None; 2],
    );
    add("mean length".to_owned(), &|s| s.mean_ns, time, [None; 2]);
    for (i, part) in QUANTILES_PCT.iter().enumerate() {
        let bounds = likeness.quantiles.get(i);
        let bounds = [bounds.map(|one| one.a), bounds.map(|one| one.b)];
        let of = |s: &TraceSummary| s.quantiles_ns.map(|all| all[i] as f64);
        add(quantile_name(*part), &of, time, bounds);
    }
    table
}

/// What the verdict on two traces rests on.
pub(crate) fn verdicts(found: &Likeness) -> TextTable {
    let heads = [
        "<",
        "B against A",
        "95 % interval",
        "limit",
        "resolution",
        "<verdict",
    ];
    let row = |name: &str, one: &Measure, shown: fn(f64) -> String| {
        vec![
            cell(name),
            // Not a number, or infinite, without events.
            Some(one.difference.value)
                .filter(|value| value.is_finite())
                .map(shown),
            interval(one.difference, shown),
            Some(shown(one.limit)),
            Some(shown(one.resolution)),
            cell(verdict_words(one.verdict).1),
        ]
    };
    let ratio = |ln: f64| format!("{:.3}", ln.exp());
    let lengths = found.lengths.as_ref();
    let js = lengths.map(|all| row("lengths, bits", &all.js, |bits| format!("{bits:.4}")));
    let noise = lengths.map(|all| row("noise, ratio", &all.noise, ratio));
    let mut rate = row("rate, ratio", &found.rate, ratio);
    if let Some(bounds) = rate[2].as_mut().filter(|_| found.counted) {
        bounds.push_str(" (99 %)");
    }
    TextTable::new(heads).with(js.into_iter().chain([rate]).chain(noise))
}

/// What the limits of [`verdicts`] are.
pub(crate) fn limits(found: &Likeness) -> String {
    let sampled = "not exceeded by 99 of 100 pairs of parts of the same trace";
    let counted = "10 % of the rate, by the numbers of events";
    let all = [
        found.lengths.as_ref().map(|_| sampled),
        found.counted.then_some(counted),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Distances of the distributions of lengths.
pub(crate) fn distances(found: &LengthFigures) -> TextTable {
    let rows = [
        (
            "Kullback-Leibler divergence of B from A, bits",
            found.kl_bits,
        ),
        (
            "Kullback-Leibler divergence of A from B, bits",
            found.kl_back_bits,
        ),
        ("Jensen-Shannon divergence, bits", found.js.difference),
        ("Kolmogorov-Smirnov distance", found.ks),
        ("Wasserstein distance, decades", found.wasserstein_decades),
    ];
    let table = TextTable::new([
        "<of the lengths' distributions",
        "measured",
        "95 % interval",
    ]);
    table.with(rows.map(|(name, one)| {
        let bounds = interval(one, |value| format!("{value:.4}"));
        vec![cell(name), digits(one.value, 4), bounds]
    }))
}
