// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long reading a profile takes, against `wc -l` on the same file:
//!
//!     cargo run --release -p sandbag-profile --example import_speed
//!     cargo run --release -p sandbag-profile --example import_speed -- FILE...
//!
//! Without a file it writes one of some 200 MB of each format into a
//! temporary folder (`TMPDIR` says where) and removes it afterwards.
//!
//! Per file ten rounds after one that fills the page cache, each of `wc -l`,
//! of reading the profile to its end (both passes, and the summary), and of a
//! whole conversion to native as `sandbag convert` does it. All are whole
//! processes (this program runs itself), so all pay for starting. The ratios
//! are made within a round; their median is told, and the least and the most.

#[path = "import_speed/recording.rs"]
mod recording;

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use sandbag_profile::{Format, ReadOptions, Result, Source, export, summarise};

const ROUNDS: usize = 10;
const BYTES: u64 = 200_000_000;

fn seconds(program: &Path, arguments: &[&str]) -> std::io::Result<f64> {
    let begin = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .status()?;
    if status.success() {
        Ok(begin.elapsed().as_secs_f64())
    } else {
        Err(std::io::Error::other(format!("{program:?}: {status}")))
    }
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let median = (values[(n - 1) / 2] + values[n / 2]) / 2.0;
    (median, values[0], values[n - 1])
}

fn compare(name: &str, file: &str) -> std::io::Result<()> {
    let this = std::env::current_exe()?;
    let round = || -> std::io::Result<[f64; 3]> {
        Ok([
            seconds(Path::new("wc"), &["-l", file])?,
            seconds(&this, &["--read", file])?,
            seconds(&this, &["--convert", file])?,
        ])
    };
    round()?;
    let rounds: Vec<[f64; 3]> = (0..ROUNDS).map(|_| round()).collect::<Result<_, _>>()?;
    let megabytes = std::fs::metadata(file)?.len() as f64 / 1e6;
    let speed = |i: usize| megabytes / median(rounds.iter().map(|r| r[i]).collect()).0;
    let ratio = |i: usize| {
        let (median, least, most) = median(rounds.iter().map(|r| r[i] / r[0]).collect());
        format!("{median:5.1} ({least:.1} to {most:.1})")
    };
    println!(
        "{name:<12} {megabytes:5.0} MB  wc -l {:5.0} MB/s  read {:5.0} MB/s {:<20}  convert {:5.0} MB/s {}",
        speed(0),
        speed(1),
        ratio(1),
        speed(2),
        ratio(2),
    );
    Ok(())
}

fn read(file: &str) -> Result<Source> {
    let source = Source::new(Path::new(file))?;
    summarise(&mut source.open(None, &ReadOptions::default())?)?;
    Ok(source)
}

fn convert(file: &str) -> Result<()> {
    let mut steps = read(file)?.open(None, &ReadOptions::default())?;
    let mut out = File::create("/dev/null").map_err(sandbag_profile::Fault::Io)?;
    export(&mut steps, Format::Native, &mut out).map(drop)
}

fn every_format() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    for format in recording::FORMATS {
        let path = folder.path().join(format.to_string());
        recording::write(format, &path, BYTES)?;
        compare(&format.to_string(), &path.to_string_lossy())?;
        std::fs::remove_file(&path)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |e: std::io::Error| e.to_string();
    let result = match &arguments[..] {
        [] => every_format().map_err(text),
        [flag, file] if flag == "--read" => read(file).map(drop).map_err(|e| e.to_string()),
        [flag, file] if flag == "--convert" => convert(file).map_err(|e| e.to_string()),
        files => files
            .iter()
            .try_for_each(|file| compare(file, file).map_err(text)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
