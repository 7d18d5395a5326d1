// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a virtual node, or a load, answers over its socket while the run goes on.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use sandbag_linux::{CpuList, clock};

use super::SupervisedRun;
use super::cpu::LoadedCpu;
use super::feed::Feed;
use super::node::SupervisedNode;
use super::timeline::{self, LoadPiece};
use crate::method::{Method, Scope};
use crate::node::protocol::{CpuSpeed, Reply, Request, Status};
use crate::node::socket::{Directory, Server, SocketError};
use crate::node::{NodeMachine, NodeName, Ratios, Speeds, environment};
use crate::pacing::LONGEST_NS;
use crate::report::run::LOAD_SET;
use sandbag_run::error::Result;
use sandbag_ui::units::{self, Loads};

/// The socket of a node, and what its answers are made of.
pub struct NodeControl {
    pub name: NodeName,
    server: Server,
    method: &'static str,
    speeds: Ratios,
    machine: NodeMachine,
    /// Slowest speed that the method reaches.
    slowest: f64,
    /// The method gives all CPUs one speed.
    together: bool,
}

impl NodeControl {
    pub fn new(
        server: Server,
        name: NodeName,
        method: &Method,
        speeds: Ratios,
        machine: NodeMachine,
    ) -> Self {
        Self {
            name,
            server,
            method: method.name,
            speeds,
            machine,
            slowest: 1.0 - method.serves(1.0),
            together: method.scope == Scope::Node,
        }
    }

    /// Variables for programs that start in the node now.
    pub fn environment(&self) -> BTreeMap<String, String> {
        environment::variables(&self.name, &self.speeds)
    }

    /// Becomes readable when there is something to serve.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.server.as_fd()
    }

    /// Serves what is there, without waiting. Whether the node is to end.
    pub(super) fn serve(&mut self, run: &mut SupervisedRun<'_>, feed: &mut Feed) -> bool {
        let error = |message: String| Reply::Error { message };
        let mut stop = false;
        let Self {
            name,
            server,
            method,
            speeds,
            machine,
            slowest,
            together,
        } = self;
        let limits = (&*machine, *method, *slowest, *together);
        server.turn(&mut |peer, request| match request {
            Request::Status => status((name, method), speeds.cpus(), run.speeds(), run.members()),
            Request::Set { .. } | Request::Admit { .. } if run.load_ended_ns.is_some() => {
                error("its time (-d) is over: its CPUs are at full speed".to_owned())
            }
            Request::Set { speeds: text } => {
                let set = resolve(text, speeds, limits).and_then(|new| {
                    run.beside.set_speeds(&new)?;
                    let set = run.set_levels(feed, &new.loads_pct());
                    set.map(|()| new).map_err(|error| {
                        // It is reported, and the loads are those of the speeds that stay.
                        let _ = run.beside.set_speeds(speeds);
                        error.to_string()
                    })
                });
                match set {
                    Err(message) => error(message),
                    Ok(new) => {
                        *speeds = new;
                        let speeds = speeds.to_string();
                        Reply::Set { speeds }
                    }
                }
            }
            Request::Load { .. } => error("a node has speeds: sandbag set --speed".to_owned()),
            // A process joins by itself: none can move another one.
            Request::Admit { pid } if peer.pid.unsigned_abs() != *pid => error(format!(
                "process {} asked for process {pid}, not for itself",
                peer.pid
            )),
            Request::Admit { pid } => match run.enter_node(*pid) {
                Err(cause) => error(cause.to_string()),
                Ok(()) => Reply::Admitted {
                    environment: environment::variables(name, &run.asked_speeds()),
                },
            },
            Request::Stop => {
                stop = true;
                Reply::Stopping
            }
        });
        stop
    }

    /// The same before the run begins, with those that are inside.
    fn serve_early(&mut self, members: &[u32]) -> bool {
        let mut stop = false;
        let Self {
            name,
            server,
            method,
            speeds,
            ..
        } = self;
        server.turn(&mut |_, request| match request {
            Request::Status => {
                let asked = |(cpu, asked)| CpuSpeed {
                    cpu,
                    asked,
                    got: None,
                };
                let now = speeds.iter().map(asked).collect();
                status((name, method), speeds.cpus(), now, members.to_vec())
            }
            Request::Stop => {
                stop = true;
                Reply::Stopping
            }
            _ => not_begun(),
        });
        stop
    }
}

fn status(
    (name, method): (&NodeName, &str),
    cpus: CpuList,
    speeds: Vec<CpuSpeed>,
    members: Vec<u32>,
) -> Reply {
    Reply::Status(Status {
        name: name.to_string(),
        pid: std::process::id(),
        cpus: cpus.to_string(),
        speeds,
        method: method.to_owned(),
        members,
    })
}

/// To what cannot be done before the run begins.
fn not_begun() -> Reply {
    Reply::Error {
        message: "it has not begun: it waits for its beginning (--at, --start-on)".to_owned(),
    }
}

fn resolve(
    text: &str,
    now: &Ratios,
    (machine, method, slowest, together): (&NodeMachine, &str, f64, bool),
) -> std::result::Result<Ratios, String> {
    let speeds: Speeds = text
        .parse()
        .map_err(|e: crate::node::BadSpeed| e.to_string())?;
    let new = speeds
        .resolve(&now.cpus(), |cpu| machine.full_khz(method, cpu))
        .map_err(|e| e.to_string())?;
    if together && !new.are_equal() {
        return Err("the node's method gives all its CPUs one speed".to_owned());
    }
    match new.values().into_iter().find(|mu| *mu < slowest - 1e-9) {
        Some(mu) => Err(format!(
            "the node's method slows to {slowest:.3} at most, and {mu} was asked"
        )),
        None => Ok(new),
    }
}

/// The socket of a load.
pub(super) struct LoadControl {
    server: Server,
    /// The run proper goes on, or its beginning is far: else requests wait.
    pub serving: bool,
}

impl LoadControl {
    /// Listens under the process id of this process.
    pub fn bind(registry: &Path) -> std::result::Result<Self, SocketError> {
        let directory = Directory::of_loads(registry);
        // Digits are a name.
        let server = match std::process::id().to_string().parse() {
            Ok(name) => Server::bind(&directory, &name)?,
            Err(bad) => unreachable!("{bad}"),
        };
        Ok(Self {
            server,
            serving: false,
        })
    }

    /// Becomes readable when there is something to serve.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.serving.then(|| self.server.as_fd())
    }

    fn serve_early(&mut self) {
        self.server.turn(&mut |_, _| not_begun());
    }

    fn serve(&mut self, run: &mut SupervisedRun<'_>, feed: &mut Feed) {
        self.server.turn(&mut |_, request| {
            let set = match request {
                Request::Load { loads } => run.set_loads(feed, loads),
                _ => Err("a load has no speed and no node: sandbag set --load".to_owned()),
            };
            match set {
                Ok(loads) => Reply::Load { loads },
                Err(message) => Reply::Error { message },
            }
        });
    }
}

/// For how long a burner that owes nothing does not look at its orders, and what giving all
/// of them theirs may take.
const LEAD_NS: u64 = LONGEST_NS + 1_000_000;
/// What the first order of a burner that was just started may take.
const BEGIN_NS: u64 = 200_000_000;
/// Pieces that are asked until something else is.
const FOR_GOOD_NS: u64 = u64::MAX / 4;

impl SupervisedRun<'_> {
    /// Whether requests end a wait, as they are served after it.
    pub(super) fn listen(&mut self, on: bool) {
        if let Some(node) = &mut self.node {
            node.serving = on;
        }
        if let Some(control) = &mut self.load_control {
            control.serving = on;
        }
    }

    /// Serves the socket while the run waits for its beginning. Whether a node is to end.
    pub(super) fn serve_early(&mut self) -> bool {
        if let Some(control) = &mut self.load_control {
            control.serve_early();
        }
        let members = self.members();
        let node = self.node.as_mut().and_then(SupervisedNode::control);
        node.is_some_and(|control| control.serve_early(&members))
    }

    /// Serves the socket of a load.
    pub(super) fn serve_load(&mut self, feed: &mut Feed) {
        if let Some(mut control) = self.load_control.take() {
            control.serve(self, feed);
            self.load_control = Some(control);
        }
    }

    /// Other loads from now on, as on the command line; what is asked then, or why not.
    fn set_loads(&mut self, feed: &mut Feed, text: &str) -> std::result::Result<String, String> {
        let loads = units::loads(text)?;
        if self.load_ended_ns.is_some() {
            return Err("its profile has ended".to_owned());
        }
        let cpus: Vec<u32> = self.cpus.iter().map(super::LoadedCpu::number).collect();
        let mut percent: Vec<f64> = (0..cpus.len()).map(|n| self.asked_now(n)).collect();
        match &loads {
            Loads::All(pct) => percent.fill(*pct),
            Loads::PerCpu(each) => {
                for (cpu, pct) in each
                    .iter()
                    .flat_map(|(cpus, pct)| cpus.iter().map(|c| (c, *pct)))
                {
                    let at = cpus.iter().position(|one| *one == cpu);
                    let at = at.ok_or_else(|| format!("CPU {cpu} is not loaded by this run"))?;
                    percent[at] = pct;
                }
            }
        }
        // Of what is named now: the profile may have more for the others, which get what can be.
        let asked = match &loads {
            Loads::All(pct) => *pct,
            Loads::PerCpu(each) => each.iter().map(|(_, pct)| *pct).fold(0.0, f64::max),
        };
        let name = self.method.name;
        let most = self.method.serves(asked / 100.0) * 100.0;
        if most < asked - 1e-9 {
            return Err(format!("{name} reaches {most} % at most"));
        }
        self.set_levels(feed, &percent)
            .map_err(|error| error.to_string())?;
        let at_s = self.clock.run_ns(clock::monotonic()) as f64 / 1e9;
        self.observer
            .warning(format!("{LOAD_SET}{at_s:.1} s: load {loads} from then on"));
        Ok(loads.to_string())
    }

    /// The load, percent, that is asked now of a CPU by its place in the plan.
    fn asked_now(&self, n: usize) -> f64 {
        // What was set a moment ago is as good as in force.
        let now = self.clock.run_ns(clock::monotonic()).max(self.set_ns);
        let in_force = |p: &&LoadPiece| p.start_ns <= now && now < p.end_ns;
        let piece = self.ahead.iter().find(in_force).or(self.ahead.front());
        piece
            .and_then(|p| p.asked_pct.get(n))
            .copied()
            .unwrap_or(0.0)
    }

    /// The speeds that are asked now.
    fn asked_speeds(&self) -> Ratios {
        let mu = |(n, cpu): (usize, &LoadedCpu)| (cpu.number(), 1.0 - self.asked_now(n) / 100.0);
        Ratios::new(self.cpus.iter().enumerate().map(mu).collect())
    }

    /// The speed of every CPU, in the order of the plan: as asked now, and as measured over
    /// the last whole second; after the time of -d, which is measured no more, as asked alone.
    fn speeds(&self) -> Vec<CpuSpeed> {
        let got = |n: usize| {
            if self.load_ended_ns.is_some() {
                return None;
            }
            let window = self.meter.latest(n)?;
            let delivered = window.length_ns.saturating_sub(window.steal_ns);
            (delivered > 0).then(|| 1.0 - window.burner_ns as f64 / delivered as f64)
        };
        let cpus = self.cpus.iter().enumerate();
        cpus.map(|(n, cpu)| CpuSpeed {
            cpu: cpu.number(),
            asked: 1.0 - self.asked_now(n) / 100.0,
            got: got(n),
        })
        .collect()
    }

    /// From the next period on these loads, percent, in the order of the
    /// plan; what the profile had for later is forgotten.
    fn set_levels(&mut self, feed: &mut Feed, percent: &[f64]) -> Result<()> {
        let common = self.common();
        // Burners of CPUs that had none first, and what they need to begin.
        let burners = |run: &Self| {
            run.cpus
                .iter()
                .map(super::LoadedCpu::burners)
                .sum::<usize>()
        };
        let before = burners(self);
        for (cpu, pct) in self.cpus.iter_mut().zip(percent) {
            let level = self.method.serves(pct / 100.0).max(cpu.level());
            cpu.make_room(&common, &mut self.journal, level)?;
        }
        let lead_ns = if burners(self) > before {
            BEGIN_NS
        } else {
            LEAD_NS
        };
        // A grid point that no burner has passed when the last of them has its
        // order, so that all CPUs change in the same period.
        let period_ns = self.method.duty.period_ns().max(1);
        let from_ns = (clock::monotonic() + lead_ns).next_multiple_of(period_ns);
        let run_ns = self.clock.run_ns(from_ns);
        feed.hold_open(self.length_ns);
        self.profile_end_ns = feed.end_ns();
        let piece = LoadPiece {
            start_ns: run_ns,
            end_ns: self.profile_end_ns.unwrap_or(run_ns + FOR_GOOD_NS),
            asked_pct: percent.to_vec(),
        };
        self.set_ns = run_ns;
        self.meter.set(piece.clone());
        timeline::set(&mut self.ahead, piece);
        for cpu in &mut self.cpus {
            cpu.void_orders(&common);
        }
        // Also what the profile has until then.
        for piece in std::mem::take(&mut self.ahead) {
            self.order_piece(&common, &piece, piece.start_ns);
            self.ahead.push_back(piece);
        }
        if let Some(node) = &mut self.node {
            node.changes += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::*;
    use crate::board::{Board, LoadOrder};
    use crate::method;
    use crate::node::socket::ask;
    use crate::pacing::LevelPlan;
    use crate::supervisor::timeline::RequestedLoads;

    /// What a server answers that is served by `turn`.
    fn answer(
        directory: &Directory,
        name: &NodeName,
        request: &Request,
        turn: &mut dyn FnMut(),
    ) -> Reply {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(directory, name, request, Duration::from_secs(60)));
            while !asked.is_finished() {
                turn();
                std::thread::sleep(Duration::from_millis(2));
            }
            asked.join().unwrap().unwrap()
        })
    }

    #[test]
    fn before_its_beginning_a_load_says_that_it_waits() {
        let place = tempfile::tempdir().unwrap();
        let mut control = LoadControl::bind(place.path()).unwrap();
        let directory = Directory::of_loads(place.path());
        let name = std::process::id().to_string().parse().unwrap();
        let request = Request::Load {
            loads: "40".to_owned(),
        };
        let reply = answer(&directory, &name, &request, &mut || control.serve_early());
        assert_eq!(reply, not_begun());
    }

    #[test]
    fn before_its_beginning_a_node_is_shown_and_can_be_ended() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::in_registry(place.path());
        let name: NodeName = "small".parse().unwrap();
        let mut control = NodeControl::new(
            Server::bind(&directory, &name).unwrap(),
            name.clone(),
            &method::with_options("hogs", &Default::default()).unwrap(),
            Ratios::new([(0, 0.5)].into()),
            NodeMachine::read(&sandbag_linux::Root::default()).unwrap(),
        );
        let mut stop = false;
        let mut asked = |request| {
            let turn = &mut || stop |= control.serve_early(&[7]);
            (answer(&directory, &name, &request, turn), stop)
        };
        let (reply, ends) = asked(Request::Status);
        let Reply::Status(status) = reply else {
            panic!("{reply:?}");
        };
        let [speed] = status.speeds[..] else {
            panic!("{status:?}");
        };
        assert_eq!((speed.cpu, speed.asked, speed.got), (0, 0.5, None));
        assert_eq!((status.members, ends), (vec![7], false));
        let set = Request::Set {
            speeds: "0.4".to_owned(),
        };
        assert_eq!(asked(set), (not_begun(), false));
        assert_eq!(asked(Request::Stop), (Reply::Stopping, true));
    }

    #[test]
    fn a_step_between_a_request_and_its_effect_is_ordered_and_asked() {
        const MS: u64 = 1_000_000;
        let piece = |start_ms: u64, end_ms: u64, pct| LoadPiece {
            start_ns: start_ms * MS,
            end_ns: end_ms * MS,
            asked_pct: vec![pct],
        };
        let board = Board::create(1).unwrap();
        let order = |pieces: &VecDeque<LoadPiece>| {
            board.slot(0).void_orders();
            for piece in pieces {
                board.slot(0).publish(LoadOrder {
                    from_ns: piece.start_ns,
                    level: piece.asked_pct[0] / 100.0,
                });
            }
        };
        let (mut ahead, mut asked) = (VecDeque::new(), RequestedLoads::default());
        for piece in [piece(0, 1000, 20.0), piece(1000, 2000, 80.0)] {
            asked.push(piece.clone());
            ahead.push_back(piece);
        }
        order(&ahead);
        let mut plan = LevelPlan::default();
        plan.due(board.slot(0), 0, 980 * MS);
        asked.set(piece(1020, 9000, 50.0));
        timeline::set(&mut ahead, piece(1020, 9000, 50.0));
        order(&ahead);
        for (from_ms, pct) in [(980, 20.0), (1000, 80.0), (1020, 50.0)] {
            let (from_ns, to_ns) = (from_ms * MS, (from_ms + 20) * MS);
            let due_pct = plan.due(board.slot(0), from_ns, to_ns) / (20 * MS) as f64 * 100.0;
            assert!((due_pct - pct).abs() < 1e-9, "{due_pct} from {from_ms} ms");
            assert!((asked.mean_pct(0, from_ns, to_ns) - pct).abs() < 1e-9);
        }
    }
}
