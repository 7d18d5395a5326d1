// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The columns of the table of CPUs: what each is called, what it shows, and
//! how several CPUs share a line. Terminal and page come from this list, so a
//! new column is a field of [`CpuResult`] (which is run.json's), its value in
//! the record of a run, and an entry here.

use sandbag_stats::ErrorStats;

use crate::report::run::CpuResult;
use crate::report::view::{LOAD, Words};
use sandbag_ui::text::signed;

pub(crate) struct CpuColumn {
    pub head: fn(&Words) -> (&'static str, &'static str),
    /// Head on the terminal; `None` where the column is only on the page.
    pub terminal: Option<&'static str>,
    /// Left out where no CPU has a value.
    pub is_optional: bool,
    value: fn(&CpuResult) -> Option<f64>,
    merge: Merge,
    format: Format,
}

/// How the values of several CPUs become one.
enum Merge {
    Mean,
    /// Mean over the 1 s windows of all CPUs.
    MeanOfWindows,
    /// The value of largest magnitude, with its sign.
    Worst,
    Sum,
}

enum Format {
    Number(usize),
    Signed(usize),
    /// Windows, which the terminal names and only where there are any.
    Windows,
}

const fn error(
    head: fn(&Words) -> (&'static str, &'static str),
    value: fn(&CpuResult) -> Option<f64>,
) -> CpuColumn {
    CpuColumn {
        head,
        terminal: None,
        is_optional: false,
        value,
        merge: Merge::MeanOfWindows,
        format: Format::Number(2),
    }
}

fn of(cpu: &CpuResult, value: fn(&ErrorStats) -> f64) -> Option<f64> {
    cpu.error_1s.as_ref().map(value)
}

/// Unknown where the run was over before a window was: one without an error may be a hole, or
/// stolen as a whole.
fn measured(cpu: &CpuResult, value: f64) -> Option<f64> {
    (cpu.error_1s.is_some() || cpu.holes > 0 || cpu.steal_pct > 0.0).then_some(value)
}

pub(crate) const ASKED: CpuColumn = CpuColumn {
    terminal: Some("asked %"),
    merge: Merge::Mean,
    ..error(
        |words| ("asked", words.unit),
        |cpu| measured(cpu, cpu.asked_pct),
    )
};
pub(crate) const GOT: CpuColumn = CpuColumn {
    terminal: Some("got %"),
    merge: Merge::Mean,
    ..error(
        |words| ("got", words.unit),
        |cpu| measured(cpu, cpu.got_pct),
    )
};
pub(crate) const MEAN_ABS: CpuColumn = CpuColumn {
    terminal: Some("mean abs"),
    ..error(
        |_| ("mean abs.", "points"),
        |cpu| of(cpu, |e| e.mean_abs_points),
    )
};
/// The error of a 1 s window of largest magnitude, points.
pub(crate) const WORST: CpuColumn = CpuColumn {
    terminal: Some("worst 1 s"),
    merge: Merge::Worst,
    format: Format::Signed(2),
    ..error(
        |_| ("worst 1 s", "points"),
        |cpu| of(cpu, |e| e.worst_points),
    )
};
pub(crate) const HOLES: CpuColumn = CpuColumn {
    terminal: Some(""),
    merge: Merge::Sum,
    format: Format::Windows,
    ..error(|_| ("holes", "windows"), |cpu| Some(cpu.holes as f64))
};

pub(crate) const CPU_COLUMNS: [CpuColumn; 10] = [
    ASKED,
    GOT,
    CpuColumn {
        format: Format::Signed(2),
        ..error(
            |_| ("mean error", "points"),
            |cpu| of(cpu, |e| e.mean_points),
        )
    },
    MEAN_ABS,
    error(
        |_| ("99 % within", "points"),
        |cpu| of(cpu, |e| e.p99_abs_points),
    ),
    WORST,
    CpuColumn {
        is_optional: true,
        ..error(
            |_| ("mean abs. 100 ms", "points"),
            |cpu| cpu.error_100ms.map(|e| e.mean_abs_points),
        )
    },
    CpuColumn {
        terminal: Some("steal %"),
        merge: Merge::Mean,
        format: Format::Number(1),
        ..error(|_| ("steal", "%"), |cpu| measured(cpu, cpu.steal_pct))
    },
    HOLES,
    CpuColumn {
        is_optional: true,
        format: Format::Number(1),
        ..error(
            |words| (words.limit, words.limit_unit),
            |cpu| cpu.headroom_pct,
        )
    },
];

/// Head and unit of each column of a load, for the reference.
pub fn column_heads() -> impl Iterator<Item = (&'static str, &'static str)> {
    CPU_COLUMNS.iter().map(|column| (column.head)(&LOAD))
}

impl CpuColumn {
    /// The value of one CPU, or of several in one line, if it is known.
    pub fn value(&self, cpus: &[&CpuResult]) -> Option<f64> {
        let values = || cpus.iter().filter_map(|cpu| (self.value)(cpu));
        let by_windows = cpus.iter().filter_map(|cpu| {
            let windows = cpu.error_1s?.windows as f64;
            Some(((self.value)(cpu)? * windows, windows))
        });
        match self.merge {
            _ if cpus.len() == 1 => values().next(),
            Merge::Mean => {
                let known = values().count();
                (known > 0).then(|| values().sum::<f64>() / known as f64)
            }
            Merge::MeanOfWindows => {
                let (sum, windows) = by_windows.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
                (windows > 0.0).then(|| sum / windows)
            }
            Merge::Worst => values().max_by(|a, b| a.abs().total_cmp(&b.abs())),
            Merge::Sum => Some(values().sum()),
        }
    }

    /// The value as text; `None` where it is not known.
    pub fn text(&self, cpus: &[&CpuResult]) -> Option<String> {
        let value = self.value(cpus)?;
        Some(match self.format {
            Format::Number(digits) => format!("{value:.digits$}"),
            Format::Signed(digits) => signed(value, digits),
            Format::Windows => value.to_string(),
        })
    }

    pub fn terminal_text(&self, cpus: &[&CpuResult]) -> String {
        let text = self.text(cpus).unwrap_or_else(|| "-".to_owned());
        match (&self.format, text.as_str()) {
            (Format::Windows, "0") => String::new(),
            (Format::Windows, "1") => "1 hole".to_owned(),
            (Format::Windows, _) => format!("{text} holes"),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn what_was_not_measured_is_no_figure() {
        let mut cpu = fixture::quiet().run.cpus[0].clone();
        let other = cpu.clone();
        (cpu.error_1s, cpu.got_pct) = (None, 0.0);
        assert_eq!(GOT.terminal_text(&[&cpu]), "-");
        assert_eq!(GOT.value(&[&cpu, &other]), Some(other.got_pct));
        // Steal in every window of it.
        cpu.holes = 3;
        assert_eq!(GOT.value(&[&cpu]), Some(0.0));
    }
}
