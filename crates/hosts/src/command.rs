// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--hosts` of the commands that hold or measure something: the same on every host of a
//! launcher.

mod verbs;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use sandbag_linux::interrupt;
use sandbag_linux::launcher::{self, Launched};
use sandbag_ui::BadInput;
use sandbag_ui::exit;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, put_json};
use sandbag_ui::text::visible;
use sandbag_ui::units;
use serde::{Deserialize, Serialize};

use crate::course::{self, CourseEnd, Task};
use crate::exchange::{EarlyEnd, LeaderNote, MeetingPlace, MemberEnd, PlannedMember};
use crate::meeting::{self, FAR_MS, Member};

pub use verbs::{HostsVerb, augmented, chosen, with_host_in_names};

/// The record of an experiment, in its directory.
pub use sandbag_ui::report::HOSTS_JSON;
/// Its version.
pub const FORMAT: u32 = 1;

// A doc comment would become that of the commands that get these options.
#[derive(Debug, Clone, Args)]
pub struct HostsArgs {
    /// Be one of many hosts; each command has its own help.
    #[arg(long)]
    pub hosts: bool,

    /// Which of the hosts this is, from 0 [default: as the launcher says]
    #[arg(long = "rank", id = "host_rank", value_name = "N", requires_all = ["hosts", "host_ranks"])]
    pub rank: Option<u32>,

    /// How many hosts there are [default: as the launcher says]
    #[arg(long = "ranks", id = "host_ranks", value_name = "N", requires_all = ["hosts", "host_rank"],
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub ranks: Option<u32>,

    /// When the hosts begin: all at the same time, or each when it is ready
    #[arg(
        long = "start",
        id = "hosts_start",
        value_name = "WHEN",
        requires = "hosts",
        default_value = "common"
    )]
    pub start: StartWhen,

    /// How long the hosts wait for each other
    #[arg(long = "start-timeout", id = "hosts_patience", value_name = "TIME", requires = "hosts", default_value = "60s",
          value_parser = units::positive_duration)]
    pub start_timeout: Duration,

    /// A host that says nothing for this long is lost, and the experiment ends
    ///
    /// Longer where the shared file system shows new files late.
    #[arg(long = "lost-after", id = "hosts_lost", value_name = "TIME", requires = "hosts",
          default_value = "10s", value_parser = at_least_a_second)]
    pub lost_after: Duration,
}

fn at_least_a_second(text: &str) -> std::result::Result<Duration, String> {
    match units::duration(text)? {
        time if time < Duration::from_secs(1) => Err("must be 1s or longer".to_owned()),
        time => Ok(time),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StartWhen {
    /// Clocks are compared, and all begin together.
    Common,
    /// No common time.
    Each,
}

/// `hosts.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    pub format: u32,
    pub sandbag: String,
    pub arguments: Vec<String>,
    /// RFC 3339, UTC; by rank 0's clock. `None`: each when it was ready.
    pub start: Option<String>,
    pub members: Vec<PlannedMember>,
    /// By rank; who is missing said nothing.
    pub ends: Vec<(u32, MemberEnd)>,
    pub early_end: Option<EarlyEnd>,
}

/// Runs `words` on this host as one of many.
///
/// # Errors
/// Bad input, or the others did not come.
pub fn main(
    args: &HostsArgs,
    verb: &HostsVerb,
    words: &[OsString],
    messages: &Messages,
) -> Result<u8> {
    if args.start == StartWhen::Common
        && let Some(text) = verbs::other_start(words)
    {
        return Err(BadInput(text.to_owned()).into());
    }
    if let Some(text) = verb.other_form(words) {
        return Err(BadInput(text.to_owned()).into());
    }
    let place = place_among(args)?;
    let out = verb.output(words).ok_or_else(|| {
        BadInput(format!(
            "--hosts needs {} with a directory that all hosts see",
            verb.output_option()
        ))
    })?;
    refuse_taken(&out, words)?;
    let member = Member::here(place.rank, place.size)?;
    if let Some(option) = verbs::common_name(words, &out, &member.host).filter(|_| place.size > 1) {
        let text = format!(
            "{option} names one file for all hosts: put %h into its name, which is each host's"
        );
        return Err(BadInput(text).into());
    }
    interrupt::watch()?;
    interrupt::watch_passed()?;
    if words
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| word == "--dry-run")
    {
        // It changes nothing, so that the other hosts are not needed.
        let task = Task {
            words: verb.for_host(words, &out, &member.host, None),
            start_ns: 0,
            has_command: has_command(words),
            record: None,
            lost_after: args.lost_after,
        };
        return course::alone(&member, &task);
    }
    let meeting = MeetingPlace::in_dir(&out)?;
    messages.detail(&format!(
        "rank {} of {} by {}, on {}",
        place.rank, place.size, place.by, member.host
    ));
    let met = match place.rank {
        0 => meeting::lead(&member, &meeting, args.start_timeout),
        _ => meeting::follow(&member, &meeting, args.start_timeout),
    };
    let leader = match met {
        Err(error) if interrupt::came() => {
            Messages::error(&error.line());
            return Ok(exit::INTERRUPTED);
        }
        met => met?,
    };
    // Before this host can fail: what an earlier experiment left is not of this one.
    verb.remove_own(words, &out, &member.host);
    let plan = leader.plan.iter().flat_map(|plan| &plan.members);
    let own = plan.clone().find(|one| one.rank == member.rank).cloned();
    let common_ns = leader.plan.as_ref().map(|plan| plan.start_ns);
    let correction_ns = own.as_ref().map_or(0, |own| own.offset.correction_ns());
    let start_ns = match args.start {
        StartWhen::Common => common_ns.map(|ns| ns.saturating_add(correction_ns)),
        StartWhen::Each => None,
    };
    if let Some(why) = start_ns.and_then(bad_start) {
        meeting::fail(&member, &meeting, &leader, &why)?;
        return Err(sandbag_ui::Failure::text(why));
    }
    if member.rank == 0 {
        say_clocks(&leader, messages);
    }
    let task = Task {
        words: verb.for_host(words, &out, &member.host, start_ns),
        // A run that takes --at begins there itself, and needs the time before to get ready.
        start_ns: start_ns.filter(|_| !verb.has_at).unwrap_or(0),
        has_command: has_command(words) || verb.has_programs,
        record: verb.record(&of_host(&out, &member.host, "")),
        lost_after: args.lost_after,
    };
    // Without ends, in case this process does not live to write them. A wait for the disk would
    // be taken from the time until the start.
    if member.rank == 0 {
        let experiment = experiment(args, &leader, &[], None);
        let text = serde_json::to_string_pretty(&experiment)? + "\n";
        output::rewrite(&out.join(HOSTS_JSON), text)?;
    }
    let end = course::run(&member, &meeting, leader.clone(), &task, messages)?;
    if member.rank == 0 {
        let experiment = experiment(args, &leader, &end.ends, end.early.as_ref());
        let put = put_experiment(&out, &experiment);
        course::release(&meeting, &leader, &end);
        put?;
        let dir = visible(&out.display().to_string());
        messages.say(&format!(
            "{}; {}",
            end.early
                .as_ref()
                .map_or("all hosts have ended".to_owned(), |early| format!(
                    "ended early by {}",
                    visible(&early.host)
                )),
            verb.report_command().map_or_else(
                || format!("a file of each is in {dir}"),
                |command| format!("{command} {dir} makes one report")
            )
        ));
    }
    Ok(exit_code(&end, task.has_command, interrupt::came()))
}

/// That of this host's run, unless another's failure ended it.
fn exit_code(end: &CourseEnd, has_command: bool, is_interrupted: bool) -> u8 {
    match end.code {
        // What was signalled itself has the code of its own run.
        code if end.early.is_none() || is_interrupted => code,
        exit::KEPT | exit::INTERRUPTED if has_command => exit::OUR_FAILURE,
        exit::KEPT | exit::INTERRUPTED => exit::FAILED,
        // A command dies of our signal, and of a run that is cut off the verdict is none.
        _ if end.by_others && has_command => exit::OUR_FAILURE,
        _ if end.by_others => exit::FAILED,
        code => code,
    }
}

fn place_among(args: &HostsArgs) -> Result<Launched> {
    if let (Some(rank), Some(size)) = (args.rank, args.ranks) {
        if rank >= size {
            let text = format!("--rank {rank}: ranks are 0 to {}", size - 1);
            return Err(BadInput(text).into());
        }
        return Ok(Launched {
            by: "--rank",
            rank,
            size,
        });
    }
    launcher::launched().ok_or_else(|| {
        let text = "--hosts: nothing says which host this is; start it by srun or mpirun, or give \
                    --rank and --ranks";
        BadInput(text.to_owned()).into()
    })
}

/// An experiment that is there is replaced with --force only.
fn refuse_taken(out: &Path, words: &[OsString]) -> Result<()> {
    let own = words.iter().take_while(|word| *word != "--");
    if out.join(HOSTS_JSON).exists() && !own.clone().any(|word| word == "--force") {
        let text = format!(
            "{} holds a result already ({HOSTS_JSON}); name another directory, or --force replaces it",
            out.display()
        );
        return Err(BadInput(text).into());
    }
    Ok(())
}

/// Longest time before a start, ns.
const FAR_NS: i64 = 3_600_000_000_000;

/// Why this host cannot begin then, by its clock.
fn bad_start(start_ns: i64) -> Option<String> {
    let rest_ns = start_ns.saturating_sub(crate::clocks::wall_ns());
    match rest_ns {
        ..0 => Some(format!(
            "it read the plan {:.1} s after the start: the directory shows new files late (--start \
             each needs no common time)",
            -(rest_ns as f64) / 1e9
        )),
        FAR_NS.. => Some("the plan names a start that is more than an hour away".to_owned()),
        _ => None,
    }
}

fn has_command(words: &[OsString]) -> bool {
    let at = words.iter().position(|word| word == "--");
    at.is_some_and(|at| at + 1 < words.len())
}

/// Clocks that differ, and how well they were compared.
fn say_clocks(leader: &LeaderNote, messages: &Messages) {
    let members = leader.plan.iter().flat_map(|plan| &plan.members);
    for one in members.clone() {
        if one.offset.is_certain() && one.offset.ms.abs() > FAR_MS {
            messages.warning(&format!(
                "the clock of {} is {:.1} ms {} that of rank 0 (to within {:.1} ms); its start is \
                 moved by that",
                visible(&one.host),
                one.offset.ms.abs(),
                if one.offset.ms > 0.0 {
                    "ahead of"
                } else {
                    "behind"
                },
                one.offset.within_ms
            ));
        }
    }
    let widest = members.map(|one| one.offset.within_ms).fold(0.0, f64::max);
    messages.say(&format!(
        "all hosts are there; their clocks were compared to within {widest:.1} ms"
    ));
}

fn put_experiment(out: &Path, experiment: &Experiment) -> Result<()> {
    put_json(
        &out.join(HOSTS_JSON),
        experiment,
        sandbag_input::Existing::Replace,
    )
}

fn experiment(
    args: &HostsArgs,
    leader: &LeaderNote,
    ends: &[(u32, MemberEnd)],
    early_end: Option<&EarlyEnd>,
) -> Experiment {
    let plan = leader.plan.as_ref();
    let start = plan.filter(|_| args.start == StartWhen::Common);
    let start =
        start.and_then(|plan| jiff::Timestamp::from_nanosecond(i128::from(plan.start_ns)).ok());
    let mut ends = ends.to_vec();
    ends.sort_by_key(|(rank, _)| *rank);
    Experiment {
        format: FORMAT,
        sandbag: env!("CARGO_PKG_VERSION").to_owned(),
        arguments: sandbag_run::program::arguments(),
        start: start.map(|at| at.to_string()),
        members: plan.map(|plan| plan.members.clone()).unwrap_or_default(),
        ends,
        early_end: early_end.cloned(),
    }
}

/// Where a host's results are, within the directory of the experiment.
pub(crate) fn of_host(out: &Path, host: &str, ending: &str) -> PathBuf {
    // A name with a slash is no directory of ours.
    out.join(format!("{}{ending}", host.replace('/', "_")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::clocks::{Offset, wall_ns};
    use crate::exchange::StartPlan;

    #[test]
    fn who_comes_too_late_keeps_no_earlier_result() {
        let dir = tempfile::tempdir().unwrap();
        let place = MeetingPlace::in_dir(dir.path()).unwrap();
        let leader = Member::here(0, 2).unwrap();
        let run = of_host(dir.path(), &leader.host, "").join("run.json");
        fs::create_dir(run.parent().unwrap()).unwrap();
        fs::write(&run, "{}").unwrap();
        let args = HostsArgs {
            hosts: true,
            rank: Some(1),
            ranks: Some(2),
            start: StartWhen::Common,
            start_timeout: Duration::from_secs(60),
            lost_after: Duration::from_secs(60),
        };
        let out = dir.path().to_owned().into_os_string();
        let words = ["load", "5", "--force", "--out"].map(OsString::from);
        let words: Vec<OsString> = words.into_iter().chain([out]).collect();
        let verb = verbs::named(&["load"]);
        let refused = std::thread::scope(|scope| {
            let host = scope.spawn(|| {
                let messages = Messages::new(true, 0);
                main(&args, &verb, &words, &messages).map_err(|error| error.line())
            });
            let mut note = leader.leader_note();
            place.write_leader(&note).unwrap();
            let until = std::time::Instant::now() + Duration::from_secs(60);
            let answer = loop {
                assert!(std::time::Instant::now() < until);
                match place.member(1).filter(|it| it.leader == leader.nonce) {
                    Some(answer) => break answer,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            note.plan = Some(StartPlan {
                start_ns: wall_ns() - 3_000_000_000,
                members: vec![PlannedMember {
                    rank: 1,
                    host: answer.host,
                    nonce: answer.nonce,
                    offset: Offset::default(),
                    clock: answer.clock,
                }],
            });
            place.write_leader(&note).unwrap();
            host.join().unwrap()
        });
        let refused = refused.unwrap_err();
        assert!(refused.contains("after the start"), "{refused}");
        assert!(!run.exists());
    }

    #[test]
    fn another_s_failure_is_no_code_of_a_command_and_no_verdict() {
        let early = EarlyEnd {
            rank: 1,
            host: "n1".to_owned(),
            at: String::new(),
            why: String::new(),
        };
        let code = |code, is_early: bool, by_others, has_command, is_interrupted| {
            let end = CourseEnd {
                code,
                early: is_early.then(|| early.clone()),
                by_others,
                ends: Vec::new(),
            };
            exit_code(&end, has_command, is_interrupted)
        };
        for (own, by_others, has_command, wanted) in [
            // SIGTERM went on to the command.
            (143, true, true, exit::OUR_FAILURE),
            (7, true, true, exit::OUR_FAILURE),
            (exit::KEPT, true, true, exit::OUR_FAILURE),
            (exit::MISSED, true, false, exit::FAILED),
            (exit::UNDECIDED, true, false, exit::FAILED),
            (exit::KEPT, true, false, exit::FAILED),
            // It had ended before, or never began.
            (143, false, true, 143),
            (exit::MISSED, false, false, exit::MISSED),
            (exit::NOT_FOUND, false, true, exit::NOT_FOUND),
            (exit::INTERRUPTED, false, true, exit::OUR_FAILURE),
            (exit::INTERRUPTED, false, false, exit::FAILED),
            (exit::KEPT, false, false, exit::FAILED),
        ] {
            let ended = code(own, true, by_others, has_command, false);
            assert_eq!(ended, wanted, "{own}, {by_others}, {has_command}");
            assert_eq!(code(own, true, by_others, has_command, true), own);
            assert_eq!(code(own, false, false, has_command, false), own);
        }
    }
}
