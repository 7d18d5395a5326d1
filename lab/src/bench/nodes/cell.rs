// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is measured: methods, CPUs, speeds and programs.

use sandbag_linux::CpuList;

use super::NodesArgs;
use super::work::WorkKind;

/// One cell.
#[derive(Debug, Clone)]
pub(super) struct NodeCell {
    pub(super) method: String,
    pub(super) cpus: u32,
    pub(super) speed: f64,
    pub(super) tasks: u32,
    pub(super) kind: WorkKind,
}

impl NodeCell {
    /// Its name in the rows.
    pub(super) fn key(&self) -> String {
        let kind = self.kind.name();
        let (method, cpus, speed, tasks) = (&self.method, self.cpus, self.speed, self.tasks);
        format!("{method}, {cpus} CPUs, speed {speed}, {tasks} {kind}")
    }

    pub(super) fn cpus(&self) -> CpuList {
        (0..self.cpus).collect()
    }

    /// Whether the program has work for every CPU at every time.
    pub(super) fn is_full(&self) -> bool {
        self.kind != WorkKind::Sleep && self.tasks >= self.cpus
    }
}

/// Speeds of the first method.
const SPEEDS: [f64; 6] = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0];
const SOME_SPEEDS: [f64; 3] = [0.25, 0.5, 0.8];

/// All that the arguments ask for, on a machine of so many CPUs.
pub(super) fn cells(args: &NodesArgs, online: u32) -> Vec<NodeCell> {
    let mut all = Vec::new();
    for (n, method) in args.methods.iter().enumerate() {
        let speeds: &[f64] = match (n, args.quick) {
            _ if !args.speeds.is_empty() => &args.speeds,
            (0, false) => &SPEEDS,
            (0, true) => &[0.1, 0.5, 0.9, 1.0],
            (_, false) => &SOME_SPEEDS,
            (_, true) => &[0.5],
        };
        for cpus in 1..=online.min(2) {
            for speed in speeds {
                let programs = [
                    ("one", 1, WorkKind::Processes),
                    ("two", 2, WorkKind::Processes),
                    ("many", 4 * cpus, WorkKind::Processes),
                    ("threads", 4 * cpus, WorkKind::Threads),
                    ("sleep", 1, WorkKind::Sleep),
                ];
                for (name, tasks, kind) in programs {
                    let wanted = args.programs.iter().any(|wanted| wanted == name);
                    // One sleeper needs one CPU.
                    if wanted && (kind != WorkKind::Sleep || cpus == 1) {
                        all.push(NodeCell {
                            method: method.clone(),
                            cpus,
                            speed: *speed,
                            tasks,
                            kind,
                        });
                    }
                }
            }
        }
    }
    all
}
