// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From sysstat's percentages of an interval to a load.

use crate::number::any_percent;
use crate::{Fault, ProfileCell};

/// The load of values that cannot be; [`super::timeline`] makes it unknown and counts it.
pub(super) const IMPOSSIBLE: ProfileCell = ProfileCell {
    load_pct: f64::NAN,
    steal_pct: 0.0,
};

/// Three values rounded to a hundredth may add up to this much over 100.
pub(super) const ROUNDING_PCT: f64 = 0.1;

/// The same for values with this number of decimals; sysstat's `--dec` leaves fewer.
fn rounding_pct(decimals: usize) -> f64 {
    match decimals {
        0 => 1.5,
        1 => 0.2,
        _ => ROUNDING_PCT,
    }
}

fn decimals(field: &[u8]) -> usize {
    field.iter().rev().position(|b| *b == b'.').unwrap_or(0)
}

/// All states together, up to ten, may add up to more by this factor.
const ALL_STATES: f64 = 4.0;

/// As [`cell_rounded`], of a row of sysstat, which prints values such as 107562416.60
/// where a counter fell: [`IMPOSSIBLE`] of those, also in `others`, the other states.
pub(super) fn cell(
    idle: f64,
    iowait: f64,
    steal: f64,
    rounding: f64,
    others: impl Iterator<Item = f64>,
) -> Option<ProfileCell> {
    let mut sum = 0.0;
    for value in others {
        if !(0.0..=100.0).contains(&value) {
            return Some(IMPOSSIBLE);
        }
        sum += value;
    }
    if idle + iowait + steal + sum > 100.0 + ALL_STATES * rounding {
        return Some(IMPOSSIBLE);
    }
    let cell = cell_rounded(idle, iowait, steal, rounding, || sum);
    cell.unwrap_or(Some(IMPOSSIBLE))
}

/// Load = (100 - idle - iowait - steal) / (100 - steal), where rounding may make
/// the three add up to `rounding` over 100.
///
/// `others` is the sum of all other states and only asked for when the three
/// are 0: a row of nothing but zeros is how older versions print a CPU that
/// is offline.
pub(super) fn cell_rounded(
    idle: f64,
    iowait: f64,
    steal: f64,
    rounding: f64,
    others: impl FnOnce() -> f64,
) -> Result<Option<ProfileCell>, Fault> {
    for (name, value) in [("%idle", idle), ("%iowait", iowait), ("%steal", steal)] {
        if !(0.0..=100.0).contains(&value) {
            return Err(Fault::out_of_range(name, value));
        }
    }
    let unused = idle + iowait + steal;
    if unused > 100.0 + rounding {
        return Err(Fault::out_of_range("%idle + %iowait + %steal", unused));
    }
    if unused == 0.0 && others() == 0.0 {
        return Ok(None);
    }
    let delivered = 100.0 - steal;
    let load_pct = if delivered > 0.0 {
        ((100.0 - unused) / delivered * 100.0).clamp(0.0, 100.0)
    } else {
        0.0
    };
    Ok(Some(ProfileCell {
        load_pct,
        steal_pct: steal,
    }))
}

/// Where the columns of a table are. Indices count from the first field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub(super) cpu: usize,
    idle: usize,
    iowait: Option<usize>,
    pub(super) steal: Option<usize>,
    /// A bit for each column of another state.
    others: u64,
    /// Number of fields in a row.
    pub(super) count: usize,
}

impl Columns {
    /// `None` if the table is not that of CPU load. Old versions lack steal
    /// or iowait.
    pub(super) fn find<'a>(names: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let names: Vec<&[u8]> = names.collect();
        let find = |name: &[u8]| names.iter().position(|n| *n == name);
        let (idle, iowait, steal) = (find(b"%idle")?, find(b"%iowait"), find(b"%steal"));
        // Old versions count interrupts beside the states.
        let is_other = |i: &usize| {
            names[*i].starts_with(b"%") && *i != idle && Some(*i) != iowait && Some(*i) != steal
        };
        let others = (0..names.len().min(64)).filter(is_other);
        Some(Self {
            cpu: find(b"CPU")?,
            idle,
            iowait,
            steal,
            others: others.fold(0, |bits, i| bits | 1 << i),
            count: names.len(),
        })
    }

    fn is_other(&self, column: usize) -> bool {
        column < 64 && self.others >> column & 1 == 1
    }

    /// The load of a row.
    pub(super) fn row<'a>(
        &self,
        fields: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Option<ProfileCell>, Fault> {
        let (mut idle, mut iowait, mut steal) = (0.0, 0.0, 0.0);
        let (mut count, mut most_decimals) = (0, 0usize);
        for (i, field) in fields.clone().enumerate() {
            count = i + 1;
            if i == self.idle {
                idle = any_percent(field, || "%idle".into())?;
            } else if Some(i) == self.iowait {
                iowait = any_percent(field, || "%iowait".into())?;
            } else if Some(i) == self.steal {
                steal = any_percent(field, || "%steal".into())?;
            } else {
                continue;
            }
            most_decimals = most_decimals.max(decimals(field));
        }
        if count != self.count {
            return Err(Fault::field_count(self.count, count));
        }
        let rounding = rounding_pct(most_decimals);
        let others = fields.enumerate().filter(|(i, _)| self.is_other(*i));
        let value = |field| any_percent(field, String::new).unwrap_or(f64::NAN);
        let others = others.map(|(_, field)| value(field));
        Ok(cell(idle, iowait, steal, rounding, others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_a_share_of_the_delivered_time() {
        let cell_of = |load_pct, steal_pct| ProfileCell {
            load_pct,
            steal_pct,
        };
        for (idle, iowait, steal, others, expected) in [
            (40.0, 10.0, 20.0, 30.0, Some(cell_of(37.5, 20.0))),
            // Nothing but zeros is offline, but a CPU may be fully busy.
            (0.0, 0.0, 0.0, 0.0, None),
            (0.0, 0.0, 0.0, 100.0, Some(cell_of(100.0, 0.0))),
            (0.0, 0.0, 100.0, 0.0, Some(cell_of(0.0, 100.0))),
        ] {
            let got = cell(idle, iowait, steal, ROUNDING_PCT, [others].into_iter());
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn fewer_decimals_miss_100_by_more() {
        let names = [&b"CPU"[..], b"%user", b"%iowait", b"%steal", b"%idle"];
        let columns = Columns::find(names.into_iter()).unwrap();
        let row = |text: &'static str| columns.row(text.split(' ').map(str::as_bytes));
        for rounded in ["0 0 1 1 99", "0 0.0 0.7 0.7 98.7"] {
            assert_eq!(row(rounded).unwrap().unwrap().load_pct, 0.0, "{rounded}");
        }
        for wrong in ["0 0 1 2 99", "0 0.0 1.0 1.0 99.0", "0 0.00 1.00 1.00 99.00"] {
            assert!(row(wrong).unwrap().unwrap().load_pct.is_nan(), "{wrong}");
        }
    }

    #[test]
    fn states_that_cannot_be_make_a_load_unknown() {
        let names = [&b"CPU"[..], b"%user", b"intr/s", b"%steal", b"%idle"];
        let columns = Columns::find(names.into_iter()).unwrap();
        let row = |text: &'static str| columns.row(text.split(' ').map(str::as_bytes));
        for wrong in [
            "0 1e308 9 0.00 20.00",
            "0 90.00 9 0.00 90.00",
            "0 -5.00 9 0.00 50.00",
        ] {
            assert!(row(wrong).unwrap().unwrap().load_pct.is_nan(), "{wrong}");
        }
        for (right, load) in [
            ("0 20.00 999.00 0.00 80.00", 20.0),
            ("0 20.3 9 0.0 80.2", 19.8),
        ] {
            assert!(
                (row(right).unwrap().unwrap().load_pct - load).abs() < 1e-9,
                "{right}"
            );
        }
    }

    #[test]
    fn what_cannot_be() {
        for (idle, iowait, steal) in [
            (101.0, 0.0, 0.0),
            (-1.0, 0.0, 0.0),
            (f64::NAN, 0.0, 0.0),
            (60.0, 60.0, 0.0),
        ] {
            assert!(cell_rounded(idle, iowait, steal, ROUNDING_PCT, || 0.0).is_err());
        }
        // Rounding alone.
        let rounded = cell_rounded(99.99, 0.01, 0.01, ROUNDING_PCT, || 0.0);
        assert_eq!(rounded.unwrap().unwrap().load_pct, 0.0);
    }
}
