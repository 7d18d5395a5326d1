// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `scale bench --virtual`.

use sandbag_jitter::JitterTrace;
use sandbag_jitter::replay::{ReplayPlan, Sync};
use sandbag_ui::exit;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::quantity::{percent, time};
use serde_json::json;

use super::args::BenchArgs;
use crate::bench::{CommonStart, Settings, Virtual, planned_time, virtual_ranks};
use crate::file::{BenchReport, Files, RankModel, rank_model};
use crate::predict::Starts;

/// Fewer phases of each rank are a poor mean.
const FEW: u32 = 20;

/// The figures of each rank are left out for more ranks; the rows have them.
const MOST_LISTED: u32 = 1 << 14;

/// A planned time of this many times the requested one is warned of.
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
    let times = &measured.times;
    let slowdowns = measured.slowdowns();
    let plan = settings.plan.as_ref();
    let together = common_start(plan, &measured);
    let report = BenchReport {
        asked,
        measured: times,
        took_ns: measured.took_ns,
        predicted: trace.map_or_else(RankModel::default, |trace| {
            rank_model(trace, asked, &slowdowns, Starts::Running, together)
        }),
        slowdowns,
        with_host: plan.and_then(|plan| measured.with_host(plan, asked.seed)),
        load: measured.load(),
    };
    let (width_ns, deviation_ns) = measured.drift_ns();
    let figures = report.json(json!({
        "virtual": true,
        "cpu_clock": settings.cpu_clock,
        "repeats": settings.repeats,
        "phases": measured.phases,
        "planned_pct": measured.planned_pct,
        "drift_ns": {
            "first_to_last": width_ns,
            "standard_deviation": deviation_ns,
            "phases": measured.phases,
        },
        "slowdowns": report.slowdowns,
        "per_rank": (times.ranks <= MOST_LISTED).then(|| times.per_rank(times.has_jitter())),
        "predicted_with_host": report.with_host,
    }));
    let head = format!(
        "{} virtual ranks on {} CPUs, {} phases each",
        times.ranks,
        settings.cpus.len(),
        measured.phases
    );
    let spread = format!(
        "\nAt the end they are {} apart from the first to the last, standard deviation {} \
         (--drift).\n",
        time(width_ns),
        time(deviation_ns)
    );
    let mut how = "the phases were planned to fit".to_owned();
    if measured.planned_pct > 0.0 {
        how += &format!(
            ", with the {} % of its time that jitter takes a rank in them",
            percent(measured.planned_pct)
        );
    }
    if measured.phases < measured.planned_phases {
        how = format!(
            "after twice the planned time {} of {} planned phases were made: the host took CPU time, \
             too",
            measured.phases, measured.planned_phases
        );
    }
    let text = report.text(&head, "", &spread, &how);
    files.write(&text, &figures, times)?;
    Ok(exit::KEPT)
}

/// Spread of the ranks after a common start.
fn common_start(plan: Option<&ReplayPlan>, measured: &Virtual) -> Option<CommonStart> {
    // Positions are kept for each CPU of the trace, if each rank is a node of its own.
    let columns = plan.filter(|plan| plan.options().group == 1);
    let columns = columns.map(ReplayPlan::columns);
    // Ranks that are not set back before the end spread over all phases.
    let every = match plan.map(|plan| plan.options().sync) {
        Some(Sync::Phases(every)) => every.min(measured.phases),
        _ => measured.phases,
    };
    let mut together = measured.common_start(every, columns.unwrap_or(1))?;
    if columns.is_none() {
        together.places.clear();
    }
    Some(together)
}
