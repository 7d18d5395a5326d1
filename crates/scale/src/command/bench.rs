// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag scale bench`.

mod args;
mod mpi;
mod virtually;

use sandbag_jitter::JitterTrace;
use sandbag_jitter::trace_file::open_trace;
use sandbag_linux::Root;
use sandbag_linux::container::{CpuLimit, cpu_limit};
use sandbag_linux::topology::Topology;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::output;
use sandbag_ui::{BadInput, exit};

use crate::bench::{Settings, measure};
use crate::file::{Files, ResultFile};
pub use args::BenchArgs;
use args::{ClockArg, allowed_cpus};

/// Runs the command.
pub fn main(args: &BenchArgs, messages: &Messages) -> Result<u8> {
    if let Some(path) = &args.options.output {
        output::refuse_ending(path, &["csv", "zst"])?;
    }
    if args.mpi {
        return mpi::main(args);
    }
    let topology = Topology::read(&Root::default())?;
    let cpus: Vec<u32> = allowed_cpus(&args.cpus, &topology)?.iter().collect();
    let read = |path| open_trace(path, &args.import.of_events(), messages);
    let trace = args.options.jitter.as_deref().map(read).transpose()?;
    let plan = trace.as_ref().map(|trace| args.options.plan(trace));
    let ranks = args.ranks.unwrap_or(cpus.len() as u32);
    // One that cannot be read is a matter of `sandbag doctor`.
    let limit = cpu_limit(&Root::default()).unwrap_or(None);
    let settings = Settings {
        cpus,
        cpu_limit: limit.as_ref().map(CpuLimit::cpus),
        cpu_clock: args.clock == ClockArg::Cpu,
        repeats: args.repeats,
        ..args.options.settings(ranks, plan.transpose()?)
    };
    if let Some(limit) = limit.filter(|_| settings.exceeds_limit()) {
        messages.warning(&format!(
            "the CPU limit of the group {} is {limit}, and the ranks compute on {}: they also wait \
             for the next period of the limit, and the figures are mostly that wait. Name fewer \
             CPUs (--cpus), or raise the limit",
            limit.group.display(),
            settings.busy_cpus()
        ));
    }
    if args.virtually {
        virtually::main(args, &settings, trace.as_ref(), messages)
    } else {
        meeting(args, &settings, trace.as_ref(), messages)
    }
}

/// Ranks that meet on a CPU, at most.
const MOST_PER_CPU: usize = 16;

/// Ranks that are processes and meet.
fn meeting(
    args: &BenchArgs,
    settings: &Settings,
    trace: Option<&JitterTrace>,
    messages: &Messages,
) -> Result<u8> {
    let (ranks, cpus) = (settings.ranks as usize, settings.cpus.len());
    if ranks > MOST_PER_CPU * cpus {
        return Err(BadInput(format!(
            "{ranks} ranks that meet on {cpus} CPUs would only wait for CPUs: take --virtual, or \
             {} ranks at most",
            MOST_PER_CPU * cpus
        ))
        .into());
    }
    if ranks > cpus {
        messages.warning(&format!(
            "{ranks} ranks on {cpus} CPUs also wait for CPUs, and the figures are mostly that wait. \
             Take --virtual for more ranks than CPUs"
        ));
    }
    let files = Files::create(&args.options)?;
    let measured = measure(settings)?;
    let cpus = settings.cpus.iter().cycle();
    let places = cpus.map(|cpu| format!("CPU {cpu}"));
    let places = places.take(settings.ranks as usize).collect();
    let replayed = trace.zip(settings.plan.as_ref());
    let Some(all) = ResultFile::new(&args.options, &measured, replayed, places) else {
        return Err(sandbag_ui::failure!("no phase ended in the time there was"));
    };
    let text = all.text(&format!("{} CPUs", settings.cpus.len()));
    files.write(&text, &all.json(), &measured)?;
    Ok(exit::KEPT)
}
