// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where downloads and built images are kept, and how tools are found.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, bail};

/// `SANDBAG_GUEST_CACHE`, or `.guest` in the repository; made if missing.
pub fn directory() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("SANDBAG_GUEST_CACHE")
        .map_or_else(|| super::repository().join(".guest"), PathBuf::from);
    std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
    path.canonicalize()
        .with_context(|| path.display().to_string())
}

/// The path of a program; `package` is the Debian package to be named if it
/// is missing. Looks into the directories for administrators too, which are
/// not on everyone's PATH.
pub fn tool(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("no {name} (Debian package {package})"))
}

/// Runs a command to its end.
///
/// # Errors
/// If it cannot be started or fails: with the last line it wrote to stderr.
pub fn output(command: &mut Command) -> anyhow::Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.lines().last().unwrap_or("no message").to_owned();
        bail!("{name} failed ({}): {last}", output.status);
    }
    Ok(output)
}
