// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading what other programs recorded.
//!
//! The sampled formats (sysstat's and `/proc/stat` snapshots) are each a
//! [`Samples`]: a stream of samples with a stamp for their end. The
//! [`timeline`] makes contiguous steps of them. The CPUs of a recording are
//! known only at its end, because they come and go, so such a file is read
//! twice: once for its CPUs, once for its loads.

mod atop;
mod availability;
mod collectl;
mod counters;
mod cpu_load_generator;
mod cpu_table;
mod distem;
mod dstat;
mod frame;
mod host;
mod json;
mod krash;
mod line_samples;
mod mpstat;
mod mpstat_json;
mod nmon;
mod pcp;
mod percent;
mod procstat;
mod prometheus;
mod sadf_csv;
mod sadf_json;
mod sample;
mod sar;
mod simgrid;
mod snapshots;
mod stamp;
mod swf;
mod sysstat_json;
#[cfg(test)]
mod tests;
mod timeline;
mod trace;
mod zone;

use crate::reader::ImportReader;

/// All importers. The first that recognises a file has it: those with a mark of
/// their own come first, those that take much for theirs last.
pub(crate) fn readers() -> impl Iterator<Item = &'static ImportReader> {
    READERS.iter().chain(&trace::READERS)
}

static READERS: [ImportReader; 22] = [
    atop::TEXT,
    atop::JSON,
    collectl::PLOT,
    collectl::RAW,
    dstat::READER,
    nmon::READER,
    pcp::pmrep::READER,
    pcp::pcp2json::READER,
    pcp::pmdumplog::READER,
    sadf_csv::READER,
    mpstat_json::READER,
    cpu_load_generator::READER,
    prometheus::MATRIX,
    prometheus::TEXT,
    sadf_json::READER,
    mpstat::READER,
    sar::READER,
    procstat::READER,
    swf::READER,
    krash::READER,
    simgrid::READER,
    distem::READER,
];
