// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag record`: the load of each CPU as a profile; with CMD the opposing
//! load, what everything except CMD put on them.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::record::{
    Error, LiveClock, MIN_INTERVAL_NS, RecordClock, RecordOptions, RecordReport, Recorder, Wake,
};
use clap::Args;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sandbag_input::open_descriptor;
use sandbag_linux::procstat::ProcStat;
use sandbag_linux::stop_signals::StopSignals;
use sandbag_linux::topology::Topology;
use sandbag_linux::user::User;
use sandbag_linux::{CpuList, Root, file_limit, machine, signals};
use sandbag_run::command::CommandSpec;
use sandbag_run::directory::make_new;
use sandbag_run::layout::Layout;
use sandbag_run::registry::Registry;
use sandbag_run::wrapped_command::{WaitEnd, WrappedCommand};
use sandbag_ui::failure::{Context as _, Result};

use sandbag_profile::command::reshape::Steal;
use sandbag_run::program;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{Overwrite, refuse_ending};
use sandbag_ui::progress::Progress;
use sandbag_ui::units::{self, Cpus, nanos};

/// Record the load of each CPU as a profile
///
/// With CMD it is the opposing load: what everything except CMD put on the
/// CPUs while CMD ran.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// How long; without it until CMD ends, or until Ctrl-C
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,

    /// Length of a row; at least 100ms
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = time)]
    interval: Duration,

    /// The file to write, or - for standard output
    /// [default: sandbag-load-<time>.csv]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    overwrite: Overwrite,

    /// Which CPUs: 0,2-3, or all, even, odd, core (one per core) [default:
    /// those online at the beginning]
    #[arg(short, long, value_name = "LIST", value_parser = units::cpus)]
    cpus: Option<Cpus>,

    /// What to do with steal: leave it out and record it in columns of its own,
    /// or add it to the load
    #[arg(long, value_name = "WHAT", default_value = "exclude")]
    steal: Steal,

    /// With sudo, run CMD as root and not as the calling user
    #[arg(long)]
    as_root: bool,

    /// Make CMD's group in this cgroup, which was delegated to us
    #[arg(long, value_name = "PATH", requires = "command")]
    cgroup: Option<PathBuf>,

    /// The program to record beside, and its arguments; needs root, or a
    /// delegated v2 group and CAP_PERFMON
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The kernel counts in ticks of 10 ms; less than ten of them tell no load.
fn time(text: &str) -> std::result::Result<Duration, String> {
    match units::duration(text)? {
        time if nanos(time) < MIN_INTERVAL_NS => {
            Err("must be 100ms or longer: the kernel counts busy time in ticks of 10 ms".to_owned())
        }
        time => Ok(time),
    }
}

impl RecordArgs {
    pub fn has_command(&self) -> bool {
        !self.command.is_empty()
    }

    fn options(&self, root: &Root) -> Result<RecordOptions> {
        let topology = Topology::read(root)?;
        let cpus = self.cpus.as_ref();
        let cpus = cpus.map(|cpus| cpus.some(&topology, "--cpus"));
        let cpus = cpus.transpose()?;
        if let Some(cpu) = cpus
            .iter()
            .flat_map(CpuList::iter)
            .find(|cpu| !topology.present.contains(*cpu))
        {
            return Err(sandbag_run::Error::NoCpu {
                cpu,
                state: "not present",
                online: topology.online,
            }
            .into());
        }
        Ok(RecordOptions {
            interval_ns: nanos(self.interval),
            duration_ns: self.duration.map(nanos),
            cpus,
            steal_as_load: self.steal == Steal::Load,
            host: machine::host(root),
        })
    }
}

pub fn main(args: &RecordArgs, messages: &Messages) -> Result<u8> {
    program::check(&args.command)?;
    args.overwrite.check(args.output.as_deref())?;
    if let Some(path) = &args.output {
        refuse_ending(path, &["csv"])?;
    }
    let root = Root::default();
    let options = args.options(&root)?;
    let user = User::behind_sudo().filter(|_| !args.as_root);
    if !args.has_command() {
        record_machine(args, &root, options, user.as_ref(), messages)
    } else {
        record_command(args, &root, options, user, messages)
    }
}

fn record_machine(
    args: &RecordArgs,
    root: &Root,
    options: RecordOptions,
    user: Option<&User>,
    messages: &Messages,
) -> Result<u8> {
    // First: a named pipe is opened once it has a reader, and a signal ends that wait.
    let mut output = Output::open(args.output.as_deref(), user)?;
    let signals = StopSignals::block()?;
    let ending = Ending::new(signals.descriptor()?, None);
    let mut clock = Sampling::new(&ending, options.duration_ns)?;
    if !output.is_stdout() {
        clock.progress = Progress::start(messages, options.duration_ns.is_some());
    }
    let recorder = Recorder::new(ProcStat::open(root)?, clock, options)?;
    output.begin()?;
    let recorded = recorder.run(output.rows(&ending)?, None);
    // Answered here, so that it does not end us on the way out.
    while signals.take()?.is_some() {}
    match recorded {
        Ok(report) => say(&report, &output, "load", messages),
        Err(error) if output.reader_left(&error) => {}
        Err(error) => return Err(error).context(output.name()),
    }
    Ok(exit::KEPT)
}

fn record_command(
    args: &RecordArgs,
    root: &Root,
    options: RecordOptions,
    user: Option<User>,
    messages: &Messages,
) -> Result<u8> {
    // The clock of CMD's group takes two files for each CPU.
    file_limit::raise();
    let layout = Layout::find(root, args.cgroup.as_deref())?;
    let stat = ProcStat::open(root)?;
    let mut output = Output::open(args.output.as_deref(), user.as_ref())?;
    let spec = CommandSpec {
        arguments: args.command.clone(),
        user,
        kill: false,
        environment: Vec::new(),
        word_on: None,
    };
    let wrapped = WrappedCommand::admit(root, &layout, &Registry::open()?, &spec, "recording")?;
    let wrapped = RefCell::new(wrapped);
    let ending = Ending::new(wrapped.borrow().descriptor()?, Some(&wrapped));
    let clock = Sampling::new(&ending, None)?;
    let asked_ns = options.duration_ns;
    let recorder = Recorder::new(stat, clock, options)?;
    let command = wrapped.borrow().clock(root, recorder.cpus())?;
    wrapped.borrow_mut().go()?;
    // CMD runs from here on and is waited for, also if the recording fails.
    let recorded = match output.begin().and_then(|()| output.rows(&ending)) {
        Ok(rows) => recorder.run(rows, Some(command)),
        Err(error) => {
            drop(recorder);
            Err(Error::Output(error))
        }
    };
    let mut wrapped = wrapped.into_inner();
    if wrapped.answer().is_none() {
        messages.detail("the recording is over; CMD goes on");
    }
    let over = wrapped.wait();
    for warning in wrapped.leave() {
        messages.warning(&warning);
    }
    match recorded {
        Ok(report) => {
            say(&report, &output, "opposing load", messages);
            let is_short = |asked: &u64| report.length_ns + MIN_INTERVAL_NS <= *asked;
            if let Some(asked_ns) = asked_ns.filter(is_short) {
                messages.warning(&format!(
                    "CMD ended first: {:.1} of {:.1} s were recorded",
                    report.length_ns as f64 / 1e9,
                    asked_ns as f64 / 1e9
                ));
            }
        }
        Err(error) if output.reader_left(&error) => {}
        Err(error) => return Err(error).context(output.name()),
    }
    Ok(match over? {
        WaitEnd::Interrupted => 130,
        WaitEnd::Ended(how) => exit::of_command(how.exit_code, how.signal),
    })
}

fn say(report: &RecordReport, output: &Output, what: &str, messages: &Messages) {
    let cpus: CpuList = report.cpus.iter().map(|cpu| cpu.cpu).collect();
    messages.say(&format!(
        "{}: {what} of CPUs {cpus}, {} samples in {:.1} s, {} late (worst {:.1} ms), {} missed; \
         recording took {:.3} % of one CPU",
        output.name(),
        report.samples,
        report.length_ns as f64 / 1e9,
        report.late,
        report.worst_late_ns as f64 / 1e6,
        report.missed,
        report.cost_pct(),
    ));
    let number = |pct: Option<f64>| pct.map_or("unknown".to_owned(), |pct| format!("{pct:.2} %"));
    for cpu in &report.cpus {
        messages.say(&format!(
            "  CPU {}: mean {what} {}, steal {}",
            cpu.cpu,
            number(cpu.load_pct),
            number(cpu.steal_pct)
        ));
    }
    for warning in report.warnings() {
        messages.warning(&warning);
    }
}

/// Where the rows go. What the file held before stays until the recording
/// begins, and a new file without a recording does not stay at all.
struct Output {
    file: File,
    /// `None`: standard output.
    path: Option<PathBuf>,
    /// Of a descriptor that was inherited: the program that opened it chose its position.
    keeps: bool,
    is_new: bool,
    begun: bool,
}

impl Output {
    fn open(path: Option<&Path>, user: Option<&User>) -> Result<Self> {
        let inherited = |file: File, path: Option<&Path>| Self {
            file,
            path: path.map(Path::to_owned),
            keeps: true,
            is_new: false,
            begun: false,
        };
        if path == Some(Path::new("-")) {
            let file = io::stdout().as_fd().try_clone_to_owned()?.into();
            return Ok(inherited(file, None));
        }
        let failed = |path: &Path| {
            format!(
                "{}: the recording cannot be written there (-o FILE gives another place)",
                path.display()
            )
        };
        let (path, is_new, opened) = match path {
            None => {
                let create = |path: &Path| File::create_new(path);
                let (path, opened) = make_new("sandbag-load", ".csv", create);
                (path, true, opened)
            }
            Some(path) => {
                if let Some(file) = open_descriptor(path) {
                    return Ok(inherited(file.with_context(|| failed(path))?, Some(path)));
                }
                let is_new = !path.exists();
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(false);
                (path.to_owned(), is_new, options.open(path))
            }
        };
        let output = Self {
            file: opened.with_context(|| failed(&path))?,
            path: Some(path),
            keeps: false,
            is_new,
            begun: false,
        };
        if let (Some(user), true) = (user, is_new) {
            // Under sudo the calling user owns what we leave.
            std::os::unix::fs::fchown(&output.file, Some(user.uid), Some(user.gid))?;
        }
        Ok(output)
    }

    fn begin(&mut self) -> io::Result<()> {
        self.begun = true;
        // A pipe or a device has nothing to take away.
        if !self.keeps && self.file.metadata()?.is_file() {
            self.file.set_len(0)
        } else {
            self.file.flush()
        }
    }

    /// Writes rows to it until the recording is asked to end.
    fn rows<'a>(&'a self, ending: &'a Ending<'a>) -> io::Result<RowWriter<'a>> {
        Ok(RowWriter {
            file: &self.file,
            never_waits: self.file.metadata()?.is_file(),
            ending,
        })
    }

    fn is_stdout(&self) -> bool {
        self.path.is_none()
    }

    fn name(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => "standard output".to_owned(),
        }
    }

    /// A reader that has seen enough, such as head.
    fn reader_left(&self, error: &Error) -> bool {
        matches!(error, Error::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe)
            && self.is_stdout()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let (true, false, Some(path)) = (self.is_new, self.begun, &self.path) {
            let _ = fs::remove_file(path);
        }
    }
}

/// What ends a recording: a signal, or with CMD, to which signals are passed on, its end.
struct Ending<'a> {
    /// Readable when there is something to answer.
    signals: OwnedFd,
    wrapped: Option<&'a RefCell<WrappedCommand>>,
    /// A signal asked to end, CMD or us.
    is_asked: Cell<bool>,
}

impl<'a> Ending<'a> {
    fn new(signals: OwnedFd, wrapped: Option<&'a RefCell<WrappedCommand>>) -> Self {
        Self {
            signals,
            wrapped,
            is_asked: Cell::new(false),
        }
    }

    /// Answers what came; whether the recording is over.
    fn is_over(&self) -> bool {
        // Before the answer, which takes the signals.
        let is_asked = self.is_asked.get() || signals::is_end_pending();
        self.is_asked.set(is_asked);
        match self.wrapped {
            Some(wrapped) => wrapped.borrow_mut().answer().is_some(),
            None => is_asked,
        }
    }
}

/// How long a reader that takes nothing is waited for once a signal asked to end.
const PATIENCE_MS: u16 = 2000;

/// Writes rows without being deaf to signals: a reader that takes nothing, such as a
/// connection that stalled, would otherwise keep us in write(2), where blocked signals wait.
struct RowWriter<'a> {
    file: &'a File,
    never_waits: bool,
    ending: &'a Ending<'a>,
}

impl RowWriter<'_> {
    /// Waits until something can be written.
    fn wait(&self) -> io::Result<()> {
        loop {
            // Without such a signal the reader may take its time, also after the end of CMD.
            let is_to_end = self.ending.is_over() && self.ending.is_asked.get();
            let mut fds = [
                PollFd::new(self.file.as_fd(), PollFlags::POLLOUT),
                PollFd::new(self.ending.signals.as_fd(), PollFlags::POLLIN),
            ];
            let polled = if is_to_end {
                poll(&mut fds[..1], PollTimeout::from(PATIENCE_MS))
            } else {
                poll(&mut fds, PollTimeout::NONE)
            };
            match polled {
                Ok(0) => {
                    let seconds = PATIENCE_MS / 1000;
                    let why = format!("the reader took nothing for {seconds} s after a signal");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                Ok(_) if fds[0].any().unwrap_or(true) => return Ok(()),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Write for RowWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.file;
        if self.never_waits {
            return file.write(bytes);
        }
        self.wait()?;
        // A pipe that has room takes this much at once.
        file.write(&bytes[..bytes.len().min(libc::PIPE_BUF)])
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut file = self.file;
        file.flush()
    }
}

/// The recorder's clock; while it waits, what concerns the command is
/// answered and progress is shown.
struct Sampling<'a> {
    inner: LiveClock,
    progress: Option<Progress>,
    began_ns: u64,
    length_ns: Option<u64>,
    samples: u64,
    ending: &'a Ending<'a>,
}

impl<'a> Sampling<'a> {
    fn new(ending: &'a Ending<'a>, length_ns: Option<u64>) -> io::Result<Self> {
        let inner = LiveClock::new(vec![ending.signals.try_clone()?])?;
        Ok(Self {
            began_ns: inner.now_ns(),
            inner,
            progress: None,
            length_ns,
            samples: 0,
            ending,
        })
    }
}

impl RecordClock for Sampling<'_> {
    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn wait_until(&mut self, deadline_ns: u64) -> io::Result<Wake> {
        let passed_ns = self.now_ns() - self.began_ns;
        if let Some(progress) = &mut self.progress {
            let length_ns = self.length_ns.unwrap_or(u64::MAX);
            let share = passed_ns as f64 / length_ns as f64;
            progress.update(share, &format!("{} samples", self.samples));
        }
        self.samples += 1;
        while !self.ending.is_over() {
            if self.inner.wait_until(deadline_ns)? == Wake::Due {
                return Ok(Wake::Due);
            }
            // A signal for the command, or the end of another child.
        }
        Ok(Wake::Stopped)
    }

    fn cpu_ns(&self) -> u64 {
        self.inner.cpu_ns()
    }

    fn suspended_ns(&self) -> u64 {
        self.inner.suspended_ns()
    }

    fn date(&self) -> jiff::Timestamp {
        self.inner.date()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;

    use nix::fcntl::{FcntlArg, fcntl};
    use nix::sys::signal::{SigHandler, Signal, raise, signal};

    use super::*;

    /// A pipe that holds one page.
    fn small_pipe() -> (io::PipeReader, Output) {
        let (reader, writer) = io::pipe().unwrap();
        fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
        let output = Output {
            file: OwnedFd::from(writer).into(),
            path: None,
            keeps: true,
            is_new: false,
            begun: false,
        };
        (reader, output)
    }

    #[test]
    fn a_signal_ends_waiting_for_a_reader_that_takes_nothing() {
        // A shell ignores it for what it starts in the background.
        // SAFETY: the default is no handler.
        unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) }.unwrap();
        let (mut reader, output) = small_pipe();
        let signals = StopSignals::block().unwrap();
        let ending = Ending::new(signals.descriptor().unwrap(), None);
        let mut rows = output.rows(&ending).unwrap();
        rows.write_all(&[b'x'; 4096]).unwrap();
        assert!(!ending.is_over());
        raise(Signal::SIGINT).unwrap();
        let stalled = rows.write_all(b"row\n");
        // A reader that takes it gets the rest after the signal.
        reader.read_exact(&mut [0; 4096]).unwrap();
        let taken = rows.write_all(b"row\n");
        // Before a failure: it would be delivered.
        signals.take().unwrap();
        let error = stalled.unwrap_err().to_string();
        assert_eq!(error, "the reader took nothing for 2 s after a signal");
        taken.unwrap();
        let mut rest = [0; 4];
        reader.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"row\n");
    }

    #[test]
    fn a_slow_reader_gets_every_byte() {
        let (mut reader, output) = small_pipe();
        let text: Vec<u8> = (0..50_000u32).map(|n| n as u8).collect();
        let read = std::thread::spawn(move || {
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            read
        });
        let (no_signal, _open) = io::pipe().unwrap();
        let ending = Ending::new(no_signal.into(), None);
        output.rows(&ending).unwrap().write_all(&text).unwrap();
        drop(output);
        assert!(read.join().unwrap() == text);
    }

    #[test]
    fn a_file_that_a_descriptor_appends_to_keeps_what_it_holds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("week.csv");
        let record = |name: &Path| {
            let mut output = Output::open(Some(name), None).unwrap();
            output.begin().unwrap();
            output.file.write_all(b"new\n").unwrap();
            fs::read_to_string(&path).unwrap()
        };
        fs::write(&path, "old\n").unwrap();
        let append = OpenOptions::new().append(true).open(&path).unwrap();
        let name = format!("/dev/fd/{}", append.as_raw_fd());
        assert_eq!(record(Path::new(&name)), "old\nnew\n");
        // By its name it is replaced.
        assert_eq!(record(&path), "new\n");
    }
}
