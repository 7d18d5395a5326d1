// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What counts of the processor's counter are worth in nanoseconds of a trace.

/// From counts to the nanoseconds of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// The counter at the trace's beginning.
    pub begin: u64,
    /// Counts in a second.
    pub rate: f64,
}

impl Scale {
    /// Nanoseconds from the beginning to a reading; 0 before it.
    pub fn since_begin(&self, counts: u64) -> u64 {
        self.length(counts.saturating_sub(self.begin))
    }

    /// Nanoseconds of a number of counts.
    pub fn length(&self, counts: u64) -> u64 {
        (counts as f64 * 1e9 / self.rate).round() as u64
    }

    /// The same, with what is below a nanosecond.
    pub fn fraction(&self, counts: f64) -> f64 {
        counts * 1e9 / self.rate
    }

    /// Counts in a time.
    pub fn counts(&self, ns: f64) -> u64 {
        (ns * self.rate / 1e9).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_linux::counter::Moment;

    #[test]
    fn the_counter_counts() {
        let first = Moment::now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = Moment::now();
        let rate = first.rate(second);
        // 1 MHz to 10 GHz: Arm's counters are slow.
        assert!((1e6..1e10).contains(&rate), "{rate}");
        let scale = Scale {
            begin: first.counts,
            rate,
        };
        let ns = scale.since_begin(second.counts) as f64;
        let passed = (second.raw_ns - first.raw_ns) as f64;
        assert!((ns - passed).abs() <= 2.0, "{ns}, {passed}");
    }
}
