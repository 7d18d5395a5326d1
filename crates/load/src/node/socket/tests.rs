// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real sockets in temporary directories.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::Root;
use sandbag_linux::process::Process;

use super::*;
use crate::node::protocol::{LONGEST_REQUEST, Reply, Request, Status};
use crate::node::spec::NodeName;

/// Far above what any step here takes.
const LIMIT: Duration = Duration::from_secs(20);

/// Enough that a status (two bytes each) is longer than any socket's buffer.
const MEMBERS: usize = 400_000;

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

/// A directory as the registry's is: only its owner can write to it.
fn registry() -> (tempfile::TempDir, Directory) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let directory = Directory::in_registry(dir.path());
    (dir, directory)
}

/// With the node `a`.
fn served() -> (tempfile::TempDir, Directory, Server) {
    let (dir, directory) = registry();
    let server = Server::bind(&directory, &name("a")).unwrap();
    (dir, directory, server)
}

fn refusal(directory: &Directory) -> String {
    let refused = Server::bind(directory, &name("a"));
    refused.unwrap_err().to_string()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn echo(peer: Peer, request: &Request) -> Reply {
    assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
    assert_eq!(peer.pid.cast_unsigned(), std::process::id());
    match request {
        Request::Status => Reply::Status(Status {
            name: "a".into(),
            pid: 7,
            cpus: "0".into(),
            speeds: Vec::new(),
            method: "hogs".into(),
            members: vec![1; MEMBERS],
        }),
        Request::Set { speeds } => Reply::Set {
            speeds: speeds.clone(),
        },
        Request::Admit { pid } => Reply::Admitted {
            environment: BTreeMap::from([("PID".to_owned(), pid.to_string())]),
        },
        Request::Load { loads } => Reply::Load {
            loads: loads.clone(),
        },
        Request::Stop => Reply::Stopping,
    }
}

/// Waits as a supervisor does; true if there is something to do.
fn ready(server: &Server, for_ms: u16) -> bool {
    let mut fds = [PollFd::new(server.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(for_ms)) == Ok(1)
}

/// Serves until `body` is done, from its one descriptor alone.
fn serving<T>(server: &mut Server, body: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                if ready(server, 5) {
                    server.turn(&mut echo);
                }
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        done.store(true, Ordering::Release);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn every_request_is_answered() {
    let (_dir, directory, mut server) = served();
    serving(&mut server, || {
        let speeds = "0.3".to_owned();
        let set = (
            Request::Set {
                speeds: speeds.clone(),
            },
            Reply::Set { speeds },
        );
        let environment = BTreeMap::from([("PID".to_owned(), "12".to_owned())]);
        let admit = (Request::Admit { pid: 12 }, Reply::Admitted { environment });
        for (request, expected) in [(Request::Stop, Reply::Stopping), set, admit] {
            let reply = ask(&directory, &name("a"), &request, LIMIT).unwrap();
            assert_eq!(reply, expected);
        }
        // Longer than a socket's buffer.
        let listed = list(&directory, LIMIT).unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].status.as_ref().unwrap().members.len(), MEMBERS);
    });
}

#[test]
fn only_the_owner_can_reach_it_and_it_is_removed() {
    let (_dir, directory, server) = served();
    assert_eq!(mode(directory.path()), 0o700);
    assert_eq!(mode(server.path()), 0o600);
    assert_eq!(server.path(), directory.path().join("a.sock"));
    assert_eq!(names(&directory).unwrap(), [name("a")]);
    drop(server);
    assert!(!directory.socket(&name("a")).exists());
    assert!(names(&directory).unwrap().is_empty());
    // The last one takes the directory with it.
    assert!(!directory.path().exists());
}

#[test]
fn nodes_come_and_go_at_once() {
    let (_dir, directory) = registry();
    std::thread::scope(|scope| {
        for each in ["a", "b", "c", "d"] {
            let directory = &directory;
            scope.spawn(move || {
                for _ in 0..200 {
                    drop(Server::bind(directory, &name(each)).unwrap());
                }
            });
        }
    });
    assert!(!directory.path().exists());
}

#[test]
fn a_live_node_keeps_its_name_and_a_dead_ones_is_had() {
    let (_dir, directory, server) = served();
    let error = refusal(&directory);
    assert!(
        error.contains(&format!("process {}:", std::process::id())),
        "{error}"
    );
    let _other = Server::bind(&directory, &name("b")).unwrap();
    // As after SIGKILL: the socket stays without a server.
    let path = server.path().to_owned();
    drop(server);
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    assert_eq!(names(&directory).unwrap(), [name("b")]);
    let error = ask(&directory, &name("a"), &Request::Status, LIMIT).unwrap_err();
    assert!(error.to_string().ends_with("running are b"), "{error}");
    let server = Server::bind(&directory, &name("a")).unwrap();
    assert_eq!(names(&directory).unwrap(), [name("a"), name("b")]);
    // Another socket at its place is not its own to remove.
    fs::remove_file(&path).unwrap();
    let _another = UnixListener::bind(&path).unwrap();
    drop(server);
    assert!(path.exists());
}

#[test]
fn what_dead_nodes_left_is_swept_away() {
    let (_registry, directory) = registry();
    sweep(&directory).unwrap();
    let live = Server::bind(&directory, &name("live")).unwrap();
    for dead in ["dead", "gone"] {
        drop(UnixListener::bind(directory.socket(&name(dead))).unwrap());
    }
    fs::write(directory.socket(&name("file")), "").unwrap();
    sweep(&directory).unwrap_err();
    assert!(live.path().exists());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    fs::remove_file(directory.socket(&name("file"))).unwrap();
    sweep(&directory).unwrap();
    drop(live);
    assert!(!directory.path().exists());
    // Only a dead one's: it goes with it.
    drop(Server::bind(&directory, &name("live")).unwrap());
    fs::create_dir(directory.path()).unwrap();
    drop(UnixListener::bind(directory.socket(&name("dead"))).unwrap());
    sweep(&directory).unwrap();
    assert!(!directory.path().exists());
}

#[test]
fn what_is_no_socket_is_not_removed() {
    let (_dir, directory) = registry();
    let _other = Server::bind(&directory, &name("b")).unwrap();
    let path = directory.socket(&name("a"));
    fs::write(&path, "mine").unwrap();
    let error = refusal(&directory);
    assert!(error.contains("no socket"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    let (dir, directory) = registry();
    for others in [0o775, 0o757] {
        fs::set_permissions(dir.path(), Permissions::from_mode(others)).unwrap();
        assert!(refusal(&directory).contains("chmod go-w"));
    }
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(dir.path(), directory.path()).unwrap();
    assert!(refusal(&directory).contains("no directory"));
    fs::remove_file(directory.path()).unwrap();
    // One of ours that is too open is closed.
    fs::create_dir(directory.path()).unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    let _server = Server::bind(&directory, &name("a")).unwrap();
    assert_eq!(mode(directory.path()), 0o700);
}

fn raw(directory: &Directory) -> UnixStream {
    let stream = UnixStream::connect(directory.socket(&name("a"))).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

fn read_line(stream: &mut UnixStream) -> String {
    let mut text = String::new();
    // A server that hangs up on unread bytes resets the connection, after
    // what it said.
    let mut byte = [0];
    while let Ok(1) = stream.read(&mut byte) {
        text.push(char::from(byte[0]));
    }
    text
}

#[test]
fn what_is_not_understood_is_answered_with_an_error() {
    let (_dir, directory, mut server) = served();
    serving(&mut server, || {
        for (sent, part) in [
            (
                &b"{\"version\":1,\"request\":\"reboot\"}\n"[..],
                "unknown request",
            ),
            (b"{\"version\":9,\"request\":\"stop\"}\n", "version 9"),
            (b"\n", "JSON object"),
            (b"\xff\xfe\n", "JSON object"),
            (&[b'x'; 10 * LONGEST_REQUEST], "at most 4096 bytes"),
        ] {
            let mut stream = raw(&directory);
            // It may hang up before it has all.
            let _ = stream.write_all(sent);
            let reply = read_line(&mut stream);
            assert!(
                reply.starts_with("{\"version\":1,\"reply\":\"error\""),
                "{reply}"
            );
            assert!(reply.contains(part), "{reply}");
        }
    });
}

#[test]
fn a_request_is_executed_while_its_sender_can_read_the_reply() {
    let (_dir, directory, mut server) = served();
    let request = b"{\"version\":1,\"request\":\"stop\"}\n";
    // One gives up before the server takes its connection, and one afterwards.
    for is_taken in [false, true] {
        let mut stream = raw(&directory);
        if is_taken {
            server.turn(&mut echo);
            assert_eq!(server.clients(), 1);
        }
        stream.write_all(request).unwrap();
        drop(stream);
        server.turn(&mut |_, request| panic!("{request:?} is executed"));
        assert_eq!(server.clients(), 0);
    }
    // One that ends its sending side waits for the reply.
    let mut stream = raw(&directory);
    stream.write_all(request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    server.turn(&mut echo);
    let reply = read_line(&mut stream);
    assert!(reply.contains("stopping"), "{reply}");
}

#[test]
fn clients_that_hang_or_flood_stop_nobody() {
    let (_dir, directory, mut server) = served();
    // They say nothing, half of a request, or ask and never read.
    let mut silent: Vec<UnixStream> = (0..40).map(|_| raw(&directory)).collect();
    for (n, stream) in silent.iter_mut().enumerate() {
        match n % 3 {
            0 => {}
            1 => stream.write_all(b"{\"version\":1,").unwrap(),
            _ => stream
                .write_all(b"{\"version\":1,\"request\":\"status\"}\n")
                .unwrap(),
        }
    }
    // Whether it waits for one, and not how long it takes: the machine may stand still.
    let waits = || {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
        usage.voluntary_context_switches()
    };
    let before = waits();
    for _ in 0..20 {
        server.turn(&mut echo);
        assert!(server.clients() <= 16);
    }
    let waited = waits() - before;
    assert!(waited < 20, "{waited} times");
    let stop = AtomicBool::new(false);
    let flood = || {
        while !stop.load(Ordering::Acquire) {
            let Ok(mut stream) = UnixStream::connect(directory.socket(&name("a"))) else {
                continue;
            };
            while stream.write_all(&[b'x'; 8192]).is_ok() && !stop.load(Ordering::Acquire) {}
        }
    };
    serving(&mut server, || {
        thread::scope(|scope| {
            scope.spawn(flood);
            let reply = ask(&directory, &name("a"), &Request::Stop, LIMIT);
            stop.store(true, Ordering::Release);
            assert_eq!(reply.unwrap(), Reply::Stopping);
        });
    });
}

#[test]
fn a_quiet_server_has_nothing_to_do() {
    let (_dir, directory, mut server) = served();
    let stream = raw(&directory);
    assert!(ready(&server, 1000));
    server.turn(&mut echo);
    // A client that waits costs no wake-ups.
    assert!(!ready(&server, 20));
    drop(stream);
    assert!(ready(&server, 1000));
    server.turn(&mut echo);
    assert_eq!(server.clients(), 0);
    assert!(!ready(&server, 20));
}

#[test]
fn a_node_that_does_not_answer_is_given_up() {
    let (_dir, directory, server) = served();
    let short = Duration::from_millis(50);
    let error = ask(&directory, &name("a"), &Request::Status, short).unwrap_err();
    assert!(matches!(error, SocketError::Silent { .. }), "{error}");
    let listed = list(&directory, short).unwrap();
    assert!(listed[0].status.is_err());
    // A full queue is no dead node either. It is longer than the usual limit of files.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = client::dial(server.path()) {
        waiting.push(stream);
    }
    let error = ask(&directory, &name("a"), &Request::Status, short).unwrap_err();
    assert!(matches!(error, SocketError::Silent { .. }), "{error}");
    let error = Server::bind(&directory, &name("a")).unwrap_err();
    assert!(matches!(error, SocketError::Running { .. }), "{error}");
}

#[test]
fn a_node_that_stands_still_is_not_waited_for() {
    let (_dir, directory, _server) = served();
    let listener = UnixListener::bind(directory.socket(&name("b"))).unwrap();
    let fd = listener.as_raw_fd();
    let mut command = Command::new("sleep");
    command.arg("1000").stdin(Stdio::null());
    // The socket is then this process's, which was the last to call listen(2).
    // SAFETY: an async-signal-safe call.
    unsafe {
        command.pre_exec(move || match libc::listen(fd, 8) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    };
    let mut child = command.spawn().unwrap();
    let pid = Pid::from_raw(child.id().cast_signed());
    // It is paused while it is asked.
    let begin = Instant::now();
    let paused = thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&directory, &name("b"), &Request::Status, LIMIT));
        thread::sleep(Duration::from_millis(100));
        kill(pid, Signal::SIGSTOP).unwrap();
        asked.join().unwrap().unwrap_err()
    });
    assert!(matches!(paused, SocketError::Stopped { .. }), "{paused}");
    assert!(begin.elapsed() < LIMIT / 2, "{:?}", begin.elapsed());
    let state = || {
        Process::new(&Root::default(), child.id())
            .stat()
            .unwrap()
            .state
    };
    while state() != 'T' {
        thread::yield_now();
    }
    let begin = Instant::now();
    let error = ask(&directory, &name("b"), &Request::Status, LIMIT).unwrap_err();
    let waited = begin.elapsed();
    let stood_still = state() == 'T';
    // To end it goes on, though this one has no answer.
    let short = Duration::from_millis(50);
    let stop = ask(&directory, &name("b"), &Request::Stop, short).unwrap_err();
    let goes_on = state() != 'T';
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(error, SocketError::Stopped { .. }), "{error}");
    assert!(waited < LIMIT / 2, "{waited:?}");
    assert!(matches!(stop, SocketError::Silent { .. }), "{stop}");
    assert!(stood_still && goes_on);
}

#[test]
fn a_node_that_ends_while_it_is_asked_hung_up() {
    let (_dir, directory, server) = served();
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&directory, &name("a"), &Request::Status, LIMIT));
        assert!(ready(&server, 10_000));
        drop(server);
        let error = asked.join().unwrap().unwrap_err();
        assert!(matches!(error, SocketError::HungUp { .. }), "{error}");
    });
}

/// Root could open the way for others by mistake; the server still refuses. Only root can
/// become another user; the modes are tested above.
#[test]
#[ignore = "needs root; make unit runs it"]
fn other_users_are_refused() {
    const NOBODY: u32 = 65_534;
    let (dir, directory, mut server) = served();
    for path in [dir.path(), directory.path()] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(server.path(), Permissions::from_mode(0o666)).unwrap();
    let reply = serving(&mut server, || {
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                // SAFETY: three numbers. The bare system call changes this
                // thread alone, which ends below.
                let set = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
                assert_eq!(set, 0);
                let mut stream = raw(&directory);
                let _ = stream.write_all(b"{\"version\":1,\"request\":\"stop\"}\n");
                read_line(&mut stream)
            });
            other.join().unwrap()
        })
    });
    assert!(reply.contains("user 65534 may not command"), "{reply}");
}
