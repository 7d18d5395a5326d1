// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real server, and requests to it at a fixed rate. A latency is counted from the
//! moment at which the request was due, so that requests that wait for a late one count as
//! late, too. Server and clients are one program under the condition.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use nix::unistd::{User, geteuid};
use sandbag_linux::clock;

use super::latency;
use crate::program::{Running, Start, is_there, run as run_program};

/// Connections at a time.
const CLIENTS: u32 = 4;
/// The first requests, in which caches fill, are not counted, ns.
const START_NS: u64 = 200_000_000;
/// For a server to answer its first request, and for databases to be made.
const READY: Duration = Duration::from_secs(60);
/// A request that is not answered within this has failed.
const ANSWER: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ServiceKind {
    #[default]
    Redis,
    Memcached,
    Nginx,
    Postgres,
}

impl ServiceKind {
    pub const ALL: [Self; 4] = [Self::Redis, Self::Memcached, Self::Nginx, Self::Postgres];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Memcached => "memcached",
            Self::Nginx => "nginx",
            Self::Postgres => "postgres",
        }
    }

    /// What has to be installed, where it is not.
    pub fn missing(self) -> Option<String> {
        let (program, package) = match self {
            Self::Redis => ("redis-server", "redis-server"),
            Self::Memcached => ("memcached", "memcached"),
            Self::Nginx => ("nginx", "nginx-light"),
            Self::Postgres => ("pgbench", "postgresql"),
        };
        let there = match self {
            Self::Postgres => is_there(program) && postgres_programs().is_some(),
            _ => is_there(program),
        };
        (!there).then(|| {
            format!(
                "{}: no {program} here; apt-get install {package}",
                self.as_str()
            )
        })
    }

    /// A request, and the end of its answer. Of a server that is asked by us.
    fn request(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::Redis => (b"ECHO sandbag\r\n", b"$7\r\nsandbag\r\n"),
            Self::Memcached => (b"get sandbag\r\n", b"END\r\n"),
            _ => (b"GET / HTTP/1.1\r\nHost: sandbag\r\n\r\n", b"sandbag\n"),
        }
    }
}

#[derive(Debug, Default)]
pub struct Answers {
    pub latencies_ns: Vec<u64>,
    seconds: f64,
}

impl Answers {
    pub fn figures(self) -> BTreeMap<String, f64> {
        let per_s = self.latencies_ns.len() as f64 / self.seconds;
        let mut figures = latency::figures(self.latencies_ns);
        figures.insert("requests_per_s".to_owned(), per_s);
        figures
    }
}

/// Starts the server, sends `rate` requests per second for `time`, and ends it.
pub fn run(kind: ServiceKind, dir: &Path, rate: u32, time: Duration) -> Result<Answers> {
    ensure!(rate > 0, "no requests to send");
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let dir = &dir.canonicalize()?;
    let mut command = match kind {
        ServiceKind::Postgres => postgres(dir)?,
        _ => server(kind, dir)?,
    };
    let log = fs::File::create(dir.join("log"))?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    let mut server = Running::start(command, Start::default())?;
    match kind {
        ServiceKind::Postgres => {
            ready(&mut server, dir, &dir.join(".s.PGSQL.5432"))?;
            pgbench(dir, rate, time)
        }
        _ => {
            ready(&mut server, dir, &socket(dir))?;
            ask(kind, dir, rate, time)
        }
    }
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("socket")
}

/// Waits until the server listens.
fn ready(server: &mut Running, dir: &Path, socket: &Path) -> Result<()> {
    let begin = Instant::now();
    while UnixStream::connect(socket).is_err() {
        if server.has_ended() || begin.elapsed() > READY {
            let said = fs::read_to_string(dir.join("log")).unwrap_or_default();
            bail!("the server does not listen: {}", said.trim());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn server(kind: ServiceKind, dir: &Path) -> Result<Command> {
    let socket = socket(dir);
    let _ = fs::remove_file(&socket);
    let mut command = Command::new(match kind {
        ServiceKind::Redis => "redis-server",
        ServiceKind::Memcached => "memcached",
        _ => "nginx",
    });
    match kind {
        ServiceKind::Redis => {
            command.args(["--port", "0", "--save", "", "--unixsocket"]);
            command.arg(&socket);
        }
        ServiceKind::Memcached => {
            command.args(["-u", "root", "-s"]).arg(&socket);
        }
        _ => {
            let configuration = dir.join("nginx.conf");
            let text = format!(
                "daemon off; user root; pid {0}/pid; worker_processes 2; events {{}}\n\
                 http {{ access_log off; keepalive_requests 1000000000; server {{\n\
                 listen unix:{1}; location / {{ return 200 \"sandbag\\n\"; }} }} }}\n",
                dir.display(),
                socket.display()
            );
            fs::write(&configuration, text)?;
            command.arg("-e").arg(dir.join("log"));
            command.arg("-p").arg(dir).arg("-c").arg(configuration);
        }
    }
    command.current_dir(dir);
    Ok(command)
}

/// All clients' requests.
fn ask(kind: ServiceKind, dir: &Path, rate: u32, time: Duration) -> Result<Answers> {
    let every_ns = 1_000_000_000 * u64::from(CLIENTS) / u64::from(rate);
    let begin = clock::monotonic() + 10_000_000;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let stream = UnixStream::connect(socket(dir)).context("connect to the server")?;
            stream.set_read_timeout(Some(ANSWER))?;
            let first = begin + every_ns * u64::from(client) / u64::from(CLIENTS);
            let end = begin + time.as_nanos() as u64;
            Ok(thread::spawn(move || {
                asks(kind, stream, first, every_ns, end, begin + START_NS)
            }))
        })
        .collect::<Result<_>>()?;
    let mut answers = Answers {
        seconds: (time.as_nanos() as u64).saturating_sub(START_NS) as f64 / 1e9,
        ..Answers::default()
    };
    for client in clients {
        let latencies = client
            .join()
            .map_err(|_| anyhow::anyhow!("a client failed"))??;
        answers.latencies_ns.extend(latencies);
    }
    Ok(answers)
}

/// One client's requests, one at a time. Requests that come after the end because
/// earlier ones were late are not sent: the rate was not kept.
fn asks(
    kind: ServiceKind,
    mut stream: UnixStream,
    mut due: u64,
    every_ns: u64,
    end: u64,
    counts_from: u64,
) -> Result<Vec<u64>> {
    let (request, last) = kind.request();
    let (mut latencies, mut answer) = (Vec::new(), [0; 4096]);
    while due < end && clock::monotonic() < end {
        clock::sleep_until(due);
        stream.write_all(request).context("send a request")?;
        let mut length = 0;
        while !answer[..length].ends_with(last) {
            match stream
                .read(&mut answer[length..])
                .context("read an answer")?
            {
                0 => bail!("the server has closed the connection"),
                more => length += more,
            }
        }
        if due >= counts_from {
            latencies.push(clock::monotonic() - due);
        }
        due += every_ns;
    }
    Ok(latencies)
}

/// Directory of the programs of PostgreSQL's server, which Debian has not in PATH.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let programs = versions.map(|version| version.path().join("bin"));
    programs.filter(|bin| bin.join("postgres").is_file()).max()
}

/// A program of PostgreSQL, which refuses to run as root.
fn as_its_user(program: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    if geteuid().is_root() {
        let user = User::from_name("postgres")?.context("no user postgres")?;
        command.gid(user.gid.as_raw()).uid(user.uid.as_raw());
    }
    Ok(command)
}

/// The server, with a database that is made the first time.
fn postgres(dir: &Path) -> Result<Command> {
    let bin = postgres_programs().context("no programs of PostgreSQL")?;
    let data = dir.join("data");
    if geteuid().is_root() {
        let user = User::from_name("postgres")?.context("no user postgres")?;
        chown(dir, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
    }
    if !data.join("PG_VERSION").is_file() {
        let mut command = as_its_user(&bin.join("initdb"))?;
        command.args(["-N", "-A", "trust", "-U", "sandbag", "-D"]);
        command.arg(&data).current_dir(dir);
        succeed(command)?;
    }
    let mut command = as_its_user(&bin.join("postgres"))?;
    command.arg("-D").arg(&data).arg("-k").arg(dir);
    command.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
    command.current_dir(dir);
    Ok(command)
}

fn succeed(command: Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    // pgbench ends after the time that it is given.
    let ended = run_program(command, None, READY)?;
    ensure!(
        ended.status.is_some_and(|status| status.success()),
        "{name}: {}",
        ended.last_words()
    );
    Ok(())
}

/// Reads of one row each, scheduled and counted by pgbench; its latencies begin when a
/// transaction is due, too.
fn pgbench(dir: &Path, rate: u32, time: Duration) -> Result<Answers> {
    let words = |words: &str| -> Result<Command> {
        let mut command = as_its_user(Path::new("pgbench"))?;
        command.args(["-U", "sandbag", "-h"]).arg(dir);
        command.args(words.split(' ')).arg("postgres");
        command.current_dir(dir);
        Ok(command)
    };
    if succeed(words("-n -S -t 1")?).is_err() {
        succeed(words("-i -q -s 1")?)?;
    }
    for entry in fs::read_dir(dir)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("times.") {
            fs::remove_file(entry.path())?;
        }
    }
    let seconds = time.as_secs().max(1);
    let command = words(&format!(
        "-n -S -c {CLIENTS} -j 2 -R {rate} -T {seconds} -l --log-prefix=times"
    ))?;
    succeed(command)?;
    let mut answers = Answers {
        seconds: seconds as f64,
        ..Answers::default()
    };
    for entry in fs::read_dir(dir)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("times.") {
            let text = fs::read_to_string(entry.path())?;
            answers.latencies_ns.extend(pgbench_times(&text));
        }
    }
    Ok(answers)
}

/// Latencies of a log of pgbench, ns: the third word of each line, us.
fn pgbench_times(text: &str) -> impl Iterator<Item = u64> + '_ {
    let time = |line: &str| line.split(' ').nth(2)?.parse::<u64>().ok();
    text.lines().filter_map(time).map(|us| us * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::repeat_until;

    #[test]
    fn a_log_of_pgbench_is_read() {
        let text = "0 1 812 0 1764061234 123456 10\n1 1 x\n3 2 1500 0 1764061234 130000 5\n";
        let times: Vec<u64> = pgbench_times(text).collect();
        assert_eq!(times, [812_000, 1_500_000]);
    }

    #[test]
    fn a_server_that_cannot_start_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "exit 1"]);
        fs::write(dir.path().join("log"), "no such option\n").unwrap();
        let mut server = Running::start(command, Start::default()).unwrap();
        let error = ready(&mut server, dir.path(), &socket(dir.path())).unwrap_err();
        assert!(error.to_string().contains("no such option"));
    }

    /// A server of the test answers the requests of all clients at their rate.
    #[test]
    fn requests_have_the_rate_that_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(socket(dir.path())).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut stream = stream;
                    let mut request = [0; 64];
                    while stream.read(&mut request).is_ok_and(|length| length > 0) {
                        let (first, second) = ServiceKind::Redis.request().1.split_at(3);
                        let _ = stream.write_all(first);
                        let _ = stream.write_all(second);
                    }
                });
            }
        });
        let time = Duration::from_millis(400);
        // Again while other programs have the CPUs.
        let answers = repeat_until(
            || ask(ServiceKind::Redis, dir.path(), 200, time).unwrap(),
            |answers| !answers.latencies_ns.is_empty(),
        );
        // At most what is due after the start, of all clients.
        let count = answers.latencies_ns.len();
        assert!((1..=41).contains(&count), "{count}");
        assert!(answers.figures().contains_key("p999_us"));
    }
}
