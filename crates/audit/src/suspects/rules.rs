// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules: one kind of cause each.

use std::collections::BTreeMap;

use super::seen::{Difference, Holder, NoiseSource, Observations, OfCpu, SuspectCause};
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

/// What takes less of a CPU than this, percent, is not reported.
const LEAST_PCT: f64 = 0.05;
/// Nor is a task that explains less than this part of the difference.
const LEAST_PART: f64 = 0.02;
/// Least cost of a timer interrupt with what it brings along...
const TIMER_NS: f64 = 2_500.0;
/// ...and the greatest, in a virtual machine, where the hypervisor sets the next one.
const DEAR_TIMER_NS: f64 = 20_000.0;
/// Cost of a device's interrupt.
const DEVICE_NS: f64 = 2_000.0;
/// Interrupts in a second more than on the other CPUs that are reported.
const PER_S: f64 = 100.0;
/// Least difference of frequencies that is reported, percent.
const FREQUENCY_PCT: f64 = 0.5;
/// Words of the row of the local timer in `/proc/interrupts`: x86, Arm, RISC-V, Hyper-V.
const TIMERS: [&str; 4] = ["LOC", "arch_timer", "riscv-timer", "HVS"];

/// A value of a CPU and the mean of the other CPUs.
struct Excess {
    here: f64,
    elsewhere: f64,
}

impl Excess {
    fn more(&self) -> f64 {
        self.here - self.elsewhere
    }
}

/// What a CPU has at least `least` more of than the others.
fn excess(seen: &Observations, cpu: u32, least: f64, of: impl Fn(&OfCpu) -> f64) -> Option<Excess> {
    let excess = Excess {
        here: of(seen.of.get(&cpu)?),
        elsewhere: seen.mean_elsewhere(cpu, of),
    };
    (excess.more() >= least).then_some(excess)
}

/// Other tasks, and whose they are. Threads of one family (the kernel's workers) are
/// one suspect.
fn tasks(seen: &Observations, cpu: u32, difference: &Difference) -> Vec<SuspectCause> {
    let least = LEAST_PCT.max(LEAST_PART * difference.elapsed_pct);
    let mut families: Vec<(String, &TaskTime, u64)> = Vec::new();
    for ran in seen.others.on(cpu) {
        let family = family(&ran.name);
        match families.iter_mut().find(|(known, ..)| *known == family) {
            Some((.., ns)) => *ns += ran.ns,
            None => families.push((family, ran, ran.ns)),
        }
    }
    let causes = families.into_iter().filter_map(|(_, ran, ns)| {
        let pct = seen.others.pct(cpu, ns);
        let elsewhere = seen.others.elsewhere_pct(cpu, &ran.name);
        let (kind, who, remedy) = task_owner(seen, ran);
        (pct - elsewhere >= least).then(|| SuspectCause {
            kind,
            who,
            evidence: format!(
                "it had {pct:.2} % of CPU {cpu} while tests ran there, {elsewhere:.2} % of the \
                 others"
            ),
            explains_pct: Some(pct - elsewhere),
            remedy,
        })
    });
    causes.collect()
}

/// What threads of audits that run tests are called.
const TESTER: &str = "audit-";

fn task_owner(seen: &Observations, ran: &TaskTime) -> (&'static str, String, String) {
    let TaskTime { tid, pid, name, .. } = ran;
    if let Some(holder) = seen.holder(ran) {
        let Holder { method, load, .. } = holder;
        let supervisor = holder.pid;
        let remedy = if holder.is_node() {
            format!("the CPU is slowed on purpose: `sandbag slow stop` or end process {supervisor}")
        } else {
            format!("the load is there on purpose: end process {supervisor}")
        };
        let who = format!("sandbag run {supervisor} ({method}, {load}; burner {pid})");
        return (holder.kind(), who, remedy);
    }
    if name.starts_with(TESTER) {
        return (
            "task",
            format!("another audit of sandbag (process {pid})"),
            "audits at the same time disturb each other: repeat this one alone".to_owned(),
        );
    }
    match ran.class {
        TaskClass::RealTime => (
            "realtime",
            format!("real-time task {name} ({pid}), priority {}", ran.priority),
            format!(
                "move it off with `taskset -pc LIST {tid}`, or lower its class with `chrt -o -p 0 \
                 {tid}`"
            ),
        ),
        TaskClass::Kernel => (
            "kthread",
            format!("kernel thread {name} ({tid})"),
            "unbound workers obey /sys/devices/virtual/workqueue/cpumask; bound ones follow the \
             interrupts and timers of their CPU"
                .to_owned(),
        ),
        TaskClass::Ordinary => (
            "task",
            format!("task {name} ({pid})"),
            format!("move it off with `taskset -pc LIST {pid}` or a cpuset"),
        ),
    }
}

/// Runs of sandbag on this CPU whose burners were not seen.
fn holders(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let on = seen.others.on(cpu);
    let is_seen = |holder: &Holder| on.iter().any(|ran| holder.owns(ran));
    let own = seen.holders.iter();
    let own = own.filter(|holder| holder.cpus.contains(cpu) && !is_seen(holder));
    own.map(|holder| SuspectCause {
        kind: holder.kind(),
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

/// Tasks on the other thread of its core.
fn siblings(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let more = seen.others.more_beside_pct(cpu);
    let beside = seen.others.sibling_tasks(cpu);
    let most = beside.first().filter(|_| more * SIBLING >= LEAST_PCT);
    let cause = most.map(|most| {
        let (_, who, remedy) = task_owner(seen, most);
        SuspectCause {
            kind: "smt",
            who: format!("{who} on CPU {}, the other thread of its core", most.cpu),
            evidence: format!(
                "CPU {} was busy for {more:.1} points more of the time in which CPU {cpu} was \
                 tested than others' siblings; a busy one takes up to half of a core",
                most.cpu
            ),
            explains_pct: Some(more * SIBLING),
            remedy,
        }
    });
    cause.into_iter().collect()
}

/// Interrupts in a second, of the rows for which `of` holds.
fn per_s(seen: &OfCpu, of: impl Fn(&str) -> bool) -> f64 {
    let rows = seen.evidence.interrupts.iter().filter(|(name, _)| of(name));
    let count: u64 = rows.map(|(_, count)| count).sum();
    count as f64 / (seen.lasted_ns.max(1) as f64 / 1e9)
}

fn is_timer(name: &str) -> bool {
    name.split(' ').any(|word| TIMERS.contains(&word)) || is_xen_timer(name)
}

/// Whether a row is that of one CPU's timer in a guest of Xen: `70 xen-percpu-virq timer1`.
fn is_xen_timer(name: &str) -> bool {
    let is_own = |word: &str| {
        let number = word.strip_prefix("timer");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    name.split(' ').any(|word| word.starts_with("xen-percpu")) && name.split(' ').any(is_own)
}

/// The local timer: more interrupts than the tick of the others.
fn timer(seen: &Observations, cpu: u32, difference: &Difference) -> Vec<SuspectCause> {
    let found = excess(seen, cpu, PER_S, |of| per_s(of, is_timer));
    let cause = found.map(|found| {
        let cost = |each_ns: f64| found.more() * each_ns / 1e9 * 100.0;
        let (least, most) = (cost(TIMER_NS), cost(DEAR_TIMER_NS));
        SuspectCause {
            kind: "timer",
            who: format!("timer interrupts of CPU {cpu}"),
            evidence: format!(
                "{:.0} timer interrupts in a second, {:.0} on the others; at {:.1} us each that \
                 is {least:.1} % of the CPU, in a virtual machine up to {most:.0} %",
                found.here,
                found.elsewhere,
                TIMER_NS / 1000.0,
            ),
            // They did not take what the CPU time does not show.
            explains_pct: Some(match difference.cpu_pct {
                shown if shown > 0.0 => shown.min(most),
                _ => least,
            }),
            remedy: format!(
                "find whose timer it is: `grep -A3 'cpu: {cpu}' /proc/timer_list`, or the trace \
                 event timer:hrtimer_expire_entry; profilers (perf record -F) set such timers"
            ),
        }
    });
    cause.into_iter().collect()
}

/// Devices whose interrupts come here more than elsewhere.
fn interrupts(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let own = seen.of.get(&cpu).into_iter();
    let names = own.flat_map(|own| &own.evidence.interrupts);
    let causes = names
        .filter(|(name, _)| !is_timer(name))
        .filter_map(|(name, _)| {
            let found = excess(seen, cpu, PER_S, |of| per_s(of, |row| row == name))?;
            let cost = found.more() * DEVICE_NS / 1e9 * 100.0;
            let (number, about) = name.split_once(' ').unwrap_or((name, ""));
            let about = about.trim();
            let allowed = seen.affinity.iter().find(|(irq, _)| irq == number);
            let allowed = allowed.map(|(_, cpus)| format!("; it may go to CPUs {cpus}"));
            (cost >= LEAST_PCT).then(|| SuspectCause {
            kind: "interrupts",
            who: match about {
                "" => format!("interrupt {number}"),
                about => format!("interrupt {number} ({about})"),
            },
            evidence: format!(
                "{:.0} in a second on CPU {cpu}, {:.0} on the others; at some {:.0} us each that \
                 is {cost:.1} % of the CPU{}",
                found.here,
                found.elsewhere,
                DEVICE_NS / 1000.0,
                allowed.unwrap_or_default()
            ),
            explains_pct: Some(cost),
            // Devices have numbers; the others are the kernel's own: calls from other
            // CPUs (`RES`, `CAL`, `TLB`, Arm's `IPI0`), counters (`PMI`, `NMI`).
            remedy: match number {
                _ if number.parse::<u32>().is_ok() => format!(
                    "distribute it: irqbalance, or write CPUs to \
                     /proc/irq/{number}/smp_affinity_list"
                ),
                "NMI" | "PMI" => "a profiler or the watchdog counts events: see who uses perf, \
                                  and kernel.nmi_watchdog"
                    .to_owned(),
                _ => "other CPUs call this one: see who runs beside the tests".to_owned(),
            },
        })
        });
    causes.collect()
}

/// Share of a time in that of the CPU, percent.
fn pct(of: &OfCpu, ns: u64) -> f64 {
    ns as f64 / of.lasted_ns.max(1) as f64 * 100.0
}

/// Time in soft interrupts, where the kernel counts it.
fn softirqs(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let time = |of: &OfCpu| pct(of, of.evidence.softirq_ns + of.evidence.irq_ns);
    let counts = seen.of.get(&cpu).into_iter();
    let most = counts.flat_map(|own| &own.evidence.softirqs);
    let most = most.max_by_key(|(_, count)| *count);
    let most = most.map_or_else(String::new, |(name, _)| format!(", mostly {name}"));
    let cause = excess(seen, cpu, LEAST_PCT, time).map(|found| SuspectCause {
        kind: "softirq",
        who: format!("interrupts and soft interrupts of CPU {cpu}{most}"),
        evidence: format!(
            "{:.2} % of its time, {:.2} % of the others'",
            found.here, found.elsewhere
        ),
        explains_pct: Some(found.more()),
        remedy: "spread the devices' interrupts; for network traffic see \
                 /sys/class/net/*/queues/rx-*/rps_cpus"
            .to_owned(),
    });
    cause.into_iter().collect()
}

/// What the kernel's trace events name.
fn noise_suspects(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let mean_elsewhere = |own: &NoiseSource| {
        let cpus = seen.of.len().saturating_sub(1).max(1) as f64;
        let others = seen.blamed.iter().filter(|other| other.cpu != cpu);
        let same = others
            .filter(|other| other.kind == own.kind && family(&other.name) == family(&own.name));
        same.map(|other| other.pct).sum::<f64>() / cpus
    };
    // Tasks are known better by their times, but for those that come and go.
    let on = seen.others.on(cpu);
    let is_known = |own: &NoiseSource| {
        own.kind == "task" && on.iter().any(|ran| family(&ran.name) == family(&own.name))
    };
    let here = seen.blamed.iter().filter(|blamed| blamed.cpu == cpu);
    let causes = here.filter(|own| !is_known(own)).filter_map(|own| {
        let elsewhere = mean_elsewhere(own);
        let (kind, remedy) = match own.kind.as_str() {
            "task" => (
                "task",
                "it comes and goes: find who starts it, the trace event sched:sched_process_exec",
            ),
            _ if own.name.contains("timer") => (
                "timer",
                "find whose timer it is: the trace event timer:hrtimer_expire_entry",
            ),
            other => (
                if other == "softirq" {
                    "softirq"
                } else {
                    "interrupts"
                },
                "distribute it: irqbalance, or /proc/irq/N/smp_affinity_list",
            ),
        };
        (own.pct - elsewhere >= LEAST_PCT).then(|| SuspectCause {
            kind,
            who: format!("{} {}", own.kind, own.name),
            evidence: format!(
                "the kernel's trace: {:.2} % of CPU {cpu}, {:.0} times in a second; \
                 {elsewhere:.2} % of the others",
                own.pct, own.per_s
            ),
            explains_pct: Some(own.pct - elsewhere),
            remedy: remedy.to_owned(),
        })
    });
    causes.collect()
}

fn steal(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let stolen = |of: &OfCpu| pct(of, of.evidence.steal_ns);
    let cause = excess(seen, cpu, LEAST_PCT, stolen).map(|found| SuspectCause {
        kind: "steal",
        who: "the hypervisor".to_owned(),
        evidence: format!(
            "{:.2} % of CPU {cpu}'s time was stolen, {:.2} % of the others'",
            found.here, found.elsewhere
        ),
        explains_pct: Some(found.more()),
        remedy: "others share the physical CPU: ask for dedicated ones, or measure when the host \
                 is quieter"
            .to_owned(),
    });
    cause.into_iter().collect()
}

/// A lower clock.
fn frequency(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let own = seen.of.get(&cpu).and_then(|of| of.frequency_khz);
    let others = seen.of.iter().filter(|(other, _)| **other != cpu);
    let others: Vec<f64> = others.filter_map(|(_, of)| of.frequency_khz).collect();
    let elsewhere = others.iter().sum::<f64>() / others.len().max(1) as f64;
    let less = |own: f64| (elsewhere / own.max(1.0) - 1.0) * 100.0;
    let own = own.filter(|own| elsewhere > 0.0 && less(*own) >= FREQUENCY_PCT);
    let cause = own.map(|own| SuspectCause {
        kind: "frequency",
        who: format!("the clock of CPU {cpu}"),
        evidence: format!(
            "{:.0} MHz in the middle, {:.0} on the others",
            own / 1000.0,
            elsewhere / 1000.0
        ),
        explains_pct: Some(less(own)),
        remedy: format!(
            "compare /sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_max_freq and \
             scaling_governor with the others'"
        ),
    });
    cause.into_iter().collect()
}

fn throttling(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let events = |of: &OfCpu| of.evidence.throttled.unwrap_or(0) as f64;
    let found = excess(seen, cpu, 0.0, events).filter(|found| found.more() > 0.0);
    let cause = found.map(|found| SuspectCause {
        kind: "throttling",
        who: format!("the cooling of CPU {cpu}"),
        evidence: format!(
            "{:.0} throttle events meanwhile, {:.0} on the others",
            found.here, found.elsewhere
        ),
        explains_pct: None,
        remedy: "look at fans, heat sink and power limits of this package".to_owned(),
    });
    cause.into_iter().collect()
}

/// Settings that only a part of the CPUs has.
fn settings(seen: &Observations, cpu: u32, _: &Difference) -> Vec<SuspectCause> {
    let Some(own) = seen.cpus.iter().find(|known| known.cpu == cpu) else {
        return Vec::new();
    };
    let mut with: BTreeMap<&String, usize> = BTreeMap::new();
    for name in seen.cpus.iter().flat_map(|known| &known.settings) {
        *with.entry(name).or_default() += 1;
    }
    let all = seen.cpus.len();
    let some = with.into_iter().filter(|(_, with)| *with < all);
    some.map(|(name, with)| SuspectCause {
        kind: "cpuset",
        // Where others are spared, this one has their share.
        who: if own.settings.contains(name) {
            format!("CPU {cpu} is in {name}")
        } else {
            format!("CPU {cpu} is not in {name}, {with} others are")
        },
        evidence: format!("{with} of {all} CPUs have this setting"),
        explains_pct: None,
        remedy: "compare CPUs of one setting with each other (--cpus)".to_owned(),
    })
    .collect()
}

/// How the machine is built.
fn build(seen: &Observations, cpu: u32, difference: &Difference) -> Vec<SuspectCause> {
    let Some(own) = seen.cpus.iter().find(|known| known.cpu == cpu) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut push = |kind, who: &str, evidence: String, remedy: &str| {
        found.push(SuspectCause {
            kind,
            who: who.to_owned(),
            evidence,
            explains_pct: None,
            remedy: remedy.to_owned(),
        });
    };
    if let Some((kind, _)) = design::kinds(&seen.cpus, cpu)
        && design::slower_pct(&seen.cpus, cpu) > 0.0
    {
        push(
            "hybrid",
            "cores of several kinds",
            format!("CPU {cpu} is of the kind `{kind}`, others are not"),
            "compare CPUs of one kind with each other (--cpus)",
        );
    }
    let mut others = seen.cpus.iter().filter(|other| other.cpu != cpu);
    if !own.siblings.is_empty() && others.any(|other| other.siblings.is_empty()) {
        let siblings: Vec<String> = own.siblings.iter().map(u32::to_string).collect();
        push(
            "smt",
            "the sibling of its core",
            format!("CPU {cpu} shares its core with CPU {}", siblings.join(", ")),
            "what runs on the sibling takes from this CPU: keep it idle, or switch SMT off",
        );
    }
    let mut tests = difference.tests.iter();
    if let Some(node) = design::node(&seen.cpus, cpu)
        && tests.any(|test| design::touches_memory(test))
    {
        push(
            "numa",
            "the distance to the memory",
            format!("CPU {cpu} is on node {node}"),
            "the array lies on one node: compare CPUs of one node (--cpus)",
        );
    }
    found
}
