// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/interrupts` and `/proc/softirqs`: how often each CPU was interrupted
//! since boot, and by what (Documentation/filesystems/proc.rst, section 1.2).

use std::path::Path;

use crate::{Error, Result, Root};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptRow {
    /// Number of an interrupt, or a name such as `LOC` or `NET_RX`.
    pub label: String,
    /// What stands behind the counts, its parts separated by blanks.
    pub about: String,
    /// By CPU, in the order of the table's.
    pub counts: Vec<u64>,
}

/// The table; only online CPUs have a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterruptTable {
    pub cpus: Vec<u32>,
    /// Those that count by CPU; `ERR` and `MIS` do not.
    pub rows: Vec<InterruptRow>,
}

impl InterruptTable {
    pub fn of_interrupts(root: &Root) -> Result<Self> {
        Self::read(root, "/proc/interrupts")
    }

    pub fn of_softirqs(root: &Root) -> Result<Self> {
        Self::read(root, "/proc/softirqs")
    }

    fn read(root: &Root, path: &str) -> Result<Self> {
        let text = root.read(path)?;
        Self::parse(&text).ok_or_else(|| {
            let first = text.lines().next().unwrap_or_default();
            Error::parse(Path::new(path), "a first line of `CPUn` words", first)
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let cpus: Option<Vec<u32>> = lines
            .next()?
            .split_whitespace()
            .map(|word| word.strip_prefix("CPU")?.parse().ok())
            .collect();
        let cpus = cpus.filter(|cpus| !cpus.is_empty())?;
        let rows = lines.filter_map(|line| {
            let (label, rest) = line.split_once(':')?;
            let mut words = rest.split_whitespace();
            let counts: Vec<u64> = words
                .by_ref()
                .take(cpus.len())
                .map_while(|word| word.parse().ok())
                .collect();
            (counts.len() == cpus.len()).then(|| InterruptRow {
                label: label.trim().to_owned(),
                about: words.collect::<Vec<_>>().join(" "),
                counts,
            })
        });
        Some(Self {
            rows: rows.collect(),
            cpus,
        })
    }

    /// Of one CPU, the rows with their counts; none while it is offline.
    pub fn of_cpu(&self, cpu: u32) -> impl Iterator<Item = (&InterruptRow, u64)> {
        let place = self.cpus.iter().position(|number| *number == cpu);
        self.rows
            .iter()
            .filter_map(move |row| Some((row, *row.counts.get(place?)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "           CPU0       CPU2       
 36:    1397553     550182 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
LOC:   14115526   13570118   Local timer interrupts
ERR:          0
";

    #[test]
    fn rows_count_by_cpu() {
        let table = InterruptTable::parse(TEXT).unwrap();
        assert_eq!(table.cpus, [0, 2]);
        let of_2: Vec<(&str, u64)> = table
            .of_cpu(2)
            .map(|(row, count)| (row.label.as_str(), count))
            .collect();
        assert_eq!(of_2, [("36", 550_182), ("LOC", 13_570_118)]);
        let about = "PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0";
        assert_eq!(table.rows[0].about, about);
        assert_eq!(table.of_cpu(1).count(), 0);
        assert_eq!(InterruptTable::parse(""), None);
        assert_eq!(InterruptTable::parse("cpu 1 2\n"), None);
    }
}
