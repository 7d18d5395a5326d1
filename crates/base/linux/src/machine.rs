// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine that was measured, in a few lines.

use std::io::Read as _;

use crate::Root;

/// The fact that is another one each time.
pub const LOAD: &str = "load average at the start";

/// In one line what does not change from one start to the next.
pub fn lasting(machine: &[(String, String)]) -> String {
    let facts = machine.iter().filter(|(name, _)| name != LOAD);
    facts
        .map(|(name, value)| format!("{name}: {value}"))
        .collect::<Vec<_>>()
        .join("; ")
}

pub fn host(root: &Root) -> Option<String> {
    trimmed(root, "/proc/sys/kernel/hostname")
}

/// The kernel's release, `uname -r`.
pub fn kernel(root: &Root) -> Option<String> {
    trimmed(root, "/proc/sys/kernel/osrelease")
}

/// Major and minor number of the kernel's release.
pub fn kernel_version(root: &Root) -> Option<(u32, u32)> {
    let release = kernel(root)?;
    let mut numbers = release.split(['.', '-']).map(|text| text.parse().ok());
    numbers.next().flatten().zip(numbers.next().flatten())
}

fn trimmed(root: &Root, path: &str) -> Option<String> {
    Some(root.read(path).ok()?.trim().to_owned())
}

/// The first value of this name in `/proc/cpuinfo`, such as `model name`.
pub fn cpuinfo(root: &Root, name: &str) -> Option<String> {
    let text = root.read("/proc/cpuinfo").ok()?;
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    Some(values.next()?.trim().to_owned())
}

/// Whether the first CPU has a flag; only x86 lists them.
pub fn has_flag(root: &Root, flag: &str) -> bool {
    cpuinfo(root, "flags").is_some_and(|flags| flags.split(' ').any(|one| one == flag))
}

/// Facts by name, in the order of the description.
pub fn describe(root: &Root) -> Vec<(&'static str, String)> {
    let text = |path: &str| root.read(path).unwrap_or_default();
    let online = text("/sys/devices/system/cpu/online").trim().to_owned();
    let config = kernel_config(root);
    let mut settings = config.lines();
    let hz = settings.find_map(|line| line.strip_prefix("CONFIG_HZ="));
    let hz = hz.map(str::to_owned);
    let memory = text("/proc/meminfo")
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:"))
        .map_or_else(|| "unknown".to_owned(), |v| v.trim().to_owned());
    let model = cpuinfo(root, "model name").or_else(|| cpuinfo(root, "CPU part"));
    let hypervisor = has_flag(root, "hypervisor");
    let is_virtual = if hypervisor { "yes" } else { "not seen" };
    let governor = text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let governor = Some(governor.trim()).filter(|name| !name.is_empty());
    let autogroup = match text("/proc/sys/kernel/sched_autogroup_enabled").trim() {
        "1" => "on",
        "0" => "off",
        _ => "none",
    };
    vec![
        ("CPU", model.unwrap_or_else(|| "unknown".to_owned())),
        ("CPUs online", online),
        ("virtual", is_virtual.to_owned()),
        ("memory", memory),
        ("kernel", kernel(root).unwrap_or_default()),
        (
            "HZ",
            hz.unwrap_or_else(|| "unknown (no kernel configuration)".to_owned()),
        ),
        ("frequency governor", governor.unwrap_or("none").to_owned()),
        ("autogroup", autogroup.to_owned()),
        (LOAD, text("/proc/loadavg").trim().to_owned()),
    ]
}

/// The configuration the kernel was built with; empty where it is not told.
pub fn kernel_config(root: &Root) -> String {
    if let Ok(packed) = std::fs::File::open(root.path("/proc/config.gz")) {
        let mut text = String::new();
        if flate2::read::GzDecoder::new(packed)
            .read_to_string(&mut text)
            .is_ok()
        {
            return text;
        }
    }
    let release = kernel(root).unwrap_or_default();
    root.read(format!("/boot/config-{release}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let facts = describe(&Root::at(dir.path()));
        assert!(facts.iter().any(|(n, v)| *n == "CPU" && v == "unknown"));
        let hz = |(n, v): &(&str, String)| *n == "HZ" && v.starts_with("unknown");
        assert!(facts.iter().any(hz));
    }

    #[test]
    fn facts_of_a_fake_machine() {
        let (_dir, root) = crate::process::tests::fake(&[
            (
                "proc/cpuinfo",
                "model name\t: Fast CPU\nflags\t\t: fpu hypervisor\n",
            ),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("boot/config-6.1.0", "CONFIG_HZ_250=y\nCONFIG_HZ=250\n"),
        ]);
        let facts = describe(&root);
        let get = |name| facts.iter().find(|(n, _)| *n == name).unwrap().1.as_str();
        assert_eq!(get("CPU"), "Fast CPU");
        assert_eq!(get("HZ"), "250");
        assert_eq!(get("virtual"), "yes");
        assert_eq!(get("frequency governor"), "none");
    }
}
