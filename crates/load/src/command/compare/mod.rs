// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag compare`: two programs under the same load.
//!
//! The programs take turns, because the speed of a shared machine drifts; the
//! order alternates (A B, B A, ...). A pair counts if the load was kept for both;
//! others are repeated, and shown.

mod baseline;
mod result;
mod runs;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::report::achieved::AchievedRow;
use crate::report::{read_achieved, read_run};
use clap::Args;
use sandbag_input::Existing;
use sandbag_profile::InputSource;
use sandbag_stats::Verdict;
use sandbag_ui::failure::{Context as _, Result};

use crate::command::run::hold_options::HoldOptions;
use crate::command::run::options::RunOptions;
use crate::command::run::{self, RunLoad};
use sandbag_profile::command::reshape::{self, Reshape};
use sandbag_run::program;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{COMPARE_JSON, JsonArgs, give_to_caller, new_name, put_json};
use sandbag_ui::units::{self, Loads};
use sandbag_ui::{BadInput, exit};

use super::{load, replay};
use result::{ComparedProgram, Comparison, OneRun};
use runs::RunWatch;

const HELP: &str = "\
Exit codes:
  0 compared, and the loads were the same; 1 a program failed, or sandbag did;
  2 wrong usage or bad input; 3 the loads were not the same; 4 undecided
  (machine too noisy); 5 not possible on this machine; 126, 127 a program
  cannot be executed or was not found; 130 interrupted.";

/// Compare two programs under the same load
#[derive(Debug, Args)]
#[command(
    override_usage = "sandbag compare [OPTIONS] <PROFILE> -- <A>... --vs <B>...",
    after_long_help = HELP,
    mut_arg("out", |a| a.help(
        "Directory for compare.json and the directories of the runs\n\
         [default: sandbag-compare-<time>]").long_help(None::<&str>)),
    mut_arg("command", |a| a.help("Both programs with their arguments: ./a ARGS --vs ./b ARGS")),
    mut_arg("no_out", |a| a.hide(true)),
    mut_arg("at", |a| a.hide(true)),
    mut_arg("beside", |a| a.hide(true)),
    mut_arg("start_on", |a| a.hide(true)),
    mut_arg("strict", |a| a.hide(true)),
    mut_arg("progress", |a| a.hide(true)),
    mut_arg("dry_run", |a| a.hide(true)),
)]
pub struct CompareArgs {
    /// The load: a profile of any known format, or a constant (50, 50%)
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,

    /// Pairs of runs that are wanted
    #[arg(long, value_name = "N", default_value = "10",
          value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Pairs made again, at most, because the load was not kept
    /// [default: as many as --runs]
    #[arg(long, value_name = "N")]
    extra: Option<u32>,

    /// Go on, and count a run, if a program fails
    #[arg(long)]
    ignore_failure: bool,

    /// Repeat the profile until the program ends
    #[arg(long = "loop")]
    repeat: bool,

    #[command(flatten)]
    reshape: Reshape,

    #[command(flatten)]
    options: RunOptions,
}

pub fn main(args: &CompareArgs, messages: &Messages) -> Result<u8> {
    refuse(&args.options)?;
    let commands = split(&args.options.hold.command)?;
    for command in &commands {
        program::check(command)?;
    }
    let source = LoadSource::find(args)?;
    // Bad input shows here and not in the first run.
    let (first, about) = source.load(args)?;
    messages.say(&about);
    args.options.hold.refuse_existing()?;
    let dir = make_dir(args.options.hold.out.clone())?;
    let mut session = CompareSession {
        args,
        source,
        commands,
        dir,
        started_at: jiff::Timestamp::now().to_string(),
        profile: first.name,
        runs: Vec::new(),
        windows: Vec::new(),
    };
    let code = session.all(messages)?;
    if let (Some(code), true) = (code, session.runs.is_empty()) {
        // Nothing was measured; why was said.
        return Ok(code);
    }
    let comparison = session.comparison(code.is_none());
    session.write(&comparison, messages);
    messages.show(&result::table(&comparison));
    for (text, times) in warnings(&comparison.runs) {
        messages.warning(&format!("{text} (in {times} runs)"));
    }
    messages.say(&format!(
        "Results: {}",
        session.dir.join(COMPARE_JSON).display()
    ));
    if let Some(path) = args.options.hold.json.path() {
        put_json(path, &comparison, args.options.hold.overwrite.existing())?;
    }
    Ok(code.unwrap_or_else(|| exit::of_verdict(comparison.loads.verdict)))
}

/// Options of a single run that mean nothing for many.
fn refuse(options: &RunOptions) -> Result<(), BadInput> {
    let given = [
        (options.hold.no_out, "--no-out"),
        (options.at.is_some(), "--at"),
        (options.start_on.is_some(), "--start-on"),
        (options.hold.strict, "--strict"),
        (options.progress, "--progress"),
        (options.hold.dry_run, "--dry-run"),
    ];
    match given.iter().find(|(given, _)| *given) {
        Some((_, name)) => Err(BadInput(format!("{name} is not for compare"))),
        None => Ok(()),
    }
}

/// Where the load of each run comes from.
enum LoadSource {
    Constant(Loads),
    Profile(Arc<InputSource>),
}

impl LoadSource {
    fn find(args: &CompareArgs) -> Result<Self> {
        let constant = args
            .profile
            .to_str()
            .and_then(|text| units::loads(text).ok());
        match constant.filter(|_| !args.profile.exists()) {
            None => Ok(Self::Profile(Arc::new(reshape::source(&args.profile)?))),
            Some(loads) => {
                let r = &args.reshape;
                let shaped = r.from.is_some()
                    || r.map.is_some()
                    || r.gaps.is_some()
                    || r.end.is_some()
                    || r.scale_load.is_some()
                    || r.scale_time.is_some()
                    || r.resample.is_some()
                    || r.cut.is_some();
                if shaped {
                    Err(BadInput(
                        "a constant load is not reshaped: of these options it knows --cpus"
                            .to_owned(),
                    )
                    .into())
                } else {
                    Ok(Self::Constant(loads))
                }
            }
        }
    }

    fn load(&self, args: &CompareArgs) -> Result<(RunLoad, String)> {
        match self {
            Self::Constant(loads) => {
                let load = load::constant(loads, args.reshape.cpus.as_ref(), None)?;
                let about = load.name.clone();
                Ok((load, about))
            }
            Self::Profile(source) => {
                replay::prepare(Arc::clone(source), &args.reshape, args.repeat)
            }
        }
    }
}

struct CompareSession<'a> {
    args: &'a CompareArgs,
    source: LoadSource,
    commands: [Vec<OsString>; 2],
    dir: PathBuf,
    started_at: String,
    profile: String,
    runs: Vec<OneRun>,
    windows: Vec<Vec<AchievedRow>>,
}

impl CompareSession<'_> {
    fn all(&mut self, messages: &Messages) -> Result<Option<u8>> {
        let wanted = self.args.runs as usize;
        let most = wanted + self.args.extra.unwrap_or(self.args.runs) as usize;
        let mut watch = RunWatch::take()?;
        let (mut counted, mut pair) = (0, 0);
        while counted < wanted && pair < most {
            pair += 1;
            let turns = match pair % 2 {
                1 => [ComparedProgram::A, ComparedProgram::B],
                _ => [ComparedProgram::B, ComparedProgram::A],
            };
            for program in turns {
                if let Some(code) = self.run_once(&mut watch, pair, program, messages)? {
                    return Ok(Some(code));
                }
                counted = result::mark_counted(&mut self.runs, self.args.ignore_failure);
                // What was measured is not lost if we are killed now.
                self.write(&self.comparison(false), messages);
                // The other half of a spoilt pair would not count.
                if self
                    .runs
                    .last()
                    .is_some_and(|run| run.verdict != Verdict::Kept)
                {
                    messages.say(&format!(
                        "pair {pair} is spoilt and made again, if it may be"
                    ));
                    break;
                }
            }
        }
        Ok(None)
    }

    fn run_once(
        &mut self,
        watch: &mut RunWatch,
        pair: usize,
        program: ComparedProgram,
        messages: &Messages,
    ) -> Result<Option<u8>> {
        let number = self.runs.len() + 1;
        let name = format!("run-{number:02}-{}", program.name().to_lowercase());
        let dir = self.dir.join(&name);
        let options = RunOptions {
            hold: HoldOptions {
                out: Some(dir.clone()),
                json: JsonArgs::default(),
                command: self.command(program).to_vec(),
                ..self.args.options.hold.clone()
            },
            ..self.args.options.clone()
        };
        let (args, source) = (self.args, &self.source);
        let code = watch.run(&dir, || {
            let (load, _) = source.load(args)?;
            run::run(load, &options, &Messages::new(true, 0))
        })?;
        let one = read_run(&dir)
            .ok()
            .and_then(|run| OneRun::of(number, pair, program, &name, &run));
        let Some(one) = one else {
            return Ok(Some(match (watch.interrupted, code) {
                (true, _) => 130,
                (_, exit::USAGE | exit::NOT_POSSIBLE | exit::NOT_EXECUTABLE | exit::NOT_FOUND) => {
                    code
                }
                _ => {
                    Messages::error(&format!("{name} left no results (exit code {code})"));
                    exit::FAILED
                }
            }));
        };
        messages.say(&format!(
            "pair {pair} ({} wanted): {} {:.3} s, load {}",
            self.args.runs,
            program.name(),
            one.wall_s,
            one.verdict
        ));
        let failed = !one.is_success() && !self.args.ignore_failure;
        let how = match (one.exit_code, one.signal) {
            (_, Some(signal)) => format!("signal {signal}"),
            (code, None) => format!("exit code {}", code.unwrap_or(-1)),
        };
        self.runs.push(one);
        self.windows.push(
            read_achieved(&dir.join(sandbag_run::directory::ACHIEVED_CSV))
                .and_then(Iterator::collect)
                .unwrap_or_default(),
        );
        if watch.interrupted {
            return Ok(Some(130));
        }
        if failed {
            Messages::error(&format!(
                "{} failed ({how}); what it said is in {} (--ignore-failure goes on)",
                program.name(),
                dir.join(runs::OUTPUT).display()
            ));
            return Ok(Some(exit::FAILED));
        }
        Ok(None)
    }

    fn command(&self, program: ComparedProgram) -> &[OsString] {
        match program {
            ComparedProgram::A => &self.commands[0],
            ComparedProgram::B => &self.commands[1],
        }
    }

    /// Everything known so far.
    fn comparison(&self, over: bool) -> Comparison {
        let words = |program| -> Vec<String> {
            let words = self.command(program).iter();
            words
                .map(|word| word.to_string_lossy().into_owned())
                .collect()
        };
        let counted = |program| -> Vec<Vec<AchievedRow>> {
            let both = self.runs.iter().zip(&self.windows);
            both.filter(|(run, _)| run.counted && run.program == program)
                .map(|(_, rows)| rows.clone())
                .collect()
        };
        let (a, b) = (counted(ComparedProgram::A), counted(ComparedProgram::B));
        let windows = baseline::common_windows(a.iter().chain(&b));
        let spoilt: Vec<Verdict> = self.runs.iter().map(|run| run.verdict).collect();
        let wanted = self.args.runs as usize;
        let tolerance = self.args.options.hold.tolerance;
        let loads = baseline::judge(
            a.len(),
            wanted,
            &spoilt,
            baseline::loads(&a, &b, windows),
            windows,
            tolerance.mean_points,
        );
        Comparison {
            format: result::FORMAT,
            sandbag: env!("CARGO_PKG_VERSION"),
            started_at: self.started_at.clone(),
            arguments: sandbag_run::program::arguments(),
            profile: self.profile.clone(),
            method: self.args.options.method.clone(),
            tolerance,
            wanted,
            order: "A B, B A, ...",
            complete: over,
            a: result::side(ComparedProgram::A, &words(ComparedProgram::A), &self.runs),
            b: result::side(ComparedProgram::B, &words(ComparedProgram::B), &self.runs),
            ratios: result::ratios(&self.runs),
            loads,
            runs: self.runs.clone(),
        }
    }

    fn write(&self, comparison: &Comparison, messages: &Messages) {
        let path = self.dir.join(COMPARE_JSON);
        if let Err(error) = put_json(&path, comparison, Existing::Replace) {
            messages.warning(&error.line());
        }
    }
}

fn make_dir(wanted: Option<PathBuf>) -> Result<PathBuf> {
    let dir = wanted.unwrap_or_else(|| new_name("sandbag-compare", ""));
    fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    give_to_caller(&dir);
    Ok(dir)
}

fn warnings(runs: &[OneRun]) -> Vec<(&str, usize)> {
    let mut all: Vec<(&str, usize)> = Vec::new();
    for text in runs.iter().flat_map(|run| &run.warnings) {
        match all.iter_mut().find(|(known, _)| known == text) {
            Some((_, times)) => *times += 1,
            None => all.push((text, 1)),
        }
    }
    all
}

/// Splits at the first `--vs`; a later one belongs to the second command.
fn split(words: &[OsString]) -> Result<[Vec<OsString>; 2], BadInput> {
    let usage = "after -- come both programs: -- ./a ARGS --vs ./b ARGS";
    let Some(at) = words.iter().position(|word| word == "--vs") else {
        return Err(BadInput(format!("--vs is missing: {usage}")));
    };
    let (a, b) = (&words[..at], &words[at + 1..]);
    if a.is_empty() || b.is_empty() {
        let side = if a.is_empty() { "before" } else { "after" };
        return Err(BadInput(format!("no program {side} --vs: {usage}")));
    }
    Ok([a.to_vec(), b.to_vec()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn at_the_first_vs() {
        let [a, b] = split(&words("./a -x 1 --vs ./b --vs y")).unwrap();
        assert_eq!(a, words("./a -x 1"));
        assert_eq!(b, words("./b --vs y"));
    }

    #[test]
    fn both_programs_must_be_there() {
        for (text, says) in [
            ("./a ./b", "--vs is missing"),
            ("--vs ./b", "before --vs"),
            ("./a --vs", "after --vs"),
        ] {
            let error = split(&words(text)).unwrap_err();
            assert!(error.0.contains(says), "{}", error.0);
        }
    }
}
