// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The run directory; each of its files is there whole or not at all.

pub use sandbag_ui::output::{NODES_JSON, RUN_JSON};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sandbag_run::directory::{ACHIEVED_CSV, FORMAT, REPORT_HTML};
use sandbag_run::failure::RunFailure;
use serde::Serialize;
use serde_json::Value;

use crate::report::nodes::{self, NodeRows};
use crate::report::run::Run;
use crate::report::{Error, html};

/// Writes `run.json`, then `report.html` from it and the `achieved.csv`
/// beside it, into the existing directory `dir`.
/// [`Error::Write`] for the first file that cannot be written; `run.json`
/// comes first because it cannot be had again.
pub fn write_run(dir: &Path, run: &Run) -> Result<(), Error> {
    write_json(&dir.join(RUN_JSON), run)?;
    let page = html::render(run, &dir.join(ACHIEVED_CSV));
    replace(&dir.join(REPORT_HTML), page.as_bytes())
}

/// Writes `nodes.json` and `report.html` for nodes that ran together, which come from
/// `runs`; their own records are in directories of their names.
pub fn write_nodes(dir: &Path, nodes: &NodeRows, runs: &[Run]) -> Result<(), Error> {
    write_json(&dir.join(NODES_JSON), nodes)?;
    let page = html::render_nodes(nodes, runs, dir);
    replace(&dir.join(REPORT_HTML), page.as_bytes())
}

/// Reads a `nodes.json`, given itself or its directory.
pub fn read_nodes(path: &Path) -> Result<NodeRows, Error> {
    let path = path_in(path, NODES_JSON);
    let (text, _) = read_record(&path, nodes::FORMAT)?;
    serde_json::from_str(&text).map_err(|cause| Error::Json { path, cause })
}

pub fn read_run(path: &Path) -> Result<Run, Error> {
    let path = path_in(path, RUN_JSON);
    let (text, value) = read_record(&path, FORMAT)?;
    if let Ok(failure) = serde_json::from_value::<RunFailure>(value) {
        return Err(Error::Failed {
            path,
            message: failure.error.message,
        });
    }
    serde_json::from_str(&text).map_err(|cause| Error::Json { path, cause })
}

fn path_in(path: &Path, name: &str) -> PathBuf {
    if path.is_dir() {
        path.join(name)
    } else {
        path.to_owned()
    }
}

/// The text of a record, and what it holds, if its format can be read.
fn read_record(path: &Path, known: u32) -> Result<(String, Value), Error> {
    let text = fs::read_to_string(path).map_err(|cause| Error::Read {
        path: path.to_owned(),
        cause,
    })?;
    let value = serde_json::from_str(&text).map_err(|cause| Error::Json {
        path: path.to_owned(),
        cause,
    })?;
    check_readable(path, &value, known)?;
    Ok((text, value))
}

/// Whether the record says its format, which is not newer than `known`.
fn check_readable(path: &Path, record: &Value, known: u32) -> Result<(), Error> {
    let found = record
        .get("format")
        .and_then(Value::as_u64)
        .filter(|f| *f > 0)
        .ok_or_else(|| Error::NoFormat {
            path: path.to_owned(),
        })?;
    if found <= u64::from(known) {
        return Ok(());
    }
    Err(Error::NewerFormat {
        path: path.to_owned(),
        found,
        known,
        writer: record
            .get("sandbag")
            .and_then(Value::as_str)
            .unwrap_or("version unknown")
            .to_owned(),
    })
}

fn write_json(path: &Path, record: &impl Serialize) -> Result<(), Error> {
    let mut json = serde_json::to_vec_pretty(record).map_err(|cause| Error::Json {
        path: path.to_owned(),
        cause,
    })?;
    json.push(b'\n');
    replace(path, &json)
}

/// Puts `content` at `path` by a rename, so that a reader, or a machine that
/// stops, sees the old file or the new one and never half of either.
fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
    let error = |cause| Error::write(path, cause);
    let dir: PathBuf = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".sandbag-")
        // As an ordinary file: the umask takes its share.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
        .map_err(error)?;
    file.write_all(content).map_err(error)?;
    file.as_file().sync_all().map_err(error)?;
    file.persist(path).map_err(|e| error(e.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use sandbag_run::directory::create;

    use super::*;
    use crate::report::fixture;

    fn rewritten(change: impl FnOnce(&mut Value)) -> Result<Run, Error> {
        let mut value = serde_json::to_value(fixture::quiet().run).unwrap();
        change(&mut value);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(RUN_JSON), value.to_string()).unwrap();
        read_run(dir.path())
    }

    #[test]
    fn what_is_written_replaces_the_old_record_and_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let run = fixture::quiet().run;
        fs::write(dir.path().join(RUN_JSON), "old").unwrap();
        write_run(dir.path(), &run).unwrap();
        for path in [dir.path().to_owned(), dir.path().join(RUN_JSON)] {
            let back = read_run(&path).unwrap();
            assert_eq!(
                serde_json::to_value(&back).unwrap(),
                serde_json::to_value(&run).unwrap()
            );
        }
        // No temporary file is left.
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn nodes_are_written_beside_their_directories_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let runs: Vec<Run> = fixture::nodes().into_iter().map(|f| f.run).collect();
        let nodes = NodeRows::of(&runs).with_lost([("gone", "hogs")]);
        write_nodes(dir.path(), &nodes, &runs).unwrap();
        assert_eq!(read_nodes(dir.path()).unwrap(), nodes);
        assert!(dir.path().join(REPORT_HTML).exists());
        let path = dir.path().join(NODES_JSON);
        fs::write(&path, r#"{"format": 9}"#).unwrap();
        let error = read_nodes(&path).unwrap_err();
        assert!(matches!(error, Error::NewerFormat { found: 9, .. }));
    }

    #[test]
    fn older_and_newer_fields_are_read_and_what_is_missing_is_named() {
        let old = rewritten(|v| {
            v.as_object_mut().unwrap().remove("node");
        });
        assert_eq!(old.unwrap().node, None);
        let new = rewritten(|v| {
            v["node"] = serde_json::json!({"name": "a", "later": 1});
            v["colour"] = "blue".into();
        });
        assert_eq!(new.unwrap().node.unwrap().name, "a");
        for (field, value, part) in [
            ("verdict", Value::Null, "verdict"),
            ("format", Value::Null, "no format number"),
            ("format", 0.into(), "no format number"),
            (
                "format",
                (FORMAT + 1).into(),
                "format 2, this sandbag reads up to 1",
            ),
            ("format", (FORMAT + 1).into(), "(9.1.0)"),
        ] {
            let error = rewritten(|v| {
                v["sandbag"] = "9.1.0".into();
                v[field] = value;
                if v[field].is_null() {
                    v.as_object_mut().unwrap().remove(field);
                }
            });
            let error = error.unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_run_that_failed_says_why() {
        let dir = tempfile::tempdir().unwrap();
        write_run(dir.path(), &fixture::quiet().run).unwrap();
        let failure = RunFailure {
            format: FORMAT,
            sandbag: "0.1.0".to_owned(),
            failed_at: String::new(),
            arguments: Vec::new(),
            error: sandbag_run::failure::Reason {
                kind: "failed".to_owned(),
                message: "the disk is on fire".to_owned(),
                remedy: None,
                exit_code_alone: 1,
            },
        };
        sandbag_run::failure::write(dir.path(), &failure).unwrap();
        let error = read_run(dir.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("the run failed: the disk is on fire"),
            "{error}"
        );
        assert!(!dir.path().join(REPORT_HTML).exists());
    }

    #[test]
    fn truncated_json_is_named_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RUN_JSON);
        write_run(dir.path(), &fixture::quiet().run).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = read_run(&path).unwrap_err().to_string();
        assert!(error.contains("line"), "{error}");
    }

    #[test]
    fn a_file_of_a_run_is_never_written_through_a_link_or_into_a_fifo() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(ACHIEVED_CSV);
        let other = dir.path().join("other");
        fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        create(&path).unwrap().write_all(b"1").unwrap();
        fs::remove_file(&path).unwrap();
        fs::hard_link(&other, &path).unwrap();
        create(&path).unwrap().write_all(b"2").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        // Reading from one waits for a writer.
        assert!(crate::report::achieved::read_achieved(&path).is_err());
        create(&path).unwrap().write_all(b"3").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "3");
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mknod")
            .arg(&path)
            .args(["c", "1", "3"])
            .output();
        // Only root may.
        if made.unwrap().status.success() {
            create(&path).unwrap_err();
            assert!(path.exists(), "the device was removed");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = write_run(Path::new("/nonexistent/run"), &fixture::quiet().run).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/run"), "{error}");
        assert!(matches!(
            read_run(Path::new("/nonexistent/run.json")),
            Err(Error::Read { .. })
        ));
    }
}
