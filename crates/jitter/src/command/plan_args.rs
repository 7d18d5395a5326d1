// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of everything that replays a trace: which part of it, where, how.

use std::path::Path;

use crate::JitterTrace;
use crate::replay::plan::FACTORS;
use crate::replay::process::InjectorClass;
use crate::replay::{ReplayOptions, ReplayPlan, Sync};
use crate::trace_file::open_trace;
use clap::{Args, ValueEnum};
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root};
use sandbag_ui::failure::Result;

use super::{ImportArgs, memory};
use sandbag_ui::BadInput;
use sandbag_ui::messages::Messages;
use sandbag_ui::units::{self, Cpus};

/// Default memory, MiB.
const USUAL_MIB: u64 = 512;

#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// Where: 0,2-3, or all, even, odd, core (one per core)
    #[arg(short, long, value_name = "LIST", default_value = "all", value_parser = units::cpus)]
    pub cpus: Cpus,

    /// Which CPUs of the trace are replayed there, in this order, and again
    /// from the first if they are fewer [default: all of the trace; of one that
    /// has more, those with the same numbers]
    #[arg(long, value_name = "LIST", value_parser = trace_cpus)]
    trace_cpus: Option<TraceCpus>,

    /// Decides what is left to chance: where in the trace each CPU begins
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// How much of the trace a CPU replays at most, as 0.5, 50% or 1/3
    #[arg(long, value_name = "PART", default_value = "1/3", value_parser = part)]
    pub share: f64,

    /// When CPUs are at the same position of the trace: none (each group at
    /// its own), once (all begin at the same), phase or every:K (for programs
    /// that say when a phase begins)
    #[arg(long, value_name = "HOW", default_value = "none")]
    pub sync: Sync,

    /// CPUs that replay together what was recorded together, at the same
    /// position [default: all of the trace's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub group: Option<u32>,

    /// How events are injected
    #[arg(long, value_enum, default_value_t = MethodArg::Auto)]
    pub method: MethodArg,

    /// Priority of the real-time tasks; 1 is below all others
    #[arg(long, value_name = "1..99", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub priority: u8,

    /// Memory for the events of all CPUs, in MiB [default: 512, or half of
    /// what is free]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    max_memory: Option<u64>,

    #[command(flatten)]
    pub import: ImportArgs,
}

/// CPUs in the order in which they were named.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TraceCpus(Vec<u32>);

/// `2-3,0`: a list of CPUs in this order, any of them more than once.
fn trace_cpus(text: &str) -> Result<TraceCpus, String> {
    // Checks the whole, which is not empty.
    units::cpu_list(text)?;
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let lists: Result<Vec<CpuList>, String> = parts.map(units::cpu_list).collect();
    let all = lists?.into_iter();
    Ok(TraceCpus(
        all.flat_map(|list| list.iter().collect::<Vec<_>>())
            .collect(),
    ))
}

/// How events are injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodArg {
    /// fifo where real time may be had, else fair
    Auto,
    /// A real-time task (SCHED_FIFO) on each CPU
    Fifo,
    /// An ordinary task on each CPU: needs no privilege, less exact
    Fair,
    /// The program asks (the library's `PolledReplay`; `sandbag jitter verify`)
    Polled,
}

impl MethodArg {
    /// The name of the option's value.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// `1/3`, `0.5`, `50%`.
fn part(text: &str) -> Result<f64, String> {
    let bad = || "expected a part of the trace, such as 0.5, 50% or 1/3".to_owned();
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| bad());
    let value = match (text.split_once('/'), text.strip_suffix('%')) {
        (Some((a, b)), _) => number(a)? / number(b)?,
        (None, Some(pct)) => number(pct)? / 100.0,
        (None, None) => number(text)?,
    };
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else {
        Err("must be above 0, and not more than the whole trace (1)".to_owned())
    }
}

/// A factor of lengths and gaps.
pub fn factor(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(factor) if (FACTORS.0..=FACTORS.1).contains(&factor) => Ok(factor),
        _ => Err(format!(
            "expected a factor from {} to {}",
            FACTORS.0, FACTORS.1
        )),
    }
}

impl PlanArgs {
    /// Memory for the events of all CPUs, bytes.
    ///
    /// # Errors
    /// Less is free.
    pub fn most_bytes(&self, root: &Root) -> Result<u64> {
        Ok(memory::memory_limit(root, self.max_memory, USUAL_MIB)?)
    }

    /// The trace.
    ///
    /// # Errors
    /// It cannot be read, holds a distribution only, or no events.
    pub fn trace(&self, path: &Path, messages: &Messages) -> Result<JitterTrace> {
        let trace = open_trace(path, &self.import.of_events(), messages)?;
        if trace.cpus.iter().all(|cpu| cpu.events.is_empty()) {
            let name = path.display();
            let text = format!("{name} holds no events: there is nothing to replay");
            return Err(BadInput(text).into());
        }
        Ok(trace)
    }

    /// The CPUs of this machine.
    ///
    /// # Errors
    /// One is offline, or not among those that are usable.
    pub fn online(&self, root: &Root, topology: &Topology, usable: &CpuList) -> Result<Vec<u32>> {
        let cpus = self.cpus.some(topology, "--cpus")?;
        sandbag_run::online::check_online(root, &cpus)?;
        sandbag_run::online::check_usable(usable, &cpus)?;
        Ok(cpus.iter().collect())
    }

    /// The same for these CPUs here: of a trace that has more, those with the same numbers
    /// are replayed, where it has them and none were named.
    pub fn of_same_numbers(&self, trace: &JitterTrace, here: &[u32]) -> Self {
        let held: CpuList = trace.cpus.iter().map(|cpu| cpu.cpu).collect();
        let has_all = trace.cpus.len() > here.len() && here.iter().all(|cpu| held.contains(*cpu));
        let same = has_all.then(|| TraceCpus(here.to_vec()));
        Self {
            trace_cpus: self.trace_cpus.clone().or(same),
            ..self.clone()
        }
    }

    /// The plan for `here` CPUs.
    ///
    /// # Errors
    /// The trace has more CPUs; those of [`ReplayPlan::of`].
    pub fn plan(&self, trace: &JitterTrace, here: usize, more: PlanExtras) -> Result<ReplayPlan> {
        let chosen = self.trace_cpus.as_ref().map(|list| list.0.as_slice());
        let held = chosen.map_or(trace.cpus.len(), <[u32]>::len);
        if chosen.is_none() && held > here {
            let all: CpuList = trace.cpus.iter().map(|cpu| cpu.cpu).collect();
            return Err(BadInput(format!(
                "the trace holds {held} CPUs ({all}), and {here} are to replay it: say which \
                 with --trace-cpus"
            ))
            .into());
        }
        let options = ReplayOptions {
            seed: self.seed,
            share: if more.random { self.share } else { 1.0 },
            random: more.random,
            sync: self.sync,
            group: self.group.unwrap_or(u32::try_from(held).unwrap_or(1)),
            factor: more.factor,
            repeat: more.repeat,
        };
        Ok(ReplayPlan::of(trace, chosen, &options)?)
    }

    /// The CPU of the trace that the CPU at a place replays.
    pub fn trace_cpu(&self, trace: &JitterTrace, place: usize) -> u32 {
        let all: Vec<u32> = match &self.trace_cpus {
            Some(list) => list.0.clone(),
            None => trace.cpus.iter().map(|cpu| cpu.cpu).collect(),
        };
        all[place % all.len()]
    }

    /// The class of the injectors, and whether ordinary tasks will do.
    ///
    /// # Errors
    /// The program itself would inject.
    pub fn class_request(&self) -> Result<(InjectorClass, bool)> {
        let fifo = InjectorClass::Fifo {
            priority: self.priority,
        };
        Ok(match self.method {
            MethodArg::Auto => (fifo, true),
            MethodArg::Fifo => (fifo, false),
            MethodArg::Fair => (InjectorClass::Fair, false),
            MethodArg::Polled => {
                return Err(crate::replay::Error::NotPossible {
                    what: "polled needs a program that asks when its jitter is due".to_owned(),
                    remedy: "a program that does not is made to suffer with --method fifo or \
                             fair"
                        .to_owned(),
                }
                .into());
            }
        })
    }

    /// # Errors
    /// `--sync` needs a program that reports its phases.
    pub fn refuse_phases(&self) -> Result<()> {
        match self.sync {
            Sync::Phases(_) => Err(BadInput(
                "--sync phase and every:K need a program that says when a phase begins (the \
                 library's begin_phase); a program beside which jitter is injected does not: \
                 --sync once"
                    .to_owned(),
            )
            .into()),
            Sync::None | Sync::Once => Ok(()),
        }
    }
}

/// Options of a plan that not all commands have.
#[derive(Debug, Clone, Copy)]
pub struct PlanExtras {
    /// Begin at a random position (the third safeguard).
    pub random: bool,
    pub factor: f64,
    pub repeat: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use sandbag_ui::exit;

    use crate::replay::plan::SHARE;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PlanArgs,
    }

    #[test]
    fn cpus_outside_of_the_cpuset_are_refused() {
        let root = Root::default();
        let topology = Topology::read(&root).unwrap();
        let cpu = topology.online.iter().next().unwrap();
        let args = Line::parse_from(["replay", "--cpus", &cpu.to_string()]).args;
        let online = |usable: &CpuList| args.online(&root, &topology, usable);
        assert_eq!(online(&topology.online).unwrap(), [cpu]);
        let others = topology.online.without(&CpuList::from_iter([cpu]));
        let error = online(&others).unwrap_err();
        assert_eq!(error.exit_code(false), exit::NOT_POSSIBLE);
        let said = format!("CPU {cpu} is not left to sandbag: its cpuset has ");
        assert!(error.to_string().contains(&said), "{error}");
    }

    #[test]
    fn parts_of_a_trace() {
        assert_eq!(["1/3", "50%", "1"].map(part), [Ok(SHARE), Ok(0.5), Ok(1.0)]);
        for text in ["0", "1.5", "4/3", "x", "1/0", "-1%", ""] {
            assert!(part(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cpus_of_a_trace_keep_their_order() {
        let order = |text| trace_cpus(text).map(|list| list.0);
        assert_eq!(order("1,0"), Ok(vec![1, 0]));
        assert_eq!(order(" 2-4:2, 0 ,2,"), Ok(vec![2, 4, 0, 2]));
        for text in ["", ",", "1,x", "3-1", "all"] {
            assert!(order(text).is_err(), "{text}");
        }
    }

    #[test]
    fn factors_scale_up() {
        assert_eq!(factor("3"), Ok(3.0));
        assert!(factor("0.5").is_err() && factor("NaN").is_err());
    }
}
