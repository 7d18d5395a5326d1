// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one cell: competitors, disturbance, the real sandbag, and the clocks
//! at both ends of the part that is verified.
//!
//! The verified part lies inside the hold: it begins when the competitors run
//! (or a second after sandbag was started, where they ran before) and ends
//! before the first of them stops, so that neither start nor end of a process
//! is in it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use nix::sys::signal::Signal;
use sandbag_linux::process::Process;
use sandbag_linux::{CpuList, Root, clock, sched};
use sandbag_load::report::achieved::{self, read_achieved};
use sandbag_load::report::{Run, read_run};

use crate::bench::benchmark::value_name;
use crate::bench::cells::{Cell, Disturbance, LoadTarget, step_profile};
use crate::bench::churn::Churn;
use crate::bench::clocks::Sources;
use crate::bench::closing::{Closing, CpuUse, close};
use crate::bench::compete::account::{Account, Counter, configured_cpus};
use crate::bench::place::{Layout, PlaceGroup};
use crate::bench::row;
use crate::bench::tasks::{burners, others};
use crate::program::{Running, Start, command};
use crate::row::{End, Row};
use sandbag_linux::interrupt;

/// How long competitors and sandbag may take to start.
const START: Duration = Duration::from_secs(20);
/// How long sandbag may take beyond the planned end.
const OVERTIME: Duration = Duration::from_secs(20);
/// From the start of sandbag to a load that is held, where nothing says when
/// that is.
const SETTLE: Duration = Duration::from_millis(1000);
/// From the first clocks to the end of the hold, what is left out at the end.
const MARGIN: Duration = Duration::from_millis(400);

/// The shortest verified part: steal is known in steps of 10 ms.
const SHORTEST: Duration = Duration::from_millis(800);

#[derive(Debug)]
pub struct Bench {
    pub sandbag: PathBuf,
    pub program: PathBuf,
    pub cpus: CpuList,
    pub seconds: u32,
    pub work: PathBuf,
    pub seed: u64,
}

impl Bench {
    /// Runs a cell once. A run that fails is a row that has the reason; an error ends the
    /// whole benchmark.
    pub fn run(&self, cell: &Cell, layout: &Layout, round: u32) -> Result<Row> {
        let mut row = row::new(cell, round);
        let dir = self
            .work
            .join(format!("{}-{round}", row.cell.replace('/', "-")));
        let outcome = self.run_in(&dir, cell, layout, &mut row);
        interrupt::check()?;
        if let Err(error) = outcome {
            let why = format!("{error:#}");
            row.end = End::Failed { why };
        }
        // Some hundred runs of up to a megabyte each.
        let _ = fs::remove_dir_all(&dir);
        Ok(row)
    }

    fn cpus_of(&self, cell: &Cell) -> CpuList {
        let keep = if cell.one_cpu { 1 } else { usize::MAX };
        self.cpus.iter().take(keep).collect()
    }

    fn run_in(&self, dir: &Path, cell: &Cell, layout: &Layout, row: &mut Row) -> Result<()> {
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        let cpus = self.cpus_of(cell);
        let account = Account::create(&dir.join("account"), configured_cpus())?;
        let extra = Account::create(&dir.join("account-extra"), configured_cpus())?;

        let _group: Option<PlaceGroup>;
        let _competitors: Option<Running>;
        (_group, _competitors) = self.start_outside(dir, cell, layout, &account)?;
        let (_moved, churn) = self.start_disturbance(dir, cell, layout, &extra)?;

        let errors = dir.join("stderr");
        let mut sandbag = self.start_sandbag(dir, cell, &cpus, &errors)?;
        let started = Instant::now();
        let begun = match cell.place {
            LoadTarget::Cmd => {
                let wanted = planned(cell);
                interrupt::wait_for(started + START, || {
                    has_begun(&account, wanted) || sandbag.has_ended()
                })?;
                Instant::now()
            }
            _ => started + SETTLE,
        };
        let end = match (cell.place, account.end_ns()) {
            // Many competitors take a while to start: the last of them has
            // less than the whole length.
            (LoadTarget::Cmd, Some(ns)) => {
                Instant::now() + Duration::from_nanos(ns.saturating_sub(clock::monotonic()))
            }
            _ => started + Duration::from_secs(u64::from(self.seconds)),
        };
        let verified = self.verify(begun, end, &cpus, &[&account, &extra], layout, &mut sandbag)?;
        let status = sandbag.wait(end.saturating_duration_since(Instant::now()) + OVERTIME)?;
        let failed = account.counted(Counter::Failed) + extra.counted(Counter::Failed);
        row.put("competitors_failed", failed as f64);
        if let Some(churn) = churn {
            churn.finish().context("groups that come and go")?;
        }
        let run_dir = dir.join("run");
        let status = status
            .ok_or_else(|| anyhow!("sandbag was still running {OVERTIME:?} after its end"))?;
        if !run_dir.join("run.json").exists() {
            bail!("sandbag: {status}: {}", last_words(&errors));
        }
        let run = read_run(&run_dir)?;
        let seconds = windows(&run_dir.join("achieved.csv"))?;
        let tenths = windows(&run_dir.join("achieved-100ms.csv")).unwrap_or_default();
        row::take_run(row, cell, &run, &seconds, &tenths);
        if let Some(verified) = verified {
            let closings = verified.close(&cpus, &run, cell);
            row::take_closings(row, &closings, verified.strangers);
        }
        Ok(())
    }

    /// Competitors that do not belong to the command.
    fn start_outside(
        &self,
        dir: &Path,
        cell: &Cell,
        layout: &Layout,
        account: &Account,
    ) -> Result<(Option<PlaceGroup>, Option<Running>)> {
        let group = match cell.place {
            LoadTarget::Cmd => return Ok((None, None)),
            LoadTarget::Sibling(weight) => Some(layout.make(&format!("sibling-{weight}"), weight)?),
            LoadTarget::Outside => None,
        };
        let mut command = self.compete(cell, f64::from(self.seconds) + 60.0, &dir.join("account"));
        if cell.place == LoadTarget::Outside {
            command.arg("--sessions");
        }
        command.stdout(Stdio::null());
        let entrance = group.as_ref().map(PlaceGroup::entrance);
        let start = Start {
            entrance: entrance.as_deref(),
            ..Start::session(Signal::SIGKILL)
        };
        let mut running = Running::start(command, start)?;
        self.wait_for_start(&mut running, account, planned(cell))?;
        Ok((group, Some(running)))
    }

    fn start_disturbance(
        &self,
        dir: &Path,
        cell: &Cell,
        layout: &Layout,
        extra: &Account,
    ) -> Result<(Option<Running>, Option<Churn>)> {
        if cell.disturbance != Disturbance::Groups {
            return Ok((None, None));
        }
        let one = Cell {
            kind: crate::bench::compete::kinds::CompetitorKind::Spin,
            count: 1,
            ..cell.clone()
        };
        let mut command = self.compete(
            &one,
            f64::from(self.seconds) + 60.0,
            &dir.join("account-extra"),
        );
        // It ends with its last group, which its parent would complain about.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Running::start(command, Start::session(Signal::SIGKILL))?;
        self.wait_for_start(&mut running, extra, 1)?;
        let spinners = Process::new(&Root::default(), running.id()).children()?;
        let churn = Churn::start(layout.clone(), spinners);
        Ok((Some(running), Some(churn)))
    }

    fn wait_for_start(&self, running: &mut Running, account: &Account, wanted: u64) -> Result<()> {
        let all = || has_begun(account, wanted);
        interrupt::wait_for(Instant::now() + START, || all() || running.has_ended())?;
        if !all() {
            bail!("the competitors did not start");
        }
        Ok(())
    }

    fn compete(&self, cell: &Cell, seconds: f64, account: &Path) -> Command {
        let words = format!(
            "compete {} {} {seconds} --account",
            value_name(&cell.kind),
            cell.count
        );
        let mut command = command(&self.program, &words);
        command.arg(account);
        command.arg("--cpus").arg(self.cpus_of(cell).to_string());
        command
    }

    fn start_sandbag(
        &self,
        dir: &Path,
        cell: &Cell,
        cpus: &CpuList,
        errors: &Path,
    ) -> Result<Running> {
        let mut command = as_root(&self.sandbag);
        let in_command = cell.place == LoadTarget::Cmd;
        // Longer than the command, which then ends the run.
        let length = self.seconds + if in_command { 5 } else { 0 };
        if cell.disturbance == Disturbance::Steps {
            let numbers: Vec<u32> = cpus.iter().collect();
            let profile = dir.join("steps.csv");
            fs::write(&profile, step_profile(&numbers, length, self.seed))?;
            command.arg("replay").arg(profile);
        } else {
            let words = format!("load {} --cpus {cpus} -d {length}s", cell.asked_pct);
            command.args(words.split(' '));
        }
        let method = cell.method.name();
        let words = format!("--method {method} --windows 100ms -q --out");
        command.args(words.split(' ')).arg(dir.join("run"));
        if in_command {
            let compete = self.compete(cell, f64::from(self.seconds), &dir.join("account"));
            command
                .arg("--")
                .arg(compete.get_program())
                .args(compete.get_args());
        }
        command
            .stdin(Stdio::null())
            .stdout(File::create(dir.join("stdout"))?)
            .stderr(File::create(errors)?);
        Running::start(command, Start::session(Signal::SIGTERM))
    }

    fn verify(
        &self,
        begun: Instant,
        end: Instant,
        cpus: &CpuList,
        accounts: &[&Account],
        layout: &Layout,
        sandbag: &mut Running,
    ) -> Result<Option<WindowCheck>> {
        let root = Root::default();
        if sandbag.has_ended() || end < begun + 2 * MARGIN + SHORTEST {
            return Ok(None);
        }
        interrupt::sleep_until(begun + MARGIN)?;

        let others_before = others(&root, &self.sandbag, &self.program)?;
        let forks = || {
            accounts
                .iter()
                .map(|a| a.counted(Counter::Forked))
                .sum::<u64>()
        };
        let forks_before = (processes_started(&root), forks());
        let sources = Sources {
            cpus,
            accounts: accounts.to_vec(),
            cpuacct: layout.cpuacct(),
        };
        let found = burners(&root, sandbag.id(), &self.sandbag);
        let burners_before = found.len();
        let before = sources.read(&found)?;
        let waiting_from_ns = clock::thread_cpu();
        interrupt::sleep_until(end - MARGIN)?;
        // There may be more of them by now; the new ones began at 0.
        let found = burners(&root, sandbag.id(), &self.sandbag);
        let waiting_ns = clock::thread_cpu() - waiting_from_ns;
        let here = sched::current_cpu() as usize;
        let after = sources.read(&found)?;
        let strangers = forks_before.0.zip(processes_started(&root)).map(|(b, a)| {
            let burners = found.len().saturating_sub(burners_before) as u64;
            (a - b).saturating_sub(forks() - forks_before.1 + burners)
        });
        if sandbag.has_ended() {
            // It ended early, and the clocks say nothing of the hold.
            return Ok(None);
        }
        let window_ns = before
            .iter()
            .zip(&after)
            .map(|(b, a)| a.wall_ns - b.wall_ns)
            .min()
            .unwrap_or(0);
        let mut others_ns =
            others(&root, &self.sandbag, &self.program)?.since(&others_before, cpus, window_ns);
        // The reader's own waiting and looking, all of it where it ended.
        if let Some(at) = cpus.iter().position(|cpu| cpu as usize == here) {
            others_ns[at] += waiting_ns;
        }
        Ok(Some(WindowCheck {
            before,
            after,
            others_ns,
            strangers,
        }))
    }
}

/// sandbag, whose command does not become the user who called sudo: its competitors may
/// need what only root can do.
pub fn as_root(sandbag: &Path) -> Command {
    let mut command = Command::new(sandbag);
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
        command.env_remove(name);
    }
    command
}

/// Whether this number of competitors has started or failed.
fn has_begun(account: &Account, wanted: u64) -> bool {
    account.counted(Counter::Started) + account.counted(Counter::Failed) >= wanted
}

/// How many competitors report that they have started.
fn planned(cell: &Cell) -> u64 {
    let more = match cell.count {
        // Without competitors the parent says so for them.
        0 => 1,
        _ => crate::bench::compete::kinds::realtime_tasks(cell.kind),
    };
    (cell.count + more) as u64
}

/// The clocks at both ends and what else is known.
#[derive(Debug)]
struct WindowCheck {
    before: Vec<crate::bench::clocks::CpuClocks>,
    after: Vec<crate::bench::clocks::CpuClocks>,
    others_ns: Vec<u64>,
    /// Processes and threads that were started between the two, but for those
    /// of the competitors and new burners; `None` if the kernel does not say.
    strangers: Option<u64>,
}

impl WindowCheck {
    fn close(&self, cpus: &CpuList, run: &Run, cell: &Cell) -> Vec<Closing> {
        // Under steps, a part of the run is another load than the whole.
        let constant = cell.disturbance != Disturbance::Steps;
        let clocks = self.before.iter().zip(&self.after).zip(&self.others_ns);
        cpus.iter()
            .zip(clocks)
            .filter_map(|(cpu, ((before, after), other_ns))| {
                let known = CpuUse {
                    other_ns: *other_ns,
                    claimed_pct: run
                        .cpus
                        .iter()
                        .find(|c| c.cpu == cpu && constant)
                        .map(|c| c.got_pct),
                };
                close(cpu, before, after, &known)
            })
            .collect()
    }
}

/// Processes and threads that were started since boot.
fn processes_started(root: &Root) -> Option<u64> {
    root.read("/proc/stat")
        .ok()?
        .lines()
        .find_map(|l| l.strip_prefix("processes "))?
        .trim()
        .parse()
        .ok()
}

fn windows(path: &Path) -> Result<Vec<achieved::AchievedRow>> {
    Ok(read_achieved(path)?.collect::<Result<_, _>>()?)
}

/// The last line of a file of messages.
fn last_words(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .rev()
        .find(|l| !l.trim().is_empty())
        .unwrap_or("without a word")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_counted_since_boot() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        assert_eq!(processes_started(&root), None);
        fs::create_dir_all(root.path("/proc")).unwrap();
        fs::write(
            root.path("/proc/stat"),
            "cpu 1 2\nctxt 5\nprocesses 8877\nprocs_running 1\n",
        )
        .unwrap();
        assert_eq!(processes_started(&root), Some(8877));
    }

    #[test]
    fn the_last_words_are_the_last_line_with_words() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stderr");
        assert_eq!(last_words(&path), "without a word");
        fs::write(&path, "sandbag: one\nsandbag: two\n\n").unwrap();
        assert_eq!(last_words(&path), "sandbag: two");
    }
}
