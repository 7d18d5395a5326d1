// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A Debian small enough to be an initial RAM file system, with systemd.
//!
//! Built once by debootstrap, which needs root, from the mirror that apt uses
//! here; then kept as an uncompressed archive, because an emulated CPU copies
//! far faster than it decompresses.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::{cache, image, packages};
use crate::case;

/// Debian 12; its systemd is the oldest that is still in wide use.
const SUITE: &str = "bookworm";

/// Beyond what is essential. `dbus` because the group layout is asked of
/// PID 1 over the system bus.
const PACKAGES: &str = "systemd,systemd-sysv,dbus";

/// Goes up with every change of what is built, so that an older archive in
/// the cache is not taken for the new one.
const VERSION: u32 = 1;

/// Nothing reads these, and they are half of the files; nor shall any timer
/// begin to work beside a measurement.
const PRUNED: [&str; 9] = [
    "etc/systemd/system/timers.target.wants",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/zoneinfo",
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/lib/x86_64-linux-gnu/gconv",
];

/// The archive from the cache, built if it is not there.
pub fn find_or_build() -> anyhow::Result<PathBuf> {
    let cache = cache::directory()?;
    let archive = cache.join(format!("debian-{SUITE}-{VERSION}.cpio"));
    if !archive.is_file() {
        build(&cache, &archive).context("no Debian for the guest")?;
    }
    Ok(archive)
}

fn build(cache: &Path, archive: &Path) -> anyhow::Result<()> {
    let debootstrap = cache::tool("debootstrap", "debootstrap")?;
    if !nix::unistd::geteuid().is_root() {
        bail!("debootstrap needs root");
    }
    let mirror = packages::mirror()?;
    let work = tempfile::tempdir_in(cache)?;
    let root = work.path().join("root");
    case::note("building a Debian with systemd, about a minute");
    // In a mount namespace of its own: whatever happens, nothing that
    // debootstrap mounts below the tree outlives it.
    cache::output(
        Command::new(cache::tool("unshare", "util-linux")?)
            .args(["--mount", "--propagation", "private", "--"])
            .arg(debootstrap)
            .arg("--variant=minbase")
            .arg(format!("--include={PACKAGES}"))
            .arg(SUITE)
            .arg(&root)
            .arg(mirror)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )?;
    for path in PRUNED {
        let path = root.join(path);
        if path.exists() {
            std::fs::remove_dir_all(&path).with_context(|| path.display().to_string())?;
        }
    }
    let unfinished = work.path().join("cpio");
    image::archive(&root, None, &mut File::create(&unfinished)?)?;
    std::fs::rename(&unfinished, archive).with_context(|| archive.display().to_string())
}
