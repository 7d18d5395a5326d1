// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run, from options to run directory: what `load` and `replay` share.

pub mod machine;
mod observer;
pub mod options;
mod record;
mod schedule;

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sandbag_burner::command::{CommandSpec, User};
use sandbag_burner::layout::{Kind, Layout};
use sandbag_burner::method;
use sandbag_burner::registry::Registry;
use sandbag_burner::supervisor::{self, End, Plan};
use sandbag_kernel::topology::Topology;
use sandbag_kernel::{CpuList, Root};
use sandbag_profile::BoxSteps;
use sandbag_report::run::Run;
use sandbag_report::{terminal, write};

use crate::exit;
use crate::messages::Messages;
use crate::units::{Cpus, nanos};
use observer::Collector;
use options::RunOptions;

/// The load of a run.
pub struct Load {
    /// The CPUs, in the order of the profile's columns.
    pub cpus: Vec<u32>,
    /// The profile, for these CPUs.
    pub steps: BoxSteps,
    /// Its length; `None` if it has no end.
    pub length_ns: Option<u64>,
    /// Its highest load, percent.
    pub highest_pct: f64,
    /// How it is called in reports.
    pub name: String,
    /// What its user should know.
    pub warnings: Vec<String>,
}

/// Makes the run and everything it leaves; returns the exit code.
pub fn run(load: Load, options: &RunOptions, messages: &Messages) -> Result<u8> {
    let root = Root::default();
    let method = method::by_name(&options.method).context("no such method")?;
    let topology = Topology::read(&root)?;
    let mut warnings = load.warnings;
    let served_pct = method.serves(load.highest_pct / 100.0) * 100.0;
    if served_pct < load.highest_pct - 1e-9 {
        warnings.push(format!(
            "{} reaches {served_pct} % at most; where {} % is asked, that is served",
            method.name(),
            load.highest_pct
        ));
    }
    let loaded: CpuList = load.cpus.iter().copied().collect();
    let layout = Layout::find(&root, options.cgroup.as_deref())?;
    if method.name() == "quota" && layout.kind() == Kind::V2Systemd {
        return Err(sandbag_burner::Error::NotPossible {
            what: "quota needs a burst, which systemd cannot set on its units".into(),
            remedy: "use --method pace, or give a delegated group with --cgroup".into(),
        }
        .into());
    }
    let machine = machine::describe(&root, &topology, &layout.kind().to_string());
    warnings.extend(machine::unrepeatable(&machine, &topology, &loaded));
    if options.dry_run {
        return dry_run(
            &load.name,
            load.length_ns,
            &loaded,
            &*method,
            &layout,
            options,
        );
    }
    let user = match options.as_root {
        true => None,
        false => User::behind_sudo(),
    };
    let dir = match options.no_out {
        true => None,
        false => make_run_dir(options.out.clone(), user.as_ref(), messages),
    };
    warnings.iter().for_each(|text| messages.warning(text));
    let start_at_ns = options
        .at
        .as_deref()
        .map(schedule::monotonic_at)
        .transpose()?;
    let started_at = jiff::Timestamp::now();
    let mut collector = Collector::new(
        &load.cpus,
        !options.command.is_empty(),
        load.length_ns,
        dir.as_deref(),
        options.windows.is_some(),
        messages,
    );
    if options.progress {
        collector.always_show_progress();
    }
    let facts = record::Facts {
        machine,
        method: record::method_used(&*method),
        profile: load.name.clone(),
        started_at: started_at.to_string(),
        cpus: load.cpus.clone(),
        command: words(&options.command),
        tolerance: options.tolerance,
    };
    let outcome = supervisor::run(
        Plan {
            root: root.clone(),
            cpus: load.cpus,
            steps: load.steps,
            highest_pct: load.highest_pct,
            method,
            layout,
            load: load.name,
            command: (!options.command.is_empty()).then(|| CommandSpec {
                arguments: options.command.clone(),
                user: user.clone(),
                kill: options.kill,
            }),
            pin: options.pin.as_ref().map(|cpus: &Cpus| cpus.on(&topology)),
            settle: !options.no_settle,
            start_at_ns,
            timeout_ns: options.timeout.map(nanos),
            supervisor_cpu: options.supervisor_cpu,
        },
        &Registry::open()?,
        &mut collector,
    );
    warnings.extend(collector.close());
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            // An empty run directory helps nobody.
            if let Some(dir) = &dir {
                let _ = fs::remove_file(dir.join(write::ACHIEVED_CSV));
                let _ = fs::remove_file(dir.join("achieved-100ms.csv"));
                let _ = fs::remove_dir(dir);
            }
            return Err(error.into());
        }
    };
    let run = record::record(facts, &outcome, &collector, warnings);
    leave(&run, dir.as_deref(), user.as_ref(), options, messages);
    Ok(code(&run, outcome.end, options.strict))
}

/// Writes the run directory, the JSON and the table.
fn leave(
    run: &Run,
    dir: Option<&Path>,
    user: Option<&User>,
    options: &RunOptions,
    messages: &Messages,
) {
    if let Some(dir) = dir {
        // The load was held whether or not the disk is full.
        if let Err(error) = write::write_run(dir, run) {
            messages.warning(&error.to_string());
        }
        if let Some(user) = user {
            give_to(dir, user);
        }
    }
    messages.say(&terminal::summary_table(run));
    if let Some(dir) = dir {
        messages.say(&format!(
            "Report: {}",
            dir.join(write::REPORT_HTML).display()
        ));
    }
    if let Some(path) = &options.json
        && let Err(error) = write_json(run, path)
    {
        messages.warning(&format!("{}: {error}", path.display()));
    }
}

fn write_json(run: &Run, path: &Path) -> std::io::Result<()> {
    let mut text = serde_json::to_vec_pretty(run)?;
    text.push(b'\n');
    match path == Path::new("-") {
        true => std::io::stdout().write_all(&text),
        false => fs::write(path, text),
    }
}

/// The exit code of a run that was made.
fn code(run: &Run, end: End, strict: bool) -> u8 {
    let verdict = exit::of_verdict(run.verdict);
    if end == End::TimedOut {
        return exit::TIMED_OUT;
    }
    match &run.command {
        None if end == End::Interrupted => 130,
        None => verdict,
        Some(command) => match (command.exit_code, command.signal) {
            (Some(0), _) if strict => verdict,
            (Some(code), _) => u8::try_from(code).unwrap_or(exit::OUR_FAILURE),
            (None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(exit::OUR_FAILURE),
            (None, None) => 130,
        },
    }
}

fn words(command: &[OsString]) -> Vec<String> {
    command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// The run directory, made; a disk that is full or not ours costs the files,
/// not the load.
fn make_run_dir(
    wanted: Option<PathBuf>,
    user: Option<&User>,
    messages: &Messages,
) -> Option<PathBuf> {
    let named = wanted.is_some();
    let dir = wanted.unwrap_or_else(|| {
        let now = jiff::Timestamp::now()
            .strftime("%Y%m%dT%H%M%SZ")
            .to_string();
        let plain = PathBuf::from(format!("sandbag-run-{now}"));
        // Two runs in the same second, on different CPUs.
        match plain.exists() {
            false => plain,
            true => PathBuf::from(format!("sandbag-run-{now}-{}", std::process::id())),
        }
    });
    let made = match named {
        true => fs::create_dir_all(&dir),
        false => fs::create_dir(&dir),
    };
    match made {
        Ok(()) => {
            if let Some(user) = user {
                give_to(&dir, user);
            }
            Some(dir)
        }
        Err(error) => {
            messages.warning(&format!(
                "{}: {error}; the run is not written",
                dir.display()
            ));
            None
        }
    }
}

/// Under sudo the calling user owns what the run leaves.
fn give_to(dir: &Path, user: &User) {
    let ids = (Some(user.uid), Some(user.gid));
    let _ = std::os::unix::fs::chown(dir, ids.0, ids.1);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let _ = std::os::unix::fs::lchown(entry.path(), ids.0, ids.1);
    }
}

fn dry_run(
    name: &str,
    length_ns: Option<u64>,
    cpus: &CpuList,
    method: &dyn method::Method,
    layout: &Layout,
    options: &RunOptions,
) -> Result<u8> {
    let mut out = std::io::stdout();
    let length = length_ns.map_or("until it is ended".to_owned(), |ns| {
        format!(
            "for {}",
            humantime::format_duration(std::time::Duration::from_nanos(ns))
        )
    });
    writeln!(out, "would put {name} on CPUs {cpus} {length}")?;
    writeln!(out, "by {}: {}", method.name(), method.about())?;
    writeln!(
        out,
        "with groups in {} ({})",
        layout.hierarchies().cpu.display(),
        layout.kind()
    )?;
    if !options.command.is_empty() {
        writeln!(out, "beside: {}", words(&options.command).join(" "))?;
    }
    Ok(exit::KEPT)
}
