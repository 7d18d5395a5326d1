// SPDX-License-Identifier: Apache-2.0 OR MIT
//! mpstat of the sysstat package, as the tool from outside.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;

#[derive(Debug)]
pub struct Mpstat(Child);

impl Mpstat {
    pub fn start(seconds: u32) -> Result<Self> {
        Command::new("mpstat")
            .args(["-P", "ALL", "-o", "JSON", &seconds.to_string(), "1"])
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
            .context("start mpstat (package sysstat)")
    }

    pub fn finish(self) -> Result<BTreeMap<u32, f64>> {
        let output = self.0.wait_with_output().context("wait for mpstat")?;
        parse(&String::from_utf8_lossy(&output.stdout))
    }
}

fn parse(text: &str) -> Result<BTreeMap<u32, f64>> {
    let document: Value = serde_json::from_str(text).context("parse the output of mpstat")?;
    let samples = document["sysstat"]["hosts"][0]["statistics"].as_array();
    let sample = samples.and_then(|all| all.last());
    let cpus = sample.and_then(|sample| sample["cpu-load"].as_array());
    let busy = |cpu: &Value| {
        let pct = |name: &str| cpu[name].as_f64();
        let delivered = 100.0 - pct("steal")?;
        let busy = 100.0 * (1.0 - (pct("idle")? + pct("iowait")?) / delivered);
        Some((cpu["cpu"].as_str()?.parse().ok()?, busy))
    };
    let cpus = cpus.context("mpstat gave no sample")?;
    Ok(cpus.iter().filter_map(busy).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_a_share_of_the_delivered_time() {
        let text = r#"{"sysstat": {"hosts": [{"nodename": "vm", "statistics": [{
            "timestamp": "02:51:06", "cpu-load": [
            {"cpu": "all", "usr": 0.76, "iowait": 0.00, "steal": 0.00, "idle": 99.24},
            {"cpu": "0", "usr": 40.0, "iowait": 10.0, "steal": 20.0, "idle": 30.0},
            {"cpu": "1", "usr": 0.0, "iowait": 0.0, "steal": 0.0, "idle": 100.0}]}]}]}}"#;
        let busy = parse(text).unwrap();
        assert_eq!(busy.len(), 2);
        assert!((busy[&0] - 50.0).abs() < 1e-9);
        assert!(busy[&1].abs() < 1e-9);
    }

    #[test]
    fn no_sample_is_an_error() {
        assert!(parse("").is_err());
        assert!(parse(r#"{"sysstat": {"hosts": []}}"#).is_err());
    }
}
