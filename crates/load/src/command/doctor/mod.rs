// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag doctor`: what this machine can do, by trying it.

mod check;
mod classes;
mod facts;
mod frequencies;
mod judge;
mod methods;
mod node;
mod probes;
mod runs;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::method::{NAMES, SLOWING};
use crate::probe::ProbeBench;
use clap::Args;
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root, container, sched};
use sandbag_run::layout::{Layout, LayoutKind};
use sandbag_run::registry::Registry;
use sandbag_ui::failure::Result;
use serde::Serialize;

use sandbag_ui::exit;
use sandbag_ui::output::{JsonArgs, Overwrite};

use check::{Check, CheckState};
use methods::{Ground, MethodVerdict};
use probes::ProbeFindings;

/// Say what this machine can do, per method, by trying it for a few seconds
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    overwrite: Overwrite,

    /// Try with groups in this cgroup, which was delegated to us
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
}

/// Version of the JSON document; readers ignore fields they do not know.
const FORMAT: u32 = 1;

/// Nothing is tried again after this: all shall take less than 4 s.
const RETRY_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize)]
struct DoctorReport {
    format: u32,
    sandbag: &'static str,
    default_method: &'static str,
    /// It works here; `None` if it could not be tried.
    works: Option<bool>,
    default_node_method: &'static str,
    works_for_nodes: Option<bool>,
    methods: Vec<MethodVerdict>,
    probes: Vec<Check>,
    machine: Vec<Check>,
}

pub fn main(args: &DoctorArgs) -> Result<u8> {
    args.json.check(args.overwrite)?;
    let root = Root::default();
    let topology = Topology::read(&root)?;
    let layout = Layout::find(&root, args.cgroup.as_deref());
    let registry = Registry::open();
    let report = report(&root, &topology, layout, registry);
    let existing = args.overwrite.existing();
    args.json.put_or(&report, || Ok(text(&report)), existing)?;
    Ok(match report.works {
        Some(true) => exit::KEPT,
        Some(false) => exit::NOT_POSSIBLE,
        None => exit::UNDECIDED,
    })
}

fn report(
    root: &Root,
    topology: &Topology,
    layout: sandbag_run::Result<Layout>,
    registry: sandbag_run::Result<Registry>,
) -> DoctorReport {
    let mut found = ProbeFindings {
        retry_until: Some(Instant::now() + RETRY_WITHIN),
        ..ProbeFindings::default()
    };
    let mut machine = vec![facts::groups(&layout)];
    let alive = registry
        .as_ref()
        .ok()
        .and_then(|registry| registry.runs().ok())
        .unwrap_or_default();
    match &registry {
        Ok(registry) => {
            machine.push(runs::alive(&alive));
            machine.push(runs::left(registry, layout.as_ref().ok(), &alive));
        }
        Err(error) => machine.push(
            Check::no("runs", error.to_string())
                .remedy("journals go to /run/sandbag, or to $XDG_RUNTIME_DIR for ordinary users"),
        ),
    }
    if let (Ok(layout), Ok(registry)) = (&layout, &registry) {
        let ours = own_cpus(topology, layout);
        match free_cpu(&ours, &alive) {
            Some(cpu) => {
                let mut bench = ProbeBench::new(root, layout, registry, cpu);
                found.with_groups(&mut bench);
                found.classes(&mut bench, root);
                found.node(&mut bench, other_cpu(&ours, cpu));
            }
            None if ours.is_empty() => found.checks.push(
                Check::new(
                    "weights",
                    CheckState::Untried,
                    "our affinity has no CPU of those that groups may use here",
                )
                .remedy("start it on one of those (taskset), or widen the cpuset"),
            ),
            None => found.checks.push(
                Check::new(
                    "weights",
                    CheckState::Untried,
                    "runs hold all CPUs we may use",
                )
                .remedy("wait for them, or end them (sandbag stop)"),
            ),
        }
    }
    found.without_groups();
    if !found.left.is_empty() {
        machine.push(
            Check::no("cleaning up", found.left.join("; ")).remedy("sandbag restore tries again"),
        );
    }
    let version = layout.as_ref().ok().map(Layout::version);
    machine.push(facts::real_time(root, version, found.rt_runtime_us));
    machine.push(task_clock(&found, container::hypervisor(root).is_some()));
    let (frequency, frequencies) = frequencies::look(root, topology);
    let of_tree = layout.as_ref().ok();
    let facts = facts::all(root, topology, of_tree, frequency, found.steal_ns);
    machine.extend(facts);
    // Groups that cannot be made, no place for a journal, or a refusal when it was tried: no
    // program could be taken.
    let no_journal = machine.get(1).filter(|_| registry.is_err());
    let tried = found.checks.iter();
    let mut tried = tried.filter(|check| check.name == "weights" && found.weights.is_none());
    let no_groups = [machine.first(), no_journal, tried.next()];
    let no_groups = no_groups.into_iter().flatten();
    let no_groups = no_groups.filter(|check| check.state == CheckState::No);
    let why = |check: &Check| (check.why.clone(), check.remedy.clone().unwrap_or_default());
    let no_groups = no_groups.map(why).next();
    let methods = methods::all(
        &found,
        Ground {
            no_groups: no_groups
                .as_ref()
                .map(|(why, remedy)| (why.as_str(), remedy.as_str())),
            by_systemd: layout
                .as_ref()
                .is_ok_and(|layout| layout.kind() == LayoutKind::V2Systemd),
            cpus: topology.online.len(),
            virtual_machine: container::hypervisor(root).is_some(),
            real_time_limit: facts::real_time_limit(root),
            frequencies: &frequencies,
        },
    );
    let works = |name| {
        let verdict = methods.iter().find(|verdict| verdict.check.name == name);
        works(verdict.map_or(CheckState::Untried, |verdict| verdict.check.state))
    };
    DoctorReport {
        format: FORMAT,
        sandbag: env!("CARGO_PKG_VERSION"),
        default_method: NAMES[0],
        works: works(NAMES[0]),
        default_node_method: SLOWING[0],
        works_for_nodes: match found.no_node {
            Some(_) => Some(false),
            None => works(SLOWING[0]),
        },
        methods,
        probes: found.checks,
        machine,
    }
}

fn works(state: CheckState) -> Option<bool> {
    match state {
        CheckState::Ok | CheckState::Warn => Some(true),
        CheckState::No => Some(false),
        CheckState::Untried => None,
    }
}

/// The CPUs that we may use, and groups that we make.
fn own_cpus(topology: &Topology, layout: &Layout) -> CpuList {
    let ours = sched::affinity(0).unwrap_or_else(|_| topology.online.clone());
    let usable = layout.usable(topology);
    topology.online.intersection(&ours).intersection(&usable)
}

/// Another of our CPUs; whether a run holds it does not matter.
fn other_cpu(ours: &CpuList, cpu: u32) -> Option<u32> {
    ours.iter().find(|other| *other != cpu)
}

/// One of our CPUs that no run holds; the highest, since interrupts and much else go to the
/// lowest.
fn free_cpu(ours: &CpuList, runs: &[sandbag_run::journal::RunInfo]) -> Option<u32> {
    let held: CpuList = runs
        .iter()
        .filter_map(|run| run.cpus.parse::<CpuList>().ok())
        .flat_map(|cpus| cpus.iter().collect::<Vec<_>>())
        .collect();
    ours.without(&held).iter().next_back()
}

fn task_clock(found: &ProbeFindings, virtual_machine: bool) -> Check {
    let name = "task clock";
    match found.excludes_steal {
        Some(true) => Check::ok(name, "leaves out what the hypervisor stole"),
        Some(false) => Check::warn(name, "counts what the hypervisor stole as the task's own")
            .remedy("CPU times under steal are too large: trust ratios of interleaved runs only"),
        None if virtual_machine => Check::ok(
            name,
            "whether it leaves out steal cannot be told: too little was stolen meanwhile",
        ),
        None => Check::ok(name, "there is no hypervisor that steals"),
    }
}

fn text(report: &DoctorReport) -> String {
    let said = |works| match works {
        Some(true) => "works here",
        Some(false) => "does not work here",
        None => "could not be tried",
    };
    [
        methods::table(&report.methods),
        check::table("Tried", &report.probes),
        check::table("Machine", &report.machine),
        format!(
            "The default method for loads, {}, {}. That for nodes, {}, {}.\n",
            report.default_method,
            said(report.works),
            report.default_node_method,
            said(report.works_for_nodes)
        ),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_user_gets_the_facts_and_what_needs_root() {
        let dir = tempfile::tempdir().unwrap();
        let cpu = dir.path().join("sys/devices/system/cpu");
        std::fs::create_dir_all(&cpu).unwrap();
        std::fs::write(cpu.join("online"), "0-1\n").unwrap();
        let root = Root::at(dir.path());
        let topology = Topology::read(&root).unwrap();
        let refused = || sandbag_run::Error::NotPossible {
            what: "no permission to make groups".into(),
            remedy: "run as root".into(),
        };
        let registry = Registry::at(dir.path().join("r"));
        let report = report(&root, &topology, Err(refused()), registry);
        assert_eq!(report.works, Some(false));
        assert_eq!(report.works_for_nodes, Some(false));
        assert!(!report.methods.is_empty());
        assert!(
            report
                .methods
                .iter()
                .all(|v| v.check.state == CheckState::No)
        );
        assert!(report.machine.iter().any(|c| c.name == "smt"));
        let names: Vec<_> = report.probes.iter().map(|c| c.name).collect();
        assert_eq!(names, ["slice", "timers"]);
        let text = text(&report);
        assert!(text.contains("-> run as root") && text.contains("does not work here"));
    }

    #[test]
    fn a_cpu_outside_of_the_cpuset_is_not_tried() {
        let affinity = sched::affinity(0).unwrap();
        let lowest = affinity.iter().next().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: String| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let tree = "sys/fs/cgroup";
        let mount = "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        put("proc/self/mountinfo", mount.to_owned());
        put("proc/self/cgroup", "0::/\n".to_owned());
        put("sys/devices/system/cpu/online", format!("{affinity}\n"));
        put(&format!("{tree}/cgroup.controllers"), "cpu\n".to_owned());
        put(
            &format!("{tree}/mine/cgroup.controllers"),
            "cpu\n".to_owned(),
        );
        put(
            &format!("{tree}/mine/cpuset.cpus.effective"),
            format!("{lowest}\n"),
        );
        let root = Root::at(dir.path());
        let topology = Topology::read(&root).unwrap();
        let of = |group: &str| {
            let group = dir.path().join(tree).join(group);
            let layout = Layout::find(&root, Some(&group)).unwrap();
            own_cpus(&topology, &layout)
        };
        assert_eq!(of("."), affinity);
        let ours = of("mine");
        assert_eq!(free_cpu(&ours, &[]), Some(lowest));
        assert_eq!(other_cpu(&ours, lowest), None);
    }

    #[test]
    fn steal_that_could_not_be_seen_is_not_judged() {
        let unknown = task_clock(&ProbeFindings::default(), true);
        assert!(unknown.why.contains("cannot be told"));
        let counted = ProbeFindings {
            excludes_steal: Some(false),
            ..ProbeFindings::default()
        };
        assert_eq!(task_clock(&counted, true).state, CheckState::Warn);
    }
}
