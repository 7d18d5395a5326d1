// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The methods that act on a node as a whole.

use super::super::check::Check;
use super::super::frequencies::FrequencySetting;
use super::super::judge::Judgement;
use super::super::probes::ProbeFindings;
use super::{Ground, check_refusal, needs, needs_real_time, too_busy};

type NodeProbe = Result<Check, Check>;

pub fn lim(name: &'static str, found: &ProbeFindings, _: Ground<'_>) -> NodeProbe {
    check_refusal(name, found.no_node.as_ref())?;
    needs_real_time(name, found)?;
    needs(
        name,
        found.stopping,
        "processes cannot be stopped",
        "stopping",
    )?;
    Ok(match found.stopping {
        Some(Judgement::Yes) => Check::ok(
            name,
            "works as published: a share per process, not per node; costs more with every process",
        ),
        _ => too_busy(name),
    })
}

pub fn freq(name: &'static str, found: &ProbeFindings, ground: Ground<'_>) -> NodeProbe {
    check_refusal(name, found.no_node.as_ref())?;
    match ground.frequencies {
        FrequencySetting::NoDriver => Err(Check::no(
            name,
            "there is no cpufreq driver here (virtual machines have none)",
        )
        .remedy("use hogs, or gov, which needs none")),
        FrequencySetting::Cannot((what, remedy)) => Err(Check::no(name, what).remedy(remedy)),
        FrequencySetting::Can(what) => {
            needs_real_time(name, found)?;
            Ok(should(name, what))
        }
    }
}

pub fn gov(name: &'static str, found: &ProbeFindings, ground: Ground<'_>) -> NodeProbe {
    check_refusal(name, found.no_node.as_ref())?;
    needs_real_time(name, found)?;
    needs(name, found.freezer, "groups cannot be frozen", "freezer")?;
    if found.freezer == Some(Judgement::Unclear) {
        return Ok(too_busy(name));
    }
    match ground.frequencies {
        FrequencySetting::NoDriver => Ok(Check::ok(
            name,
            "works by the freezer alone: no frequencies here, so full speed and standstill in turn",
        )),
        FrequencySetting::Cannot((what, remedy)) => Err(Check::no(name, what).remedy(remedy)),
        FrequencySetting::Can(what) => Ok(should(name, what)),
    }
}

/// Nothing was set, for it would have slowed others.
fn should(name: &'static str, what: &str) -> Check {
    Check::warn(name, format!("should work, untried: {what}"))
        .remedy("look at the run's verdict; --calibrate measures the frequencies first")
}

pub fn cap(name: &'static str, found: &ProbeFindings, _: Ground<'_>) -> NodeProbe {
    check_refusal(name, found.no_node.as_ref())?;
    needs(name, found.node_cap, "a node cannot be capped", "node cap")?;
    Ok(match (found.node_cap, found.caps) {
        // That probe has more weight to get its part with.
        (Some(Judgement::Yes), _) | (_, Some(Judgement::Yes)) => Check::ok(
            name,
            "works, as containers have it: one budget for all CPUs, which is not a slower CPU",
        ),
        _ => too_busy(name),
    })
}
