// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IO-intensive: datagrams of 1 KB to an address without a receiver. On a dummy interface
//! of a network namespace of its own, so that nothing leaves this machine and no answer
//! comes; where that cannot be made, on the loopback interface, where the kernel also
//! receives and refuses each.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sched::{CloneFlags, unshare};

const SIZE: usize = 1024;
const BATCH: u64 = 64;
/// The dummy's network (RFC 5737, for documentation), and a neighbour in it.
const OWN: &str = "192.0.2.1/24";
const NEIGHBOUR_PORT: &str = "192.0.2.99:9";
/// Its hardware address: without one the kernel would ask for it, in vain.
const NEIGHBOUR: [&str; 2] = ["192.0.2.99", "02:00:00:00:00:99"];
/// The fallback: the discard port of ourselves.
const LOOPBACK: &str = "127.0.0.1:9";

/// A socket whose datagrams have no receiver.
#[derive(Debug)]
pub struct Sender {
    socket: UdpSocket,
    /// Where the datagrams go, for results.
    pub way: &'static str,
}

impl Sender {
    /// Opens one; moves the calling process into a network namespace of its
    /// own where that can be.
    pub fn open() -> Result<Self> {
        let (way, from, to) = if dummy().is_ok() {
            ("dummy interface", "192.0.2.1:0", NEIGHBOUR_PORT)
        } else {
            // In a namespace that was left half made it is down.
            let _ = ip(&["link", "set", "lo", "up"]);
            ("loopback", "127.0.0.1:0", LOOPBACK)
        };
        let socket = UdpSocket::bind(from).with_context(|| format!("bind {from}"))?;
        socket
            .connect(to)
            .with_context(|| format!("connect {to}"))?;
        Ok(Self { socket, way })
    }

    pub fn send(&self, count: u64) {
        let datagram = [0u8; SIZE];
        for _ in 0..count {
            // On the loopback every other call returns ECONNREFUSED.
            let _ = self.socket.send(&datagram);
        }
    }

    /// How many go within `time`.
    pub fn in_time(&self, time: Duration) -> u64 {
        let begin = Instant::now();
        let mut count = 0;
        while begin.elapsed() < time {
            self.send(BATCH);
            count += BATCH;
        }
        count
    }
}

/// A namespace with a dummy interface; for a process that ends soon.
fn dummy() -> Result<()> {
    // The old namespace is left only if ip(8) is there to furnish the new one.
    ip(&["-V"])?;
    unshare(CloneFlags::CLONE_NEWNET).context("unshare")?;
    let [neighbour, hardware] = NEIGHBOUR;
    ip(&["link", "add", "lab0", "type", "dummy"])?;
    ip(&["address", "add", OWN, "dev", "lab0"])?;
    ip(&["link", "set", "lab0", "up"])?;
    ip(&[
        "neighbour",
        "add",
        neighbour,
        "lladdr",
        hardware,
        "dev",
        "lab0",
    ])
}

fn ip(words: &[&str]) -> Result<()> {
    let status = Command::new("ip")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("ip")?;
    anyhow::ensure!(status.success(), "ip {} failed", words.join(" "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_without_a_receiver_are_sent() {
        // Without root: the loopback. As root in a namespace of this thread.
        let sender = std::thread::spawn(|| {
            let sender = Sender::open().unwrap();
            sender.send(10);
            sender.in_time(Duration::from_millis(1))
        });
        assert!(sender.join().unwrap() >= BATCH);
    }
}
