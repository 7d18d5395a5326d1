// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `prometheus+http://...`: what a real Prometheus scraped of a real
//! node_exporter, both started here, beside what `/proc/stat` says of the same
//! time.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandbag_machine_tests::stat::{self, CpuTimes};

use crate::prelude::*;
use crate::record_command::Recording;

cases! { CASES: servers; a_prometheus_is_asked_for_a_profile }

pub const SERVER: &str = "prometheus";
const EXPORTER: &str = "prometheus-node-exporter";
/// How long is recorded. A program is busy in the middle half.
const RECORDED: Duration = Duration::from_secs(10);
/// A rate is the mean of so much time before it.
const BEFORE: Duration = Duration::from_secs(3);
/// How far a mean may be off, points. What was scraped once a second is taken
/// for what was so up to a second later.
const POINTS: f64 = 12.0;

fn servers() -> Result<(), String> {
    case::only_in_all()?;
    guest::sandbag()?;
    have(&[SERVER, EXPORTER, "setpriv", "taskset", "timeout"])
}

/// A server of ours; it ends with us, whatever becomes of us.
pub struct Daemon(Child);

impl Daemon {
    pub fn start(place: &MachinePlace, port: u16, words: &str) -> Result<Self> {
        let words = words.split(' ');
        let name = words.clone().next().unwrap_or_default();
        let mut command =
            place.program("setpriv", ["--pdeathsig", "KILL"].into_iter().chain(words));
        let log = fs::File::create(place.path(&format!("{name}.log")))?;
        let this = Self(command.stdout(Stdio::null()).stderr(log).spawn()?);
        wait_for(name, || TcpStream::connect(("127.0.0.1", port)).ok())?;
        Ok(this)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill(pid_of(&self.0), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Both, and the port of the one to ask and the name of the machine.
fn start(place: &MachinePlace) -> Result<([Daemon; 2], u16, String)> {
    let (ask, scrape) = (free_port()?, free_port()?);
    let instance = format!("127.0.0.1:{scrape}");
    let options = "--collector.disable-defaults --collector.cpu";
    let exporter = format!("{EXPORTER} {options} --web.listen-address={instance}");
    let exporter = Daemon::start(place, scrape, &exporter)?;
    fs::write(
        place.path("prometheus.yml"),
        format!(
            "global: {{scrape_interval: 1s}}\n\
             scrape_configs:\n\
             - job_name: node\n\
             \x20 static_configs: [{{targets: ['{instance}']}}]\n"
        ),
    )?;
    let options = "--config.file=prometheus.yml --storage.tsdb.path=data --log.level=error";
    let server = format!("{SERVER} {options} --web.listen-address=127.0.0.1:{ask}");
    let server = Daemon::start(place, ask, &server)?;
    Ok(([server, exporter], ask, instance))
}

fn now() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

/// When, and the times of all CPUs then.
struct Busy {
    at: f64,
    cpus: CpuTimes,
}

/// How busy a CPU was on average from one time to another, percent.
fn mean(seen: &[Busy], cpu: u32, from: f64, to: f64) -> f64 {
    let busy_s = |busy: &Busy| busy.cpus.get(&Some(cpu)).map_or(0.0, |time| time.busy_s);
    let at = |time: f64| {
        let next = seen.partition_point(|busy| busy.at < time);
        let (a, b) = match next {
            0 => return busy_s(&seen[0]),
            n if n == seen.len() => return busy_s(&seen[n - 1]),
            n => (&seen[n - 1], &seen[n]),
        };
        let part = (time - a.at) / (b.at - a.at);
        busy_s(a) + part * (busy_s(b) - busy_s(a))
    };
    100.0 * (at(to) - at(from)) / (to - from)
}

/// Looks every 100 ms.
fn watch(seen: &mut Vec<Busy>, time: Duration) -> Result<()> {
    let until = now()? + time.as_secs_f64();
    loop {
        seen.push(Busy {
            at: now()?,
            cpus: stat::read()?,
        });
        if now()? > until {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// When a profile began, seconds since 1970.
fn begin_of(text: &str) -> Result<f64> {
    let begins = text
        .lines()
        .find_map(|line| line.strip_prefix("# begins: "));
    let begins = begins.with_context(|| format!("no begin in {text}"))?;
    // The day is today, or was until a moment ago.
    let time = begins.split_once('T').context("no time")?.1;
    let parts: Vec<f64> = time
        .trim_end_matches('Z')
        .split(':')
        .flat_map(str::parse)
        .collect();
    ensure!(parts.len() == 3, "no time: {begins}");
    let of_day = parts[0] * 3600.0 + parts[1] * 60.0 + parts[2];
    let now = now()?;
    let midnight = now - now % 86400.0;
    let begin = midnight + of_day;
    Ok(if begin > now { begin - 86400.0 } else { begin })
}

fn a_prometheus_is_asked_for_a_profile(place: &MachinePlace) -> Result<()> {
    let begin = now()?;
    let (servers, port, instance) = start(place)?;
    // Prometheus takes some seconds to find its targets.
    wait_for("two scrapes", || {
        let url = format!("prometheus+http://127.0.0.1:{port}/?from={begin:.3}");
        let run = place.sandbag(["show", &url]).spawn().ok()?;
        finish(run).ok()?.expect(0).ok()
    })?;
    let mut seen = Vec::new();
    watch(&mut seen, BEFORE)?;
    let from = now()?;
    watch(&mut seen, RECORDED / 4)?;
    let spin = ["5", "taskset", "-c", "0", "sh", "-c", "while :; do :; done"];
    let spin = place.program("timeout", spin).spawn()?;
    watch(&mut seen, RECORDED / 2)?;
    // `timeout` says that it ended it.
    finish(spin)?.expect(124)?;
    watch(&mut seen, RECORDED / 4)?;
    let to = now()?;
    // The last scrape is there soon.
    std::thread::sleep(Duration::from_millis(1500));
    let url = format!("prometheus+http://127.0.0.1:{port}/?from={from:.3}&to={to:.3}");
    let convert = |asked: &str, out: &str| {
        let words = ["convert", &format!("{url}{asked}"), "-o", out].map(str::to_owned);
        finish(place.sandbag(words).spawn()?)
    };
    let range = BEFORE.as_secs();
    let rate = format!("rate(node_cpu_seconds_total{{instance=\"{instance}\"}}[{range}s])");
    for (asked, out, told) in [
        (format!("&instance={instance}&step=1s"), "counters.csv", ""),
        (format!("&instance={instance}"), "scrapes.csv", ""),
        ("&job=node".to_owned(), "job.csv", ""),
        (
            format!("&query={rate}&step=1"),
            "rates.csv",
            "taken for rates",
        ),
    ] {
        let said = convert(&asked, out)?.expect(0)?;
        ensure!(said.err.contains("(prometheus): CPUs 0"), "{}", said.err);
        ensure!(said.err.contains(told), "{out}: {}", said.err);
        let text = text_of(place.path(out))?;
        ensure!(text.contains(&format!("# host: {instance}\n")), "{text}");
        let recording = Recording::read(&place.path(out))?;
        let length_s = recording.end_s.context("no end")?;
        figure!(
            (length_s - (to - from)).abs() < 2.5,
            "{out}: {length_s} s of {} s",
            to - from
        );
        let begin = begin_of(&text)?;
        for cpu in seen[0].cpus.keys().flatten() {
            let name = format!("cpu{cpu}");
            let got = recording.mean(&name)?;
            let expected = mean(&seen, *cpu, begin, begin + length_s);
            case::note(&format!(
                "{out} {name}: {got:.1} %, expected {expected:.1} %"
            ));
            figure!(
                (got - expected).abs() < POINTS,
                "{out}: {name} was busy for {got} %, by /proc/stat {expected} %"
            );
        }
    }
    let busy = mean(&seen, 0, from, to);
    figure!(busy > 25.0, "the program got too little: {busy} %");
    // A name without its port, which the server does not know.
    convert("&instance=127.0.0.1", "none.csv")?
        .expect(2)?
        .says(&["then: ", &instance])?;
    convert("&query=rate(", "none.csv")?
        .expect(2)?
        .says(&["Prometheus: bad_data: ", "add step=15s"])?;
    ensure!(!place.path("none.csv").exists(), "a profile of nothing");
    drop(servers);
    let ended = convert(&format!("&instance={instance}"), "none.csv")?;
    ended.expect(2)?.says(&["nothing listens at"])?;
    Ok(())
}
