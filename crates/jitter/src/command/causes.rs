// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What caused the events of a trace, as `show` and `convert` tell it.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::attribution::{
    Attribution, AttributionMethod, Count, CpuCauses, CpuCounters, RowSubject, SourceRow, by_cpu,
    explain, processes, table,
};
use crate::{CpuTrace, JitterTrace, tables};
use sandbag_ui::quantity::time;
use sandbag_ui::table::{plain, right};
use sandbag_ui::text::visible;
use serde_json::{Value, json};

/// Processes that are listed.
const PROCESSES: usize = 10;
/// Characters of a unit or a command line on a terminal.
const WIDE: usize = 40;
/// Rows of counters that are named.
const NAMED: usize = 4;

/// The tables: who took how much, and the counters.
pub(super) fn text(trace: &JitterTrace, all: &Attribution) -> String {
    let mut text = String::new();
    if !all.cpus.is_empty() {
        let rows = table(trace, all);
        let _ = writeln!(
            text,
            "\nWho took how much\n{}",
            tables::causes(&rows).terminal()
        );
        let _ = writeln!(text, "\n{}\n{}", kinds(&rows), remarks(all));
        let processes = processes(trace, all, PROCESSES);
        if !processes.is_empty() {
            let _ = writeln!(
                text,
                "\nProcesses that took most\n{}",
                tables::processes(&processes, WIDE).terminal()
            );
        }
    }
    if !all.about.counters.is_empty() {
        text.push_str(&counters(all));
    }
    text
}

/// What is to be known to read the table.
fn remarks(all: &Attribution) -> String {
    let about = &all.about;
    let by = match about.method {
        AttributionMethod::Tracefs => "By the kernel's trace events",
        AttributionMethod::Osnoise => "By the entries of osnoise",
        AttributionMethod::Proc => "By a recording that was cut off",
    };
    let mut text = by.to_owned();
    if let Some(clock) = &about.clock {
        let _ = write!(text, " on the clock {}", visible(clock));
    }
    let _ = write!(
        text,
        ": {} entries, {} lost, {} began outside of events.\n\
         Gross: from coming to leaving. Net: without what came in between; these add up to all \
         the noise.",
        about.entries, about.lost, about.outside
    );
    text
}

/// The share of each kind: `Of the noise: task 98.1 %, irq 0.51 %`.
fn kinds(rows: &[SourceRow]) -> String {
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for row in rows {
        let name = match row.who {
            RowSubject::Known { kind, .. } => kind.name(),
            _ => row.who.names().0,
        };
        match sums.iter_mut().find(|sum| sum.0 == name) {
            Some(sum) => sum.1 += row.share_pct,
            None => sums.push((name, row.share_pct)),
        }
    }
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<String> = sums
        .iter()
        .map(|(name, pct)| format!("{name} {pct:.2} %"))
        .collect();
    format!("Of the noise: {}.", words.join("; "))
}

/// The counters of /proc.
fn counters(all: &Attribution) -> String {
    let coarse = all.cpus.is_empty();
    let mut text = "\nWhat /proc counted from begin to end, pauses included".to_owned();
    if coarse {
        text.push_str(
            ": how often, not which event\nof the trace. Coarser than causes by event, for which \
             tracefs is needed",
        );
    }
    let mut table = plain([
        "CPU",
        "interrupts",
        "soft interrupts",
        "loop preempted",
        "loop waited",
        "irq",
        "softirq",
        "steal",
    ]);
    for one in &all.about.counters {
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        table.add_row([
            one.cpu.to_string(),
            sum(&one.interrupts).to_string(),
            sum(&one.softirqs).to_string(),
            or_none(one.preempted.map(|count| count.to_string())),
            or_none(one.waited_ns.map(|ns| time(ns as f64))),
            time(one.irq_ns as f64),
            time(one.softirq_ns as f64),
            time(one.steal_ns as f64),
        ]);
    }
    let _ = writeln!(text, "\n{}", right(table));
    for one in &all.about.counters {
        let _ = writeln!(text, "  CPU {}: {}", one.cpu, top_counter(one));
    }
    if let Some(why) = all.about.why.as_ref().filter(|_| coarse) {
        let _ = writeln!(text, "  Not by tracefs: {}", visible(why));
    }
    text
}

fn sum(counts: &[Count]) -> u64 {
    counts.iter().map(|count| count.count).sum()
}

/// The most frequent ones, by the second.
fn top_counter(one: &CpuCounters) -> String {
    let seconds = one.elapsed_ns.max(1) as f64 / 1e9;
    let per_s = |counts: &[Count]| -> Vec<String> {
        let named = counts.iter().take(NAMED);
        named
            .map(|count| {
                format!(
                    "{} {:.0}/s",
                    visible(&count.name),
                    count.count as f64 / seconds
                )
            })
            .collect()
    };
    let all = [per_s(&one.interrupts), per_s(&one.softirqs)].concat();
    if all.is_empty() {
        "nothing".to_owned()
    } else {
        all.join(", ")
    }
}

/// Adds to the figures of a CPU who took how much, and what /proc counted.
pub(super) fn add_json(figures: &mut Value, cpu: &CpuTrace, all: &Attribution) {
    if !all.cpus.is_empty() {
        figures["causes"] = json!(by_cpu(cpu, all));
    }
    let mut counters = all.about.counters.iter();
    if let Some(one) = counters.find(|one| one.cpu == cpu.cpu) {
        figures["counters"] = json!(one);
    }
}

/// All that is known, as `convert` writes it.
pub(super) fn json(all: &Attribution) -> Value {
    let cpus: Vec<Value> = all
        .cpus
        .iter()
        .map(|cpu| {
            let causes = cpu.causes.iter();
            json!({
                "cpu": cpu.cpu,
                "known": cpu.known,
                "causes": causes
                    .map(|cause| (cause.start_ns, cause.length_ns, cause.source))
                    .collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({"about": all.about, "sources": all.sources, "cpus": cpus})
}

/// A row for each cause of each event, and for what they leave of it. Names
/// stand in quotes, for a task may be called anything.
pub(super) fn csv(trace: &JitterTrace, all: &Attribution, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "cpu,event_start_ns,event_length_ns,kind,name,number,start_ns,gross_ns,net_ns,depth"
    )?;
    let nothing = CpuCauses::default();
    for cpu in &trace.cpus {
        let causes = all.of(cpu.cpu).unwrap_or(&nothing);
        for one in explain(&cpu.events, causes) {
            let event = format!("{},{},{}", cpu.cpu, one.event.start_ns, one.event.length_ns);
            for share in &one.causes {
                let cause = &share.cause;
                let Some(source) = all.sources.get(cause.source as usize) else {
                    continue;
                };
                let number = source.number.map(|number| number.to_string());
                writeln!(
                    out,
                    "{event},{},\"{}\",{},{},{},{},{}",
                    source.kind.name(),
                    source.name.replace('"', "\"\""),
                    number.unwrap_or_default(),
                    cause.start_ns,
                    cause.length_ns,
                    share.net_ns,
                    share.depth
                )?;
            }
            let rest = match (one.known, one.causes.is_empty()) {
                (false, _) => RowSubject::Unknown,
                (true, true) => RowSubject::Elsewhere,
                (true, false) => RowSubject::Around,
            };
            let (name, kind) = rest.names();
            let left = one.left_ns;
            writeln!(out, "{event},{kind},\"{name}\",,,{left},{left},")?;
        }
    }
    Ok(())
}
