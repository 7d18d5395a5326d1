// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups on a machine whose tree belongs to systemd: PID 1 is asked for
//! transient units over D-Bus, nothing is made in its tree behind its back
//! (systemd's "The New Control Group Interfaces" and "Control Group APIs and
//! Delegation"). Only the weight of units of ours is set without it.
//!
//! `busctl` is part of systemd itself, so it is there whenever PID 1 is; a
//! D-Bus library would be the largest dependency of this program for two
//! calls per loaded CPU, before the load begins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbag_linux::child::ChildSetup as _;
use sandbag_linux::process::Process;
use sandbag_linux::{CpuList, Root};

/// How long PID 1 may take to start a unit.
const PATIENCE: Duration = Duration::from_secs(20);

const SERVICE: [&str; 3] = [
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
];

fn call(method: &str, signature: &str, arguments: &[String]) -> Result<(), String> {
    let mut command = Command::new("busctl");
    command
        .args(["--quiet", "--system", "call"])
        .args(SERVICE)
        .args([method, signature])
        .args(arguments)
        .stdin(Stdio::null());
    // A request of ours must not arrive after our journal is undone.
    command.die_with_us(libc::SIGKILL);
    let output = command
        .output()
        .map_err(|cause| format!("busctl: {cause} (it is part of systemd)"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!(
            "{method} {}: {}",
            arguments.first().map_or("", String::as_str),
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}

fn strings(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(ToString::to_string).collect()
}

/// Name, what to do if there is one, properties, no further units.
fn start(arguments: &[String]) -> Result<(), String> {
    call("StartTransientUnit", "ssa(sv)a(sa(sv))", arguments)
}

/// Starts a transient slice with a CPU weight in v2's units.
pub fn start_slice(name: &str, weight: u64) -> Result<(), String> {
    let weight = weight.to_string();
    let property = ["1", "CPUWeight", "t", &weight, "0"];
    start(&strings(&[&[name, "fail"][..], &property].concat()))
}

/// Starts a transient slice that confines what is in it to some CPUs.
pub fn start_node_slice(name: &str, cpus: &CpuList) -> Result<(), String> {
    let mask = cpus.mask();
    let mut arguments = strings(&[name, "fail", "3", "CPUAccounting", "b", "true"]);
    // The default weight: PID 1 enables the cpu controller, and with it the
    // cap, only where something asks for it.
    arguments.extend(strings(&["CPUWeight", "t", "100"]));
    arguments.extend(strings(&["AllowedCPUs", "ay"]));
    arguments.push(mask.len().to_string());
    arguments.extend(mask.iter().map(ToString::to_string));
    arguments.push("0".to_owned());
    start(&arguments)
}

/// Starts a transient scope in a slice with these processes in it, wherever
/// they are.
pub fn start_scope(name: &str, slice: &str, pids: &[u32]) -> Result<(), String> {
    start(&scope(name, slice, pids))
}

fn scope(name: &str, slice: &str, pids: &[u32]) -> Vec<String> {
    let mut arguments = strings(&[name, "fail", "4", "PIDs", "au"]);
    arguments.push(pids.len().to_string());
    arguments.extend(pids.iter().map(ToString::to_string));
    #[rustfmt::skip]
    arguments.extend(strings(&[
        "Slice", "s", slice,
        "CollectMode", "s", "inactive-or-failed",
        "CPUAccounting", "b", "true",
        "0",
    ]));
    arguments
}

/// The group of a scope in the tree at `mount`, once `pid` is in it:
/// StartTransientUnit answers before the job is done. Who ends before will never be.
pub fn wait_for_scope(mount: &Path, pid: u32, scope: &str) -> Result<PathBuf, String> {
    let process = Process::new(&Root::default(), pid);
    let give_up = Instant::now() + PATIENCE;
    loop {
        match group_of(pid) {
            Some(path) if path.ends_with(scope) => return Ok(mount.join(path)),
            _ if !process.lives() => {
                return Err(format!("process {pid} ended before it was in {scope}"));
            }
            _ if Instant::now() > give_up => {
                return Err(format!("systemd did not start {scope} within {PATIENCE:?}"));
            }
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The CPUs to which a unit is confined, as a list; empty for all.
pub fn allowed_cpus(unit: &str) -> Result<String, String> {
    let mut command = Command::new("systemctl");
    command.args(["show", "--property=AllowedCPUs", "--value", "--", unit]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|cause| format!("systemctl: {cause}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("systemctl show {unit}: {}", why.trim()));
    }
    // Ranges are separated by blanks there.
    Ok(text.split_ascii_whitespace().collect::<Vec<_>>().join(","))
}

/// Confines a unit, until the next boot; an empty list frees it.
pub fn set_allowed_cpus(unit: &str, cpus: &CpuList) -> Result<(), String> {
    let mask = if cpus.is_empty() {
        Vec::new()
    } else {
        cpus.mask()
    };
    let mut arguments = strings(&[unit, "true", "1", "AllowedCPUs", "ay"]);
    arguments.push(mask.len().to_string());
    arguments.extend(mask.iter().map(ToString::to_string));
    call("SetUnitProperties", "sba(sv)", &arguments)
}

/// Where PID 1 keeps the confinement of a unit that was set at run time: beside the unit, if
/// that was made at run time itself.
fn files_of_cpus(unit: &str) -> [PathBuf; 2] {
    ["system.control", "transient"].map(|dir| {
        let dir = Path::new("/run/systemd").join(dir);
        dir.join(format!("{unit}.d/50-AllowedCPUs.conf"))
    })
}

/// Whether a unit was confined at run time.
pub fn has_file_of_cpus(unit: &str) -> bool {
    files_of_cpus(unit).iter().any(|file| file.exists())
}

/// Removes those files, and their directories if nothing else is in them.
pub fn forget_cpus(unit: &str) -> Result<(), String> {
    let files = files_of_cpus(unit);
    if !files.iter().any(|file| file.exists()) {
        return Ok(());
    }
    for file in files.iter().filter(|file| file.exists()) {
        fs::remove_file(file).map_err(|cause| format!("{}: {cause}", file.display()))?;
        if let Some(dir) = file.parent() {
            // Not empty: others set something, too.
            let _ = fs::remove_dir(dir);
        }
    }
    // Else PID 1 would say that its files have changed.
    call("Reload", "", &[])
}

/// The path of a process's group below the top of the v2 tree.
pub fn group_of(pid: u32) -> Option<PathBuf> {
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"));
    path.map(PathBuf::from)
}

/// Sends SIGKILL to all that runs in a unit; one that is gone has nothing.
pub fn kill(name: &str) -> Result<(), String> {
    match call("KillUnit", "ssi", &strings(&[name, "all", "9"])) {
        Err(error) if error.contains("not loaded") || error.contains("No matching") => Ok(()),
        other => other,
    }
}

/// Stops a unit and what runs in it; one that is gone already is stopped.
pub fn stop(name: &str) -> Result<(), String> {
    match call("StopUnit", "ss", &strings(&[name, "replace"])) {
        Err(error) if error.contains("not loaded") => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_on_its_way_into_a_scope_is_not_waited_for() {
        let mut child = crate::testing::sleeper();
        child.kill().unwrap();
        let begin = Instant::now();
        // A zombie: its number is not free before it is waited for.
        let refused = wait_for_scope(Path::new("/"), child.id(), "x.scope").unwrap_err();
        child.wait().unwrap();
        assert!(refused.contains("ended before"), "{refused}");
        assert!(begin.elapsed() < PATIENCE / 2);
    }

    #[test]
    fn a_scope_takes_several_processes() {
        let words = scope("x.scope", "user-1000.slice", &[11, 12]).join(" ");
        assert!(words.starts_with("x.scope fail 4 PIDs au 2 11 12 Slice s user-1000.slice "));
        assert!(words.ends_with(" 0"));
    }
}
