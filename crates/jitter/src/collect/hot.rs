// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop: read the counter again and again; where two readings lie further
//! apart than they should, something else had the CPU.
//!
//! The paper's algorithm 2 steps its index by one where it stores two values,
//! so that each event overwrites half of the one before; here a pair is stored.

use std::sync::atomic::{AtomicBool, Ordering};

use sandbag_linux::counter::now;

#[derive(Debug, Clone, Copy)]
pub struct Raw {
    /// The last reading before it.
    pub start: u64,
    pub length: u64,
}

/// What a pass through the loop came to.
#[derive(Debug, Clone, Copy)]
pub struct PassResult {
    pub from: u64,
    pub until: u64,
    pub events: usize,
    pub readings: u64,
}

/// Looks for differences above `threshold` counts until the counter is at
/// `until` or before its begin, the room is full, or `stop` is set. Touches nothing but the
/// room.
#[inline(never)]
pub fn look(room: &mut [Raw], threshold: u64, until: u64, stop: &AtomicBool) -> PassResult {
    look_by(now, room, threshold, until, stop)
}

#[inline(always)]
fn look_by(
    mut counter: impl FnMut() -> u64,
    room: &mut [Raw],
    threshold: u64,
    until: u64,
    stop: &AtomicBool,
) -> PassResult {
    let from = counter();
    let most = until.saturating_sub(from);
    let mut last = from;
    let mut events = 0;
    let mut readings = 1;
    // A counter that began anew in a suspend is far beyond that, too.
    while last.wrapping_sub(from) < most && events < room.len() && !stop.load(Ordering::Relaxed) {
        let this = counter();
        let length = this.wrapping_sub(last);
        readings += 1;
        // A counter that went back on another socket is no event.
        if length > threshold && this > last {
            room[events] = Raw {
                start: last,
                length,
            };
            events += 1;
        }
        last = this;
    }
    PassResult {
        from,
        until: last,
        events,
        readings,
    }
}

/// How many differences above `threshold` counts there are until the counter
/// is at `until` or before its begin, or `stop` is set: those for which there was no room.
#[inline(never)]
pub fn count(threshold: u64, until: u64, stop: &AtomicBool) -> u64 {
    let from = now();
    let most = until.saturating_sub(from);
    let mut last = from;
    let mut events = 0;
    while last.wrapping_sub(from) < most && !stop.load(Ordering::Relaxed) {
        let this = now();
        events += u64::from(this.wrapping_sub(last) > threshold && this > last);
        last = this;
    }
    events
}

/// What the machine itself costs, in counts.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// The least difference of two readings.
    pub least: u64,
    pub read: f64,
    /// A pass of the loop without an event, mean.
    pub pass: f64,
    /// Storing an event on top of that, mean.
    pub store: f64,
}

/// Readings for the least difference: the paper's million.
const READINGS: u32 = 1_000_000;
/// Measurements of which the least counts: interrupts only make them longer.
const ROUNDS: usize = 50;
const FEW: u64 = 10_000;

/// Differences up to this are none. AMD's counter moves in steps (of 26 counts
/// on an EPYC at 2.6 GHz), and a reading within a step is the one before plus
/// one, because readings must ascend: 9 % of the differences there are 1, the
/// others 25 and 26.
#[cfg(target_arch = "x86_64")]
const PRETENDED: u64 = 1;
/// Differences up to this are none: the counter has not moved.
#[cfg(target_arch = "aarch64")]
const PRETENDED: u64 = 0;

/// Measures them; some tens of milliseconds.
pub fn costs(room: &mut [Raw]) -> Costs {
    let mut least = u64::MAX;
    let mut last = now();
    for _ in 0..READINGS {
        let this = now();
        let length = this.wrapping_sub(last);
        if length > PRETENDED {
            least = least.min(length);
        }
        last = this;
    }
    let stop = AtomicBool::new(false);
    let best =
        |of: &mut dyn FnMut() -> f64| (0..ROUNDS).map(|_| of()).fold(f64::INFINITY, f64::min);
    let read = best(&mut || {
        let begin = now();
        let mut sum = 0u64;
        for _ in 0..FEW {
            sum = sum.wrapping_add(now());
        }
        std::hint::black_box(sum);
        now().wrapping_sub(begin) as f64 / FEW as f64
    });
    let span = (read * FEW as f64) as u64;
    let mut passes = |threshold: u64| {
        let looked = look(room, threshold, now().wrapping_add(span), &stop);
        looked.until.wrapping_sub(looked.from) as f64 / looked.readings.max(1) as f64
    };
    let pass = best(&mut || passes(u64::MAX));
    let stored = best(&mut || passes(0));
    Costs {
        least,
        read,
        pass,
        store: (stored - pass).max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_the_room_is_full() {
        let mut room = vec![
            Raw {
                start: 0,
                length: 0
            };
            1000
        ];
        let stop = AtomicBool::new(false);
        let begin = now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        // Every reading is an event. Other programs may have the CPU for a part of this.
        let in_a_minute = (now() - begin) * 3000;
        let looked = look(&mut room, 0, now() + in_a_minute, &stop);
        assert_eq!(looked.events, 1000);
        assert!(looked.until >= looked.from);
        let mut last = looked.from;
        for raw in &room {
            assert!(raw.start >= last && raw.length > 0);
            last = raw.start + raw.length;
        }
        assert!(last <= looked.until);
    }

    #[test]
    fn it_stops_when_it_is_told() {
        let stop = AtomicBool::new(true);
        let looked = look(&mut [], 0, u64::MAX, &stop);
        assert_eq!((looked.events, looked.readings), (0, 1));
    }

    #[test]
    fn it_stops_when_the_counter_begins_anew() {
        let empty = Raw {
            start: 0,
            length: 0,
        };
        let mut room = [empty; 9];
        let mut readings = [1_000, 1_010, 1_500, 7, 17].into_iter();
        let stop = AtomicBool::new(false);
        let counter = || readings.next().unwrap();
        let looked = look_by(counter, &mut room, 100, 1_000_000, &stop);
        assert_eq!((looked.events, looked.readings), (1, 4));
    }

    #[test]
    fn costs_are_in_order() {
        let mut room = vec![
            Raw {
                start: 0,
                length: 0
            };
            20_000
        ];
        let costs = costs(&mut room);
        assert!(costs.least > 0 && costs.read > 0.0);
        assert!(costs.pass.is_finite() && costs.store.is_finite());
    }
}
