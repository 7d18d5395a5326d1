// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `pace` that experiments vary (`sandbag-lab run errors`).

use crate::method;
use clap::Args;
use sandbag_linux::cgroup::Weight;

use sandbag_ui::units;

/// Constants of `pace` in place of its own. In `--help`, not in `-h`.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct PaceOptions {
    /// pace: weight of its group on each CPU, 0.01 to 100 default weights
    /// [default: as much as makes room; in a node the maximum]
    ///
    /// Nothing is added where it is too little, so the load may be missed: for
    /// experiments.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub pace_weight: Option<f64>,

    /// pace: slice of its tasks, 100us to 100ms, or `kernel` for the kernel's
    /// own [default: 100ms]
    ///
    /// Linux 6.12 and later (EEVDF). For experiments: docs/methods.md says what
    /// it does.
    #[arg(long, value_name = "TIME", value_parser = slice, hide_short_help = true)]
    pub pace_slice: Option<u64>,
}

impl PaceOptions {
    /// Takes them over.
    pub fn put_into(self, options: &mut method::Options) {
        options.weight = self.pace_weight.map(Weight);
        options.slice_ns = self.pace_slice;
    }
}

/// A slice, ns; 0 is the kernel's own.
fn slice(text: &str) -> Result<u64, String> {
    match text {
        "kernel" => Ok(0),
        time => units::positive_duration(time).map(units::nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_a_time_or_the_kernels() {
        assert_eq!(slice("kernel"), Ok(0));
        assert_eq!(slice("5ms"), Ok(5_000_000));
        assert!(slice("0ms").is_err() && slice("soon").is_err());
    }
}
