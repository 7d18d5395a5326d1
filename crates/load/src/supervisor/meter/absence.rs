// SPDX-License-Identifier: Apache-2.0 OR MIT
//! No sequence of stops, steals and pauses makes a load that was absent a load
//! that was kept. A run in steps of 1 ms: a burner that takes half of what is
//! delivered, a kernel that counts, a supervisor that looks when it can.

use proptest::prelude::*;
use sandbag_linux::procstat::CpuTimes;
use sandbag_stats::{Tolerance, Verdict, VerdictCounter, Window};

use super::{BOUNDARY_NS, BurnerTime, CounterSample, Meter, WINDOW_NS, Windows};
use crate::board::BOUNDARIES;
use crate::supervisor::timeline::{LoadPiece, RunClock};

const MS: u64 = 1_000_000;
const ASKED_PCT: f64 = 50.0;

#[derive(Debug, Clone, Copy)]
enum AbsenceKind {
    /// SIGSTOP of the burner: the program goes on.
    Burner,
    /// SIGSTOP of the supervisor.
    Supervisor,
    /// SIGSTOP of both.
    Both,
    /// The hypervisor has the CPU.
    Steal,
    /// Ctrl-Z of all, until all are continued.
    Pause,
    /// Ctrl-Z, but the program alone is continued.
    PauseWithoutProgram,
}

#[derive(Debug, Clone, Copy)]
struct AbsenceEvent {
    what: AbsenceKind,
    from_ms: u64,
    length_ms: u64,
}

fn events(most: usize) -> impl Strategy<Value = Vec<AbsenceEvent>> {
    use AbsenceKind::{Both, Burner, Pause, PauseWithoutProgram, Steal, Supervisor};
    let what = [Burner, Supervisor, Both, Steal, Pause, PauseWithoutProgram];
    let event = (
        prop::sample::select(what.to_vec()),
        0u64..11_000,
        1u64..4_000,
    );
    let event = event.prop_map(|(what, from_ms, length_ms)| AbsenceEvent {
        what,
        from_ms,
        length_ms,
    });
    prop::collection::vec(event, 0..most)
}

#[derive(Default)]
struct Judge {
    verdict: VerdictCounter,
    judged_ns: u64,
    hiding_steal: u64,
}

impl Windows for Judge {
    fn short(&mut self, _: &Window) {}
    fn whole(&mut self, window: &Window) {
        self.verdict.add(window, None);
        self.judged_ns += window.length_ns;
    }
    fn hiding_steal(&mut self, window: &Window) {
        self.hiding_steal += 1;
        let judged = Window {
            steal_ns: window.length_ns,
            hole: false,
            ..window.clone()
        };
        self.whole(&judged);
    }
}

impl Judge {
    fn verdict(&self) -> Verdict {
        match self.verdict.verdict(Tolerance::default()) {
            Verdict::Kept if self.hiding_steal > 0 => Verdict::Undecided,
            other => other,
        }
    }
}

struct Truth {
    verdict: Verdict,
    judged_ms: u64,
    /// Time in which the program could run, and that without the load.
    delivered_ms: u64,
    absent_ms: u64,
}

/// A run of `run_ms` on its own clock.
fn simulate(events: &[AbsenceEvent], run_ms: u64) -> Truth {
    let mut clock = RunClock::starting_at(0);
    let mut meter = Meter::new(vec![0], 10 * MS);
    meter.ask(LoadPiece {
        start_ns: 0,
        end_ns: u64::MAX / 4,
        asked_pct: vec![ASKED_PCT],
    });
    let mut judge = Judge::default();
    // What the burner notes, in steps of 1 ms.
    let mut notes = vec![0];
    let (mut stolen, mut busy, mut absent, mut delivered) = (0, 0, 0, 0);
    let mut next_mark = WINDOW_NS;
    let mut pause: Option<(u64, u64)> = None;
    let mut used_by_program = 0u64;
    let sample = |at_ms: u64, stolen: u64, busy: u64| CounterSample {
        at_ns: at_ms * MS,
        times: vec![Some(CpuTimes {
            user: busy / 10,
            steal: stolen / 10,
            ..CpuTimes::default()
        })],
        ..CounterSample::default()
    };
    meter.sample(sample(0, 0, 0));
    for ms in 0.. {
        let now = |test: fn(AbsenceKind) -> bool| {
            let within = |e: &&AbsenceEvent| (e.from_ms..e.from_ms + e.length_ms).contains(&ms);
            events.iter().filter(within).any(|e| test(e.what))
        };
        let awake = !now(|what| matches!(what, AbsenceKind::Supervisor | AbsenceKind::Both));
        let wants_pause =
            now(|what| matches!(what, AbsenceKind::Pause | AbsenceKind::PauseWithoutProgram));
        let number = |run_ns, clock: &RunClock| clock.monotonic_ns(run_ns) / MS;
        let oldest = ms.saturating_sub(BOUNDARIES as u64 * BOUNDARY_NS / MS);
        let taken = |notes: &[u64], from: u64, to: u64| BurnerTime {
            ns: (notes[to as usize] - notes[from as usize]) * MS / 2,
            stolen_ns: 0,
            hole: from < oldest,
        };
        match pause {
            None if awake && wants_pause => {
                meter.sample(sample(ms, stolen, busy));
                pause = Some((ms, used_by_program));
            }
            Some((from_ms, used)) if !wants_pause && awake => {
                let at = clock.run_ns(from_ms * MS);
                let unloaded = (used_by_program - used) * MS;
                meter.pause(at, sample(ms, stolen, busy), unloaded);
                clock.pause(from_ms * MS, ms * MS);
                pause = None;
            }
            _ => {}
        }
        let run_ns = clock.run_ns(ms * MS);
        // After a pause the clock stands until the next boundary, and with it the end.
        let over = run_ns >= run_ms * MS && clock.monotonic_ns(run_ms * MS) <= ms * MS;
        if awake && pause.is_none() && (run_ns >= next_mark || over) {
            meter.sample(sample(ms, stolen, busy));
            let until = if over {
                run_ms * MS
            } else {
                (run_ns / WINDOW_NS - 1) * WINDOW_NS
            };
            let what = |_, from, to| taken(&notes, number(from, &clock), number(to, &clock));
            meter.finish(&clock, until, over, what, &mut judge);
            next_mark = (run_ns / WINDOW_NS + 1) * WINDOW_NS;
            if over {
                break;
            }
        }
        let steal = now(|what| matches!(what, AbsenceKind::Steal));
        let burns =
            pause.is_none() && !now(|what| matches!(what, AbsenceKind::Burner | AbsenceKind::Both));
        let runs = match pause {
            None => true,
            Some(_) => now(|what| matches!(what, AbsenceKind::PauseWithoutProgram)),
        };
        stolen += u64::from(steal);
        busy += u64::from(!steal && (runs || burns));
        notes.push(notes[notes.len() - 1] + u64::from(burns && !steal));
        // After a pause at the very end the clock stands, and the run goes on, to a boundary.
        let in_run = ms * MS < clock.monotonic_ns(run_ms * MS);
        if runs && !steal {
            used_by_program += 1;
            delivered += u64::from(in_run);
            absent += u64::from(in_run && !burns);
        }
    }
    Truth {
        verdict: judge.verdict(),
        judged_ms: judge.judged_ns / MS,
        delivered_ms: delivered,
        absent_ms: absent,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn an_absent_load_is_never_kept(events in events(8), run_ms in 70u64..120) {
        let truth = simulate(&events, run_ms * 100);
        // Half a window more or less: where a burner's time is noted.
        let absent_pct = truth.absent_ms as f64 * ASKED_PCT / truth.delivered_ms as f64;
        if truth.verdict == Verdict::Kept {
            prop_assert!(absent_pct <= 1.5, "{} ms of {}", truth.absent_ms, truth.delivered_ms);
        }
    }

    #[test]
    fn a_load_that_was_there_is_kept(events in events(8), run_ms in 70u64..120) {
        let harmless = |e: &&AbsenceEvent| matches!(e.what, AbsenceKind::Supervisor | AbsenceKind::Pause);
        let events: Vec<AbsenceEvent> = events.iter().filter(harmless).copied().collect();
        let truth = simulate(&events, run_ms * 100);
        prop_assert_eq!(truth.absent_ms, 0);
        prop_assert_eq!(truth.verdict, Verdict::Kept);
        // No moment of it was left out.
        let off = truth.judged_ms.abs_diff(truth.delivered_ms);
        prop_assert!(off <= 1, "{} ms of {}", truth.judged_ms, truth.delivered_ms);
    }
}

#[test]
fn what_was_absent_from_windows_that_nobody_saw_is_missed() {
    use AbsenceKind::{Both, Pause, PauseWithoutProgram, Supervisor};
    for (what, from_ms, length_ms, run_ms, expected) in [
        (Both, 2_000, 3_000, 7_000, Verdict::Missed),
        (Supervisor, 2_000, 3_000, 7_000, Verdict::Kept),
        (Pause, 2_000, 3_000, 7_000, Verdict::Kept),
        // Until after the end.
        (Pause, 7_000, 1, 7_000, Verdict::Kept),
        (PauseWithoutProgram, 2_000, 3_000, 7_000, Verdict::Missed),
        // Longer than the burners' notes reach back.
        (Supervisor, 2_000, 40_000, 50_000, Verdict::Missed),
    ] {
        let event = AbsenceEvent {
            what,
            from_ms,
            length_ms,
        };
        let found = simulate(&[event], run_ms).verdict;
        assert_eq!(found, expected, "{event:?}");
    }
}
