// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the columns and stamps of each trace mean.

use crate::number::{NS_PER_S, cpu_number, decimal, decimal_seconds, whole};
use crate::{Fault, Format};
use sandbag_input::Head;

use super::super::stamp::{self, EpochStamp};
use super::row::{TraceEpoch, TraceFormat, TraceReading, TraceStamps, Usual};

/// `server_usage.csv` of Alibaba's cluster of 2017: stamp, machine, CPU, memory and
/// disk in percent, three load averages.
///
/// ```text
/// 42000,1,27.3,45.1,40.2,12.5,11.9,12.0
/// ```
///
/// Neither this document nor that of 2018 says what a stamp is of its interval. The
/// begin: so it is of the containers of 2017 in the same document, and the stamps of
/// 2018 go from 0 to 691 190 s, ten seconds short of eight days.
pub(super) static ALIBABA_2017: TraceFormat = TraceFormat {
    format: Format::Alibaba2017,
    machine: Some(1),
    stamps: TraceStamps::Begin,
    usual: Usual::Documented(300),
    reading: |row, _| {
        let names = "stamp, machine, CPU, memory, disk, load1, load5, load15";
        let [stamp, _, cpu, ..]: [&[u8]; 8] = columns(row, names)?;
        reading(TraceEpoch::Unknown, seconds(stamp), percentage(cpu)?)
    },
};

/// `machine_usage.csv` of Alibaba's cluster of 2018: machine, stamp, CPU and memory in
/// percent, and five columns more; -1 and 101 are no values. The steps are not
/// documented, and vary.
///
/// ```text
/// m_1932,386640,41,92,,,43.04,33.08,5
/// ```
pub(super) static ALIBABA_2018: TraceFormat = TraceFormat {
    format: Format::Alibaba2018,
    machine: Some(0),
    stamps: TraceStamps::Begin,
    usual: Usual::Median(60),
    reading: |row, _| {
        let names = "machine, stamp, CPU, memory, ...";
        let [_, stamp, cpu, ..]: [&[u8]; 9] = columns(row, names)?;
        let load_pct = match cpu {
            b"-1" | b"101" => f64::NAN,
            _ => percentage(cpu)?,
        };
        reading(TraceEpoch::Unknown, seconds(stamp), load_pct)
    },
};

/// `vm_cpu_readings` of Azure's traces of virtual machines, 2017 and 2019: stamp,
/// machine, and the least, greatest and mean utilisation in the five minutes from then
/// on, percent of the virtual machine.
///
/// ```text
/// 300,<64 characters of base 64>,19.67,42.71,26.99
/// ```
pub(super) static AZURE: TraceFormat = TraceFormat {
    format: Format::Azure,
    machine: Some(1),
    stamps: TraceStamps::Begin,
    usual: Usual::Documented(300),
    reading: |row, _| {
        let [stamp, _, _, _, mean] = columns(row, "stamp, machine, least, greatest, mean")?;
        reading(TraceEpoch::Unknown, seconds(stamp), percentage(mean)?)
    },
};

/// Bitbrains' virtual machines, GWA-T-12 of the Grid Workloads Archive: a file per
/// machine.
///
/// ```text
/// Timestamp [ms]; CPU cores; CPU capacity provisioned [MHZ]; CPU usage [MHZ]; CPU usage [%]; ...
/// 1376314846; 4; 11703.998016; 10912.027459; 93.233; ...
/// ```
///
/// The stamps are seconds, although the header names milliseconds. The machines are
/// VMware's, whose samples carry the time at which they were taken, so a stamp is the end
/// of its interval. Rows without cores are of a machine that was off.
pub(super) static BITBRAINS: TraceFormat = TraceFormat {
    format: Format::Bitbrains,
    machine: None,
    stamps: TraceStamps::End,
    usual: Usual::Documented(300),
    reading: bitbrains,
};

/// CPU utilisation from Amazon CloudWatch as CSV, such as the Numenta Anomaly Benchmark
/// has it. A stamp is the begin of its period; without a zone it is taken for local time.
///
/// ```text
/// timestamp,value
/// 2014-02-14 14:30:00,0.132
/// ```
pub(super) static CLOUDWATCH: TraceFormat = TraceFormat {
    format: Format::CloudWatch,
    machine: None,
    stamps: TraceStamps::Begin,
    usual: Usual::Median(300),
    reading: cloudwatch,
};

/// `task_usage` of Google's `clusterdata-2011`, versions 2.0 and 2.1: begin and end in
/// microseconds, job, task, machine, mean CPU rate, and 13 or 14 columns more.
///
/// ```text
/// 600000000,900000000,3418309,0,4155527081,0.001562,0.06787,0.07568,...
/// ```
///
/// A rate of 1 is all CPUs of the largest machine of the cluster; how large this one is
/// stands in another file.
pub(super) static GOOGLE_2011: TraceFormat = TraceFormat {
    format: Format::Google2011,
    machine: Some(4),
    stamps: TraceStamps::Both,
    usual: Usual::Documented(300),
    reading: google,
};

/// PlanetLab's virtual machines, as CloudSim has them: a file per machine and day, a
/// whole percentage per line, five minutes each, without stamps.
pub(super) static PLANETLAB: TraceFormat = TraceFormat {
    format: Format::PlanetLab,
    machine: None,
    stamps: TraceStamps::Begin,
    usual: Usual::Documented(PLANETLAB_STEP_S),
    reading: |row, number| {
        let stamp_ns = number.saturating_mul(PLANETLAB_STEP_S * NS_PER_S as i64);
        reading(
            TraceEpoch::Unknown,
            Ok(stamp_ns),
            percentage(row.trim_ascii())?,
        )
    },
};

const PLANETLAB_STEP_S: i64 = 300;

type Reading = Result<Option<TraceReading>, Fault>;

/// A value with one stamp, of a machine whose CPUs are not counted.
fn reading(epoch: TraceEpoch, stamp_ns: Result<i64, Fault>, load_pct: f64) -> Reading {
    let stamp_ns = stamp_ns?;
    Ok(Some(TraceReading {
        stamp_ns,
        end_ns: stamp_ns,
        load_pct,
        cpus: 0,
        epoch,
    }))
}

/// Nine columns that begin with a machine such as `m_1932`.
pub(super) fn is_alibaba_2018(head: &Head<'_>) -> bool {
    let row = head.first();
    let name = row.split(|b| *b == b',').next().unwrap_or_default();
    row.split(|b| *b == b',').count() == 9
        && name.strip_prefix(b"m_").is_some_and(|n| whole(n).is_some())
}

pub(super) fn is_azure(head: &Head<'_>) -> bool {
    let is_name = |field: &[u8]| {
        let base64 = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
        field.len() == 64 && field.iter().all(base64)
    };
    let row: Vec<&[u8]> = head.first().split(|b| *b == b',').collect();
    matches!(row[..], [stamp, name, _, _, _] if whole(stamp).is_some() && is_name(name))
}

fn bitbrains(row: &[u8], _: i64) -> Reading {
    const FIELDS: usize = 11;
    /// In the year 5138 if it were seconds.
    const MILLISECONDS: u64 = 100_000_000_000;
    if row.starts_with(b"Timestamp") {
        return Ok(None);
    }
    let mut fields = row.split(|b| *b == b';').map(<[u8]>::trim_ascii);
    let found = fields.clone().count();
    if found != FIELDS {
        return Err(Fault::unexpected(
            format!("{FIELDS} columns with semicolons between them"),
            format!("{found}; the file may be cut short"),
        ));
    }
    let mut next = || fields.next().unwrap_or_default();
    let (stamp, cores, _, _, usage) = (next(), next(), next(), next(), next());
    let stamp_ns = match whole(stamp) {
        Some(ms @ MILLISECONDS..) => i64::try_from(ms)
            .ok()
            .and_then(|ms| ms.checked_mul(1_000_000))
            .filter(|ns| *ns < i64::MAX / 2)
            .ok_or_else(|| Fault::syntax("a stamp in seconds or milliseconds", stamp))?,
        _ => seconds(stamp)?,
    };
    let cpus = cpu_number(cores).ok_or_else(|| Fault::syntax("a number of cores", cores))?;
    let load_pct = match cpus {
        0 => f64::NAN,
        _ => percentage(usage)?,
    };
    let reading = reading(TraceEpoch::Utc, Ok(stamp_ns), load_pct)?;
    Ok(reading.map(|reading| TraceReading { cpus, ..reading }))
}

/// The header, and a date below it.
pub(super) fn is_cloudwatch(head: &Head<'_>) -> bool {
    let mut lines = head.lines();
    let header = lines.next().unwrap_or_default();
    header.eq_ignore_ascii_case(b"timestamp,value")
        && lines.next().is_some_and(|row| {
            let first = row.split(|b| *b == b',').next();
            first.is_some_and(|field| cloudwatch_stamp(field).is_some())
        })
}

/// `2014-02-14 14:30:00`, with a `T` between or with a zone of UTC behind.
fn cloudwatch_stamp(field: &[u8]) -> Option<EpochStamp> {
    let date = field.get(..10)?;
    let time = field.get(11..19)?;
    if !matches!(field.get(10), Some(b' ' | b'T')) {
        return None;
    }
    let zone = match field.get(19..)?.trim_ascii() {
        b"" => b"",
        b"Z" | b"+00:00" | b"UTC" | b".000Z" => &b"UTC"[..],
        _ => return None,
    };
    stamp::civil(date, time, zone)
}

fn cloudwatch(row: &[u8], _: i64) -> Reading {
    /// Other metrics come in the same two columns.
    const MOST_PCT: f64 = 1000.0;
    let [when, value] = columns(row, "timestamp, value")?;
    let expected = "a stamp such as 2014-02-14 14:30:00, in local time or UTC";
    let stamp = cloudwatch_stamp(when).ok_or_else(|| Fault::syntax(expected, when))?;
    let load_pct = percentage(value)?;
    if load_pct > MOST_PCT {
        return Err(Fault::lacks(
            Format::CloudWatch,
            format!("{load_pct} is no CPU utilisation in percent"),
        ));
    }
    let epoch = if stamp.local {
        TraceEpoch::Local
    } else {
        TraceEpoch::Utc
    };
    reading(epoch, Ok(stamp.ns), load_pct)
}

/// Numbers in 20 columns (19 in version 2.0), of which the first two are
/// microseconds from a later one on than the trace begins with.
pub(super) fn is_google(head: &Head<'_>) -> bool {
    let row = head.first();
    let mut fields = row.split(|b| *b == b',');
    let count = fields.clone().count();
    let numbers = fields.clone().all(|f| f.is_empty() || decimal(f).is_some());
    let mut stamp = || fields.next().and_then(whole);
    matches!(count, 19 | 20)
        && numbers
        && matches!((stamp(), stamp()), (Some(a), Some(b)) if (600_000_000..b).contains(&a))
}

fn google(row: &[u8], _: i64) -> Reading {
    const NAMES: &str = "start, end, job, task, machine, CPU rate, ...";
    let [start, end, _, _, _, rate, ..] = match row.split(|b| *b == b',').count() {
        19 => {
            let columns: [&[u8]; 19] = columns(row, NAMES)?;
            let mut all = [&b""[..]; 20];
            all[..19].copy_from_slice(&columns);
            all
        }
        _ => columns::<20>(row, NAMES)?,
    };
    Ok(Some(TraceReading {
        stamp_ns: google_stamp(start)?,
        end_ns: google_stamp(end)?,
        load_pct: percentage(rate)? * 100.0,
        cpus: 0,
        epoch: TraceEpoch::Utc,
    }))
}

/// Microseconds of the trace.
fn google_stamp(field: &[u8]) -> Result<i64, Fault> {
    /// Time 600 s of the trace is 2011-05-01 19:00 in New York.
    const ZERO_NS: i64 = (1_304_290_800 - 600) * 1_000_000_000;
    let us = whole(field).and_then(|us| i64::try_from(us).ok());
    us.and_then(|us| us.checked_mul(1000)?.checked_add(ZERO_NS))
        .filter(|ns| *ns < i64::MAX / 2)
        .ok_or_else(|| Fault::syntax("a stamp in microseconds", field))
}

/// The fields of a row of `N` columns.
fn columns<'a, const N: usize>(row: &'a [u8], names: &str) -> Result<[&'a [u8]; N], Fault> {
    let mut fields = [&b""[..]; N];
    let mut found = 0;
    for field in row.split(|b| *b == b',') {
        if let Some(place) = fields.get_mut(found) {
            *place = field.trim_ascii();
        }
        found += 1;
    }
    if found == N {
        return Ok(fields);
    }
    Err(Fault::unexpected(
        format!("{N} columns ({names})"),
        format!("{found}; the file may be cut short"),
    ))
}

/// A stamp in seconds.
fn seconds(field: &[u8]) -> Result<i64, Fault> {
    let ns = decimal_seconds(field).and_then(|ns| i64::try_from(ns).ok());
    ns.filter(|ns| *ns < i64::MAX / 2)
        .ok_or_else(|| Fault::syntax("a stamp in seconds", field))
}

/// A share in percent, which may be above 100; NaN where nothing stands.
fn percentage(field: &[u8]) -> Result<f64, Fault> {
    if field.is_empty() || field.eq_ignore_ascii_case(b"nan") {
        return Ok(f64::NAN);
    }
    match decimal(field) {
        Some(value) if value >= 0.0 && value.is_finite() => Ok(value),
        Some(_) => Err(Fault::out_of_range(
            "CPU utilisation",
            String::from_utf8_lossy(field),
        )),
        None => Err(Fault::syntax("a CPU utilisation in percent", field)),
    }
}
