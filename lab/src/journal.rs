// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file that keeps the rows of an experiment, so that one which was stopped
//! resumes where it was.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use sandbag_linux::{Root, machine};
use serde::{Deserialize, Serialize};

use crate::row::Row;

pub fn facts() -> Vec<(String, String)> {
    let facts = machine::describe(&Root::default()).into_iter();
    facts.map(|(name, fact)| (name.to_owned(), fact)).collect()
}

/// What rows must have in common to be in one table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    pub experiment: String,
    pub quick: bool,
    pub sandbag: String,
    /// CPU, kernel and memory of the machine, in words.
    pub machine: String,
    pub cpus: String,
    /// What one program may take, seconds.
    pub limit_s: f64,
    pub sources: Option<PathBuf>,
    /// Options that change what a row is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
    pub seed: u64,
}

impl Terms {
    /// On this machine, by this build of sandbag and of the lab.
    pub fn here(experiment: &str, quick: bool, cpus: String, sandbag: &Path) -> Self {
        let mut hash = DefaultHasher::new();
        // One that is not there fails when it is started.
        hash.write(&fs::read(sandbag).unwrap_or_default());
        hash.write(&fs::read("/proc/self/exe").unwrap_or_default());
        Self {
            experiment: experiment.to_owned(),
            quick,
            sandbag: format!("{} {:016x}", env!("CARGO_PKG_VERSION"), hash.finish()),
            machine: machine::lasting(&facts()),
            cpus,
            ..Self::default()
        }
    }
}

/// The rows of an experiment, kept in a file of one JSON document per line,
/// the terms first.
#[derive(Debug)]
pub struct Rows {
    path: PathBuf,
    file: File,
    pub terms: Terms,
    pub rows: Vec<Row>,
}

impl Rows {
    /// Opens the file, or makes it. A last line that is cut off is what a killed
    /// run left; it is dropped. With `retry`, so are trials that failed. Rows under
    /// other terms are an error.
    pub fn open(path: &Path, terms: Terms, retry: bool) -> Result<Self> {
        let text = text(path)?.unwrap_or_default();
        let whole = whole(&text);
        let (found, mut rows) = parse(path, whole)?;
        let terms = match found {
            Some(found) => {
                // The order of what is left to do is that of the beginning.
                let wanted = Terms {
                    seed: found.seed,
                    ..terms
                };
                if found != wanted && !rows.is_empty() {
                    bail!(
                        "{} was begun under other terms ({}); now: {}. Begin again with --fresh, or \
                         choose another directory with --out",
                        path.display(),
                        serde_json::to_string(&found)?,
                        serde_json::to_string(&wanted)?
                    );
                }
                if rows.is_empty() { wanted } else { found }
            }
            None => terms,
        };
        let before = rows.len();
        rows.retain(|row| !retry || row.why_failed().is_none());
        if whole.len() < text.len() || rows.is_empty() || rows.len() < before {
            // Written anew: what was cut off must not stay in the middle.
            let text = serde_json::to_string(&terms)? + "\n" + &lines(&rows)?;
            put(path, text.as_bytes())?;
        }
        let file = OpenOptions::new()
            .append(true)
            .open(path)
            .with_context(|| path.display().to_string())?;
        Ok(Self {
            path: path.to_owned(),
            file,
            terms,
            rows,
        })
    }

    /// Adds the rows of one trial, all or none.
    pub fn push(&mut self, rows: Vec<Row>) -> Result<()> {
        let text = lines(&rows)?;
        let before = self.file.metadata().map(|meta| meta.len());
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // Half of a trial would be taken for all of it.
            if let Ok(length) = before {
                let _ = self.file.set_len(length);
            }
            return Err(error).with_context(|| self.path.display().to_string());
        }
        self.rows.extend(rows);
        Ok(())
    }
}

/// What a file holds, without a last line that is cut off. `None` if there is no file,
/// or nothing in it.
pub fn read(path: &Path) -> Result<Option<(Terms, Vec<Row>)>> {
    let text = text(path)?.unwrap_or_default();
    let (terms, rows) = parse(path, whole(&text))?;
    Ok(terms.map(|terms| (terms, rows)))
}

/// The text of a file; `None` if there is none.
pub fn text(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Writes a file in one step, so that it is never cut off.
pub fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| path.display().to_string())
}

fn lines(rows: &[Row]) -> Result<String> {
    let lines = rows
        .iter()
        .map(|row| Ok(serde_json::to_string(row)? + "\n"));
    lines.collect()
}

/// Without a last line that is cut off.
fn whole(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

fn parse(path: &Path, text: &str) -> Result<(Option<Terms>, Vec<Row>)> {
    let place = |n: usize| format!("{}, line {n}", path.display());
    let mut lines = text.lines();
    let terms = lines.next().map(serde_json::from_str).transpose();
    let terms = terms.with_context(|| place(1))?;
    let rows = lines
        .enumerate()
        .map(|(n, line)| serde_json::from_str(line).with_context(|| place(n + 2)))
        .collect::<Result<_>>()?;
    Ok((terms, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    fn terms() -> Terms {
        Terms {
            experiment: "micro".to_owned(),
            quick: true,
            machine: "two CPUs".to_owned(),
            seed: 1,
            ..Terms::default()
        }
    }

    #[test]
    fn an_experiment_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        let mut rows = Rows::open(&path, terms(), false).unwrap();
        rows.push(vec![row(0, 1.0, 2.0), row(1, 1.0, 2.0)]).unwrap();
        drop(rows);
        // Killed while it wrote a line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        write!(file, "{{\"cell\":\"b\",\"rou").unwrap();
        let again = Terms { seed: 2, ..terms() };
        let mut rows = Rows::open(&path, again, false).unwrap();
        assert_eq!(rows.rows.len(), 2);
        assert_eq!(rows.terms.seed, 1, "the seed is the beginning's");
        assert_eq!((rows.rows[1].cell.as_str(), rows.rows[1].round), ("a", 1));
        rows.push(vec![row(2, 1.0, 2.5)]).unwrap();
        let again = Rows::open(&path, terms(), false).unwrap();
        assert_eq!(again.rows, rows.rows);
    }

    #[test]
    fn rows_of_another_machine_are_not_mixed_in() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        Rows::open(&path, terms(), false).unwrap();
        let other = Terms {
            machine: "four CPUs".to_owned(),
            ..terms()
        };
        // As long as there are none, they are those of the last beginning.
        let begun = Rows::open(&path, other.clone(), false).unwrap();
        assert_eq!(begun.terms.machine, "four CPUs");
        let mut rows = Rows::open(&path, terms(), false).unwrap();
        rows.push(vec![row(0, 1.0, 2.0)]).unwrap();
        let error = Rows::open(&path, other, false).unwrap_err().to_string();
        assert!(
            error.contains("four CPUs") && error.contains("--fresh"),
            "{error}"
        );
        fs::write(&path, "rubbish\n").unwrap();
        let error = Rows::open(&path, terms(), false).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }

    #[test]
    fn reading_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        assert!(read(&path).unwrap().is_none());
        let mut rows = Rows::open(&path, terms(), false).unwrap();
        rows.push(vec![row(0, 1.0, 2.0)]).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        write!(file, "{{\"cell\":").unwrap();
        let before = fs::read(&path).unwrap();
        let (found, rows) = read(&path).unwrap().unwrap();
        assert_eq!((found, rows.len()), (terms(), 1));
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
