// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user's time limit: when it is due, and what follows. Pure.

use nix::sys::signal::Signal;

/// After the limit the command gets SIGTERM, and SIGKILL this much later.
const GRACE_NS: u64 = 5_000_000_000;
/// What SIGKILL does not end within this is stuck in the kernel.
const STUCK_NS: u64 = 1_000_000_000;
/// How often it is asked whether anything of the command is left.
const LOOK_NS: u64 = 20_000_000;

/// A limit that stands still while the run does.
#[derive(Debug, Default)]
pub struct TimeLimit {
    length_ns: Option<u64>,
    due_ns: Option<u64>,
    asked: bool,
}

impl TimeLimit {
    pub fn new(length_ns: Option<u64>) -> Self {
        Self {
            length_ns,
            ..Self::default()
        }
    }

    pub fn begin(&mut self, now: u64) {
        self.due_ns = self.length_ns.map(|length| now.saturating_add(length));
    }

    pub fn pause(&mut self, length_ns: u64) {
        self.due_ns = self.due_ns.map(|due| due.saturating_add(length_ns));
    }

    pub fn is_over(&self, now: u64) -> bool {
        self.asked || self.due_ns.is_some_and(|due| now >= due)
    }

    /// What to send to the command now, if anything: SIGTERM once, SIGKILL
    /// again and again, for it may fork while it is being killed.
    pub fn signal(&mut self, now: u64) -> Option<Signal> {
        let due = self.due_ns.filter(|due| now >= *due)?;
        if self.asked {
            return Some(Signal::SIGKILL);
        }
        self.asked = true;
        self.due_ns = Some(due.max(now).saturating_add(GRACE_NS));
        Some(Signal::SIGTERM)
    }

    /// Whether SIGKILL did not help either.
    pub fn is_hopeless(&self, now: u64) -> bool {
        self.asked && self.due_ns.is_some_and(|due| now > due + STUCK_NS)
    }

    /// When to look again, if at all.
    pub fn wake_ns(&self, now: u64) -> Option<u64> {
        if self.asked {
            Some(now + LOOK_NS)
        } else {
            self.due_ns
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn it_asks_once_and_kills_after_the_grace_time() {
        let mut limit = TimeLimit::new(Some(3 * S));
        assert_eq!(
            (limit.signal(100 * S), limit.wake_ns(100 * S)),
            (None, None)
        );
        limit.begin(10 * S);
        assert_eq!(limit.wake_ns(11 * S), Some(13 * S));
        assert_eq!((limit.signal(12 * S), limit.is_over(12 * S)), (None, false));
        assert_eq!(limit.signal(13 * S), Some(Signal::SIGTERM));
        assert!(limit.is_over(13 * S));
        assert_eq!(limit.signal(14 * S), None);
        assert_eq!(limit.signal(18 * S), Some(Signal::SIGKILL));
        assert_eq!(limit.signal(18 * S + 1), Some(Signal::SIGKILL));
        assert!(!limit.is_hopeless(18 * S) && limit.is_hopeless(20 * S));
    }

    #[test]
    fn a_pause_does_not_count() {
        let mut limit = TimeLimit::new(Some(3 * S));
        limit.begin(0);
        limit.pause(10 * S);
        assert_eq!(limit.signal(12 * S), None);
        assert_eq!(limit.signal(13 * S), Some(Signal::SIGTERM));
        limit.pause(10 * S);
        assert_eq!(limit.signal(18 * S), None);
    }

    #[test]
    fn none_is_never_over() {
        let mut limit = TimeLimit::new(None);
        limit.begin(0);
        assert_eq!(limit.signal(u64::MAX), None);
        assert!(!limit.is_over(u64::MAX) && limit.wake_ns(0).is_none());
    }
}
