// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The probe of a virtual node's group, in words.

use std::time::Duration;

use crate::probe::{Freezing, NodeSeen, ProbeBench, Stopping};
use sandbag_linux::Error;
use sandbag_linux::cgroup::Version;

use super::check::{Check, CheckState};
use super::judge::{self, Judgement};
use super::probes::{ProbeFindings, check_of, failed};

const LOOK_EVERY: Duration = Duration::from_millis(10);

impl ProbeFindings {
    /// Tries a node's group on the bench's CPU; `other` is another one that we
    /// may use. Its group has one name, so there is one try.
    pub fn node(&mut self, bench: &mut ProbeBench<'_>, other: Option<u32>) {
        match bench.node(other, judge::CAP) {
            Ok(seen) => self.seen_of_node(seen, bench.cpu(), other),
            Err(error) => {
                let check = failed("node group", &error);
                if check.state == CheckState::No {
                    let remedy = check.remedy.clone();
                    let remedy = remedy.unwrap_or_else(|| "see the line on groups".to_owned());
                    self.no_node = Some((check.why.clone(), remedy));
                }
                self.checks.push(check);
            }
        }
    }

    fn seen_of_node(&mut self, seen: NodeSeen, cpu: u32, other: Option<u32>) {
        self.checks
            .push(cpuset(seen.has_cpuset, seen.stayed, cpu, other));
        let (judgement, check) = freezer(seen.freezer.as_ref());
        self.freezer = Some(judgement);
        self.checks.push(check);
        let (judgement, check) = stopping(&seen.stopping);
        self.stopping = Some(judgement);
        self.checks.push(check);
        let (judgement, check) = cap(&seen.capped);
        self.node_cap = Some(judgement);
        self.checks.push(check);
        self.left.extend(seen.left);
    }
}

fn cpuset(has_cpuset: bool, stayed: Option<bool>, cpu: u32, other: Option<u32>) -> Check {
    let name = "cpuset";
    let remedy = "a program that sets its own affinity can leave a node's CPUs: mount the cpuset \
                  controller, or do not let it";
    let other = other.unwrap_or(cpu);
    match (has_cpuset, stayed) {
        (false, _) => Check::warn(name, "groups cannot be confined to CPUs here").remedy(remedy),
        (true, None) => Check::new(
            name,
            CheckState::Untried,
            "there is no second CPU to send a task to",
        ),
        (true, Some(true)) => Check::ok(
            name,
            format!("a task in a group of CPU {cpu} stayed there when it was sent to CPU {other}"),
        ),
        (true, Some(false)) => Check::warn(
            name,
            format!("a task in a group of CPU {cpu} went to CPU {other} when it was sent there"),
        )
        .remedy(remedy),
    }
}

fn freezer(seen: Option<&Freezing>) -> (Judgement, Check) {
    let name = "freezer";
    let remedy = "mount it (cgroup v2, or v1's freezer); hogs needs none";
    let Some(Freezing { version, outcome }) = seen else {
        let check = Check::no(name, "groups cannot be frozen here").remedy(remedy);
        return (Judgement::No, check);
    };
    let version = match version {
        Version::V1 => "v1",
        Version::V2 => "v2",
    };
    match outcome {
        Ok(frozen) => {
            let judgement = judge::judge_freeze(frozen.used_ns, frozen.went_on_after);
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            let within = us(frozen.within);
            let seen = format!(
                "{version}: a group stood still within {within:.0} us{}",
                match frozen.went_on_after {
                    Some(after) => format!(" and went on within {:.0} us", us(after)),
                    None => ", and did not go on in time".to_owned(),
                }
            );
            let check = check_of(name, judgement, seen)
                .or_remedy("what is frozen runs here: use hogs")
                .figure("froze_us", within);
            (judgement, check)
        }
        Err(error @ Error::Late { .. }) => {
            let judgement = Judgement::Unclear;
            (judgement, check_of(name, judgement, error.to_string()))
        }
        Err(error) => (
            Judgement::No,
            Check::no(name, error.to_string()).remedy(remedy),
        ),
    }
}

fn stopping(outcome: &sandbag_linux::Result<Stopping>) -> (Judgement, Check) {
    let name = "stopping";
    match outcome {
        Ok(seen) => {
            let judgement = if seen.works {
                Judgement::Yes
            } else {
                Judgement::Unclear
            };
            let us = seen.look.as_secs_f64() * 1e6;
            let pct = seen.look.as_secs_f64() / LOOK_EVERY.as_secs_f64() * 100.0;
            let what = if seen.works {
                "stopped and continued by signals"
            } else {
                "was not seen stopped and continued"
            };
            let seen = format!(
                "a process {what}; looking at it takes {us:.0} us, {pct:.2} % of a CPU if every \
                 10 ms"
            );
            let check = check_of(name, judgement, seen).figure("look_us", us);
            (judgement, check)
        }
        Err(error) => {
            let remedy = match error.errno() {
                Some(libc::ENOSYS) => "Linux 5.3 or later has pidfd_open(2); or use hogs",
                _ => "use hogs",
            };
            let check = Check::no(name, error.to_string()).remedy(remedy);
            (Judgement::No, check)
        }
    }
}

fn cap(outcome: &sandbag_linux::Result<f64>) -> (Judgement, Check) {
    let name = "node cap";
    let remedy = "a kernel with CONFIG_CFS_BANDWIDTH and its own scheduler; or use hogs";
    match outcome {
        Ok(share) => {
            let judgement = judge::cap(*share);
            let (cap, pct) = (judge::CAP * 100.0, share * 100.0);
            let seen = format!("a node's group under a cap of {cap:.0} % got {pct:.1} %");
            let check = check_of(name, judgement, seen).or_remedy(remedy);
            (judgement, check.figure("got_pct", pct))
        }
        Err(error) => {
            let check = if error.is_absent() {
                Check::no(name, "the cpu controller is not there for a node's group")
                    .remedy("use hogs")
            } else {
                Check::no(name, error.to_string()).remedy(remedy)
            };
            (Judgement::No, check)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::node::FreezeResult;
    use CheckState::{No, Ok as Works, Untried, Warn};

    fn refused(errno: i32) -> Error {
        Error::Call {
            call: "pidfd_open",
            arguments: String::new(),
            cause: std::io::Error::from_raw_os_error(errno),
        }
    }

    /// A frozen group uses no CPU time and goes on when it is thawed. One that
    /// did not stand still in time says nothing on a busy machine.
    #[test]
    fn a_freezer_is_judged_by_what_stands_still_and_goes_on() {
        let froze = |used_ns, after_us: Option<u64>| {
            Ok(FreezeResult {
                within: Duration::from_micros(300),
                used_ns,
                went_on_after: after_us.map(Duration::from_micros),
            })
        };
        let late = Error::Late {
            path: "/g/cgroup.events".into(),
            wanted: "frozen 1".to_owned(),
            got: "frozen 0".to_owned(),
            waited_ms: 200,
        };
        for (outcome, judgement, state, part) in [
            (froze(0, Some(100)), Judgement::Yes, Works, "within 300 us"),
            (froze(9_000_000, Some(1)), Judgement::No, No, "hogs"),
            (froze(0, None), Judgement::Unclear, Warn, "did not go on"),
            (Err(late), Judgement::Unclear, Warn, "quieter"),
        ] {
            let version = Version::V1;
            let (judged, check) = freezer(Some(&Freezing { version, outcome }));
            assert_eq!((judged, check.state), (judgement, state));
            let text = format!("{} {:?}", check.why, check.remedy);
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(freezer(None).1.state, No);
    }

    #[test]
    fn a_task_that_leaves_its_cpuset_is_a_warning() {
        for (has_cpuset, stayed, state) in [
            (true, Some(true), Works),
            (true, Some(false), Warn),
            (false, Some(false), Warn),
            (true, None, Untried),
        ] {
            assert_eq!(cpuset(has_cpuset, stayed, 1, Some(0)).state, state);
        }
    }

    #[test]
    fn stopping_costs_a_part_of_a_cpu_and_a_cap_may_be_missing() {
        let look = Duration::from_micros(50);
        let (judgement, check) = stopping(&Ok(Stopping { works: true, look }));
        assert_eq!(judgement, Judgement::Yes);
        assert!(check.why.contains("50 us, 0.50 %"), "{}", check.why);
        let old = stopping(&Err(refused(libc::ENOSYS)));
        assert!(old.1.remedy.unwrap().contains("5.3"));
        assert_eq!(cap(&Ok(0.3)).1.state, Works);
        assert_eq!(cap(&Ok(1.0)).1.state, No);
        assert_eq!(cap(&Ok(0.01)).0, Judgement::Unclear);
        let (judgement, check) = cap(&Err(refused(libc::ENOENT)));
        assert_eq!((judgement, check.state), (Judgement::No, No));
        assert!(check.why.contains("cpu controller"), "{}", check.why);
    }
}
