// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what the probes found to what each method can do here. Pure.

use super::check::{Check, State};
use super::judge::Judgement;
use super::probes::Found;

/// What else decides.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// Why no group can be made, and what to do; `None` if one can.
    pub no_groups: Option<(&'a str, &'a str)>,
    /// systemd owns the tree.
    pub by_systemd: bool,
    /// CPUs online.
    pub cpus: usize,
    /// A hypervisor may steal.
    pub virtual_machine: bool,
}

/// `pace`, `quota`, `shares`, in this order.
#[must_use]
pub fn all(found: &Found, ground: Ground<'_>) -> [Check; 3] {
    [
        pace(found, ground),
        quota(found, ground),
        shares(found, ground),
    ]
}

/// What all methods need: groups whose weight counts. `Err` is the verdict.
fn room(name: &'static str, found: &Found, ground: Ground<'_>) -> Result<(), Check> {
    if let Some((what, remedy)) = ground.no_groups {
        return Err(Check::no(name, what).remedy(remedy));
    }
    match found.weights {
        Some(Judgement::No) => Err(Check::no(name, "weights are not honoured here")
            .remedy("no method works without: see the line on weights")),
        None => Err(Check::new(
            name,
            State::Untried,
            "whether weights are honoured could not be tried",
        )
        .remedy("see the line on weights")),
        _ => Ok(()),
    }
}

fn pace(found: &Found, ground: Ground<'_>) -> Check {
    let name = "pace";
    if let Err(check) = room(name, found, ground) {
        return check;
    }
    if found.timers == Some(Judgement::No) {
        return Check::no(name, "sleeps do not end on time").remedy("see the line on timers");
    }
    if found.weights == Some(Judgement::Unclear) {
        return Check::warn(name, "probably works; the machine was too busy to be sure")
            .remedy("try again when it is quieter");
    }
    if found.run_delay == Some(Judgement::No) && ground.virtual_machine {
        return Check::warn(name, "works, but repays stolen time")
            .remedy("see the line on schedstat; where there is steal, look at the run's verdict");
    }
    if found.slice == Some(Judgement::No) {
        return Check::warn(
            name,
            "works; without custom slices, wakers beside it wait longer",
        )
        .remedy("Linux 6.12 or later has them");
    }
    Check::ok(name, "works: the default")
}

fn quota(found: &Found, ground: Ground<'_>) -> Check {
    let name = "quota";
    if let Err(check) = room(name, found, ground) {
        return check;
    }
    if ground.by_systemd {
        return Check::no(
            name,
            "systemd cannot set the burst that a cap needs to be exact",
        )
        .remedy("use pace, or give a delegated group with --cgroup");
    }
    match found.caps {
        Some(Judgement::Yes) => Check::ok(name, "works; less exact than pace, for comparison"),
        Some(Judgement::Unclear) => {
            Check::warn(name, "probably works; the machine was too busy to be sure")
                .remedy("try again when it is quieter")
        }
        Some(Judgement::No) => {
            Check::no(name, "caps are not honoured here").remedy("use pace; see the line on caps")
        }
        None => Check::new(name, State::Untried, "caps could not be tried")
            .remedy("see the line on caps"),
    }
}

fn shares(found: &Found, ground: Ground<'_>) -> Check {
    let name = "shares";
    if let Err(check) = room(name, found, ground) {
        return check;
    }
    let cpus = ground.cpus.max(1);
    if cpus == 1 {
        return Check::ok(name, "works: as published, right on one CPU");
    }
    let half = cpus as f64 / (cpus + 1) as f64 * 100.0;
    Check::warn(
        name,
        format!("works as published, which takes up to {half:.0} % for 50 on {cpus} CPUs"),
    )
    .remedy("for comparison with the papers only; use pace")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUND: Ground<'_> = Ground {
        no_groups: None,
        by_systemd: false,
        cpus: 2,
        virtual_machine: true,
    };

    fn all_well() -> Found {
        let yes = Some(Judgement::Yes);
        Found {
            weights: yes,
            caps: yes,
            slice: yes,
            timers: yes,
            run_delay: yes,
            ..Found::default()
        }
    }

    fn states(found: &Found, ground: Ground<'_>) -> [State; 3] {
        all(found, ground).map(|check| check.state)
    }

    #[test]
    fn where_everything_works_shares_still_is_wrong_by_design() {
        let states = states(&all_well(), GROUND);
        assert_eq!(states, [State::Ok, State::Ok, State::Warn]);
        assert!(shares(&all_well(), GROUND).why.contains("67 % for 50 on 2"));
    }

    #[test]
    fn without_weights_nothing_works() {
        let found = Found {
            weights: Some(Judgement::No),
            ..all_well()
        };
        assert_eq!(states(&found, GROUND), [State::No; 3]);
    }

    #[test]
    fn without_groups_the_reason_is_theirs() {
        let ground = Ground {
            no_groups: Some(("not allowed", "be root")),
            ..GROUND
        };
        let checks = all(&Found::default(), ground);
        assert!(
            checks
                .iter()
                .all(|c| c.state == State::No && c.why == "not allowed")
        );
    }

    #[test]
    fn a_busy_machine_is_no_reason_to_say_no() {
        let found = Found {
            weights: Some(Judgement::Unclear),
            caps: Some(Judgement::Unclear),
            ..all_well()
        };
        let states = states(&found, GROUND);
        assert_eq!(states, [State::Warn; 3]);
    }

    #[test]
    fn quota_is_not_for_systemds_tree() {
        let ground = Ground {
            by_systemd: true,
            ..GROUND
        };
        assert_eq!(states(&all_well(), ground)[1], State::No);
    }

    #[test]
    fn stolen_time_matters_only_where_it_can_be_stolen() {
        let found = Found {
            run_delay: Some(Judgement::No),
            ..all_well()
        };
        assert_eq!(pace(&found, GROUND).state, State::Warn);
        let metal = Ground {
            virtual_machine: false,
            ..GROUND
        };
        assert_eq!(pace(&found, metal).state, State::Ok);
    }
}
