// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of the benchmark for all kinds of ranks.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::bench::{Settings, leaves_room};
use clap::Args;
use sandbag_jitter::replay::{ReplayOptions, ReplayPlan, Sync};
use sandbag_jitter::{CpuTrace, JitterTrace};
use sandbag_ui::quantity::{nanos, positive_duration};

/// Options of the benchmark.
#[derive(Debug, Clone, Args)]
pub struct BenchOptions {
    /// Work of each rank between two barriers
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = quantum, allow_hyphen_values = true)]
    pub quantum: Duration,

    /// Duration of the whole run
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = positive_duration, allow_hyphen_values = true)]
    pub duration: Duration,

    /// Trace to replay, or a file of another tool that holds events
    #[arg(long, value_name = "TRACE")]
    pub jitter: Option<PathBuf>,

    /// When ranks are set to a common position of the trace: none, once, phase, every:K
    #[arg(long, value_name = "SYNC", default_value = "none", requires = "jitter")]
    pub sync: Sync,

    /// Ranks of a node, which replay CPUs that were recorded together
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true, requires = "jitter")]
    pub group: u32,

    /// Seed of the position where each rank begins in the trace
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub seed: u64,

    /// Number of alternations between phases without and with jitter
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    pub rounds: u32,

    /// File for all phases of all ranks: CSV (.csv), also compressed (.csv.zst)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write the result as JSON [default FILE: standard output]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,

    /// Replace files that exist
    #[arg(long)]
    pub force: bool,
}

/// The longest quantum: times of a phase are kept in 32 bits of nanoseconds.
const LONGEST: Duration = Duration::from_secs(1);

fn quantum(text: &str) -> Result<Duration, String> {
    match positive_duration(text)? {
        time if time > LONGEST => Err("must be 1s or shorter".to_owned()),
        time => Ok(time),
    }
}

impl BenchOptions {
    /// The options as arguments of another program.
    pub fn to_args(&self) -> Vec<OsString> {
        let mut all: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: OsString| {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            all.push(word);
        };
        let ns = |time: Duration| OsString::from(format!("{}ns", nanos(time)));
        add("quantum", ns(self.quantum));
        add("duration", ns(self.duration));
        add("seed", self.seed.to_string().into());
        add("rounds", self.rounds.to_string().into());
        if let Some(path) = &self.jitter {
            add("jitter", path.into());
            add("sync", self.sync.to_string().into());
            add("group", self.group.to_string().into());
        }
        if let Some(path) = &self.output {
            add("output", path.into());
        }
        if let Some(path) = &self.json {
            add("json", path.into());
        }
        if self.force {
            all.push("--force".into());
        }
        all
    }

    /// The plan by which ranks replay a trace, like the prediction without CPUs on which nothing
    /// was looked for. Refuses one that is too short, has too few CPUs or leaves hardly any time
    /// to the work.
    pub fn plan(&self, trace: &JitterTrace) -> sandbag_ui::Result<ReplayPlan> {
        let options = ReplayOptions {
            seed: self.seed,
            sync: self.sync,
            group: self.group,
            repeat: true,
            ..ReplayOptions::default()
        };
        let known = trace.cpus.iter().filter(|cpu| cpu.known_ns() > 0);
        let mut known: Vec<&CpuTrace> = known.collect();
        // The prediction beside the measurement leaves out CPUs that do not fill a node, too.
        let group = self.group as usize;
        if known.len() >= group {
            known.truncate(known.len() / group.max(1) * group);
        }
        let plan = ReplayPlan::new(&known, &options)?;
        leaves_room(&plan)?;
        Ok(plan)
    }

    /// The settings for a number of ranks.
    pub fn settings(&self, ranks: u32, plan: Option<ReplayPlan>) -> Settings {
        Settings {
            quantum_ns: nanos(self.quantum),
            ranks,
            cpus: Vec::new(),
            cpu_limit: None,
            duration: self.duration,
            rounds: self.rounds,
            cpu_clock: false,
            repeats: 1,
            plan,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::fixture::{cpu, trace};

    #[derive(Debug, Parser)]
    struct ProgramOptions {
        #[command(flatten)]
        options: BenchOptions,
    }

    #[test]
    fn a_quantum_is_a_second_at_most() {
        assert!(ProgramOptions::try_parse_from(["x", "--quantum", "1s"]).is_ok());
        assert!(ProgramOptions::try_parse_from(["x", "--quantum", "1001ms"]).is_err());
    }

    #[test]
    fn cpus_on_which_nothing_was_looked_for_are_left_out() {
        let options = ProgramOptions::parse_from(["x"]).options;
        let known = cpu(&[(0, 1_000_000_000)], &[(5000, 2000)]);
        let empty = cpu(&[], &[]);
        let some = trace(vec![known.clone(), empty.clone(), known]);
        assert_eq!(options.plan(&some).unwrap().columns(), 2);
        assert!(options.plan(&trace(vec![empty])).is_err());
    }

    #[test]
    fn cpus_that_do_not_fill_a_node_are_not_replayed() {
        let columns = |group: &str, cpus: usize| {
            let options = ProgramOptions::parse_from(["x", "--jitter", "t", "--group", group]);
            let known = cpu(&[(0, 1_000_000_000)], &[(5000, 2000)]);
            let plan = options.options.plan(&trace(vec![known; cpus]));
            plan.map(|plan| plan.columns())
                .map_err(|error| error.line())
        };
        assert_eq!(columns("2", 3), Ok(2));
        assert_eq!(columns("2", 4), Ok(4));
        assert_eq!(columns("1", 3), Ok(3));
        let fewer = columns("4", 3).unwrap_err();
        assert!(fewer.contains("4 CPUs"), "{fewer}");
    }

    #[test]
    fn arguments_for_another_program_are_read_back() {
        for words in [
            "x",
            "x --quantum 250us -d 1m --seed 7 --rounds 3 --output o.csv.zst --json -",
            "x --jitter a=b.sbj --sync every:10 --group 2",
        ] {
            let one = ProgramOptions::parse_from(words.split(' ')).options;
            let name = OsString::from("x");
            let words = std::iter::once(name).chain(one.to_args());
            let other = ProgramOptions::parse_from(words).options;
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
        }
    }
}
