// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules: one kind of cause each.

use super::{Difference, Holder, Observations, OfCpu, SuspectCause};
use crate::competing::family;
use crate::design;
use crate::tasks::{TaskClass, TaskTime};
use crate::verdict::SIBLING;

type Rule = fn(&Observations, u32, &Difference) -> Vec<SuspectCause>;

/// All of them; of causes that explain as much, the earlier comes first.
pub(super) const ALL: &[Rule] = &[
    tasks,
    holders,
    siblings,
    timer,
    interrupts,
    softirqs,
    noise_suspects,
    steal,
    frequency,
    throttling,
    settings,
    build,
];

/// What takes less of a CPU than this, percent, is not worth a word.
const LEAST_PCT: f64 = 0.05;
/// Nor a task that explains less than this part of the difference.
const LEAST_PART: f64 = 0.02;
/// A timer interrupt takes so long at least, with what it brings along...
const TIMER_NS: f64 = 2_500.0;
/// ...and in a virtual machine up to this, for the hypervisor is asked to set the
/// next one.
const DEAR_TIMER_NS: f64 = 20_000.0;
/// A device's.
const DEVICE_NS: f64 = 2_000.0;
/// Of these kinds more in a second on one CPU than on others is worth a word.
const PER_S: f64 = 100.0;
/// Frequencies differ from this on, percent.
const FREQUENCY_PCT: f64 = 0.5;
/// The row of the local timer in `/proc/interrupts`, x86 and Arm.
const TIMERS: [&str; 3] = ["LOC", "arch_timer", "riscv-timer"];

/// Other tasks, and whose they are.
fn tasks(seen: &Observations, cpu: u32, difference: &Difference) -> Vec<SuspectCause> {
    let mut all: Vec<SuspectCause> = Vec::new();
    // Threads of one family (the kernel's workers) are told together.
    let mut done: Vec<String> = Vec::new();
    for ran in seen.others.on(cpu) {
        let family = family(&ran.name);
        if done.contains(&family) {
            continue;
        }
        let same: Vec<&TaskTime> = seen.others.on(cpu);
        let same = same
            .iter()
            .filter(|other| self::family(&other.name) == family);
        let ns: u64 = same.map(|other| other.ns).sum();
        done.push(family);
        let pct = seen.others.pct(cpu, ns);
        let elsewhere = seen.others.elsewhere_pct(cpu, &ran.name);
        let more = pct - elsewhere;
        let least = LEAST_PCT.max(LEAST_PART * difference.elapsed_pct);
        if more < least {
            continue;
        }
        let evidence = format!(
            "it had {pct:.2} % of CPU {cpu} while tests ran there, {elsewhere:.2} % of the others"
        );
        let (kind, who, remedy) = task_owner(seen, ran);
        all.push(SuspectCause {
            kind,
            who,
            evidence,
            explains_pct: Some(more),
            remedy,
        });
    }
    all
}

/// What threads of audits that run tests are called.
const TESTER: &str = "audit-";

fn task_owner(seen: &Observations, ran: &TaskTime) -> (&'static str, String, String) {
    if let Some(holder) = seen.holder(ran) {
        let who = format!(
            "sandbag run {} ({}, {}; burner {})",
            holder.pid, holder.method, holder.load, ran.pid
        );
        return if holder.is_node() {
            (
                "slow_node",
                who,
                format!(
                    "the CPU is slowed on purpose: `sandbag slow stop` or end process {}",
                    holder.pid
                ),
            )
        } else {
            (
                "load",
                who,
                format!("the load is there on purpose: end process {}", holder.pid),
            )
        };
    }
    let name = &ran.name;
    if name.starts_with(TESTER) {
        return (
            "task",
            format!("another audit of sandbag (process {})", ran.pid),
            "audits at the same time disturb each other: repeat this one alone".to_owned(),
        );
    }
    match ran.class {
        TaskClass::RealTime => (
            "realtime",
            format!(
                "real-time task {name} ({}), priority {}",
                ran.pid, ran.priority
            ),
            format!(
                "move it off with `taskset -pc LIST {}`, or lower its class with `chrt -o -p 0 {}`",
                ran.tid, ran.tid
            ),
        ),
        TaskClass::Kernel => (
            "kthread",
            format!("kernel thread {name} ({})", ran.tid),
            "unbound workers obey /sys/devices/virtual/workqueue/cpumask; bound ones follow the \
             interrupts and timers of their CPU"
                .to_owned(),
        ),
        TaskClass::Ordinary => (
            "task",
            format!("task {name} ({})", ran.pid),
            format!(
                "move it off with `taskset -pc LIST {}` or a cpuset",
                ran.pid
            ),
        ),
    }
}

/// A run of sandbag on this CPU whose burners nobody saw.
fn holders(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let visible = |holder: &Holder| {
        let on = seen.others.on(cpu);
        on.iter()
            .any(|ran| holder.pid == ran.pid || holder.pid == ran.parent)
    };
    let own = seen
        .holders
        .iter()
        .filter(|holder| holder.cpus.contains(cpu) && !visible(holder));
    own.map(|holder| SuspectCause {
        kind: if holder.is_node() {
            "slow_node"
        } else {
            "load"
        },
        who: format!(
            "sandbag run {} ({}, {})",
            holder.pid, holder.method, holder.load
        ),
        evidence: format!("its journal names CPU {cpu}"),
        explains_pct: None,
        remedy: format!("it is there on purpose: end process {}", holder.pid),
    })
    .collect()
}

/// Who runs on the other thread of its core.
fn siblings(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let more = seen.others.more_beside_pct(cpu);
    let beside = seen.others.sibling_tasks(cpu);
    let Some(most) = beside.first().filter(|_| more * SIBLING >= LEAST_PCT) else {
        return Vec::new();
    };
    let (_, who, remedy) = task_owner(seen, most);
    vec![SuspectCause {
        kind: "smt",
        who: format!("{who} on CPU {}, the other thread of its core", most.cpu),
        evidence: format!(
            "CPU {} was busy for {:.1} points more of the time in which CPU {cpu} was tested than \
             others' siblings; a busy one takes up to half of a core",
            most.cpu, more
        ),
        explains_pct: Some(more * SIBLING),
        remedy,
    }]
}

/// Interrupts of a kind in a second: `of` says which rows.
fn per_s(seen: &OfCpu, of: impl Fn(&str) -> bool) -> f64 {
    let rows = seen.evidence.interrupts.iter().filter(|(name, _)| of(name));
    let count: u64 = rows.map(|(_, count)| count).sum();
    count as f64 / (seen.lasted_ns.max(1) as f64 / 1e9)
}

fn is_timer(name: &str) -> bool {
    TIMERS
        .iter()
        .any(|timer| name.split(' ').any(|word| word == *timer))
}

fn label(name: &str) -> &str {
    name.split(' ').next().unwrap_or(name)
}

/// The local timer: more interrupts than the tick of the others.
fn timer(seen: &Observations, cpu: u32, difference: &Difference) -> Vec<SuspectCause> {
    let Some(own) = seen.of.get(&cpu) else {
        return Vec::new();
    };
    let rate = per_s(own, is_timer);
    let elsewhere = seen.mean_elsewhere(cpu, |of| per_s(of, is_timer));
    let more = rate - elsewhere;
    if more < PER_S {
        return Vec::new();
    }
    // What the CPU time does not show they did not take.
    let cost = |each_ns: f64| more * each_ns / 1e9 * 100.0;
    let explains = if difference.cpu_pct > 0.0 {
        difference.cpu_pct.min(cost(DEAR_TIMER_NS))
    } else {
        cost(TIMER_NS)
    };
    vec![SuspectCause {
        kind: "timer",
        who: format!("timer interrupts of CPU {cpu}"),
        evidence: format!(
            "{rate:.0} timer interrupts in a second, {elsewhere:.0} on the others; at {:.1} us \
             each that is {:.1} % of the CPU, in a virtual machine up to {:.0} %",
            TIMER_NS / 1000.0,
            cost(TIMER_NS),
            cost(DEAR_TIMER_NS)
        ),
        explains_pct: Some(explains),
        remedy: format!(
            "find whose timer it is: `grep -A3 'cpu: {cpu}' /proc/timer_list`, or the trace event \
             timer:hrtimer_expire_entry; profilers (perf record -F) set such timers"
        ),
    }]
}

/// Devices whose interrupts come here more than elsewhere.
fn interrupts(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let Some(own) = seen.of.get(&cpu) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (name, _) in &own.evidence.interrupts {
        if is_timer(name) {
            continue;
        }
        let rate = per_s(own, |row| row == name);
        let elsewhere = seen.mean_elsewhere(cpu, |of| per_s(of, |row| row == name));
        let more = rate - elsewhere;
        let cost = more * DEVICE_NS / 1e9 * 100.0;
        if more < PER_S || cost < LEAST_PCT {
            continue;
        }
        let number = label(name);
        let about = name.strip_prefix(number).unwrap_or("").trim();
        let allowed = seen.affinity.iter().find(|(irq, _)| irq == number);
        let allowed = allowed.map(|(_, cpus)| format!("; it may go to CPUs {cpus}"));
        // Devices have numbers; the others are the kernel's own: calls from other
        // CPUs (`RES`, `CAL`, `TLB`, Arm's `IPI0`), counters (`PMI`, `NMI`).
        let device = number.parse::<u32>().is_ok();
        all.push(SuspectCause {
            kind: "interrupts",
            who: if about.is_empty() {
                format!("interrupt {number}")
            } else {
                format!("interrupt {number} ({about})")
            },
            evidence: format!(
                "{rate:.0} in a second on CPU {cpu}, {elsewhere:.0} on the others; at some \
                 {:.0} us each that is {cost:.1} % of the CPU{}",
                DEVICE_NS / 1000.0,
                allowed.unwrap_or_default()
            ),
            explains_pct: Some(cost),
            remedy: match (device, number) {
                (true, _) => format!(
                    "distribute it: irqbalance, or write CPUs to \
                     /proc/irq/{number}/smp_affinity_list"
                ),
                (_, "NMI" | "PMI") => "a profiler or the watchdog counts events: see who uses \
                                       perf, and kernel.nmi_watchdog"
                    .to_owned(),
                _ => "other CPUs call this one: see who runs beside the tests".to_owned(),
            },
        });
    }
    all
}

/// Share of a time in that of the CPU, percent.
fn pct(of: &OfCpu, ns: u64) -> f64 {
    ns as f64 / of.lasted_ns.max(1) as f64 * 100.0
}

/// Time in soft interrupts, where the kernel counts it.
fn softirqs(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let Some(own) = seen.of.get(&cpu) else {
        return Vec::new();
    };
    let time = |of: &OfCpu| pct(of, of.evidence.softirq_ns + of.evidence.irq_ns);
    let (here, elsewhere) = (time(own), seen.mean_elsewhere(cpu, time));
    if here - elsewhere < LEAST_PCT {
        return Vec::new();
    }
    let most = own.evidence.softirqs.iter().max_by_key(|(_, count)| *count);
    let most = most.map_or_else(String::new, |(name, _)| format!(", mostly {name}"));
    vec![SuspectCause {
        kind: "softirq",
        who: format!("interrupts and soft interrupts of CPU {cpu}{most}"),
        evidence: format!("{here:.2} % of its time, {elsewhere:.2} % of the others'"),
        explains_pct: Some(here - elsewhere),
        remedy: "spread the devices' interrupts; for network traffic see \
                 /sys/class/net/*/queues/rx-*/rps_cpus"
            .to_owned(),
    }]
}

/// What the kernel's trace events name.
fn noise_suspects(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let mut all = Vec::new();
    let elsewhere = |name: &str, kind: &str| {
        let cpus = seen.of.len().saturating_sub(1).max(1) as f64;
        let others = seen.blamed.iter().filter(|other| other.cpu != cpu);
        let same = others.filter(|other| other.kind == kind && family(&other.name) == family(name));
        same.map(|other| other.pct).sum::<f64>() / cpus
    };
    for own in seen.blamed.iter().filter(|blamed| blamed.cpu == cpu) {
        let other_pct = elsewhere(&own.name, &own.kind);
        let more = own.pct - other_pct;
        // Tasks are known better by their times, but for those that come and go.
        let known = || {
            let on = seen.others.on(cpu);
            on.iter().any(|ran| family(&ran.name) == family(&own.name))
        };
        if more < LEAST_PCT || (own.kind == "task" && known()) {
            continue;
        }
        let timer = own.kind != "task" && own.name.contains("timer");
        all.push(SuspectCause {
            kind: match (timer, own.kind.as_str()) {
                (true, _) => "timer",
                (_, "softirq") => "softirq",
                (_, "task") => "task",
                _ => "interrupts",
            },
            who: format!("{} {}", own.kind, own.name),
            evidence: format!(
                "the kernel's trace: {:.2} % of CPU {cpu}, {:.0} times in a second; {other_pct:.2} \
                 % of the others",
                own.pct, own.per_s
            ),
            explains_pct: Some(more),
            remedy: match (timer, own.kind.as_str()) {
                (true, _) => "find whose timer it is: the trace event timer:hrtimer_expire_entry",
                (_, "task") => "it comes and goes: find who starts it, the trace event sched:sched_process_exec",
                _ => "distribute it: irqbalance, or /proc/irq/N/smp_affinity_list",
            }
            .to_owned(),
        });
    }
    all
}

/// The hypervisor.
fn steal(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let Some(own) = seen.of.get(&cpu) else {
        return Vec::new();
    };
    let time = |of: &OfCpu| pct(of, of.evidence.steal_ns);
    let (here, elsewhere) = (time(own), seen.mean_elsewhere(cpu, time));
    if here - elsewhere < LEAST_PCT {
        return Vec::new();
    }
    vec![SuspectCause {
        kind: "steal",
        who: "the hypervisor".to_owned(),
        evidence: format!(
            "{here:.2} % of CPU {cpu}'s time was stolen, {elsewhere:.2} % of the others'"
        ),
        explains_pct: Some(here - elsewhere),
        remedy: "others share the physical CPU: ask for dedicated ones, or measure when the host \
                 is quieter"
            .to_owned(),
    }]
}

/// A lower clock.
fn frequency(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let own = seen.of.get(&cpu).and_then(|of| of.frequency_khz);
    // Of those whose frequency is known.
    let others = seen.of.iter().filter(|(other, _)| **other != cpu);
    let others: Vec<f64> = others.filter_map(|(_, of)| of.frequency_khz).collect();
    let elsewhere = others.iter().sum::<f64>() / others.len().max(1) as f64;
    let Some(own) = own.filter(|_| elsewhere > 0.0) else {
        return Vec::new();
    };
    let less = (elsewhere / own.max(1.0) - 1.0) * 100.0;
    if less < FREQUENCY_PCT {
        return Vec::new();
    }
    vec![SuspectCause {
        kind: "frequency",
        who: format!("the clock of CPU {cpu}"),
        evidence: format!(
            "{:.0} MHz in the middle, {:.0} on the others",
            own / 1000.0,
            elsewhere / 1000.0
        ),
        explains_pct: Some(less),
        remedy: format!(
            "compare /sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_max_freq and \
             scaling_governor with the others'"
        ),
    }]
}

/// Heat.
fn throttling(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let events = |of: &OfCpu| of.evidence.throttled.unwrap_or(0) as f64;
    let own = seen.of.get(&cpu).map_or(0.0, events);
    let elsewhere = seen.mean_elsewhere(cpu, events);
    if own <= elsewhere {
        return Vec::new();
    }
    vec![SuspectCause {
        kind: "throttling",
        who: format!("the cooling of CPU {cpu}"),
        evidence: format!("{own:.0} throttle events meanwhile, {elsewhere:.0} on the others"),
        explains_pct: None,
        remedy: "look at fans, heat sink and power limits of this package".to_owned(),
    }]
}

/// Settings that some CPUs have and others do not.
fn settings(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let Some(own) = seen.cpus.iter().find(|known| known.cpu == cpu) else {
        return Vec::new();
    };
    let all = seen.cpus.iter().flat_map(|known| &known.settings);
    let mut names: Vec<&String> = all.collect();
    names.sort_unstable();
    names.dedup();
    let mut found = Vec::new();
    for name in names {
        let with = seen
            .cpus
            .iter()
            .filter(|known| known.settings.contains(name))
            .count();
        if with == seen.cpus.len() {
            continue;
        }
        // Where others are spared, this one has their share.
        let spared = own.settings.contains(name);
        found.push(SuspectCause {
            kind: "cpuset",
            who: if spared {
                format!("CPU {cpu} is in {name}")
            } else {
                format!("CPU {cpu} is not in {name}, {with} others are")
            },
            evidence: format!("{with} of {} CPUs have this setting", seen.cpus.len()),
            explains_pct: None,
            remedy: "compare CPUs of one setting with each other (--cpus)".to_owned(),
        });
    }
    found
}

/// How the machine is built.
fn build(seen: &Observations, cpu: u32, difference: &Difference) -> Vec<SuspectCause> {
    let Some(own) = seen.cpus.iter().find(|known| known.cpu == cpu) else {
        return Vec::new();
    };
    let others = || seen.cpus.iter().filter(|other| other.cpu != cpu);
    let mut found = Vec::new();
    let mut push = |kind, who: String, evidence: String, remedy: &str| {
        found.push(SuspectCause {
            kind,
            who,
            evidence,
            explains_pct: None,
            remedy: remedy.to_owned(),
        });
    };
    if let Some((kind, _)) = design::kinds(&seen.cpus, cpu) {
        let evidence = format!("CPU {cpu} is of the kind `{kind}`, others are not");
        let remedy = "compare CPUs of one kind with each other (--cpus)";
        push(
            "hybrid",
            "cores of several kinds".to_owned(),
            evidence,
            remedy,
        );
    }
    let lonely = others().any(|other| other.siblings.is_empty());
    if !own.siblings.is_empty() && lonely {
        let siblings: Vec<String> = own.siblings.iter().map(u32::to_string).collect();
        let evidence = format!("CPU {cpu} shares its core with CPU {}", siblings.join(", "));
        let remedy =
            "what runs on the sibling takes from this CPU: keep it idle, or switch SMT off";
        push(
            "smt",
            "the sibling of its core".to_owned(),
            evidence,
            remedy,
        );
    }
    let mut tests = difference.tests.iter();
    if let Some(node) = design::node(&seen.cpus, cpu)
        && tests.any(|test| design::touches_memory(test))
    {
        let evidence = format!("CPU {cpu} is on node {node}");
        let remedy = "the array lies on one node: compare CPUs of one node (--cpus)";
        push(
            "numa",
            "the distance to the memory".to_owned(),
            evidence,
            remedy,
        );
    }
    found
}
