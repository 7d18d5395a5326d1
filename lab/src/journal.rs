// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file that keeps the rows of an experiment, so that one which was
//! stopped goes on where it was.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::trial::Trial;
use crate::whole_file::put;

/// What rows must have in common to stand in one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    pub experiment: String,
    /// Whether the short form.
    pub quick: bool,
    /// Version of sandbag.
    pub sandbag: String,
    /// CPU, kernel and memory of the machine, in words.
    pub machine: String,
    /// CPUs that are used.
    pub cpus: String,
    /// What one program may take, seconds.
    pub limit_s: f64,
    /// The C project to compile, where one was named.
    pub sources: Option<PathBuf>,
    /// Options that change what a row is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// Seed of the order of the cells.
    pub seed: u64,
}

/// The rows of an experiment, kept in a file of one JSON document per line,
/// the terms first.
#[derive(Debug)]
pub struct Rows<R> {
    path: PathBuf,
    file: File,
    terms: Terms,
    rows: Vec<R>,
}

impl<R: Trial> Rows<R> {
    /// Opens the file, or makes it. A last line that is cut is what a killed
    /// run left; it is dropped.
    ///
    /// # Errors
    /// The file holds rows under other terms, or cannot be read or written.
    pub fn open(path: &Path, terms: Terms) -> Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let whole = whole(&text);
        let (found, mut rows) = parse::<R>(path, whole)?;
        let terms = match found {
            Some(found) => {
                // The order of what is left to do is that of the beginning.
                let wanted = Terms {
                    seed: found.seed,
                    ..terms
                };
                if found != wanted {
                    bail!(
                        "{} was begun under other terms ({}); now: {}. Begin again with --fresh, or \
                         choose another directory with --out",
                        path.display(),
                        serde_json::to_string(&found)?,
                        serde_json::to_string(&wanted)?
                    );
                }
                found
            }
            None => terms,
        };
        let again: Vec<R> = rows.extract_if(.., |row| row.is_measured_again()).collect();
        if whole.len() < text.len() || whole.is_empty() || !again.is_empty() {
            // Written anew: what was cut short must not stay in the middle.
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

    /// The terms, those of the file's beginning.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// All rows.
    #[must_use]
    pub fn rows(&self) -> &[R] {
        &self.rows
    }

    /// Cells and rounds that are done.
    #[must_use]
    pub fn done(&self) -> BTreeSet<(String, u32)> {
        self.rows
            .iter()
            .map(|row| (row.cell().to_owned(), row.round()))
            .collect()
    }

    /// Adds the rows of one trial, all or none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push(&mut self, rows: Vec<R>) -> Result<()> {
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

/// What a file holds, read and not changed; a last line that is cut is left
/// out. `None` if there is no file, or nothing in it.
///
/// # Errors
/// It cannot be read, or holds something else.
pub fn read<R: Trial>(path: &Path) -> Result<Option<(Terms, Vec<R>)>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let (terms, rows) = parse(path, whole(&text))?;
    Ok(terms.map(|terms| (terms, rows)))
}

fn lines<R: Trial>(rows: &[R]) -> Result<String> {
    let mut text = String::new();
    for row in rows {
        text += &serde_json::to_string(row)?;
        text.push('\n');
    }
    Ok(text)
}

/// Without a last line that is cut.
fn whole(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

fn parse<R: Trial>(path: &Path, text: &str) -> Result<(Option<Terms>, Vec<R>)> {
    let place = |n: usize| format!("{}, line {n}", path.display());
    let mut lines = text.lines();
    let terms = match lines.next() {
        Some(line) => Some(serde_json::from_str(line).with_context(|| place(1))?),
        None => None,
    };
    let rows = lines
        .enumerate()
        .map(|(n, line)| serde_json::from_str(line).with_context(|| place(n + 2)))
        .collect::<Result<Vec<R>>>()?;
    Ok((terms, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::PairRow;
    use crate::row::tests::row;

    fn terms() -> Terms {
        Terms {
            experiment: "micro".to_owned(),
            quick: true,
            sandbag: "0.1.0".to_owned(),
            machine: "two CPUs".to_owned(),
            cpus: "0-1".to_owned(),
            limit_s: 600.0,
            sources: None,
            options: String::new(),
            seed: 1,
        }
    }

    #[test]
    fn an_experiment_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        let mut rows = Rows::open(&path, terms()).unwrap();
        rows.push(vec![row(0, 1.0, 2.0), row(1, 1.0, 2.0)]).unwrap();
        drop(rows);
        // Killed in the middle of a line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        write!(file, "{{\"cell\":\"b\",\"rou").unwrap();
        let again = Terms { seed: 2, ..terms() };
        let mut rows = Rows::open(&path, again).unwrap();
        assert_eq!(rows.rows().len(), 2);
        assert_eq!(rows.terms().seed, 1, "the seed is the beginning's");
        assert!(rows.done().contains(&("a".to_owned(), 1)));
        rows.push(vec![row(2, 1.0, 2.5)]).unwrap();
        let again: Rows<PairRow> = Rows::open(&path, terms()).unwrap();
        assert_eq!(again.rows(), rows.rows());
    }

    #[test]
    fn rows_of_another_machine_are_not_mixed_in() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        Rows::<PairRow>::open(&path, terms()).unwrap();
        let other = Terms {
            machine: "four CPUs".to_owned(),
            ..terms()
        };
        let error = Rows::<PairRow>::open(&path, other).unwrap_err().to_string();
        assert!(
            error.contains("four CPUs") && error.contains("--fresh"),
            "{error}"
        );
        fs::write(&path, "rubbish\n").unwrap();
        let error = Rows::<PairRow>::open(&path, terms()).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }

    #[test]
    fn reading_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        assert!(read::<PairRow>(&path).unwrap().is_none());
        let mut rows = Rows::open(&path, terms()).unwrap();
        rows.push(vec![row(0, 1.0, 2.0)]).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        write!(file, "{{\"cell\":").unwrap();
        let before = fs::read(&path).unwrap();
        let (found, rows) = read::<PairRow>(&path).unwrap().unwrap();
        assert_eq!((found, rows.len()), (terms(), 1));
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
