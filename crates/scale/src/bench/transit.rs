// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a rank came in its portion of the trace, from phase to phase. Pure.

use sandbag_jitter::replay::Portion;

use super::meets::WorkStart;

/// Where a rank is on its way through its portion.
pub(super) struct OnTheWay {
    portion: Portion,
    /// What its phases took since it came to the begin of that, ns.
    passed_ns: u64,
    /// None did yet.
    first: bool,
}

impl OnTheWay {
    pub(super) fn new(portion: Portion) -> Self {
        Self {
            portion,
            passed_ns: 0,
            first: true,
        }
    }

    /// A phase begins: ranks may come to a common position.
    pub(super) fn begin(&mut self, phase: u64) {
        if let Some(reset) = self.portion.at_phase(phase) {
            *self = Self::new(reset);
        }
    }

    pub(super) fn pass(&mut self, ns: u64) {
        self.passed_ns += ns;
        self.first = false;
    }

    /// Where it would be if it had begun there, ns.
    pub(super) fn from(&self, begin_ns: u64) -> WorkStart {
        if self.first {
            WorkStart::At(begin_ns)
        } else {
            WorkStart::After(begin_ns + self.passed_ns)
        }
    }

    /// Where it is, if that is known.
    pub(super) fn arrival(&self) -> Option<WorkStart> {
        let own = &self.portion;
        let goes_on = own.repeats() || self.passed_ns < own.length_ns();
        let at_ns = own.position_ns(self.passed_ns);
        let begin = if self.first {
            WorkStart::At(at_ns)
        } else {
            WorkStart::After(at_ns)
        };
        (goes_on && !own.is_stretched()).then_some(begin)
    }
}

#[cfg(test)]
mod tests {
    use sandbag_jitter::replay::Sync;

    use super::super::fixture::plan;
    use super::*;

    #[test]
    fn ranks_come_together_where_their_synchronisation_says_so() {
        let begins = |sync| {
            let mut rank = OnTheWay::new(plan(sync).rank(5));
            let each = (0..7).map(|phase| {
                rank.begin(phase);
                let first = rank.first;
                rank.pass(10);
                first
            });
            each.collect::<Vec<_>>()
        };
        let only_the_first = [true, false, false, false, false, false, false];
        assert_eq!(begins(Sync::None), only_the_first);
        assert_eq!(begins(Sync::Once), only_the_first);
        let every_third = [true, false, false, true, false, false, true];
        assert_eq!(begins(Sync::Phases(3)), every_third);
    }
}
