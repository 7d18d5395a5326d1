// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node's answers to what comes over its socket.

use std::os::fd::{AsFd as _, BorrowedFd};

use crate::method::{Method, Scope};
use crate::node::protocol::{CpuSpeed, Reply, Request, Status};
use crate::node::socket::Server;
use crate::node::{NodeMachine, NodeName, Ratios, Speeds, environment};
use crate::supervisor::{Control, ControlTarget};

/// The socket with what its answers are made of.
pub struct NodeControl {
    server: Server,
    name: NodeName,
    method: &'static str,
    speeds: Ratios,
    machine: NodeMachine,
    reach: Reach,
}

/// What a node's method can do.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    slowest: f64,
    /// One speed for all CPUs only.
    together: bool,
}

impl Reach {
    /// Of a method.
    pub fn of(method: &Method) -> Self {
        Self {
            slowest: 1.0 - method.serves(1.0),
            together: method.scope == Scope::Node,
        }
    }
}

impl NodeControl {
    pub fn new(
        server: Server,
        name: NodeName,
        method: &'static str,
        reach: Reach,
        speeds: Ratios,
        machine: NodeMachine,
    ) -> Self {
        Self {
            server,
            name,
            method,
            speeds,
            machine,
            reach,
        }
    }
}

impl Control for NodeControl {
    fn fd(&self) -> BorrowedFd<'_> {
        self.server.as_fd()
    }

    fn serve(&mut self, run: &mut dyn ControlTarget) {
        let Self {
            server,
            name,
            method,
            speeds,
            machine,
            reach,
        } = self;
        server.turn(&mut |peer, request| match request {
            Request::Status => Reply::Status(Status {
                name: name.to_string(),
                pid: std::process::id(),
                cpus: speeds.cpus().to_string(),
                speeds: run
                    .levels()
                    .iter()
                    .map(|level| CpuSpeed {
                        cpu: level.cpu,
                        asked: 1.0 - level.asked_pct / 100.0,
                        got: level.got_pct.map(|pct| 1.0 - pct / 100.0),
                    })
                    .collect(),
                method: (*method).to_owned(),
                members: run.members(),
            }),
            Request::Set { speeds: text } => match resolve(text, speeds, machine, *reach) {
                Err(message) => Reply::Error { message },
                Ok(new) => match run.set_levels(&new.loads_pct()) {
                    Err(error) => Reply::Error {
                        message: error.to_string(),
                    },
                    Ok(()) => {
                        *speeds = new;
                        Reply::Set {
                            speeds: speeds.to_string(),
                        }
                    }
                },
            },
            // Whoever wants in comes himself: nobody moves others about.
            Request::Admit { pid } if peer.pid.unsigned_abs() != *pid => Reply::Error {
                message: format!(
                    "process {} asked for process {pid}, not for itself",
                    peer.pid
                ),
            },
            Request::Admit { pid } => match run.admit(*pid) {
                Err(error) => Reply::Error {
                    message: error.to_string(),
                },
                Ok(()) => Reply::Admitted {
                    environment: environment::variables(name, speeds),
                },
            },
            Request::Stop => {
                run.stop();
                Reply::Stopping
            }
        });
    }
}

fn resolve(
    text: &str,
    now: &Ratios,
    machine: &NodeMachine,
    reach: Reach,
) -> Result<Ratios, String> {
    let speeds: Speeds = text
        .parse()
        .map_err(|e: crate::node::BadSpeed| e.to_string())?;
    let new = speeds
        .resolve(&now.cpus(), |cpu| machine.max_khz(cpu))
        .map_err(|e| e.to_string())?;
    if reach.together && !new.are_equal() {
        return Err("the node's method gives all its CPUs one speed".to_owned());
    }
    let slowest = reach.slowest;
    match new.values().into_iter().find(|mu| *mu < slowest - 1e-9) {
        Some(mu) => Err(format!(
            "the node's method slows to {slowest:.3} at most, and {mu} was asked"
        )),
        None => Ok(new),
    }
}
