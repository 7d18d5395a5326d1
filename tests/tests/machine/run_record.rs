// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is read of run.json here: as any other program would, by its names.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::Value;

/// Describes every field.
const PAGE: &str = include_str!("../../../docs/reference/run-json.md");
/// Describes what `status` and `slow list` print.
pub const FIELDS: &str = include_str!("../../../docs/reference/status-json.md");

#[derive(Debug, Deserialize)]
pub struct RunRecord {
    pub length_s: f64,
    pub paused_s: f64,
    pub load_began_s: Option<f64>,
    pub verdict: String,
    pub reason: String,
    pub warnings: Vec<String>,
    pub cpus: Vec<CpuRecord>,
    pub command: Option<CommandRecord>,
}

#[derive(Debug, Deserialize)]
pub struct CpuRecord {
    pub cpu: u32,
    pub asked_pct: f64,
    pub got_pct: f64,
    pub holes: u64,
}

#[derive(Debug, Deserialize)]
pub struct CommandRecord {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub wall_s: f64,
    pub used_s: Option<f64>,
    pub available_s: Option<f64>,
    pub efficiency: Option<f64>,
    pub migrations: Option<u64>,
    pub migrations_of: Option<String>,
}

/// Fails if the page does not name a field of one of these objects.
pub fn are_described(objects: &[&Value], page: &str) -> anyhow::Result<()> {
    let objects = objects.iter().filter_map(|object| object.as_object());
    for field in objects.flat_map(|fields| fields.keys()) {
        let named = page.contains(&format!("`{field}`"));
        ensure!(named, "the reference does not have {field}");
    }
    Ok(())
}

impl CpuRecord {
    /// Fails, as a figure, if it got a load that is too far from this one.
    pub fn expect_near(&self, pct: f64, points: f64) -> anyhow::Result<()> {
        figure!((self.got_pct - pct).abs() < points, "{pct} %: {self:?}");
        Ok(())
    }
}

impl RunRecord {
    /// What is recorded of the command.
    pub fn command(&self) -> anyhow::Result<&CommandRecord> {
        self.command.as_ref().context("no command")
    }

    /// Of a run directory.
    pub fn read(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join("run.json");
        let run: Value = serde_json::from_slice(&fs::read(&path)?)
            .with_context(|| path.display().to_string())?;
        are_described(&[&run, &run["cpus"][0], &run["command"]], PAGE)?;
        Ok(serde_json::from_value(run)?)
    }

    /// Whether a warning has these words.
    pub fn warns(&self, words: &str) -> bool {
        self.warnings.iter().any(|warning| warning.contains(words))
    }
}
