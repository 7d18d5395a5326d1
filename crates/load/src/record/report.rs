// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a finished recording says of itself.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuReport {
    pub cpu: u32,
    /// Load over all rows that are known, percent; `None` if none is.
    pub load_pct: Option<f64>,
    /// Steal over the same rows, percent of all time.
    pub steal_pct: Option<f64>,
    /// Rows in which the load is unknown: the CPU was offline, its counters
    /// went back, the kernel accounted no time at all, or the command's time is unknown.
    pub holes: u64,
    /// The command's time on this CPU exceeded its busy time by so much that
    /// no later row could make up for it, nanoseconds; 0 without a command.
    pub unplaced_ns: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RecordReport {
    pub samples: u64,
    /// Rows that ended later than a tick (or a tenth of the interval) after
    /// their deadline; they stand in the file with their real length.
    pub late: u64,
    /// Deadlines at which no sample was taken because the one before was so
    /// late; the row in whose place they fell is longer, by its real length.
    pub missed: u64,
    pub worst_late_ns: u64,
    pub length_ns: u64,
    /// Time between the last row and the stop, too short for a row of its
    /// own and not recorded, nanoseconds.
    pub dropped_ns: u64,
    /// For how long the machine was suspended meanwhile; no row has that time.
    pub suspended_ns: u64,
    /// It was stopped; `false` if its duration ran out.
    pub stopped: bool,
    pub cpu_ns: u64,
    pub cpus: Vec<CpuReport>,
    /// CPUs that came online and have no column, ascending.
    pub unrecorded: Vec<u32>,
}

impl RecordReport {
    pub fn cost_pct(&self) -> f64 {
        match self.length_ns {
            0 => 0.0,
            length => self.cpu_ns as f64 / length as f64 * 100.0,
        }
    }

    /// What the user should hear, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let ms = |ns: u64| ns as f64 / 1e6;
        if self.late > 0 {
            warnings.push(format!(
                "{} of {} samples came late (worst {:.1} ms) and {} were missed; their rows have \
                 their real length",
                self.late,
                self.samples,
                ms(self.worst_late_ns),
                self.missed
            ));
        }
        for cpu in &self.cpus {
            if cpu.holes > 0 {
                warnings.push(format!(
                    "the load of CPU {} is unknown in {} of {} rows",
                    cpu.cpu, cpu.holes, self.samples
                ));
            }
            if cpu.unplaced_ns > 0 {
                warnings.push(format!(
                    "the command's clock shows {:.0} ms more on CPU {} than /proc/stat had as \
                     busy there; the opposing load is too high by so much",
                    ms(cpu.unplaced_ns),
                    cpu.cpu
                ));
            }
        }
        if self.suspended_ns > 100_000_000 {
            warnings.push(format!(
                "the machine slept for {:.1} s meanwhile; the rows go on without that time, and \
                 times of the day after it are too early",
                self.suspended_ns as f64 / 1e9
            ));
        }
        for cpu in &self.unrecorded {
            warnings.push(format!("CPU {cpu} came online and was not recorded"));
        }
        warnings
    }
}
