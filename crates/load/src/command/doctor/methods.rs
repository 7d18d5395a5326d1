// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what the probes found to what each method can do here. Pure.

use std::fmt::Write as _;

use crate::method::{self, NAMES, SLOWING};
use sandbag_run::realtime::RT_RUNTIME;
use serde::Serialize;

use super::check::{Check, CheckState};
use super::frequencies::FrequencySetting;
use super::judge::{Judgement, Refusal, Reserving};
use super::probes::ProbeFindings;

/// Facts of the machine that decide besides the probes.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// Why no group can be made, and what to do; `None` if one can.
    pub no_groups: Option<(&'a str, &'a str)>,
    pub by_systemd: bool,
    pub cpus: usize,
    pub virtual_machine: bool,
    /// Part of a CPU that real-time tasks may take; `None` if not limited.
    pub real_time_limit: Option<f64>,
    pub frequencies: &'a FrequencySetting,
}

/// A method, its uses, and whether it works.
#[derive(Debug, Clone, Serialize)]
pub struct MethodVerdict {
    #[serde(flatten)]
    pub check: Check,
    pub used_for: Vec<&'static str>,
    /// For which of them it is the default.
    pub default_for: Vec<&'static str>,
}

pub fn all(found: &ProbeFindings, ground: Ground<'_>) -> Vec<MethodVerdict> {
    let only_nodes = SLOWING.into_iter().filter(|name| !NAMES.contains(name));
    let kinds = [("loads", &NAMES[..]), ("nodes", &SLOWING[..])];
    NAMES
        .into_iter()
        .chain(only_nodes)
        .map(|name| {
            let those = |has: fn(&[&str], &str) -> bool| {
                let kinds = kinds.iter().filter(|(_, names)| has(names, name));
                kinds.map(|(kind, _)| *kind).collect()
            };
            let judge = MethodJudge {
                name,
                found,
                ground,
            };
            MethodVerdict {
                check: judge.judge().unwrap_or_else(|check| check),
                used_for: those(|names, name| names.contains(&name)),
                default_for: those(|names, name| names[0] == name),
            }
        })
        .collect()
}

/// One method before its verdict. `Err` is a verdict as well: that of a
/// requirement which is not met.
struct MethodJudge<'a> {
    name: &'static str,
    found: &'a ProbeFindings,
    ground: Ground<'a>,
}

type Verdict = Result<Check, Check>;

impl MethodJudge<'_> {
    fn judge(&self) -> Verdict {
        if let Some((what, remedy)) = self.ground.no_groups {
            return Err(self.no(what, remedy));
        }
        match self.name {
            "pace" => self.pace(),
            "quota" => self.quota(),
            "shares" => self.shares(),
            "hogs" => self.real_time("works"),
            "rt" => self.real_time("works as published: CPUs are not in phase; for comparison"),
            "deadline" => self.deadline(),
            "lim" => self.lim(),
            "freq" => self.freq(),
            "gov" => self.gov(),
            "cap" => self.cap(),
            // A new method is shown, not hidden.
            name => Ok(Check::new(
                name,
                CheckState::Untried,
                "there is no probe for it",
            )),
        }
    }

    fn no(&self, what: &str, remedy: &str) -> Check {
        Check::no(self.name, what).remedy(remedy)
    }

    fn warn(&self, why: impl Into<String>, remedy: &str) -> Check {
        Check::warn(self.name, why).remedy(remedy)
    }

    /// For a method whose probe was drowned by other work.
    fn too_busy(&self) -> Check {
        let why = "probably works; the machine was too busy to be sure";
        self.warn(why, "try again when it is quieter")
    }

    /// Works if the probe said so, else the machine was too busy to tell.
    fn works(&self, judgement: Option<Judgement>, why: &str) -> Check {
        match judgement {
            Some(Judgement::Yes) => Check::ok(self.name, why),
            _ => self.too_busy(),
        }
    }

    /// A property of the kernel that is needed; `line` of the report has details.
    fn needs(&self, judgement: Option<Judgement>, what: &str, line: &str) -> Result<(), Check> {
        let see = format!("see the line on {line}");
        match judgement {
            Some(Judgement::No) => Err(self.no(&format!("{what} here"), &see)),
            None => {
                let why = format!("could not be tried ({line})");
                Err(Check::new(self.name, CheckState::Untried, why).remedy(see))
            }
            Some(Judgement::Yes | Judgement::Unclear) => Ok(()),
        }
    }

    fn not_refused(&self, refusal: Option<&Refusal>) -> Result<(), Check> {
        refusal.map_or(Ok(()), |(what, remedy)| Err(self.no(what, remedy)))
    }

    fn needs_weights(&self) -> Result<(), Check> {
        self.needs(self.found.weights, "weights are not honoured", "weights")
    }

    fn needs_real_time(&self) -> Result<(), Check> {
        self.not_refused(self.found.no_real_time.as_ref())?;
        let what = "real-time tasks do not go first";
        self.needs(self.found.real_time, what, "real-time")
    }

    fn needs_node(&self) -> Result<(), Check> {
        self.not_refused(self.found.no_node.as_ref())
    }

    fn pace(&self) -> Verdict {
        self.needs_weights()?;
        if self.found.timers == Some(Judgement::No) {
            return Err(self.no("sleeps do not end on time", "see the line on timers"));
        }
        if self.found.weights == Some(Judgement::Unclear) {
            return Ok(self.too_busy());
        }
        if self.found.run_delay == Some(Judgement::No) && self.ground.virtual_machine {
            let remedy =
                "see the line on schedstat; where there is steal, look at the run's verdict";
            return Ok(self.warn("works, but repays stolen time", remedy));
        }
        if self.found.slice == Some(Judgement::No) {
            let why = "works; without custom slices, wakers beside it wait longer";
            return Ok(self.warn(why, "Linux 6.12 or later has them"));
        }
        Ok(Check::ok(self.name, "works"))
    }

    fn quota(&self) -> Verdict {
        self.needs_weights()?;
        if self.ground.by_systemd {
            let why = "systemd cannot set the burst that a cap needs to be exact";
            let remedy = "use pace, or give a delegated group with --cgroup";
            return Err(self.no(why, remedy));
        }
        self.needs(self.found.caps, "caps are not honoured", "caps")?;
        if self.found.no_burst {
            let why = "caps have no burst here: unused quota is lost, and 95 % gives about 92";
            return Ok(self.warn(why, "Linux 5.14 or later has it; or use pace"));
        }
        let why = "works; less exact than pace, for comparison";
        Ok(self.works(self.found.caps, why))
    }

    fn shares(&self) -> Verdict {
        self.needs_weights()?;
        let cpus = self.ground.cpus.max(1);
        if cpus == 1 {
            return Ok(Check::ok(
                self.name,
                "works: as published, right on one CPU",
            ));
        }
        let half = cpus as f64 / (cpus + 1) as f64 * 100.0;
        let why =
            format!("works as published, which takes up to {half:.0} % for 50 on {cpus} CPUs");
        Ok(self.warn(why, "for comparison with the papers only; use pace"))
    }

    fn real_time(&self, why: &str) -> Verdict {
        self.needs_real_time()?;
        if self.found.real_time == Some(Judgement::Unclear) {
            return Ok(self.too_busy());
        }
        let most = method::by_name(self.name).map_or(1.0, |method| method.serves(1.0));
        match self.ground.real_time_limit {
            Some(limit) if limit < most => {
                let pct = limit * 100.0;
                let why =
                    format!("works, but real-time tasks may be stopped at {pct:.0} % of a CPU");
                let remedy = format!(
                    "for more: sysctl {RT_RUNTIME}=950000 (of a sched_rt_period_us of 1000000)"
                );
                Ok(self.warn(why, &remedy))
            }
            _ => Ok(Check::ok(self.name, why)),
        }
    }

    fn deadline(&self) -> Verdict {
        self.needs_real_time()?;
        Ok(match &self.found.reserving {
            None => Check::new(self.name, CheckState::Untried, "could not be tried")
                .remedy("see the line on deadline"),
            Some(Reserving::Admitted) => Check::ok(self.name, "works"),
            Some(Reserving::WithoutLimit { may: true }) => self.warn(
                format!(
                    "works: sandbag sets {RT_RUNTIME} to -1 for the run and puts it back; \
                     meanwhile no real-time task of the machine is limited"
                ),
                "where that must not be: hogs",
            ),
            Some(Reserving::WithoutLimit { may: false }) => self.no(
                &format!("needs {RT_RUNTIME} to be -1, and we may not set it"),
                "see the line on deadline; or use hogs",
            ),
            Some(Reserving::Refused((what, remedy))) => self.no(what, remedy),
        })
    }

    fn lim(&self) -> Verdict {
        self.needs_node()?;
        self.needs_real_time()?;
        let stopping = self.found.stopping;
        self.needs(stopping, "processes cannot be stopped", "stopping")?;
        let why =
            "works as published: a share per process, not per node; costs more with every process";
        Ok(self.works(stopping, why))
    }

    fn freq(&self) -> Verdict {
        self.needs_node()?;
        match self.ground.frequencies {
            FrequencySetting::NoDriver => Err(self.no(
                "there is no cpufreq driver here (virtual machines have none)",
                "use hogs, or gov, which needs none",
            )),
            FrequencySetting::Cannot((what, remedy)) => Err(self.no(what, remedy)),
            FrequencySetting::Can(what) => Ok(self.untried_frequencies(what)),
        }
    }

    fn gov(&self) -> Verdict {
        self.needs_node()?;
        self.needs_real_time()?;
        self.needs(self.found.freezer, "groups cannot be frozen", "freezer")?;
        if self.found.freezer == Some(Judgement::Unclear) {
            return Ok(self.too_busy());
        }
        match self.ground.frequencies {
            FrequencySetting::NoDriver => Ok(Check::ok(
                self.name,
                "works by the freezer alone: no frequencies here, so full speed and standstill \
                 in turn",
            )),
            FrequencySetting::Cannot((what, remedy)) => Err(self.no(what, remedy)),
            FrequencySetting::Can(what) => Ok(self.untried_frequencies(what)),
        }
    }

    /// No frequency was set: that would have slowed other programs.
    fn untried_frequencies(&self, what: &str) -> Check {
        let remedy = "look at the run's verdict; --calibrate measures the frequencies first";
        self.warn(format!("should work, untried: {what}"), remedy)
    }

    fn cap(&self) -> Verdict {
        self.needs_node()?;
        self.needs(self.found.node_cap, "a node cannot be capped", "node cap")?;
        // The probe of caps has more weight to get its part with.
        let caps = self.found.caps.filter(|caps| *caps == Judgement::Yes);
        let why =
            "works, as containers have it: one budget for all CPUs, which is not a slower CPU";
        Ok(self.works(caps.or(self.found.node_cap), why))
    }
}

/// The methods for people: a check's columns, and the uses of each.
pub fn table(verdicts: &[MethodVerdict]) -> String {
    let uses = |verdict: &MethodVerdict| {
        let each = verdict.used_for.iter().map(|kind| {
            let is_default = verdict.default_for.contains(kind);
            format!("{kind}{}", if is_default { "*" } else { "" })
        });
        each.collect::<Vec<_>>().join(" ")
    };
    let names = verdicts.iter().map(|v| v.check.name.len());
    let name = names.max().unwrap_or(0);
    let most = verdicts.iter().map(|v| uses(v).len()).max().unwrap_or(0);
    let mut text = "Methods (* the default)\n".to_owned();
    for (n, verdict) in verdicts.iter().enumerate() {
        let check = &verdict.check;
        let (state, used) = (check.state.word(), uses(verdict));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  {:name$}  {used:most$}  {state:7}  {}",
            check.name, check.why
        );
        // A remedy that several methods share is printed once, below the last.
        let next = verdicts.get(n + 1).map(|next| &next.check);
        if let Some(remedy) = &check.remedy
            && next.is_none_or(|next| next.remedy != check.remedy)
        {
            let _ = writeln!(text, "  {:name$}  {:most$}  {:7}  -> {remedy}", "", "", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use CheckState::{No, Ok as Works, Untried, Warn};

    const GROUND: Ground<'_> = Ground {
        no_groups: None,
        by_systemd: false,
        cpus: 2,
        virtual_machine: true,
        real_time_limit: Some(0.95),
        frequencies: &FrequencySetting::NoDriver,
    };

    const YES: Option<Judgement> = Some(Judgement::Yes);
    const NO: Option<Judgement> = Some(Judgement::No);

    fn all_well() -> ProbeFindings {
        ProbeFindings {
            weights: YES,
            caps: YES,
            slice: YES,
            timers: YES,
            run_delay: YES,
            real_time: YES,
            reserving: Some(Reserving::Admitted),
            freezer: YES,
            stopping: YES,
            node_cap: YES,
            ..ProbeFindings::default()
        }
    }

    /// Where all is well but for a change: rows of methods, the state of
    /// each, and a part of reason or remedy.
    fn assert_checks(
        change: impl FnOnce(&mut ProbeFindings, &mut Ground<'_>),
        rows: &[(&str, CheckState, &str)],
    ) {
        let (mut found, mut ground) = (all_well(), GROUND);
        change(&mut found, &mut ground);
        let all = all(&found, ground);
        for (names, state, part) in rows {
            for name in names.split(' ') {
                let verdict = all.iter().find(|verdict| verdict.check.name == name);
                let check = &verdict.unwrap().check;
                assert_eq!(check.state, *state, "{check:?}");
                let text = format!("{} -> {:?}", check.why, check.remedy);
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn every_method_is_there_once_with_its_uses() {
        let all = all(&all_well(), GROUND);
        let names: Vec<&str> = all.iter().map(|verdict| verdict.check.name).collect();
        for name in NAMES.iter().chain(&SLOWING) {
            let times = names.iter().filter(|known| *known == name).count();
            assert_eq!(times, 1, "{name}");
        }
        assert!(!all.iter().any(|v| v.check.why.contains("no probe")));
        let text = table(&all);
        for line in [
            "  pace      loads* nodes  ok ",
            "  hogs      loads nodes*  ok ",
            "  lim       nodes         ok ",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn without_groups_the_reason_is_theirs_and_the_remedy_is_printed_once() {
        let ground = Ground {
            no_groups: Some(("not allowed", "be root")),
            ..GROUND
        };
        let rows = all(&ProbeFindings::default(), ground);
        let text = table(&rows);
        assert_eq!(text.matches("-> be root").count(), 1, "{text}");
        let refused = text.matches("NO       not allowed").count();
        assert_eq!(refused, rows.len(), "{text}");
    }

    #[test]
    fn where_everything_works_shares_still_is_wrong_by_design() {
        let rows = [
            ("pace quota", Works, ""),
            ("shares", Warn, "67 % for 50 on 2"),
            ("hogs rt deadline lim gov cap", Works, ""),
            ("gov", Works, "freezer alone"),
            ("freq", No, "gov"),
        ];
        assert_checks(|_, _| (), &rows);
    }

    #[test]
    fn what_was_not_tried_is_not_judged_and_a_busy_machine_is_no_reason_to_say_no() {
        let names = "hogs shares pace quota rt deadline lim gov cap";
        let nothing = |found: &mut ProbeFindings, _: &mut Ground<'_>| *found = Default::default();
        assert_checks(nothing, &[(names, Untried, "")]);
        let unclear = Some(Judgement::Unclear);
        let busy = |found: &mut ProbeFindings, _: &mut Ground<'_>| {
            (found.weights, found.caps, found.real_time) = (unclear, unclear, unclear);
            (found.freezer, found.stopping, found.node_cap) = (unclear, unclear, unclear);
        };
        let names = "pace quota shares hogs rt lim gov cap";
        assert_checks(busy, &[(names, Warn, "")]);
    }

    #[test]
    fn what_is_not_there_concerns_the_methods_that_need_it() {
        let rows = [
            ("pace quota shares", No, ""),
            ("hogs rt lim gov", Works, ""),
        ];
        assert_checks(|found, _| found.weights = NO, &rows);
        let systemds = |found: &mut ProbeFindings, ground: &mut Ground<'_>| {
            (found.caps, ground.by_systemd) = (None, true);
        };
        assert_checks(systemds, &[("quota", No, ""), ("cap", Works, "")]);
        // A node's cap has none.
        let rows = [("quota", Warn, "5.14"), ("cap", Works, "")];
        assert_checks(|found, _| found.no_burst = true, &rows);
        // Time is stolen only in a virtual machine.
        for (virtual_machine, state) in [(true, Warn), (false, Works)] {
            let change = |found: &mut ProbeFindings, ground: &mut Ground<'_>| {
                (found.run_delay, ground.virtual_machine) = (NO, virtual_machine);
            };
            assert_checks(change, &[("pace", state, "")]);
        }
        let no_budget = |found: &mut ProbeFindings, _: &mut Ground<'_>| {
            found.real_time = NO;
            found.no_real_time = Some(("no budget".into(), "ask for one".into()));
        };
        let rows = [
            ("hogs rt lim gov deadline", No, "no budget"),
            ("hogs rt lim gov deadline", No, "ask for one"),
            ("cap", Works, ""),
        ];
        assert_checks(no_budget, &rows);
        // Accepted and ignored: a reservation would be as well.
        let rows = [("hogs rt deadline lim gov", No, "do not go first")];
        assert_checks(|found, _| found.real_time = NO, &rows);
        let no_node = Some(("no cpuset".into(), "mount it".into()));
        let rows = [("pace hogs", Works, ""), ("lim gov cap", No, "no cpuset")];
        assert_checks(|found, _| found.no_node = no_node, &rows);
    }

    #[test]
    fn limits_and_settings_of_the_machine_are_told() {
        for (limit, state, why) in [(Some(0.5), Warn, "50 % of a CPU"), (None, Works, "")] {
            let rows = [("hogs", state, why)];
            assert_checks(|_, ground| ground.real_time_limit = limit, &rows);
        }
        for (may, state, why) in [(true, Warn, "puts it back"), (false, No, "may not set")] {
            let reserving = Some(Reserving::WithoutLimit { may });
            let rows = [("deadline", state, why)];
            assert_checks(|found, _| found.reserving = reserving, &rows);
        }
        static CAN: LazyLock<FrequencySetting> =
            LazyLock::new(|| FrequencySetting::Can("3 steps".to_owned()));
        let rows = [("freq gov", Warn, "untried")];
        assert_checks(|_, ground| ground.frequencies = &CAN, &rows);
        let no_real_time = |found: &mut ProbeFindings, ground: &mut Ground<'_>| {
            (found.real_time, ground.frequencies) = (NO, &CAN);
        };
        assert_checks(no_real_time, &[("freq", Warn, "untried"), ("gov", No, "")]);
        let frozen = |found: &mut ProbeFindings, ground: &mut Ground<'_>| {
            (found.freezer, ground.frequencies) = (NO, &CAN);
        };
        assert_checks(frozen, &[("gov", No, "")]);
    }
}
