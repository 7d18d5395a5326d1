// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `spinner SECONDS WORKER...`: see [`sandbag_machine_tests::spinner`].

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use nix::unistd::Pid;
use sandbag_machine_tests::spinner::{SAMPLE, SpinnerCpu, SpinnerResult, Worker};
use sandbag_machine_tests::stat;

const USAGE: &str = "usage: spinner SECONDS WORKER...
WORKER is a CPU to be pinned to, `any` for none, `all` for one pinned to each CPU allowed, or
`sleepers` for one pinned to each of them that sleeps 1 ms at a time instead.
Prints one line of JSON: what each worker and each CPU got.";

/// A sleeper's time between two wake-ups.
const SLEEP: Duration = Duration::from_millis(1);

/// First argument of a worker, which is this same program.
const WORKER: &str = "--worker";

/// What a worker prints when it is there and pinned.
const READY: &str = "ready";

/// From the moment at which all workers are ready to the common start: they
/// must be told, on CPUs that may be loaded.
const LEAD: Duration = Duration::from_millis(300);

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == WORKER => worker(rest),
        Some((seconds, workers)) if !workers.is_empty() => parent(seconds, workers),
        _ => bail!("{USAGE}"),
    }
}

fn parent(seconds: &str, workers: &[String]) -> anyhow::Result<()> {
    let length = seconds
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .with_context(|| format!("{seconds:?} is not a number of seconds\n{USAGE}"))?;
    // Loading a program takes long on a loaded CPU, so the interval is fixed
    // only when all of them are there.
    let mut started = pins(workers)?
        .into_iter()
        .map(start)
        .collect::<anyhow::Result<Vec<_>>>()?;
    for (_, lines) in &mut started {
        let mut line = String::new();
        lines.read_line(&mut line)?;
        if line.trim_end() != READY {
            bail!("a worker is not ready");
        }
    }
    let start = now()? + LEAD;
    let end = start + length;
    for (child, _) in &mut started {
        let mut stdin = child.stdin.take().context("a worker without input")?;
        writeln!(stdin, "{} {}", start.as_nanos(), end.as_nanos())?;
    }

    sleep_until(start)?;
    let before = stat::read()?;
    let workers = started
        .into_iter()
        .map(|(mut child, lines)| {
            let worker = serde_json::from_reader(lines).context("a worker's answer");
            let status = child.wait()?;
            if !status.success() {
                bail!("a worker failed: {status}");
            }
            worker
        })
        .collect::<anyhow::Result<Vec<Worker>>>()?;
    let after = stat::read()?;

    let wall_s = length.as_secs_f64();
    let cpus = after
        .iter()
        .filter_map(|(cpu, after)| Some((cpu.as_ref()?, after)))
        .map(|(cpu, after)| {
            let here = workers
                .iter()
                .filter_map(|worker| worker.per_cpu_s.get(cpu));
            let spun_s = here.fold(0.0, |sum, spun_s| sum + spun_s);
            let time = after.since(before.get(&Some(*cpu)).copied().unwrap_or_default());
            SpinnerCpu {
                cpu: *cpu,
                spun_s,
                spun_pct: 100.0 * spun_s / wall_s,
                busy_s: time.busy_s,
                idle_s: time.idle_s,
                steal_s: time.steal_s,
                irq_s: time.irq_s,
            }
        })
        .collect();
    let spun = SpinnerResult {
        wall_s,
        workers,
        cpus,
    };
    println!("{}", serde_json::to_string(&spun)?);
    Ok(())
}

/// Starts a worker; its output is read line by line.
fn start(pin: Pin) -> anyhow::Result<(Child, BufReader<ChildStdout>)> {
    let mut child = Command::new("/proc/self/exe")
        .arg(WORKER)
        .arg(
            pin.cpu
                .map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()),
        )
        .args(pin.sleeps.then_some("sleeps"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a worker")?;
    let lines = child.stdout.take().context("a worker without output")?;
    Ok((child, BufReader::new(lines)))
}

/// How a worker is to be.
#[derive(Clone, Copy)]
struct Pin {
    /// To be pinned to.
    cpu: Option<u32>,
    sleeps: bool,
}

fn pins(workers: &[String]) -> anyhow::Result<Vec<Pin>> {
    let mut pins = Vec::new();
    for worker in workers {
        let sleeps = worker == "sleepers";
        match worker.as_str() {
            "any" => pins.push(Pin { cpu: None, sleeps }),
            "all" | "sleepers" => {
                let allowed = sched_getaffinity(Pid::from_raw(0))?;
                for cpu in 0..CpuSet::count() {
                    if allowed.is_set(cpu)? {
                        let cpu = Some(u32::try_from(cpu)?);
                        pins.push(Pin { cpu, sleeps });
                    }
                }
            }
            cpu => {
                let cpu = cpu
                    .parse()
                    .with_context(|| format!("{cpu:?} is no worker\n{USAGE}"))?;
                pins.push(Pin {
                    cpu: Some(cpu),
                    sleeps,
                });
            }
        }
    }
    Ok(pins)
}

fn worker(arguments: &[String]) -> anyhow::Result<()> {
    let [pin, sleeps @ ..] = arguments else {
        bail!("{USAGE}");
    };
    // The kernel calls what runs /proc/self/exe `exe`.
    std::fs::write("/proc/self/comm", "spinner")?;
    let pinned: Option<u32> = pin.parse().ok();
    if let Some(cpu) = pinned {
        let mut set = CpuSet::new();
        set.set(usize::try_from(cpu)?)?;
        sched_setaffinity(Pid::from_raw(0), &set)
            .with_context(|| format!("cannot be pinned to CPU {cpu}"))?;
    }
    println!("{READY}");
    let mut interval = String::new();
    std::io::stdin().read_line(&mut interval)?;
    let (start, end) = interval.trim_end().split_once(' ').context("no interval")?;
    let start = Duration::from_nanos(start.parse()?);
    let end = Duration::from_nanos(end.parse()?);
    sleep_until(start)?;

    let late = now()?.saturating_sub(start);
    let mut per_cpu = BTreeMap::<u32, Duration>::new();
    let first_used = used()?;
    let mut last_used = first_used;
    let mut next_look = start;
    while !sleeps.is_empty() && now()? < end {
        sleep_until(now()? + SLEEP)?;
    }
    loop {
        let now = now()?;
        if now < next_look && now < end {
            std::hint::spin_loop();
            continue;
        }
        let used = used()?;
        let cpu = u32::try_from(sched_getcpu()?)?;
        *per_cpu.entry(cpu).or_default() += used.saturating_sub(last_used);
        last_used = used;
        if now >= end {
            break;
        }
        next_look = now + SAMPLE;
    }

    let worker = Worker {
        pinned,
        cpu_s: last_used.saturating_sub(first_used).as_secs_f64(),
        late_s: late.as_secs_f64(),
        per_cpu_s: per_cpu
            .into_iter()
            .map(|(cpu, used)| (cpu, used.as_secs_f64()))
            .collect(),
    };
    println!("{}", serde_json::to_string(&worker)?);
    Ok(())
}

fn now() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from)
}

fn used() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}

fn sleep_until(deadline: Duration) -> nix::Result<()> {
    let clock = ClockId::CLOCK_MONOTONIC;
    loop {
        match clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &deadline.into()) {
            Err(nix::errno::Errno::EINTR) => {}
            other => return other.map(|_| ()),
        }
    }
}
