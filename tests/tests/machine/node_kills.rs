// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kills around a virtual node, for every method: after the death of any of
//! our processes at any moment nothing is stopped, frozen, real-time or
//! limited, and programs of the node go on at full speed.

use sandbag_machine_tests::killing::kill_together;

use crate::prelude::*;
use crate::slowed::{METHODS, Spinners, spin};

cases! { CASES: two_cpus;
    a_node_s_programs_are_free_after_kills_of_one,
    a_node_s_programs_are_free_after_kills_of_both_and_a_restore,
    a_worker_that_was_stopped_is_replaced,
}

/// A node that slows 2 spinning processes.
struct SlowedNode {
    run: Child,
    spinners: Spinners,
}

/// Processes that act for a node of 2 CPUs.
fn workers(method: &str) -> usize {
    match method.split(' ').next() {
        Some("lim" | "cap" | "gov") => 1,
        _ => 2,
    }
}

impl SlowedNode {
    fn start(place: &MachinePlace, method: &str) -> Result<Self> {
        let options =
            format!("-q slow --cpus 0-1 --speed 0.3 --method {method} --no-out --no-settle");
        // The shell lives on, and no process waits for the end of its output.
        let script = format!("exec > /dev/null 2>&1; {}", spin(2));
        let run = place.start_script(&options, &script)?;
        let spinners = Spinners::of(place)?;
        place.burners(workers(method))?;
        Ok(Self { run, spinners })
    }

    /// Nothing of ours is left, and its programs are free; how long that took.
    fn end(self, place: &MachinePlace, struck: Instant) -> Result<Duration> {
        finish(self.run)?;
        place.as_before()?;
        let took = struck.elapsed();
        self.spinners.are_free()?;
        Ok(took)
    }
}

/// Whom for each method. In `make test` each method loses one of them, and each of them
/// dies under a third of the methods.
const VICTIMS: [Role; 3] = [Role::Supervisor, Role::Guardian, Role::Burner];

/// Whom for the method at `index` of [`METHODS`].
fn victims(index: usize, first: usize) -> Vec<Role> {
    if case::is_all_wanted() {
        return VICTIMS.to_vec();
    }
    vec![VICTIMS[(index + first) % VICTIMS.len()]]
}

fn a_node_s_programs_are_free_after_kills_of_one(place: &MachinePlace) -> Result<()> {
    let seed = fastrand::u64(..);
    let mut chance = fastrand::Rng::with_seed(seed);
    let begin = Instant::now();
    let (mut rounds, mut late, mut worst) = (0, 0, Duration::ZERO);
    let first = chance.usize(..VICTIMS.len());
    for (index, method) in METHODS.into_iter().enumerate() {
        for role in victims(index, first) {
            // Mostly SIGKILL, which cannot be caught.
            let signal = match chance.u8(..4) {
                0 => Signal::SIGTERM,
                _ => Signal::SIGKILL,
            };
            let took = strike(place, method, role, signal, &mut chance)
                .with_context(|| format!("{method}: {signal} to {role:?}, seed {seed}"))?;
            rounds += 1;
            late += usize::from(took > PROMISED);
            worst = worst.max(took);
        }
    }
    case::note(&format!(
        "{rounds} signals in {:.0} s; as before after {:.0} ms at worst; seed {seed}",
        begin.elapsed().as_secs_f64(),
        worst.as_secs_f64() * 1e3
    ));
    ensure!(
        late * 10 <= rounds,
        "{late} of {rounds} took longer than {PROMISED:?}"
    );
    Ok(())
}

fn strike(
    place: &MachinePlace,
    method: &str,
    role: Role,
    signal: Signal,
    chance: &mut fastrand::Rng,
) -> Result<Duration> {
    let slowed = SlowedNode::start(place, method)?;
    std::thread::sleep(Duration::from_millis(chance.u64(..300)));
    let supervisor = pid_of(&slowed.run);
    let victim = match role {
        Role::Supervisor => supervisor,
        role => chance.choice(place.ours(role)).context("nobody to kill")?,
    };
    kill(victim, signal)?;
    let mut struck = Instant::now();
    if role != Role::Supervisor {
        // It goes on without, or with another.
        std::thread::sleep(Duration::from_millis(chance.u64(50..250)));
        struck = Instant::now();
        kill(supervisor, Signal::SIGTERM)?;
    }
    slowed.end(place, struck)
}

fn a_node_s_programs_are_free_after_kills_of_both_and_a_restore(
    place: &MachinePlace,
) -> Result<()> {
    let seed = fastrand::u64(..);
    let mut chance = fastrand::Rng::with_seed(seed);
    let count = if case::is_all_wanted() {
        METHODS.len()
    } else {
        4
    };
    for method in chance.choose_multiple(METHODS, count) {
        let mut slowed = SlowedNode::start(place, method)?;
        std::thread::sleep(Duration::from_millis(chance.u64(..300)));
        let mut both = || -> Result<()> {
            kill_together(&mut slowed.run, || place.ours(Role::Guardian))?;
            wait_until("the workers' end", || place.ours(Role::Burner).is_empty())?;
            place.run("restore")?.expect(0)?.says(&["undid what"])?;
            Ok(())
        };
        both()
            .and_then(|()| slowed.end(place, Instant::now()))
            .with_context(|| format!("{method}: both, seed {seed}"))?;
    }
    Ok(())
}

/// A stopped `gov` may have left the node frozen.
fn a_worker_that_was_stopped_is_replaced(place: &MachinePlace) -> Result<()> {
    for method in ["gov", "lim"] {
        let slowed = SlowedNode::start(place, method)?;
        let stopped = *place.burners(1)?.first().context("no worker")?;
        std::thread::sleep(Duration::from_millis(300));
        kill(stopped, Signal::SIGSTOP)?;
        wait_for("another worker", || {
            let now = place.ours(Role::Burner);
            now.iter().any(|pid| *pid != stopped).then_some(())
        })
        .with_context(|| method.to_owned())?;
        // What the first one stopped goes on in the node, not only at its end.
        for spinner in &slowed.spinners.0 {
            let before = used(*spinner)?;
            wait_until("a program that goes on", || {
                used(*spinner).is_ok_and(|now| now > before)
            })
            .with_context(|| method.to_owned())?;
        }
        let supervisor = pid_of(&slowed.run);
        kill(supervisor, Signal::SIGTERM)?;
        slowed.end(place, Instant::now())?;
    }
    Ok(())
}
