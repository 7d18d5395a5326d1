// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The methods that put a load on CPUs; all of them can slow a node as well.

use crate::method;
use sandbag_run::realtime::RT_RUNTIME;

use super::super::check::{Check, CheckState};
use super::super::judge::Judgement;
use super::super::judge::Reserving;
use super::super::probes::ProbeFindings;
use super::{Ground, check_refusal, needs, needs_real_time, too_busy};

type LoadProbe = Result<Check, Check>;

fn needs_weights(name: &'static str, found: &ProbeFindings) -> Result<(), Check> {
    needs(name, found.weights, "weights are not honoured", "weights")
}

pub fn pace(name: &'static str, found: &ProbeFindings, ground: Ground<'_>) -> LoadProbe {
    needs_weights(name, found)?;
    if found.timers == Some(Judgement::No) {
        return Err(Check::no(name, "sleeps do not end on time").remedy("see the line on timers"));
    }
    if found.weights == Some(Judgement::Unclear) {
        return Ok(too_busy(name));
    }
    if found.run_delay == Some(Judgement::No) && ground.virtual_machine {
        return Ok(Check::warn(name, "works, but repays stolen time")
            .remedy("see the line on schedstat; where there is steal, look at the run's verdict"));
    }
    if found.slice == Some(Judgement::No) {
        let why = "works; without custom slices, wakers beside it wait longer";
        return Ok(Check::warn(name, why).remedy("Linux 6.12 or later has them"));
    }
    Ok(Check::ok(name, "works"))
}

pub fn quota(name: &'static str, found: &ProbeFindings, ground: Ground<'_>) -> LoadProbe {
    needs_weights(name, found)?;
    if ground.by_systemd {
        let why = "systemd cannot set the burst that a cap needs to be exact";
        let remedy = "use pace, or give a delegated group with --cgroup";
        return Err(Check::no(name, why).remedy(remedy));
    }
    needs(name, found.caps, "caps are not honoured", "caps")?;
    Ok(match found.caps {
        Some(Judgement::Yes) => Check::ok(name, "works; less exact than pace, for comparison"),
        _ => too_busy(name),
    })
}

pub fn shares(name: &'static str, found: &ProbeFindings, ground: Ground<'_>) -> LoadProbe {
    needs_weights(name, found)?;
    let cpus = ground.cpus.max(1);
    if cpus == 1 {
        return Ok(Check::ok(name, "works: as published, right on one CPU"));
    }
    let half = cpus as f64 / (cpus + 1) as f64 * 100.0;
    let why = format!("works as published, which takes up to {half:.0} % for 50 on {cpus} CPUs");
    Ok(Check::warn(name, why).remedy("for comparison with the papers only; use pace"))
}

pub fn hogs(name: &'static str, found: &ProbeFindings, ground: Ground<'_>) -> LoadProbe {
    real_time(name, found, ground, "works")
}

pub fn rt(name: &'static str, found: &ProbeFindings, ground: Ground<'_>) -> LoadProbe {
    let why = "works as published: CPUs are not in phase; for comparison";
    real_time(name, found, ground, why)
}

fn real_time(
    name: &'static str,
    found: &ProbeFindings,
    ground: Ground<'_>,
    why: &str,
) -> LoadProbe {
    needs_real_time(name, found)?;
    if found.real_time == Some(Judgement::Unclear) {
        return Ok(too_busy(name));
    }
    let most = method::by_name(name).map_or(1.0, |method| method.serves(1.0));
    Ok(match ground.real_time_limit {
        Some(limit) if limit < most => Check::warn(
            name,
            format!(
                "works, but real-time tasks may be stopped at {:.0} % of a CPU",
                limit * 100.0
            ),
        )
        .remedy(format!(
            "for more: sysctl {RT_RUNTIME}=950000 (of a sched_rt_period_us of 1000000)"
        )),
        _ => Check::ok(name, why),
    })
}

pub fn deadline(name: &'static str, found: &ProbeFindings, _: Ground<'_>) -> LoadProbe {
    check_refusal(name, found.no_real_time.as_ref())?;
    Ok(match &found.reserving {
        None => Check::new(name, CheckState::Untried, "could not be tried")
            .remedy("see the line on deadline"),
        Some(Reserving::Admitted) => Check::ok(name, "works"),
        Some(Reserving::WithoutLimit { may: true }) => Check::warn(
            name,
            format!(
                "works: sandbag sets {RT_RUNTIME} to -1 for the run and puts it back; meanwhile \
                 no real-time task of the machine is limited"
            ),
        )
        .remedy("where that must not be: hogs"),
        Some(Reserving::WithoutLimit { may: false }) => Check::no(
            name,
            format!("needs {RT_RUNTIME} to be -1, and we may not set it"),
        )
        .remedy("see the line on deadline; or use hogs"),
        Some(Reserving::Refused((what, remedy))) => Check::no(name, what).remedy(remedy),
    })
}
