// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The probes, each with a second try before it counts as failed.

use std::time::Instant;

use crate::probe::{self, ProbeBench, ProbeResult, Spinner};
use sandbag_linux::cgroup::{Cap, Weight};
use sandbag_run::Result;

use super::check::{Check, CheckState};
use super::judge::{self, Judgement};
use super::judge::{Refusal, Reserving};

/// What the probes found, by which methods and facts are judged.
#[derive(Debug, Default)]
pub struct ProbeFindings {
    pub checks: Vec<Check>,
    pub weights: Option<Judgement>,
    pub caps: Option<Judgement>,
    /// The kernel knows no burst of a cap.
    pub no_burst: bool,
    pub slice: Option<Judgement>,
    pub timers: Option<Judgement>,
    /// Waiting is counted, so that stolen time can be told from it.
    pub run_delay: Option<Judgement>,
    pub real_time: Option<Judgement>,
    pub no_real_time: Option<Refusal>,
    pub reserving: Option<Reserving>,
    pub freezer: Option<Judgement>,
    pub stopping: Option<Judgement>,
    pub node_cap: Option<Judgement>,
    pub no_node: Option<Refusal>,
    pub retry_until: Option<Instant>,
    pub rt_runtime_us: Option<i64>,
    /// Whether task clocks leave out steal, where it could be seen.
    pub excludes_steal: Option<bool>,
    pub steal_ns: u64,
    pub left: Vec<String>,
}

const SPINNER: Spinner = Spinner {
    weight: None,
    cap: None,
    as_command: false,
};
/// More than anything else that may run on the CPU just now.
const HEAVY: Weight = Weight(64.0);
/// Period of the cap probe, us; that of the quota method.
const PERIOD_US: u64 = 20_000;
const SLICE_NS: u64 = 100_000_000;
const SLEEPS: usize = 40;
const SLEEP_NS: u64 = 5_000_000;

impl ProbeFindings {
    pub fn without_groups(&mut self) {
        self.slice();
        self.timers();
    }

    pub fn with_groups(&mut self, bench: &mut ProbeBench<'_>) {
        self.weights(bench);
        self.caps(bench);
        self.command_clock(bench);
    }

    fn weights(&mut self, bench: &mut ProbeBench<'_>) {
        let pair = [1.0, judge::HEAVIER].map(|weight| Spinner {
            weight: Some(Weight(weight)),
            ..SPINNER
        });
        let judge = |spun: &ProbeResult| {
            let [light, heavy] = [&spun.took[0], &spun.took[1]].map(|t| t.cpu_ns);
            judge::weights(light, heavy, spun.wall_ns)
        };
        let name = "weights";
        let (judgement, spun) = match twice(self.retry_until, || bench.spin(&pair), judge) {
            Ok(outcome) => outcome,
            Err(error) => return self.checks.push(failed(name, &error)),
        };
        let ratio = spun.took[1].cpu_ns as f64 / spun.took[0].cpu_ns.max(1) as f64;
        let seen = format!(
            "two spinners of weights 1 and {} on CPU {} got 1 and {ratio:.2}",
            judge::HEAVIER,
            bench.cpu()
        );
        self.checks.push(
            check_of(name, judgement, seen)
                .or_remedy(
                    "groups do not share the CPU by weight: end the sched_ext scheduler that is \
                     loaded, or run where the kernel's own scheduler is in charge",
                )
                .figure("ratio", ratio),
        );
        self.weights = Some(judgement);
        self.rt_runtime_us = spun.took[0].rt_runtime_us;
        self.run_delay(&spun);
        self.keep(&spun);
    }

    fn run_delay(&mut self, spun: &ProbeResult) {
        let waited: Option<u64> = spun
            .took
            .iter()
            .map(|took| took.schedstat_ns.map(|(_, waited)| waited))
            .sum();
        let name = "schedstat";
        let judgement = waited.map_or(Judgement::No, |ns| judge::run_delay(ns, spun.wall_ns));
        let seen = match waited {
            None => "/proc/PID/schedstat is not there".to_owned(),
            Some(ns) => format!(
                "two spinners on one CPU waited {:.0} ms in {:.0} ms",
                ns as f64 / 1e6,
                spun.wall_ns as f64 / 1e6
            ),
        };
        // Without steal nothing is lost.
        let mut check = check_of(name, judgement, seen).or_remedy(
            "burners cannot tell stolen time from waiting and repay it, so loads come out too \
             high under steal: a kernel with CONFIG_SCHED_INFO, or boot with schedstats=enable",
        );
        if judgement == Judgement::No {
            check.state = CheckState::Warn;
        }
        self.checks.push(check);
        self.run_delay = Some(judgement);
    }

    fn caps(&mut self, bench: &mut ProbeBench<'_>) {
        let quota_us = (judge::CAP * PERIOD_US as f64) as u64;
        let capped = [Spinner {
            weight: Some(HEAVY),
            cap: Some(Cap {
                quota_us,
                period_us: PERIOD_US,
                burst_us: quota_us,
            }),
            ..SPINNER
        }];
        let name = "caps";
        let judge = |spun: &ProbeResult| judge::cap(share(spun));
        let (judgement, spun) = match twice(self.retry_until, || bench.spin(&capped), judge) {
            Ok(outcome) => outcome,
            Err(error) => return self.checks.push(failed(name, &error)),
        };
        let pct = share(&spun) * 100.0;
        let cap = judge::CAP * 100.0;
        self.checks.push(
            check_of(
                name,
                judgement,
                format!("a spinner under a cap of {cap:.0} % got {pct:.1} %"),
            )
            .or_remedy("a kernel with CONFIG_CFS_BANDWIDTH and its own scheduler; or use pace")
            .figure("got_pct", pct),
        );
        self.caps = Some(judgement);
        self.no_burst = spun.took[0].cap.is_some_and(|cap| cap.burst_us == 0);
        self.keep(&spun);
    }

    fn command_clock(&mut self, bench: &mut ProbeBench<'_>) {
        let one = [Spinner {
            as_command: true,
            ..SPINNER
        }];
        let name = "command clock";
        // Its group has one name, so there is one try.
        let spun = match bench.spin(&one) {
            Ok(spun) => spun,
            Err(error) => return self.checks.push(failed(name, &error)),
        };
        let took = &spun.took[0];
        let remedy = "what a program takes of each CPU will not be in the report: mount cpuacct \
                      (v1), or allow perf events (v2: root, or CAP_PERFMON)";
        self.checks.push(match &took.as_command_ns {
            Some(Ok(ns)) => {
                let judgement = judge::command_clock(*ns, took.cpu_ns, spun.wall_ns);
                let seen = format!(
                    "a group's time on a CPU reads {:.0} ms where its process used {:.0} ms",
                    *ns as f64 / 1e6,
                    took.cpu_ns as f64 / 1e6
                );
                check_of(name, judgement, seen).or_remedy(remedy)
            }
            Some(Err(error)) => Check::warn(name, error.clone()).remedy(remedy),
            None => Check::new(name, CheckState::Untried, "the probe ended early"),
        });
        if let (Some((exec, waited)), Some(steal)) = (took.schedstat_ns, spun.steal_ns) {
            self.excludes_steal = judge::excludes_steal(spun.wall_ns, exec, waited, steal);
        }
        self.keep(&spun);
    }

    fn slice(&mut self) {
        let name = "slice";
        let kept = match probe::slice(SLICE_NS) {
            Ok(kept) => kept,
            Err(error) => return self.checks.push(failed(name, &error)),
        };
        let judgement = judge::slice(SLICE_NS, kept);
        let asked = SLICE_NS / 1_000_000;
        let seen = match kept {
            0 => "this kernel has no custom slices (they came with 6.12)".to_owned(),
            _ => format!("{asked} ms asked, {} ms kept", kept as f64 / 1e6),
        };
        // Loads are held without; only the neighbours notice.
        self.checks.push(match judgement {
            Judgement::Yes => Check::ok(name, seen),
            _ => Check::warn(name, seen).remedy(
                "loads are held all the same, but programs that sleep and wake may wait a few \
                 ms longer beside them",
            ),
        });
        self.slice = Some(judgement);
    }

    fn timers(&mut self) {
        let name = "timers";
        let outcome = twice(
            self.retry_until,
            || probe::wake_ups(SLEEPS, SLEEP_NS),
            |late: &Vec<u64>| judge::timers(late),
        );
        let (judgement, late) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return self.checks.push(failed(name, &error)),
        };
        let median = judge::median_ns(&late).unwrap_or(0.0) / 1e3;
        let worst = late.iter().max().map_or(0.0, |ns| *ns as f64 / 1e3);
        self.checks.push(
            check_of(
                name,
                judgement,
                format!("{SLEEPS} sleeps ended {median:.0} us late (median), {worst:.0} at worst"),
            )
            .or_remedy(
                "timers go by the tick: a kernel with CONFIG_HIGH_RES_TIMERS, booted without \
                 highres=off",
            )
            .figure("median_late_us", median)
            .figure("worst_late_us", worst),
        );
        self.timers = Some(judgement);
    }

    fn keep(&mut self, spun: &ProbeResult) {
        self.steal_ns += spun.steal_ns.unwrap_or(0);
        self.left.extend(spun.left.iter().cloned());
    }
}

fn share(spun: &ProbeResult) -> f64 {
    let delivered = spun.wall_ns.saturating_sub(spun.steal_ns.unwrap_or(0));
    spun.took[0].cpu_ns as f64 / delivered.max(1) as f64
}

/// Tries, and tries once more unless the first try succeeded or it is late.
pub fn twice<T>(
    retry_until: Option<Instant>,
    mut probe: impl FnMut() -> Result<T>,
    judge: impl Fn(&T) -> Judgement,
) -> Result<(Judgement, T)> {
    let first = probe()?;
    match judge(&first) {
        judgement
            if judgement == Judgement::Yes
                || retry_until.is_some_and(|end| Instant::now() >= end) =>
        {
            Ok((judgement, first))
        }
        _ => {
            let second = probe()?;
            Ok((judge(&second), second))
        }
    }
}

pub fn check_of(name: &'static str, judgement: Judgement, seen: String) -> Check {
    match judgement {
        Judgement::Yes => Check::ok(name, seen),
        Judgement::No => Check::no(name, seen),
        Judgement::Unclear => Check::warn(name, format!("{seen}: too busy to tell"))
            .remedy("try again when the machine is quieter"),
    }
}

pub fn failed(name: &'static str, error: &sandbag_run::Error) -> Check {
    use sandbag_run::Error;
    match error {
        Error::NotPossible { what, remedy } => Check::no(name, what).remedy(remedy),
        Error::Busy { .. } => Check::new(name, CheckState::Untried, error.to_string()),
        _ => Check::no(name, error.to_string()),
    }
}

impl Check {
    pub fn or_remedy(self, remedy: &str) -> Self {
        match self.state {
            CheckState::No => self.remedy(remedy),
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_tried_again_before_it_fails_unless_it_is_late() {
        for (retry_until, expected) in [
            (None, (Judgement::Yes, 2)),
            (Some(Instant::now()), (Judgement::No, 1)),
        ] {
            let mut tries = 0;
            let probe = || {
                tries += 1;
                Ok([Judgement::No, Judgement::Yes][tries - 1])
            };
            let (judgement, _) = twice(retry_until, probe, |answer| *answer).unwrap();
            assert_eq!((judgement, tries), expected);
        }
    }

    #[test]
    fn a_refusal_keeps_its_remedy() {
        let error = sandbag_run::Error::NotPossible {
            what: "no burst".into(),
            remedy: "use pace".into(),
        };
        let check = failed("caps", &error);
        assert_eq!(check.state, CheckState::No);
        assert_eq!(check.remedy.as_deref(), Some("use pace"));
    }
}
