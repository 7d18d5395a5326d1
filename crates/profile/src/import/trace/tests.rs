// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small traces made by hand.

use proptest::prelude::*;
use rstest::rstest;

use crate::testing::{assert_damage_is_answered, assert_sound, loads, message, read, read_as};
use crate::{Format, Gaps, InputSource, NS_PER_S, Profile, ReadOptions, Result, Spread};

fn read_with(text: &str, from: Option<Format>, options: &ReadOptions) -> Result<Profile> {
    let source = InputSource::spool(&mut text.as_bytes(), "in".into())?;
    let profile = Profile::collect(source.open(from, options)?)?;
    assert_sound(&profile);
    Ok(profile)
}

fn machine(name: &str) -> ReadOptions {
    ReadOptions {
        machine: Some(name.into()),
        ..ReadOptions::default()
    }
}

fn spread(text: &str) -> ReadOptions {
    ReadOptions {
        spread: Some(text.parse::<Spread>().unwrap()),
        ..ReadOptions::default()
    }
}

/// Ends in whole seconds and the load of a profile of one CPU.
fn single_cpu(p: &Profile) -> Vec<(u64, Option<f64>)> {
    assert_eq!(p.header.cpus, [0]);
    loads(p).into_iter().map(|(end, c)| (end, c[0])).collect()
}

fn google(start_s: u64, end_s: u64, machine: u32, rate: &str) -> String {
    format!(
        "{start_s}000000,{end_s}000000,3418309,0,{machine},{rate},\
         0.06,0.07,0.001,0.06,0.07,0.0004,0.0006,0.1,0.1,2.5,0.01,1,0,0.002\n"
    )
}

#[test]
fn a_machine_of_google_is_the_sum_of_its_tasks() {
    let text = [
        google(600, 900, 7, "0.25"),
        google(600, 900, 8, "0.5"),
        google(600, 750, 7, "0.125"),
        google(750, 900, 7, "0.5"),
        google(700, 800, 7, "0.5"),
        google(1200, 1500, 7, ""),
        google(1200, 1500, 7, "0.0625"),
    ];
    let p = read_with(&text.concat(), None, &machine("7")).unwrap();
    assert_eq!(p.header.format, Format::Google2011);
    assert_eq!(p.header.host.as_deref(), Some("7"));
    assert!(!p.header.has_steal);
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2011-05-01T23:00:00Z"
    );
    assert_eq!(
        single_cpu(&p),
        [
            (100, Some(37.5)),
            (150, Some(87.5)),
            (200, Some(100.0)),
            (300, Some(75.0)),
            (600, None),
            (900, Some(6.25)),
        ]
    );
    assert_eq!(
        p.warnings,
        [
            "1 rows stand after one of a later time; they were sorted",
            "1 rows of tasks have no CPU rate and were left out",
            "1 values are above 100 % of the machine, up to 125.0, and were cut to 100",
            "the recording has 1 holes, 300 s in all, in which no load is known",
            "in 300 s some CPU was offline or absent; its load is unknown there",
        ][..4]
    );
}

#[test]
fn more_tasks_at_a_time_than_are_held() {
    let text = google(600, 900, 7, "0.25").repeat(65_537);
    let got = message(&text, Format::Google2011);
    assert!(got.contains("google-2011: more than 65536 tasks"), "{got}");
}

#[test]
fn version_2_0_of_google_has_a_column_less() {
    let row = google(600, 900, 7, "0.25");
    let row = row.rsplit_once(',').unwrap().0;
    assert_eq!(single_cpu(&read(row)), [(300, Some(25.0))]);
}

#[test]
fn several_machines_need_a_choice() {
    let row = |machine: u32| format!("m_{machine},60,41,92,,,43.04,33.08,5\n");
    let text: String = (1..=7).map(row).collect();
    let told = |options: &ReadOptions| {
        let e = read_with(&text, None, options).unwrap_err();
        e.to_string()
    };
    assert_eq!(
        told(&ReadOptions::default()),
        "in: the file holds 7 machines, `m_1`, `m_2`, `m_3`, `m_4`, `m_5` ...; choose one"
    );
    assert_eq!(
        told(&machine("m_9")),
        "in: the file holds 7 machines, `m_1`, `m_2`, `m_3`, `m_4`, `m_5` ...; \
         choose one (there is no `m_9`)"
    );
    assert_eq!(
        read_with(&row(3), None, &machine("x"))
            .unwrap_err()
            .to_string(),
        "in: the file is of the machine `m_3`; choose one (there is no `x`)"
    );
    let p = read_with(&text, None, &machine("m_6")).unwrap();
    assert_eq!(p.header.host.as_deref(), Some("m_6"));
    assert_eq!(single_cpu(&p), [(60, Some(41.0))]);
}

/// Stamps and loads of machine m_5 between rows of others.
fn alibaba_2018(rows: &[(u32, &str)]) -> String {
    rows.iter()
        .map(|(stamp, cpu)| format!("m_4,1,1,1,,,1,1,1\nm_5,{stamp},{cpu},92,,,43.04,33.08,5\n"))
        .collect()
}

#[test]
fn irregular_steps_are_kept_and_long_ones_become_holes() {
    let rows = [
        (100, "10"),
        (130, "20"),
        (190, "101"),
        (250, "-1"),
        (310, "30"),
        (400, "40"),
        (1000, "50"),
    ];
    let p = read_with(&alibaba_2018(&rows), None, &machine("m_5")).unwrap();
    assert_eq!(p.header.format, Format::Alibaba2018);
    assert_eq!(p.header.begins_at, None);
    // The usual step is 60 s; 90 s is still one, 600 s is not.
    assert_eq!(
        single_cpu(&p),
        [
            (30, Some(10.0)),
            (90, Some(20.0)),
            (150, None),
            (210, None),
            (300, Some(30.0)),
            (360, Some(40.0)),
            (900, None),
            (960, Some(50.0)),
        ]
    );
    assert_eq!(
        p.warnings[..2],
        [
            "2 values are missing or marked as wrong; the load is unknown there",
            "the recording has 1 holes, 540 s in all, in which no load is known",
        ]
    );
}

#[test]
fn rows_that_do_not_ascend_give_the_same_profile() {
    let rows = [
        (0, "1"),
        (60, "2"),
        (120, "3"),
        (120, "9"),
        (180, "4"),
        (500, "5"),
    ];
    let sorted = read_with(&alibaba_2018(&rows), None, &machine("m_5")).unwrap();
    let mixed = [3, 0, 5, 2, 1, 4].map(|i| rows[i]);
    let mixed = read_with(&alibaba_2018(&mixed), None, &machine("m_5")).unwrap();
    // Of two with one stamp the first one in the file counts.
    let swapped: Vec<_> = single_cpu(&mixed)
        .into_iter()
        .map(|(end, load)| (end, load.map(|l| if l == 9.0 { 3.0 } else { l })))
        .collect();
    assert_eq!(swapped, single_cpu(&sorted));
    assert_eq!(
        sorted.warnings[0],
        "1 rows have the stamp of another and were left out; the first was taken"
    );
    assert!(mixed.warnings[0].contains("3 rows stand after one of a later time"));
}

#[test]
fn a_server_of_alibaba_2017() {
    let text = "timestamp,machineID,cpu,mem,disk,load1,load5,load15\n\
        39600,3,26.5,40.0,41.0,20.1,19.2,18.3\n\
        39600,4,99.0,40.0,41.0,20.1,19.2,18.3\n\
        39900,3,50.25,40.0,41.0,20.1,19.2,18.3\n";
    let options = ReadOptions {
        machine: Some("3".into()),
        ..spread("pack:64")
    };
    let p = read_with(text, Some(Format::Alibaba2017), &options).unwrap();
    assert_eq!(p.header.cpus.len(), 64);
    assert_eq!(p.end_ns(), 600 * NS_PER_S);
    let cells = &loads(&p)[1].1;
    assert_eq!(cells[31..34], [Some(100.0), Some(16.0), Some(0.0)]);
    assert!(Format::detect(text.as_bytes()).is_none());
}

const VM: &str = "3nr+75Hj/9Qur3kI/Tk67pNWXhHhe85FapjDT14TntrfmaNBeei2H/x4kvrxpgVX";

#[test]
fn a_virtual_machine_of_azure() {
    let row = |stamp: u32, mean: f64| format!("{stamp},{VM},1.5,99.5,{mean}\n");
    let text = row(0, 20.5) + &row(300, 30.0) + &row(900, 5.0);
    let p = read_with(&text, None, &spread("2")).unwrap();
    assert_eq!(p.header.format, Format::Azure);
    assert_eq!(p.header.host.as_deref(), Some(VM));
    assert_eq!(
        loads(&p),
        [
            (300, vec![Some(20.5); 2]),
            (600, vec![Some(30.0); 2]),
            (900, vec![None; 2]),
            (1200, vec![Some(5.0); 2]),
        ]
    );
}

const BITBRAINS: &str = "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\t\
    CPU usage [MHZ];\tCPU usage [%];\tMemory capacity provisioned [KB];\tMemory usage [KB];\t\
    Disk read throughput [KB/s];\tDisk write throughput [KB/s];\t\
    Network received throughput [KB/s];\tNetwork transmitted throughput [KB/s]\n";

fn bitbrains(rows: &[(u64, u32, &str)]) -> String {
    let row = |(stamp, cores, pct): &(u64, u32, &str)| {
        format!(
            "{stamp};\t{cores};\t2599.9;\t19.06;\t{pct};\t2097152.0;\t1.0;\t0.0;\t0.1;\t0.2;\t0.3\n"
        )
    };
    BITBRAINS.to_owned() + &rows.iter().map(row).collect::<String>()
}

#[test]
fn a_machine_of_bitbrains_has_the_cores_of_its_rows() {
    let text = bitbrains(&[
        (1_376_314_846, 2, "0.75"),
        (1_376_315_146, 4, "105.0"),
        (1_376_315_146, 4, "50"),
        (1_376_315_446, 0, "0.0"),
        (1_376_316_646, 4, "50"),
    ]);
    let p = read(&text);
    assert_eq!(p.header.format, Format::Bitbrains);
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2013-08-12T13:35:46Z"
    );
    assert_eq!(
        loads(&p),
        [
            (300, vec![Some(0.75), Some(0.75), None, None]),
            (600, vec![Some(100.0); 4]),
            (900, vec![None; 4]),
            (1800, vec![None; 4]),
            (2100, vec![Some(50.0); 4]),
        ]
    );
    assert!(p.warnings[0].contains("1 rows have the stamp of another"));
    assert!(p.warnings[1].contains("up to 105.0, and were cut"));
    let one_cpu = read_with(&text, None, &spread("1")).unwrap();
    assert_eq!(single_cpu(&one_cpu)[0], (300, Some(0.75)));
    // Where the header is right.
    let ms = read(&bitbrains(&[(1_376_314_846_000, 1, "5")]));
    assert_eq!(ms.header.begins_at, p.header.begins_at);
}

#[test]
fn a_file_of_planetlab_is_five_minutes_per_line() {
    let p = read_as(b"7\n0\n\n100\n", Some(Format::PlanetLab)).unwrap();
    assert_eq!(
        single_cpu(&p),
        [(300, Some(7.0)), (600, Some(0.0)), (900, Some(100.0))]
    );
    assert_eq!(p.header.begins_at, None);
    assert!(p.warnings.is_empty());
}

#[rstest]
#[case("2014-02-14 14:30:00", "2014-02-14T14:30:00")]
#[case("2014-02-14T14:30:00Z", "2014-02-14T14:30:00Z")]
#[case("2014-02-14 14:30:00+00:00", "2014-02-14T14:30:00Z")]
fn stamps_of_cloudwatch(#[case] stamp: &str, #[case] begins: &str) {
    let p = read(&format!("timestamp,value\n{stamp},0.132\n"));
    assert_eq!(p.header.format, Format::CloudWatch);
    assert_eq!(p.header.begins_at.unwrap().to_string(), begins);
    assert_eq!(single_cpu(&p), [(300, Some(0.13))]);
}

#[test]
fn a_period_of_cloudwatch_is_learned_from_its_rows() {
    let row = |minute: u32| format!("2014-02-14 14:{minute:02}:00,50\n");
    // Newest first, as the service gives them.
    let rows: String = [9, 3, 2, 1, 0].map(row).concat();
    let backwards = read(&format!("timestamp,value\n{rows}"));
    let rows: String = [0, 1, 2, 3, 9].map(row).concat();
    let p = read(&format!("timestamp,value\n{rows}"));
    assert_eq!(p.end_ns() / NS_PER_S, 10 * 60);
    assert_eq!(single_cpu(&p)[4], (540, None));
    assert_eq!(p.steps, backwards.steps);
}

#[test]
fn gaps_are_treated_as_asked_for() {
    let options = ReadOptions {
        gaps: Gaps::Zero,
        ..ReadOptions::default()
    };
    let text = format!("0,{VM},1,2,3\n900,{VM},1,2,4\n");
    let p = read_with(&text, None, &options).unwrap();
    assert_eq!(single_cpu(&p)[1], (900, Some(0.0)));
}

#[rstest]
#[case(
    Format::Azure,
    "0,vm,1,2\n",
    "in:1: expected 5 columns (stamp, machine, least, greatest, mean), found 4; the file may be cut short"
)]
#[case(Format::Azure, "0\n", "found 1; the file may be cut short")]
#[case(
    Format::Azure,
    "0,vm,1,2,-3\n",
    "in:1:10: CPU utilisation -3 is not between 0 and 100"
)]
#[case(Format::Azure, "x,vm,1,2,3\n0,vm,1,2,3\n", "a stamp in seconds")]
#[case(
    Format::Alibaba2018,
    "m_1,5,x,1,1,1,1,1,1\n",
    "in:1:7: expected a CPU utilisation in percent, found `x`"
)]
#[case(
    Format::Google2011,
    "5,6,7\n",
    "expected 20 columns (start, end, job, task, machine, CPU rate, ...)"
)]
#[case(
    Format::CloudWatch,
    "timestamp,value\n14.2.2014,5\n",
    "in:2:1: expected a stamp such as 2014-02-14 14:30:00"
)]
#[case(
    Format::CloudWatch,
    "timestamp,value\n2014-02-14 14:30:00,52345\n",
    "52345 is no CPU utilisation in percent"
)]
#[case(
    Format::Bitbrains,
    "1376314846;\tx;1;1;1;1;1;1;1;1;1\n",
    "expected a number of cores, found `x`"
)]
#[case(
    Format::PlanetLab,
    "5\nseven\n",
    "in:2:1: expected a CPU utilisation in percent"
)]
#[case(Format::PlanetLab, "header\n", "it holds no row of CPU utilisation")]
#[case(Format::PlanetLab, "5\ninf\n", "CPU utilisation inf is not between")]
fn rejects(#[case] format: Format, #[case] text: &str, #[case] expected: &str) {
    let got = message(text, format);
    assert!(got.contains(expected), "{got}");
}

const FORMATS: [Format; 7] = [
    Format::Google2011,
    Format::Alibaba2017,
    Format::Alibaba2018,
    Format::Azure,
    Format::Bitbrains,
    Format::PlanetLab,
    Format::CloudWatch,
];

/// A good file of each format.
fn good(format: Format) -> String {
    let stamps = [300u32, 600, 900, 1800];
    let row = |stamp: &u32| match format {
        Format::Google2011 => google((*stamp).into(), u64::from(stamp + 400), 5, "0.1"),
        Format::Alibaba2017 => format!("{stamp},5,20,1,1,1,1,1\n"),
        Format::Alibaba2018 => format!("m_5,{stamp},20,1,1,1,1,1,1\n"),
        Format::Azure => format!("{stamp},{VM},1,1,20\n"),
        Format::Bitbrains => bitbrains(&[((*stamp).into(), 2, "20")]).split_off(BITBRAINS.len()),
        Format::PlanetLab => format!("{}\n", stamp / 30),
        _ => format!("2014-02-14 14:{:02}:00,20\n", stamp / 60),
    };
    stamps.iter().map(row).collect()
}

#[test]
fn damage_is_answered() {
    for format in FORMATS {
        assert_damage_is_answered(good(format), format);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tasks_keep_their_work(
        tasks in prop::collection::vec((0u64..50, 1u64..50, 0u32..20), 1..20),
    ) {
        let rows: String = tasks.iter().map(|(start, length, rate)| {
            google(600 + start, 600 + start + length, 7, &format!("0.{rate:03}"))
        }).collect();
        let work: f64 = tasks.iter().map(|(_, length, rate)| *length as f64 * f64::from(*rate) / 10.0).sum();
        let p = read(&rows);
        let done: f64 = p.steps.iter().map(|step| {
            step.cells[0].map_or(0.0, |c| c.load_pct) * step.length_ns() as f64 / NS_PER_S as f64
        }).sum();
        prop_assert!((done - work).abs() < 1e-6, "{} {}", done, work);
    }
}
