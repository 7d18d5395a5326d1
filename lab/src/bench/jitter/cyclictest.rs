// SPDX-License-Identifier: Apache-2.0 OR MIT
//! cyclictest (rt-tests): how late a thread of a priority wakes up.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use sandbag_linux::child::ChildSetup as _;

use crate::program::command;

/// Wake-up latencies, us.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delays {
    pub p50: f64,
    pub p99: f64,
    pub most: f64,
}

/// Delays above are not in the histogram, ns; the longest is printed beside it.
/// In whole microseconds (without `-N`) a delay would be cut to the one below,
/// half of one too short in the mean.
const BINS: u32 = 1_000_000;

/// Runs it on a CPU, a wake-up every millisecond.
pub fn run(dir: &Path, cpu: u32, priority: u8, seconds: u32) -> Result<Delays> {
    started(dir, cpu, priority, 1_000, seconds)?.end()
}

pub struct Running {
    child: Option<Child>,
}

const STARTED: Duration = Duration::from_millis(300);

impl Running {
    /// Starts it on a CPU, with a wake-up every `interval_us`; it ends by itself after
    /// `most_s`.
    pub fn start(
        dir: &Path,
        cpu: u32,
        priority: u8,
        interval_us: u32,
        most_s: u32,
    ) -> Result<Self> {
        let running = started(dir, cpu, priority, interval_us, most_s)?;
        std::thread::sleep(STARTED);
        Ok(running)
    }

    /// Ends it, as Ctrl-C does.
    pub fn stop(self) -> Result<Delays> {
        if let Some(child) = &self.child {
            let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT)?;
        }
        self.end()
    }

    fn end(mut self) -> Result<Delays> {
        let child = self.child.take().context("it has ended")?;
        let output = child.wait_with_output()?;
        ensure!(
            output.status.success(),
            "cyclictest: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        parse(&String::from_utf8(output.stdout)?).context("cyclictest printed no histogram")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn started(dir: &Path, cpu: u32, priority: u8, interval_us: u32, seconds: u32) -> Result<Running> {
    let words = format!("-t1 -p{priority} -i{interval_us} -D{seconds} -a{cpu} -m -q -N -h{BINS}");
    let child = command("cyclictest", &words)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .die_with_us(libc::SIGTERM)
        .spawn()
        .context("cyclictest (package rt-tests)")?;
    Ok(Running { child: Some(child) })
}

/// `000017000 000123` is a bin, ns; `# Max Latencies: 00321000` the longest.
fn parse(text: &str) -> Option<Delays> {
    let bins: Vec<(f64, u64)> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let bin = words.next()?.parse().ok()?;
            Some((bin, words.next()?.parse().ok()?))
        })
        .collect();
    let all: u64 = bins.iter().map(|(_, count)| count).sum();
    let at = |part: f64| {
        let rank = (all as f64 * part).ceil() as u64;
        let mut below = 0;
        let found = bins.iter().find(|(_, count)| {
            below += count;
            below >= rank
        });
        found.map(|(bin, _)| bin / 1e3)
    };
    let most = text
        .lines()
        .find_map(|line| line.strip_prefix("# Max Latencies:"))
        .and_then(|rest| rest.trim().parse().ok())
        .or_else(|| bins.iter().rfind(|(_, n)| *n > 0).map(|(bin, _)| *bin))
        .map(|ns: f64| ns / 1e3);
    Some(Delays {
        p50: at(0.5).filter(|_| all > 0)?,
        p99: at(0.99)?,
        most: most?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_histogram() {
        let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000000\n003100 000060\n\
                    004000 000038\n020000 000002\n# Total: 000000100\n# Min Latencies: 03100\n\
                    # Avg Latencies: 03700\n# Max Latencies: 321000\n";
        assert_eq!(
            parse(text),
            Some(Delays {
                p50: 3.1,
                p99: 20.0,
                most: 321.0
            })
        );
        assert_eq!(parse("# nothing\n"), None);
        assert_eq!(parse("000000 000000\n"), None);
    }
}
