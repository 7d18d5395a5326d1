// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be read of the machine without trying anything.

use sandbag_linux::capability::{Capabilities, Capability};
use sandbag_linux::cgroup::Version;
use sandbag_linux::procstat::ProcStat;
use sandbag_linux::sysctl::Sysctl;
use sandbag_linux::topology::Topology;
use sandbag_linux::{Root, autogroup, container, cpufreq, machine, root};

use sandbag_run::layout::{Layout, LayoutKind};

use super::check::Check;

/// Everything about CPUs and the system around us, with the line on
/// frequencies; `stolen_ns` is what was stolen while probing.
pub fn all(root: &Root, topology: &Topology, frequency: Check, stolen_ns: u64) -> Vec<Check> {
    let mut checks = vec![
        cpus(topology),
        privilege(root),
        frequency,
        turbo(root),
        smt(topology),
        hypervisor(root),
        in_container(root),
        cpu_limit(root),
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
    let has = |capability| {
        Capabilities::effective(root).is_ok_and(|all: Capabilities| all.has(capability))
    };
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

fn cpu_limit(root: &Root) -> Check {
    let name = "cpu limit";
    match container::cpu_limit(root) {
        Err(error) => Check::warn(name, error.to_string()),
        Ok(None) => Check::ok(name, "none on our group"),
        Ok(Some(limit)) => Check::warn(
            name,
            format!(
                "{:.2} CPUs, set on {}: all loads together cannot exceed it, and percent are of \
                 a CPU, not of the limit",
                limit.cpus(),
                limit.group.display()
            ),
        )
        .remedy("run outside that group, or keep the sum of loads and program below it")
        .figure("limit_cpus", limit.cpus()),
    }
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
    let (mut stolen, mut all) = (0, 0);
    for (_, times) in &sample.cpus {
        stolen += times.steal;
        all += times.user
            + times.nice
            + times.system
            + times.idle
            + times.iowait
            + times.irq
            + times.softirq
            + times.steal;
    }
    let pct = sandbag_stats::window::share_pct(stolen, all);
    let check = match stolen {
        0 => Check::ok("steal", "none since boot"),
        _ if pct > sandbag_stats::verdict::NOISY_STEAL_PCT => Check::warn(
            "steal",
            format!("{pct:.1} % of all time since boot: many runs will be undecided"),
        )
        .remedy("a machine with CPUs of its own, or another hour"),
        _ => Check::ok(
            "steal",
            format!(
                "{pct:.2} % of all time since boot, {} ms during the probes",
                stolen_ns / 1_000_000
            ),
        ),
    };
    Some(check.figure("steal_pct", pct))
}

/// Where the groups are made, and why there.
pub fn groups(layout: &sandbag_run::Result<Layout>) -> Check {
    let name = "groups";
    match layout {
        Err(sandbag_run::Error::NotPossible { what, remedy }) => {
            Check::no(name, what).remedy(remedy)
        }
        Err(error) => Check::no(name, error.to_string()),
        Ok(layout) => {
            let why = match layout.kind() {
                LayoutKind::V1 => "the cpu controller is mounted as cgroup v1",
                LayoutKind::V2 => {
                    "the cpu controller is in the v2 tree, and systemd is not process 1"
                }
                LayoutKind::V2Systemd => "the v2 tree belongs to systemd: it is asked for units",
                LayoutKind::Delegated => "the group given with --cgroup",
            };
            Check::ok(
                name,
                format!(
                    "{} in {}: {why}",
                    layout.kind(),
                    layout.hierarchies().cpu.display()
                ),
            )
        }
    }
}

/// Part of a CPU that real-time classes may take; `None` where nothing limits
/// them, or the kernel does not say.
pub fn real_time_limit(root: &Root) -> Option<f64> {
    let number = |what: &str| Sysctl::new(root, what).get_as::<i64>("a number").ok();
    let runtime = number("kernel.sched_rt_runtime_us").filter(|us| *us >= 0)?;
    let period = number("kernel.sched_rt_period_us")?;
    Some(runtime as f64 / period.max(1) as f64)
}

/// Linux 6.12 and later keep a part of every second for ordinary tasks; how
/// much, debugfs alone says.
fn fair_server(root: &Root) -> String {
    let server = root.path("/sys/kernel/debug/sched/fair_server/cpu0/runtime");
    if let Ok(ns) = root::read_value::<u64>(&server, "a number") {
        return format!("; a fair server keeps {} ms for others", ns / 1_000_000);
    }
    let release = machine::kernel(root).unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (6, 12) => {
            "; what the fair server keeps for others cannot be seen (debugfs)".to_owned()
        }
        _ => String::new(),
    }
}

/// What real-time classes may take: for methods that use them. `fresh_us` is
/// the budget that a new group of ours got, where groups have budgets.
pub fn real_time(root: &Root, version: Option<Version>, fresh_us: Option<i64>) -> Check {
    let name = "real-time limit";
    let number = |what: &str| Sysctl::new(root, what).get_as::<i64>("a number").ok();
    let (Some(runtime), Some(period)) = (
        number("kernel.sched_rt_runtime_us"),
        number("kernel.sched_rt_period_us"),
    ) else {
        return Check::warn(
            name,
            "this kernel does not say what real-time tasks may take",
        );
    };
    let mut why = match runtime {
        -1 => "no limit (sched_rt_runtime_us is -1)".to_owned(),
        us => format!("{:.0} % of a CPU", us as f64 / period.max(1) as f64 * 100.0),
    };
    why.push_str(&fair_server(root));
    let budgets = version == Some(Version::V1) && fresh_us.is_some_and(|us| us == 0);
    if budgets {
        return Check::ok(
            name,
            format!("{why}; a fresh group has no budget: real-time tasks stay in the root group"),
        );
    }
    Check::ok(name, why)
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckState;
    use super::*;
    use std::fs;

    fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        for (path, text) in files {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn turbo_is_warned_about() {
        let (_dir, root) = fake(&[("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n")]);
        assert_eq!(turbo(&root).state, CheckState::Warn);
    }

    #[test]
    fn a_scheduler_of_another_kind_is_named() {
        let (_dir, root) = fake(&[
            ("sys/kernel/sched_ext/state", "enabled\n"),
            (
                &format!("{}/ops", container::SCHED_EXT_SCHEDULER),
                "rusty\n",
            ),
        ]);
        let check = sched_ext(&root);
        assert_eq!(check.state, CheckState::Warn);
        assert!(check.why.starts_with("rusty "), "{}", check.why);
    }

    #[test]
    fn steal_is_a_share_of_everything() {
        let stat = "cpu  100 0 0 850 0 0 0 50 0 0\ncpu0 100 0 0 850 0 0 0 50 0 0\nbtime 1\n";
        let (_dir, root) = fake(&[("proc/stat", stat)]);
        let check = steal(&root, 0).unwrap();
        assert_eq!(check.state, CheckState::Warn);
        assert!((check.figures["steal_pct"] - 5.0).abs() < 1e-9);
    }

    #[test]
    fn real_time_budgets() {
        let (_dir, root) = fake(&[
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            (
                "sys/kernel/debug/sched/fair_server/cpu0/runtime",
                "50000000\n",
            ),
        ]);
        let check = real_time(&root, Some(Version::V1), Some(0));
        assert!(
            check
                .why
                .starts_with("95 % of a CPU; a fair server keeps 50 ms")
        );
        assert!(check.why.contains("no budget"));
        assert!(
            !real_time(&root, Some(Version::V2), None)
                .why
                .contains("budget")
        );
        assert_eq!(real_time(&fake(&[]).1, None, None).state, CheckState::Warn);
    }

    #[test]
    fn a_fair_server_that_cannot_be_seen_is_said_where_there_is_one() {
        let said = |release| fair_server(&fake(&[("proc/sys/kernel/osrelease", release)]).1);
        assert!(said("6.18.44-fc\n").contains("debugfs"));
        assert!(said("7.0\n").contains("debugfs"));
        assert_eq!(said("6.1.0-13-amd64\n"), "");
        assert_eq!(said(""), "");
    }

    #[test]
    fn the_limit_of_real_time_is_a_part_of_a_cpu() {
        let limit = |runtime| {
            let (_dir, root) = fake(&[
                ("proc/sys/kernel/sched_rt_runtime_us", runtime),
                ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ]);
            real_time_limit(&root)
        };
        assert_eq!(limit("500000\n"), Some(0.5));
        assert_eq!(limit("-1\n"), None);
    }

    #[test]
    fn where_no_group_can_be_made_the_remedy_is_that_of_the_error() {
        let check = groups(&Err(sandbag_run::Error::NotPossible {
            what: "no permission".into(),
            remedy: "be root".into(),
        }));
        assert_eq!(check.state, CheckState::No);
        assert_eq!(check.remedy.as_deref(), Some("be root"));
    }
}
