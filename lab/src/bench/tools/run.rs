// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of a tool beside spinners, watched from outside.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::Signal;
use sandbag_linux::process::Process;
use sandbag_linux::{CpuList, Root};

use super::{Case, Shells, Tool};
use crate::bench::child::Running;
use crate::bench::clocks::{CpuClocks, Sources};
use crate::bench::compete::account::{Account, configured_cpus};
use crate::bench::tasks::burners;
use sandbag_linux::interrupt;

/// How long tool and spinners may take to start.
const START: Duration = Duration::from_secs(20);
/// From then to the first window: sandbag settles, stress-ng finds its pace.
const SETTLE: Duration = Duration::from_millis(1500);
/// They are ended after the last window, and by themselves after so much more.
const LONGEST_S: u32 = 40;

/// What all runs share.
#[derive(Debug)]
pub struct Stand {
    /// The program under test.
    pub sandbag: PathBuf,
    /// The other.
    pub stress_ng: PathBuf,
    /// This program, for the spinners.
    pub program: PathBuf,
    /// CPUs that are loaded.
    pub cpus: CpuList,
    /// Windows of 1 s.
    pub windows: u32,
}

/// One window of one CPU, percent of the delivered time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The CPU.
    pub cpu: u32,
    /// What the tool got.
    pub got_pct: f64,
    /// What the spinners got.
    pub left_pct: f64,
}

/// A session; dropping it ends its shell, which ends and reaps the commands.
struct Session(Running);

impl Session {
    fn start(commands: &[Command]) -> Result<Self> {
        // A shell, because that is what starts such things; it waits for its
        // children, which become the commands.
        let mut shell = Command::new("sh");
        let script: String = (0..commands.len())
            .map(|at| format!("eval \"exec $C{at}\" & "))
            .collect();
        // The first wait ends with the signal, the second with the last child.
        let end = "trap \"trap '' TERM; kill 0\" TERM; wait; wait";
        shell.arg("-c").arg(script + end);
        for (at, command) in commands.iter().enumerate() {
            shell.env(format!("C{at}"), quoted(command));
        }
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            shell.env_remove(name);
        }
        shell
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Running::start(shell, Signal::SIGTERM, None).map(Self)
    }

    fn children(&self) -> Vec<u32> {
        Process::new(&Root::default(), self.0.pid())
            .children()
            .unwrap_or_default()
    }
}

/// A command as a shell reads it.
fn quoted(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''")))
        .collect::<Vec<_>>()
        .join(" ")
}

impl Stand {
    /// First line of what it says about itself.
    pub fn stress_ng_version(&self) -> String {
        let output = Command::new(&self.stress_ng).arg("--version").output();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
        text.ok()
            .and_then(|t| t.lines().next().map(str::to_owned))
            .unwrap_or_else(|| "unknown".to_owned())
    }

    /// Runs a case once: the windows of all CPUs.
    pub fn run(&self, case: &Case) -> Result<Vec<Window>> {
        let dir = tempfile::tempdir().context("make a directory for the books")?;
        let books = dir.path().join("account");
        let account = Account::create(&books, configured_cpus())?;
        let spinners = self.spinners(case, &books);
        let mut tools = self.tools(case);
        // Whoever is dropped first is ended first: the load, then the spinners.
        let (session, _beside) = match case.shells {
            Shells::One => {
                tools.push(spinners);
                (Session::start(&tools)?, None)
            }
            Shells::Two => (Session::start(&tools)?, Some(Session::start(&[spinners])?)),
        };
        let give_up = Instant::now() + START;
        let wanted = case.spinners as u64;
        let all = interrupt::wait_for(give_up, || {
            account.started() >= wanted && self.are_all_there(case, &session)
        })?;
        if !all {
            bail!(
                "after {START:?} {} of {wanted} spinners and {} of {} loads had started",
                account.started(),
                self.loads(case, &session).len(),
                self.cpus.len()
            );
        }
        self.watch(case, &session, &account)
    }

    fn spinners(&self, case: &Case, books: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["compete", "spin", &case.spinners.to_string()])
            .arg((self.windows + LONGEST_S).to_string())
            .args(["--cpus", &self.cpus.to_string()])
            .arg("--account")
            .arg(books);
        command
    }

    fn tools(&self, case: &Case) -> Vec<Command> {
        let length = format!("{}s", self.windows + LONGEST_S);
        let asked = case.asked_pct.to_string();
        match case.tool {
            Tool::StressNg => self
                .cpus
                .iter()
                .map(|cpu| {
                    let mut command = Command::new(&self.stress_ng);
                    command
                        .args(["--quiet", "--cpu", "1", "--cpu-load", &asked])
                        .args(["--taskset", &cpu.to_string(), "--timeout", &length]);
                    command
                })
                .collect(),
            Tool::Sandbag => {
                let mut command = Command::new(&self.sandbag);
                command
                    .args(["load", &asked, "--cpus", &self.cpus.to_string()])
                    .args(["-d", &length, "-q", "--no-out"]);
                vec![command]
            }
        }
    }

    /// The tasks that make the load, each with its CPU.
    fn loads(&self, case: &Case, session: &Session) -> Vec<(u32, Process)> {
        let program = match case.tool {
            Tool::StressNg => &self.stress_ng,
            Tool::Sandbag => &self.sandbag,
        };
        session
            .children()
            .into_iter()
            .flat_map(|pid| burners(&Root::default(), pid, program))
            .collect()
    }

    fn are_all_there(&self, case: &Case, session: &Session) -> bool {
        let loads = self.loads(case, session);
        self.cpus
            .iter()
            .all(|cpu| loads.iter().any(|(on, _)| *on == cpu))
    }

    fn watch(&self, case: &Case, session: &Session, account: &Account) -> Result<Vec<Window>> {
        let sources = Sources {
            cpus: &self.cpus,
            accounts: vec![account],
            cpuacct: None,
        };
        let begin = Instant::now() + SETTLE;
        let mut before: Option<Vec<CpuClocks>> = None;
        let mut windows = Vec::new();
        for second in 0..=self.windows {
            interrupt::sleep_until(begin + Duration::from_secs(u64::from(second)))?;
            let now = sources.read(&self.loads(case, session))?;
            if let Some(before) = &before {
                let clocks = self.cpus.iter().zip(before.iter().zip(&now));
                windows.extend(clocks.filter_map(|(cpu, (b, a))| window(cpu, b, a)));
            }
            before = Some(now);
        }
        ensure!(!windows.is_empty(), "no time was delivered");
        Ok(windows)
    }
}

/// The window between two readings; `None` if no time was delivered.
fn window(cpu: u32, before: &CpuClocks, after: &CpuClocks) -> Option<Window> {
    let delta = |of: fn(&CpuClocks) -> u64| of(after).saturating_sub(of(before));
    let delivered = delta(|c| c.wall_ns).saturating_sub(delta(|c| c.steal_ns));
    (delivered > 0).then(|| Window {
        cpu,
        got_pct: 100.0 * delta(|c| c.burner_ns) as f64 / delivered as f64,
        left_pct: 100.0 * delta(|c| c.competitors_ns) as f64 / delivered as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_share_of_the_delivered_time() {
        let clocks = |wall_ns, steal_ns, burner_ns, competitors_ns| CpuClocks {
            wall_ns,
            steal_ns,
            burner_ns,
            competitors_ns,
            ..CpuClocks::default()
        };
        let w = window(1, &clocks(0, 0, 50, 0), &clocks(1000, 200, 450, 300)).unwrap();
        assert!((w.got_pct - 50.0).abs() < 1e-9);
        assert!((w.left_pct - 37.5).abs() < 1e-9);
        assert_eq!(window(1, &clocks(0, 0, 0, 0), &clocks(5, 5, 0, 0)), None);
    }

    #[test]
    fn words_survive_the_shell() {
        let mut command = Command::new("printf");
        command.args(["%s|", "a b", "it's", "$HOME"]);
        let said = Command::new("sh")
            .args(["-c", "eval \"$C0\""])
            .env("C0", quoted(&command))
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "a b|it's|$HOME|");
    }

    #[test]
    fn a_session_that_is_dropped_leaves_no_command() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let session = Session::start(&[command]).unwrap();
        let begun = Instant::now();
        while session.children().is_empty() && begun.elapsed() < START {
            std::thread::sleep(Duration::from_millis(5));
        }
        let children = session.children();
        assert_eq!(children.len(), 1);
        // Time for the shell to set its trap.
        std::thread::sleep(Duration::from_millis(100));
        drop(session);
        assert!(!Path::new(&format!("/proc/{}", children[0])).exists());
    }

    #[test]
    fn each_cpu_has_a_stress_ng_of_its_own() {
        let stand = Stand {
            sandbag: "/bin/sandbag".into(),
            stress_ng: "/bin/stress-ng".into(),
            program: "/bin/bench".into(),
            cpus: "0,2".parse().unwrap(),
            windows: 5,
        };
        let mut case = Case::all()[0];
        let said: Vec<String> = stand.tools(&case).iter().map(quoted).collect();
        assert_eq!(said.len(), 2);
        assert!(
            said[1].contains("'--cpu-load' '50' '--taskset' '2'"),
            "{said:?}"
        );
        case.tool = Tool::Sandbag;
        assert!(quoted(&stand.tools(&case)[0]).contains("'load' '50' '--cpus' '0,2'"));
    }
}
