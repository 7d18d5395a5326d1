// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Background processes: they begin at random times on each CPU, run for
//! Pareto times, and each takes its share of the CPU as long as it runs.

mod arrivals;
mod run_times;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{BoxSteps, Fault, Format, ProfileCell, ProfileHeader, Result, Step, Steps};

pub use arrivals::DailyRate;
pub use run_times::RunTimes;

use crate::synth::chance::Drand48;

/// The processes of each CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Background {
    /// How many begin on each CPU, per second: in the mean of all times, or of
    /// the working day.
    pub rate_per_s: f64,
    pub when: DailyRate,
    /// How long they run.
    pub runs: RunTimes,
    /// What each takes of its CPU, percent.
    pub share_pct: f64,
    pub seed: u32,
}

/// More at once on a CPU are refused: their memory is the only one here that
/// the model decides on.
const MOST_AT_ONCE: f64 = 10_000.0;
/// Times are whole milliseconds: what is shorter is of no use to anybody who
/// replays it.
const TICK_NS: u64 = 1_000_000;

impl Background {
    /// The rate at which the mean load is `load_pct`, all that is cut off at
    /// 100 % taken into account; over a working day, that of a steady rate as
    /// high as its mean.
    ///
    /// # Errors
    /// A load that is not between 0 and 100, shares and run times that are no
    /// use.
    pub fn rate_for(load_pct: f64, runs: &RunTimes, share_pct: f64) -> Result<f64> {
        runs.check()?;
        check_share(share_pct)?;
        if !(0.0..100.0).contains(&load_pct) {
            return Err(Fault::argument("mean load", load_pct, "0 or more and below 100").into());
        }
        // The load grows with the number: between its bounds by halves.
        let (mut low, mut high) = (0.0, 1.0);
        while mean_load(high, share_pct) < load_pct && high < MOST_AT_ONCE {
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if mean_load(middle, share_pct) < load_pct {
                low = middle
            } else {
                high = middle
            }
        }
        Ok(high / runs.mean_s())
    }

    fn check(&self) -> Result<()> {
        self.runs.check()?;
        check_share(self.share_pct)?;
        let at_once = self.rate_per_s * self.when.most() * self.runs.mean_s();
        if !(self.rate_per_s >= 0.0 && at_once <= MOST_AT_ONCE) {
            return Err(Fault::argument(
                "rate",
                self.rate_per_s,
                "0 or more, and such that no more than 10000 run at once",
            )
            .into());
        }
        match self.when {
            DailyRate::WorkingDay { start_hour } if !(0.0..=24.0).contains(&start_hour) => {
                Err(Fault::argument("first hour", start_hour, "between 0 and 24").into())
            }
            _ => Ok(()),
        }
    }

    fn most_per_s(&self) -> f64 {
        self.rate_per_s * self.when.most()
    }
}

fn check_share(share_pct: f64) -> Result<()> {
    if (0.1..=100.0).contains(&share_pct) {
        Ok(())
    } else {
        Err(Fault::argument("share", share_pct, "between 0.1 and 100").into())
    }
}

/// Mean load where the number of processes at once is Poisson with the mean
/// `at_once`: 100 % but for what is missing where few run.
fn mean_load(at_once: f64, share_pct: f64) -> f64 {
    if at_once <= 0.0 {
        return 0.0;
    }
    let mut missing = 0.0;
    let mut count = 0.0;
    while count * share_pct < 100.0 {
        let ln = count * libm::log(at_once) - at_once - libm::lgamma(count + 1.0);
        missing += libm::exp(ln) * (100.0 - count * share_pct);
        count += 1.0;
    }
    100.0 - missing
}

/// Each CPU begins with the processes that would be found on it. Loads of
/// several at once are added and cut off at 100 %.
///
/// # Errors
/// Rates, shares, exponents and times that are no use, or a length of 0.
pub fn background(model: Background, cpus: &[u32], length_ns: u64) -> Result<BoxSteps> {
    model.check()?;
    if length_ns == 0 {
        return Err(Fault::argument("length", 0.0, "longer than 0").into());
    }
    let mut chance = Drand48::new(model.seed);
    let loads = cpus
        .iter()
        .map(|_| BackgroundCpu::found(&model, &mut chance));
    Ok(Box::new(Processes {
        header: ProfileHeader::new(cpus.to_vec(), Format::Synthetic),
        loads: loads.collect(),
        model,
        chance,
        now_ns: 0,
        length_ns,
        wanted: 0.0,
        cut_off: 0.0,
    }))
}

/// To the next tick; what never comes is at the end of time.
fn ticks(seconds: f64) -> u64 {
    let ticks = libm::round(seconds * 1e9 / TICK_NS as f64) as u64;
    ticks.saturating_mul(TICK_NS)
}

struct BackgroundCpu {
    /// When those that run end, ns.
    ends: BinaryHeap<Reverse<u64>>,
    /// When the next begins, s.
    next_s: f64,
}

impl BackgroundCpu {
    fn found(model: &Background, chance: &mut Drand48) -> Self {
        let mut ends = BinaryHeap::new();
        let at_once = model.most_per_s() * model.runs.mean_s();
        let mut sum = chance.exponential(1.0);
        while sum < at_once {
            let run_s = model.runs.draw_met(chance);
            let rest_s = run_s * chance.uniform();
            // Of those that the highest rate would have left, those that
            // began when it was as high.
            if model.when == DailyRate::Always || chance.uniform() < model.when.part(rest_s - run_s)
            {
                ends.push(Reverse(ticks(rest_s)));
            }
            sum += chance.exponential(1.0);
        }
        let next_s = model.when.next(0.0, model.most_per_s(), chance);
        Self { ends, next_s }
    }

    /// Ends and begins what is due.
    fn go_to(&mut self, now_ns: u64, model: &Background, chance: &mut Drand48) {
        while ticks(self.next_s) <= now_ns {
            let end_s = self.next_s + model.runs.draw(chance);
            self.ends.push(Reverse(ticks(end_s)));
            self.next_s = model.when.next(self.next_s, model.most_per_s(), chance);
        }
        while self.ends.peek().is_some_and(|end| end.0 <= now_ns) {
            self.ends.pop();
        }
    }

    /// When this changes.
    fn changes_ns(&self) -> u64 {
        let end = self.ends.peek().map_or(u64::MAX, |end| end.0);
        end.min(ticks(self.next_s))
    }
}

struct Processes {
    header: ProfileHeader,
    model: Background,
    chance: Drand48,
    loads: Vec<BackgroundCpu>,
    now_ns: u64,
    length_ns: u64,
    /// Load times time, and what of it was cut off.
    wanted: f64,
    cut_off: f64,
}

impl Steps for Processes {
    fn header(&self) -> &ProfileHeader {
        &self.header
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        if self.now_ns >= self.length_ns {
            return Ok(None);
        }
        let start_ns = self.now_ns;
        for cpu in &mut self.loads {
            cpu.go_to(start_ns, &self.model, &mut self.chance);
        }
        let changes = self.loads.iter().map(BackgroundCpu::changes_ns).min();
        let end_ns = changes.unwrap_or(u64::MAX).min(self.length_ns);
        self.now_ns = end_ns;
        let mut cells = Vec::with_capacity(self.loads.len());
        for cpu in &self.loads {
            let wanted = cpu.ends.len() as f64 * self.model.share_pct;
            let load = wanted.min(100.0);
            let length = (end_ns - start_ns) as f64;
            self.wanted += wanted * length;
            self.cut_off += (wanted - load) * length;
            cells.push(Some(ProfileCell::load(load)));
        }
        Ok(Some(Step {
            start_ns,
            end_ns,
            cells,
        }))
    }

    fn warnings(&self) -> Vec<String> {
        if self.cut_off <= 0.0 {
            Vec::new()
        } else {
            vec![format!(
                "{:.1} % of the load of the processes was cut off where several at once wanted \
             more than a CPU",
                self.cut_off / self.wanted * 100.0
            )]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NS_PER_S, Profile, summarise};

    const RUNS: RunTimes = RunTimes {
        exponent: -1.0,
        longest_s: 100.0,
    };

    fn model(load_pct: f64, share_pct: f64) -> Background {
        Background {
            rate_per_s: Background::rate_for(load_pct, &RUNS, share_pct).unwrap(),
            when: DailyRate::Always,
            runs: RUNS,
            share_pct,
            seed: 1,
        }
    }

    /// Long runs are rare and weigh much: the variance of the mean over T is
    /// about rate * E[run^2] * share^2 / T, with E[run^2] = 100 s^2 here: a
    /// standard deviation below 0.9 points.
    #[test]
    fn the_mean_load_is_the_one_asked_for() {
        for (load, share) in [(20.0, 100.0), (20.0, 10.0), (90.0, 40.0), (0.0, 50.0)] {
            let model = model(load, share);
            let mut steps = background(model, &[0, 1], 200_000 * NS_PER_S).unwrap();
            let summary = summarise(&mut *steps).unwrap();
            assert_eq!(summary.end_ns, 200_000 * NS_PER_S);
            for cpu in &summary.cpus {
                let mean = cpu.mean_load_pct.unwrap();
                assert!((mean - load).abs() < 2.5, "{load} {share}: {mean}");
            }
        }
    }

    #[test]
    fn it_begins_as_it_goes_on() {
        // Without a past the first moment would be idle.
        let model = model(60.0, 25.0);
        let cpus: Vec<u32> = (0..4000).collect();
        let mut steps = background(model, &cpus, NS_PER_S).unwrap();
        let first = steps.next_step().unwrap().unwrap();
        let loads = first.cells.iter().map(|cell| cell.unwrap().load_pct);
        let mean = loads.sum::<f64>() / 4000.0;
        // A standard deviation of at most 50 over the root of 4000.
        assert!((mean - 60.0).abs() < 3.2, "{mean}");
    }

    #[test]
    fn loads_are_whole_shares_and_change_by_the_millisecond() {
        let profile =
            Profile::collect(background(model(70.0, 40.0), &[0, 3], 10_000 * NS_PER_S).unwrap())
                .unwrap();
        let mut at = 0;
        for step in &profile.steps {
            assert!(step.start_ns == at && step.end_ns > at);
            assert_eq!(step.end_ns % TICK_NS, 0);
            at = step.end_ns;
            for cell in &step.cells {
                assert!([0.0, 40.0, 80.0, 100.0].contains(&cell.unwrap().load_pct));
            }
        }
        assert_eq!(at, 10_000 * NS_PER_S);
        assert!(profile.warnings[0].contains("cut off"));
    }

    #[test]
    fn the_same_again_and_another() {
        let of = |seed| {
            let model = Background {
                seed,
                ..model(30.0, 50.0)
            };
            Profile::collect(background(model, &[0, 1], 1000 * NS_PER_S).unwrap()).unwrap()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn a_night_is_without_load() {
        let model = Background {
            rate_per_s: 1.0,
            when: DailyRate::WorkingDay { start_hour: 0.0 },
            runs: RunTimes {
                longest_s: 2.0,
                ..RUNS
            },
            ..model(20.0, 100.0)
        };
        let profile =
            Profile::collect(background(model, &[0], 86_400 * NS_PER_S).unwrap()).unwrap();
        let busy = |from_s: u64, to_s: u64| -> f64 {
            let of = |step: &Step| {
                let from = step.start_ns.max(from_s * NS_PER_S);
                let to = step.end_ns.min(to_s * NS_PER_S);
                to.saturating_sub(from) as f64 * step.cells[0].unwrap().load_pct
            };
            profile.steps.iter().map(of).sum()
        };
        assert_eq!(busy(0, 30_600), 0.0);
        assert!(busy(30_600, 64_800) > 0.0);
        assert_eq!(busy(64_802, 86_400), 0.0);
        // Begun in the middle of the morning it is already busy.
        let model = Background {
            when: DailyRate::WorkingDay { start_hour: 10.5 },
            rate_per_s: 100.0,
            ..model
        };
        let mut steps = background(model, &[0], NS_PER_S).unwrap();
        let first = steps.next_step().unwrap().unwrap();
        assert_eq!(first.cells[0].unwrap().load_pct, 100.0);
    }

    #[test]
    fn what_is_no_use_is_refused() {
        let good = model(20.0, 100.0);
        for bad in [
            Background {
                rate_per_s: -1.0,
                ..good
            },
            Background {
                rate_per_s: f64::NAN,
                ..good
            },
            Background {
                rate_per_s: 1e9,
                ..good
            },
            Background {
                share_pct: 0.0,
                ..good
            },
            Background {
                runs: RunTimes {
                    exponent: 1.0,
                    ..RUNS
                },
                ..good
            },
            Background {
                runs: RunTimes {
                    longest_s: 1.0,
                    ..RUNS
                },
                ..good
            },
        ] {
            assert!(background(bad, &[0], 1).is_err(), "{bad:?}");
        }
        assert!(background(good, &[0], 0).is_err());
        for load in [-1.0, 100.0, f64::NAN] {
            assert!(Background::rate_for(load, &RUNS, 50.0).is_err());
        }
        // However high the load: a rate that makes it.
        for (load, share) in [(99.999, 0.1), (99.999, 100.0), (1e-9, 0.1)] {
            let rate = Background::rate_for(load, &RUNS, share).unwrap();
            let got = mean_load(rate * RUNS.mean_s(), share);
            assert!((got - load).abs() < 1e-6, "{load}: {got}");
        }
    }
}
