// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is measured: methods, CPUs, speeds and programs.

use sandbag_linux::CpuList;
use serde::Serialize;

use super::NodesArgs;
use super::work::Kind;

/// One cell.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Cell {
    pub(super) method: String,
    pub(super) cpus: u32,
    pub(super) speed: f64,
    pub(super) tasks: u32,
    pub(super) kind: Kind,
}

impl Cell {
    /// Its CPUs.
    pub(super) fn cpus(&self) -> CpuList {
        (0..self.cpus).collect()
    }

    /// Whether the program has work for every CPU at every time.
    pub(super) fn is_full(&self) -> bool {
        self.kind != Kind::Sleep && self.tasks >= self.cpus
    }
}

/// Speeds of the first method.
const SPEEDS: [f64; 6] = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0];
const SOME_SPEEDS: [f64; 3] = [0.25, 0.5, 0.8];

/// All that the arguments ask for, on a machine of so many CPUs.
pub(super) fn cells(args: &NodesArgs, online: u32) -> Vec<Cell> {
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
                    ("one", 1, Kind::Processes),
                    ("two", 2, Kind::Processes),
                    ("many", 4 * cpus, Kind::Processes),
                    ("threads", 4 * cpus, Kind::Threads),
                    ("sleep", 1, Kind::Sleep),
                ];
                for (name, tasks, kind) in programs {
                    let wanted = args.programs.iter().any(|wanted| wanted == name);
                    // One sleeper needs one CPU.
                    if wanted && (kind != Kind::Sleep || cpus == 1) {
                        all.push(Cell {
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
