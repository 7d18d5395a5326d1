// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One sandbag on each host of an MPI program: all begin at a time that they agree on by
//! messages, so that no directory has to be shared, and all end when one fails.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use mpi::topology::SimpleCommunicator;
use mpi::traits::Communicator as _;
use mpi::traits::{Destination as _, Root as _, Source as _};
use sandbag_hosts::clocks::{Exchange, Offset, wall_ns};
use sandbag_linux::child::{ChildSetup as _, end_or_kill};
use sandbag_linux::launcher::passed_on;
use sandbag_ui::exit;

/// Run sandbag on every rank's host, all beginning at the same time
///
/// For hosts that share no directory: clocks are compared and the start is agreed on by MPI
/// messages. If one fails, all end. Start one rank per host: mpirun --map-by ppr:1:node
/// sandbag-mpi start -- load 50 -d 1m --out run-%h
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The sandbag to run
    #[arg(long, value_name = "FILE", default_value = "sandbag")]
    sandbag: PathBuf,

    /// The words for sandbag: load, replay or slow with its options
    #[arg(last = true, value_name = "WORDS", required = true)]
    words: Vec<OsString>,
}

const KILL: &str = "--kill";
/// Who does not end by then is killed, and with it its command.
const GRACE: Duration = Duration::from_secs(10);
/// Stamps that are exchanged with each rank; the fastest exchange counts.
const EXCHANGES: usize = 16;
/// From the agreement to the start: sandbag holds its first level in it, ns.
const AHEAD_NS: i64 = 2_500_000_000;
/// Between two looks at the others. A rank that waited in MPI itself would keep a CPU busy.
const LOOK: Duration = Duration::from_millis(50);

/// What a rank sends to the first one when its sandbag has ended, and the first one to all.
const ENDED: i32 = 1;
const COURSE: i32 = 2;

/// Runs sandbag on this rank. Collective: all ranks call it. Returns the exit code.
///
/// # Errors
/// Sandbag cannot be started.
pub fn start(args: &StartArgs, world: &SimpleCommunicator) -> Result<u8> {
    let offset = compare_clocks(world);
    let mut begin_ns = wall_ns() + AHEAD_NS;
    world.process_at_rank(0).broadcast_into(&mut begin_ns);
    let own_ns = begin_ns + offset.correction_ns();
    if world.rank() == 0 {
        crate::say(format_args!(
            "{} hosts; their clocks were compared to within {:.3} ms",
            world.size(),
            offset.within_ms
        ));
    } else if offset.is_certain() {
        crate::say(format_args!(
            "rank {}: its clock is {:+.3} ms ahead of rank 0's (to within {:.3} ms); \
             its start is moved by that",
            world.rank(),
            offset.ms,
            offset.within_ms
        ));
    }
    let mut child = Command::new(&args.sandbag)
        .args(at(&args.words, own_ns))
        .envs(passed_on(
            world.rank().unsigned_abs(),
            world.size().unsigned_abs(),
        ))
        .program_dies_with_us(libc::SIGTERM)
        .spawn()
        .with_context(|| args.sandbag.display().to_string());
    let mut others = Others::new(world);
    match &mut child {
        Ok(child) => watch(
            &mut others,
            child,
            args.words.iter().any(|word| word == "--"),
        ),
        Err(_) => {
            others.tell(true);
            others.wait(|_| Ok(()))?;
            child.map(|_| exit::OUR_FAILURE)
        }
    }
}

/// How far this rank's clock is ahead of the first one's; of the first one the widest error
/// that another has.
fn compare_clocks(world: &SimpleCommunicator) -> Offset {
    let first = world.rank() == 0;
    let mut own = Offset::default();
    let mut widest = 0.0f64;
    for rank in 1..world.size() {
        if !first && rank != world.rank() {
            continue;
        }
        let other = world.process_at_rank(if first { rank } else { 0 });
        let mut best: Option<Offset> = None;
        for _ in 0..EXCHANGES {
            if first {
                let sent_ns = wall_ns();
                other.send(&sent_ns);
                let stamps = other.receive_vec::<i64>().0;
                let answered_ns = wall_ns();
                let found = Offset::of(&Exchange {
                    sent_ns,
                    read_ns: stamps[0],
                    written_ns: stamps[1],
                    answered_ns,
                });
                let both = [best, found].into_iter().flatten();
                best = both.min_by(|a, b| a.within_ms.total_cmp(&b.within_ms));
            } else {
                other.receive::<i64>();
                let read_ns = wall_ns();
                other.send(&[read_ns, wall_ns()][..]);
            }
        }
        if first {
            // Clocks that were set meanwhile are not compared.
            let best = best.unwrap_or(Offset {
                ms: 0.0,
                within_ms: f64::INFINITY,
            });
            widest = widest.max(best.within_ms);
            other.send(&[best.ms, best.within_ms][..]);
        } else {
            let told = other.receive_vec::<f64>().0;
            own = Offset {
                ms: told[0],
                within_ms: told[1],
            };
        }
    }
    if first {
        own.within_ms = widest;
    }
    own
}

/// The words with the time of the start before those of the program.
fn at(words: &[OsString], ns: i64) -> Vec<OsString> {
    let end = words.iter().position(|word| word == "--");
    let (own, program) = words.split_at(end.unwrap_or(words.len()));
    let (s, ns) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    let time = OsString::from(format!("--at=@{s}.{ns:09}"));
    // The program ends with it.
    let is_given = own.iter().any(|word| word == KILL);
    let kill = (!program.is_empty() && !is_given).then(|| KILL.into());
    own.iter()
        .cloned()
        .chain([time])
        .chain(kill)
        .chain(program.iter().cloned())
        .collect()
}

/// Until this rank's sandbag and those of all others have ended.
fn watch(others: &mut Others<'_>, child: &mut Child, has_command: bool) -> Result<u8> {
    let mut code = None;
    others.wait(|others| {
        if code.is_some() {
            return Ok(());
        }
        if others.is_early {
            end_or_kill(child, GRACE);
            code = Some(exit::OUR_FAILURE);
            others.tell(false);
        } else if let Some(status) = child.try_wait().context("wait")? {
            code = Some(exit::of_command(status.code(), status.signal()));
            let failed = status
                .code()
                .is_none_or(|code| is_failure(code, has_command));
            others.tell(failed);
        }
        Ok(())
    })?;
    Ok(code.unwrap_or(exit::OUR_FAILURE))
}

/// The other ranks must not go on without this one. Codes up to 4 are verdicts; with a command
/// all but some are the command's.
fn is_failure(code: i32, has_command: bool) -> bool {
    let is = |known: &[u8]| known.iter().any(|known| code == i32::from(*known));
    if has_command {
        is(&[exit::OUR_FAILURE, exit::NOT_EXECUTABLE, exit::NOT_FOUND])
    } else {
        !is(&[exit::KEPT, exit::MISSED, exit::UNDECIDED, exit::TIMED_OUT])
    }
}

/// What is known of the other ranks.
struct Others<'a> {
    world: &'a SimpleCommunicator,
    /// Who has not ended, as the first one knows it.
    open: i32,
    /// One has failed.
    is_early: bool,
    /// All have ended.
    is_over: bool,
}

impl<'a> Others<'a> {
    fn new(world: &'a SimpleCommunicator) -> Self {
        Self {
            world,
            open: world.size(),
            is_early: false,
            is_over: false,
        }
    }

    /// This rank has ended.
    fn tell(&mut self, has_failed: bool) {
        if self.world.rank() == 0 {
            self.hear(has_failed);
        } else {
            let first = self.world.process_at_rank(0);
            first.send_with_tag(&u8::from(has_failed), ENDED);
        }
    }

    /// The first rank hears that one has ended, and passes on what the others have to know.
    fn hear(&mut self, has_failed: bool) {
        self.open -= 1;
        if has_failed && !self.is_early {
            self.is_early = true;
            self.say(false);
        }
        if self.open == 0 {
            self.is_over = true;
            self.say(true);
        }
    }

    fn say(&self, is_over: bool) {
        for rank in 1..self.world.size() {
            let other = self.world.process_at_rank(rank);
            other.send_with_tag(&u8::from(is_over), COURSE);
        }
    }

    /// Looks at this rank and at the others in turn, until all have ended.
    fn wait(&mut self, mut look: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        while !self.is_over {
            look(self)?;
            if self.world.rank() == 0 {
                let any = self.world.any_process();
                while let Some((message, _)) = any.immediate_matched_probe_with_tag(ENDED) {
                    self.hear(message.matched_receive::<u8>().0 == 1);
                }
            } else {
                let first = self.world.process_at_rank(0);
                while let Some((message, _)) = first.immediate_matched_probe_with_tag(COURSE) {
                    match message.matched_receive::<u8>().0 {
                        1 => self.is_over = true,
                        _ => self.is_early = true,
                    }
                }
            }
            if !self.is_over {
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_stands_before_the_program() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        let with = at(&words("load 5 -- app --at x"), 1_500_000_000_250_000_000);
        assert_eq!(
            with,
            words("load 5 --at=@1500000000.250000000 --kill -- app --at x")
        );
        assert_eq!(at(&words("load 5"), 7), words("load 5 --at=@0.000000007"));
        assert!(is_failure(125, true) && is_failure(1, false));
        assert!(!is_failure(1, true) && !is_failure(3, false));
    }
}
