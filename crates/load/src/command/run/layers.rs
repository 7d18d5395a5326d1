// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A load and jitter on the CPUs of a node, as parts of one run: each is a run of ours in a
//! process of its own, which begins before the node's program, or together with it at a given
//! time, and ends after it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use sandbag_run::journal::PART_OF;
use sandbag_run::registry::Registry;
use sandbag_stats::Verdict;
use sandbag_ui::address::{self, SCHEMES};
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::units::{self, ASK_LIMIT, Loads};
use sandbag_ui::{BadInput, bail, exit};
use serde::Deserialize;

use crate::command::own_run::OwnRun;
use crate::method::{Method, Scope};
use crate::node::protocol::Request;
use crate::node::socket::{Directory, ask};
use crate::node::speed_share::SpeedShare;
use crate::node::{NodeName, Ratios};
use crate::report::run::{Part, PartCpu, Run};
use crate::supervisor::{BesideRun, RunOutcome};

/// What holds on the node's CPUs besides their speed.
#[derive(Debug, Clone, Default, Args)]
pub struct LayerOptions {
    /// Load the slowed CPUs as well, in percent of what --speed leaves: 30; or of each
    /// 0=30,1=60; or a load profile, repeated until the end
    ///
    /// At --speed 0.5 a load of 30 takes 15 % of each CPU and leaves 35 % to CMD. It is the
    /// load of `sandbag load` by its method pace, in a process of its own; the report says
    /// what each part got, and what was left. With a method that loads CPUs: hogs, pace,
    /// deadline, rt, quota. Of a profile the percents are of the speed at the beginning, which
    /// is the same for all CPUs then; setting another speed does not change them.
    #[arg(long, value_name = "PERCENT|FILE", conflicts_with = "profile",
          value_parser = layer_load)]
    pub load: Option<LayerLoad>,

    /// Replay the jitter of a trace on these CPUs as well, as `sandbag jitter replay --loop`
    /// does
    ///
    /// Its events come at the times of the trace and are as long as there, whatever the
    /// speed: they come before speed and load. Not with deadline.
    #[arg(long, value_name = "TRACE")]
    pub jitter: Option<PathBuf>,
}

impl LayerOptions {
    /// The names of the options, which are keys of nodes files as well.
    pub const NAMES: [&str; 2] = ["load", "jitter"];
}

/// A load beside a speed.
#[derive(Debug, Clone, PartialEq)]
pub enum LayerLoad {
    Constant(Loads),
    Profile(PathBuf),
}

/// Whether no load can be meant: a directory or a name such as `day.csv`.
fn looks_like_a_file(text: &str) -> bool {
    let extension = Path::new(text).extension();
    let is_word = |text: &str| !text.is_empty() && text.chars().all(char::is_alphabetic);
    text.contains('/') || extension.and_then(|end| end.to_str()).is_some_and(is_word)
}

fn layer_load(text: &str) -> std::result::Result<LayerLoad, String> {
    let is_url = SCHEMES.iter().any(|scheme| text.starts_with(scheme));
    match units::loads(text) {
        Ok(loads) => Ok(LayerLoad::Constant(loads)),
        Err(_) if is_url || Path::new(text).exists() => Ok(LayerLoad::Profile(text.into())),
        Err(_) if looks_like_a_file(text) => Err("there is no such file".to_owned()),
        Err(why) => Err(format!("{why}, or a load profile")),
    }
}

/// Above the hogs of a node, which have 1.
const JITTER_PRIORITY: &str = "2";
/// The part that is a load.
const LOAD: &str = "load";
/// How long a part may take until it holds, or waits for its beginning.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// A part that can be made here.
#[derive(Debug)]
pub struct LayerPlan {
    name: &'static str,
    asked: String,
    /// What changes with the speed.
    share: Option<SpeedShare>,
    words: Vec<OsString>,
}

/// The parts that are asked for; everything that can be wrong with them is found out. A load
/// has its groups in the cgroup of the node, if that was delegated.
pub fn plan(
    options: &LayerOptions,
    method: &Method,
    speeds: &Ratios,
    cgroup: Option<&Path>,
) -> Result<Vec<LayerPlan>> {
    let cpus = speeds.cpus();
    let mut plans = Vec::new();
    let no = |what: &str| -> sandbag_ui::failure::Failure {
        sandbag_run::Error::not_possible(what, "use --method hogs or pace with --load").into()
    };
    if let Some(load) = &options.load {
        if method.scope == Scope::Node {
            return Err(no(&format!(
                "{} cannot make a load a part of its speed",
                method.name
            )));
        }
        if method.name == "shares" {
            let text = "shares gives parts by weight, and a load beside it changes them";
            return Err(no(text));
        }
        let mut plan = match load {
            LayerLoad::Constant(loads) => constant(loads, speeds)?,
            LayerLoad::Profile(file) => profile(file, speeds)?,
        };
        if let Some(cgroup) = cgroup {
            plan.words.extend(["--cgroup".into(), cgroup.into()]);
        }
        plans.push(plan);
    }
    if let Some(trace) = &options.jitter {
        if method.name == "deadline" {
            let text = "deadline runs before all other tasks, and jitter would come late";
            let remedy = "use --method hogs or pace with --jitter";
            return Err(sandbag_run::Error::not_possible(text, remedy).into());
        }
        if trace.as_os_str() == "-" {
            let text = "--jitter: name a file; standard input is CMD's";
            return Err(BadInput(text.to_owned()).into());
        }
        let mut words = words(&["jitter", "replay", "--loop", "--priority", JITTER_PRIORITY]);
        words.extend(["--cpus".into(), cpus.to_string().into(), trace.into()]);
        plans.push(LayerPlan {
            name: "jitter",
            asked: format!("the jitter of {}", trace.display()),
            words,
            share: None,
        });
    }
    plans.iter().try_for_each(LayerPlan::check)?;
    Ok(plans)
}

fn constant(loads: &Loads, speeds: &Ratios) -> Result<LayerPlan> {
    let share = SpeedShare(loads.clone());
    if let Some(cpu) = share.outside(speeds) {
        let cpus = speeds.cpus();
        let text = format!("--load: CPU {cpu} is not one of the node's, which are {cpus}");
        return Err(BadInput(text).into());
    }
    Ok(LayerPlan {
        name: LOAD,
        asked: format!("a load of {loads} of the slowed CPUs"),
        words: words(&["load", &share.loads(speeds)]),
        share: Some(share),
    })
}

fn profile(file: &Path, speeds: &Ratios) -> Result<LayerPlan> {
    let mut each = speeds.iter().map(|(_, speed)| speed);
    let speed = each.next().unwrap_or(1.0);
    if each.any(|other| other != speed) {
        let text = "--load: a profile needs the same speed of all CPUs".to_owned();
        return Err(BadInput(text).into());
    }
    let (cpus, scale) = (speeds.cpus().to_string(), units::plain(speed).to_string());
    let mut words = words(&["replay", "--loop", "--cpus", &cpus, "--scale-load", &scale]);
    words.push(file.into());
    Ok(LayerPlan {
        name: LOAD,
        asked: format!(
            "the load of {} of the slowed CPUs",
            address::public(&file.to_string_lossy())
        ),
        words,
        share: None,
    })
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

impl LayerPlan {
    /// What is asked, in words.
    pub fn asked(&self) -> &str {
        &self.asked
    }

    /// Asks the run itself.
    fn check(&self) -> Result<()> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("-q").args(&self.words).arg("--dry-run");
        command.env(PART_OF, std::process::id().to_string());
        let asked = command.output().context("start sandbag")?;
        if asked.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&asked.stderr);
        let line = said.lines().next().unwrap_or_default();
        let line = line.trim_start_matches("sandbag: ");
        let line = by_convert(line.trim_start_matches("error: "));
        let text = format!("--{}: {line}", self.name);
        Err(match asked.status.code() {
            Some(code) if code == i32::from(exit::NOT_POSSIBLE) => {
                let (what, remedy) = text.rsplit_once(": ").unwrap_or((&text, "leave it out"));
                sandbag_run::Error::not_possible(what.to_owned(), remedy.to_owned()).into()
            }
            _ => BadInput(text).into(),
        })
    }
}

/// What `replay` says of a profile, where it names an option that a node has not.
fn by_convert(said: &str) -> String {
    let named = said.rsplit_once(" (option ").and_then(|(what, rest)| {
        let (option, _) = rest.split_once("; sandbag convert")?;
        Some((what, option))
    });
    match named {
        Some((what, option)) => format!(
            "{what} (by sandbag convert IN {option} ... -o OUT.csv; name OUT.csv in place of it)"
        ),
        None => said.to_owned(),
    }
}

/// Parts that hold. Dropping them ends them.
#[derive(Default)]
pub struct Layers(Vec<Layer>);

struct Layer {
    plan: LayerPlan,
    run: OwnRun,
}

impl Layers {
    /// Starts them, and waits until they hold; their reports are in `dir`. Where the node begins
    /// at a given time (`begins_ns`, of CLOCK_MONOTONIC), they begin with it, and only have to be
    /// ready: their windows, profiles and traces are counted from there, on every host.
    pub fn start(
        plans: Vec<LayerPlan>,
        dir: Option<&Path>,
        registry: &Registry,
        begins_ns: Option<u64>,
    ) -> Result<Self> {
        let mut all = Vec::new();
        for plan in plans {
            let out = dir.map(|dir| dir.join(plan.name));
            let run = OwnRun::start_at(&plan.words, out, true, begins_ns)?;
            all.push(Layer { plan, run });
        }
        let until = Instant::now() + PATIENCE;
        for layer in &mut all {
            let name = layer.plan.name;
            while !layer.is_ready(registry, begins_ns.is_some())? {
                if let Some(status) = layer.run.ended() {
                    bail!("the {name} did not begin ({status})");
                }
                if Instant::now() > until {
                    bail!("the {name} did not begin within {} s", PATIENCE.as_secs());
                }
                std::thread::sleep(PAUSE);
            }
        }
        Ok(Self(all))
    }

    /// For the supervisor of the node.
    pub fn beside(&self, registry: &Registry) -> Vec<BesideRun> {
        let of = |layer: &Layer| BesideRun {
            pid: layer.run.pid(),
            name: layer.plan.name,
            load: layer.plan.share.clone().and_then(|share| {
                let directory = Directory::of_loads(registry.dir());
                Some((directory, layer.socket_name()?, share))
            }),
        };
        self.0.iter().map(of).collect()
    }

    /// Ends them; what became of each.
    pub fn end(mut self, outcome: &RunOutcome) -> Vec<Part> {
        // How it ended the supervisor has said, which reaps the parts.
        let has_ended = |layer: &mut Layer| {
            let is_over = !outcome.load_is_over && layer.run.ended().is_some();
            is_over || outcome.lost_beside.contains(&layer.plan.name)
        };
        let early: Vec<bool> = self.0.iter_mut().map(has_ended).collect();
        for layer in &mut self.0 {
            // The supervisor has asked them at the end of the time. A second SIGTERM would end one
            // that writes its record by now.
            if outcome.load_is_over {
                layer.run.wake();
            } else {
                layer.run.ask_to_end();
            }
        }
        let mut parts = Vec::new();
        for (layer, early) in self.0.iter_mut().zip(early) {
            layer.run.wait();
            let mut part = layer.part();
            if early {
                part.verdict = Verdict::Missed;
                part.reason = "it ended before the program did".to_owned();
            }
            parts.push(part);
        }
        parts
    }
}

impl Layer {
    /// A load listens by its process id.
    fn socket_name(&self) -> Option<NodeName> {
        self.run.pid().to_string().parse().ok()
    }

    /// A load answers once it is held; a replay of jitter is registered then. Either is
    /// registered when it waits for its beginning.
    fn is_ready(&self, registry: &Registry, waits: bool) -> Result<bool> {
        let answers = self.plan.name == LOAD && !waits;
        Ok(match self.socket_name().filter(|_| answers) {
            Some(name) => {
                let directory = Directory::of_loads(registry.dir());
                ask(&directory, &name, &Request::Status, ASK_LIMIT).is_ok()
            }
            None => {
                let mut runs = registry.runs()?.into_iter();
                runs.any(|run| run.pid == self.run.pid())
            }
        })
    }

    fn part(&mut self) -> Part {
        let read = match self.plan.name {
            LOAD => self.run.record().map(of_load),
            _ => self.run.record().map(of_jitter),
        };
        let part = read.unwrap_or_else(|error| Part {
            verdict: Verdict::Missed,
            reason: error.to_string(),
            ..Part::default()
        });
        Part {
            name: self.plan.name.to_owned(),
            asked: self.plan.asked.clone(),
            ..part
        }
    }
}

fn of_load(run: Run) -> Part {
    let cpus = run.cpus.iter().map(|cpu| PartCpu {
        cpu: cpu.cpu,
        asked_pct: cpu.asked_pct,
        got_pct: cpu.got_pct,
    });
    Part {
        verdict: run.verdict,
        reason: run.reason,
        cpus: cpus.collect(),
        warnings: run.warnings,
        ..Part::default()
    }
}

/// What is read of the record of a replay of jitter (docs/reference/run-json.md).
#[derive(Deserialize)]
struct JitterRecord {
    verdict: Option<Verdict>,
    verdict_because: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
    cpus: Vec<JitterCpu>,
}

#[derive(Deserialize)]
struct JitterCpu {
    cpu: u32,
    ran_s: f64,
    injected_asked_s: f64,
    injected_got_s: f64,
}

fn of_jitter(run: JitterRecord) -> Part {
    let cpus = run.cpus.iter().map(|cpu| {
        let pct = |s: f64| {
            if cpu.ran_s > 0.0 {
                s / cpu.ran_s * 100.0
            } else {
                0.0
            }
        };
        PartCpu {
            cpu: cpu.cpu,
            asked_pct: pct(cpu.injected_asked_s),
            got_pct: pct(cpu.injected_got_s),
        }
    });
    Part {
        verdict: run.verdict.unwrap_or(Verdict::Undecided),
        reason: run.verdict_because.unwrap_or_default(),
        cpus: cpus.collect(),
        warnings: run.warnings,
        ..Part::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_only_replay_has_is_given_to_convert() {
        let said = by_convert("day.csv: choose (option --map; sandbag convert has it, too)");
        let start = "day.csv: choose (by sandbag convert IN --map ... -o OUT.csv;";
        assert!(said.starts_with(start), "{said}");
        assert_eq!(by_convert("day.csv: it is empty"), "day.csv: it is empty");
    }

    #[test]
    fn a_load_is_a_number_a_file_or_a_url() {
        for url in SCHEMES.map(|scheme| format!("{scheme}u:secret@h:9090/?instance=a")) {
            let load = layer_load(&url).unwrap();
            assert_eq!(load, LayerLoad::Profile(url.clone().into()));
            let plan = profile(Path::new(&url), &Ratios::new([(0, 0.5)].into())).unwrap();
            assert!(plan.words.contains(&url.into()), "{:?}", plan.words);
            assert!(!plan.asked().contains("secret"), "{}", plan.asked());
        }
        assert!(matches!(layer_load("30"), Ok(LayerLoad::Constant(_))));
        for (text, said) in [
            ("http://h/?instance=a", "no such file"),
            ("day.csv", "no such file"),
            ("half", "or a load profile"),
        ] {
            assert!(layer_load(text).unwrap_err().contains(said), "{text}");
        }
    }
}
