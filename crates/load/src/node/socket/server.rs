// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The node's side of the socket.

use std::fs::{self, Permissions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;

use super::client::{dial, is_not_yet, say};
use super::directory::Directory;
use super::error::SocketError;
use crate::node::protocol::{self, LONGEST_REPLY, LONGEST_REQUEST, Reply, Request};
use crate::node::spec::NodeName;

/// Clients at a time; one more, and the oldest is disconnected.
const MOST_CLIENTS: usize = 16;
/// Connections taken per turn.
const ACCEPTS: usize = 8;
/// How long a client may take for its request and for reading the reply.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process when it connected.
    pub pid: i32,
    pub uid: u32,
}

/// The listening socket of a node, and who is connected to it.
///
/// [`AsFd`] gives one descriptor for all of it: where that is readable there
/// is something to do for [`turn`](Self::turn). Dropping it removes the socket.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    epoll: Epoll,
    clients: Vec<Client>,
    directory: Directory,
    path: PathBuf,
    /// Device and inode of our socket: another one may stand at its path.
    identity: (u64, u64),
    /// Who made it; a forked child does not remove it.
    pid: u32,
    owner: u32,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    peer: Peer,
    since: Instant,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

/// Whether a client stays.
#[derive(Debug, PartialEq, Eq)]
enum ClientFate {
    Stay,
    HangUp,
}

impl Server {
    /// Listens under a node's name, replacing the socket of a dead node.
    pub fn bind(directory: &Directory, name: &NodeName) -> Result<Self, SocketError> {
        let owner = geteuid().as_raw();
        let path = directory.socket(name);
        let failed = |call| {
            let path = path.clone();
            move |cause: io::Error| SocketError::Call { path, call, cause }
        };
        let _lock = directory.prepare_and_lock(owner)?;
        let running = |pid: String| SocketError::Running {
            name: name.to_string(),
            pid,
        };
        match dial(&path) {
            Ok(stream) => {
                let pid = getsockopt(&stream, PeerCredentials).map(|peer| peer.pid().to_string());
                return Err(running(pid.unwrap_or_else(|_| "?".to_owned())));
            }
            // Its queue is full: it lives, but does not take connections.
            Err(Errno::EAGAIN) => return Err(running("? (it does not answer)".to_owned())),
            Err(Errno::ENOENT) => {}
            Err(Errno::ECONNREFUSED) => remove_socket(&path).map_err(failed("replace"))?,
            Err(errno) => return Err(failed("look who serves")(errno.into())),
        }
        let listener = UnixListener::bind(&path).map_err(failed("bind"))?;
        let set_up = || {
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
            epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
            let meta = fs::symlink_metadata(&path)?;
            Ok((epoll, (meta.dev(), meta.ino())))
        };
        match set_up() {
            Ok((epoll, identity)) => Ok(Self {
                listener,
                epoll,
                clients: Vec::new(),
                directory: directory.clone(),
                path,
                identity,
                pid: std::process::id(),
                owner,
            }),
            Err(cause) => {
                // It was made a moment ago and cannot be served.
                let _ = fs::remove_file(&path);
                Err(failed("set up")(cause))
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Takes connections, reads what came, answers what is complete, all
    /// without waiting and not more than a bounded amount of it; what is left
    /// makes the descriptor readable again. Also hangs up on clients that take
    /// too long, so it does no harm to call it at every wake-up.
    pub fn turn(&mut self, answer: &mut dyn FnMut(Peer, &Request) -> Reply) {
        self.accept();
        let now = Instant::now();
        let epoll = &self.epoll;
        self.clients.retain_mut(|client| {
            let patient = now.saturating_duration_since(client.since) < PATIENCE;
            patient && client.serve(epoll, answer) == ClientFate::Stay
        });
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(cause) if is_not_yet(&cause) => return,
                Err(cause) if cause.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(_) => {
                    // Out of descriptors or memory: make room.
                    self.hang_up_on_the_oldest();
                    return;
                }
            };
            // A client that may not ask, or is gone already, is no error.
            if let Some(client) = self.admit(stream) {
                if self.clients.len() >= MOST_CLIENTS {
                    self.hang_up_on_the_oldest();
                }
                self.clients.push(client);
            }
        }
    }

    fn admit(&self, stream: UnixStream) -> Option<Client> {
        stream.set_nonblocking(true).ok()?;
        let peer = getsockopt(&stream, PeerCredentials).ok()?;
        if peer.uid() != 0 && peer.uid() != self.owner {
            let message = format!(
                "user {} may not command this node: it belongs to user {}",
                peer.uid(),
                self.owner
            );
            let _ = say(&stream, &protocol::line(&Reply::Error { message }));
            return None;
        }
        let event = EpollEvent::new(EpollFlags::EPOLLIN, 0);
        self.epoll.add(&stream, event).ok()?;
        Some(Client {
            stream,
            peer: Peer {
                pid: peer.pid(),
                uid: peer.uid(),
            },
            since: Instant::now(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
        })
    }

    fn hang_up_on_the_oldest(&mut self) {
        if !self.clients.is_empty() {
            self.clients.remove(0);
        }
    }
}

impl Client {
    fn serve(
        &mut self,
        epoll: &Epoll,
        answer: &mut dyn FnMut(Peer, &Request) -> Reply,
    ) -> ClientFate {
        if self.outgoing.is_empty() {
            let mut chunk = [0; LONGEST_REQUEST];
            match self.stream.read(&mut chunk) {
                Ok(0) => return ClientFate::HangUp,
                Ok(n) => self.incoming.extend_from_slice(&chunk[..n]),
                Err(cause) if is_not_yet(&cause) => return ClientFate::Stay,
                Err(_) => return ClientFate::HangUp,
            }
            let end = self.incoming.iter().position(|byte| *byte == b'\n');
            let reply = match end {
                // Its sender has given up, and said that the request failed: not executed later.
                Some(_) if has_closed(&self.stream) => return ClientFate::HangUp,
                Some(end) if end < LONGEST_REQUEST => {
                    match protocol::request(&self.incoming[..end]) {
                        Ok(request) => answer(self.peer, &request),
                        Err(error) => refusal(&error),
                    }
                }
                None if self.incoming.len() < LONGEST_REQUEST => return ClientFate::Stay,
                _ => refusal(&format!("a request has at most {LONGEST_REQUEST} bytes")),
            };
            self.incoming = Vec::new();
            self.outgoing = protocol::line(&reply);
            if self.outgoing.len() > LONGEST_REPLY {
                let what = format!("the reply would be longer than {LONGEST_REPLY} bytes");
                self.outgoing = protocol::line(&refusal(&what));
            }
        }
        match say(&self.stream, &self.outgoing) {
            Ok(n) if n == self.outgoing.len() => return ClientFate::HangUp,
            Ok(n) => drop(self.outgoing.drain(..n)),
            Err(cause) if is_not_yet(&cause) => {}
            Err(_) => return ClientFate::HangUp,
        }
        // The rest goes when the client has read.
        let mut event = EpollEvent::new(EpollFlags::EPOLLOUT, 0);
        match epoll.modify(&self.stream, &mut event) {
            Ok(()) => ClientFate::Stay,
            Err(_) => ClientFate::HangUp,
        }
    }
}

/// Whether the peer closed the connection. One that only ended its sending side, as socat, nc -N
/// and scripts do after the request, reads on: that is POLLRDHUP and not POLLHUP.
fn has_closed(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let polled = poll(&mut fds, PollTimeout::ZERO);
    let seen = fds[0].revents().unwrap_or(PollFlags::empty());
    polled.is_ok() && seen.contains(PollFlags::POLLHUP)
}

fn refusal(message: &dyn std::fmt::Display) -> Reply {
    Reply::Error {
        message: message.to_string(),
    }
}

/// Removes the sockets of nodes that were killed, also after one that fails.
pub fn sweep(directory: &Directory) -> Result<(), SocketError> {
    let names = directory.names()?;
    if !directory.path().exists() {
        return Ok(());
    }
    // With the lock no server is between binding and listening.
    let lock = directory.lock()?;
    let mut outcome = Ok(());
    for path in names.iter().map(|name| directory.socket(name)) {
        if let Err(Errno::ECONNREFUSED) = dial(&path)
            && let Err(cause) = remove_socket(&path)
        {
            let call = "remove";
            outcome = Err(SocketError::Call { path, call, cause });
        }
    }
    directory.remove_if_empty(&lock);
    outcome
}

fn remove_socket(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.file_type().is_socket() {
        fs::remove_file(path)
    } else {
        Err(io::Error::other("it is no socket; remove it"))
    }
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        // What cannot be locked or removed is a dead node's socket from now
        // on, which the next one of this name replaces.
        let Ok(lock) = self.directory.lock() else {
            return;
        };
        if let Ok(meta) = fs::symlink_metadata(&self.path)
            && (meta.dev(), meta.ino()) == self.identity
        {
            let _ = fs::remove_file(&self.path);
        }
        self.directory.remove_if_empty(&lock);
    }
}
