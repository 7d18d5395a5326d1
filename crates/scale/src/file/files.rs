// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Output files of the benchmark.

use std::io::{self, Write};
use std::path::PathBuf;

use sandbag_input::{Existing, NewFile};
use sandbag_ui::BadInput;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::output::{give_to_caller, print};
use serde_json::Value;

use super::BenchOptions;
use crate::bench::BenchTimes;

/// The files, created before anything is measured: a name that cannot be written fails at once.
#[derive(Debug)]
pub struct Files {
    /// For all phases of all ranks.
    rows: Option<(PathBuf, NewFile)>,
    json: Json,
}

#[derive(Debug)]
enum Json {
    Nowhere,
    /// In place of the text.
    OnStdout,
    To(PathBuf, NewFile),
}

impl Files {
    /// Creates the files that the options name.
    pub fn create(options: &BenchOptions) -> Result<Self> {
        if options
            .output
            .as_ref()
            .is_some_and(|path| path.as_os_str() == "-")
        {
            let text = "--output -: standard output is for the figures: name a file";
            return Err(BadInput(text.to_owned()).into());
        }
        let create = |path: &PathBuf| -> Result<(PathBuf, NewFile)> {
            let file = NewFile::create(path, Existing::by_force(options.force));
            Ok((
                path.clone(),
                file.with_context(|| path.display().to_string())?,
            ))
        };
        Ok(Self {
            rows: options.output.as_ref().map(create).transpose()?,
            json: match &options.json {
                None => Json::Nowhere,
                Some(path) if path.as_os_str() == "-" => Json::OnStdout,
                Some(path) => {
                    let (path, file) = create(path)?;
                    Json::To(path, file)
                }
            },
        })
    }

    /// Writes all of them even if one fails; the error is that of the first.
    pub fn write(self, text: &str, figures: &Value, measured: &BenchTimes) -> Result<()> {
        let json = serde_json::to_string_pretty(figures)? + "\n";
        let shown = match self.json {
            Json::Nowhere => print(text).map_err(Into::into),
            Json::OnStdout => print(&json).map_err(Into::into),
            Json::To(path, mut file) => {
                let printed = print(text).map_err(Into::into);
                let written = file.write_all(json.as_bytes());
                let written = written.and_then(|()| file.finish());
                give_to_caller(&path);
                printed.and(written.with_context(|| path.display().to_string()))
            }
        };
        let kept = self.rows.map_or(Ok(()), |(path, file)| {
            let packed = path.extension().is_some_and(|ending| ending == "zst");
            let written = write_phases(file, packed, measured);
            give_to_caller(&path);
            written.with_context(|| path.display().to_string())
        });
        shown.and(kept)
    }
}

fn write_phases(mut file: NewFile, packed: bool, measured: &BenchTimes) -> io::Result<()> {
    let mut out = io::BufWriter::new(&mut file);
    if packed {
        let mut packed = zstd::Encoder::new(&mut out, 3)?;
        write_rows(&mut packed, measured)?;
        packed.finish()?;
    } else {
        write_rows(&mut out, measured)?;
    }
    out.flush()?;
    drop(out);
    file.finish()
}

fn write_rows(out: &mut impl Write, measured: &BenchTimes) -> io::Result<()> {
    let ranks = (measured.ranks as usize).max(1);
    writeln!(out, "segment,jitter,phase,rank,qt_ns,bt_ns")?;
    for (number, segment) in measured.segments.iter().enumerate() {
        let jitter = u8::from(segment.jitter);
        for (at, qt_ns) in segment.qt_ns.iter().enumerate() {
            let bt_ns = segment.bt_ns.get(at).unwrap_or(&0);
            let (phase, rank) = (at / ranks, at % ranks);
            writeln!(out, "{number},{jitter},{phase},{rank},{qt_ns},{bt_ns}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::fixture::bench_times;

    #[test]
    fn a_row_for_each_phase_of_each_rank() {
        let measured = bench_times(
            1,
            [
                (false, vec![1, 2, 3, 4], vec![5, 6, 7, 8]),
                (true, vec![9, 10], Vec::new()),
            ],
        );
        let dir = tempfile::tempdir().unwrap();
        let written = |name, packed| {
            let path = dir.path().join(name);
            let file = NewFile::create(&path, Existing::Replace).unwrap();
            write_phases(file, packed, &measured).unwrap();
            std::fs::read(path).unwrap()
        };
        let plain = written("rows.csv", false);
        let packed = written("rows.csv.zst", true);
        assert_eq!(zstd::decode_all(&packed[..]).unwrap(), plain);
        assert_eq!(
            String::from_utf8(plain).unwrap(),
            "segment,jitter,phase,rank,qt_ns,bt_ns\n0,0,0,0,1,5\n0,0,0,1,2,6\n0,0,1,0,3,7\n\
             0,0,1,1,4,8\n1,1,0,0,9,0\n1,1,0,1,10,0\n"
        );
    }
}
