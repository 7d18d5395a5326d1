// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run, from options to run directory: what `load` and `replay` share.

mod failure;
pub mod hold_options;
pub mod layers;
mod observer;
pub mod options;
mod record;
mod schedule;

use std::fmt::Write as _;
use std::process::Child;

use crate::method::{self, Feel, Method, MethodOptions, Scope};
use crate::metrics::Exporter;
use crate::node::Target;
use crate::report::run::Run;
use crate::report::{terminal, write};
use crate::supervisor::{self, NodeControl, RunEnd, RunPlan, StartAt, StartOn};
use sandbag_linux::sched::Attributes;
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root, clock};
use sandbag_profile::BoxSteps;
use sandbag_run::command::CommandSpec;
use sandbag_run::journal::{part_begins_ns, part_of};
use sandbag_run::layout::{Layout, LayoutKind};
use sandbag_run::program::words;
use sandbag_run::realtime;
use sandbag_run::registry::Registry;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::text::{command_line, visible};

pub use failure::record_failure;
use layers::{LayerPlan, Layers};
use observer::Collector;
use options::RunOptions;
use sandbag_run::directory::RunDir;
use sandbag_run::machine;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output;
use sandbag_ui::units::{Cpus, nanos, plain};

pub struct RunLoad {
    pub cpus: Vec<u32>,
    pub steps: BoxSteps,
    pub length_ns: Option<u64>,
    pub highest_pct: f64,
    pub name: String,
    pub warnings: Vec<String>,
}

/// `start_at` is [`RunOptions::start_at`] of before the load was read, which may take its time.
pub fn run(
    load: RunLoad,
    start_at: Option<StartAt>,
    options: &RunOptions,
    messages: &Messages,
) -> Result<u8> {
    let constants = MethodOptions {
        period_ns: options.period.map(nanos),
        pace: options.pace,
        shares: options.shares,
        ..MethodOptions::default()
    };
    let mut method = method::with_options(&options.method, &constants)
        .and_then(|method| method.with_feel(options.feel))
        .map_err(|reason| sandbag_ui::BadInput(format!("--method: {reason}")))?;
    let cpus = load.cpus.iter().copied().collect();
    method.fit_to(&Root::default(), &cpus)?;
    if method.feel == Feel::Competitor {
        sandbag_run::awake::check(&Root::default(), &cpus)?;
    }
    run_by(load, method, None, start_at, options, messages)
}

/// A virtual node to be made: its socket, and who enters it.
pub struct PlannedNode {
    pub control: NodeControl,
    /// A program that runs already.
    pub target: Option<Target>,
    /// Of before its socket was made: it removes that as well.
    pub guardian: Child,
    /// What is to hold besides its speed.
    pub layers: Vec<LayerPlan>,
}

pub fn check_layout(method: &Method, layout: &Layout) -> sandbag_run::Result<()> {
    match (method.name, layout.kind()) {
        ("quota", LayoutKind::V2Systemd) => Err(sandbag_run::Error::NotPossible {
            what: "quota needs a burst, which systemd cannot set on its units".into(),
            remedy: "use --method pace, or give a delegated group with --cgroup".into(),
        }),
        (name, _) => match method.attributes {
            Attributes::Fifo { .. } | Attributes::Deadline { .. } => {
                let lifted = method.lifts_real_time_limit;
                realtime::must_be_allowed(&Root::default(), layout, name, lifted)
            }
            _ => Ok(()),
        },
    }
}

/// The same by this method; with `node` as a virtual node.
pub fn run_by(
    load: RunLoad,
    method: Method,
    node: Option<PlannedNode>,
    start_at: Option<StartAt>,
    options: &RunOptions,
    messages: &Messages,
) -> Result<u8> {
    let (node, target, guardian, layers) = match node {
        None => (None, None, None, Vec::new()),
        Some(node) => {
            let guardian = Some(node.guardian);
            (Some(node.control), node.target, guardian, node.layers)
        }
    };
    if options.windows.is_some() && options.hold.no_out {
        let text =
            "--windows is a file of the run directory, and --no-out makes none: leave one out";
        return Err(sandbag_ui::BadInput(text.to_owned()).into());
    }
    let root = Root::default();
    let topology = Topology::read(&root)?;
    let mut warnings = load.warnings;
    let served_pct = method.serves(load.highest_pct / 100.0) * 100.0;
    if served_pct < load.highest_pct - 1e-9 {
        warnings.push(format!(
            "{} reaches {} % at most; where {} % is asked, that is served",
            method.name,
            plain(served_pct),
            plain(load.highest_pct)
        ));
    }
    let loaded: CpuList = load.cpus.iter().copied().collect();
    let layout = Layout::find(&root, options.hold.cgroup.as_deref())?;
    check_layout(&method, &layout)?;
    let machine = machine::describe(&root, &topology, &layout.kind().to_string());
    let unrepeatable = machine::unrepeatable(&machine, &topology, &layout, &loaded);
    warnings.extend(unrepeatable);
    // Also what would be found out while the run begins: a dry run is to say
    // what a run would say.
    sandbag_run::online::check_online(&root, &loaded)?;
    layout.check_usable(&topology, &loaded)?;
    let pin = options.pin.as_ref();
    let pin = pin.map(|cpus: &Cpus| cpus.some(&topology, "--pin"));
    let pin = pin.transpose()?;
    if let Some(pin) = &pin {
        sandbag_run::online::check_online(&root, pin).context("--pin")?;
    }
    if let Some(cpu) = options.supervisor_cpu {
        sandbag_run::online::check_online(&root, &CpuList::from_iter([cpu]))
            .context("--supervisor-cpu")?;
    }
    let beside = options.beside.as_ref();
    let beside = beside.map(|name| Target::of(&root, name)).transpose()?;
    let registry = Registry::open()?;
    if options.hold.dry_run {
        options.hold.metrics.check()?;
        if part_of().is_none() {
            refuse_busy(&registry, &loaded)?;
        }
        warnings.iter().for_each(|text| messages.warning(text));
        return dry_run(
            &load.name,
            load.length_ns,
            &loaded,
            &method,
            &layout,
            pin.as_ref(),
            options,
        );
    }
    // Of a late one the observer says by how much.
    if let Some(start) = start_at.filter(|start| start.at_ns > clock::monotonic()) {
        messages.say(&format!(
            "--at: this host's run begins {:.1} ms after that time, at a multiple of 100 ms of \
             its clock",
            schedule::delay_ns(start.at_ns) as f64 / 1e6
        ));
    }
    let of_whole = || part_begins_ns().map(|at_ns| StartAt { at_ns, wall: None });
    let start_at = start_at.or_else(of_whole);
    let exporter = Exporter::start(&options.hold.metrics)?;
    let dir = options.hold.make_dir(messages)?;
    let path = dir.as_ref().map(RunDir::path);
    // A late run begins as one without a time.
    let begins_ns = start_at
        .map(|start| start.at_ns + schedule::delay_ns(start.at_ns))
        .filter(|begins_ns| *begins_ns > clock::monotonic());
    let layers = Layers::start(layers, path, &registry, begins_ns).inspect_err(|_| {
        if let Some(dir) = &dir {
            dir.discard_if_empty();
        }
    })?;
    warnings.iter().for_each(|text| messages.warning(text));
    let started_at = jiff::Timestamp::now();
    let mut collector = Collector::new(
        &load.cpus,
        !options.hold.command.is_empty() || node.is_some(),
        load.length_ns,
        dir.as_ref(),
        options.windows.is_some(),
        messages,
    );
    collector.watch(beside, &root);
    // It ends when the results are written, and keeps none of them waiting.
    collector.look_after(exporter);
    if method.scope != Scope::Cpu {
        collector.takes_without_burning();
    }
    // A command's own words and a progress line do not mix.
    if options.progress || options.hold.command.is_empty() {
        collector.show_progress();
    }
    let facts = record::Facts {
        machine,
        method: record::method_used(&method),
        profile: load.name.clone(),
        started_at: started_at.to_string(),
        cpus: load.cpus.clone(),
        command: words(&options.hold.command),
        tolerance: options.hold.tolerance,
        node: node.as_ref().map(|node| node.name.to_string()),
        length_ns: load.length_ns,
        burns: method.scope == Scope::Cpu,
    };
    let outcome = supervisor::run(
        RunPlan {
            root: root.clone(),
            cpus: load.cpus,
            steps: load.steps,
            length_ns: load.length_ns,
            highest_pct: load.highest_pct,
            method,
            layout,
            // What `status` shows. `slow set` changes a node's speed.
            load: match &node {
                Some(node) => format!("node {}", node.name),
                None => load.name,
            },
            command: (!options.hold.command.is_empty()).then(|| CommandSpec {
                arguments: options.hold.command.clone(),
                user: options.hold.user(),
                kill: options.hold.kill,
                environment: node
                    .as_ref()
                    .map_or_else(Vec::new, |node| node.environment().into_iter().collect()),
                word_on: match options.start_on {
                    Some(StartOn::Descriptor(number)) => Some(number),
                    _ => None,
                },
            }),
            pin,
            node,
            target,
            guardian,
            beside: layers.beside(&registry),
            settle: !options.hold.no_settle,
            start_on: options.start_on,
            start_at,
            timeout_ns: options.hold.timeout.map(nanos),
            supervisor_cpu: options.supervisor_cpu,
        },
        &registry,
        &mut collector,
    );
    warnings.extend(collector.close());
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            if let Some(dir) = &dir {
                dir.discard_if_empty();
            }
            return Err(error.into());
        }
    };
    let mut run = record::record(facts, &outcome, &collector, warnings);
    let parts = layers.end(&outcome);
    // Of a run that was ended before its beginning they held nothing that could be judged.
    if outcome.began_at.is_some() {
        run.add_parts(parts);
    }
    let whole = leave(&run, dir.as_ref(), options, messages);
    let code = code(&run, outcome.end, options.hold.strict);
    Ok(match (code, whole, &run.command) {
        (exit::KEPT, false, None) => exit::FAILED,
        // The code of a command that failed says more.
        (exit::KEPT, false, Some(_)) => exit::OUR_FAILURE,
        _ => code,
    })
}

fn refuse_busy(registry: &Registry, wanted: &CpuList) -> Result<()> {
    for run in registry.runs()?.into_iter().filter(|run| !run.shares) {
        let held: CpuList = run.cpus.parse().unwrap_or_default();
        let cpus: CpuList = wanted.iter().filter(|cpu| held.contains(*cpu)).collect();
        if !cpus.is_empty() {
            return Err(sandbag_run::Error::Busy { pid: run.pid, cpus }.into());
        }
    }
    Ok(())
}

/// Writes run directory, JSON and table. False if what was named could not be written.
fn leave(run: &Run, dir: Option<&RunDir>, options: &RunOptions, messages: &Messages) -> bool {
    // The load was held whether or not the disk is full.
    let written = dir.map(|dir| write::write_run(dir.path(), run));
    if let Some(dir) = dir {
        dir.give();
    }
    messages.show(&terminal::summary_table(run));
    if let Some(began) = run.load_began_s {
        messages.say(&format!("The load began {began:.1} s after CMD."));
    }
    let whole = match (dir, written) {
        (Some(dir), Some(Err(error))) => {
            dir.discard_if_empty();
            dir.excuses(&error, messages)
        }
        (Some(dir), _) => {
            let page = dir.path().join(sandbag_run::directory::REPORT_HTML);
            messages.say(&format!("Report: {}", page.display()));
            true
        }
        (None, _) => true,
    };
    let Some(path) = options.hold.json.path() else {
        return whole;
    };
    match output::put_json(path, run, options.hold.overwrite.existing()) {
        Ok(()) => whole,
        Err(error) => {
            Messages::error(&error.line());
            false
        }
    }
}

fn code(run: &Run, end: RunEnd, strict: bool) -> u8 {
    let verdict = exit::of_verdict(run.verdict);
    if end == RunEnd::TimedOut {
        return exit::TIMED_OUT;
    }
    match &run.command {
        None if end == RunEnd::Interrupted => exit::INTERRUPTED,
        None => verdict,
        Some(command) => match (command.exit_code, command.signal) {
            (Some(0), _) if strict => verdict,
            (None, None) => exit::INTERRUPTED,
            (code, signal) => exit::of_command(code, signal),
        },
    }
}

fn dry_run(
    name: &str,
    length_ns: Option<u64>,
    cpus: &CpuList,
    method: &Method,
    layout: &Layout,
    pin: Option<&CpuList>,
    options: &RunOptions,
) -> Result<u8> {
    let mut out = String::new();
    let length = length_ns.map_or("until it is ended".to_owned(), |ns| {
        format!(
            "for {}",
            humantime::format_duration(std::time::Duration::from_nanos(ns))
        )
    });
    writeln!(out, "would put {} on CPUs {cpus} {length}", visible(name))?;
    writeln!(out, "by {}: {}", method.name, method.about)?;
    writeln!(
        out,
        "with groups in {} ({})",
        layout.hierarchies().cpu.display(),
        layout.kind()
    )?;
    if method.feel == Feel::Competitor {
        writeln!(out, "by each CPU apart, while idle CPUs are kept awake")?;
    }
    if !options.hold.command.is_empty() {
        let command = command_line(&words(&options.hold.command));
        writeln!(out, "beside: {command}")?;
    }
    if let Some(cpus) = pin {
        writeln!(out, "which runs on CPUs {cpus} only")?;
    }
    output::print(out)?;
    Ok(exit::KEPT)
}
