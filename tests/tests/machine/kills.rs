// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The promise: the machine is as it was found after any signal to any one
//! of our processes at any moment. More than 200 times in `make test-all`, a quarter of
//! that in `make test`, with the seed printed.

use sandbag_machine_tests::blow::{Blow, Phase};
use sandbag_machine_tests::killing::Killing;

use crate::prelude::*;

cases! { CASES: root;
    all_is_as_before_after_sigkill_to_the_supervisor,
    all_is_as_before_after_sigkill_to_the_guardian,
    all_is_as_before_after_sigkill_to_a_burner,
    all_is_as_before_after_other_signals,
    all_is_as_before_after_both_died_and_a_remedy,
}

/// Who was struck how often in which phase.
type Rounds<'a> = &'a [(&'a [Signal], Role, Phase, usize)];

const KILL: &[Signal] = &[Signal::SIGKILL];
const ASKING: &[Signal] = &[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

fn all_is_as_before_after_sigkill_to_the_supervisor(place: &MachinePlace) -> Result<()> {
    strike_all(
        place,
        &[
            (KILL, Role::Supervisor, Phase::Start, 50),
            (KILL, Role::Supervisor, Phase::Held, 16),
            (KILL, Role::Supervisor, Phase::Undo, 30),
        ],
    )
}

fn all_is_as_before_after_sigkill_to_the_guardian(place: &MachinePlace) -> Result<()> {
    strike_all(
        place,
        &[
            (KILL, Role::Guardian, Phase::Start, 10),
            (KILL, Role::Guardian, Phase::Held, 10),
            (KILL, Role::Guardian, Phase::Undo, 10),
        ],
    )
}

fn all_is_as_before_after_sigkill_to_a_burner(place: &MachinePlace) -> Result<()> {
    strike_all(
        place,
        &[
            (KILL, Role::Burner, Phase::Start, 20),
            (KILL, Role::Burner, Phase::Held, 16),
            (KILL, Role::Burner, Phase::Undo, 6),
        ],
    )
}

fn all_is_as_before_after_other_signals(place: &MachinePlace) -> Result<()> {
    strike_all(
        place,
        &[
            (ASKING, Role::Supervisor, Phase::Start, 12),
            (ASKING, Role::Supervisor, Phase::Held, 5),
            (ASKING, Role::Supervisor, Phase::Undo, 4),
            (ASKING, Role::Guardian, Phase::Held, 2),
            (ASKING, Role::Burner, Phase::Held, 2),
        ],
    )
}

/// What a series of blows came to.
#[derive(Debug, Default)]
struct Score {
    struck: usize,
    /// The victim had ended before.
    missed: usize,
    /// As before only after more than [`PROMISED`].
    late: usize,
    worst: Duration,
}

fn strike_all(place: &MachinePlace, rounds: Rounds<'_>) -> Result<()> {
    let seed = fastrand::u64(..);
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut score = Score::default();
    for (signals, role, phase, count) in rounds {
        for signal in *signals {
            for round in 0..case::rounds(*count) {
                let blow = Blow {
                    signal: *signal,
                    role: *role,
                    phase: *phase,
                    command: round % 2 == 1,
                };
                strike(place, blow, &mut chance, &mut score)
                    .with_context(|| format!("{blow}, seed {seed}"))?;
            }
        }
    }
    case::note(&format!("{score:?}, seed {seed}"));
    ensure!(score.struck > score.missed, "{score:?}");
    ensure!(score.late * 50 <= score.struck, "{PROMISED:?}: {score:?}");
    Ok(())
}

fn strike(
    place: &MachinePlace,
    blow: Blow,
    chance: &mut fastrand::Rng,
    score: &mut Score,
) -> Result<()> {
    let _ = fs::remove_file(place.path("pid"));
    let struck = blow.strike(&place.sandbag, &place.path("."), 1, chance)?;
    place.as_before()?;
    match struck {
        None => score.missed += 1,
        Some(at) => {
            let took = at.elapsed();
            score.struck += 1;
            score.late += usize::from(took > PROMISED);
            score.worst = score.worst.max(took);
        }
    }
    if blow.command {
        end_command(place, blow)?;
    }
    Ok(())
}

/// The command lives on, in its original group, where sandbag was killed; it
/// has ended where sandbag got another signal, which is passed on.
fn end_command(place: &MachinePlace, blow: Blow) -> Result<()> {
    let Ok(text) = fs::read_to_string(place.path("pid")) else {
        return Ok(());
    };
    let pid = Pid::from_raw(text.trim().parse()?);
    if !lives(pid) {
        let killed = blow.role == Role::Supervisor && blow.signal == Signal::SIGKILL;
        let must_live = killed && blow.phase == Phase::Held;
        ensure!(!must_live, "the command did not live on");
        return Ok(());
    }
    let groups = groups_of(pid);
    let _ = kill(pid, Signal::SIGKILL);
    wait_until("the command's end", || !lives(pid))?;
    ensure!(groups? == groups_of("self")?);
    Ok(())
}

fn all_is_as_before_after_both_died_and_a_remedy(place: &MachinePlace) -> Result<()> {
    let seed = fastrand::u64(..);
    let mut killing = Killing {
        sandbag: &place.sandbag,
        before: place.before.clone(),
        patience: PATIENCE,
        chance: fastrand::Rng::with_seed(seed),
    };
    let begin = Instant::now();
    let mut worst = 0.0_f64;
    let remedies: [&[&str]; 2] = [
        &["restore"],
        &["load", "0", "-d", "100ms", "--no-out", "-q"],
    ];
    for remedy in remedies.iter().cycle().take(6) {
        let restored = killing.both(remedy)?;
        ensure!(
            restored.processes == 0 && restored.difference.is_empty(),
            "{restored:?}, seed {seed}"
        );
        worst = worst.max(restored.seconds);
    }
    case::note(&format!(
        "6 times in {:.0} s; as before {:.0} ms after the remedy at worst; seed {seed}",
        begin.elapsed().as_secs_f64(),
        worst * 1e3
    ));
    Ok(())
}
