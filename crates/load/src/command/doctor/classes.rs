// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The probe of the real-time classes, in words.

use crate::probe::{FifoSeen, ProbeBench, REAL_TIME_NS, RealTimeSeen};
use nix::unistd::{AccessFlags, access};
use sandbag_linux::capability::{Capabilities, Capability};
use sandbag_linux::sysctl::Sysctl;
use sandbag_linux::{Error, Root};
use sandbag_run::realtime::{self, RT_RUNTIME};

use super::check::{Check, CheckState};
use super::judge::{self, Judgement, Refusal, Reserving};
use super::probes::{ProbeFindings, check_of, failed, twice};

/// What decides about a refusal beside what the kernel said.
#[derive(Debug, Clone, Copy)]
struct Circumstances {
    may_nice: bool,
    /// Budget of the group, us; `None` where groups have none.
    budget_us: Option<i64>,
    may_write: bool,
}

impl ProbeFindings {
    pub fn classes(&mut self, bench: &mut ProbeBench<'_>, root: &Root) {
        let (name, other) = ("real-time", "deadline");
        let judge = |seen: &RealTimeSeen| match &seen.fifo {
            Ok(got) => judge::fifo(got.early_ns, got.beside_ns, REAL_TIME_NS),
            // The kernel has said no: asking again is of no use.
            Err(_) => Judgement::Yes,
        };
        let (judgement, seen) = match twice(self.retry_until, || bench.real_time(), judge) {
            Ok(outcome) => outcome,
            Err(error) => {
                let check = failed(name, &error);
                if check.state == CheckState::No {
                    let remedy = check.remedy.clone().unwrap_or_else(|| REMEDY.to_owned());
                    self.no_real_time = Some((check.why.clone(), remedy));
                }
                return self.checks.push(check);
            }
        };
        let limit = Sysctl::new(root, RT_RUNTIME);
        let around = Circumstances {
            may_nice: Capabilities::effective(root).is_ok_and(|all| all.has(Capability::SysNice)),
            budget_us: seen.budget_us,
            may_write: access(limit.path(), AccessFlags::W_OK).is_ok(),
        };
        match &seen.fifo {
            Ok(got) => {
                self.checks.push(fifo(judgement, *got));
                self.real_time = Some(judgement);
            }
            Err(error) => {
                let (what, remedy) = refusal(error, around);
                self.checks.push(Check::no(name, &what).remedy(&remedy));
                self.real_time = Some(Judgement::No);
                self.no_real_time = Some((what, remedy));
            }
        }
        let reserving = reserving(&seen.deadline, around);
        self.checks.push(reservation(other, &reserving));
        self.reserving = Some(reserving);
        self.left.extend(seen.left);
    }
}

const REMEDY: &str = "run as root on the machine itself; pace needs no such class";

fn fifo(judgement: Judgement, got: FifoSeen) -> Check {
    let ms = |ns: u64| ns as f64 / 1e6;
    let wanted = ms(REAL_TIME_NS);
    check_of(
        "real-time",
        judgement,
        format!(
            "a SCHED_FIFO task got {:.1} of {wanted:.0} ms at once, a spinner beside it {:.1}",
            ms(got.early_ns),
            ms(got.beside_ns)
        ),
    )
    .or_remedy(
        "the class is accepted but not preferred: end the scheduler that is loaded, or use pace",
    )
    .figure("got_ms", ms(got.early_ns))
    .figure("all_ms", ms(got.all_ns))
}

fn refusal(error: &Error, around: Circumstances) -> Refusal {
    let (what, remedy) = realtime::refusal(error, around.may_nice, around.budget_us);
    match error.errno() {
        Some(libc::EPERM) => (what, remedy.to_owned()),
        _ => (what, REMEDY.to_owned()),
    }
}

fn reserving(outcome: &sandbag_linux::Result<()>, around: Circumstances) -> Reserving {
    match outcome {
        Ok(()) => Reserving::Admitted,
        // What admission says (sched-deadline.rst, "Tasks CPU affinity").
        Err(error)
            if around.may_nice && matches!(error.errno(), Some(libc::EPERM | libc::EBUSY)) =>
        {
            Reserving::WithoutLimit {
                may: around.may_write,
            }
        }
        Err(error) => Reserving::Refused(refusal(error, around)),
    }
}

fn reservation(name: &'static str, reserving: &Reserving) -> Check {
    let only = format!("a pinned task is given a reservation only while {RT_RUNTIME} is -1");
    match reserving {
        Reserving::Admitted => Check::ok(name, "a pinned task is given a reservation"),
        Reserving::WithoutLimit { may: true } => Check::ok(name, format!("{only}: we may set it")),
        Reserving::WithoutLimit { may: false } => {
            let remedy = "run as root outside of containers, or let root set it";
            Check::no(name, format!("{only}, and we may not set it"))
                .remedy(format!("{remedy} (sysctl {RT_RUNTIME}=-1)"))
        }
        Reserving::Refused((what, remedy)) => Check::no(name, what).remedy(remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel's refusal means to root, to a user, and to root in a
    /// group without real-time budget.
    #[test]
    fn each_refusal_has_its_own_remedy() {
        let error = |errno| Error::Call {
            call: "sched_setattr",
            arguments: "7".to_owned(),
            cause: std::io::Error::from_raw_os_error(errno),
        };
        for (errno, may_nice, budget_us, part) in [
            (libc::EPERM, false, None, "SYS_NICE"),
            (libc::EPERM, true, Some(0), "cpu.rt_runtime_us"),
            (libc::EPERM, true, None, "seccomp"),
            (libc::ENOSYS, true, None, "pace"),
        ] {
            let around = Circumstances {
                may_nice,
                budget_us,
                may_write: true,
            };
            assert!(refusal(&error(errno), around).1.contains(part), "{part}");
        }
        for (outcome, may_nice, may_write, expected) in [
            (Ok(()), true, true, Some(CheckState::Ok)),
            (Err(error(libc::EPERM)), true, true, Some(CheckState::Ok)),
            (Err(error(libc::EBUSY)), true, true, Some(CheckState::Ok)),
            (Err(error(libc::EBUSY)), true, false, Some(CheckState::No)),
            (Err(error(libc::EPERM)), false, true, None),
            (Err(error(libc::EINVAL)), true, true, None),
        ] {
            let around = Circumstances {
                may_nice,
                budget_us: None,
                may_write,
            };
            let found = reserving(&outcome, around);
            let state = match &found {
                Reserving::Refused(_) => None,
                admitted => Some(reservation("deadline", admitted).state),
            };
            assert_eq!(state, expected, "{outcome:?}");
            assert_eq!(outcome.is_ok(), found == Reserving::Admitted);
        }
    }
}
