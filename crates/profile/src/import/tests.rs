// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cases of `tests/cases`: a file per format of texts, and beside it, in
//! `snapshots`, what each text is read as or why it is refused.
//!
//! ```text
//! === NAME [from=FORMAT end=TIME machine=NAME spread=RULE gaps=RULE escaped unterminated]
//! TEXT
//! ```
//!
//! In an `escaped` text `\r` and `\u{feff}` are such characters; an
//! `unterminated` one has no line end at its end.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rstest::rstest;

use crate::testing::{assert_damage_is_answered, assert_sound, read_as};
use crate::{Format, InputSource, Profile, ProfileCell, ReadOptions, Result};
use sandbag_ui::quantity::plain_seconds;

#[derive(Default)]
struct Case {
    heading: String,
    text: String,
    from: Option<Format>,
    options: ReadOptions,
}

impl Case {
    fn parse(block: &str) -> Self {
        let (heading, text) = block.split_once('\n').unwrap();
        let mut case = Self {
            heading: heading.to_owned(),
            text: text.to_owned(),
            ..Self::default()
        };
        let options = heading.split_once(" [").map_or("", |(_, rest)| rest);
        for option in options.trim_end_matches(']').split_whitespace() {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            match key {
                "from" => case.from = Some(value.parse().unwrap()),
                "end" => case.options.end_ns = crate::number::time(value.as_bytes()),
                "machine" => case.options.machine = Some(value.to_owned()),
                "spread" => case.options.spread = Some(value.parse().unwrap()),
                "gaps" => case.options.gaps = value.parse().unwrap(),
                "escaped" => {
                    case.text = case
                        .text
                        .replace("\\r", "\r")
                        .replace("\\u{feff}", "\u{feff}");
                }
                "unterminated" => {
                    case.text.pop();
                }
                _ => panic!("{heading}: {key}"),
            }
        }
        case
    }

    fn all(path: &Path) -> Vec<Self> {
        let text = fs::read_to_string(path).unwrap();
        let blocks = text.strip_prefix("=== ").unwrap().split("\n=== ");
        let last = text.matches("\n=== ").count();
        let ends = blocks.enumerate().map(|(i, block)| match i {
            _ if i == last => block.to_owned(),
            _ => format!("{block}\n"),
        });
        ends.map(|block| Self::parse(&block)).collect()
    }

    fn read(&self) -> Result<Profile> {
        let source = InputSource::spool(&mut self.text.as_bytes(), "in".into())?;
        Profile::collect(source.open(self.from, &self.options)?)
    }
}

/// Loads and steal, percent, to a hundredth.
fn cell_text(cell: &Option<ProfileCell>) -> String {
    let rounded = |pct: f64| (pct * 100.0).round() / 100.0;
    match cell {
        None => " -".to_owned(),
        Some(cell) if cell.steal_pct == 0.0 => format!(" {}", rounded(cell.load_pct)),
        Some(cell) => format!(
            " {} (stolen {})",
            rounded(cell.load_pct),
            rounded(cell.steal_pct)
        ),
    }
}

fn describe(p: &Profile) -> String {
    let mut text = p.header.format.to_string();
    if let Some(host) = &p.header.host {
        let _ = write!(text, ", host {host}");
    }
    if let Some(begin) = p.header.begins_at {
        let _ = write!(text, ", begins {begin}");
    }
    if p.header.has_steal {
        text += ", has steal";
    }
    let _ = writeln!(text, ", CPUs {:?}", p.header.cpus);
    for step in &p.steps {
        let cells: String = step.cells.iter().map(cell_text).collect();
        let _ = writeln!(text, "until {}:{cells}", plain_seconds(step.end_ns));
    }
    for warning in &p.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

#[rstest]
fn cases(#[files("tests/cases/*.txt")] path: PathBuf) {
    let mut text = String::new();
    for case in Case::all(&path) {
        let _ = writeln!(text, "=== {}", case.heading);
        match case.read() {
            Ok(profile) => {
                assert_sound(&profile);
                text += &describe(&profile);
            }
            Err(error) => {
                let _ = writeln!(text, "error: {error}");
            }
        }
    }
    assert_snapshot(&path, &text);
}

/// Compares with the file of this name in `snapshots` beside `path`.
fn assert_snapshot(path: &Path, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(path.parent().unwrap().join("snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let name = path.file_name().unwrap().to_string_lossy();
    settings.bind(|| insta::assert_snapshot!(name.trim_end_matches(".txt"), text));
}

/// What the real tools wrote.
#[rstest]
fn fixtures(
    #[files("tests/fixtures/*.[cjt]*")]
    #[files("tests/fixtures/tools/*.*")]
    path: PathBuf,
) {
    let steps = crate::InputSource::new(&path)
        .unwrap()
        .open(None, &ReadOptions::default())
        .unwrap();
    assert_snapshot(&path, &describe(&Profile::collect(steps).unwrap()));
}

/// The longest text of a format that can be read, damaged.
#[rstest]
fn damage_is_answered(#[files("tests/cases/*.txt")] path: PathBuf) {
    let cases = Case::all(&path).into_iter();
    let good = cases.filter(|case| case.read().is_ok());
    let longest = good.max_by_key(|case| case.text.len()).unwrap();
    let format = longest.read().unwrap().header.format;
    assert_damage_is_answered(longest.text, format);
}

/// A JSON document that ends in the middle is refused, wherever that is.
#[rstest]
fn a_cut_document_is_refused(#[values("mpstat-json", "pcp2json", "sadf-json")] name: &str) {
    let path = format!("{}/tests/cases/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let cases = Case::all(Path::new(&path)).into_iter();
    let good = cases.map(|case| case.text).find(|text| {
        let whole = read_as(text.as_bytes(), None);
        whole.is_ok_and(|p| p.header.format.name() == name)
    });
    let good = good.unwrap();
    // Before the document may stand others, which are notes of the tool.
    let begin = good.rfind("\n{\"@pcp").map_or(0, |at| at + 1);
    for cut in begin + 2..good.trim_end().len() {
        let error = read_as(&good.as_bytes()[..cut], name.parse().ok()).unwrap_err();
        assert!(error.to_string().contains("cut short"), "{cut}: {error}");
    }
}

/// Of a packed file that is still being written, or whose writer was killed, what is whole
/// is read where a text without its end is.
#[rstest]
#[case("collectl-raw", ">>> 1795283934.001 <<<\ncpu0 0 0 0 0\n>>> 1795283935.001 <<<\ncpu0 50 0 0 50\n\
        >>> 1795283936.001 <<<\ncpu0 60 0 0 140\n>>> 17952", &[1, 2])]
#[case("native", "# interval: 1\ntime,cpu0\n0,50\n1,20\n2,3", &[1, 2])]
#[case("native", "time,cpu0\n0,50\n1,20\n", &[])]
#[case("sadf-json", "{\"sysstat\": {\"hosts\": [", &[])]
fn a_packed_file_without_end(#[case] name: &str, #[case] text: &str, #[case] ends_s: &[u64]) {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    gz.flush().unwrap();
    let read = read_as(gz.get_ref(), name.parse().ok());
    let Ok(p) = read else {
        assert_eq!(ends_s, [0; 0]);
        let error = read.unwrap_err().to_string();
        assert!(error.contains("packed (gzip) and has no end"), "{error}");
        return;
    };
    let ends: Vec<u64> = p
        .steps
        .iter()
        .map(|step| step.end_ns / 1_000_000_000)
        .collect();
    assert_eq!(ends, ends_s);
    // A recorder's own file says itself that its end is missing.
    let told = p.warnings.join("; ");
    let expected = match name {
        "native" => "the recording has no end row (it was cut off)",
        _ => "the file is packed (gzip) and has no end",
    };
    assert!(told.contains(expected), "{told}");
}
