// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag-lab others`: what one reaches for first, held against the same
//! question. stress-ng with a load (`--cpu 1 --cpu-load L`, one per CPU and
//! pinned there) and sandbag's default method, beside spinners; both watched
//! from outside by the same clocks over the same windows of 1 s.
//!
//! A load generator of this kind aims at a share of the time *that it gets*:
//! it sleeps for a while after it has run for a while. Beside a program that
//! is busy it gets less, and sleeps all the same.
//!
//! Where both were started matters, because a session is a scheduling group
//! (autogroup): from one shell the tool's tasks compete with each spinner,
//! from two shells with all spinners of a CPU together.

mod run;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use sandbag_linux::{CpuList, Root};

use crate::bench::cells::rounds;
use crate::bench::programs::Programs;
use crate::program;
use crate::steal::StealMeter;
use run::{Stand, Window};
use sandbag_linux::interrupt;
use sandbag_linux::machine::describe;
use table::{Group, report};

/// Arguments of `others`.
#[derive(Debug, Args)]
pub struct OthersArgs {
    /// The program to hold the others against [default: sandbag beside this
    /// program]
    #[arg(long, value_name = "PATH")]
    sandbag: Option<PathBuf>,
    /// CPUs to load [default: all]
    #[arg(long)]
    cpus: Option<CpuList>,
    /// Windows of 1 s per run
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..=600))]
    windows: u32,
    /// Rounds over all cases
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Only cases whose name contains this; see --list
    #[arg(long, value_name = "TEXT")]
    cases: Option<String>,
    /// Print the cases and stop
    #[arg(long)]
    list: bool,
    /// Seed of the order of the cases
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Write the report here as well
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
}

/// A program that makes a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// stress-ng, one per CPU.
    StressNg,
    /// sandbag's default method.
    Sandbag,
}

/// Where tool and spinners are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shells {
    /// In one session.
    One,
    /// In two.
    Two,
}

/// One case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// Who loads.
    pub tool: Tool,
    /// How much is asked of each CPU, percent.
    pub asked_pct: u32,
    /// Spinners, on all CPUs together.
    pub spinners: usize,
    /// Where both are started.
    pub shells: Shells,
}

impl Case {
    /// As a shell's user would say it.
    pub fn tool_name(&self) -> &'static str {
        match self.tool {
            Tool::StressNg => "stress-ng --cpu-load",
            Tool::Sandbag => "sandbag load",
        }
    }

    /// `one shell` or `two shells`.
    pub fn shells_name(&self) -> &'static str {
        match self.shells {
            Shells::One => "one shell",
            Shells::Two => "two shells",
        }
    }

    /// Name for `--cases`.
    pub fn id(&self) -> String {
        let tool = match self.tool {
            Tool::StressNg => "stress-ng",
            Tool::Sandbag => "sandbag",
        };
        let shells = match self.shells {
            Shells::One => "one",
            Shells::Two => "two",
        };
        format!("{tool}/{}/spin-{}/{shells}", self.asked_pct, self.spinners)
    }

    /// All of them.
    pub fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for tool in [Tool::StressNg, Tool::Sandbag] {
            for asked_pct in [50, 80] {
                for spinners in [2, 5, 20] {
                    for shells in [Shells::One, Shells::Two] {
                        cases.push(Self {
                            tool,
                            asked_pct,
                            spinners,
                            shells,
                        });
                    }
                }
            }
        }
        cases
    }
}

/// Runs all cases in turn.
pub fn others(args: &OthersArgs) -> Result<()> {
    let wanted = |id: &str| args.cases.as_deref().is_none_or(|part| id.contains(part));
    let cases: Vec<Case> = Case::all()
        .into_iter()
        .filter(|c| wanted(&c.id()))
        .collect();
    if cases.is_empty() {
        bail!("no case has that name; --list shows the names");
    }
    if args.list {
        for case in &cases {
            println!("{}", case.id());
        }
        return Ok(());
    }
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the comparison needs root: sandbag makes groups, and the clocks of every CPU are read"
    );
    interrupt::watch()?;
    let root = Root::default();
    let Programs {
        own: program,
        sandbag,
    } = Programs::find(args.sandbag.as_deref())?;
    let stand = Stand {
        sandbag,
        stress_ng: find("stress-ng")?,
        program,
        cpus: match &args.cpus {
            Some(list) => list.clone(),
            None => root.read("/sys/devices/system/cpu/online")?.parse()?,
        },
        windows: args.windows,
    };
    let mut machine = describe(&root);
    machine.push(("stress-ng", stand.stress_ng_version()));
    let mut steal = StealMeter::start(&root, &stand.cpus)?;
    let mut groups: Vec<Group> = cases.into_iter().map(Group::new).collect();
    let outcome = measure(args, &stand, &mut groups);
    machine.push((
        "steal during the benchmark",
        format!("{:.2} %", steal.steal_pct()?),
    ));
    // What was measured before an interruption is shown, too.
    let text = report(&machine, &stand.cpus, args.windows, &groups);
    print!("{text}");
    if let Some(path) = &args.out {
        std::fs::write(path, &text).with_context(|| format!("write {}", path.display()))?;
    }
    outcome
}

fn measure(args: &OthersArgs, stand: &Stand, groups: &mut [Group]) -> Result<()> {
    let total = groups.len() * args.rounds as usize;
    let mut done = 0;
    for order in rounds(groups.len(), args.rounds as usize, args.seed) {
        for at in order {
            let group = &mut groups[at];
            let outcome = stand.run(&group.case);
            interrupt::check()?;
            done += 1;
            match outcome {
                Ok(windows) => {
                    println!("[{done}/{total}] {}: {}", group.case.id(), said(&windows));
                    group.windows.extend(windows);
                }
                Err(e) => {
                    println!("[{done}/{total}] {}: failed: {e:#}", group.case.id());
                    group.failures.push(format!("{e:#}"));
                }
            }
        }
    }
    Ok(())
}

fn said(windows: &[Window]) -> String {
    let got: f64 = windows.iter().map(|w| w.got_pct).sum();
    format!("got {:.1} %", got / windows.len().max(1) as f64)
}

/// A program on the search path.
fn find(name: &str) -> Result<PathBuf> {
    program::find(name)
        .and_then(|file| canonical(&file))
        .with_context(|| format!("{name} is not there: install the package {name}"))
}

fn canonical(file: &Path) -> Option<PathBuf> {
    file.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_is_there_once() {
        let ids: BTreeSet<String> = Case::all().iter().map(Case::id).collect();
        assert_eq!(ids.len(), 24);
        assert!(ids.contains("stress-ng/50/spin-2/one"));
        assert!(ids.contains("sandbag/80/spin-20/two"));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let e = find("no-such-program").unwrap_err();
        assert!(e.to_string().contains("install the package"), "{e}");
    }
}
