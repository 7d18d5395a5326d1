// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of other programs than sysstat's older ones.

use std::io::{Result, Write};

use sandbag_profile::Format;

use super::{BEGIN_S, CPUS, Percent, rows};

/// user, nice, sys, idle, wait.total, steal, with a place among [`ticks`].
///
/// [`ticks`]: super::sample
const PCP: [(&str, usize); 6] = [
    ("user", 0),
    ("nice", 1),
    ("sys", 2),
    ("idle", 5),
    ("wait.total", 3),
    ("steal", 4),
];

pub fn head(format: Format, out: &mut impl Write) -> Result<()> {
    match format {
        Format::MpstatText => writeln!(out, "Linux 6.1.0 (vm) \t2026-11-21 \t_x86_64_\t(16 CPU)"),
        Format::CollectlRaw => write!(
            out,
            "{0}\n# Collectl:   V4.3.1-1  HiRes: 1  Options: -sC -i1 -f x\n# Host:       vm  DaemonOpts: \n\
             # Date:       20261121-000000  Secs: {BEGIN_S} TZ: +0000\n\
             # SubSys:     C Options:  Interval: 1 NumCPUs: {CPUS}  NumBud: 0 Flags: i\n\
             # HZ:         100  Arch: x86_64-linux-gnu PageSize: 4096\n{0}\n",
            "#".repeat(80)
        ),
        Format::PmrepCsv => {
            write!(out, "Time")?;
            for (name, _) in PCP {
                (0..CPUS).try_for_each(|c| write!(out, ",\"kernel.percpu.cpu.{name}-cpu{c}\""))?;
            }
            writeln!(out)
        }
        Format::Swf => writeln!(out, "; MaxProcs: 128\n; UnixStartTime: {BEGIN_S}"),
        _ => Ok(()),
    }
}

/// Adds a second of ticks; whether the format is one of these.
pub fn sample(
    format: Format,
    second: u64,
    ticks: &mut [[u64; 6]],
    out: &mut Vec<u8>,
) -> Result<bool> {
    let (hour, minute, sec) = (second / 3600 % 24, second / 60 % 60, second % 60);
    let day = 21 + second / 86_400;
    let now_s = BEGIN_S + second;
    match format {
        Format::MpstatText => {
            let last = second - 1;
            let (h, m, s) = (last / 3600 % 24, last / 60 % 60, last % 60);
            writeln!(
                out,
                "\n{h:02}:{m:02}:{s:02}     CPU    %usr   %nice    %sys %iowait    %irq   %soft  \
                 %steal  %guest  %gnice   %idle"
            )?;
            for (cpu, [user, nice, system, iowait, steal, idle]) in rows(second) {
                let cpu = cpu.map_or_else(|| "all".into(), |c| c.to_string());
                write!(out, "{hour:02}:{minute:02}:{sec:02}     {cpu:>3}")?;
                for value in [user, nice, system, iowait, 0, 0, steal, 0, 0, idle] {
                    write!(out, " {:>7}", Percent(value))?;
                }
                out.push(b'\n');
            }
        }
        Format::Atop => {
            if second == 1 {
                writeln!(out, "RESET")?;
            }
            let interval = if second == 1 { 40_000 } else { 1 };
            for (cpu, states) in rows(second) {
                let Some(cpu) = cpu else { continue };
                let [user, nice, system, iowait, steal, idle] = states.map(|s| s / 100);
                writeln!(
                    out,
                    "cpu vm {now_s} 2026/11/{day:02} {hour:02}:{minute:02}:{sec:02} {interval} 100 \
                     {cpu} {system} {user} {nice} {idle} {iowait} 0 0 {steal} 0 2596 100 0 0"
                )?;
            }
            writeln!(out, "SEP")?;
        }
        Format::CollectlRaw | Format::PmrepCsv | Format::Pmdumplog => {
            for ((_, states), ticks) in rows(second).zip(ticks.iter_mut()) {
                ticks
                    .iter_mut()
                    .zip(states)
                    .for_each(|(t, s)| *t += s / 100);
            }
            counters(format, second, &ticks[1..], out)?;
        }
        Format::Swf => {
            // A job a second that takes some seconds.
            let (run, procs) = (second * 7 % 50, second % 16);
            writeln!(
                out,
                "{second:>8} {second:>10} {:>6} {run:>6} {procs:>4} {run:>6} -1 {procs:>4} {run:>6} \
                 -1 1 {} 1 -1 1 -1 -1 -1",
                second % 3,
                second % 40
            )?;
        }
        Format::Azure => {
            let (_, [user, ..]) = rows(second).last().unwrap_or((None, [0; 6]));
            let id = "a1b2".repeat(16);
            let mean = Percent(user);
            writeln!(out, "{},{id},{mean},{mean},{mean}", (second - 1) * 300)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn counters(format: Format, second: u64, ticks: &[[u64; 6]], out: &mut Vec<u8>) -> Result<()> {
    let (hour, minute, sec) = (second / 3600 % 24, second / 60 % 60, second % 60);
    let day = 21 + second / 86_400;
    match format {
        Format::CollectlRaw => {
            writeln!(out, ">>> {}.001 <<<", BEGIN_S + second)?;
            for (cpu, [user, nice, system, iowait, steal, idle]) in ticks.iter().enumerate() {
                writeln!(
                    out,
                    "cpu{cpu} {user} {nice} {system} {idle} {iowait} 0 0 {steal} 0 0"
                )?;
            }
        }
        Format::PmrepCsv => {
            write!(out, "2026-11-{day:02} {hour:02}:{minute:02}:{sec:02}")?;
            for (_, place) in PCP {
                ticks
                    .iter()
                    .try_for_each(|cpu| write!(out, ",{}", cpu[place] * 10))?;
            }
            writeln!(out)?;
        }
        _ => {
            if second == 1 {
                writeln!(out, "Note: timezone set to \"TZ=UTC\"\n")?;
            }
            writeln!(
                out,
                "\nSat Nov {day:02} {hour:02}:{minute:02}:{sec:02}.064957 2026 6 metrics"
            )?;
            for (i, (name, place)) in PCP.into_iter().enumerate() {
                writeln!(out, "    60.0.{i} (kernel.percpu.cpu.{name}):")?;
                for (cpu, ticks) in ticks.iter().enumerate() {
                    writeln!(
                        out,
                        "        inst [{cpu} or \"cpu{cpu}\"] value {}",
                        ticks[place] * 10
                    )?;
                }
            }
        }
    }
    Ok(())
}
