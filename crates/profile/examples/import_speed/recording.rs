// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made-up recordings as their programs would write them: a sample a second
//! of [`CPUS`] CPUs with loads that change.

#[path = "others.rs"]
mod others;

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

use sandbag_profile::Format;

const CPUS: u64 = 16;
/// 2026-11-21 00:00:00 UTC.
const BEGIN_S: u64 = 1_795_219_200;

pub const FORMATS: [Format; 12] = [
    Format::SadfCsv,
    Format::SarText,
    Format::ProcStat,
    Format::SadfJson,
    Format::Native,
    Format::MpstatText,
    Format::Atop,
    Format::CollectlRaw,
    Format::PmrepCsv,
    Format::Pmdumplog,
    Format::Swf,
    Format::Azure,
];

/// user, nice, system, iowait, steal, idle in hundredths of a percent.
fn states(second: u64, cpu: u64) -> [u64; 6] {
    // A number that looks random; Knuth's multiplier of MMIX.
    let mut random = (second * CPUS + cpu + 1).wrapping_mul(6_364_136_223_846_793_005);
    let mut part = |of: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005) + 1_442_695_040_888_963_407;
        (random >> 33) % of
    };
    let (user, system, iowait) = (part(8000), part(1200), part(300));
    let steal = part(2) * part(200);
    let idle = 10_000 - user - system - iowait - steal;
    [user, 0, system, iowait, steal, idle]
}

struct Percent(u64);

impl std::fmt::Display for Percent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{}.{:02}", self.0 / 100, self.0 % 100))
    }
}

/// The mean of all CPUs, then each.
fn rows(second: u64) -> impl Iterator<Item = (Option<u64>, [u64; 6])> {
    let each = move |cpu| (Some(cpu), states(second, cpu));
    std::iter::once((None, states(second, CPUS))).chain((0..CPUS).map(each))
}

pub fn write(format: Format, path: &Path, bytes: u64) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut written = head(format, &mut out)?;
    let mut text = Vec::new();
    let mut ticks = vec![[100_000u64; 6]; CPUS as usize + 1];
    let mut second = 0;
    while written < bytes {
        second += 1;
        text.clear();
        sample(format, second, &mut ticks, &mut text)?;
        out.write_all(&text)?;
        written += text.len() as u64;
    }
    match format {
        Format::SadfJson => writeln!(out, "\n ], \"restarts\": []\n }}]\n}}}}")?,
        Format::Native => writeln!(out, "{},end", second + 1)?,
        _ => {}
    }
    out.flush()
}

fn head(format: Format, out: &mut impl Write) -> Result<u64> {
    match format {
        Format::SarText => writeln!(out, "Linux 6.1.0 (vm) \t2026-11-21 \t_x86_64_\t(16 CPU)")?,
        Format::SadfJson => write!(
            out,
            "{{\"sysstat\": {{\n \"hosts\": [\n {{\n \"nodename\": \"vm\",\n \"statistics\": ["
        )?,
        Format::Native => {
            write!(out, "time")?;
            (0..CPUS).try_for_each(|c| write!(out, ",cpu{c}"))?;
            (0..CPUS).try_for_each(|c| write!(out, ",steal{c}"))?;
            writeln!(out, "\n0{}", ",0".repeat(2 * CPUS as usize))?;
        }
        _ => others::head(format, out)?,
    }
    Ok(0)
}

fn sample(format: Format, second: u64, ticks: &mut [[u64; 6]], out: &mut Vec<u8>) -> Result<()> {
    if others::sample(format, second, ticks, out)? {
        return Ok(());
    }
    let (hour, minute, sec) = (second / 3600 % 24, second / 60 % 60, second % 60);
    match format {
        Format::SadfCsv => {
            if second == 1 {
                out.extend_from_slice(
                    b"# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n",
                );
            }
            // `sadf` writes the date; a month has enough days for 200 MB.
            let day = 1 + second / 86_400;
            for (cpu, states) in rows(second) {
                let cpu = cpu.map_or_else(|| "-1".into(), |c| c.to_string());
                write!(
                    out,
                    "vm;1;2026-11-{day:02} {hour:02}:{minute:02}:{sec:02} UTC;{cpu}"
                )?;
                states
                    .iter()
                    .try_for_each(|s| write!(out, ";{}", Percent(*s)))?;
                out.push(b'\n');
            }
        }
        Format::SarText => {
            if second % 100 == 1 {
                let last = second - 1;
                let (hour, minute, sec) = (last / 3600 % 24, last / 60 % 60, last % 60);
                writeln!(
                    out,
                    "\n{hour:02}:{minute:02}:{sec:02}        CPU     %user     %nice   %system   \
                     %iowait    %steal     %idle"
                )?;
            }
            for (cpu, states) in rows(second) {
                let cpu = cpu.map_or_else(|| "all".into(), |c| c.to_string());
                write!(out, "{hour:02}:{minute:02}:{sec:02}    {cpu:>7}")?;
                states
                    .iter()
                    .try_for_each(|s| write!(out, "{:>10}", Percent(*s)))?;
                out.push(b'\n');
            }
        }
        Format::ProcStat => {
            writeln!(
                out,
                "# epoch {}.414226{:03}",
                BEGIN_S + second,
                second % 999
            )?;
            for ((cpu, states), ticks) in rows(second).zip(ticks) {
                let cpu = cpu.map_or_else(|| " ".into(), |c| c.to_string());
                let add: [u64; 6] = std::array::from_fn(|i| states[i] / 100);
                ticks.iter_mut().zip(add).for_each(|(t, a)| *t += a);
                let [user, nice, system, iowait, steal, idle] = ticks;
                writeln!(
                    out,
                    "cpu{cpu} {user} {nice} {system} {idle} {iowait} 0 {system} {steal} 0 0"
                )?;
            }
            // What else stands in the file of a small machine.
            write!(out, "intr {}", second * 1000)?;
            (0..60).try_for_each(|n| write!(out, " {}", n % 7 * second))?;
            writeln!(
                out,
                "\nctxt {}\nbtime 1795000000\nprocesses {second}\nprocs_running 1\n\
                 procs_blocked 0\nsoftirq 1 2 3 4 5 6 7 8 9 10 11",
                second * 900
            )?;
        }
        Format::SadfJson => {
            let day = 1 + second / 86_400;
            let comma = if second > 1 { "," } else { "" };
            write!(
                out,
                "{comma}\n {{\n \"timestamp\": {{\"date\": \"2026-11-{day:02}\", \"time\": \
                 \"{hour:02}:{minute:02}:{sec:02}\", \"utc\": 1, \"interval\": 1}},\n \"cpu-load\": ["
            )?;
            let names = ["user", "nice", "system", "iowait", "steal", "idle"];
            for (cpu, states) in rows(second) {
                let comma = if cpu.is_some() { "," } else { "" };
                let cpu = cpu.map_or_else(|| "all".into(), |c| c.to_string());
                write!(out, "{comma}\n {{\"cpu\": \"{cpu}\"")?;
                names
                    .iter()
                    .zip(states)
                    .try_for_each(|(n, s)| write!(out, ", \"{n}\": {}", Percent(s)))?;
                out.push(b'}');
            }
            write!(out, "\n ]\n }}")?;
        }
        _ => {
            write!(out, "{second}")?;
            for i in [5, 4] {
                (0..CPUS).try_for_each(|c| write!(out, ",{}", Percent(states(second, c)[i])))?;
            }
            out.push(b'\n');
        }
    }
    Ok(())
}
