// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Before the start: all come to the directory, exchange stamps and agree on a time.
//!
//! Rank 0 leads. It writes its clock's time again and again; each of the others answers with
//! that time and its own. From the exchange of least delay the leader knows by how much a
//! clock is ahead, and the error of that. When all have answered often enough it names the
//! start, far enough ahead for all to read it and to hold their first level.

use std::time::{Duration, Instant};

use sandbag_linux::{Root, interrupt, machine};
use sandbag_ui::BadInput;
use sandbag_ui::failure::{Failure, Result};

use crate::clocks::{ClockState, Exchange, Offset, wall_ns};
use crate::exchange::{
    EarlyEnd, LeaderNote, MeetingPlace, MemberEnd, MemberNote, PlannedMember, StartPlan, nonce,
};

/// Answers of each rank that are waited for.
const EXCHANGES: usize = 8;
/// Between two looks into the directory.
const LOOK: Duration = Duration::from_millis(2);
/// The same for who has not heard of rank 0.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// Between two words of who has not heard of rank 0.
const UNHEARD: Duration = Duration::from_secs(1);
/// Who has heard of rank 0 waits for its word for this much longer.
const HEARD: Duration = Duration::from_secs(5);
/// Rank 0 tries for this long to write the plan.
const LAST_WORD: Duration = Duration::from_millis(500);
/// From the agreement to the start: two seconds in which the first level is held, and time to
/// read the plan.
const AHEAD_MS: f64 = 2500.0;
/// Clocks that differ by more are reported, ms.
pub(crate) const FAR_MS: f64 = 10.0;

/// This process of the experiment.
#[derive(Debug, Clone)]
pub struct Member {
    pub rank: u32,
    pub ranks: u32,
    pub host: String,
    pub boot: String,
    pub nonce: String,
    pub clock: ClockState,
}

impl Member {
    /// # Errors
    /// The host has no name, or there are no numbers of chance.
    pub fn here(rank: u32, ranks: u32) -> Result<Self> {
        let root = Root::default();
        let boot = root
            .read("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default();
        Ok(Self {
            rank,
            ranks,
            host: machine::host(&root).unwrap_or_default(),
            boot: boot.trim().to_owned(),
            nonce: nonce()?,
            clock: ClockState::here(),
        })
    }

    /// What rank 0 says before there is a plan.
    pub fn leader_note(&self) -> LeaderNote {
        LeaderNote {
            nonce: self.nonce.clone(),
            sandbag: env!("CARGO_PKG_VERSION").to_owned(),
            ranks: self.ranks,
            at_ns: wall_ns(),
            beat: 0,
            plan: None,
            end: None,
            is_over: false,
        }
    }

    /// What another rank answers.
    pub fn answer(&self, leader: &LeaderNote, read_ns: i64) -> MemberNote {
        MemberNote {
            leader: leader.nonce.clone(),
            echo_ns: leader.at_ns,
            read_ns,
            ..self.unheard()
        }
    }

    /// What another rank says that has not heard of rank 0.
    fn unheard(&self) -> MemberNote {
        MemberNote {
            nonce: self.nonce.clone(),
            leader: String::new(),
            rank: self.rank,
            ranks: self.ranks,
            host: self.host.clone(),
            boot: self.boot.clone(),
            sandbag: env!("CARGO_PKG_VERSION").to_owned(),
            echo_ns: 0,
            read_ns: 0,
            written_ns: wall_ns(),
            clock: self.clock.clone(),
            beat: 0,
            ended: None,
        }
    }
}

/// What could not be written for now: a shared file system may be full, or its server away.
#[derive(Default)]
struct Unwritten(Option<Failure>);

impl Unwritten {
    /// Whether it was written.
    ///
    /// # Errors
    /// It never can be: waiting does not help.
    fn bear(&mut self, written: Result<()>) -> Result<bool> {
        match written {
            Ok(()) => self.0 = None,
            Err(error) if is_lasting(&error) => return Err(error),
            Err(error) => self.0 = Some(error),
        }
        Ok(self.0.is_none())
    }
}

fn is_lasting(error: &Failure) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.io_kind(), Some(PermissionDenied | ReadOnlyFilesystem))
}

/// Who was met so far, and the best exchange with each.
struct Met {
    note: MemberNote,
    exchanges: usize,
    best: Option<Offset>,
    /// Of the slowest exchange.
    slowest_ms: f64,
    /// Processes of this rank that another one took the place of.
    before: Vec<String>,
}

impl Met {
    fn add(&mut self, note: MemberNote, answered_ns: i64) {
        let is_new = note.echo_ns != self.note.echo_ns || self.exchanges == 0;
        if is_new {
            self.exchanges += 1;
            let found = Offset::of(&Exchange {
                sent_ns: note.echo_ns,
                read_ns: note.read_ns,
                written_ns: note.written_ns,
                answered_ns,
            });
            self.slowest_ms = found
                .map_or(0.0, |found| found.within_ms)
                .max(self.slowest_ms);
            let nearest = [self.best, found].into_iter().flatten();
            self.best = nearest.min_by(|a, b| a.within_ms.total_cmp(&b.within_ms));
        }
        self.note = note;
    }
}

/// Rank 0: waits for all others and names the start.
///
/// # Errors
/// Ranks are missing after `patience`, two are on one host, or a version differs. The others read why.
/// The directory can never be written, or cannot for so long.
pub fn lead(member: &Member, place: &MeetingPlace, patience: Duration) -> Result<LeaderNote> {
    let mut note = member.leader_note();
    let until = Instant::now() + patience;
    let mut met: Vec<Option<Met>> = (0..member.ranks).map(|_| None).collect();
    let first_ns = wall_ns();
    let mut is_said = false;
    let mut unwritten = Unwritten::default();
    let outcome = loop {
        if let Err(error) = interrupt::check() {
            break Err((error.into(), "it was interrupted".to_owned()));
        }
        let is_other = |leader: LeaderNote| leader.nonce != note.nonce && is_said;
        if place.leader().is_some_and(is_other) {
            let why = "two processes have rank 0 in this directory".to_owned();
            return Err(BadInput(why).into());
        }
        note.at_ns = wall_ns();
        note.beat += 1;
        if unwritten.bear(place.write_leader(&note))? {
            is_said = true;
        } else if Instant::now() < until {
            std::thread::sleep(LOOK);
            continue;
        }
        if let Some(error) = unwritten.0 {
            return Err(error);
        }
        for rank in 1..member.ranks {
            let answer = place
                .member(rank)
                .filter(|answer| answer.leader == note.nonce);
            let Some(answer) = answer else { continue };
            let answered_ns = wall_ns();
            // What it answers was said by this process.
            if !(first_ns..=answered_ns).contains(&answer.echo_ns) {
                continue;
            }
            let slot = &mut met[rank as usize];
            match slot {
                Some(known) if known.note.nonce == answer.nonce => known.add(answer, answered_ns),
                _ => {
                    let mut before = slot.take().map_or(Vec::new(), |old| {
                        let mut before = old.before;
                        before.push(old.note.nonce);
                        before
                    });
                    before.dedup();
                    let mut new = Met {
                        note: answer.clone(),
                        exchanges: 0,
                        best: None,
                        slowest_ms: 0.0,
                        before,
                    };
                    new.add(answer, answered_ns);
                    *slot = Some(new);
                }
            }
        }
        if let Some(why) = refusal(member, &met) {
            break Err((BadInput(why.clone()).into(), why));
        }
        let is_ready = |one: &Option<Met>| {
            one.as_ref()
                .is_some_and(|one| one.exchanges >= EXCHANGES && one.best.is_some())
        };
        if met.iter().skip(1).all(is_ready) {
            break Ok(plan(member, &met));
        }
        if Instant::now() >= until {
            let why = absent(member, &met, patience);
            break Err((Failure::text(why.clone()), why));
        }
        std::thread::sleep(LOOK);
    };
    let outcome: Result<()> = match outcome {
        Ok(plan) => {
            note.plan = Some(plan);
            Ok(())
        }
        Err((error, why)) => {
            note.end = Some(early_end(member, why));
            Err(error)
        }
    };
    note.beat += 1;
    note.at_ns = wall_ns();
    // The start of a plan does not wait.
    let until = Instant::now() + note.plan.as_ref().map_or(HEARD, |_| LAST_WORD);
    while !unwritten.bear(place.write_leader(&note))? && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
    outcome.and(unwritten.0.map_or(Ok(note), Err))
}

/// Another rank: answers until there is a plan with it.
///
/// # Errors
/// Nothing is heard of rank 0, or it ended the experiment; the directory can never be written, or
/// cannot for so long.
pub fn follow(member: &Member, place: &MeetingPlace, patience: Duration) -> Result<LeaderNote> {
    let until = Instant::now() + patience;
    let mut last = None;
    let mut said_at: Option<Instant> = None;
    let mut before = None;
    let mut unwritten = Unwritten::default();
    loop {
        interrupt::check()?;
        let leader = place.leader();
        let before: &Option<String> =
            before.get_or_insert_with(|| leader.as_ref().map(|leader| leader.nonce.clone()));
        if let Some(leader) = leader {
            let read_ns = wall_ns();
            let is_in = |plan: &StartPlan| plan.members.iter().any(|one| one.nonce == member.nonce);
            if leader.plan.as_ref().is_some_and(is_in) {
                return Ok(leader);
            }
            // The end of an earlier experiment has stood there before. That of a leader who came
            // since is ours, and may come before our answer.
            let is_answered = last
                .as_ref()
                .is_some_and(|(nonce, _)| *nonce == leader.nonce);
            let is_mine = is_answered || before.as_ref() != Some(&leader.nonce);
            if let Some(end) = leader.end.as_ref().filter(|_| is_mine) {
                let text = format!("{} (rank {}): {}", end.host, end.rank, end.why);
                return Err(Failure::text(text));
            }
            let is_open = leader.plan.is_none() && leader.end.is_none();
            let key = (leader.nonce.clone(), leader.at_ns);
            if !is_open {
                unwritten = Unwritten::default();
            } else if last.as_ref() != Some(&key) {
                let written = place.write_member(&member.answer(&leader, read_ns));
                if unwritten.bear(written)? {
                    last = Some(key);
                }
            }
        } else if last.is_none() && said_at.is_none_or(|at| at.elapsed() > UNHEARD) {
            // An NFS client may keep that a file is not there for as long as the attributes of
            // its directory (acdirmin, 30 s), unless it changes the directory itself. Rank 0
            // passes over this.
            unwritten.bear(place.write_member(&member.unheard()))?;
            said_at = Some(Instant::now());
        }
        // Rank 0 knows who is missing, and is about to say it.
        let more = if last.is_some() {
            HEARD
        } else {
            Duration::ZERO
        };
        if Instant::now() >= until + more {
            if let Some(error) = unwritten.0 {
                return Err(error);
            }
            // Which does not look for a rank beyond its own count.
            let heard = place.leader().filter(|leader| {
                let key = last.as_ref().map(|(nonce, _)| nonce);
                leader.ranks != member.ranks && key == Some(&leader.nonce)
            });
            if let Some(leader) = heard {
                let why = counted_otherwise(member, leader.ranks, "rank 0");
                return Err(BadInput(why).into());
            }
            let text = format!(
                "rank {} on {} waited {} s for rank 0: is --out the same directory on all hosts, and \
                 was sandbag started on all of them?",
                member.rank,
                member.host,
                patience.as_secs()
            );
            return Err(Failure::text(text));
        }
        std::thread::sleep(if last.is_some() { LOOK } else { FIRST_LOOK });
    }
}

/// Why these cannot make an experiment together.
fn refusal(member: &Member, met: &[Option<Met>]) -> Option<String> {
    let own = (member.rank, member.host.as_str(), member.boot.as_str());
    let others = met.iter().flatten();
    let mut all = vec![own];
    all.extend(others.clone().map(|one| {
        let note = &one.note;
        (note.rank, note.host.as_str(), note.boot.as_str())
    }));
    for (at, (rank, host, boot)) in all.iter().enumerate() {
        let Some((other, _, other_boot)) = all.iter().take(at).find(|(_, name, _)| name == host)
        else {
            continue;
        };
        return Some(if boot == other_boot {
            format!(
                "ranks {other} and {rank} are both on {host}, and a condition is held by one sandbag \
                 per host: srun --ntasks-per-node=1, mpirun --map-by ppr:1:node"
            )
        } else {
            format!("ranks {other} and {rank} are on two hosts of the same name, {host}")
        });
    }
    // One that was started again is new once; two take turns.
    let twice = |one: &&Met| one.before.contains(&one.note.nonce);
    if let Some(Met { note, .. }) = others.clone().find(twice) {
        return Some(format!(
            "two processes have rank {}, the last one on {}: give each host its own",
            note.rank, note.host
        ));
    }
    if let Some(Met { note, .. }) = others.clone().find(|one| one.note.ranks != member.ranks) {
        return Some(counted_otherwise(member, note.ranks, &note.host));
    }
    let version = env!("CARGO_PKG_VERSION");
    let other = others.clone().find(|one| one.note.sandbag != version)?;
    let note = &other.note;
    Some(format!(
        "{} has sandbag {}, and {} has {version}: install the same version on all hosts",
        note.host, note.sandbag, member.host
    ))
}

fn counted_otherwise(member: &Member, ranks: u32, host: &str) -> String {
    format!(
        "{host} counts {ranks} hosts, and {} {}: give the same --ranks on all hosts, and start one \
         experiment at a time in a directory",
        member.host, member.ranks
    )
}

fn plan(member: &Member, met: &[Option<Met>]) -> StartPlan {
    let mut members = vec![PlannedMember {
        rank: 0,
        host: member.host.clone(),
        nonce: member.nonce.clone(),
        offset: Offset::default(),
        clock: member.clock.clone(),
    }];
    members.extend(met.iter().flatten().map(|one| PlannedMember {
        rank: one.note.rank,
        host: one.note.host.clone(),
        nonce: one.note.nonce.clone(),
        offset: one.best.unwrap_or_default(),
        clock: one.note.clock.clone(),
    }));
    let slowest = met.iter().flatten().map(|one| one.slowest_ms);
    let slowest = slowest.fold(0.0, f64::max);
    StartPlan {
        start_ns: wall_ns().saturating_add(((AHEAD_MS + 10.0 * slowest) * 1e6) as i64),
        members,
    }
}

fn absent(member: &Member, met: &[Option<Met>], patience: Duration) -> String {
    let missing: Vec<String> = (1..member.ranks)
        .filter(|rank| met[*rank as usize].is_none())
        .map(|rank| rank.to_string())
        .collect();
    let seconds = patience.as_secs();
    if missing.is_empty() {
        return format!("not all ranks answered within {seconds} s");
    }
    let came = member.ranks as usize - missing.len();
    let listed = missing
        .iter()
        .take(20)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let more = if missing.len() > 20 { ", ..." } else { "" };
    format!(
        "{came} of {} hosts came within {seconds} s; missing are ranks {listed}{more} (is --out the \
         same directory on all hosts?)",
        member.ranks
    )
}

/// Says that this rank cannot take part in what was agreed.
///
/// # Errors
/// The directory cannot be written.
pub fn fail(member: &Member, place: &MeetingPlace, leader: &LeaderNote, why: &str) -> Result<()> {
    if member.rank == 0 {
        let mut note = leader.clone();
        note.beat += 1;
        note.end = Some(early_end(member, why.to_owned()));
        // No host is to wait for what it does not write any more.
        note.is_over = true;
        return place.write_leader(&note);
    }
    let mut note = member.answer(leader, wall_ns());
    note.ended = Some(MemberEnd {
        code: sandbag_ui::exit::FAILED,
        at: jiff::Timestamp::now().to_string(),
        failure: Some(why.to_owned()),
    });
    place.write_member(&note)
}

pub(crate) fn early_end(member: &Member, why: String) -> EarlyEnd {
    EarlyEnd {
        rank: member.rank,
        host: member.host.clone(),
        at: jiff::Timestamp::now().to_string(),
        why,
    }
}

#[cfg(test)]
mod tests;
