// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of the formats.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Fault};

/// A file format, or where else a profile came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Our own versioned CSV.
    Native,
    /// KRASH's profile, in both of its dialects.
    Krash,
    /// `sadf -j`.
    SadfJson,
    /// `sadf -d`.
    SadfCsv,
    /// `sar -P ALL`.
    SarText,
    /// Snapshots of `/proc/stat`.
    ProcStat,
    /// SimGrid availability traces.
    SimGrid,
    /// `mpstat -P ALL` text.
    MpstatText,
    /// `mpstat -P ALL -o JSON`.
    MpstatJson,
    /// `pmrep -o csv` of Performance Co-Pilot, counters or rates.
    PmrepCsv,
    /// `pcp2json` of Performance Co-Pilot, counters or rates.
    Pcp2Json,
    /// `pmdumplog` text of Performance Co-Pilot.
    Pmdumplog,
    /// A matrix of Prometheus's HTTP API, counters or rates.
    Prometheus,
    /// OpenMetrics text with time stamps, as `promtool tsdb dump-openmetrics` writes it.
    OpenMetrics,
    /// `collectl -sC -P`.
    CollectlPlot,
    /// Raw files of collectl.
    CollectlRaw,
    /// `atop -P cpu`.
    Atop,
    /// `atop -J cpu`.
    AtopJson,
    /// CSV of dstat, dool and the dstat of Performance Co-Pilot.
    Dstat,
    /// Recordings of nmon.
    Nmon,
    /// Job logs of the Parallel Workloads Archive.
    Swf,
    /// CPU traces of Distem.
    Distem,
    /// Profiles of cpu-load-generator.
    CpuLoadGenerator,
    /// Task usage of Google's cluster trace of 2011.
    Google2011,
    /// Server usage of Alibaba's cluster trace of 2017.
    Alibaba2017,
    /// Machine usage of Alibaba's cluster trace of 2018.
    Alibaba2018,
    /// CPU readings of Azure's traces of virtual machines.
    Azure,
    /// Bitbrains' traces of virtual machines (GWA-T-12).
    Bitbrains,
    /// PlanetLab's traces of virtual machines, as CloudSim has them.
    PlanetLab,
    /// CSV of Amazon CloudWatch: stamp and percent.
    CloudWatch,
    /// Plain CSV with a row per CPU and step; written only.
    CsvLong,
    /// Plain CSV with a column per CPU; written only.
    CsvWide,
    /// Workloads of rt-app; written only.
    RtApp,
    /// Made here, not read.
    Synthetic,
}

impl Format {
    /// Every format that can be named.
    pub const ALL: [Self; 33] = [
        Self::Native,
        Self::Krash,
        Self::SadfJson,
        Self::SadfCsv,
        Self::SarText,
        Self::ProcStat,
        Self::SimGrid,
        Self::MpstatText,
        Self::MpstatJson,
        Self::PmrepCsv,
        Self::Pcp2Json,
        Self::Pmdumplog,
        Self::Prometheus,
        Self::OpenMetrics,
        Self::CollectlPlot,
        Self::CollectlRaw,
        Self::Atop,
        Self::AtopJson,
        Self::Dstat,
        Self::Nmon,
        Self::Swf,
        Self::Distem,
        Self::CpuLoadGenerator,
        Self::Google2011,
        Self::Alibaba2017,
        Self::Alibaba2018,
        Self::Azure,
        Self::Bitbrains,
        Self::PlanetLab,
        Self::CloudWatch,
        Self::CsvLong,
        Self::CsvWide,
        Self::RtApp,
    ];

    /// All names, for messages.
    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The name by which it is asked for.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What it is, in a line.
    #[must_use]
    pub fn about(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Native => ("native", "sandbag's own CSV"),
            Self::Krash => ("krash", "profiles of KRASH, both dialects"),
            Self::SadfJson => ("sadf-json", "`sadf -j FILE -- -P ALL` (sysstat)"),
            Self::SadfCsv => ("sadf-csv", "`sadf -d FILE -- -P ALL` (sysstat)"),
            Self::SarText => ("sar", "`LC_ALL=C sar -P ALL -f FILE` (sysstat)"),
            Self::ProcStat => (
                "procstat",
                "snapshots of /proc/stat with a time line before each",
            ),
            Self::SimGrid => ("simgrid", "availability traces of SimGrid, a file per CPU"),
            Self::MpstatText => ("mpstat", "`LC_ALL=C mpstat -P ALL 1` (sysstat)"),
            Self::MpstatJson => ("mpstat-json", "`mpstat -P ALL -o JSON 1` (sysstat)"),
            Self::PmrepCsv => ("pmrep-csv", "`pmrep -o csv` of kernel.percpu.cpu (PCP)"),
            Self::Pcp2Json => ("pcp2json", "`pcp2json` of kernel.percpu.cpu (PCP)"),
            Self::Pmdumplog => ("pmdumplog", "`pmdumplog` of kernel.percpu.cpu (PCP)"),
            Self::Prometheus => (
                "prometheus",
                "a matrix of Prometheus's HTTP API, or prometheus+http://HOST:9090/?...",
            ),
            Self::OpenMetrics => (
                "openmetrics",
                "OpenMetrics text with time stamps (promtool tsdb dump-openmetrics)",
            ),
            Self::CollectlPlot => ("collectl-plot", "`collectl -sC -P`"),
            Self::CollectlRaw => ("collectl-raw", "raw files of collectl"),
            Self::Atop => ("atop", "`atop -r FILE -P cpu`"),
            Self::AtopJson => ("atop-json", "`atop -r FILE -J cpu`"),
            Self::Dstat => ("dstat", "`dool -T -c -C all --output FILE`, or dstat"),
            Self::Nmon => ("nmon", "`nmon -f`"),
            Self::Swf => ("swf", "job logs in the Standard Workload Format"),
            Self::Distem => ("distem", "CPU traces of Distem"),
            Self::CpuLoadGenerator => ("cpu-load-generator", "profiles of cpu-load-generator"),
            Self::Google2011 => (
                "google-2011",
                "task usage of Google's cluster trace of 2011",
            ),
            Self::Alibaba2017 => (
                "alibaba-2017",
                "server usage of Alibaba's cluster trace of 2017",
            ),
            Self::Alibaba2018 => (
                "alibaba-2018",
                "machine usage of Alibaba's cluster trace of 2018",
            ),
            Self::Azure => ("azure", "CPU readings of Azure's virtual machines"),
            Self::Bitbrains => ("bitbrains", "Bitbrains' virtual machines (GWA-T-12)"),
            Self::PlanetLab => ("planetlab", "PlanetLab's virtual machines, as in CloudSim"),
            Self::CloudWatch => ("cloudwatch", "CSV of Amazon CloudWatch: stamp, percent"),
            Self::CsvLong => ("csv-long", "plain CSV, a row per CPU and step"),
            Self::CsvWide => ("csv-wide", "plain CSV, a column per CPU"),
            Self::RtApp => ("rt-app", "a workload of rt-app"),
            Self::Synthetic => ("synthetic", "made here"),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|f| f.name() == text)
            .ok_or_else(|| Fault::NoSuchFormat(text.to_owned()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for f in Format::ALL {
            assert_eq!(f.to_string().parse::<Format>().unwrap(), f);
        }
        assert!("xml".parse::<Format>().is_err());
    }
}
