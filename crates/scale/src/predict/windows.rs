// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The noise that work meets, as a function of the time at which it begins.
//!
//! Work of `w` ns that begins at `t` ends when it has had `w` ns of its window: each event in
//! the window extends it. As a function of `t` the noise consists of pieces: it is constant
//! while no end of the window touches an event, it grows by a whole event where the end of the
//! window reaches one, and it falls by a nanosecond per nanosecond where `t` lies inside an
//! event. So pieces between the borders of events are exact for all times, and there are at
//! most three for each event.
//!
//! A window that leaves the stretch in which events were looked for does not count: unknown
//! time is not quiet time.

use sandbag_jitter::{CpuTrace, Span, TraceEvent};

/// An interval of begins, and the noise that work meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoisePiece {
    /// First begin, ns.
    pub from_ns: u64,
    /// End of the interval, excluded, ns.
    pub until_ns: u64,
    /// Noise met by work that begins at `from_ns`, ns.
    pub noise_ns: u64,
    /// Depth of `from_ns` inside an event, ns, where the piece lies inside one; then the noise
    /// falls by 1 ns per ns.
    pub inside_ns: Option<u64>,
}

impl NoisePiece {
    /// Length of the interval, ns.
    pub fn width_ns(&self) -> u64 {
        self.until_ns - self.from_ns
    }

    /// The parts before and from `t_ns`, which lies inside.
    pub fn split(self, t_ns: u64) -> (Self, Self) {
        let before = Self {
            until_ns: t_ns,
            ..self
        };
        let after = Self {
            from_ns: t_ns,
            noise_ns: self.noise_at(t_ns),
            inside_ns: self.inside_ns.map(|depth| depth + (t_ns - self.from_ns)),
            ..self
        };
        (before, after)
    }

    /// Noise met by work that begins at `t_ns`, ns.
    pub fn noise_at(&self, t_ns: u64) -> u64 {
        match self.inside_ns {
            None => self.noise_ns,
            Some(_) => self.noise_ns - (t_ns - self.from_ns),
        }
    }

    /// The piece from `t_ns` on.
    fn from(&self, t_ns: u64) -> Self {
        let t_ns = t_ns.max(self.from_ns);
        Self {
            from_ns: t_ns,
            noise_ns: self.noise_at(t_ns),
            inside_ns: self.inside_ns.map(|depth| depth + (t_ns - self.from_ns)),
            ..*self
        }
    }
}

/// The pieces of one CPU, ascending.
#[derive(Debug, Clone)]
pub(super) struct Windows<'a> {
    spans: std::slice::Iter<'a, Span>,
    /// There is more than one stretch.
    interrupted: bool,
    events: &'a [TraceEvent],
    work_ns: u64,
    at: Option<WindowPosition>,
}

/// Position of the window.
#[derive(Debug, Clone)]
struct WindowPosition {
    /// Its begin, never inside an event.
    t_ns: u64,
    /// End of the stretch.
    until_ns: u64,
    /// The first event that is not over at `t_ns`.
    first: usize,
    /// The first event that the window does not meet.
    next: usize,
    /// Length of those from `first` to `next`.
    met_ns: u64,
}

impl<'a> Windows<'a> {
    /// Work of `work_ns`, at least 1, on this CPU.
    pub fn new(cpu: &'a CpuTrace, work_ns: u64) -> Self {
        Self {
            spans: cpu.known.iter(),
            interrupted: cpu.known.len() > 1,
            events: &cpu.events,
            work_ns: work_ns.max(1),
            at: None,
        }
    }

    fn enter(&self, span: &Span) -> WindowPosition {
        // An event that began before the stretch counts as unknown time. So does one that begins
        // with it after unknown time: it may be the rest of a longer one, and its depth is unknown.
        let before = |e: &TraceEvent| {
            e.start_ns < span.from_ns || self.interrupted && e.start_ns == span.from_ns
        };
        let first = self.events.partition_point(before);
        let over = first
            .checked_sub(1)
            .map_or(0, |before| self.events[before].end_ns());
        WindowPosition {
            t_ns: span.from_ns.max(over),
            until_ns: span.until_ns,
            first,
            next: first,
            met_ns: 0,
        }
    }

    /// The next piece of a stretch; `None` at its end.
    fn step(&self, at: &mut WindowPosition) -> Option<NoisePiece> {
        loop {
            let end_ns = at
                .t_ns
                .saturating_add(self.work_ns)
                .saturating_add(at.met_ns);
            if end_ns > at.until_ns {
                return None;
            }
            let next = self.events.get(at.next);
            if let Some(event) = next.filter(|event| event.start_ns <= end_ns) {
                at.met_ns = at.met_ns.saturating_add(event.length_ns);
                at.next += 1;
                continue;
            }
            let first = self.events.get(at.first);
            if let Some(event) = first.filter(|event| event.start_ns <= at.t_ns) {
                let piece = NoisePiece {
                    from_ns: at.t_ns,
                    until_ns: event.end_ns().max(at.t_ns),
                    noise_ns: at.met_ns,
                    inside_ns: Some(0),
                };
                at.met_ns -= event.length_ns;
                at.first += 1;
                at.t_ns = piece.until_ns;
                if piece.width_ns() == 0 {
                    continue;
                }
                return Some(piece);
            }
            let to_event = first.map_or(u64::MAX, |event| event.start_ns - at.t_ns);
            let to_meet = next.map_or(u64::MAX, |event| event.start_ns - end_ns);
            let step = (at.until_ns - end_ns).min(to_event).min(to_meet);
            if step == 0 {
                return None;
            }
            let piece = NoisePiece {
                from_ns: at.t_ns,
                until_ns: at.t_ns + step,
                noise_ns: at.met_ns,
                inside_ns: None,
            };
            at.t_ns += step;
            return Some(piece);
        }
    }
}

impl Iterator for Windows<'_> {
    type Item = NoisePiece;

    fn next(&mut self) -> Option<NoisePiece> {
        loop {
            if let Some(mut at) = self.at.take()
                && let Some(piece) = self.step(&mut at)
            {
                self.at = Some(at);
                return Some(piece);
            }
            let span = self.spans.next()?;
            self.at = Some(self.enter(span));
        }
    }
}

/// The pieces of several CPUs that were recorded together: at each time the noise of the CPU
/// with the most, because the others wait for it.
#[derive(Debug)]
pub(super) struct CpuGroup<'a> {
    columns: Vec<Windows<'a>>,
    /// The piece of each at `t_ns`, or after it.
    current: Vec<NoisePiece>,
    t_ns: u64,
    over: bool,
}

impl<'a> CpuGroup<'a> {
    /// Work of `work_ns` that begins on all CPUs at the same time.
    pub fn new(cpus: &[&'a CpuTrace], work_ns: u64) -> Self {
        let mut columns: Vec<Windows<'a>> =
            cpus.iter().map(|cpu| Windows::new(cpu, work_ns)).collect();
        let current: Vec<NoisePiece> = columns.iter_mut().map_while(Iterator::next).collect();
        Self {
            over: current.is_empty() || current.len() < columns.len(),
            columns,
            current,
            t_ns: 0,
        }
    }

    /// Moves to the next time at which each CPU has a piece; `None` if there is none.
    fn meet(&mut self) -> Option<()> {
        loop {
            let mut from_ns = self.t_ns;
            for (piece, column) in self.current.iter_mut().zip(&mut self.columns) {
                while piece.until_ns <= from_ns {
                    *piece = column.next()?;
                }
                from_ns = from_ns.max(piece.from_ns);
            }
            if self.t_ns == from_ns {
                return Some(());
            }
            self.t_ns = from_ns;
        }
    }
}

impl Iterator for CpuGroup<'_> {
    type Item = NoisePiece;

    fn next(&mut self) -> Option<NoisePiece> {
        if self.over {
            return None;
        }
        if self.meet().is_none() {
            self.over = true;
            return None;
        }
        let t_ns = self.t_ns;
        let mut until_ns = u64::MAX;
        let mut level_ns = None;
        let mut falling: Option<NoisePiece> = None;
        for piece in &self.current {
            until_ns = until_ns.min(piece.until_ns);
            match piece.inside_ns {
                None => level_ns = level_ns.max(Some(piece.noise_ns)),
                Some(_) => {
                    let here = piece.from(t_ns);
                    if falling.is_none_or(|other| other.noise_ns < here.noise_ns) {
                        falling = Some(here);
                    }
                }
            }
        }
        let mut piece = NoisePiece {
            from_ns: t_ns,
            until_ns,
            noise_ns: level_ns.unwrap_or(0),
            inside_ns: None,
        };
        if let Some(falling) = falling {
            let above = level_ns.map_or(u64::MAX, |level| falling.noise_ns.saturating_sub(level));
            if above > 0 {
                // Until another piece is greater than the falling one.
                piece = NoisePiece {
                    until_ns: until_ns.min(t_ns.saturating_add(above)),
                    ..falling
                };
            }
        }
        self.t_ns = piece.until_ns;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::{cpu, span};

    #[test]
    fn no_window_reaches_over_unknown_time() {
        let cpu = cpu(&[(0, 150), (1000, 1120), (2000, 2050)], &[(2010, 5)]);
        let all = Windows::new(&cpu, 100).map(|p| (p.from_ns, p.until_ns, p.noise_ns));
        assert!(all.eq([(0, 50, 0), (1000, 1020, 0)]));
    }

    /// The noise met by work from `t`, nanosecond by nanosecond.
    fn brute(cpu: &CpuTrace, t: u64, work: u64) -> Option<u64> {
        let mut spans = cpu.known.iter();
        let span = spans.find(|s| s.from_ns <= t && t < s.until_ns)?;
        let (mut done, mut now) = (0, t);
        while done < work {
            if now >= span.until_ns {
                return None;
            }
            let mut events = cpu.events.iter();
            done += u64::from(!events.any(|e| e.start_ns <= now && now < e.end_ns()));
            now += 1;
        }
        Some(now - t - work)
    }

    fn ascending(parts: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut at = 0;
        let mut all = Vec::new();
        for (gap, length) in parts {
            all.push((at + gap, *length));
            at += gap + length;
        }
        all
    }

    proptest! {
        #[test]
        fn every_begin_meets_what_brute_force_meets(
            a in prop::collection::vec((1u64..40, 1u64..30), 0..12),
            b in prop::collection::vec((1u64..40, 1u64..30), 0..12),
            work in 1u64..60,
        ) {
            let columns = [ascending(&a), ascending(&b)].map(|events| {
                let end = events.last().map_or(0, |(start, length)| start + length);
                cpu(&[(0, end + 100)], &events)
            });
            for cpu in &columns {
                for piece in Windows::new(cpu, work) {
                    for t in piece.from_ns..piece.until_ns {
                        // Work that ends exactly where an event begins meets it here, and not
                        // by brute force.
                        if let Some(noise) = brute(cpu, t, work) {
                            let next = cpu.events.iter().any(|e| e.start_ns == t + work + noise);
                            prop_assert!(next || noise == piece.noise_at(t), "{t} {piece:?}");
                        }
                    }
                }
            }
            let pair: Vec<&CpuTrace> = columns.iter().collect();
            let single = [0, 1].map(|i| Windows::new(pair[i], work).collect::<Vec<_>>());
            let at = |pieces: &[NoisePiece], t: u64| {
                let piece = pieces.iter().find(|p| p.from_ns <= t && t < p.until_ns);
                piece.map(|p| p.noise_at(t))
            };
            let both: Vec<NoisePiece> = CpuGroup::new(&pair, work).collect();
            prop_assert!(both.windows(2).all(|w| w[0].until_ns <= w[1].from_ns));
            for t in 0..1000 {
                let expected = at(&single[0], t).zip(at(&single[1], t)).map(|(a, b)| a.max(b));
                prop_assert_eq!(at(&both, t), expected);
            }
        }
    }

    #[test]
    fn hostile_spans_end() {
        let mut cpu = cpu(&[(0, 10)], &[]);
        cpu.known.push(span(u64::MAX - 10, u64::MAX));
        assert_eq!(Windows::new(&cpu, u64::MAX).count(), 0);
        assert!(Windows::new(&cpu, 5).count() <= 2);
    }
}
