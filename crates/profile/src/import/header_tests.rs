// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the header says of a recording, whatever its format.

use rstest::rstest;

use crate::testing::read;
use crate::{Format, InputSource, ReadOptions};

const PROCSTAT: &str = "1795223452\ncpu0 1 0 0 1 0 0 0 0\n1795223453\ncpu0 2 0 0 2 0 0 0 0\n";
const NMON: &str = "AAA,host,vm
CPU001,CPU 1 vm,User%,Sys%,Wait%,Idle%,Steal%
ZZZZ,T0001,17:58:54,21-NOV-2026
CPU001,T0001,1,0,0,99,0
ZZZZ,T0002,17:58:55,21-NOV-2026
CPU001,T0002,1,0,0,99,0
";
const DSTAT: &str = "\"dool 1.3.1 CSV output\"
\"epoch\",\"cpu0 usage\",,
\"epoch\",\"usr\",\"idl\",\"stl\"
1795283934,1,99,0
1795283935,1,99,0
";
const SAR: &str = "Linux 6.1.0 (vm) 11/21/26 _x86_64_ (1 CPU)

10:00:00 CPU %user %iowait %steal %idle
10:00:01 0 1.00 0.00 0.00 99.00
";
const SADF: &str = "# hostname;interval;timestamp;CPU;%user;%steal;%idle
vm;1;2026-11-21 01:00:10 UTC;0;1.00;0.00;99.00
";
const SADF_JSON: &str = r#"{"sysstat": {"hosts": [{"nodename": "vm", "statistics": [
{"timestamp": {"date": "2026-11-21", "time": "01:00:10", "utc": 1, "interval": 1},
"cpu-load": [{"cpu": "0", "user": 1.00, "steal": 0.00, "idle": 99.00}]}]}]}}"#;
const COLLECTL: &str = "#Date Time [CPU:0]User% [CPU:0]Steal% [CPU:0]Idle%
20261121 17:58:55 1 0 99
20261121 17:58:56 1 0 99
";
const ATOP: &str = "RESET
cpu vm 100 1970/01/01 00:01:40 100 100 0 1 1 0 1 0 0 0 0
SEP
cpu vm 101 1970/01/01 00:01:41 1 100 0 10 35 0 54 0 0 0 0
SEP
";
const ATOP_JSON: &str = "\
{\"host\": \"vm\", \"timestamp\": 100, \"elapsed\": 100, \"cpu\": [{\"cpuid\": 0, \"stime\": 1, \
\"utime\": 1, \"ntime\": 0, \"itime\": 9, \"steal\": 0}]}
{\"host\": \"vm\", \"timestamp\": 101, \"elapsed\": 1, \"cpu\": [{\"cpuid\": 0, \"stime\": 1, \
\"utime\": 1, \"ntime\": 0, \"itime\": 98, \"steal\": 0}]}
";

/// Each text with its steal, and what is taken from it for that of an older
/// version.
#[rstest]
#[case(Format::ProcStat, PROCSTAT, &[(" 0 0 0 0\n", " 0 0 0\n")])]
#[case(Format::Nmon, NMON, &[(",Steal%", ""), (",99,0", ",99")])]
#[case(Format::Dstat, DSTAT, &[(",,\n", ",\n"), (",\"stl\"", ""), (",99,0", ",99")])]
#[case(Format::SarText, SAR, &[(" %steal", ""), (" 0.00 0.00", " 0.00")])]
#[case(Format::SadfCsv, SADF, &[(";%steal", ""), (";0.00", "")])]
#[case(Format::SadfJson, SADF_JSON, &[("\"steal\": 0.00, ", "")])]
#[case(Format::SadfJson, SADF_JSON, &[("\"steal\"", "\"stolen\"")])]
#[case(Format::CollectlPlot, COLLECTL, &[(" [CPU:0]Steal%", ""), (" 1 0 99", " 1 99")])]
#[case(Format::Atop, ATOP, &[(" 0 0 0 0\n", " 0 0 0\n")])]
#[case(Format::AtopJson, ATOP_JSON, &[(", \"steal\": 0", "")])]
fn steal_is_there_if_it_was_recorded(
    #[case] format: Format,
    #[case] text: &str,
    #[case] older: &[(&str, &str)],
) {
    let p = read(text);
    assert_eq!((p.header.format, p.header.has_steal), (format, true));
    let mut text = text.to_owned();
    for (from, to) in older {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let older = read(&text);
    assert_eq!(
        (older.header.format, older.header.has_steal),
        (format, false)
    );
    assert_eq!(older.steps.len(), p.steps.len());
}

#[rstest]
#[case(NMON, "vm", None)]
#[case(
    NMON,
    "vm2",
    Some("it is of one machine, vm; choose one (there is no `vm2`)")
)]
#[case(SADF_JSON, "VM", Some("(there is no `VM`)"))]
#[case(PROCSTAT, "any", None)]
fn another_machine_than_the_one_asked_for(
    #[case] text: &str,
    #[case] machine: &str,
    #[case] expected: Option<&str>,
) {
    let source = InputSource::spool(&mut text.as_bytes(), "in".into()).unwrap();
    let options = ReadOptions {
        machine: Some(machine.into()),
        ..ReadOptions::default()
    };
    match (source.open(None, &options), expected) {
        (Ok(_), None) => {}
        (Ok(_), Some(expected)) => panic!("taken: {expected}"),
        (Err(e), expected) => {
            let got = e.to_string();
            assert!(expected.is_some_and(|text| got.contains(text)), "{got}");
        }
    }
}

/// What pmrep exports is up to the user.
#[rstest]
#[case("steal", true)]
#[case("nice", false)]
fn steal_of_pmrep(#[case] fourth: &str, #[case] has_steal: bool) {
    let names = ["user", "sys", "idle", fourth].map(|m| format!(",kernel.percpu.cpu.{m}-cpu0"));
    let p = read(&format!(
        "Time{}\n2016-11-20 00:00:00,1,1,1,0\n2016-11-20 00:00:01,1,1,1001,0\n",
        names.concat()
    ));
    assert_eq!(p.header.has_steal, has_steal);
}
