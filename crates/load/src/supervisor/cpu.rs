// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One loaded CPU: its burners, their orders, and the room they have.

mod weight;

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::Ordering;

use sandbag_linux::Root;
use sandbag_linux::cgroup::{Cap, Weight};
use sandbag_linux::clock;
use sandbag_linux::process::Process;

use super::burner::{Burner, Common};
use super::headroom::{Lightness, competition};
use super::meter::BurnerTime;
use crate::board::{BOUNDARY_NS, LoadOrder};
use crate::method::{Method, Scope};
use crate::watchdog::Watchdog;
use sandbag_run::child;
use sandbag_run::error::{Error, Result};
use sandbag_run::journal::Journal;

/// Burners that one CPU has at most; more weight than they carry is a warning.
pub const MOST_BURNERS: usize = 16;
/// A burner that is killed is started again this often.
const MOST_RESTARTS: u32 = 3;
/// Competition that is assumed before anything is known: the command's group
/// and one more task or group at the top of the tree.
const FIRST_GUESS: f64 = 2.0;
/// What a method gets that cannot tell whether it has enough.
const GENEROUS_GUESS: f64 = 64.0;

/// State of one loaded CPU.
#[derive(Debug)]
pub struct LoadedCpu {
    number: u32,
    /// Has no process of its own, whatever the level.
    none: bool,
    burners: Vec<Burner>,
    /// First slot of this CPU on the board, and how many were used.
    slots: (usize, usize),
    /// Weight of everything else that wants this CPU, as far as known.
    competition: f64,
    weight: Option<Weight>,
    /// Whether its groups may be idle, and whether they were made so with that weight.
    may_be_idle: bool,
    idle: bool,
    cap: Option<Cap>,
    level: f64,
    /// Orders given so far that may still matter, for burners that join.
    recent: Vec<LoadOrder>,
    seen: (u64, u64),
    lost_ns: u64,
    /// What was lost before the run proper, once it has begun.
    lost_before_ns: Option<u64>,
    calm: u32,
    lightness: Lightness,
    watchdog: Option<Watchdog>,
    /// Progress of the burners when it was last seen to change, and when that was.
    progress: (u64, u64),
    /// When it was last found starved.
    starved_ns: u64,
    /// When the estimate of the competition last grew.
    grown_ns: u64,
    restarts: u32,
    last_end: String,
    /// Least share seen that the burners would have had without sleeping.
    pub least_headroom: Option<f64>,
    pub weight_changes: u64,
    pub writes: u64,
    /// The tree gave all it has and it was not enough.
    pub exhausted: bool,
}

pub const SLOTS_PER_CPU: usize = MOST_BURNERS + MOST_RESTARTS as usize;

impl LoadedCpu {
    pub fn new(number: u32, first_slot: usize, method: &Method) -> Self {
        Self {
            number,
            // One acts for the whole node: that of its first CPU.
            none: method.scope == Scope::Node && first_slot > 0,
            burners: Vec::new(),
            slots: (first_slot, 0),
            competition: if method.wants_headroom() {
                FIRST_GUESS
            } else {
                GENEROUS_GUESS
            },
            weight: None,
            may_be_idle: false,
            idle: false,
            cap: None,
            level: 0.0,
            recent: Vec::new(),
            seen: (0, 0),
            lost_ns: 0,
            lost_before_ns: None,
            calm: 0,
            lightness: Lightness::new(false),
            watchdog: None,
            progress: (u64::MAX, 0),
            starved_ns: 0,
            grown_ns: 0,
            restarts: 0,
            last_end: String::new(),
            least_headroom: None,
            weight_changes: 0,
            writes: 0,
            exhausted: false,
        }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// Hears from now on when its burners do not run; to be called before they are
    /// started. They may be light if the supervisor cannot be starved with them, and their
    /// groups idle if the kernel can place them anew afterwards.
    pub fn watch(&mut self, may_be_light: bool, may_be_idle: bool) {
        self.may_be_idle = may_be_idle;
        self.watchdog = Watchdog::new().ok();
        self.lightness = Lightness::new(may_be_light && self.watchdog.is_some());
    }

    pub fn watchdog(&self) -> Option<&Watchdog> {
        self.watchdog.as_ref()
    }

    /// Starts as many burners as the level needs; they wait for orders.
    pub fn start(&mut self, common: &Common<'_>, journal: &mut Journal, level: f64) -> Result<()> {
        self.level = level;
        while self.burners.len() < self.wanted_burners(common) {
            self.add_burner(common, journal)?;
        }
        self.apply(common)
    }

    fn wanted_burners(&self, common: &Common<'_>) -> usize {
        if self.level <= 0.0 || self.none {
            return 0;
        }
        if !common.method.wants_headroom() {
            return 1;
        }
        let demand = common.method.demand(self.level, self.competition).weight.0;
        let groups = (demand / common.layout.most_weight().0).ceil() as usize;
        groups.clamp(1, MOST_BURNERS)
    }

    /// Starts another burner, and again if it dies on its way into its group.
    fn add_burner(&mut self, common: &Common<'_>, journal: &mut Journal) -> Result<()> {
        loop {
            let (first, nth) = self.slots;
            self.slots.1 += 1;
            let watchdog = self.watchdog.as_ref().map(|w| w.as_fd().as_raw_fd());
            let slot = first + nth;
            if let Some(burner) = Burner::start(common, journal, self.number, slot, nth, watchdog)?
            {
                self.writes += 1;
                self.burners.push(burner);
                self.weight = None;
                return Ok(());
            }
            self.last_end = "before it began".to_owned();
            self.count_restart()?;
        }
    }

    fn count_restart(&mut self) -> Result<()> {
        self.restarts += 1;
        if self.restarts > MOST_RESTARTS {
            Err(Error::Died {
                what: format!("the burner of CPU {}", self.number),
                times: self.restarts,
                how: self.last_end.clone(),
            })
        } else {
            Ok(())
        }
    }

    fn alive(&self) -> impl Iterator<Item = &Burner> {
        self.burners.iter().filter(|b| b.until.is_none())
    }

    /// Whether its processes rest, as in a pause that they have seen.
    pub fn stands_still(&self, common: &Common<'_>) -> bool {
        let idle = |slot: usize| common.board.slot(slot).idle.load(Ordering::Acquire);
        self.alive().all(|burner| idle(burner.slot) != 0)
    }

    /// Whether its processes follow orders. What slows a whole node may measure before.
    pub fn listens(&self, common: &Common<'_>) -> bool {
        let listens = |slot: usize| common.board.slot(slot).listens.load(Ordering::Acquire);
        common.method.scope == Scope::Cpu || self.alive().all(|burner| listens(burner.slot) != 0)
    }

    /// Tells the burners from when on to take which level (0 to 1).
    pub fn order(&mut self, common: &Common<'_>, order: LoadOrder) {
        let now = clock::monotonic();
        self.recent.push(order);
        while self.recent.len() > 1 && self.recent[1].from_ns <= now {
            self.recent.remove(0);
        }
        let share = self.alive().count().max(1) as f64;
        for burner in self.alive() {
            common.board.slot(burner.slot).publish(LoadOrder {
                level: order.level / share,
                ..order
            });
        }
    }

    /// Voids what was ordered: a pause shifts everything.
    pub fn void_orders(&mut self, common: &Common<'_>) {
        self.recent.clear();
        // Who stood still was silent.
        let _ = self.watchdog.as_ref().map(Watchdog::has_expired);
        for burner in self.alive() {
            common.board.slot(burner.slot).void_orders();
        }
    }

    /// Burners that live.
    pub fn burners(&self) -> usize {
        self.alive().count()
    }

    /// The level for which there is room.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// Makes room for a level: weight and cap, written only if they change.
    pub fn make_room(
        &mut self,
        common: &Common<'_>,
        journal: &mut Journal,
        level: f64,
    ) -> Result<()> {
        self.level = level;
        let was_light = self.lightness.prepare(level);
        self.grow(common, journal)?;
        self.apply(common)?;
        if was_light {
            self.place_again(common);
        }
        Ok(())
    }

    /// Adds burners if one group cannot carry the weight.
    fn grow(&mut self, common: &Common<'_>, journal: &mut Journal) -> Result<()> {
        let before = self.alive().count();
        while self.alive().count() < self.wanted_burners(common)
            && self.slots.1 < SLOTS_PER_CPU - MOST_RESTARTS as usize
        {
            self.add_burner(common, journal)?;
        }
        if self.alive().count() > before {
            self.order_again(common);
        }
        Ok(())
    }

    /// Gives all burners the orders in force, divided anew among them.
    fn order_again(&mut self, common: &Common<'_>) {
        // A common moment a little ahead, so that all change together.
        let from_ns = (clock::monotonic() + BOUNDARY_NS / 2).next_multiple_of(BOUNDARY_NS);
        let orders = std::mem::take(&mut self.recent);
        for burner in self.alive() {
            common.board.slot(burner.slot).void_orders();
        }
        for order in orders {
            self.order(
                common,
                LoadOrder {
                    from_ns: order.from_ns.max(from_ns),
                    ..order
                },
            );
        }
    }

    /// Whether it was starved a moment ago, and has to be looked at. That may have been seen
    /// after `now` was read.
    pub fn was_starved(&self, now: u64) -> bool {
        self.starved_ns > 0 && now.saturating_sub(self.starved_ns) < STARVATION_NS
    }

    /// Whether the burners have a level and do not run: one that does not cannot call.
    fn is_starved(&mut self, common: &Common<'_>, now: u64) -> bool {
        let expired = self.watchdog.as_ref().is_some_and(Watchdog::has_expired);
        let slots = self.burners.iter().filter(|b| b.until.is_none());
        let (mut rests, mut progress) = (self.level <= 0.0, 0);
        for slot in slots.map(|burner| common.board.slot(burner.slot)) {
            rests |= slot.idle.load(Ordering::Acquire) != 0;
            progress += slot.active_ns.load(Ordering::Relaxed);
            // One that owes nothing wakes up and is not active.
            progress += slot.cpu_ns.load(Ordering::Relaxed);
            progress += slot.away_ns.load(Ordering::Relaxed);
        }
        if rests || progress != self.progress.0 {
            self.progress = (progress, now);
        }
        if expired && !rests {
            self.starved_ns = now;
            return true;
        }
        !rests && self.was_starved(now) && now - self.progress.1 > WATCH_NS
    }

    /// A burner called, or could not: give it a larger weight, if its group can carry one.
    pub fn called(&mut self, common: &Common<'_>) -> Result<()> {
        let mut called = false;
        for burner in self.alive() {
            let slot = common.board.slot(burner.slot);
            called |= slot.alarm.swap(0, Ordering::AcqRel) != 0;
        }
        let now = clock::monotonic();
        if self.is_starved(common, now) {
            self.progress.1 = now;
            // After a little weight whatever its groups carry: with less it is soon
            // starved again.
            let was_light = self.lightness.give_up();
            while self.fits(common, self.competition * 2.0) {
                self.competition *= 2.0;
                if !was_light {
                    break;
                }
            }
            self.grown_ns = now;
            self.apply(common)?;
            self.place_again(common);
            return Ok(());
        }
        if called && self.lightness.end(self.level, now) {
            self.grown_ns = now;
            self.apply(common)?;
            // By its little weight it had far more than its share, and would wait for that.
            self.place_again(common);
            return Ok(());
        }
        // What was given last must have had time to show.
        if called && self.asks_for_room(common) && now - self.grown_ns > GROWTH_NS {
            self.calm = 0;
            self.grown_ns = now;
            if self.fits(common, self.competition * 2.0) {
                self.competition *= 2.0;
            }
            self.apply(common)?;
        }
        if self.lightness.resume(now) {
            self.apply(common)?;
        }
        Ok(())
    }

    /// When its burners are light again.
    pub fn resumes_ns(&self) -> Option<u64> {
        self.lightness.resumes_ns()
    }

    fn asks_for_room(&self, common: &Common<'_>) -> bool {
        common.method.wants_headroom() && self.level > 0.0
    }

    /// Once a second: does the weight make room, too little or too much? `idle` is the
    /// share of the CPU that nothing used.
    pub fn look(
        &mut self,
        common: &Common<'_>,
        journal: &mut Journal,
        idle: Option<f64>,
    ) -> Result<()> {
        self.weigh_again(common)?;
        self.called(common)?;
        self.end_the_stuck(common);
        let (mut active, mut taken) = (0, 0);
        for burner in self.alive() {
            let slot = common.board.slot(burner.slot);
            active = active.max(slot.active_ns.load(Ordering::Relaxed));
            taken += slot.taken_ns.load(Ordering::Relaxed);
        }
        let (was_active, was_taken) = std::mem::replace(&mut self.seen, (active, taken));
        let lost_ns = self.lost_ns(common);
        let lost = lost_ns > std::mem::replace(&mut self.lost_ns, lost_ns);
        let active = active.saturating_sub(was_active);
        if !self.asks_for_room(common) {
            return Ok(());
        }
        self.lightness.look(idle, self.level, clock::monotonic());
        if self.lightness.is_light() {
            // The room of a light burner says nothing about what a heavy one has.
            return self.apply(common);
        }
        if active < BOUNDARY_NS / 100 {
            return Ok(());
        }
        let share = (taken.saturating_sub(was_taken) as f64 / active as f64).min(1.0);
        let least = self.least_headroom.get_or_insert(1.0);
        *least = least.min(share);
        let next = competition(self.competition, self.level, share, &mut self.calm);
        if self.fits(common, next) {
            self.competition = next;
        } else if lost {
            // The groups are at their heaviest and load was given up: only
            // now more of them. Each costs a wake-up a period, so a disturbed
            // moment is no reason.
            if self.alive().count() < MOST_BURNERS {
                self.competition = next
            } else {
                self.exhausted = true
            }
            self.grow(common, journal)?;
        }
        self.apply(common)
    }

    /// What slows a whole node notes every boundary, once it listens. One that is silent was
    /// stopped and may have left the node standing still: it is killed and replaced.
    fn end_the_stuck(&mut self, common: &Common<'_>) {
        if common.method.scope == Scope::Cpu || common.board.is_paused() {
            return;
        }
        let now = clock::monotonic() / BOUNDARY_NS;
        for burner in self.burners.iter_mut().filter(|b| b.until.is_none()) {
            let slot = common.board.slot(burner.slot);
            let noted = || (now - SILENT..now).any(|number| slot.boundary(number).is_some());
            let resting = slot.idle.load(Ordering::Acquire) != 0;
            let patience = match slot.listens.load(Ordering::Acquire) {
                0 => CALIBRATES,
                _ => SILENT,
            };
            if now > burner.since + patience && !resting && !noted() {
                let _ = burner.child.kill();
            }
        }
    }

    /// A process of this CPU ended. Returns whether it was one of ours.
    pub fn ended(
        &mut self,
        common: &Common<'_>,
        journal: &mut Journal,
        pid: u32,
        how: &str,
    ) -> Result<bool> {
        let now = clock::monotonic() / BOUNDARY_NS;
        let found = self
            .burners
            .iter_mut()
            .find(|b| b.child.id() == pid && b.until.is_none());
        let Some(burner) = found else {
            return Ok(false);
        };
        burner.until = Some(now);
        common
            .board
            .slot(burner.slot)
            .ended
            .store(1, Ordering::Relaxed);
        let words = child::last_words(&mut burner.child);
        self.last_end = if words.is_empty() {
            how.to_owned()
        } else {
            words
        };
        self.count_restart()?;
        self.cap = None;
        if let Some(ladder) = &common.method.ladder {
            // Bounds that the one before lowered would be full speed to the next.
            ladder.release()?;
        }
        self.add_burner(common, journal)?;
        self.order_again(common);
        self.apply(common)?;
        Ok(true)
    }

    /// What the burners took between two boundaries (numbers). Called for
    /// adjoining intervals it is a difference of one and the same reading, so
    /// that nothing is counted twice or left out whatever a reading was.
    pub fn taken(&mut self, common: &Common<'_>, from: u64, to: u64) -> BurnerTime {
        let mut taken = BurnerTime {
            ns: 0,
            stolen_ns: 0,
            hole: false,
        };
        for burner in &mut self.burners {
            burner.add_taken(common, from, to, &mut taken);
        }
        taken
    }

    /// Keeps what the burners noted up to boundary `last`; whether all noted that one.
    pub fn keep_notes(&mut self, common: &Common<'_>, last: u64) -> bool {
        let alive = self.burners.iter_mut().filter(|b| b.until.is_none());
        alive.fold(true, |all, burner| all & burner.keep_notes(common, last))
    }

    pub fn has_note(&self, common: &Common<'_>, number: u64) -> bool {
        self.alive().all(|b| {
            let slot = common.board.slot(b.slot);
            slot.boundary(number).is_some() || slot.idle.load(Ordering::Acquire) != 0
        })
    }

    /// Longest time in all that a burner could not run on the CPU, ns.
    pub fn away_ns(&self, common: &Common<'_>) -> u64 {
        let slots = self.burners.iter().map(|b| common.board.slot(b.slot));
        slots
            .map(|slot| slot.away_ns.load(Ordering::Relaxed))
            .max()
            .unwrap_or(0)
    }

    /// Times that something outside moved a burner to another CPU.
    pub fn moves(&self, common: &Common<'_>) -> u32 {
        let slots = self.burners.iter().map(|b| common.board.slot(b.slot));
        slots.map(|slot| slot.moves.load(Ordering::Relaxed)).sum()
    }

    /// The run proper begins: what was lost before is none of its load.
    pub fn begin(&mut self, common: &Common<'_>) {
        self.lost_before_ns = Some(self.lost_ns(common));
    }

    /// Load that was given up since then, ns; 0 where the run never began.
    pub fn lost_in_run_ns(&self, common: &Common<'_>) -> u64 {
        lost_since(self.lost_before_ns, self.lost_ns(common))
    }

    fn lost_ns(&self, common: &Common<'_>) -> u64 {
        self.burners
            .iter()
            .map(|b| common.board.slot(b.slot).lost_ns.load(Ordering::Relaxed))
            .sum()
    }

    /// The first of its processes that lives.
    pub fn process(&self) -> Option<u32> {
        self.alive().next().map(|burner| burner.child.id())
    }

    pub fn private_kib(&self, root: &Root) -> u64 {
        self.alive()
            .filter_map(|b| Process::new(root, b.child.id()).private_kib().ok())
            .max()
            .unwrap_or(0)
    }

    /// Kills and reaps the burners that live: the process ids of others may be reused.
    pub fn stop(&mut self) {
        for burner in self.burners.iter_mut().filter(|b| b.until.is_none()) {
            let _ = burner.child.kill();
            let _ = burner.child.wait();
        }
    }

    /// Cap as the kernel has it at the end; it may have changed it.
    pub fn cap_changed(&self) -> bool {
        let holders = self.burners.iter().filter_map(Burner::live_holder);
        // Kernels before 5.14 have no burst.
        let quota = |cap: Cap| (cap.quota_us, cap.period_us);
        self.cap.is_some()
            && holders
                .map(|holder| holder.group().cap())
                .any(|cap| cap.ok().flatten().map(quota) != self.cap.map(quota))
    }
}

/// How often the supervisor looks whether a burner that was starved runs again, and
/// for how long.
pub const WATCH_NS: u64 = BOUNDARY_NS / 4;
const STARVATION_NS: u64 = 20 * BOUNDARY_NS;
/// Boundaries without a note after which a process is taken for stuck.
const SILENT: u64 = 20;
/// The same of one that does not listen yet: it may measure the speed of every frequency.
pub const CALIBRATES: u64 = 300;
/// A larger weight gets this long to work off the debt before more is given.
const GROWTH_NS: u64 = 2 * BOUNDARY_NS;

fn lost_since(before_ns: Option<u64>, lost_ns: u64) -> u64 {
    before_ns.map_or(0, |before_ns| lost_ns.saturating_sub(before_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_before_the_run_is_not_lost_in_it() {
        assert_eq!([lost_since(Some(5), 7), lost_since(None, 7)], [2, 0]);
    }
}
