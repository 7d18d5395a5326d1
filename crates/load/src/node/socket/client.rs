// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking a node.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, getsockopt, send, socket,
};
use nix::unistd::geteuid;

use super::{Directory, SocketError};
use crate::node::protocol::{self, LONGEST_REPLY, NotUnderstood, Reply, Request, Status};
use crate::node::spec::NodeName;

/// How long to wait before a full queue is tried again.
const QUEUE_PAUSE: Duration = Duration::from_millis(2);

/// Asks a node, and waits at most `limit` for its reply.
/// [`SocketError`]; a refusal by the node is a reply
/// ([`Reply::Error`]), not an error here.
pub fn ask(
    directory: &Directory,
    name: &NodeName,
    request: &Request,
    limit: Duration,
) -> Result<Reply, SocketError> {
    let path = directory.socket(name);
    let until = Instant::now() + limit;
    let silent = || SocketError::Silent {
        name: name.to_string(),
        limit,
    };
    let failed = |call, cause| SocketError::Call {
        path: path.clone(),
        call,
        cause,
    };
    let garbled = |cause| SocketError::Garbled {
        name: name.to_string(),
        cause,
    };
    let hung_up = || SocketError::HungUp {
        name: name.to_string(),
    };
    let mut stream = loop {
        match dial(&path) {
            Ok(stream) => break stream,
            // Nobody serves it, or the server is just going.
            Err(Errno::ENOENT | Errno::ECONNREFUSED) => {
                let others = names(directory).unwrap_or_default();
                return Err(SocketError::NotRunning {
                    name: name.to_string(),
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
        return Err(SocketError::Foreign {
            path,
            uid: peer.uid(),
        });
    }
    let mut outgoing = &protocol::line(request)[..];
    let mut incoming = Vec::new();
    let mut chunk = [0; 16 << 10];
    loop {
        let wanted = if outgoing.is_empty() {
            PollFlags::POLLIN
        } else {
            PollFlags::POLLOUT
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(silent());
        }
        // A part of a millisecond is rounded up, or we would spin.
        let timeout = PollTimeout::try_from(left + Duration::from_millis(1));
        let mut fds = [PollFd::new(stream.as_fd(), wanted)];
        match poll(&mut fds, timeout.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed("poll", errno.into())),
        }
        let moved = if outgoing.is_empty() {
            stream.read(&mut chunk).map(|n| (n, true))
        } else {
            say(&stream, outgoing).map(|n| (n, false))
        };
        match moved {
            Ok((n, false)) => outgoing = &outgoing[n..],
            Ok((0, true)) => return Err(hung_up()),
            Ok((n, true)) => incoming.extend_from_slice(&chunk[..n]),
            Err(cause) if is_not_yet(&cause) => {}
            // A server that refuses us says why and hangs up before it has
            // read what we say.
            Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => outgoing = &[],
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionReset => return Err(hung_up()),
            Err(cause) => return Err(failed("talk", cause)),
        }
        if let Some(end) = incoming.iter().position(|byte| *byte == b'\n') {
            return protocol::reply(&incoming[..end]).map_err(garbled);
        }
        if incoming.len() > LONGEST_REPLY {
            return Err(garbled(NotUnderstood::Json("it is too long".to_owned())));
        }
    }
}

/// Sends what can be sent now; a peer that hung up is an error and no signal.
pub(super) fn say(stream: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(stream.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL)?)
}

pub(super) fn is_not_yet(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
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

#[derive(Debug)]
pub struct NodeEntry {
    pub name: NodeName,
    pub status: Result<Status, SocketError>,
}

/// The names of the nodes that run. Nobody is asked anything.
pub fn names(directory: &Directory) -> Result<Vec<NodeName>, SocketError> {
    let mut names = directory.names()?;
    // A full queue belongs to somebody.
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
