// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a guest's kernel patch its own code for the perf events that sandbag
//! uses, and keeps it so until it is killed; see `docs/testing.md`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use sandbag_linux::CpuList;
use sandbag_linux::perf::{GroupClock, GroupMigrations};

/// Have the kernel patched for perf events of groups; "ready" is printed when it is
#[derive(Debug, Parser)]
struct Arguments {
    /// A group that does not end
    group: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let group = Arguments::parse().group;
    let first: CpuList = "0".parse().context("a CPU")?;
    let _clock = GroupClock::open(&group, &first)?;
    let _migrations = GroupMigrations::open(&group, &first)?;
    println!("ready");
    loop {
        std::thread::park();
    }
}
