// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IO-intensive: datagrams of 1 KB to an address without a receiver, over a network that a
//! third of a CPU can fill, so that saturation can show: a pair of veth devices in a network
//! namespace of their own, the sender's with a token bucket (tbf). Nothing leaves this
//! machine, no answer comes, and who is fast enough waits for the network. Where that cannot
//! be made, on the loopback interface, where the kernel also receives and refuses each.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{setsockopt, sockopt};

const SIZE: usize = 1024;
const BATCH: u64 = 64;
/// A datagram waits for a timer of its own: at 500 Mbit/s these alone filled a CPU of a
/// virtual machine, at 300 the sender takes 28 % of one.
const RATE: &str = "300mbit";
/// A buffer of less than 1 ms, so that no gap of a slowed sender is bridged by it.
const BUFFER: usize = 16 << 10;
/// The pair's network (RFC 5737, for documentation), and a neighbour in it.
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
        let (way, from, to) = if network().is_ok() {
            ("veth of 300 Mbit/s", "192.0.2.1:0", NEIGHBOUR_PORT)
        } else {
            // In a namespace that was left half made it is down.
            let _ = ip(&["link", "set", "lo", "up"]);
            ("loopback", "127.0.0.1:0", LOOPBACK)
        };
        let socket = UdpSocket::bind(from).with_context(|| format!("bind {from}"))?;
        setsockopt(&socket, sockopt::SndBuf, &BUFFER).context("SO_SNDBUF")?;
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

/// A namespace with the pair; for a process that ends soon.
fn network() -> Result<()> {
    // The old namespace is left only if the programs are there to furnish the new one.
    ip(&["-V"])?;
    succeeds("tc", &["-V"])?;
    unshare(CloneFlags::CLONE_NEWNET).context("unshare")?;
    let [neighbour, hardware] = NEIGHBOUR;
    ip(&[
        "link", "add", "lab0", "type", "veth", "peer", "name", "lab1",
    ])?;
    ip(&["address", "add", OWN, "dev", "lab0"])?;
    ip(&["link", "set", "lab0", "up"])?;
    ip(&["link", "set", "lab1", "up"])?;
    let to = ["lladdr", hardware, "dev", "lab0"];
    ip(&[&["neighbour", "add", neighbour][..], &to].concat())?;
    // The queue holds more than a socket's buffer, so that a sender waits and loses nothing.
    let bucket = ["rate", RATE, "burst", "4kb", "limit", "4mb"];
    let add = ["qdisc", "add", "dev", "lab0", "root", "tbf"];
    succeeds("tc", &[&add[..], &bucket].concat())
}

fn ip(words: &[&str]) -> Result<()> {
    succeeds("ip", words)
}

fn succeeds(program: &str, words: &[&str]) -> Result<()> {
    let status = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| program.to_owned())?;
    anyhow::ensure!(status.success(), "{program} {} failed", words.join(" "));
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
