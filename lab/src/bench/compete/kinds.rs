// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a competitor does. Every kind ends by itself at its deadline, books
//! its CPU time, and is bounded in what it takes besides CPU time.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use nix::unistd::{ForkResult, fork};
use sandbag_linux::child::reap;
use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, Root, clock, memory};

use super::account::{Account, Counter, Meter, configured_cpus};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompetitorKind {
    /// Keeps a CPU busy.
    Spin,
    /// A third each of spinners, of tasks that run 0.3 ms and sleep 0.7 ms,
    /// and of tasks that fork ten short-lived children every 10 ms.
    Mixed,
    /// Spinners at nice +10.
    NicePlus,
    /// Spinners at nice -10.
    NiceMinus,
    /// Spinners of `SCHED_BATCH`.
    Batch,
    /// Spinners of `SCHED_IDLE`.
    Idle,
    /// Spinners, and on each CPU one `SCHED_FIFO` task that runs 2 ms in 10.
    Realtime,
    /// Write to one page after the other of a quarter of the available
    /// memory, at most 2 GiB in all.
    Memory,
    /// Write 256 KiB and wait until it is on the disk, again and again.
    Disk,
    /// In turn a timer every 50 us and datagrams over the loopback device.
    Interrupts,
}

/// Busy time of a real-time competitor per [`REALTIME_PERIOD_NS`].
const REALTIME_BUSY_NS: u64 = 2_000_000;
/// Period of a real-time competitor: with [`REALTIME_BUSY_NS`] a duty of 20 %.
const REALTIME_PERIOD_NS: u64 = 10_000_000;
/// Most memory that all memory competitors touch together.
const MEMORY_LIMIT: u64 = 2 << 30;
/// A disk competitor begins again at the start of its file here.
const DISK_FILE: u64 = 32 << 20;
/// Children per burst of a fork storm.
const STORM: usize = 10;
/// Datagrams per burst, with a millisecond of sleep after it.
const DATAGRAMS: usize = 32;

#[derive(Debug, Clone, Copy)]
pub struct Job {
    pub kind: CompetitorKind,
    pub index: usize,
    pub of: usize,
    /// When to end, `CLOCK_MONOTONIC`.
    pub until_ns: u64,
}

impl Job {
    /// Sets the scheduling class, says "started", works, and returns at the
    /// deadline.
    pub fn run(&self, account: &Account) -> Result<()> {
        let mut meter = Meter::new(account);
        self.become_kind()?;
        meter.book();
        account.count(Counter::Started);
        match self.kind {
            CompetitorKind::Mixed if self.index % 3 == 1 => self.sleep_and_run(&mut meter),
            CompetitorKind::Mixed if self.index % 3 == 2 => self.fork_storm(&mut meter, account)?,
            CompetitorKind::Realtime if self.is_realtime() => self.realtime(&mut meter),
            CompetitorKind::Memory => self.touch_memory(&mut meter)?,
            CompetitorKind::Disk => self.write_disk(&mut meter)?,
            CompetitorKind::Interrupts if self.index.is_multiple_of(2) => {
                self.short_timers(&mut meter)
            }
            CompetitorKind::Interrupts => self.datagrams(&mut meter)?,
            _ => self.spin(&mut meter),
        }
        meter.book();
        Ok(())
    }

    fn is_realtime(&self) -> bool {
        self.index < realtime_tasks(self.kind)
    }

    fn become_kind(&self) -> Result<()> {
        let set = |attributes| Ok(sched::set_attributes(0, attributes).map(drop)?);
        let fair = |nice| Attributes::Fair { nice, slice_ns: 0 };
        let other = |policy: i32| Attributes::Other {
            policy: policy.cast_unsigned(),
        };
        match self.kind {
            CompetitorKind::NicePlus => set(fair(10)),
            CompetitorKind::NiceMinus => set(fair(-10)),
            CompetitorKind::Batch => set(other(libc::SCHED_BATCH)),
            CompetitorKind::Idle => set(other(libc::SCHED_IDLE)),
            CompetitorKind::Realtime if self.is_realtime() => {
                sched::set_affinity(0, &CpuList::from_iter([self.index as u32]))?;
                set(Attributes::Fifo { priority: 1 })
            }
            // First in line should memory ever run out.
            CompetitorKind::Memory => std::fs::write("/proc/self/oom_score_adj", "1000")
                .context("write 1000 to /proc/self/oom_score_adj"),
            _ => Ok(()),
        }
    }

    fn over(&self) -> bool {
        clock::monotonic() >= self.until_ns
    }

    fn spin(&self, meter: &mut Meter<'_>) {
        while !self.over() {
            burn();
            meter.book();
        }
    }

    fn sleep_and_run(&self, meter: &mut Meter<'_>) {
        while !self.over() {
            burn_for(300_000);
            meter.book();
            std::thread::sleep(Duration::from_micros(700));
        }
    }

    /// Bounded twice: by its CPU clock, and by the wall clock in case that the
    /// CPU clock stands still (steal).
    fn realtime(&self, meter: &mut Meter<'_>) {
        let mut next = clock::monotonic();
        while !self.over() {
            let (cpu, wall) = (clock::process_cpu(), clock::monotonic());
            while clock::process_cpu() - cpu < REALTIME_BUSY_NS
                && clock::monotonic() - wall < 2 * REALTIME_BUSY_NS
            {
                burn();
            }
            meter.book();
            next = (next + REALTIME_PERIOD_NS).max(clock::monotonic() + REALTIME_BUSY_NS);
            clock::sleep_until(next);
        }
    }

    fn fork_storm(&self, meter: &mut Meter<'_>, account: &Account) -> Result<()> {
        // A child's end (tearing down its memory) comes after its last entry;
        // wait4 knows the whole, and the child's own entry knows the CPU.
        let entries = Account::anonymous(configured_cpus())?;
        while !self.over() {
            for _ in 0..STORM {
                let before = entries.totals_ns();
                account.count(Counter::Forked);
                // SAFETY: this process has one thread, so the child may use
                // everything it finds.
                match unsafe { fork() }.context("fork")? {
                    ForkResult::Child => {
                        let mut own = Meter::new(&entries);
                        burn_for(200_000);
                        own.book();
                        // SAFETY: ends the child without running the
                        // destructors of what it shares with its parent.
                        unsafe { libc::_exit(0) }
                    }
                    ForkResult::Parent { child } => {
                        let ended = reap(Some(child.as_raw().cast_unsigned()))?;
                        let whole = (ended.user() + ended.system()).as_nanos() as u64;
                        book_child(account, &before, &entries.totals_ns(), whole);
                    }
                }
                meter.book();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn touch_memory(&self, meter: &mut Meter<'_>) -> Result<()> {
        let available = memory::available(&Root::default());
        let available = available.context("no MemAvailable in /proc/meminfo")?;
        let mut memory = vec![0u8; memory_share(available, self.of)];
        let mut round = 0u8;
        loop {
            round = round.wrapping_add(1);
            for pages in memory.chunks_mut(256 * 4096) {
                for page in pages.chunks_mut(4096) {
                    page[0] = std::hint::black_box(round);
                }
                meter.book();
                if self.over() {
                    return Ok(());
                }
            }
        }
    }

    fn write_disk(&self, meter: &mut Meter<'_>) -> Result<()> {
        // Unlinked from the start: nothing is left whatever happens.
        let mut file: File = tempfile::tempfile_in("/var/tmp")
            .or_else(|_| tempfile::tempfile())
            .context("make a temporary file")?;
        let block = vec![0x5au8; 256 << 10];
        let mut written = 0;
        while !self.over() {
            file.write_all(&block)
                .and_then(|()| file.sync_data())
                .context("write to a temporary file")?;
            written += block.len() as u64;
            if written >= DISK_FILE {
                file.rewind()?;
                written = 0;
            }
            meter.book();
        }
        Ok(())
    }

    fn short_timers(&self, meter: &mut Meter<'_>) {
        // The default slack of 50 us would double the period.
        let _ = nix::sys::prctl::set_timerslack(1);
        while !self.over() {
            std::thread::sleep(Duration::from_micros(50));
            meter.book();
        }
    }

    fn datagrams(&self, meter: &mut Meter<'_>) -> Result<()> {
        let socket = UdpSocket::bind("127.0.0.1:0").context("bind to 127.0.0.1")?;
        socket.connect(socket.local_addr()?)?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        let mut buffer = [0u8; 64];
        while !self.over() {
            for _ in 0..DATAGRAMS {
                // A datagram may be lost when buffers are short: not an error
                // of the competitor, whose purpose is the interrupt.
                let _ = socket.send(&buffer);
                let _ = socket.recv(&mut buffer);
            }
            meter.book();
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// How many real-time tasks a kind adds in front of the `N` asked for.
pub fn realtime_tasks(kind: CompetitorKind) -> usize {
    match kind {
        CompetitorKind::Realtime => configured_cpus(),
        _ => 0,
    }
}

/// Some 20 to 50 us of arithmetic.
pub fn burn() {
    let mut x = 1u64;
    for i in 0..16_000u64 {
        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
    }
}

fn burn_for(ns: u64) {
    let start = clock::process_cpu();
    while clock::process_cpu() - start < ns {
        burn();
    }
}

/// Books the whole time of a child on the CPU where it made its own entry.
fn book_child(account: &Account, before: &[u64], after: &[u64], whole_ns: u64) {
    let cpu = before.iter().zip(after).position(|(b, a)| a > b);
    account.add(cpu.unwrap_or(0), whole_ns);
}

/// Bytes for each of `of` memory competitors, where `available` bytes are free.
fn memory_share(available: u64, of: usize) -> usize {
    let bytes = (available / 4).min(MEMORY_LIMIT) / of.max(1) as u64;
    bytes.max(4096) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_by_a_quarter_and_by_two_gib() {
        assert_eq!(memory_share(400_000 << 10, 1), 100_000 * 1024);
        assert_eq!(memory_share(400_000 << 10, 10), 10_000 * 1024);
        assert_eq!(memory_share(400_000_000 << 10, 4), 512 << 20);
    }

    #[test]
    fn a_childs_whole_time_goes_to_the_cpu_it_was_on() {
        let account = Account::anonymous(3).unwrap();
        book_child(&account, &[1, 2, 3], &[1, 2, 9], 70);
        assert_eq!(account.totals_ns(), [0, 0, 70]);
    }

    #[test]
    fn real_time_competitors_never_come_near_a_whole_cpu() {
        const { assert!(REALTIME_BUSY_NS * 5 <= REALTIME_PERIOD_NS) };
    }

    #[test]
    fn spinners_end_at_their_deadline_and_book() {
        let account = Account::anonymous(configured_cpus()).unwrap();
        let job = Job {
            kind: CompetitorKind::Spin,
            index: 0,
            of: 1,
            until_ns: clock::monotonic() + 5_000_000,
        };
        job.run(&account).unwrap();
        assert_eq!(account.counted(Counter::Started), 1);
        assert!(account.totals_ns().iter().sum::<u64>() > 0);
    }
}
