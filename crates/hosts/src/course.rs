// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the start to the end: sandbag's own process on this host, and what the others do.
//!
//! Each rank says twice a second that it lives. Rank 0 sees all others, they see rank 0. Once one
//! fails, or is not heard of, rank 0 says so and all end their process, which restores its host.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::Root;
use sandbag_linux::child::{ChildSetup as _, end_or_kill};
use sandbag_linux::interrupt;
use sandbag_linux::launcher::passed_on;
use sandbag_linux::signals::{ENDING, PASSED, Signals, is_taken};
use sandbag_ui::exit;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::messages::Messages;
use serde::Deserialize;

use crate::clocks::wall_ns;
use crate::exchange::{
    EarlyEnd, INTERRUPTED, LARGEST_RECORD, LeaderNote, MeetingPlace, MemberEnd, MemberNote,
    StartPlan, read_limited,
};
use crate::meeting::{Member, early_end};

/// Between two looks at the others, and two signs of life.
const LOOK: Duration = Duration::from_millis(500);
/// By how much a nap may be too long, unless this process stood still.
const LATE: Duration = Duration::from_secs(1);
/// What a process that was asked to end may take, before it is killed; its guardian restores
/// then. A program that the user asked to end has no limit until a second signal, as without
/// `--hosts`.
const GRACE: Duration = Duration::from_secs(10);
/// When it is asked again where the terminal may have asked it already.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// What sandbag is to do on this host.
pub struct Task {
    /// Its words, without its name.
    pub words: Vec<OsString>,
    /// When to start it, by this host's clock, ns since 1970; it may start later by itself.
    pub start_ns: i64,
    /// It wraps a command: its code is the command's.
    pub has_command: bool,
    /// The record that says how its command or programs ended, if it leaves one.
    pub record: Option<TaskRecord>,
    /// Who says nothing for this long is lost.
    pub lost_after: Duration,
}

/// What sandbag leaves of a task with a command or programs.
pub enum TaskRecord {
    /// `run.json`, with the exit code of its command.
    Run(PathBuf),
    /// `nodes.json`, which is there if the programs were started.
    Nodes(PathBuf),
}

/// Of `run.json`.
#[derive(Deserialize)]
struct RecordedRun {
    command: Option<RecordedCommand>,
}

#[derive(Deserialize)]
struct RecordedCommand {
    exit_code: Option<i32>,
}

impl Task {
    /// How its process ended.
    fn end(&self, status: ExitStatus) -> MemberEnd {
        let has_command = match &self.record {
            Some(TaskRecord::Nodes(path)) => self.has_command && path.exists(),
            _ => self.has_command,
        };
        let is_recorded = |code| match &self.record {
            Some(TaskRecord::Run(path)) => command_code(path) == Some(code),
            Some(TaskRecord::Nodes(_)) => true,
            None => false,
        };
        let mut end = outcome(status, has_command);
        // Sandbag's own codes beside a command may be the command's, too.
        if has_command && status.code().is_some_and(is_recorded) {
            end.failure = None;
        }
        end
    }
}

/// The exit code of the command of a run.
fn command_code(run: &Path) -> Option<i32> {
    let text = read_limited(run, LARGEST_RECORD).ok()?;
    let run: RecordedRun = serde_json::from_slice(&text).ok()?;
    run.command?.exit_code
}

/// How the experiment ended here.
pub struct CourseEnd {
    pub code: u8,
    /// Why it ended before its time.
    pub early: Option<EarlyEnd>,
    /// Sandbag was ended here because another host failed: its code is no verdict.
    pub by_others: bool,
    /// Of every rank that said so; known to rank 0.
    pub ends: Vec<(u32, MemberEnd)>,
}

/// Another process, seen by its file.
struct Seen {
    beat: u64,
    at: Instant,
    ended: Option<MemberEnd>,
}

impl Seen {
    fn new() -> Self {
        Self {
            beat: 0,
            at: Instant::now(),
            ended: None,
        }
    }

    fn hear(&mut self, beat: u64) {
        if beat != self.beat {
            self.beat = beat;
            self.at = Instant::now();
        }
    }

    fn is_lost(&self, after: Duration) -> bool {
        self.ended.is_none() && self.at.elapsed() > after
    }
}

/// Runs the task, and watches the others until it and, for rank 0, all have ended.
///
/// # Errors
/// The process cannot be started, or the directory cannot be written.
pub fn run(
    member: &Member,
    place: &MeetingPlace,
    leader: LeaderNote,
    task: &Task,
    messages: &Messages,
) -> Result<CourseEnd> {
    let mut course = Course::new(member, place, leader, task.lost_after);
    let mut child = None;
    if let Err(error) = course.go(task, &mut child) {
        // The load must not outlive us.
        if let Some(mut child) = child.filter(|_| course.own.is_none()) {
            end_or_kill(&mut child, GRACE);
        }
        return Err(error);
    }
    let own = course
        .own
        .take()
        .unwrap_or_else(|| ended(exit::FAILED, None));
    let other = course.early.as_ref();
    let other = other.filter(|early| early.rank != member.rank);
    let by_others = course.is_signalled && other.is_some();
    if let Some(early) = other {
        let text = format!(
            "ended early: {} (rank {}): {}",
            early.host, early.rank, early.why
        );
        // Also with -q: it may be the only reason of our exit code.
        if early.is_asked() {
            messages.warning(&text);
        } else {
            Messages::error(&text);
        }
    }
    let mut ends = vec![(member.rank, own.clone())];
    let others = course.others.into_iter().zip(0..);
    ends.extend(others.filter_map(|(seen, rank)| Some((rank, seen.ended?))));
    Ok(CourseEnd {
        code: own.code,
        early: course.early,
        by_others,
        ends,
    })
}

struct Course<'a> {
    member: &'a Member,
    place: &'a MeetingPlace,
    beat: u64,
    /// Of rank 0, as the others see it.
    leader: Seen,
    /// By rank, as rank 0 sees them.
    others: Vec<Seen>,
    /// The leader's last word; rank 0's own.
    note: LeaderNote,
    early: Option<EarlyEnd>,
    own: Option<MemberEnd>,
    /// When the process was asked to end.
    asked_at: Option<Instant>,
    /// It was sent a signal by us.
    is_signalled: bool,
    /// Signals after the one by which the user asked the program to end.
    later: Option<Signals>,
    /// The user asked twice.
    is_asked_again: bool,
    /// Since when it has [`GRACE`] to end.
    grace_since: Option<Instant>,
    /// The directory has this rank's end.
    is_told: bool,
    /// Rank 0 has nothing left to do.
    is_released: bool,
    lost_after: Duration,
    /// When the directory was last written to.
    written_at: Instant,
}

impl<'a> Course<'a> {
    fn new(
        member: &'a Member,
        place: &'a MeetingPlace,
        leader: LeaderNote,
        lost_after: Duration,
    ) -> Self {
        Self {
            member,
            place,
            beat: 0,
            leader: Seen::new(),
            others: (0..member.ranks).map(|_| Seen::new()).collect(),
            note: leader,
            early: None,
            own: None,
            asked_at: None,
            is_signalled: false,
            later: None,
            is_asked_again: false,
            grace_since: None,
            is_told: false,
            is_released: false,
            lost_after,
            written_at: Instant::now(),
        }
    }

    /// Until the task and, for rank 0, all others have ended.
    fn go(&mut self, task: &Task, child: &mut Option<Child>) -> Result<()> {
        loop {
            if child.is_none() && self.own.is_none() {
                let rest_ns = task.start_ns.saturating_sub(wall_ns());
                if self.early.is_some() || interrupt::came() {
                    let why = "it was interrupted before the start".to_owned();
                    self.own = Some(ended(exit::INTERRUPTED, Some(why)));
                } else if rest_ns <= LOOK.as_nanos() as i64 {
                    std::thread::sleep(Duration::from_nanos(rest_ns.max(0).unsigned_abs()));
                    *child = Some(start(self.member, task)?);
                }
            }
            if let Some(process) = child.as_mut()
                && self.own.is_none()
            {
                // What has ended by itself is not asked: its code is its own.
                if let Some(status) = process.try_wait().context("wait")? {
                    let mut own = task.end(status);
                    // A signal to this host's process only must not leave the others without it.
                    if interrupt::came() && self.early.is_none() && own.failure.is_none() {
                        own.failure = Some(INTERRUPTED.to_owned());
                    }
                    self.own = Some(own);
                } else {
                    self.end_if_asked(process, task.has_command, interrupt::came())?;
                }
            }
            // Its own part has ended; the others are to end, too.
            if self.is_leader() && self.own.is_some() && interrupt::came() {
                let ended = || early_end(self.member, INTERRUPTED.to_owned());
                self.early.get_or_insert_with(ended);
            }
            self.pass_on(task, child.as_ref());
            self.answer_later(child.as_ref());
            self.look()?;
            if self.is_over() {
                return Ok(());
            }
            let napped_at = Instant::now();
            self.nap(child.as_mut());
            self.excuse_own_absence(napped_at.elapsed());
        }
    }

    fn is_leader(&self) -> bool {
        self.member.rank == 0
    }

    /// Rank 0 waits for the others; with an early end only for a while. The others have to say
    /// that they ended, or are lost for rank 0, which ends all. Then they wait for rank 0: Open
    /// MPI's mpirun kills all processes once one ends with a code other than 0.
    fn is_over(&self) -> bool {
        let all = || {
            let others = self.others.iter().skip(1);
            others.clone().all(|seen| {
                seen.ended.is_some() || (self.early.is_some() && seen.is_lost(self.lost_after))
            })
        };
        if self.is_leader() {
            self.own.is_some() && all()
        } else {
            let is_alone = || self.leader.is_lost(self.lost_after) || interrupt::came();
            self.is_told && (self.is_released || is_alone())
        }
    }

    /// Asks the process to end where it should, and kills it if it does not within [`GRACE`].
    fn end_if_asked(
        &mut self,
        child: &mut Child,
        has_command: bool,
        is_interrupted: bool,
    ) -> Result<()> {
        if self.early.is_none() && !is_interrupted {
            return Ok(());
        }
        match self.asked_at {
            None => {
                self.asked_at = Some(Instant::now());
                // From a terminal it has the signal already, and a second one means more.
                if self.early.is_some() || !std::io::stdin().is_terminal() {
                    self.signal(child);
                }
            }
            // The signal was not the terminal's.
            Some(at) if at.elapsed() > ASK_AGAIN && !self.is_signalled => self.signal(child),
            Some(_) => {}
        }
        // The others' ends by a signal that this host got, too, are no failure of them.
        let is_users = is_interrupted && self.early.as_ref().is_none_or(EarlyEnd::is_asked);
        if has_command && is_users && !self.is_asked_again {
            self.grace_since = None;
            if self.later.is_none() {
                self.later = Some(Signals::take(&[], None).context("signalfd")?);
            }
        } else if self.grace_since.get_or_insert_with(Instant::now).elapsed() > GRACE {
            let _ = child.kill();
        }
        Ok(())
    }

    /// Answers the signals that came after the first by which the user asked the program to end.
    fn answer_later(&mut self, child: Option<&Child>) {
        while let Some(arrived) = self.later.as_ref().and_then(Signals::next) {
            let Some(process) = child.filter(|_| self.own.is_none()) else {
                continue;
            };
            if ENDING.contains(&arrived.signal) {
                self.is_asked_again = true;
                self.signal(process);
            } else if PASSED.contains(&arrived.signal)
                && is_taken(&Root::default(), process.id(), arrived.signal)
            {
                let _ = kill(Pid::from_raw(process.id().cast_signed()), arrived.signal);
            }
        }
    }

    /// Passes a signal on to the program, if there is one, once its sandbag takes it: by default
    /// it would kill.
    fn pass_on(&self, task: &Task, child: Option<&Child>) {
        let Some(process) = child.filter(|_| self.own.is_none()) else {
            return;
        };
        if task.has_command && !is_taken(&Root::default(), process.id(), Signal::SIGUSR1) {
            return;
        }
        if let Some(signal) = interrupt::take_passed().filter(|_| task.has_command) {
            let _ = kill(Pid::from_raw(process.id().cast_signed()), signal);
        }
    }

    fn signal(&mut self, child: &Child) {
        self.is_signalled = true;
        let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
    }

    fn look(&mut self) -> Result<()> {
        self.beat += 1;
        if self.is_leader() {
            self.look_at_others();
            self.note.beat += 1;
            self.note.at_ns = wall_ns();
            self.note.end.clone_from(&self.early);
            // Each host reads every word, and needs the plan's members only until all have begun.
            let mut others = self.others.iter().skip(1);
            if others.all(|seen| seen.beat > 0 || seen.ended.is_some()) {
                self.note.plan.iter_mut().for_each(StartPlan::forget);
            }
            let written = self.place.write_leader(&self.note);
            return self.bear(written);
        }
        if self.is_told {
            if let Some(leader) = self.place.leader() {
                self.leader.hear(leader.beat);
                self.is_released = leader.is_over || leader.nonce != self.note.nonce;
            }
            return Ok(());
        }
        if let Some(leader) = self.place.leader() {
            if leader.nonce == self.note.nonce {
                self.leader.hear(leader.beat);
                self.early = self.early.take().or_else(|| leader.end.clone());
            } else {
                self.lose_leader("another experiment began in this directory");
            }
        }
        if self.own.is_none() && self.leader.is_lost(self.lost_after) {
            self.lose_leader(&silence(self.lost_after));
        }
        let mut note: MemberNote = self.member.answer(&self.note, wall_ns());
        note.beat = self.beat;
        note.ended.clone_from(&self.own);
        let written = self.place.write_member(&note);
        self.is_told = written.is_ok() && note.ended.is_some();
        self.bear(written)
    }

    /// Time in which this process stood still, as in a job that was suspended, is no silence of
    /// the others.
    fn excuse_own_absence(&mut self, away: Duration) {
        if away > LOOK + LATE {
            let others = self.others.iter_mut().chain([&mut self.leader]);
            others.for_each(|seen| seen.at += away);
            self.written_at += away;
        }
    }

    /// A directory that cannot be written for a moment, being full or away, ends nothing that
    /// the others do not end.
    fn bear(&mut self, written: Result<()>) -> Result<()> {
        match written {
            Ok(()) => self.written_at = Instant::now(),
            Err(error) if self.written_at.elapsed() > self.lost_after => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    fn lose_leader(&mut self, why: &str) {
        let host = self.note.plan.iter().flat_map(|plan| &plan.members);
        let host = host.take(1).map(|one| one.host.clone()).next();
        self.early.get_or_insert_with(|| EarlyEnd {
            rank: 0,
            host: host.unwrap_or_default(),
            ..early_end(self.member, why.to_owned())
        });
    }

    fn look_at_others(&mut self) {
        if let Some(why) = self.own.as_ref().and_then(|own| own.failure.clone()) {
            self.early
                .get_or_insert_with(|| early_end(self.member, why));
        }
        let lost_after = self.lost_after;
        for (seen, rank) in self.others.iter_mut().zip(0u32..).skip(1) {
            let note = self
                .place
                .member(rank)
                .filter(|note| note.leader == self.member.nonce);
            let host = note.as_ref().map(|note| note.host.clone());
            if let Some(note) = note {
                seen.hear(note.beat);
                seen.ended = note.ended;
            }
            let failure = seen.ended.as_ref().and_then(|end| end.failure.clone());
            let lost = seen.is_lost(lost_after).then(|| silence(lost_after));
            if let Some(why) = failure.or(lost) {
                self.early.get_or_insert_with(|| EarlyEnd {
                    rank,
                    host: host.unwrap_or_default(),
                    at: jiff::Timestamp::now().to_string(),
                    why,
                });
            }
        }
    }

    /// Until the next look, or the end of the process.
    fn nap(&self, child: Option<&mut Child>) {
        if let Some(later) = &self.later {
            let _ = later.wait(Some(LOOK.as_nanos() as u64));
            return;
        }
        let until = Instant::now() + LOOK;
        let mut child = child.filter(|_| self.own.is_none());
        // A signal ends the wait; what it means is looked at next.
        let _ = interrupt::wait_for(until, || {
            child
                .as_mut()
                .is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
        });
        if interrupt::came() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Rank 0 has written the record: the others may end, too. Without this they do so later.
pub fn release(place: &MeetingPlace, leader: &LeaderNote, end: &CourseEnd) {
    let mut note = LeaderNote {
        at_ns: wall_ns(),
        beat: u64::MAX,
        end: end.early.clone(),
        is_over: true,
        ..leader.clone()
    };
    note.plan.iter_mut().for_each(StartPlan::forget);
    let _ = place.write_leader(&note);
}

/// The task of this host, without the others; its exit code.
pub fn alone(member: &Member, task: &Task) -> Result<u8> {
    let status = start(member, task)?.wait().context("wait")?;
    Ok(outcome(status, task.has_command).code)
}

fn silence(after: Duration) -> String {
    format!("nothing was heard of it for {} s", after.as_secs())
}

fn start(member: &Member, task: &Task) -> Result<Child> {
    let mut sandbag = Command::new("/proc/self/exe");
    sandbag.arg0("sandbag").args(&task.words);
    sandbag.envs(passed_on(member.rank, member.ranks));
    sandbag
        .program_dies_with_us(libc::SIGTERM)
        .spawn()
        .context("start sandbag")
}

fn ended(code: u8, failure: Option<String>) -> MemberEnd {
    MemberEnd {
        code,
        at: jiff::Timestamp::now().to_string(),
        failure,
    }
}

/// Whether this host did its part: a verdict, or a command that ended by itself, whatever its
/// code.
fn outcome(status: ExitStatus, has_command: bool) -> MemberEnd {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(exit::FAILED),
        (None, signal) => exit::of_command(None, signal),
    };
    let why = match (code, status.signal()) {
        (_, Some(signal)) => Some(format!("sandbag was ended by signal {signal}")),
        // With a command it may be the command's own.
        (exit::INTERRUPTED, _) if !has_command => Some(INTERRUPTED.to_owned()),
        (exit::OUR_FAILURE, _) if has_command => Some("sandbag failed there".to_owned()),
        (exit::NOT_FOUND | exit::NOT_EXECUTABLE, _) if has_command => {
            Some("the command cannot be run there".to_owned())
        }
        (exit::KEPT | exit::MISSED | exit::UNDECIDED | exit::TIMED_OUT, _) => None,
        (code, _) if !has_command => Some(format!("sandbag failed there (exit code {code})")),
        _ => None,
    };
    ended(code, why)
}

#[cfg(test)]
mod tests;
