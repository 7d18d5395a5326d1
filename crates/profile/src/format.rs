// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The formats: a line for each with its variant, its name, and what it is.

use std::fmt;
use std::str::FromStr;

macro_rules! formats {
    ($($variant:ident, $name:literal, $about:literal;)*) => {
        /// A file format, or where else a profile came from.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Format {
            $(#[doc = $about] $variant,)*
            /// Made here, not read.
            Synthetic,
        }

        impl Format {
            /// Every format that can be named.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Name and description.
            fn words(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$variant => ($name, $about),)*
                    Self::Synthetic => ("synthetic", "made here"),
                }
            }
        }
    };
}

formats! {
    Native, "native", "sandbag's own CSV";
    Krash, "krash", "profiles of KRASH, both dialects";
    SadfJson, "sadf-json", "`sadf -j FILE -- -P ALL` (sysstat)";
    SadfCsv, "sadf-csv", "`sadf -d FILE -- -P ALL` (sysstat)";
    SarText, "sar", "`LC_ALL=C sar -P ALL -f FILE` (sysstat)";
    ProcStat, "procstat", "snapshots of /proc/stat with a time line before each";
    SimGrid, "simgrid", "availability traces of SimGrid, a file per CPU";
    MpstatText, "mpstat", "`LC_ALL=C mpstat -P ALL 1` (sysstat)";
    MpstatJson, "mpstat-json", "`mpstat -P ALL -o JSON 1` (sysstat)";
    PmrepCsv, "pmrep-csv", "`pmrep -o csv` of kernel.percpu.cpu (PCP)";
    Pcp2Json, "pcp2json", "`pcp2json` of kernel.percpu.cpu (PCP)";
    Pmdumplog, "pmdumplog", "`pmdumplog` of kernel.percpu.cpu (PCP)";
    Prometheus, "prometheus", "a matrix of Prometheus's HTTP API, or prometheus+http://HOST:9090/?...";
    OpenMetrics, "openmetrics", "OpenMetrics text with time stamps (promtool tsdb dump-openmetrics)";
    CollectlPlot, "collectl-plot", "`collectl -sC -P`";
    CollectlRaw, "collectl-raw", "raw files of collectl";
    Atop, "atop", "`atop -r FILE -P cpu`";
    AtopJson, "atop-json", "`atop -r FILE -J cpu`";
    Dstat, "dstat", "`dool -T -c -C all --output FILE`, or dstat";
    Nmon, "nmon", "`nmon -f`";
    Swf, "swf", "job logs in the Standard Workload Format";
    Distem, "distem", "CPU traces of Distem";
    CpuLoadGenerator, "cpu-load-generator", "profiles of cpu-load-generator";
    Google2011, "google-2011", "task usage of Google's cluster trace of 2011";
    Alibaba2017, "alibaba-2017", "server usage of Alibaba's cluster trace of 2017";
    Alibaba2018, "alibaba-2018", "machine usage of Alibaba's cluster trace of 2018";
    Azure, "azure", "CPU readings of Azure's virtual machines";
    Bitbrains, "bitbrains", "Bitbrains' virtual machines (GWA-T-12)";
    PlanetLab, "planetlab", "PlanetLab's virtual machines, as in CloudSim";
    CloudWatch, "cloudwatch", "CSV of Amazon CloudWatch: stamp, percent";
    CsvLong, "csv-long", "plain CSV, a row per CPU and step";
    CsvWide, "csv-wide", "plain CSV, a column per CPU";
    RtApp, "rt-app", "a workload of rt-app";
}

impl Format {
    /// All names, for messages.
    pub(crate) fn names() -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|format| format.name()).collect();
        names.join(", ")
    }

    /// The name by which it is asked for.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// Description in one line.
    pub fn about(self) -> &'static str {
        self.words().1
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No format has this name.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a format; known are {known}", known = Format::names())]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let mut all = Self::ALL.iter().copied();
        all.find(|format| format.name() == text)
            .ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for f in Format::ALL {
            assert_eq!(f.to_string().parse::<Format>().unwrap(), *f);
        }
        assert!("xml".parse::<Format>().is_err());
    }
}
