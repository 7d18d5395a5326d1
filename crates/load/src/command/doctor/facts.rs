// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be read of the machine without trying anything.

use sandbag_linux::capability::{Capabilities, Capability};
use sandbag_linux::cgroup::Version;
use sandbag_linux::procstat::ProcStat;
use sandbag_linux::sysctl::Sysctl;
use sandbag_linux::topology::Topology;
use sandbag_linux::{Root, autogroup, container, cpufreq, cpuidle, machine, root};

use sandbag_run::layout::{Layout, LayoutKind};

use super::check::Check;

/// All facts of CPUs and system; `stolen_ns` was stolen while probing.
pub fn all(
    root: &Root,
    topology: &Topology,
    layout: Option<&Layout>,
    frequency: Check,
    stolen_ns: u64,
) -> Vec<Check> {
    let mut checks = vec![
        cpus(topology),
        privilege(root),
        frequency,
        turbo(root),
        idle_states(root),
        smt(topology),
        hypervisor(root),
        in_container(root),
        cpu_limit(root, layout),
        systemd(root),
        sched_ext(root),
        session_groups(root),
        debugfs(root),
    ];
    checks.extend(steal(root, stolen_ns));
    checks
}

fn cpus(topology: &Topology) -> Check {
    let mut why = format!("{} online", topology.online);
    if !topology.offline.is_empty() {
        why.push_str(&format!(", {} offline", topology.offline));
    }
    if topology.isolated.is_empty() {
        return Check::ok("cpus", why);
    }
    Check::warn("cpus", format!("{why}, {} isolated", topology.isolated)).remedy(
        "a program goes to isolated CPUs only if it is pinned there (--pin); a load on the \
         others may be all that it meets",
    )
}

fn privilege(root: &Root) -> Check {
    // SAFETY: no arguments, cannot fail.
    let uid = unsafe { libc::geteuid() };
    let has = |capability| Capabilities::effective(root).is_ok_and(|all| all.has(capability));
    if uid != 0 {
        return Check::warn("privilege", format!("ordinary user (uid {uid})")).remedy(
            "run as root (sudo sandbag doctor), or give a delegated v2 group with --cgroup",
        );
    }
    if has(Capability::SysAdmin) && has(Capability::SysNice) {
        Check::ok("privilege", "root")
    } else {
        Check::warn("privilege", "root without all of its capabilities")
            .remedy("in a container: --privileged, or --cap-add SYS_ADMIN --cap-add SYS_NICE")
    }
}

fn turbo(root: &Root) -> Check {
    match cpufreq::turbo(root) {
        Err(error) => Check::warn("turbo", error.to_string()),
        Ok(Some(true)) => Check::warn("turbo", "on: a CPU's speed depends on how many are busy")
            .remedy(
                "for repeatable runs: echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or \
                 echo 0 > /sys/devices/system/cpu/cpufreq/boost",
            ),
        Ok(Some(false)) => Check::ok("turbo", "off"),
        Ok(None) => Check::ok("turbo", "the kernel does not say"),
    }
}

fn idle_states(root: &Root) -> Check {
    const NAME: &str = "idle states";
    if cpuidle::always_polls(root).unwrap_or(false) {
        return Check::ok(NAME, "idle=poll: an idle CPU never sleeps");
    }
    match cpuidle::driver(root) {
        Err(error) => Check::warn(NAME, error.to_string()),
        Ok(Some(driver)) => Check::ok(
            NAME,
            format!(
                "{driver}: an idle CPU sleeps unless a load keeps it awake (--feel competitor)"
            ),
        ),
        Ok(None) => Check::ok(
            NAME,
            "no driver: an idle CPU halts, and --feel competitor is refused",
        ),
    }
}

fn smt(topology: &Topology) -> Check {
    if !topology.has_smt() {
        Check::ok(
            "smt",
            "no two CPUs share a core, as far as the kernel knows",
        )
    } else {
        Check::warn("smt", "CPUs share cores: a load on one slows its sibling")
            .remedy("load whole cores, or one CPU per core (--cpus core)")
    }
}

fn hypervisor(root: &Root) -> Check {
    match container::hypervisor(root) {
        None => Check::ok("hypervisor", "none seen"),
        Some(name) => Check::ok(
            "hypervisor",
            format!("{name}: it may withhold CPU time (steal)"),
        ),
    }
}

fn in_container(root: &Root) -> Check {
    match container::container(root) {
        None => Check::ok("container", "none"),
        Some(name) => Check::warn(
            "container",
            format!("{name}: loads compete with what runs in it, not with the whole machine"),
        )
        .remedy("for a load on the machine, run on the machine"),
    }
}

fn cpu_limit(root: &Root, layout: Option<&Layout>) -> Check {
    let name = "cpu limit";
    let found = match layout.map(Layout::cpu_limit) {
        None | Some(Ok(None)) => container::cpu_limit(root).map(|limit| (limit, false)),
        Some(of_groups) => of_groups.map(|limit| (limit, true)),
    };
    let (limit, is_of_groups) = match found {
        Err(error) => return Check::warn(name, error.to_string()),
        Ok((None, _)) => return Check::ok(name, "none on our group"),
        Ok((Some(limit), is_of_groups)) => (limit, is_of_groups),
    };
    let (meaning, remedy) = if is_of_groups {
        (
            "sandbag's groups together cannot exceed it, and percent are of a CPU, not of the \
             limit",
            "run outside that group, or keep the sum of loads and program below it",
        )
    } else {
        (
            "sandbag was started there, and a program beside a load may be under it",
            "start sandbag outside that group",
        )
    };
    let at = limit.group.display();
    Check::warn(name, format!("{limit}, set on {at}: {meaning}"))
        .remedy(remedy)
        .figure("limit_cpus", limit.cpus())
}

fn systemd(root: &Root) -> Check {
    if container::systemd(root) {
        Check::ok("systemd", "is process 1")
    } else {
        Check::ok("systemd", "is not process 1")
    }
}

fn sched_ext(root: &Root) -> Check {
    match container::sched_ext(root) {
        None => Check::ok("sched_ext", "no such scheduler is loaded"),
        Some(name) => Check::warn(
            "sched_ext",
            format!("{name} is loaded: it may ignore weights, caps and slices"),
        )
        .remedy("believe the probes above; end that scheduler if they fail"),
    }
}

fn session_groups(root: &Root) -> Check {
    let name = "autogroup";
    match autogroup::enabled(root) {
        Err(error) => Check::warn(name, error.to_string()),
        Ok(None) => Check::ok(name, "not in this kernel"),
        Ok(Some(false)) => Check::ok(name, "off"),
        Ok(Some(true)) => Check::ok(
            name,
            "on: in the root group all tasks of one session weigh as one",
        ),
    }
}

fn debugfs(root: &Root) -> Check {
    let lockdown = container::lockdown(root).unwrap_or_else(|| "not in this kernel".to_owned());
    let readable = root.read("/sys/kernel/debug/sched/debug").is_ok();
    let debug = if readable {
        "readable"
    } else {
        "not readable (not mounted, or not root)"
    };
    Check::ok(
        "debugfs",
        format!("the scheduler's debug file is {debug}; kernel lockdown: {lockdown}"),
    )
}

fn steal(root: &Root, stolen_ns: u64) -> Option<Check> {
    let mut stat = ProcStat::open(root).ok()?;
    let sample = stat.sample().ok()?;
    let stolen: u64 = sample.cpus.iter().map(|(_, times)| times.steal).sum();
    let all = sample
        .cpus
        .iter()
        .map(|(_, t)| t.user + t.nice + t.system + t.idle + t.iowait + t.irq + t.softirq + t.steal);
    let pct = sandbag_stats::window::share_pct(stolen, all.sum());
    let check = if stolen == 0 {
        Check::ok("steal", "none since boot")
    } else if pct > sandbag_stats::verdict::NOISY_STEAL_PCT {
        let why = format!("{pct:.1} % of all time since boot: many runs will be undecided");
        Check::warn("steal", why).remedy("a machine with CPUs of its own, or another hour")
    } else {
        let ms = stolen_ns / 1_000_000;
        let why = format!("{pct:.2} % of all time since boot, {ms} ms during the probes");
        Check::ok("steal", why)
    };
    Some(check.figure("steal_pct", pct))
}

pub fn groups(layout: &sandbag_run::Result<Layout>) -> Check {
    let name = "groups";
    let layout = match layout {
        Ok(layout) => layout,
        Err(error) => return super::probes::failed(name, error),
    };
    let why = match layout.kind() {
        LayoutKind::V1 => "the cpu controller is mounted as cgroup v1",
        LayoutKind::V2 => "the cpu controller is in the v2 tree, and systemd is not process 1",
        LayoutKind::V2Systemd => "the v2 tree belongs to systemd: it is asked for units",
        LayoutKind::Delegated => "the group given with --cgroup",
    };
    let (kind, at) = (layout.kind(), layout.hierarchies().cpu.display());
    Check::ok(name, format!("{kind} in {at}: {why}"))
}

/// `sched_rt_runtime_us` and `sched_rt_period_us`, where the kernel has both.
fn real_time_settings(root: &Root) -> Option<(i64, i64)> {
    let number = |what: &str| Sysctl::new(root, what).get_as::<i64>("a number").ok();
    let runtime = number("kernel.sched_rt_runtime_us")?;
    Some((runtime, number("kernel.sched_rt_period_us")?.max(1)))
}

/// Part of a CPU that real-time classes may take; `None` if not limited.
pub fn real_time_limit(root: &Root) -> Option<f64> {
    let (runtime, period) = real_time_settings(root)?;
    (runtime >= 0).then(|| runtime as f64 / period as f64)
}

/// What Linux 6.12 and later keep for ordinary tasks, which only debugfs shows.
fn fair_server(root: &Root) -> String {
    let server = root.path("/sys/kernel/debug/sched/fair_server/cpu0/runtime");
    if let Ok(ns) = root::read_value::<u64>(&server, "a number") {
        return format!("; a fair server keeps {} ms for others", ns / 1_000_000);
    }
    match machine::kernel_version(root) {
        Some(version) if version >= (6, 12) => {
            "; what the fair server keeps for others cannot be seen (debugfs)".to_owned()
        }
        _ => String::new(),
    }
}

/// What real-time classes may take: for methods that use them. `fresh_us` is
/// the budget that a new group of ours got, where groups have budgets.
pub fn real_time(root: &Root, version: Option<Version>, fresh_us: Option<i64>) -> Check {
    let name = "real-time limit";
    let Some((runtime, period)) = real_time_settings(root) else {
        let why = "this kernel does not say what real-time tasks may take";
        return Check::warn(name, why);
    };
    let mut why = match runtime {
        -1 => "no limit (sched_rt_runtime_us is -1)".to_owned(),
        us => format!("{:.0} % of a CPU", us as f64 / period as f64 * 100.0),
    };
    why.push_str(&fair_server(root));
    if version == Some(Version::V1) && fresh_us == Some(0) {
        why.push_str("; a fresh group has no budget: real-time tasks stay in the root group");
    }
    Check::ok(name, why)
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckState;
    use super::*;
    use crate::fake_machine::fake;

    #[test]
    fn turbo_another_scheduler_and_much_steal_are_warned_about() {
        let ops = format!("{}/ops", container::SCHED_EXT_SCHEDULER);
        let (_dir, root) = fake(&[
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
            ("sys/kernel/sched_ext/state", "enabled\n"),
            (&ops, "rusty\n"),
            (
                "proc/stat",
                "cpu  100 0 0 850 0 0 0 50 0 0\ncpu0 100 0 0 850 0 0 0 50 0 0\nbtime 1\n",
            ),
        ]);
        let steal = steal(&root, 0).unwrap();
        assert!((steal.figures["steal_pct"] - 5.0).abs() < 1e-9);
        let scheduler = sched_ext(&root);
        assert!(scheduler.why.starts_with("rusty "), "{}", scheduler.why);
        for check in [steal, scheduler, turbo(&root)] {
            assert_eq!(check.state, CheckState::Warn, "{check:?}");
        }
    }

    #[test]
    fn a_limit_of_the_group_we_were_started_in_is_told_from_that_of_the_groups() {
        let own = ("sys/fs/cgroup/a.scope/cpu.max", "50000 100000\n");
        let top = ("sys/fs/cgroup/cpu.max", "150000 100000\n");
        let none = ("sys/fs/cgroup/cpu.max", "max 100000\n");
        let mounts = "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        for (files, start) in [
            ([own, none], "0.50 CPUs, set on "),
            ([own, top], "1.50 CPUs, set on "),
        ] {
            let (dir, root) = fake(&[
                ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
                ("proc/self/cgroup", "0::/a.scope\n"),
                ("proc/self/mountinfo", mounts),
                files[0],
                files[1],
            ]);
            let layout = Layout::find(&root, None).unwrap();
            let check = cpu_limit(&root, Some(&layout));
            assert!(check.why.starts_with(start), "{}", check.why);
            let is_of_groups = check.why.contains("sandbag's groups together");
            assert_eq!(is_of_groups, files[1] == top, "{}", check.why);
            drop(dir);
        }
    }

    #[test]
    fn real_time_tasks_have_a_limit_and_groups_a_budget() {
        let settings = |runtime| {
            [
                ("proc/sys/kernel/sched_rt_runtime_us", runtime),
                ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
                (
                    "sys/kernel/debug/sched/fair_server/cpu0/runtime",
                    "50000000\n",
                ),
            ]
        };
        let (_dir, root) = fake(&settings("950000\n"));
        assert_eq!(real_time_limit(&root), Some(0.95));
        let check = real_time(&root, Some(Version::V1), Some(0));
        let start = "95 % of a CPU; a fair server keeps 50 ms";
        assert!(check.why.starts_with(start), "{}", check.why);
        assert!(check.why.contains("no budget"));
        let check = real_time(&root, Some(Version::V2), None);
        assert!(!check.why.contains("budget"), "{}", check.why);
        assert_eq!(real_time_limit(&fake(&settings("-1\n")).1), None);
        assert_eq!(real_time(&fake(&[]).1, None, None).state, CheckState::Warn);
    }

    #[test]
    fn a_fair_server_that_cannot_be_seen_is_named_where_there_is_one() {
        for (release, part) in [
            ("6.18.44-fc\n", "debugfs"),
            ("7.0\n", "debugfs"),
            ("6.1.0-13-amd64\n", ""),
            ("", ""),
        ] {
            let text = fair_server(&fake(&[("proc/sys/kernel/osrelease", release)]).1);
            assert!(text.contains(part), "{release}: {text}");
            assert_eq!(text.is_empty(), part.is_empty(), "{release}: {text}");
        }
    }
}
