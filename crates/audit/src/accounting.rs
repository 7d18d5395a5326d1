// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How this kernel tells user from system time, and what can be seen so. Pure.
//!
//! Most kernels look at each tick whether the CPU is in user or kernel mode
//! (CONFIG_TICK_CPU_ACCOUNTING) and divide the time that a task had, which they
//! know exactly, in proportion to these looks (cputime_adjust in
//! kernel/sched/cputime.c). With n looks of which a share p found the kernel,
//! the share is known to sqrt(p(1-p)/n): a run of a fifth of a second at 250 Hz
//! has 50. Others read a clock at each change of mode
//! (CONFIG_VIRT_CPU_ACCOUNTING_NATIVE; CONFIG_VIRT_CPU_ACCOUNTING_GEN does so on
//! CPUs of `nohz_full=` only).

/// How the kernel divides CPU time into user and system time.
#[derive(Debug, Clone, PartialEq)]
pub struct Accounting {
    /// By looks at the tick.
    pub sampled: bool,
    /// Looks in a second.
    pub hz: f64,
    /// Whether it is known to count the time of interrupts in no task's CPU time.
    pub interrupts_apart: bool,
    /// The same for the report.
    pub words: String,
}

/// Where the kernel does not say.
const USUAL_HZ: f64 = 250.0;

impl Accounting {
    /// From the kernel's configuration (empty if unknown), from whether CPUs are in
    /// `nohz_full`, and from an experiment: a number of short runs in both modes, and
    /// in how many of them user or system time was 0. The experiment overrides the
    /// configuration.
    pub fn find(config: &str, nohz_full: bool, experiment: Option<(u32, u32)>) -> Self {
        let has = |name: &str| config.lines().any(|line| line == name);
        let hz = config
            .lines()
            .find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse::<f64>().ok())
            .filter(|hz| *hz > 0.0);
        let configured = match () {
            () if has("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y") => Some(false),
            () if has("CONFIG_VIRT_CPU_ACCOUNTING_GEN=y") => Some(!nohz_full),
            () if has("CONFIG_TICK_CPU_ACCOUNTING=y") => Some(true),
            () => None,
        };
        let seen = experiment
            .filter(|(runs, _)| *runs > 0)
            .map(|(runs, zeros)| zeros * 2 >= runs);
        let sampled = seen.or(configured).unwrap_or(true);
        let tick = match hz {
            Some(hz) => format!("sampled at the tick of {hz} Hz"),
            None => format!("sampled at the tick (of an unknown rate, taken as {USUAL_HZ} Hz)"),
        };
        Self {
            sampled,
            hz: hz.unwrap_or(USUAL_HZ),
            interrupts_apart: has("CONFIG_IRQ_TIME_ACCOUNTING=y"),
            words: if sampled { tick } else { "exact".to_owned() },
        }
    }

    /// Least difference that sampling resolves, percent: `z` standard deviations of a
    /// time that is `share` of a CPU's time `cpu_ns` over all its runs, against the
    /// mean of `others` other CPUs; 0 where nothing is sampled.
    pub fn resolvable_pct(&self, share: f64, cpu_ns: f64, others: usize, z: f64) -> f64 {
        if !self.sampled || others == 0 {
            return 0.0;
        }
        let looks = cpu_ns / 1e9 * self.hz;
        let share = share.clamp(0.0, 1.0);
        if share * looks <= 0.0 {
            return f64::MAX;
        }
        let one = ((1.0 - share) / (share * looks)).sqrt();
        (100.0 * z * one * (1.0 + 1.0 / others as f64).sqrt()).min(1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: &str = "CONFIG_TICK_CPU_ACCOUNTING=y\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n";
    const FULL: &str = "CONFIG_VIRT_CPU_ACCOUNTING_GEN=y\nCONFIG_HZ=1000\n";

    #[test]
    fn configurations_and_experiments() {
        let found = Accounting::find(TICK, false, None);
        assert!(found.sampled && found.words == "sampled at the tick of 250 Hz");
        assert!(Accounting::find(FULL, false, None).sampled);
        assert_eq!(Accounting::find(FULL, true, None).words, "exact");
        assert!(Accounting::find(FULL, true, Some((20, 19))).sampled);
        assert!(!Accounting::find(TICK, false, Some((20, 1))).sampled);
        let unknown = Accounting::find("", false, Some((20, 20)));
        assert!(unknown.words.contains("unknown") && unknown.hz == USUAL_HZ);
        let apart = |config: &str| Accounting::find(config, false, None).interrupts_apart;
        assert!(apart("CONFIG_IRQ_TIME_ACCOUNTING=y") && !apart(TICK) && !apart(""));
    }

    #[test]
    fn what_can_be_seen_follows_from_the_looks() {
        let tick = Accounting::find(TICK, false, None);
        // 40 s are 10 000 looks; half of them: 1 % each, 1.41 % of two.
        let pct = tick.resolvable_pct(0.5, 40e9, 1, 1.0);
        assert!((pct - 2f64.sqrt()).abs() < 1e-9, "{pct}");
        assert_eq!(tick.resolvable_pct(0.0, 40e9, 1, 1.0), f64::MAX);
        let exact = Accounting::find(FULL, true, None);
        assert_eq!(exact.resolvable_pct(0.5, 40e9, 1, 3.0), 0.0);
    }
}
