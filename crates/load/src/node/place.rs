// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what nodes are asked for to what they get on a machine: CPUs that are
//! online and free, and a speed for each.

use std::path::PathBuf;

use sandbag_linux::CpuList;
use sandbag_run::error::LOADED;

use crate::node::choose::{Domains, choose};
use crate::node::machine::NodeMachine;
use crate::node::ratios::Ratios;
use crate::node::spec::{Cpus, NodeCourse, NodeSpec, SpecError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The process of the run.
    pub pid: u32,
    /// What it holds, as a user would call it: `node small`, `50 %`.
    pub of: String,
    pub cpus: CpuList,
}

impl Claim {
    /// That it has some CPUs, in the words by which the Python module and sweeps know that they
    /// can wait for them.
    fn fault(&self, cpus: &CpuList) -> String {
        format!("CPUs {cpus} are {LOADED} {} ({})", self.pid, self.of)
    }
}

/// How fast a placed node is.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacedCourse {
    Constant(Ratios),
    Profile(PathBuf),
}

/// A node with its place on the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedNode {
    pub spec: NodeSpec,
    pub cpus: CpuList,
    pub course: PlacedCourse,
    /// Why these CPUs, a sentence, where sandbag chose them.
    pub why: Option<String>,
}

/// Places nodes on a machine: first those that name their CPUs, then the
/// others in their order. `domains` says whether the method of a node can
/// live with a split frequency domain.
pub fn place(
    nodes: Vec<NodeSpec>,
    machine: &NodeMachine,
    held: &[Claim],
    domains: impl Fn(&NodeSpec) -> Domains,
) -> Result<Vec<PlacedNode>, SpecError> {
    let mut taken: CpuList = held.iter().flat_map(|held| held.cpus.iter()).collect();
    for node in &nodes {
        if let Cpus::List(cpus) = &node.cpus {
            check(node, cpus, machine, held, domains(node))?;
            taken = taken.iter().chain(cpus.iter()).collect();
        }
    }
    let mut placed = Vec::with_capacity(nodes.len());
    for node in nodes {
        let (cpus, why) = match &node.cpus {
            Cpus::List(cpus) => (cpus.clone(), None),
            Cpus::Cores(wanted) => {
                if let NodeCourse::Constant(speeds @ crate::node::Speeds::PerCpu(_)) = &node.course
                {
                    return Err(node.origin.fault(
                        "speed",
                        format!("`{speeds}` names CPUs, but the node lets sandbag choose them"),
                        "write cpus in place of cores, or one speed for all",
                    ));
                }
                let choice = choose(machine, *wanted, &taken, domains(&node)).map_err(|no| {
                    let text = no.to_string();
                    let (what, remedy) = text.rsplit_once(": ").unwrap_or((&text, "ask for less"));
                    let mut what = what.to_owned();
                    let of_others = held.iter().flat_map(|held| held.cpus.iter()).collect();
                    let of_us = taken.without(&of_others);
                    if choose(machine, *wanted, &of_us, domains(&node)).is_ok() {
                        for held in held {
                            what += &format!("; {}", held.fault(&held.cpus));
                        }
                    }
                    let fault = node.origin.fault("cores", what, remedy);
                    if no.is_wrong_number() {
                        fault
                    } else {
                        fault.of_the_machine()
                    }
                })?;
                taken = taken.iter().chain(choice.cpus.iter()).collect();
                (choice.cpus, Some(choice.why))
            }
        };
        let course = match &node.course {
            NodeCourse::Profile(path) => PlacedCourse::Profile(path.clone()),
            NodeCourse::Constant(speeds) => {
                let method = node.method.as_deref().unwrap_or_default();
                let ratios = speeds.resolve(&cpus, |cpu| machine.full_khz(method, cpu));
                PlacedCourse::Constant(ratios.map_err(|bad| node.origin.bad_speed(bad))?)
            }
        };
        placed.push(PlacedNode {
            spec: node,
            cpus,
            course,
            why,
        });
    }
    Ok(placed)
}

fn check(
    node: &NodeSpec,
    cpus: &CpuList,
    machine: &NodeMachine,
    held: &[Claim],
    domains: Domains,
) -> Result<(), SpecError> {
    let topology = &machine.topology;
    let remedy = || format!("online here are {}", topology.online);
    if let Some(cpu) = cpus.without(&topology.online).iter().next() {
        let (state, remedy) = if topology.present.contains(cpu) {
            (
                "is offline",
                format!(
                    "{}; echo 1 > /sys/devices/system/cpu/cpu{cpu}/online",
                    remedy()
                ),
            )
        } else {
            ("is not there", remedy())
        };
        return Err(node
            .origin
            .fault("cpus", format!("CPU {cpu} {state}"), remedy));
    }
    for held in held {
        let both = cpus.intersection(&held.cpus);
        if !both.is_empty() {
            let fault = node.origin.fault(
                "cpus",
                held.fault(&both),
                "wait for it, end it, or name other CPUs",
            );
            return Err(fault.of_the_machine());
        }
    }
    if domains == Domains::Whole
        && let Some(split) = machine.split_by(cpus).first()
    {
        let fault = node.origin.fault(
            "cpus",
            format!("CPUs {split} change their frequency together, and the node has only a part"),
            "give it all of them, or use a method that does not work by frequency",
        );
        return Err(fault.of_the_machine());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::node::machine::tests::machine;
    use crate::node::toml::{NodesFile, Vocabulary};

    fn place_text(text: &str, held: &[Claim], domains: Domains) -> Result<Vec<PlacedNode>, String> {
        let words = Vocabulary {
            methods: &["hogs"],
            options: &[],
            host: "",
        };
        let file = NodesFile::parse(text, "n.toml", Path::new(""), &words).unwrap();
        let mut machine = machine(1, 8, 1, 2);
        machine.topology.online = (0..7).collect();
        machine.topology.cpus.pop();
        place(file.nodes, &machine, held, |_| domains).map_err(|e| e.to_string())
    }

    #[test]
    fn named_cpus_first_then_the_chosen_ones() {
        let nodes = place_text(
            "[[node]]\nname='a'\ncores=2\nspeed='1200MHz'\n\
             [[node]]\nname='b'\ncpus='2-3'\nspeed={2=1,3=0.5}\n\
             [[node]]\nname='c'\ncores=1\nprofile='p'\n\
             [[node]]\nname='d'\ncores=1\nspeed=1",
            &[],
            Domains::MaySplit,
        )
        .unwrap();
        assert_eq!(nodes[0].cpus.to_string(), "4,5");
        assert!(
            nodes[0]
                .why
                .as_ref()
                .unwrap()
                .starts_with("chose CPUs 4,5: 2 cores")
        );
        let half = Ratios::same(&nodes[0].cpus, 0.5);
        assert_eq!(nodes[0].course, PlacedCourse::Constant(half));
        assert_eq!(
            (nodes[1].cpus.to_string().as_str(), &nodes[1].why),
            ("2,3", &None)
        );
        assert_eq!(nodes[2].cpus.to_string(), "6");
        assert_eq!(nodes[2].course, PlacedCourse::Profile("p".into()));
        assert_eq!(nodes[3].cpus.to_string(), "1");
    }

    #[test]
    fn what_cannot_be_had_names_its_line() {
        let held = [Claim {
            pid: 12,
            of: "node x".into(),
            cpus: (0..2).collect(),
        }];
        let (may, whole) = (Domains::MaySplit, Domains::Whole);
        for (line, domains, error) in [
            (
                "cpus=8\nspeed=1",
                may,
                "3: cpus: CPU 8 is not there; online",
            ),
            ("cpus=7\nspeed=1", may, "3: cpus: CPU 7 is offline; online"),
            (
                "cpus='1-2'\nspeed=1",
                may,
                "3: cpus: CPUs 1 are already loaded by sandbag process 12 (node x); wait for it",
            ),
            (
                "cpus=2\nspeed=1",
                whole,
                "3: cpus: CPUs 2,3 change their freq",
            ),
            ("cores=6\nspeed=1", may, "3: cores: 6 cores wanted, 5 of 7"),
            ("cores=3\nspeed={2=1}", may, "4: speed: `2=1` names CPUs"),
            (
                "cpus=2\nspeed={3=1}",
                may,
                "4: speed: `3=1`: CPU 3 is not one",
            ),
            (
                "cpus=2\nspeed='3GHz'",
                may,
                "4: speed: `3000MHz`: CPU 2 reaches",
            ),
        ] {
            let text = format!("[[node]]\nname='a'\n{line}");
            let found = place_text(&text, &held, domains).unwrap_err();
            assert!(
                found.starts_with(&format!("n.toml:{error}")),
                "{line}\n{found}"
            );
        }
    }

    /// Of another run, and not of another node of the file: that can be waited for.
    #[test]
    fn cores_that_another_run_has_are_known_by_its_words() {
        let held = [Claim {
            pid: 12,
            of: "50 %".into(),
            cpus: (0..2).collect(),
        }];
        let found = |text: &str| place_text(text, &held, Domains::MaySplit).unwrap_err();
        let busy = format!("CPUs 0,1 are {LOADED} 12 (50 %)");
        let six = found("[[node]]\nname='a'\ncores=6\nspeed=1");
        assert!(six.contains(&busy), "{six}");
        for text in [
            "[[node]]\nname='a'\ncores=5\nspeed=1\n[[node]]\nname='b'\ncores=3\nspeed=1",
            "[[node]]\nname='a'\ncores=9\nspeed=1",
        ] {
            let other = found(text);
            assert!(!other.contains(LOADED), "{other}");
        }
    }
}
