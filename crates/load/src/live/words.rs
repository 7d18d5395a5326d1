// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run in words, whatever its journal holds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandbag_run::journal::RunInfo;
use sandbag_ui::text::{command_line, visible};

use crate::node::Ratios;
use crate::node::protocol::Status;

/// What a run does now. Of a node the speeds come from the node itself: the
/// journal is as old as the run, and `slow set` may have changed them.
pub fn load_of(run: &RunInfo, node: Option<&Status>) -> String {
    let Some(node) = node else {
        return run.load.clone();
    };
    let asked = node.speeds.iter().map(|s| (s.cpu, s.asked)).collect();
    format!("{}, speed {}", run.load, Ratios::new(asked))
}

/// A run in one line.
pub fn heading(run: &RunInfo, load: &str) -> String {
    let mut text = format!("{}: {}", number(run), run_text(run, load));
    if !run.command.is_empty() {
        // Jitter may be inside it as well.
        text += &format!(", with {}", command_line(&run.command));
    }
    if let Some(whole) = run.part_of {
        text += &format!(", part of run {whole}");
    }
    let age = humantime::format_duration(age(run));
    visible(&format!("{text}; begun {age} ago"))
}

/// A run's process number, by which `stop` knows it; of a run in another PID
/// namespace that which the supervisor has here.
pub fn number(run: &RunInfo) -> String {
    match run.supervisor() {
        Some(process) if process.pid == run.pid => run.pid.to_string(),
        Some(process) => format!("{} (in its container {})", process.pid, run.pid),
        None if run.has_ended() => format!("{} (ended, and is being undone)", run.pid),
        None if run.process.is_none() => format!("{} (of an earlier sandbag)", run.pid),
        None => format!("{} (in a container that cannot be seen from here)", run.pid),
    }
}

/// What a run does to which CPUs.
pub fn run_text(run: &RunInfo, load: &str) -> String {
    if run.cpus.is_empty() {
        // A recording beside a command takes no CPU.
        load.to_owned()
    } else {
        format!("{load} by {} on CPUs {}", run.method, run.cpus)
    }
}

/// Since when a run is there, whole seconds.
fn age(run: &RunInfo) -> Duration {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now_s.map_or(0, |time| time.as_secs());
    Duration::from_secs(now_s.saturating_sub(run.started_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_of_others_drives_no_terminal_and_forges_no_line() {
        let foreign = "\u{1b}[31m\u{9b}31m\u{202e}\n4711: forged";
        let run = RunInfo {
            cpus: foreign.to_owned(),
            method: foreign.to_owned(),
            command: vec![foreign.to_owned(); 2],
            ..RunInfo::of_this_process(foreign)
        };
        let text = heading(&run, &run.load);
        assert_eq!(text, visible(&text));
        assert_eq!(
            text.matches(r"\u001b[31m\u009b31m\u202e\n").count(),
            5,
            "{text}"
        );
    }
}
