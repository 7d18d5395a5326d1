// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The run proper: publish the profile ahead of time, sleep, wake.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::Signal;
use nix::sys::time::TimeSpec;
use sandbag_linux::clock;

use super::SupervisedRun;
use super::burner::Common;
use super::control::LoadControl;
use super::cpu::{LoadedCpu, WATCH_NS};
use super::feed::Feed;
use super::meter::WINDOW_NS;
use super::node::SupervisedNode;
use super::outcome::RunEnd;
use super::timeline::LoadPiece;
use super::trigger::Trigger;
use crate::board::{BOUNDARY_NS, LoadOrder, ORDERS};
use sandbag_run::error::Result;

/// Pieces that are published before they begin. Also how late the
/// supervisor may be without a burner missing a change.
const PIECES_AHEAD: usize = 6;
/// Shorter ones are published as long before: a burner plans the longest period, 100 ms, at
/// its beginning.
const AHEAD_NS: u64 = 2 * BOUNDARY_NS;
/// Pieces in the ring at most: a burner that is late has half of it to catch up.
const MOST_AHEAD: usize = ORDERS / 2;
/// How often the room of burners is looked at in the first second.
const EARLY_NS: u64 = WINDOW_NS / 5;
/// How long after its end all of a load is noted for certain.
const NOTED_NS: u64 = WINDOW_NS;

/// Whether another piece is to be published behind these.
fn wants_more(ahead: &VecDeque<LoadPiece>, run_ns: u64) -> bool {
    let is_near = |last: &LoadPiece| last.start_ns < run_ns + AHEAD_NS;
    ahead.len() < PIECES_AHEAD || (ahead.len() < MOST_AHEAD && ahead.back().is_some_and(is_near))
}

impl SupervisedRun<'_> {
    /// The run proper. Returns the run time at which it ended, and why.
    pub(super) fn hold(&mut self, common: &Common<'_>, feed: &mut Feed) -> Result<(u64, RunEnd)> {
        let mut next_mark = WINDOW_NS;
        // A service that waits for requests need not wait a second to be let alone.
        let mut early_look = self.method.wants_headroom().then_some(EARLY_NS);
        self.listen(true);
        loop {
            let now = clock::monotonic();
            let run_ns = self.clock.run_ns(now);
            self.publish(common, feed, now)?;
            let profile_end = feed.end_ns();
            let over = profile_end.is_some_and(|end| run_ns >= end);
            // Not where the end is found late, just now: its notes may be late as well.
            if let Some(end) = noted_end(run_ns, self.load_ended_ns) {
                // Windows that are made already are not made again.
                self.assemble(common, end, true);
            }
            if over && self.load_ended_ns.is_none() {
                let end = profile_end.unwrap_or(run_ns);
                self.load_ended_ns = Some(end);
                self.observer.load_over();
                self.mark()?;
                self.beside.end();
                self.cost.load_end_cpu_ns = Some(self.cpu_ns());
            }
            if early_look.is_some_and(|at| run_ns >= at) {
                early_look = Some(run_ns + EARLY_NS).filter(|at| *at < WINDOW_NS);
                // After the load there is nothing to look at, and no window to add to.
                if self.load_ended_ns.is_none() {
                    self.mark()?;
                    self.look_at_room(common)?;
                }
            }
            if window_is_over(next_mark, run_ns, self.load_ended_ns) {
                if self.load_ended_ns.is_none() {
                    self.mark()?;
                }
                self.note_late(run_ns - next_mark);
                let second = self.load_ended_ns.unwrap_or(run_ns) / WINDOW_NS;
                // The newest window waits for the burners' notes.
                let until_ns = second.saturating_sub(1) * WINDOW_NS;
                self.assemble(common, until_ns, false);
                self.look_at_room(common)?;
                self.watch_members();
                self.look_for_foreign(false);
                if self.watch_target()? {
                    return Ok((run_ns, RunEnd::TargetOver));
                }
                self.observer.progress(run_ns);
                next_mark = (run_ns / WINDOW_NS + 1) * WINDOW_NS;
            }
            if over && self.command.is_none() {
                return Ok((profile_end.unwrap_or(run_ns), RunEnd::ProfileOver));
            }
            if let Some(end) = self.keep_limit(now) {
                return Ok((run_ns, end));
            }
            let wakes = [
                early_look.map(|at| self.clock.monotonic_ns(at)),
                (!over).then(|| {
                    self.clock
                        .monotonic_ns(next_mark.min(profile_end.unwrap_or(u64::MAX)))
                }),
                (!over && !self.ahead.is_empty()).then(|| self.next_piece_ns()),
                self.load_ended_ns
                    .map(|end| end + NOTED_NS)
                    .filter(|at| *at > run_ns)
                    .map(|at| self.clock.monotonic_ns(at)),
                self.limit.wake_ns(now),
                (self.cpus.iter().any(|cpu| cpu.was_starved(now))).then_some(now + WATCH_NS),
                self.cpus.iter().filter_map(LoadedCpu::resumes_ns).min(),
            ];
            let wake = wakes.into_iter().flatten().min();
            self.wait_until(wake.unwrap_or(now + 10 * WINDOW_NS));
            self.serve_load(feed);
            let end = self.answer(common)?.or_else(|| self.serve(feed));
            if let Some(end) = end {
                return Ok((self.clock.run_ns(clock::monotonic()), end));
            }
        }
    }

    fn look_at_room(&mut self, common: &Common<'_>) -> Result<()> {
        for (index, cpu) in self.cpus.iter_mut().enumerate() {
            // A burner that is added for another CPU may take its time.
            let idle = self.meter.idle_share(index, clock::monotonic());
            cpu.look(common, &mut self.journal, idle)?;
        }
        Ok(())
    }

    fn note_late(&mut self, late_ns: u64) {
        self.cost.worst_late_ns = self.cost.worst_late_ns.max(late_ns);
        if late_ns >= WINDOW_NS {
            self.observer.warning(format!(
                "sandbag's supervisor did not run for {:.1} s (it was stopped, or had no CPU): \
                 the load of that time is known from the burners' clocks, steal and foreign \
                 load only on average",
                late_ns as f64 / 1e9
            ));
        }
    }

    /// Ends the command, and all that is in its care, when its time is over;
    /// `Some` once nothing of it is left, or nothing can be done about it.
    pub(super) fn keep_limit(&mut self, now: u64) -> Option<RunEnd> {
        let signal = self.limit.signal(now);
        let over = self.limit.is_over(now);
        let Some(running) = &self.command else {
            return over.then_some(RunEnd::TimedOut);
        };
        if let Some(signal) = signal {
            running.tell_all(signal);
            // What is stopped could not answer, and would wait to be killed.
            running.tell_all(Signal::SIGCONT);
        }
        let gone = || running.ended.is_some() && running.everyone().is_empty();
        (over && (gone() || self.limit.is_hopeless(now))).then_some(RunEnd::TimedOut)
    }

    /// When the next published piece begins, or the current one ends.
    pub(super) fn next_piece_ns(&self) -> u64 {
        let run_ns = self.clock.run_ns(clock::monotonic());
        let next = self
            .ahead
            .iter()
            .flat_map(|piece| [piece.start_ns, piece.end_ns])
            .find(|at| *at > run_ns);
        self.clock.monotonic_ns(next.unwrap_or(run_ns + WINDOW_NS))
    }

    /// Publishes pieces ahead of time and makes room for those in sight.
    pub(super) fn publish(&mut self, common: &Common<'_>, feed: &mut Feed, now: u64) -> Result<()> {
        let run_ns = self.clock.run_ns(now);
        while self.ahead.front().is_some_and(|p| p.end_ns <= run_ns) {
            self.ahead.pop_front();
        }
        while wants_more(&self.ahead, run_ns) {
            let Some(piece) = feed.next()? else {
                break;
            };
            self.profile_end_ns = feed.end_ns();
            self.meter.ask(piece.clone());
            // Late by more than all that was published: this one is over, but
            // for the level that the last one leaves.
            if piece.end_ns > run_ns || self.profile_end_ns == Some(piece.end_ns) {
                self.order_piece(common, &piece, run_ns);
                self.ahead.push_back(piece);
            }
        }
        // A method that makes room may do so early; one whose weight or cap
        // is the level must be exact.
        let in_sight = if self.method.wants_headroom() {
            run_ns + WINDOW_NS
        } else {
            run_ns
        };
        for (n, cpu) in self.cpus.iter_mut().enumerate() {
            let level = self
                .ahead
                .iter()
                .take_while(|piece| piece.start_ns <= in_sight)
                .filter_map(|piece| piece.asked_pct.get(n))
                .fold(0.0f64, |most, pct| most.max(pct / 100.0));
            cpu.make_room(common, &mut self.journal, self.method.serves(level))?;
        }
        Ok(())
    }

    pub(super) fn order_piece(&mut self, common: &Common<'_>, piece: &LoadPiece, run_ns: u64) {
        let from_ns = self.clock.monotonic_ns(piece.start_ns.max(run_ns));
        for (cpu, pct) in self.cpus.iter_mut().zip(&piece.asked_pct) {
            let level = self.method.serves(pct / 100.0);
            cpu.order(common, LoadOrder { from_ns, level });
        }
        // The end of the profile is an order as well.
        if self.profile_end_ns == Some(piece.end_ns) {
            let from_ns = self.clock.monotonic_ns(piece.end_ns);
            for cpu in &mut self.cpus {
                cpu.order(
                    common,
                    LoadOrder {
                        from_ns,
                        level: 0.0,
                    },
                );
            }
        }
    }

    pub(super) fn wait_until(&mut self, until_ns: u64) {
        let left = Duration::from_nanos(until_ns.saturating_sub(clock::monotonic()));
        let mut fds = vec![
            PollFd::new(self.signals.fd().as_fd(), PollFlags::POLLIN),
            PollFd::new(self.alarm.as_fd(), PollFlags::POLLIN),
        ];
        let node = self.node.as_ref().and_then(SupervisedNode::fd);
        fds.extend(node.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let load = self.load_control.as_ref().and_then(LoadControl::fd);
        fds.extend(load.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        if let Some(word) = self.trigger.as_ref().and_then(Trigger::descriptor) {
            fds.push(PollFd::new(word, PollFlags::POLLIN));
        }
        let watchdogs = self.cpus.iter().filter_map(LoadedCpu::watchdog);
        fds.extend(watchdogs.map(|watchdog| PollFd::new(watchdog.as_fd(), PollFlags::POLLIN)));
        // An error here is a wake-up: every caller looks at everything.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(left)), None);
        self.cost.wakeups += 1;
    }
}

/// Whether the window that ends at `next_mark` is over. After the end of the
/// load there are none, and nothing can be late for them.
fn window_is_over(next_mark: u64, run_ns: u64, load_ended_ns: Option<u64>) -> bool {
    run_ns >= next_mark && load_ended_ns.is_none_or(|end| next_mark <= end)
}

/// The end of a load whose last windows are to be made, though the command goes on: what
/// slows a node notes every boundary and writes over its oldest note, 25 s later.
fn noted_end(run_ns: u64, load_ended_ns: Option<u64>) -> Option<u64> {
    load_ended_ns.filter(|end| run_ns >= end + NOTED_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_pieces_are_published_as_long_before_as_a_burner_plans() {
        let published = |length_ns: u64| {
            let mut ahead = VecDeque::new();
            while wants_more(&ahead, 0) {
                let start_ns = ahead.len() as u64 * length_ns;
                ahead.push_back(LoadPiece {
                    start_ns,
                    end_ns: start_ns + length_ns,
                    asked_pct: Vec::new(),
                });
            }
            ahead.len()
        };
        assert_eq!(published(WINDOW_NS), PIECES_AHEAD);
        // All that begin within 200 ms, and the one after them.
        assert_eq!(published(10_000_000), 21);
        assert_eq!(published(1_000_000), MOST_AHEAD);
    }

    #[test]
    fn the_last_windows_wait_for_their_notes_and_not_for_the_command() {
        let end = 3 * WINDOW_NS / 2;
        assert_eq!(noted_end(9 * WINDOW_NS, None), None);
        assert_eq!(noted_end(end + NOTED_NS - 1, Some(end)), None);
        assert_eq!(noted_end(end + NOTED_NS, Some(end)), Some(end));
    }

    #[test]
    fn no_window_is_late_after_the_end_of_the_load() {
        let second = WINDOW_NS;
        assert!(!window_is_over(second, second - 1, None));
        assert!(window_is_over(second, 4 * second, None));
        assert!(window_is_over(second, 9 * second, Some(3 * second / 2)));
        assert!(!window_is_over(
            2 * second,
            9 * second,
            Some(3 * second / 2)
        ));
    }
}
