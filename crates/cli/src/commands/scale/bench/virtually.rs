// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual ranks.

use anyhow::Result;
use sandbag_jitter::Trace;
use sandbag_report::quantity::{percent, time};
use sandbag_scale::bench::{Settings, Virtual, virtual_ranks};
use sandbag_scale::predict::{Places, Starts};
use sandbag_scale_bench::{
    Row, Together, drift_json, predicted, said_of_load, said_of_time, slowdowns,
};
use serde_json::json;

use super::{BenchArgs, rows_file, told};
use crate::messages::Messages;

/// Fewer phases of each rank are a poor mean.
const FEW: u32 = 20;

pub(super) fn main(
    args: &BenchArgs,
    settings: &Settings,
    trace: Option<&Trace>,
    messages: &Messages,
) -> Result<u8> {
    let asked = &args.options;
    let file = rows_file(args)?;
    let measured = virtual_ranks(settings)?;
    if measured.phases < FEW {
        messages.warning(&format!(
            "{} phases of each rank: a longer run (-d) gives a better mean",
            measured.phases
        ));
    }
    let found = measured.slowdowns();
    let drift_ns = measured.drift_ns();
    let load = measured.load();
    let together = Some(Together {
        end_ns: drift_ns.0,
        phases: u64::from(measured.phases),
        places: places(settings, &measured),
    });
    let predicted =
        trace.and_then(|trace| predicted(trace, asked, &found, Starts::Running, together));
    let plan = settings.plan.as_ref();
    let with_host = plan.map(|plan| measured.with_host(plan, asked.seed));
    let figures = json!({
        "format": 1,
        "virtual": true,
        "cpu_clock": settings.cpu_clock,
        "repeats": settings.repeats,
        "ranks": measured.ranks,
        "phases": measured.phases,
        "quantum_ns": settings.quantum_ns,
        "calibrated_ns": measured.calibrated_ns,
        "iterations": measured.iterations,
        "seed": asked.seed,
        "sync": asked.sync.to_string(),
        "asked_s": asked.duration.as_secs_f64(),
        "took_s": measured.took_ns as f64 / 1e9,
        "planned_pct": measured.planned_pct,
        "load": load,
        "drift_ns": drift_json(drift_ns.0, drift_ns.1, u64::from(measured.phases)),
        "slowdowns": found,
        "predicted": predicted,
        "predicted_with_host": with_host,
    });
    let text = format!(
        "{} virtual ranks on {} CPUs, {} phases each; quantum {} (calibrated: {} in {} \
         iterations)\n\n{}\n{}\nAt the end they are {} apart from the first to the last, standard \
         deviation {} (--drift).\n{}",
        measured.ranks,
        settings.cpus.len(),
        measured.phases,
        time(settings.quantum_ns as f64),
        time(measured.calibrated_ns as f64),
        measured.iterations,
        slowdowns(&found, predicted.as_deref(), with_host.as_deref()),
        said_of_load(load),
        time(drift_ns.0),
        time(drift_ns.1),
        said_of_time(asked.duration, measured.took_ns, &planned(&measured)),
    );
    told(args, &text, &figures, file, rows_of(&measured))
}

/// How phases were counted.
fn planned(measured: &Virtual) -> String {
    let noise = match measured.planned_pct > 0.0 {
        true => format!(
            ", with the {} % of its time that jitter takes a rank in them",
            percent(measured.planned_pct)
        ),
        false => String::new(),
    };
    format!("the phases were planned to fit{noise}")
}

/// Where ranks were at the end; of each CPU of the trace, if each rank is one by itself.
fn places(settings: &Settings, measured: &Virtual) -> Places {
    let plan = settings.plan.as_ref();
    let alone = plan.filter(|plan| plan.options().group == 1);
    alone.map_or_else(Places::new, |plan| measured.places(plan.columns()))
}

fn rows_of(measured: &Virtual) -> impl Iterator<Item = Row> + '_ {
    let phases = (measured.phases as usize).max(1);
    let of = move |jitter: bool, all: &'_ [u32]| {
        let each: Vec<(usize, u32)> = all.iter().copied().enumerate().collect();
        each.into_iter().map(move |(at, qt_ns)| Row {
            segment: usize::from(jitter),
            jitter,
            phase: at % phases,
            rank: at / phases,
            qt_ns,
            bt_ns: 0,
        })
    };
    of(false, &measured.quiet_ns).chain(of(true, &measured.jitter_ns))
}
