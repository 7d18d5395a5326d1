// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a journal may name: the kernel's own files, and groups and units of
//! its run.
//!
//! Journals are private, so only we write them. Should one be wrong all the
//! same, it must not make us write elsewhere or end processes of others.

use std::path::{Component, Path, PathBuf};

use sandbag_linux::{CpuList, Root, cgroup, cpuidle};

use crate::journal::{Entry, Setting, SettingOf};
use crate::layout::PREFIX;
use crate::run_process::RunId;

/// Controllers that are enabled for a run.
const CONTROLLERS: [&str; 2] = ["cpu", "cpuset"];
/// Files of a cpufreq policy that are written.
const CPUFREQ: [&str; 4] = [
    "scaling_governor",
    "scaling_min_freq",
    "scaling_max_freq",
    "scaling_setspeed",
];
/// Longest name of a governor or a unit.
const LONGEST_NAME: usize = 255;

/// Where the kernel's files are on this machine.
#[derive(Debug, Clone)]
pub struct UndoScope {
    /// Mount points of the trees of groups.
    pub groups: Vec<PathBuf>,
    /// `/proc/sys/kernel`.
    pub tunables: PathBuf,
    /// `/sys/devices/system/cpu`.
    pub cpus: PathBuf,
}

impl UndoScope {
    /// Those of a machine. Without a list of mounts no group is allowed.
    pub fn on(root: &Root) -> Self {
        Self {
            groups: cgroup::mount_points(root).unwrap_or_default(),
            tunables: root.path("/proc/sys/kernel"),
            cpus: root.path("/sys/devices/system/cpu"),
        }
    }

    /// Whether an entry of the run `run` may be undone.
    pub fn check(&self, entry: &Entry, run: RunId) -> Result<(), String> {
        match entry {
            // Only a SIGCONT, and only to who is still the same; or nothing at all.
            Entry::Run(_)
            | Entry::Stopped { .. }
            | Entry::Worker { .. }
            | Entry::CommandOver
            | Entry::PutBack { .. } => Ok(()),
            Entry::Group { dirs, back } => {
                for dir in dirs {
                    self.group_of(run, dir)?;
                }
                back.iter().flatten().try_for_each(|dir| self.group(dir))
            }
            Entry::Controller { path, name } => {
                self.group(path)?;
                allow(has_name(path, "cgroup.subtree_control"), || {
                    format!("{} is no list of controllers", path.display())
                })?;
                allow(CONTROLLERS.contains(&name.as_str()), || {
                    format!("{name:?} is no controller that sandbag enables")
                })
            }
            Entry::Unit { name, .. } => unit_of(run, name),
            Entry::NodeSlice { name, dir, back } => {
                unit_of(run, name)?;
                self.group_of(run, dir)?;
                slice(back)
            }
            Entry::NodeScope { dir, back, home } => {
                self.group_of(run, dir)?;
                slice(back)?;
                home.as_ref().map_or(Ok(()), |home| self.group(home))
            }
            Entry::UnitCpus {
                unit, dir, before, ..
            } => {
                foreign_unit(unit)?;
                self.group(dir)?;
                allow(before.parse::<CpuList>().is_ok(), || {
                    format!("{before:?} is no list of CPUs")
                })
            }
            Entry::Confined {
                dir, cpus, before, ..
            } => {
                self.group_of(run, dir)?;
                let is_list = |list: &&String| list.parse::<CpuList>().is_ok();
                allow([cpus, before].iter().all(is_list), || {
                    format!("{cpus:?} and {before:?} are no lists of CPUs")
                })
            }
            Entry::Setting(setting) => self.setting(setting),
            Entry::StoppedGroup { dir } | Entry::Frozen { dir } => self.group_of(run, dir),
            Entry::TraceInstance { name } => {
                let rest = name.strip_prefix(PREFIX);
                allow(rest.is_some_and(|rest| plain(rest, "-")), || {
                    format!("{name:?} is no name of a trace instance of ours")
                })
            }
        }
    }

    fn setting(&self, setting: &Setting) -> Result<(), String> {
        let Setting { of, path, old } = setting;
        let is_value = |condition| {
            allow(condition, || {
                format!("{old:?} is no value of {}", path.display())
            })
        };
        let is_ours = |condition| {
            allow(condition, || {
                format!("{} is no setting that sandbag changes", path.display())
            })
        };
        let is_number = || is_value(old.parse::<i64>().is_ok());
        match of {
            SettingOf::Sysctl => {
                below([&self.tunables], path)?;
                let name = path.file_name().and_then(|name| name.to_str());
                is_ours(name.is_some_and(|name| name.starts_with("sched_")))?;
                is_number()
            }
            SettingOf::RtRuntime => {
                self.group(path)?;
                is_ours(has_name(path, "cpu.rt_runtime_us"))?;
                is_number()
            }
            SettingOf::Cpuset => {
                self.group(path)?;
                is_ours(has_name(path, "cpuset.cpus"))?;
                is_value(old.parse::<CpuList>().is_ok())
            }
            SettingOf::Cpufreq => {
                below([&self.cpus], path)?;
                let in_cpufreq = path.components().any(|part| part.as_os_str() == "cpufreq");
                is_ours(in_cpufreq && CPUFREQ.iter().any(|name| has_name(path, name)))?;
                is_value(plain(old, "_-"))
            }
            SettingOf::LatencyLimit => {
                below([&self.cpus], path)?;
                is_ours(has_name(path, cpuidle::LATENCY_LIMIT))?;
                is_value(old == cpuidle::NO_DELAY || old.parse::<u32>().is_ok())
            }
        }
    }

    /// A path in a tree of groups.
    fn group(&self, path: &Path) -> Result<(), String> {
        below(&self.groups, path)
    }

    /// A group that the run made, by its name: what is in it may be killed.
    fn group_of(&self, run: RunId, dir: &Path) -> Result<(), String> {
        self.group(dir)?;
        let name = dir.file_name().and_then(|name| name.to_str());
        allow(name.is_some_and(|name| is_of(run, name)), || {
            format!("{} is no group of run {run}", dir.display())
        })
    }
}

fn allow(condition: bool, why_not: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(why_not()) }
}

/// Whether this is the name of a group or a unit of the run: `sandbag-7-cpu0`,
/// `sandbag7c0n0.slice`.
pub fn is_of(run: RunId, name: &str) -> bool {
    let run = run.to_string();
    let rest = name.strip_prefix(PREFIX);
    let rest = rest.map(|rest| rest.strip_prefix('-').unwrap_or(rest));
    let rest = rest.and_then(|rest| rest.strip_prefix(run.as_str()));
    // 7 is not 71.
    rest.is_some_and(|rest| rest.starts_with(['-', 'c', 'n']))
}

fn unit_of(run: RunId, name: &str) -> Result<(), String> {
    let kind = name
        .strip_suffix(".slice")
        .or_else(|| name.strip_suffix(".scope"));
    let is_ours = kind.is_some_and(|name| is_of(run, name) && plain(name, ""));
    allow(is_ours, || format!("{name:?} is no unit of run {run}"))
}

/// A slice not made by sandbag, by the characters that systemd.unit(5) allows.
fn slice(name: &str) -> Result<(), String> {
    let rest = name.strip_suffix(".slice");
    let is_slice = rest.is_some_and(|rest| plain(rest, UNIT_CHARACTERS));
    allow(is_slice, || format!("{name:?} is no slice"))
}

/// A unit of others: nothing but its CPUs is put back.
fn foreign_unit(name: &str) -> Result<(), String> {
    let rest = [".service", ".scope", ".slice"]
        .iter()
        .find_map(|end| name.strip_suffix(end));
    allow(
        rest.is_some_and(|rest| plain(rest, UNIT_CHARACTERS)),
        || format!("{name:?} is no unit"),
    )
}

/// Beside letters and digits, by systemd.unit(5).
const UNIT_CHARACTERS: &str = "-_.:\\@";

/// Letters, digits and these.
fn plain(text: &str, more: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
}

fn has_name(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|own| own == name)
}

/// Whether a path is below one of these directories without a way out: no
/// `..`, and no link on it. What is not there has nothing to be undone.
fn below<'a>(tops: impl IntoIterator<Item = &'a PathBuf>, path: &Path) -> Result<(), String> {
    let straight = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let inside = straight && tops.into_iter().any(|top| path.starts_with(top));
    if !inside {
        return Err(format!(
            "{} is in no tree of the kernel's that sandbag writes to",
            path.display()
        ));
    }
    match path.canonicalize() {
        Ok(real) if real == path => Ok(()),
        Ok(real) => Err(format!("{} leads to {}", path.display(), real.display())),
        Err(cause) if is_gone(&cause) => Ok(()),
        Err(cause) => Err(format!("{}: {cause}", path.display())),
    }
}

fn is_gone(cause: &std::io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

#[cfg(any(test, feature = "fixture"))]
impl UndoScope {
    /// Everything below one directory, for tests.
    pub fn below(dir: &Path) -> Self {
        Self {
            groups: vec![dir.to_owned()],
            tunables: dir.to_owned(),
            cpus: dir.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const MOUNTS: &str = "\
31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
32 23 0:27 / /cgroup/cpu rw - cgroup cgroup rw,cpu
";

    /// A machine with both kinds of trees, and what a forger could want.
    fn machine() -> (tempfile::TempDir, Root, UndoScope) {
        let governor = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
        let (dir, root) = crate::testing::machine(&[
            ("proc/self/mountinfo", MOUNTS),
            ("proc/self/cgroup", "0::/\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "-1"),
            ("proc/sys/kernel/core_pattern", "core"),
            ("sys/fs/cgroup/cgroup.subtree_control", "cpu"),
            ("sys/fs/cgroup/mine/cgroup.subtree_control", ""),
            (governor, "x"),
            ("cgroup/cpu/node/cpu.rt_runtime_us", "0"),
            ("etc/shadow", "secret"),
        ]);
        let allowed = UndoScope::on(&root);
        (dir, root, allowed)
    }

    fn is_allowed(allowed: &UndoScope, entry: &Entry) -> bool {
        allowed.check(entry, RunId::from(7)).is_ok()
    }

    #[test]
    fn only_settings_of_the_kernel_are_put_back() {
        let (_dir, root, allowed) = machine();
        let may = |of, path: &str, old: &str| {
            let setting = Setting {
                of,
                path: root.path(path),
                old: old.into(),
            };
            is_allowed(&allowed, &Entry::Setting(setting))
        };
        const RT: &str = "/proc/sys/kernel/sched_rt_runtime_us";
        assert!(may(SettingOf::Sysctl, RT, "950000"));
        assert!(may(SettingOf::Sysctl, RT, "-1"));
        assert!(!may(SettingOf::Sysctl, RT, "1\nroot::0:0::/:/bin/sh"));
        let core = "/proc/sys/kernel/core_pattern";
        assert!(!may(SettingOf::Sysctl, core, "1"));
        assert!(!may(SettingOf::Sysctl, "/etc/shadow", "1"));
        let out = "/proc/sys/kernel/../../../etc/shadow";
        assert!(!may(SettingOf::Sysctl, out, "1"));
        let link = "/proc/sys/kernel/sched_link";
        symlink(root.path("/etc/shadow"), root.path(link)).unwrap();
        assert!(!may(SettingOf::Sysctl, link, "1"));
        let budget = "/cgroup/cpu/node/cpu.rt_runtime_us";
        assert!(may(SettingOf::RtRuntime, budget, "0"));
        assert!(!may(SettingOf::RtRuntime, "/cgroup/cpu/node/tasks", "0"));
        let policy = "/sys/devices/system/cpu/cpufreq/policy0";
        let governor = format!("{policy}/scaling_governor");
        assert!(may(SettingOf::Cpufreq, &governor, "conservative"));
        assert!(!may(SettingOf::Cpufreq, &governor, "../../x"));
        let online = "/sys/devices/system/cpu/cpu1/online";
        assert!(!may(SettingOf::Cpufreq, online, "0"));
        let limit = "/sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us";
        assert!(may(SettingOf::LatencyLimit, limit, "35"));
        assert!(may(SettingOf::LatencyLimit, limit, "n/a"));
        assert!(!may(SettingOf::LatencyLimit, limit, "-1"));
        assert!(!may(SettingOf::LatencyLimit, online, "0"));
    }

    #[test]
    fn only_groups_of_the_run_are_emptied() {
        let (_dir, root, allowed) = machine();
        let may = |dir: &str, back: Option<&str>| {
            let entry = Entry::Group {
                dirs: vec![root.path(dir)],
                back: back.map(|dir| vec![root.path(dir)]),
            };
            is_allowed(&allowed, &entry)
        };
        assert!(may("/sys/fs/cgroup/sandbag-7-cpu0", None));
        assert!(may(
            "/cgroup/cpu/user/sandbag-7-cmd",
            Some("/cgroup/cpu/user")
        ));
        for other in [
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/system.slice",
            "/sys/fs/cgroup/sandbag-71-cpu0",
            "/sys/fs/cgroup/sandbag-8-cpu0",
            "/sys/fs/cgroup/sandbag-7-cpu0/../system.slice",
            "/sys/fs/cgroup/sandbag-7-cpu0/..",
            "/etc/sandbag-7-cpu0",
        ] {
            assert!(!may(other, None), "{other}");
        }
        assert!(!may("/sys/fs/cgroup/sandbag-7-cmd", Some("/etc")));
        let name = "/sys/fs/cgroup/sandbag-7-node";
        symlink(root.path("/etc"), root.path(name)).unwrap();
        assert!(!may(name, None));
        for entry in [
            Entry::Frozen {
                dir: root.path("/sys/fs/cgroup/system.slice"),
            },
            Entry::StoppedGroup {
                dir: root.path("/sys/fs/cgroup/system.slice"),
            },
        ] {
            assert!(!is_allowed(&allowed, &entry), "{entry:?}");
        }
    }

    #[test]
    fn only_our_controllers_are_disabled_and_only_our_units_stopped() {
        let (_dir, root, allowed) = machine();
        let controller = |path: &str, name: &str| {
            let entry = Entry::Controller {
                path: root.path(path),
                name: name.into(),
            };
            is_allowed(&allowed, &entry)
        };
        let control = "/sys/fs/cgroup/mine/cgroup.subtree_control";
        assert!(controller(control, "cpu") && controller(control, "cpuset"));
        assert!(!controller(control, "cpu -memory"));
        assert!(!controller(control, "memory"));
        assert!(!controller("/etc/shadow", "cpu"));
        assert!(!controller("/sys/fs/cgroup/mine/cgroup.procs", "cpu"));
        let unit = |name: &str| {
            let entry = Entry::Unit {
                name: name.into(),
                keep: false,
            };
            is_allowed(&allowed, &entry)
        };
        for ours in [
            "sandbag7c0n0.slice",
            "sandbag7c0n0.scope",
            "sandbag7cmd.scope",
        ] {
            assert!(unit(ours), "{ours}");
        }
        for other in [
            "ssh.service",
            "system.slice",
            "sandbag71c0n0.slice",
            "sandbag7c0.service",
        ] {
            assert!(!unit(other), "{other}");
        }
        let slice = |back: &str| {
            let entry = Entry::NodeSlice {
                name: "sandbag7node.slice".into(),
                dir: root.path("/sys/fs/cgroup/sandbag7node.slice"),
                back: back.into(),
            };
            is_allowed(&allowed, &entry)
        };
        assert!(slice("user-1000.slice") && !slice("ssh.service") && !slice("a/b.slice"));
        let instance =
            |name: &str| is_allowed(&allowed, &Entry::TraceInstance { name: name.into() });
        assert!(instance("sandbag-7") && !instance("../x") && !instance("sandbag-/.."));
    }
}
