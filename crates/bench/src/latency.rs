// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a load does to a task that wakes up: the delay of a 1 ms sleeper
//! beside the default burner at 50 %, and beside an ordinary spinner of nice 0
//! on the same CPU, in turn. The target is a ratio of at most 1.5.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use sandbag_measure::{PairedRatio, paired_ratio};
use serde::{Deserialize, Serialize};

use crate::child::Running;
use crate::compete::account::monotonic_ns;
use crate::compete::kinds::sleep_until;
use crate::runner::Bench;

/// Period of the sleeper.
const PERIOD_NS: u64 = 1_000_000;

/// Arguments of `latency`.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    /// How long to measure, seconds
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// CPU to sleep on
    #[arg(long)]
    pub cpu: usize,
}

/// Quantiles of the delay, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// Wake-ups.
    pub wakeups: usize,
    /// Half of the delays are at most this.
    pub p50_us: f64,
    /// 90 % are.
    pub p90_us: f64,
    /// 99 % are.
    pub p99_us: f64,
}

impl Delays {
    fn of(mut delays_ns: Vec<u64>) -> Option<Self> {
        delays_ns.sort_unstable();
        let quantile = |share: f64| {
            let rank = (share * delays_ns.len() as f64).ceil() as usize;
            delays_ns.get(rank.max(1) - 1).map(|ns| *ns as f64 / 1000.0)
        };
        Some(Self {
            wakeups: delays_ns.len(),
            p50_us: quantile(0.5)?,
            p90_us: quantile(0.9)?,
            p99_us: quantile(0.99)?,
        })
    }
}

/// `sandbag-bench latency`: sleeps on absolute deadlines and prints the
/// delays as JSON.
pub fn latency(args: &LatencyArgs) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(args.cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .with_context(|| format!("pin to CPU {}", args.cpu))?;
    // The default slack of 50 us would be part of every delay.
    nix::sys::prctl::set_timerslack(1).context("prctl(PR_SET_TIMERSLACK)")?;
    let end = monotonic_ns() + u64::from(args.seconds) * 1_000_000_000;
    let mut delays = Vec::with_capacity(args.seconds as usize * 1000);
    let mut due = monotonic_ns() + PERIOD_NS;
    while due < end {
        sleep_until(due);
        let now = monotonic_ns();
        delays.push(now - due);
        // A deadline that has passed meanwhile is skipped, not made up for.
        due += PERIOD_NS * (1 + (now - due) / PERIOD_NS);
    }
    let delays = Delays::of(delays).context("not one wake-up")?;
    println!("{}", serde_json::to_string(&delays)?);
    Ok(())
}

/// One round of both.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// Beside the burner.
    pub burner: Delays,
    /// Beside the spinner.
    pub spinner: Delays,
}

/// One line of the table: a quantile, both medians, the ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name of the quantile.
    pub name: &'static str,
    /// Median beside the burner, microseconds.
    pub burner_us: f64,
    /// Median beside the spinner, microseconds.
    pub spinner_us: f64,
    /// Burner to spinner, pair by pair.
    pub ratio: Option<PairedRatio>,
}

/// The table from the pairs.
pub fn lines(pairs: &[Pair]) -> Vec<Line> {
    type Quantile = fn(&Delays) -> f64;
    let quantiles: [(&str, Quantile); 3] = [
        ("p50", |d| d.p50_us),
        ("p90", |d| d.p90_us),
        ("p99", |d| d.p99_us),
    ];
    quantiles
        .into_iter()
        .filter_map(|(name, of)| {
            let burner: Vec<f64> = pairs.iter().map(|p| of(&p.burner)).collect();
            let spinner: Vec<f64> = pairs.iter().map(|p| of(&p.spinner)).collect();
            Some(Line {
                name,
                burner_us: crate::stats::median(&burner)?,
                spinner_us: crate::stats::median(&spinner)?,
                ratio: paired_ratio(&burner, &spinner),
            })
        })
        .collect()
}

impl Bench {
    /// Measures both in turn, `rounds` times, on the last CPU.
    pub fn latency_pairs(&self, rounds: usize, seconds: u32) -> Result<Vec<Pair>> {
        let cpu = self.cpus.iter().next_back().context("no CPU to load")?;
        (0..rounds)
            .map(|round| {
                let dir = self.work.join(format!("latency-{round}"));
                std::fs::create_dir_all(&dir)?;
                Ok(Pair {
                    burner: self.beside_burner(&dir, cpu, seconds)?,
                    spinner: self.beside_spinner(&dir, cpu, seconds)?,
                })
            })
            .collect()
    }

    fn sleeper(&self, cpu: u32, seconds: u32) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["latency", &seconds.to_string(), "--cpu", &cpu.to_string()]);
        command
    }

    fn beside_burner(&self, dir: &Path, cpu: u32, seconds: u32) -> Result<Delays> {
        let sleeper = self.sleeper(cpu, seconds);
        let mut command = Command::new(&self.sandbag);
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(name);
        }
        command
            .args(["load", "50", "--cpus", &cpu.to_string()])
            .args(["-d", &format!("{}s", seconds + 5), "-q", "--out"])
            .arg(dir.join("run"))
            .arg("--")
            .arg(sleeper.get_program())
            .args(sleeper.get_args());
        delays(command, &dir.join("burner.json"), seconds)
    }

    fn beside_spinner(&self, dir: &Path, cpu: u32, seconds: u32) -> Result<Delays> {
        let mut spin = Command::new(&self.program);
        spin.args(["compete", "spin", "1", &(seconds + 30).to_string()])
            .args(["--cpus", &cpu.to_string(), "--sessions"])
            .stdout(Stdio::null());
        let _spinner = Running::start(spin, Signal::SIGKILL, None)?;
        crate::interrupt::sleep_until(Instant::now() + Duration::from_millis(500))?;
        delays(
            self.sleeper(cpu, seconds),
            &dir.join("spinner.json"),
            seconds,
        )
    }
}

/// Runs the command to its end and reads the delays that it printed.
fn delays(mut command: Command, output: &Path, seconds: u32) -> Result<Delays> {
    command
        .stdin(Stdio::null())
        .stdout(File::create(output)?)
        .stderr(Stdio::null());
    let give_up = Instant::now() + Duration::from_secs(u64::from(seconds) + 30);
    let mut running = Running::start(command, Signal::SIGTERM, None)?;
    let status = running
        .wait_until(give_up)?
        .context("the sleeper did not end")?;
    ensure!(status.success(), "the sleeper ended with {status}");
    let text = std::fs::read_to_string(output)?;
    serde_json::from_str(&text).with_context(|| format!("understand `{}`", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(scale: f64) -> Delays {
        Delays {
            wakeups: 1000,
            p50_us: 10.0 * scale,
            p90_us: 15.0 * scale,
            p99_us: 25.0 * scale,
        }
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let d = Delays::of((1..=100).map(|us| us * 1000).rev().collect()).unwrap();
        assert_eq!(
            (d.wakeups, d.p50_us, d.p90_us, d.p99_us),
            (100, 50.0, 90.0, 99.0)
        );
        assert_eq!(Delays::of(vec![7000]).unwrap().p99_us, 7.0);
        assert_eq!(Delays::of(Vec::new()), None);
    }

    #[test]
    fn a_slow_minute_does_not_change_the_ratio() {
        let pairs: Vec<Pair> = [1.0, 4.0, 2.0]
            .into_iter()
            .map(|drift| Pair {
                burner: delays(1.2 * drift),
                spinner: delays(drift),
            })
            .collect();
        let lines = lines(&pairs);
        assert_eq!(lines.len(), 3);
        for line in lines {
            assert!(
                (line.ratio.unwrap().ratio - 1.2).abs() < 1e-9,
                "{}",
                line.name
            );
        }
    }
}
