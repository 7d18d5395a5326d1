// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exporter of one run: options, the process that starts it, and itself.

use std::fs;
use std::net::{TcpListener, ToSocketAddrs as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use sandbag_linux::child::{ChildSetup as _, ended_within};
use sandbag_linux::process::Process;
use sandbag_linux::{Root, interrupt};
use sandbag_run::child;
use sandbag_run::journal::RunInfo;
use sandbag_run::process_identity::ProcessIdentity;
use sandbag_run::registry::Registry;
use sandbag_run::run_process::RunId;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::messages::Messages;
use sandbag_ui::{BadInput, NotPossible, output};
use serde::{Deserialize, Serialize};

use super::server::{self, Page};
use super::text::{Form, text};
use crate::live::{Watch, WatchedRun};

/// First argument of an exporter.
pub const EXPORTER_VERB: &str = "__exporter";
/// Between two looks at the run.
const EVERY: Duration = Duration::from_secs(1);
/// How long it may take to end.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where it listens if only a port is given: other machines cannot connect.
const LOOPBACK: &str = "127.0.0.1";

/// Where the metrics of a run go.
#[derive(Debug, Clone, Default, Args)]
pub struct MetricsArgs {
    /// Serve metrics for Prometheus while the run goes on, at http://HOST:PORT/metrics
    /// [default HOST: 127.0.0.1]
    ///
    /// docs/reference/metrics.md lists them.
    #[arg(long, value_name = "[HOST:]PORT")]
    pub metrics: Option<String>,

    /// Write metrics once a second to FILE, which must end with .prom, for node_exporter's
    /// textfile collector; removed at the end
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
}

impl MetricsArgs {
    /// Whether metrics can go where they are wanted; nothing is left.
    ///
    /// # Errors
    /// What is wrong, or in the way.
    pub fn check(&self) -> Result<()> {
        self.open().map(drop)
    }

    /// The socket that listens, if one is wanted.
    fn open(&self) -> Result<Option<TcpListener>> {
        if let Some(file) = &self.metrics_file {
            let name = file.display();
            if file.extension().is_none_or(|end| end != "prom") {
                return Err(BadInput(format!("--metrics-file {name}: must end with .prom")).into());
            }
            output::check_parent(file).context("--metrics-file")?;
            if owner(file).is_some()
                && let Some(registry) = Registry::existing()
            {
                refuse_live(file, &registry.runs()?)?;
            }
        }
        self.metrics.as_deref().map(listen).transpose()
    }
}

/// The arguments of an exporter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExporterSetup {
    /// The run, by the name of its journal: a process number may be that of another run in
    /// another PID namespace.
    run: String,
    /// A socket that listens.
    listener: Option<RawFd>,
    file: Option<PathBuf>,
}

/// How the first line of a file begins that says which run writes it.
const OWNER: &str = "# sandbag run ";

/// What stands in the file of a run.
fn content(run: &str, seen: &[&WatchedRun]) -> String {
    format!("{OWNER}{run}\n{}", text(seen, Form::Prometheus))
}

/// The run that wrote a file, by the name of its journal.
fn owner(file: &Path) -> Option<String> {
    // Looking into a pipe would wait for one who writes.
    let text = file.is_file().then(|| fs::read_to_string(file))?.ok()?;
    let run = text.lines().next()?.strip_prefix(OWNER)?;
    Some(run.to_owned())
}

/// Refuses the file that another run writes.
fn refuse_live(file: &Path, runs: &[RunInfo]) -> Result<()> {
    let owner = owner(file).filter(|owner| *owner != RunId::own().to_string());
    let is_owner = |run: &&RunInfo| Some(run.id().to_string()) == owner;
    match runs.iter().find(is_owner) {
        None => Ok(()),
        Some(run) => Err(NotPossible(format!(
            "--metrics-file {}: run {} writes it; name another file",
            file.display(),
            run.pid
        ))
        .into()),
    }
}

/// Removes the file of a run, unless another one writes it; whether it was there.
fn remove(file: &Path, run: &str) -> bool {
    owner(file).as_deref() == Some(run) && fs::remove_file(file).is_ok()
}

/// The exporter of a run; dropping it ends it.
#[derive(Debug)]
pub struct Exporter {
    child: Child,
    /// `None`: it ended at once.
    named: Option<ProcessIdentity>,
    run: String,
    file: Option<PathBuf>,
    /// [`Exporter::fault`] has said why.
    is_told: bool,
}

impl Exporter {
    /// Starts it for the run of this process, if metrics are wanted.
    ///
    /// # Errors
    /// It cannot listen there, or write that.
    pub fn start(wanted: &MetricsArgs) -> Result<Option<Self>> {
        if wanted.metrics.is_none() && wanted.metrics_file.is_none() {
            return Ok(None);
        }
        let listener = wanted.open()?;
        let run = RunId::own().to_string();
        if let Some(file) = &wanted.metrics_file {
            let nothing = content(&run, &[]);
            output::rewrite(file, nothing).context("--metrics-file")?;
        }
        let setup = ExporterSetup {
            run: run.clone(),
            listener: listener.as_ref().map(|listener| listener.as_raw_fd()),
            file: wanted.metrics_file.clone(),
        };
        let inherit: Vec<RawFd> = setup.listener.into_iter().collect();
        let arguments = child::to_args(&setup);
        let mut command = child::own(EXPORTER_VERB, &arguments, &inherit, false);
        // Its errors are the user's to see, at once: we do not read them.
        command.stderr(Stdio::inherit());
        // It removes its file.
        command.program_dies_with_us(libc::SIGTERM);
        let child = command.spawn().context("the exporter of the metrics")?;
        let named = ProcessIdentity::of(&Root::default(), child.id())?;
        Ok(Some(Self {
            child,
            named,
            run,
            file: setup.file,
            is_told: false,
        }))
    }

    /// Why there are no new values, once. The file of one that has ended is removed: its values
    /// are old.
    pub fn fault(&mut self) -> Option<String> {
        if self.is_told {
            return None;
        }
        let state = self.state();
        let what = match state {
            None => "has ended before the run: there are no metrics any more",
            Some('T') => "stands still: the metrics are old",
            Some(_) => return None,
        };
        self.is_told = true;
        if state.is_none() {
            self.remove_file();
        }
        Some(format!("the exporter of the metrics {what}"))
    }

    /// What it does, as in `/proc/PID/stat`; `None` if it has ended.
    fn state(&mut self) -> Option<char> {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return None;
        }
        // Not by its number, which may be another's once the supervisor has reaped it.
        let named = self.named?;
        let stat = Process::new(&Root::default(), named.pid).stat().ok()?;
        let is_it = !stat.has_ended() && stat.times.start_ticks == named.start_ticks;
        is_it.then_some(stat.state)
    }

    fn remove_file(&self) {
        if let Some(file) = &self.file {
            remove(file, &self.run);
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let (Some(_), Some(named)) = (self.state(), self.named) {
            let _ = named.ask_to_end();
            // The supervisor reaps all children that end, this one perhaps as well.
            if !ended_within(&mut self.child, PATIENCE) {
                let _ = named.signal(libc::SIGKILL);
                let _ = ended_within(&mut self.child, PATIENCE);
                let seconds = PATIENCE.as_secs();
                Messages::error(&format!(
                    "the exporter of the metrics did not end within {seconds} s, and was killed"
                ));
            }
        }
        self.remove_file();
    }
}

fn listen(address: &str) -> Result<TcpListener> {
    let whole = if address.contains(':') {
        address.to_owned()
    } else {
        format!("{LOOPBACK}:{address}")
    };
    let mut found = whole.to_socket_addrs().map_err(|cause| {
        BadInput(format!(
            "--metrics {address}: {cause}; write PORT or HOST:PORT"
        ))
    })?;
    let found = found.next().context("an address")?;
    TcpListener::bind(found).map_err(|cause| {
        NotPossible(format!("--metrics {address}: {cause}: choose another port")).into()
    })
}

/// An exporter's life: until its supervisor is gone, or it is asked to end.
///
/// # Errors
/// In words.
pub fn run(arguments: &[String]) -> std::result::Result<(), String> {
    let setup: ExporterSetup = child::from_args(arguments)
        .ok_or_else(|| format!("{EXPORTER_VERB} is for sandbag's own use"))?;
    let outcome = export(&setup).map_err(|error| error.to_string());
    if let Some(file) = &setup.file {
        remove(file, &setup.run);
    }
    outcome
}

fn export(setup: &ExporterSetup) -> Result<()> {
    interrupt::watch()?;
    let page = Page::default();
    if let Some(fd) = setup.listener {
        // SAFETY: the supervisor handed this descriptor to this process alone.
        let listener = TcpListener::from(unsafe { OwnedFd::from_raw_fd(fd) });
        server::serve(listener, page.clone())?;
    }
    let (mut watch, mut has_failed) = (None, false);
    let mut next = Instant::now();
    loop {
        watch = match look(watch, Watch::open) {
            Ok(watch) => Some(watch),
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    let why = error.line();
                    Messages::error(&format!("no metrics until the run can be seen: {why}"));
                }
                None
            }
        };
        show(setup, &page, watch.as_ref());
        // Looks that were missed while the registry was locked are not made up for.
        next = Instant::now().max(next + EVERY);
        if interrupt::sleep_until(next).is_err() {
            return Ok(());
        }
    }
}

/// Another look, or the first one; an error while the registry is locked or too many files
/// are open, say. The next may succeed, so that is no reason to end.
fn look(before: Option<Watch>, open: impl FnOnce() -> Result<Watch>) -> Result<Watch> {
    match before {
        Some(mut watch) => watch.look().map(|()| watch),
        None => open(),
    }
}

/// Shows what was seen of the run: nothing rather than what is no longer so.
fn show(setup: &ExporterSetup, page: &Page, watch: Option<&Watch>) {
    let runs = watch.into_iter().flat_map(|watch| &watch.runs);
    let ours: Vec<_> = runs
        .filter(|seen| seen.run.id().to_string() == setup.run)
        .collect();
    if let Ok(mut page) = page.lock() {
        *page = text(&ours, Form::OpenMetrics);
    }
    if let Some(file) = &setup.file {
        // A full disk is no reason to end: the next write may succeed.
        let _ = output::rewrite(file, content(&setup.run, &ours));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use sandbag_run::journal::Journal;

    use super::*;

    #[test]
    fn a_look_that_fails_shows_nothing_and_another_one_is_taken() {
        let place = tempfile::tempdir().unwrap();
        let [dir, away] = ["r", "away"].map(|name| place.path().join(name));
        let registry = Registry::at(dir.clone()).unwrap();
        let info = RunInfo::of_this_process("test");
        let _run = Journal::create(&dir, info).unwrap();
        let page = Page::default();
        let setup = ExporterSetup {
            run: RunId::own().to_string(),
            listener: None,
            file: Some(place.path().join("x.prom")),
        };
        let shown = |watch: Option<&Watch>| {
            show(&setup, &page, watch);
            let file = fs::read_to_string(setup.file.as_ref().unwrap()).unwrap();
            (page.lock().unwrap().clone(), file)
        };
        let nothing = ("# EOF\n".to_owned(), format!("{OWNER}{}\n", setup.run));
        let open = || Watch::of(registry.clone());
        let mut watch = look(None, open).ok();
        assert!(shown(watch.as_ref()).0.contains("sandbag_run_info{"));
        // As one that is locked, without the wait for the lock.
        fs::rename(&dir, &away).unwrap();
        for _ in 0..2 {
            let why = look(watch.take(), open).unwrap_err().line();
            assert!(why.contains(dir.to_str().unwrap()), "{why}");
            assert_eq!(shown(None), nothing);
        }
        fs::rename(&away, &dir).unwrap();
        watch = look(watch, open).ok();
        assert!(shown(watch.as_ref()).1.contains("sandbag_run_info{"));
    }

    #[test]
    fn a_run_with_the_same_number_in_another_pid_namespace_is_not_shown() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("r");
        let registry = Registry::at(dir.clone()).unwrap();
        let info = RunInfo::of_this_process("test");
        let _run = Journal::create(&dir, info).unwrap();
        let page = Page::default();
        let shown = |run: String| {
            let setup = ExporterSetup {
                run,
                listener: None,
                file: None,
            };
            show(&setup, &page, Some(&Watch::of(registry.clone()).unwrap()));
            page.lock().unwrap().clone()
        };
        assert!(shown(RunId::own().to_string()).contains("sandbag_run_info{"));
        let elsewhere = format!("{}x1x1", std::process::id());
        assert_eq!(shown(elsewhere), "# EOF\n");
    }

    #[test]
    fn a_run_removes_its_own_file_also_where_its_exporter_has_ended() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("x.prom");
        let wanted = MetricsArgs {
            metrics: None,
            metrics_file: Some(file.clone()),
        };
        let start = || {
            // A program of tests ends when it is started as an exporter, and removes nothing.
            let exporter = Exporter::start(&wanted).unwrap().unwrap();
            assert_eq!(owner(&file), Some(RunId::own().to_string()));
            exporter
        };
        drop(start());
        assert!(!file.exists());
        let exporter = start();
        output::rewrite(&file, content("12x1x1", &[])).unwrap();
        drop(exporter);
        assert_eq!(owner(&file).as_deref(), Some("12x1x1"));
        assert!(!remove(&file, "13") && remove(&file, "12x1x1"));
    }

    /// An exporter with this script in place of its program, once it is in this state.
    fn exporter(script: &str, file: &Path, state: char) -> Exporter {
        let mut shell = Command::new("sh");
        let child = shell.args(["-c", script]).spawn().unwrap();
        let run = RunId::own().to_string();
        output::rewrite(file, content(&run, &[])).unwrap();
        let mut exporter = Exporter {
            named: ProcessIdentity::of(&Root::default(), child.id()).unwrap(),
            child,
            run,
            file: Some(file.to_owned()),
            is_told: false,
        };
        while exporter.state().is_some_and(|now| now != state) {
            std::thread::sleep(Duration::from_millis(5));
        }
        exporter
    }

    #[test]
    fn an_exporter_that_stands_still_is_told_and_keeps_nobody_waiting() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("x.prom");
        let mut stands = exporter("kill -STOP $$; exec sleep 600", &file, 'T');
        let fault = stands.fault().unwrap();
        assert!(fault.contains("stands still"), "{fault}");
        assert_eq!(stands.fault(), None);
        let pid = stands.child.id();
        let begin = Instant::now();
        drop(stands);
        assert!(begin.elapsed() < Duration::from_secs(30));
        assert_eq!(ProcessIdentity::of(&Root::default(), pid).unwrap(), None);
        assert!(!file.exists());
    }

    #[test]
    fn an_exporter_that_does_not_end_is_killed() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("x.prom");
        let deaf = exporter("trap '' TERM; while :; do sleep 0.1; done", &file, 'S');
        let pid = deaf.child.id();
        drop(deaf);
        assert_eq!(ProcessIdentity::of(&Root::default(), pid).unwrap(), None);
    }

    #[test]
    fn an_exporter_that_was_killed_is_told_once_and_leaves_no_old_file() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("x.prom");
        let mut killed = exporter("exec sleep 600", &file, 'S');
        assert_eq!(killed.fault(), None);
        assert!(file.exists());
        killed.named.unwrap().signal(libc::SIGKILL).unwrap();
        killed.child.wait().unwrap();
        let fault = killed.fault().unwrap();
        assert!(fault.contains("ended before the run"), "{fault}");
        assert!(!file.exists());
        assert_eq!(killed.fault(), None);
    }

    #[test]
    fn a_file_that_a_live_run_writes_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("x.prom");
        let run = RunInfo {
            pid: 11,
            ..RunInfo::of_this_process("test")
        };
        let runs = [run, RunInfo::of_this_process("test")];
        assert!(refuse_live(&file, &runs).is_ok());
        output::rewrite(&file, content(&runs[0].id().to_string(), &[])).unwrap();
        let why = refuse_live(&file, &runs).unwrap_err().to_string();
        assert!(why.contains("run 11 writes it"), "{why}");
        // It has ended; it is our own.
        assert!(refuse_live(&file, &runs[1..]).is_ok());
        output::rewrite(&file, content(&RunId::own().to_string(), &[])).unwrap();
        assert!(refuse_live(&file, &runs).is_ok());
    }

    #[test]
    fn a_port_in_use_and_no_port_are_said() {
        let first = listen("0").unwrap();
        let taken = first.local_addr().unwrap().port().to_string();
        let why = |address: &str| listen(address).unwrap_err().to_string();
        assert!(first.local_addr().unwrap().ip().is_loopback());
        assert!(
            why(&taken).contains("choose another port"),
            "{}",
            why(&taken)
        );
        assert!(why("x").contains("write PORT or HOST:PORT"), "{}", why("x"));
        assert!(why("70000").contains("write PORT"), "{}", why("70000"));
    }

    #[test]
    fn a_file_that_node_exporter_would_not_read_is_refused() {
        let wanted = MetricsArgs {
            metrics: None,
            metrics_file: Some("x.txt".into()),
        };
        let why = Exporter::start(&wanted).unwrap_err().to_string();
        assert!(why.contains("must end with .prom"), "{why}");
        assert!(Exporter::start(&MetricsArgs::default()).unwrap().is_none());
    }
}
