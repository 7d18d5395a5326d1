// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual ranks.

use crate::bench::{Settings, Virtual, planned_time, virtual_ranks};
use crate::file::{
    CommonStart, Files, PhaseRow, RankModel, drift_json, rank_model, remarks, said_of_capped,
    said_of_load, said_of_time, slowdowns,
};
use crate::predict::{Places, Starts};
use sandbag_jitter::JitterTrace;
use sandbag_jitter::replay::{ReplayPlan, Sync};
use sandbag_ui::failure::Result;
use sandbag_ui::quantity::{percent, time};
use serde_json::json;

use super::{BenchArgs, OUT};
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;

/// Fewer phases of each rank are a poor mean.
const FEW: u32 = 20;

/// Of more ranks each for itself is in the rows only.
const MOST_TOLD: u32 = 1 << 14;

/// So many times what was asked for is worth a word before.
const LATE: u32 = 2;

pub(super) fn main(
    args: &BenchArgs,
    settings: &Settings,
    trace: Option<&JitterTrace>,
    messages: &Messages,
) -> Result<u8> {
    let asked = &args.options;
    let files = Files::create(asked)?;
    let planned = planned_time(settings);
    if planned > asked.duration.saturating_mul(LATE) {
        messages.warning(&format!(
            "this takes about {}, not {}: each of {} ranks needs some phases. Fewer ranks, a shorter \
             quantum or fewer trials (--repeats) take less",
            time(planned.as_nanos() as f64),
            time(asked.duration.as_nanos() as f64),
            settings.ranks
        ));
    }
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
    let together = common_start(settings, &measured);
    let predicted = trace.map_or_else(RankModel::default, |trace| {
        rank_model(trace, asked, &found, Starts::Running, Some(together))
    });
    let plan = settings.plan.as_ref();
    let with_host = plan.and_then(|plan| measured.with_host(plan, asked.seed));
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
        "capped": measured.capped(),
        "drift_ns": drift_json(drift_ns.0, drift_ns.1, u64::from(measured.phases)),
        "slowdowns": found,
        "predicted": predicted.points,
        "remarks": predicted.remarks,
        "per_rank": (measured.ranks <= MOST_TOLD).then(|| measured.per_rank()),
        "predicted_with_host": with_host,
    });
    let text = format!(
        "{} virtual ranks on {} CPUs, {} phases each; quantum {} (calibrated: {} in {} \
         iterations)\n\n{}\n{}{}{}\nAt the end they are {} apart from the first to the last, standard \
         deviation {} (--drift).\n{}",
        measured.ranks,
        settings.cpus.len(),
        measured.phases,
        time(settings.quantum_ns as f64),
        time(measured.calibrated_ns as f64),
        measured.iterations,
        slowdowns(&found, predicted.points.as_deref(), with_host.as_deref()),
        remarks(&predicted),
        said_of_load(load),
        said_of_capped(measured.capped()),
        time(drift_ns.0),
        time(drift_ns.1),
        said_of_time(asked.duration, measured.took_ns, &said_of_plan(&measured)),
    );
    files.write(OUT, &text, &figures, rows_of(&measured))?;
    Ok(exit::KEPT)
}

/// How phases were counted.
fn said_of_plan(measured: &Virtual) -> String {
    let noise = if measured.planned_pct > 0.0 {
        format!(
            ", with the {} % of its time that jitter takes a rank in them",
            percent(measured.planned_pct)
        )
    } else {
        String::new()
    };
    format!("the phases were planned to fit{noise}")
}

/// How far apart ranks were that had begun together.
fn common_start(settings: &Settings, measured: &Virtual) -> CommonStart {
    // Of each CPU of the trace, if each rank is one by itself.
    let plan = settings.plan.as_ref();
    let columns = plan.filter(|plan| plan.options().group == 1);
    let columns = columns.map(ReplayPlan::columns);
    let places = |places: Places| columns.map_or_else(Places::new, |_| places);
    // Whoever is not set back before the end parts for as many phases as there are.
    let every = match plan.map(|plan| plan.options().sync) {
        Some(Sync::Phases(every)) => every.min(measured.phases),
        _ => measured.phases,
    };
    let within = measured.apart_within(every, columns.unwrap_or(1));
    match within {
        Some(within) => CommonStart {
            end_ns: within.end_ns(),
            phases: u64::from(within.phases),
            places: places(within.places),
        },
        None => CommonStart {
            end_ns: measured.drift_ns().0,
            phases: u64::from(measured.phases),
            places: places(measured.places(columns.unwrap_or(1))),
        },
    }
}

fn rows_of(measured: &Virtual) -> impl Iterator<Item = PhaseRow> + '_ {
    let phases = (measured.phases as usize).max(1);
    let of = move |jitter: bool, all: &'_ [u32]| {
        let each: Vec<(usize, u32)> = all.iter().copied().enumerate().collect();
        each.into_iter().map(move |(at, qt_ns)| PhaseRow {
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
