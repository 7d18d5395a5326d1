// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Causes of events, for `show` and `convert`.

use std::fmt::Write as _;
use std::io::{self, Write};

use sandbag_ui::text::visible;
use serde_json::{Value, json};

use crate::attribution::{RowSubject, SourceRow, by_cpu, processes, table};
use crate::causes::{Attribution, AttributionMethod, Count, CpuCounters};
use crate::tables::{self, TextTable, cell, time_cell};
use crate::{CpuTrace, JitterTrace};

/// Processes that are listed.
const PROCESSES: usize = 10;
/// Characters of a unit or a command line on a terminal.
const WIDTH: usize = 40;
/// Counters that are named.
const NAMED: usize = 4;

/// The tables: time per cause, and counters.
pub(super) fn text(trace: &JitterTrace, all: &Attribution) -> String {
    let mut text = String::new();
    if !all.cpus.is_empty() {
        let rows = table(trace, all);
        let causes = tables::causes(&rows).terminal();
        let _ = writeln!(
            text,
            "\nTime per cause\n{causes}\n\n{}\n{}",
            kinds(&rows),
            remarks(all)
        );
        let processes = tables::processes(&processes(trace, all, PROCESSES), WIDTH);
        if !processes.is_empty() {
            let _ = writeln!(text, "\nTime per process\n{}", processes.terminal());
        }
    }
    if !all.about.counters.is_empty() {
        text.push_str(&counters(all));
    }
    text
}

/// Explanation of the table.
fn remarks(all: &Attribution) -> String {
    let about = &all.about;
    let by = match about.method {
        AttributionMethod::Tracefs => "By the kernel's trace events",
        AttributionMethod::Osnoise => "By the entries of osnoise",
        AttributionMethod::Proc => "By a recording that was cut off",
    };
    let clock = about.clock.as_ref();
    let clock = clock.map_or(String::new(), |clock| {
        format!(" on the clock {}", visible(clock))
    });
    format!(
        "{by}{clock}: {} entries, {} lost, {} began outside of events.\n\
         Gross: from entry to exit. Net: without other causes inside; the net times add up to the \
         noise.",
        about.entries, about.lost, about.outside
    )
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
    let words = sums.iter().map(|(name, pct)| format!("{name} {pct:.2} %"));
    format!("Of the noise: {}.", words.collect::<Vec<_>>().join("; "))
}

/// The counters of /proc.
fn counters(all: &Attribution) -> String {
    let is_coarse = all.cpus.is_empty();
    let mut text = "\nWhat /proc counted from begin to end, pauses included".to_owned();
    if is_coarse {
        text.push_str(
            ": how often, not which event\nof the trace. Coarser than causes by event, for which \
             tracefs is needed",
        );
    }
    let mut table = TextTable::new([
        "CPU",
        "interrupts",
        "soft interrupts",
        "loop preempted",
        "loop waited",
        "irq",
        "softirq",
        "steal",
    ]);
    let sum = |counts: &[Count]| cell(counts.iter().map(|count| count.count).sum::<u64>());
    for one in &all.about.counters {
        table.add([
            cell(one.cpu),
            sum(&one.interrupts),
            sum(&one.softirqs),
            one.preempted.and_then(cell),
            one.waited_ns.and_then(time_cell),
            time_cell(one.irq_ns),
            time_cell(one.softirq_ns),
            time_cell(one.steal_ns),
        ]);
    }
    let _ = writeln!(text, "\n{}", table.terminal());
    for one in &all.about.counters {
        let _ = writeln!(text, "  CPU {}: {}", one.cpu, top_counters(one));
    }
    if let Some(why) = all.about.why.as_ref().filter(|_| is_coarse) {
        let _ = writeln!(text, "  Not by tracefs: {}", visible(why));
    }
    text
}

/// The most frequent interrupts and soft interrupts, per second.
fn top_counters(one: &CpuCounters) -> String {
    let seconds = one.elapsed_ns.max(1) as f64 / 1e9;
    let named = one
        .interrupts
        .iter()
        .take(NAMED)
        .chain(one.softirqs.iter().take(NAMED));
    let per_s = |count: &Count| {
        let rate = count.count as f64 / seconds;
        format!("{} {rate:.0}/s", visible(&count.name))
    };
    let all: Vec<String> = named.map(per_s).collect();
    if all.is_empty() {
        "nothing".to_owned()
    } else {
        all.join(", ")
    }
}

/// Adds causes and counters to the JSON of a CPU.
pub(super) fn add_json(figures: &mut Value, cpu: &CpuTrace, all: &Attribution) {
    if !all.cpus.is_empty() {
        figures["causes"] = json!(by_cpu(cpu, all));
    }
    let mut counters = all.about.counters.iter();
    if let Some(one) = counters.find(|one| one.cpu == cpu.cpu) {
        figures["counters"] = json!(one);
    }
}

/// The whole attribution, as `convert` writes it.
pub(super) fn json(all: &Attribution) -> Value {
    let cpus = all.cpus.iter().map(|cpu| {
        let causes = cpu.causes.iter();
        let causes = causes.map(|cause| (cause.start_ns, cause.length_ns, cause.source));
        let causes: Vec<_> = causes.collect();
        json!({"cpu": cpu.cpu, "known": cpu.known, "causes": causes})
    });
    let cpus: Vec<Value> = cpus.collect();
    json!({"about": all.about, "sources": all.sources, "cpus": cpus})
}

/// A row for each cause of each event, and for the rest of the event. Names are quoted: a
/// task may have any name.
pub(super) fn csv(trace: &JitterTrace, all: &Attribution, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "cpu,event_start_ns,event_length_ns,kind,name,number,start_ns,gross_ns,net_ns,depth"
    )?;
    for cpu in &trace.cpus {
        for one in all.explain(cpu) {
            let event = format!("{},{},{}", cpu.cpu, one.event.start_ns, one.event.length_ns);
            for share in &one.causes {
                let cause = &share.cause;
                let Some(source) = all.sources.get(cause.source as usize) else {
                    continue;
                };
                let name = source.name.replace('"', "\"\"");
                let number = source.number.map(|number| number.to_string());
                writeln!(
                    out,
                    "{event},{},\"{name}\",{},{},{},{},{}",
                    source.kind.name(),
                    number.unwrap_or_default(),
                    cause.start_ns,
                    cause.length_ns,
                    share.net_ns,
                    share.depth
                )?;
            }
            let rest = one.rest();
            let (name, kind) = rest.names();
            let left = one.left_ns;
            writeln!(out, "{event},{kind},\"{name}\",,,{left},{left},")?;
        }
    }
    Ok(())
}
