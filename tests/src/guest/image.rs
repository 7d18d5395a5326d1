// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest's file system: archives that the kernel unpacks one after the
//! other (Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! First the base, where there is one; then a layer with the programs, the
//! scenario and what starts it. Uncompressed: an emulated CPU copies far
//! faster than it decompresses. The layout is that of a merged `/usr`, in
//! both kinds of guest.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::{Guest, GuestKind, cache, file};

/// Where everything about the scenario is, inside.
const HOME: &str = "usr/lib/sandbag-guest";

/// Beside busybox in a bare guest: `setpriv` becomes another user and
/// `unshare` makes a cgroup namespace, of which busybox's ones know nothing.
const BARE_TOOLS: [&str; 2] = ["setpriv", "unshare"];

/// Checks that the tools are there.
pub fn tools() -> anyhow::Result<()> {
    cache::tool("busybox", "busybox-static")?;
    cache::tool("cpio", "cpio")?;
    cache::tool("find", "findutils")?;
    for name in BARE_TOOLS {
        cache::tool(name, "util-linux")?;
    }
    Ok(())
}

/// Writes the archive for one guest and its scenarios into `work`.
pub fn build(
    guest: &Guest,
    scenarios: &[PathBuf],
    base: Option<&Path>,
    work: &Path,
) -> anyhow::Result<PathBuf> {
    let layer = work.join("layer");
    let home = layer.join(HOME);
    fs::create_dir_all(&home)?;
    fs::create_dir_all(layer.join("usr/bin"))?;
    for program in &guest.programs {
        add_program(program, &layer)?;
    }
    let order = home.join("scenarios");
    fs::create_dir(&order)?;
    for (at, scenario) in scenarios.iter().enumerate() {
        let name = scenario.file_name().context("a scenario without a name")?;
        copy(scenario, &order.join(format!("{at:02}-{}", name.display())))?;
    }
    for name in ["lib.sh", "run.sh"] {
        copy(&file(name), &home.join(name))?;
    }
    match guest.kind {
        GuestKind::Bare => add_bare_root(&layer)?,
        GuestKind::Systemd => add_units(&layer)?,
    }

    let path = work.join("initrd");
    let mut archive_file = File::create(&path)?;
    if let Some(base) = base {
        io::copy(&mut File::open(base)?, &mut archive_file)?;
    }
    archive(&layer, Some("0:0"), &mut archive_file)?;
    Ok(path)
}

/// What a Debian would bring: busybox, the links of a merged `/usr`, mount
/// points, and `/init`.
fn add_bare_root(layer: &Path) -> anyhow::Result<()> {
    add_program(&cache::tool("busybox", "busybox-static")?, layer)?;
    for name in BARE_TOOLS {
        add_program(&cache::tool(name, "util-linux")?, layer)?;
    }
    for name in ["dev", "etc", "proc", "root", "run", "sys", "tmp"] {
        fs::create_dir_all(layer.join(name))?;
    }
    for name in ["bin", "lib", "lib64", "sbin"] {
        fs::create_dir_all(layer.join("usr").join(name))?;
        symlink(format!("usr/{name}"), layer.join(name))?;
    }
    fs::write(layer.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    fs::write(layer.join("etc/group"), "root:x:0:\n")?;
    copy(&file("init.sh"), &layer.join("init"))
}

/// The scenario as a service, and what it can start; the kernel's command line
/// makes it the only thing that systemd starts.
fn add_units(layer: &Path) -> anyhow::Result<()> {
    let units = layer.join("etc/systemd/system");
    fs::create_dir_all(&units)?;
    for name in ["scenario.service", "keep.slice", "busy@.service"] {
        copy(&file("units").join(name), &units.join(name))?;
    }
    Ok(())
}

/// Copies a program to `/usr/bin` and the libraries that it needs to where
/// they are here. A guest that has a library of that name already keeps its
/// own only if it is in the base; both come from the same Debian release.
fn add_program(program: &Path, layer: &Path) -> anyhow::Result<()> {
    let name = program.file_name().context("a program without a name")?;
    copy(program, &layer.join("usr/bin").join(name))?;
    // ldd fails for a static program, which needs nothing.
    let ldd = Command::new("ldd")
        .arg(program)
        .output()
        .context("cannot start ldd")?;
    for library in libraries(&String::from_utf8_lossy(&ldd.stdout)) {
        let place = merged(&library);
        if let Some(directory) = place.parent() {
            fs::create_dir_all(layer.join(directory))?;
        }
        copy(&library, &layer.join(place))?;
    }
    Ok(())
}

/// The paths in ldd's answer: `libc.so.6 => /lib/x/libc.so.6 (0x7f)` and
/// `/lib64/ld-linux-x86-64.so.2 (0x7f)`.
fn libraries(ldd: &str) -> Vec<PathBuf> {
    ldd.lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect()
}

/// `/lib/x` as `usr/lib/x`, relative to the guest's root.
fn merged(path: &Path) -> PathBuf {
    let relative = path.strip_prefix("/").unwrap_or(path);
    if relative.starts_with("usr") {
        relative.to_owned()
    } else {
        Path::new("usr").join(relative)
    }
}

/// Copies contents; all we copy are programs, scripts and unit files, and a
/// permission to execute does no harm.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to)
        .and_then(|_| fs::set_permissions(to, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("{} to {}", from.display(), to.display()))
}

/// Appends the archive of a tree, with its owners or all of `owner`.
pub fn archive(tree: &Path, owner: Option<&str>, to: &mut File) -> anyhow::Result<()> {
    let mut find = Command::new(cache::tool("find", "findutils")?)
        .args([".", "-print0"])
        .current_dir(tree)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start find")?;
    let names = find.stdout.take().context("find has no output")?;
    let mut cpio = Command::new(cache::tool("cpio", "cpio")?);
    cpio.args(["--create", "--format=newc", "--null", "--quiet"])
        .current_dir(tree)
        .stdin(names)
        .stdout(to.try_clone()?);
    if let Some(owner) = owner {
        cpio.args(["--owner", owner]);
    }
    let (written, found) = (cpio.status()?, find.wait()?);
    if !(written.success() && found.success()) {
        bail!("find ended with {found}, cpio with {written}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_both_forms_of_line() {
        let ldd = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                   \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let paths: Vec<_> = libraries(ldd).iter().map(|path| merged(path)).collect();
        assert_eq!(
            paths,
            [
                Path::new("usr/lib/x86_64-linux-gnu/libc.so.6"),
                Path::new("usr/lib64/ld-linux-x86-64.so.2")
            ]
        );
        assert!(libraries("\tstatically linked\n").is_empty());
        assert_eq!(merged(Path::new("/usr/lib/a")), Path::new("usr/lib/a"));
    }
}
