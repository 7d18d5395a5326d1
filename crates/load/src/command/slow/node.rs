// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One node: its place, its speeds, its supervisor.

use crate::method::{Feel, Method, Scope, by_name};
use crate::node::place::{Claim, PlacedCourse, PlacedNode, place};
use crate::node::plan::{self, AtEnd};
use crate::node::socket::{Directory, Server, list};
use crate::node::spec::Origin;
use crate::node::{Cpus, Domains, NodeCourse, NodeMachine, NodeSpec, Ratios, Target, environment};
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root};
use sandbag_profile::ReadOptions;
use sandbag_run::guardian;
use sandbag_run::layout::Layout;
use sandbag_run::registry::Registry;
use sandbag_ui::failure::{Context as _, Result};

use super::options::NodeOptions;
use crate::command::run::layers::{self, LayerPlan};
use crate::command::run::options::RunOptions;
use crate::command::run::{self, PlannedNode, RunLoad};
use crate::supervisor::NodeControl;
use sandbag_run::program;
use sandbag_ui::BadInput;
use sandbag_ui::messages::Messages;
use sandbag_ui::units::{ASK_LIMIT, nanos};
use std::time::Duration;

pub fn main(options: &NodeOptions, messages: &Messages) -> Result<u8> {
    program::check(&options.hold.command)?;
    run::record_failure(&as_run(options), messages, |run_options| {
        make(options, run_options, messages)
    })
}

fn make(options: &NodeOptions, run_options: &RunOptions, messages: &Messages) -> Result<u8> {
    let start_at = run_options.start_at()?;
    refuse_nesting()?;
    let registry = Registry::open()?;
    // The frequencies of a dead run would be taken for those of the machine.
    let undone = if options.hold.dry_run {
        Vec::new()
    } else {
        registry.restore()?
    };
    let CheckedNode {
        method,
        placed,
        mut planned,
        machine,
        target,
        layers,
    } = check(options, &registry)?;
    let undone = undone.iter().map(ToString::to_string);
    planned.load.warnings.extend(undone);
    if let Some(why) = &placed.why {
        messages.say(why);
    }
    // A dry run takes no name.
    let control = if options.hold.dry_run {
        None
    } else {
        let name = placed.spec.name.clone();
        let guardian = guardian::start(&registry.own_journal())?;
        let server = Server::bind(&Directory::in_registry(registry.dir()), &name)?;
        let control = NodeControl::new(server, name, &method, planned.first, machine);
        Some(PlannedNode {
            control,
            target,
            guardian,
            layers,
        })
    };
    run::run_by(
        planned.load,
        method,
        control,
        start_at,
        run_options,
        messages,
    )
}

/// A node that can be made here.
pub struct CheckedNode {
    method: Method,
    placed: PlacedNode,
    planned: NodeLoad,
    machine: NodeMachine,
    target: Option<Target>,
    layers: Vec<LayerPlan>,
}

/// Everything that can be wrong with a node, asked before anything is changed.
pub fn check(options: &NodeOptions, registry: &Registry) -> Result<CheckedNode> {
    let root = Root::default();
    // Faults of its options come before all others.
    options.method(0.0)?;
    let machine = NodeMachine::read(&root)?;
    let target = options.target(&root)?;
    let spec = spec(options, target.as_ref())?;
    let placed = place(vec![spec], &machine, &claims(registry)?, |_| {
        domains(&options.method, options.constants.frequencies.split_domains)
    })?
    .pop()
    .context("a node has a place")?;
    let mut planned = NodeLoad::of(&placed, options.duration, target.as_ref())?;
    let asked = planned.load.highest_pct / 100.0;
    let mut method = options.method(asked)?;
    method.fit_to(&root, &placed.cpus)?;
    let layout = Layout::find(&root, options.hold.cgroup.as_deref())?;
    run::check_layout(&method, &layout)?;
    layout.check_node()?;
    let most = method.serves(1.0);
    // Also for the frequency that is the nearest: none is near below the
    // lowest.
    if most < asked - 1e-9 {
        return Err(sandbag_run::Error::NotPossible {
            what: format!(
                "{} slows a CPU to {:.3} of its speed at most, and {:.3} was asked",
                method.name,
                1.0 - most,
                1.0 - asked
            ),
            remedy: slower(&options.method, asked).into(),
        }
        .into());
    }
    if let (Some(target), Scope::Node) = (&target, method.scope)
        && target.in_place().is_some()
    {
        let name = method.name;
        return Err(sandbag_run::Error::NotPossible {
            what: format!(
                "{name} acts on a group of sandbag's own, and {target} stays in that which it has"
            ),
            remedy: "use --method hogs or pace".into(),
        }
        .into());
    }
    if planned.unequal && method.scope == Scope::Node {
        return Err(sandbag_run::Error::NotPossible {
            what: format!(
                "{} acts on the node as a whole, and its CPUs are to have different speeds",
                method.name
            ),
            remedy: "use --method hogs or pace, or a node for each speed".into(),
        }
        .into());
    }
    let cgroup = options.hold.cgroup.as_deref();
    let layers = layers::plan(&options.layers, &method, &planned.first, cgroup)?;
    for layer in &layers {
        planned.load.name += &format!(", {}", layer.asked());
    }
    Ok(CheckedNode {
        layers,
        method,
        placed,
        planned,
        machine,
        target,
    })
}

/// What helps where a method does not take `level` (0 to 1) of a CPU.
fn slower(method: &str, level: f64) -> &'static str {
    let serves = |name| by_name(name).is_some_and(|other| other.serves(1.0) >= level - 1e-9);
    match method {
        // Its own period is the longest.
        "cap" if serves("cap") => "ask for more, or take a longer --period, up to 100ms",
        _ if serves("cap") => "ask for more, or use --method pace, gov or cap",
        _ if serves("pace") => "ask for more, or use --method pace",
        _ => "ask for more",
    }
}

/// A program that is slowed already would be slowed twice.
pub fn refuse_nesting() -> Result<()> {
    match environment::node_of(|name| std::env::var(name).ok()) {
        Some(name) => Err(BadInput(format!(
            "this runs inside the virtual node {name} already; nodes are not nested"
        ))
        .into()),
        None => Ok(()),
    }
}

fn spec(options: &NodeOptions, target: Option<&Target>) -> Result<NodeSpec> {
    let default = || format!("node-{}", std::process::id()).parse();
    let root = Root::default();
    let of_target = target.map(|target| target.cpus(&root)).transpose()?;
    Ok(NodeSpec {
        name: options.name.clone().map_or_else(default, Ok)?,
        cpus: match (&options.cpus, options.cores, of_target) {
            (Some(cpus), _, _) => Cpus::List(cpus.some(&Topology::read(&root)?, "--cpus")?),
            (None, None, Some(cpus)) => Cpus::List(cpus),
            (None, cores, _) => Cpus::Cores(cores.unwrap_or(1)),
        },
        course: match (&options.speed, &options.profile) {
            (Some(speeds), _) => NodeCourse::Constant(speeds.clone()),
            (None, profile) => NodeCourse::Profile(profile.clone().unwrap_or_default()),
        },
        method: Some(options.method.clone()),
        options: Default::default(),
        commands: Vec::new(),
        env: Default::default(),
        cwd: None,
        origin: Origin::default(),
    })
}

/// Whether a method can live with a frequency domain that is split.
pub fn domains(method: &str, split: bool) -> Domains {
    match method {
        "freq" | "gov" if !split => Domains::Whole,
        _ => Domains::MaySplit,
    }
}

pub fn claims(registry: &Registry) -> Result<Vec<Claim>> {
    let mut all = Vec::new();
    let nodes = list(&Directory::in_registry(registry.dir()), ASK_LIMIT)?;
    let mut known = Vec::new();
    for node in nodes {
        if let Ok(status) = node.status {
            known.push(status.pid);
            all.push(Claim {
                pid: status.pid,
                of: format!("node {}", status.name),
                cpus: status.cpus.parse()?,
            });
        }
    }
    for run in registry.runs()? {
        // Jitter is injected beside anything.
        if known.contains(&run.pid) || run.shares || run.cpus.is_empty() {
            continue;
        }
        all.push(Claim {
            pid: run.pid,
            of: run.load,
            cpus: run.cpus.parse()?,
        });
    }
    Ok(all)
}

/// A node's speeds as the load of a run.
struct NodeLoad {
    load: RunLoad,
    first: Ratios,
    /// Its CPUs differ in speed, at some time.
    unequal: bool,
}

impl NodeLoad {
    /// `length` is that of constant speeds.
    fn of(placed: &PlacedNode, length: Option<Duration>, target: Option<&Target>) -> Result<Self> {
        let cpus: Vec<u32> = placed.cpus.iter().collect();
        let length_ns = length.map(nanos);
        let name = match target {
            None => placed.spec.name.to_string(),
            Some(target) => format!("{}, {target}", placed.spec.name),
        };
        match &placed.course {
            PlacedCourse::Constant(ratios) => Ok(Self {
                load: RunLoad {
                    steps: plan::constant(ratios, length_ns),
                    cpus,
                    length_ns,
                    highest_pct: highest(&ratios.loads_pct()),
                    name: format!("node {name}, speed {ratios}"),
                    warnings: Vec::new(),
                },
                first: ratios.clone(),
                unequal: !ratios.are_equal(),
            }),
            PlacedCourse::Profile(path) => {
                let source = sandbag_profile::command::reshape::source(path)?;
                let open = |at_end| -> Result<_> {
                    let speeds = source.open(None, &ReadOptions::default())?;
                    Ok(plan::slow_steps(speeds, at_end))
                };
                let summary = sandbag_profile::summarise(&mut *open(AtEnd::End)?)?;
                let of: CpuList = summary.cpus.iter().map(|cpu| cpu.cpu).collect();
                if of != placed.cpus {
                    return Err(BadInput(format!(
                        "{}: a profile of CPUs {of} cannot be the speed of CPUs {}",
                        path.display(),
                        placed.cpus
                    ))
                    .into());
                }
                let loads = summary.cpus.iter().filter_map(|cpu| cpu.max_load_pct);
                let highest_pct = loads.fold(0.0, f64::max);
                let (mut unequal, mut first) = (false, None);
                let mut steps = open(AtEnd::End)?;
                while let Some(step) = steps.next_step()? {
                    unequal |= step.cells.windows(2).any(|two| two[0] != two[1]);
                    first.get_or_insert(step.cells);
                }
                let first = cpus
                    .iter()
                    .zip(first.unwrap_or_default())
                    .filter_map(|(cpu, cell)| Some((*cpu, 1.0 - cell?.load_pct / 100.0)));
                Ok(Self {
                    first: Ratios::new(first.collect()),
                    unequal,
                    load: RunLoad {
                        steps: open(AtEnd::Hold)?,
                        cpus,
                        length_ns: None,
                        highest_pct,
                        name: format!("node {name}, speed by {}", source.name()),
                        warnings: summary.warnings.clone(),
                    },
                })
            }
        }
    }
}

fn highest(loads: &[f64]) -> f64 {
    loads.iter().copied().fold(0.0, f64::max)
}

fn as_run(options: &NodeOptions) -> RunOptions {
    RunOptions {
        method: options.method.clone(),
        period: options.period,
        pace: options.constants.pace,
        shares: options.constants.shares,
        feel: Feel::Steady,
        windows: None,
        at: options.at.clone(),
        start_on: None,
        pin: None,
        supervisor_cpu: None,
        beside: None,
        progress: false,
        hold: options.hold.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_as_far_is_advised() {
        for (method, speed, more) in [
            ("cap", 0.1, ", or take a longer --period, up to 100ms"),
            ("cap", 0.007, ", or use --method pace"),
            ("cap", 0.001, ""),
            ("hogs", 0.05, ", or use --method pace, gov or cap"),
            ("hogs", 0.01, ", or use --method pace, gov or cap"),
            ("gov", 0.007, ", or use --method pace"),
            ("pace", 0.001, ""),
        ] {
            let advice = format!("ask for more{more}");
            assert_eq!(slower(method, 1.0 - speed), advice, "{method} {speed}");
        }
    }
}
