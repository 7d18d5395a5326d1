// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long reading a profile takes, against `wc -l` on the same file:
//!
//!     cargo run --release -p sandbag-profile --example import_speed -- FILE...
//!
//! Ten pairs, interleaved, after one of each that fills the page cache. Both
//! are whole processes (this program runs itself), so both pay for starting.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use sandbag_profile::{ReadOptions, open, summarise};

const PAIRS: usize = 10;

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

fn compare(file: &str) -> std::io::Result<()> {
    let this = std::env::current_exe()?;
    let wc = || seconds(Path::new("wc"), &["-l", file]);
    let read = || seconds(&this, &["--read", file]);
    wc()?;
    read()?;
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        pairs.push((read()?, wc()?));
    }
    let mut ratios: Vec<f64> = pairs.iter().map(|(read, wc)| read / wc).collect();
    ratios.sort_by(f64::total_cmp);
    let megabytes = std::fs::metadata(file)?.len() as f64 / 1e6;
    let best = pairs.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    println!(
        "{file}: {megabytes:.1} MB, {:.0} MB/s; over `wc -l`: median {:.1}, least {:.1}, most {:.1}",
        megabytes / best,
        (ratios[PAIRS / 2 - 1] + ratios[PAIRS / 2]) / 2.0,
        ratios[0],
        ratios[PAIRS - 1]
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match &arguments[..] {
        [flag, file] if flag == "--read" => open(Path::new(file), None, &ReadOptions::default())
            .and_then(|mut steps| summarise(&mut steps))
            .map(drop)
            .map_err(|e| e.to_string()),
        files => files
            .iter()
            .try_for_each(|file| compare(file).map_err(|e| e.to_string())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
