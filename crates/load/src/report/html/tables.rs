// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the page.

use maud::{Markup, html};

use crate::method::{Scope, by_name};
use crate::report::columns::{CPU_COLUMNS, CpuColumn};
use crate::report::parts;
use crate::report::run::{CommandResult, CpuResult, NodeUse, Run, worst_first};
use crate::report::view::View;
use sandbag_run::machine::MachineFacts;
use sandbag_ui::text::{command_line, visible};

/// Tables with more lines scroll on the screen; on paper they are whole.
const LONG: usize = 16;

pub(super) fn cpus(view: &View<'_>) -> Markup {
    let (run, words) = (&*view.run, view.words);
    let known = |column: &CpuColumn| run.cpus.iter().any(|cpu| column.value(&[cpu]).is_some());
    let columns = CPU_COLUMNS.iter().filter(|c| !c.is_optional || known(c));
    let columns: Vec<&CpuColumn> = columns.collect();
    let long = run.cpus.len() > LONG;
    let order: Vec<&CpuResult> = if long {
        worst_first(&run.cpus)
    } else {
        run.cpus.iter().collect()
    };
    html! {
        @if run.cpus.is_empty() {
            p { "No CPU was " (words.held) "." }
        } @else {
            div .table.long[long] {
                table {
                    thead {
                        tr {
                            th { "CPU" }
                            @for column in &columns {
                                @let (name, unit) = (column.head)(words);
                                th { (name) small { (unit) } }
                            }
                        }
                    }
                    tbody { @for cpu in &order { (cpu_row(cpu, &columns)) } }
                }
            }
            @if long { p .note { "All " (order.len()) " CPUs, the worst first." } }
        }
    }
}

fn cpu_row(cpu: &CpuResult, columns: &[&CpuColumn]) -> Markup {
    html! {
        tr {
            th { (cpu.cpu) }
            @for column in columns {
                td { (column.text(&[cpu]).map_or_else(empty_cell, |text| text.replace('-', "\u{2212}"))) }
            }
        }
    }
}

/// What the command did and was granted, in all and per CPU.
pub(super) fn program(view: &View<'_>, command: &CommandResult) -> Markup {
    let run = &*view.run;
    let ended = match (command.exit_code, command.signal) {
        (_, Some(signal)) => format!("by signal {signal}"),
        (Some(code), None) => format!("with code {code}"),
        (None, None) => "unknown".to_owned(),
    };
    // What slows a whole node burns nothing: its time is no part of the busy time.
    let burns = by_name(&run.method.name).is_none_or(|m| m.scope == Scope::Cpu);
    let per_cpu = run
        .cpus
        .iter()
        .any(|c| c.command_s.is_some() || c.busy_s.is_some());
    html! {
        section {
            h2 { "What the program got" }
            pre { code { (command_line(&command.arguments)) } }
            div .columns {
            dl .facts {
                (fact("wall time", &seconds(command.wall_s)))
                (fact("user time", &seconds(command.user_s)))
                (fact("system time", &seconds(command.system_s)))
                (fact("CPU time", &seconds(command.user_s + command.system_s)))
                @if let Some(used) = command.used_s {
                    (fact("CPU time under the load", &seconds(used)))
                }
                @if let Some(available) = command.available_s {
                    (fact("CPU time available under the load", &seconds(available)))
                }
                @if let Some(efficiency) = command.efficiency {
                    (fact("efficiency, used per available", &format!("{:.1} %", efficiency * 100.0)))
                }
                (fact("context switches, voluntary / forced", &format!("{} / {}", command.switches.0, command.switches.1)))
                @if let Some(migrations) = command.migrations {
                    (fact(
                        &match &command.migrations_of {
                            Some(whose) => format!("migrations, {whose}"),
                            None => "migrations".to_owned(),
                        },
                        &migrations.to_string()
                    ))
                }
                (fact("ended", &ended))
            }
            @if per_cpu {
                div .table.long[run.cpus.len() > LONG] {
                    table {
                        thead {
                            tr {
                                th { "CPU" }
                                th { "program" small { "s" } }
                                th { (view.words.taken) small { "s" } }
                                th { "others" small { "s" } }
                                th { "busy in all" small { "s" } }
                            }
                        }
                        tbody { @for cpu in &run.cpus { (time_row(cpu, burns)) } }
                    }
                }
            }
            }
        }
    }
}

fn time_row(cpu: &CpuResult, burns: bool) -> Markup {
    let short = |s: f64| format!("{s:.2}");
    let burned = if burns { cpu.burner_s } else { 0.0 };
    let others = cpu
        .busy_s
        .map(|busy| (busy - burned - cpu.command_s.unwrap_or(0.0)).max(0.0));
    html! {
        tr {
            th { (cpu.cpu) }
            td { (cpu.command_s.map_or_else(empty_cell, short)) }
            td { (short(cpu.burner_s)) }
            td { (others.map_or_else(empty_cell, short)) }
            td { (cpu.busy_s.map_or_else(empty_cell, short)) }
        }
    }
}

/// What the programs in a node did, as far as it is known.
pub(super) fn node(node: &NodeUse) -> Markup {
    let figure = |name: &str, value: &str| html! { div { dt { (name) } dd { (value) } } };
    html! {
        section {
            h2 { "What the programs in the node did" }
            dl .figures {
                (figure("programs entered", &node.entered.to_string()))
                @if let Some(used) = node.used_s { (figure("used, CPU time", &seconds(used))) }
                @if let Some(waited) = node.waited_s { (figure("waited for a CPU", &seconds(waited))) }
                @if let Some(throttled) = node.throttle_warning() { (figure("throttled", &throttled)) }
                (figure("new speeds while it ran", &node.speed_changes.to_string()))
            }
        }
    }
}

/// What held beside the speed, and what was left.
pub(super) fn parts(run: &Run) -> Markup {
    let rows = parts::rows(run);
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Beside the speed, percent of the CPU at full speed" }
                @for part in &run.parts {
                    p { (visible(&part.name)) ": " (visible(&part.asked)) ". " (visible(&part.reason)) }
                }
                table {
                    thead { tr { @for name in parts::HEAD { th { (name) } } } }
                    tbody { @for row in &rows { tr { @for cell in row { td { (cell) } } } } }
                }
            }
        }
    }
}

pub(super) fn cost(view: &View<'_>) -> Markup {
    let cost = &view.run.supervisor;
    html! {
        section {
            h2 { "What sandbag cost" }
            dl .facts {
                (fact("supervisor and guardian", &format!("{:.3} s of CPU time", cost.cpu_s)))
                (fact(&format!("per {} CPU", view.words.held), &format!("{:.3} % of one core", cost.pct_per_cpu)))
                (fact("wake-ups", &cost.wakeups.to_string()))
                (fact("writes to the group tree", &cost.writes.to_string()))
                (fact("resident, most", &mebibytes(cost.resident_kib)))
                (fact("burner's private memory, most", &format!("{} KiB", cost.burner_private_kib)))
                (fact("latest change of level", &format!("{:.2} ms", cost.worst_switch_delay_ms)))
            }
        }
    }
}

pub(super) fn method(run: &Run) -> Markup {
    let method = &run.method;
    html! {
        section {
            h2 { "Method and tolerance" }
            dl .facts {
                (fact("method", &method.name))
                @if method.period_ms > 0.0 {
                    (fact("period", &format!("{} ms", method.period_ms)))
                }
                @for (name, value) in &method.parameters { (fact(name, value)) }
                (fact("kept: mean abs. error at most", &points(run.tolerance.mean_points)))
                (fact("kept: 99 % of 1 s windows within", &points(run.tolerance.window_points)))
            }
        }
    }
}

pub(super) fn machine(machine: &MachineFacts) -> Markup {
    html! {
        section {
            h2 { "Machine" }
            dl .facts {
                (fact("host", &machine.host))
                (fact("CPU", &machine.cpu_model))
                (fact("CPUs online", &machine.cpus_online.to_string()))
                (fact("kernel", &machine.kernel))
                (fact("group layout", &machine.layout))
                @for (name, value) in &machine.facts { (fact(name, value)) }
            }
        }
    }
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (visible(name)) } dd { (visible(value)) } } }
}

pub(super) fn empty_cell() -> String {
    "–".to_owned()
}

fn seconds(s: f64) -> String {
    format!("{s:.2} s")
}

fn points(value: f64) -> String {
    let unit = if value == 1.0 { "point" } else { "points" };
    format!("{value} {unit}")
}

fn mebibytes(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}
