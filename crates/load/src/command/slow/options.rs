// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of one virtual node.

use std::path::PathBuf;
use std::time::Duration;

use crate::method::{self, Method, MethodOptions};
use crate::node::{GroupName, NodeName, Speeds, Target};
use clap::Args;
use sandbag_linux::Root;
use sandbag_ui::failure::Result;

use crate::command::load::held_duration;
use crate::command::run::hold_options::HoldOptions;
use crate::command::run::layers::LayerOptions;
use sandbag_ui::BadInput;
use sandbag_ui::units::{self, Cpus, nanos};

/// The node, how it is slowed, and what it leaves.
#[derive(Debug, Clone, Args)]
pub struct NodeOptions {
    /// The node's CPUs: 0,2-3, or all, even, odd, core (one per core)
    #[arg(short, long, value_name = "LIST", value_parser = units::cpus)]
    pub cpus: Option<Cpus>,

    /// In place of --cpus: a number of whole cores; sandbag chooses and prints them
    #[arg(long, value_name = "N", conflicts_with = "cpus")]
    pub cores: Option<usize>,

    /// Slow this process, which runs already, in place of CMD
    ///
    /// It is moved into the node's group, and back at the end; what it starts meanwhile is
    /// in the node as well. Its limits stay in force where groups are of version 1. The run
    /// ends with it. --cpus is where it may run, by default all CPUs that it may use now.
    /// With the methods that load CPUs (hogs, pace, rt, deadline, quota, shares) all that
    /// runs on those CPUs is slowed; lim stops and continues the process alone, which it
    /// can see.
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,

    /// With --pid: its descendants, too
    #[arg(long, requires = "pid")]
    pub tree: bool,

    /// Slow the processes of this unit of systemd, which runs already, in place of CMD
    ///
    /// As for --pid. On cgroup v2 they stay in the unit: it is confined to the CPUs
    /// (AllowedCPUs) until the end, also if it starts again meanwhile.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["command", "pid"])]
    pub unit: Option<String>,

    /// The same for a container, by name or id: of docker, podman, containerd, nspawn, LXC
    #[arg(long, value_name = "NAME", conflicts_with_all = ["command", "pid", "unit"])]
    pub container: Option<String>,

    /// How long, also where CMD goes on after that, at full speed; without it until CMD or the
    /// process ends, or until Ctrl-C
    #[arg(short, long, value_name = "TIME", conflicts_with = "profile",
          value_parser = held_duration)]
    pub duration: Option<Duration>,

    /// Speed of the CPUs: 0.5, 50%, 1200MHz; or of each 0=1,1=0.8,2-3=0.4
    ///
    /// A share of the full speed, above 0 and at most 1. A frequency is divided
    /// by the highest one of the hardware, with freq and gov by the highest that
    /// they may set. Least: 0.06 with hogs, rt and deadline, 0.005 with pace and
    /// quota, 0.01 with the others; freq reaches the lowest frequency.
    #[arg(short, long, value_name = "SPEED", required_unless_present_any = ["profile", "file"])]
    pub speed: Option<Speeds>,

    /// Speed over time: a profile whose values are percent of full speed
    ///
    /// Of exactly the node's CPUs. After its end the last speeds hold.
    #[arg(long, value_name = "FILE", conflicts_with = "speed")]
    pub profile: Option<PathBuf>,

    /// Begin at this time (RFC 3339, or @ and seconds since 1970), as `sandbag load --at`
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,

    /// The node's name, for `slow exec`, `set` and `stop` [default: node-<pid>]
    #[arg(long, value_name = "NAME")]
    pub name: Option<NodeName>,

    /// How the CPUs are slowed
    ///
    /// hogs: a real-time task per CPU, all at the same time. pace: the same with
    /// ordinary tasks. deadline, rt, quota, shares: other burners, for
    /// comparison. lim: stops and continues processes. freq, gov: hardware
    /// frequencies. cap: a limit on the CPU time of the node, as containers
    /// have it. docs/explanation/nodes.md says what each does to programs.
    #[arg(long, value_name = "NAME", default_value = method::SLOWING[0],
          value_parser = clap::builder::PossibleValuesParser::new(method::SLOWING))]
    pub method: String,

    /// Period of the method [default: the method's own, 10 ms with hogs, longer
    /// below half of the speed]
    ///
    /// At least 1 ms, and it must divide 100 ms; with quota up to 1 s. shares,
    /// lim and freq have none. Without it hogs take 10, 20, 50 or 100 ms, the
    /// shortest in which programs have 5 ms in one piece at the node's lowest
    /// speed: shorter pieces are mostly lost to cold caches.
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub period: Option<Duration>,

    /// What else holds on its CPUs.
    #[command(flatten)]
    pub layers: LayerOptions,

    #[command(flatten)]
    pub constants: MethodOptions,

    #[command(flatten)]
    pub hold: HoldOptions,
}

impl NodeOptions {
    /// The program that runs already, if one is to be slowed.
    pub fn target(&self, root: &Root) -> Result<Option<Target>> {
        let unit = self.unit.clone().map(GroupName::Unit);
        let group = unit.or_else(|| self.container.clone().map(GroupName::Container));
        Ok(match (self.pid, group) {
            (Some(pid), _) => Some(Target::process(root, pid, self.tree)?),
            (None, Some(group)) => Some(Target::group(root, &group)?),
            (None, None) => None,
        })
    }

    /// The method with its options, for a node slowed by at most this level.
    pub fn method(&self, level: f64) -> Result<Method> {
        let mut options = self.constants;
        // As published, the barrier keeps its own.
        let by_clock =
            self.method == "hogs" && options.hogs.hog_sync != Some(method::Sync::Barrier);
        let own = by_clock.then(|| method::period_for(level));
        options.period_ns = self.period.map(nanos).or(own);
        options.in_phase = true;
        method::with_options(&self.method, &options)
            .map_err(|reason| BadInput(format!("--method: {reason}")).into())
    }
}
