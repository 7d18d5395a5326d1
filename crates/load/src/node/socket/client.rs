// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to a node.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, getsockopt, send, socket,
};
use nix::unistd::geteuid;
use sandbag_linux::Root;
use sandbag_linux::process::Process;
use sandbag_run::process_identity::ProcessIdentity;

use super::directory::Directory;
use super::error::SocketError;
use crate::node::protocol::{self, LONGEST_REPLY, NotUnderstood, Reply, Request, Status};
use crate::node::spec::NodeName;

/// How long to wait before a full queue is tried again.
const QUEUE_PAUSE: Duration = Duration::from_millis(2);
/// Between two looks at whether a node that has not answered stands still.
const STATE_LOOK: Duration = Duration::from_millis(50);

/// Sends a request to a node, and waits at most `limit` for its reply. A refusal
/// by the node is a reply ([`Reply::Error`]), not an error here. A paused node goes on
/// if it is asked to end.
pub fn ask(
    directory: &Directory,
    name: &NodeName,
    request: &Request,
    limit: Duration,
) -> Result<Reply, SocketError> {
    let path = directory.socket(name);
    let until = Instant::now() + limit;
    let name = || name.to_string();
    let silent = || SocketError::Silent {
        name: name(),
        limit,
    };
    let failed = |call, cause| SocketError::Call {
        path: path.clone(),
        call,
        cause,
    };
    let mut stream = loop {
        match dial(&path) {
            Ok(stream) => break stream,
            // The socket of a dead node, or the server is just going.
            Err(Errno::ENOENT | Errno::ECONNREFUSED) => {
                let others = names(directory).unwrap_or_default();
                return Err(SocketError::NotRunning {
                    name: name(),
                    others: others.iter().map(ToString::to_string).collect(),
                });
            }
            // The queue of the socket is full.
            Err(Errno::EAGAIN) if Instant::now() < until => std::thread::sleep(QUEUE_PAUSE),
            Err(Errno::EAGAIN) => return Err(silent()),
            Err(errno) => return Err(failed("connect", errno.into())),
        }
    };
    let peer = getsockopt(&stream, PeerCredentials).map_err(|e| failed("SO_PEERCRED", e.into()))?;
    if peer.uid() != 0 && peer.uid() != geteuid().as_raw() {
        let uid = peer.uid();
        return Err(SocketError::Foreign { path, uid });
    }
    let pid = peer.pid().unsigned_abs();
    if let Ok(stat) = Process::new(&Root::default(), pid).stat() {
        let start_ticks = stat.times.start_ticks;
        let server = ProcessIdentity { pid, start_ticks };
        // One that stands still would be waited for in vain; to end, it has to go on. The first
        // process of a container only waits for that.
        let goes_on = *request == Request::Stop && server.signal(libc::SIGCONT).is_ok();
        if stat.state == 'T' && !goes_on {
            return Err(SocketError::Stopped { name: name() });
        }
    }
    let stands_still = || {
        let stat = Process::new(&Root::default(), pid).stat();
        *request != Request::Stop && stat.is_ok_and(|stat| stat.state == 'T')
    };
    let reply = exchange(&mut stream, &protocol::line(request), until, stands_still);
    match reply.map_err(|cause| (cause.kind(), cause)) {
        Ok(Some(line)) if line.len() <= LONGEST_REPLY => protocol::reply(&line),
        Ok(Some(_)) => Err(NotUnderstood::Json("it is too long".to_owned())),
        Ok(None) | Err((io::ErrorKind::ConnectionReset, _)) => {
            return Err(SocketError::HungUp { name: name() });
        }
        Err((io::ErrorKind::WouldBlock, _)) => {
            // It may have been paused just then.
            return Err(if stands_still() {
                SocketError::Stopped { name: name() }
            } else {
                silent()
            });
        }
        Err((_, cause)) => return Err(failed("talk", cause)),
    }
    .map_err(|cause| SocketError::Garbled {
        name: name(),
        cause,
    })
}

/// Sends a line and returns the line that comes back, or its first bytes where
/// it is longer than any reply; `None` if the peer hangs up before. Waits for no peer that
/// stands still.
fn exchange(
    stream: &mut UnixStream,
    line: &[u8],
    until: Instant,
    stands_still: impl Fn() -> bool,
) -> io::Result<Option<Vec<u8>>> {
    let left = || until.saturating_duration_since(Instant::now());
    // A timeout of zero would be none.
    let at_least = |time: Duration| Some(time.max(QUEUE_PAUSE));
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(at_least(left()))?;
    match stream.write_all(line) {
        // A server that refuses us says why and hangs up before it has read
        // the request.
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => return Err(cause),
        _ => {}
    }
    let mut incoming = Vec::new();
    let mut chunk = [0; 16 << 10];
    while incoming.len() <= LONGEST_REPLY {
        if Instant::now() >= until {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        stream.set_read_timeout(at_least(left().min(STATE_LOOK)))?;
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(None),
            Ok(n) => incoming.extend_from_slice(&chunk[..n]),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock && !stands_still() => continue,
            Err(cause) => return Err(cause),
        }
        if let Some(end) = incoming.iter().position(|byte| *byte == b'\n') {
            incoming.truncate(end);
            break;
        }
    }
    Ok(Some(incoming))
}

/// Sends what can be sent now; a peer that hung up is an error and no signal.
pub(super) fn say(stream: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(stream.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL)?)
}

pub(super) fn is_not_yet(cause: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(cause.kind(), WouldBlock | Interrupted)
}

/// Connects without waiting: EAGAIN where the queue is full.
pub(super) fn dial(path: &Path) -> Result<UnixStream, Errno> {
    let fd: OwnedFd = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(fd.into())
}

/// A node that runs: its status, or why it gave none.
#[derive(Debug)]
pub struct NodeEntry {
    pub name: NodeName,
    pub status: Result<Status, SocketError>,
}

/// The names of the nodes that run, without a request to any.
pub fn names(directory: &Directory) -> Result<Vec<NodeName>, SocketError> {
    let mut names = directory.names()?;
    // A full queue belongs to a live node.
    names.retain(|name| matches!(dial(&directory.socket(name)), Ok(_) | Err(Errno::EAGAIN)));
    Ok(names)
}

/// All nodes that run, each asked for its status for at most `limit`.
pub fn list(directory: &Directory, limit: Duration) -> Result<Vec<NodeEntry>, SocketError> {
    let mut listed = Vec::new();
    for name in names(directory)? {
        let status = match ask(directory, &name, &Request::Status, limit) {
            Ok(Reply::Status(status)) => Ok(status),
            Ok(other) => Err(SocketError::Garbled {
                name: name.to_string(),
                cause: NotUnderstood::Json(format!("no status but {other:?}")),
            }),
            // It ended meanwhile.
            Err(SocketError::NotRunning { .. }) => continue,
            Err(error) => Err(error),
        };
        listed.push(NodeEntry { name, status });
    }
    Ok(listed)
}
