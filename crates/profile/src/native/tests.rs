// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The native format, written by hand and by us.

use std::sync::Arc;

use proptest::prelude::*;
use rstest::rstest;

use crate::testing::{any_profile, assert_sound};
use crate::{Error, Fault, InputSource, Profile, ProfileCell, ReadOptions, Result};

use super::Writer;

fn read_with(text: &[u8], options: &ReadOptions) -> Result<Profile> {
    let source = InputSource::spool(&mut &*text, Arc::from("p.csv"))?;
    Profile::collect(source.open(Some(crate::Format::Native), options)?)
}

fn read(text: &str) -> Result<Profile> {
    read_with(text.as_bytes(), &ReadOptions::default())
}

fn fault(text: &str) -> Error {
    let e = read(text).unwrap_err();
    assert!(e.to_string().starts_with("p.csv"), "{e}");
    e
}

#[test]
fn by_hand() {
    let p = read("time,cpu0,cpu3\n0,50,12.5\n1.5,80%,\n1m,end\n").unwrap();
    assert_sound(&p);
    assert_eq!(p.header.cpus, [0, 3]);
    assert_eq!(p.end_ns(), 60_000_000_000);
    assert_eq!(p.steps[0].end_ns, 1_500_000_000);
    assert_eq!(p.steps[1].cells, [Some(ProfileCell::load(80.0)), None]);
    assert!(p.warnings.is_empty());
}

#[rstest]
#[case::crlf("time,cpu0\r\n0,50\r\n10,end\r\n")]
#[case::mark("\u{feff}time,cpu0\n0,50\n10,end")]
#[case::quotes("\"Time\",\"CPU0\"\n\"0\",\"50\"\n\"10\",\"END\"\n")]
#[case::padding("time,cpu0\n0,50\n10,end\n,\n,\n")]
#[case::semicolons("time;cpu0\n0;50\n10;end\n")]
#[case::tabs("time\tcpu0\n0\t50\n10\tend\n")]
#[case::comments("# mine\n# sandbag profile 1\n\ntime,cpu0\n# busy\n0,50\n\n10,end\n")]
#[case::blanks(" time , cpu0 \n 0 , 50 \n 10 , end \n")]
#[case::units("time,cpu0\n0s,50\n10000ms,end\n")]
#[case::padded_end("time,cpu0,steal0\n0,50,0\n10,end,\n")]
#[case::steal_first("time,steal0,cpu0\n0,0,50\n10,end\n")]
fn the_same_profile(#[case] text: &str) {
    let p = read(text).unwrap();
    assert_eq!(p.header.cpus, [0]);
    assert_eq!(p.steps.len(), 1);
    assert_eq!(p.steps[0].cells, [Some(ProfileCell::load(50.0))]);
    assert_eq!(p.end_ns(), 10_000_000_000);
}

#[test]
fn the_head_is_kept() {
    let head = "# sandbag profile 1\n# host: vm\n# begins: 2026-11-21T01:10:52Z\n";
    let p = read(&format!("{head}time,cpu0\n0,50\n10,end\n")).unwrap();
    assert_eq!(p.header.host.as_deref(), Some("vm"));
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-11-21T01:10:52Z"
    );
}

#[rstest]
#[case("", "the file is empty")]
#[case("\n \n", "the file is empty")]
#[case("# only a comment\n", "the file is empty")]
#[case("0,50\n10,end\n", "p.csv:1:1: expected the column names")]
#[case("time\n0\n", "p.csv:1:1: expected at least one column")]
#[case("time,cpu0,core1\n", "p.csv:1:11: column `core1` is unknown")]
#[case("time,cpu0,cpu\n", "p.csv:1:11: column `cpu` is unknown")]
#[case(
    "time,cpu0,cpu99999999\n",
    "p.csv:1:11: column `cpu99999999` is unknown"
)]
#[case("time,cpu0,cpu0\n", "p.csv:1: `cpu0` stands twice")]
#[case("time,cpu0,steal1\n", "p.csv:1:11: column `steal1` is unknown")]
#[case("time,cpu0\n", "p.csv:1: expected a row at time 0")]
#[case("time,cpu0\n5,50\n10,end\n", "p.csv:2: the first row is at 5 s")]
#[case(
    "time,cpu0\n0,101\n10,end\n",
    "p.csv:2:3: load of cpu0 101 is not between"
)]
#[case(
    "time,cpu0\n0,-0.1\n10,end\n",
    "p.csv:2:3: load of cpu0 -0.1 is not between"
)]
#[case(
    "time,cpu0\n0,NaN\n10,end\n",
    "p.csv:2:3: load of cpu0 NaN is not between"
)]
#[case(
    "time,cpu0\n0,lots\n10,end\n",
    "p.csv:2:3: expected a number for load of cpu0"
)]
#[case(
    "time;cpu0\n0;12,5\n10;end\n",
    "p.csv:2:3: `12,5` is written with a decimal comma"
)]
#[case("time,cpu0\n0,12,5\n10,end\n", "p.csv:2: the row has 3 cells")]
#[case("time,cpu0,cpu1\n0,12\n10,end\n", "p.csv:2: the row has 2 cells")]
#[case(
    "time,cpu0\n0,1\n9,2\n5,3\n10,end\n",
    "p.csv:4: time 5 does not come after 9"
)]
#[case(
    "time,cpu0\n0,1\n9,2\n9,3\n10,end\n",
    "p.csv:4: time 9 does not come after 9"
)]
#[case(
    "time,cpu0\n0,1\n9,2\n9,end\n",
    "p.csv:4: time 9 does not come after 9"
)]
#[case(
    "time,cpu0\n0,1\n9,2\n",
    "p.csv: the profile has no end; add a last row `<time>,end`"
)]
#[case(
    "time,cpu0\n0,1\n9,end\n10,2\n",
    "p.csv:4: there is a row after the end"
)]
#[case("time,cpu0\n0,1\n9,end,5\n", "p.csv:3:1: expected nothing after `end`")]
#[case("time,cpu0\n0,1\nnoon,2\n", "p.csv:3:1: expected a time")]
#[case(
    "# sandbag profile 2\ntime,cpu0\n",
    "p.csv:1: version 2 of the native format is newer"
)]
fn rejects(#[case] text: &str, #[case] message: &str) {
    let e = fault(text);
    assert!(e.to_string().contains(message), "{e}");
}

#[test]
fn the_end_may_come_from_outside() {
    let mut options = ReadOptions {
        end_ns: Some(20_000_000_000),
        ..ReadOptions::default()
    };
    let p = read_with(b"time,cpu0\n0,50\n", &options).unwrap();
    assert_eq!(p.end_ns(), 20_000_000_000);
    let p = read_with(b"time,cpu0\n0,50\n10,end\n", &options).unwrap();
    assert_eq!(p.end_ns(), 10_000_000_000);
    options.end_ns = Some(0);
    assert!(read_with(b"time,cpu0\n0,50\n", &options).is_err());
}

#[test]
fn a_killed_recording_is_whole_up_to_its_last_row() {
    let whole = "# sandbag profile 1\n# interval: 1\ntime,cpu0\n0,50\n1,60\n2,70\n";
    for cut in whole.len() - 4..=whole.len() {
        let p = read(&whole[..cut]).unwrap();
        let rows = if cut == whole.len() { 3 } else { 2 };
        assert_eq!(p.steps.len(), rows, "{:?}", &whole[..cut]);
        assert_eq!(p.end_ns(), rows as u64 * 1_000_000_000);
        assert_eq!(p.warnings.len(), 4 - rows);
    }
}

#[test]
fn packed_files_are_unpacked() {
    use std::io::Write;
    let text = b"time,cpu0\n0,50\n10,end\n";
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text).unwrap();
    let mut xz = xz2::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(text).unwrap();
    let zst = zstd::encode_all(&text[..], 1).unwrap();
    let options = ReadOptions::default();
    let plain = read_with(text, &options).unwrap();
    let gz = gz.finish().unwrap();
    for packed in [&gz, &xz.finish().unwrap(), &zst] {
        assert_eq!(read_with(packed, &options).unwrap(), plain);
    }
    let e = read_with(&gz[..gz.len() - 9], &options).unwrap_err();
    assert!(matches!(*e.fault, Fault::Io(_)), "{e}");
}

#[test]
fn the_same_source_twice() {
    let source = InputSource::spool(&mut &b"time,cpu0\n0,50\n10,end\n"[..], "p".into()).unwrap();
    let mut one = source.open(None, &ReadOptions::default()).unwrap();
    let mut two = source.open(None, &ReadOptions::default()).unwrap();
    assert_eq!(one.next_step().unwrap(), two.next_step().unwrap());
}

fn write(p: &Profile, with_steal: bool) -> Vec<u8> {
    let mut w = Writer::new(Vec::new(), &p.header, with_steal, None).unwrap();
    p.steps.iter().for_each(|s| w.step(s).unwrap());
    w.finish().unwrap()
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(mut p in any_profile()) {
        p.header.host = Some("a host".into());
        p.header.has_steal = true;
        p.header.begins_at = "2026-11-21T01:10:52Z".parse().ok();
        let text = write(&p, true);
        let back = read_with(&text, &ReadOptions::default()).unwrap();
        prop_assert_eq!(back, p);
    }

    #[test]
    fn any_bytes_are_answered(bytes: Vec<u8>, rest in ".*") {
        read_with(&bytes, &ReadOptions::default()).ok();
        read(&format!("time,cpu0\n0,{rest}")).ok();
        read(&format!("time,cpu0\n{rest}\n10,end")).ok();
    }

    #[test]
    fn damaged_files_are_answered(p in any_profile(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let mut text = write(&p, true);
        *at.get_mut(&mut text) = byte;
        if let Ok(read) = read_with(&text, &ReadOptions::default()) {
            assert_sound(&read);
        }
        text.truncate(cut.index(text.len()));
        read_with(&text, &ReadOptions::default()).ok();
    }
}
