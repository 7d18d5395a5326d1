// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU-Gov: alternates between two neighbouring speeds, the lower one first,
//! on the common grid of the clock.
//!
//! A period that an order cuts is two: each part is served on its own. What a
//! part took too much or too little (the switch came late, an order cut it
//! while its lower half was on) is carried to the next.

use sandbag_linux::Result;

use super::Throttle;
use super::mix::{nearest, neighbours};
use super::slowed_time::SlowedTime;

pub trait Speeds {
    /// The speeds, ascending; the last is 1.
    fn speeds(&self) -> &[f64];

    /// Sets one by its index, or a standstill. Returns when that took effect
    /// (monotonic, ns); `None` where there is no such thing to be had.
    /// An error is final: the kernel would refuse again.
    fn set(&mut self, step: Option<usize>, now: u64) -> Result<Option<u64>>;

    /// Sets what was set last again, if another program has changed it since; whether it was in
    /// force still.
    fn keep(&mut self) -> Result<bool>;

    /// As if nothing had ever been set.
    fn release(&mut self) -> Result<()>;
}

/// How often it is looked whether what was set is in force still, ns. Power daemons write
/// governor and bounds when the power source changes, or a user asks them to.
const LOOK_NS: u64 = 1_000_000_000;

/// Shorter than this at the lower speed is left to the next period, ns.
const LEAST_NS: f64 = 200_000.0;
/// What is carried at most, in periods.
const MOST_CARRIED: f64 = 0.5;

#[derive(Debug)]
pub struct Governor<S> {
    hardware: S,
    period_ns: u64,
    taken: SlowedTime,
    part: Option<GovernorPeriod>,
    owed: f64,
}

/// A period, or what an order leaves of it.
#[derive(Debug, Clone, Copy)]
struct GovernorPeriod {
    level: f64,
    from: u64,
    to: u64,
    /// Taken before it.
    taken_ns: f64,
    /// When the higher speed is due, and which.
    higher: Option<(u64, usize)>,
}

impl<S: Speeds> Governor<S> {
    pub fn new(hardware: S, period_ns: u64) -> Self {
        Self {
            hardware,
            period_ns,
            taken: SlowedTime::default(),
            part: None,
            owed: 0.0,
        }
    }

    fn set(&mut self, step: Option<usize>, now: u64) -> Result<bool> {
        let Some(since) = self.hardware.set(step, now)? else {
            return Ok(false);
        };
        let speed = step.map_or(0.0, |step| self.hardware.speeds()[step]);
        self.taken.change(since, 1.0 - speed);
        Ok(true)
    }

    fn close(&mut self, now: u64) {
        if let Some(part) = self.part.take() {
            let asked = part.level * (now - part.from) as f64;
            self.owed += asked - (self.taken.exact(now) - part.taken_ns);
            let most = MOST_CARRIED * self.period_ns as f64;
            self.owed = self.owed.clamp(-most, most);
        }
    }

    fn open(&mut self, now: u64, level: f64) -> Result<GovernorPeriod> {
        let to = (now / self.period_ns + 1) * self.period_ns;
        let length = (to - now) as f64;
        let speeds = self.hardware.speeds();
        let (low, high) = neighbours(speeds, 1.0 - level);
        let low_takes = 1.0 - low.map_or(0.0, |low| speeds[low]);
        let high_takes = 1.0 - speeds[high];
        // As the paper's formula, for this part and what is carried into it.
        let due = self.owed + level * length - high_takes * length;
        let at_low = if low_takes > high_takes {
            (due / (low_takes - high_takes)).clamp(0.0, length)
        } else {
            0.0
        };
        let mut part = GovernorPeriod {
            level,
            from: now,
            to,
            taken_ns: self.taken.exact(now),
            higher: None,
        };
        if at_low >= LEAST_NS && self.set(low, now)? {
            part.higher = Some((now + at_low.round() as u64, high));
        } else {
            self.set(Some(high), now)?;
        }
        Ok(part)
    }
}

impl<S: Speeds> Throttle for Governor<S> {
    fn act(&mut self, now: u64, level: f64) -> Result<u64> {
        let mut part = match self.part {
            Some(part) if part.level == level && now < part.to => part,
            _ => {
                self.close(now);
                self.open(now, level)?
            }
        };
        if let Some((at, step)) = part.higher
            && now >= at
        {
            self.set(Some(step), now)?;
            part.higher = None;
        }
        self.part = Some(part);
        Ok(part.higher.map_or(part.to, |(at, _)| at.min(part.to)))
    }

    fn taken_ns(&mut self, at: u64) -> u64 {
        self.taken.until(at)
    }

    fn release(&mut self, now: u64) -> Result<()> {
        self.part = None;
        self.owed = 0.0;
        self.taken.change(now, 0.0);
        self.hardware.release()
    }
}

/// One frequency for a level: the nearest.
#[derive(Debug)]
pub struct Nearest<S> {
    hardware: S,
    taken: SlowedTime,
    level: Option<f64>,
    /// When it was last looked at what is in force.
    looked: u64,
}

impl<S: Speeds> Nearest<S> {
    pub fn new(hardware: S) -> Self {
        Self {
            hardware,
            taken: SlowedTime::default(),
            level: None,
            looked: 0,
        }
    }
}

impl<S: Speeds> Throttle for Nearest<S> {
    fn act(&mut self, now: u64, level: f64) -> Result<u64> {
        let is_new = self.level != Some(level);
        if self.level.is_some() && (is_new || now >= self.looked + LOOK_NS) {
            // Since the last look at which it was in force the node may have had full speed.
            if !self.hardware.keep()? {
                self.taken.retract(self.looked, now);
            }
            self.looked = now;
        }
        if is_new {
            let step = nearest(self.hardware.speeds(), 1.0 - level);
            let since = self.hardware.set(Some(step), now)?.unwrap_or(now);
            self.taken.change(since, 1.0 - self.hardware.speeds()[step]);
            self.level = Some(level);
            self.looked = now;
        }
        Ok(self.looked + LOOK_NS)
    }

    fn taken_ns(&mut self, at: u64) -> u64 {
        self.taken.until(at)
    }

    fn release(&mut self, now: u64) -> Result<()> {
        self.level = None;
        self.taken.change(now, 0.0);
        self.hardware.release()
    }
}

#[cfg(test)]
mod tests;
