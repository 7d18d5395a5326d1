// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The native format, written by hand and by us.

use std::sync::Arc;

use proptest::prelude::*;

use crate::testing::{any_profile, assert_sound};
use crate::{Fault, InputSource, Profile, ReadOptions, Result};

use super::Writer;

fn read_with(text: &[u8], options: &ReadOptions) -> Result<Profile> {
    let source = InputSource::spool(&mut &*text, Arc::from("p.csv"))?;
    Profile::collect(source.open(Some(crate::Format::Native), options)?)
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

#[test]
fn another_machine_than_the_file_names_is_refused() {
    let of = |machine: &str| ReadOptions {
        machine: Some(machine.to_owned()),
        ..ReadOptions::default()
    };
    let named = b"# host: a\ntime,cpu0\n0,50\n10,end\n";
    let e = read_with(named, &of("b")).unwrap_err();
    assert!(matches!(*e.fault, Fault::WhichMachine { .. }), "{e}");
    read_with(named, &of("a")).unwrap();
    read_with(b"time,cpu0\n0,50\n10,end\n", &of("b")).unwrap();
}

#[test]
fn a_comment_about_profiles_is_free() {
    let options = ReadOptions::default();
    let with = |comment: &str| {
        read_with(
            format!("# {comment}\ntime,cpu0\n0,50\n10,end\n").as_bytes(),
            &options,
        )
    };
    for comment in [
        "sandbag profile",
        "sandbag profile of node7",
        "sandbag profile 1",
    ] {
        with(comment).unwrap();
    }
    let e = with("sandbag profile 2").unwrap_err();
    assert!(matches!(*e.fault, Fault::NewerVersion(_)), "{e}");
}

#[test]
fn a_head_that_is_wrong_is_refused_with_its_line() {
    for (head, told) in [
        (
            "# begins: garbage",
            "p.csv:2:11: expected a time such as 2026-11-21T01:10:52Z, found `garbage`",
        ),
        ("# interval: x", "p.csv:2:13: expected a length of time"),
        ("# interval: 0", "p.csv:2:13: expected a length of time"),
        ("# host: a\n# host: b", "p.csv:3:3: `host:` stands twice"),
        ("# interval: 1\n# interval: 1s", "`interval:` stands twice"),
    ] {
        let text = format!("# sandbag profile 1\n{head}\ntime,cpu0\n0,50\n10,end\n");
        let e = read_with(text.as_bytes(), &ReadOptions::default()).unwrap_err();
        assert!(e.to_string().starts_with("p.csv:"), "{e}");
        assert!(e.to_string().contains(told), "{e}");
    }
}

#[test]
fn an_end_before_the_last_row_is_a_fault_of_the_option() {
    let options = ReadOptions {
        end_ns: Some(5_000_000_000),
        ..ReadOptions::default()
    };
    let e = read_with(b"time,cpu0\n0,50\n10,60\n", &options).unwrap_err();
    let told = e.to_string();
    assert!(
        told.contains("--end 5 s is no use; it must be after the last row"),
        "{told}"
    );
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
