// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a scenario said.

use std::time::Duration;

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;

/// A scenario that ran to its end.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Exit status of the script.
    pub status: i32,
    /// What it printed, without `@begin` and `@end`.
    pub lines: Vec<String>,
    /// From the start of the kernel to the start of the first script, by the
    /// guest's clock.
    pub boot: Duration,
    /// From the start of the emulator to its end, with all scenarios.
    pub total: Duration,
    /// Percent of the host's CPU time that others used meanwhile. The guest's
    /// CPUs had to wait for them and could not know.
    pub others_pct: f64,
}

impl Outcome {
    /// Reads the output of a guest: an outcome for each of its scenarios.
    ///
    /// # Errors
    /// If it has no `@begin` or no `@over`: the guest did not come so far.
    pub(super) fn parse(
        output: &str,
        total: Duration,
        others_pct: f64,
    ) -> anyhow::Result<Vec<Self>> {
        let mut lines = output.lines().map(|line| line.trim_end_matches('\r'));
        let boot = lines
            .find_map(|line| line.strip_prefix("@begin "))
            .context("the scenarios did not begin")?
            .parse()
            .context("@begin without a time")?;
        let boot = Duration::try_from_secs_f64(boot)?;
        let (mut outcomes, mut said) = (Vec::new(), Vec::new());
        for line in lines {
            if line == "@over" {
                return Ok(outcomes);
            }
            let Some(status) = line.strip_prefix("@end ") else {
                said.push(line.to_owned());
                continue;
            };
            outcomes.push(Self {
                status: status.parse().context("@end without a status")?,
                lines: std::mem::take(&mut said),
                boot,
                total,
                others_pct,
            });
        }
        bail!("scenario {} began but did not end", outcomes.len() + 1)
    }

    /// Every result of that name, in order.
    ///
    /// # Errors
    /// If there is none, or one is not of this type: with all that was said.
    pub fn results<T: DeserializeOwned>(&self, name: &str) -> anyhow::Result<Vec<T>> {
        let results = self
            .lines
            .iter()
            .filter_map(|line| line.strip_prefix("@result ")?.split_once(' '))
            .filter(|(found, _)| *found == name)
            .map(|(_, json)| {
                serde_json::from_str(json).with_context(|| format!("result {name}: {json}"))
            })
            .collect::<anyhow::Result<Vec<T>>>()?;
        if results.is_empty() {
            bail!("no result {name}; the guest said:\n{}", self.said());
        }
        Ok(results)
    }

    /// The one result of that name.
    ///
    /// # Errors
    /// As [`Outcome::results`], and if there are several.
    pub fn result<T: DeserializeOwned>(&self, name: &str) -> anyhow::Result<T> {
        let mut results = self.results(name)?;
        match (results.pop(), results.len()) {
            (Some(result), 0) => Ok(result),
            (_, others) => bail!("{} results {name}, one expected", others + 1),
        }
    }

    /// All lines, long ones cut, for a message.
    #[must_use]
    pub fn said(&self) -> String {
        tail(&self.lines.join("\n"), usize::MAX)
    }
}

/// The last lines of a text, long ones cut, indented.
pub(super) fn tail(text: &str, count: usize) -> String {
    const WIDTH: usize = 300;
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(count)..];
    last.iter()
        .map(|line| format!("    {}\n", line.chars().take(WIDTH).collect::<String>()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(output: &str) -> anyhow::Result<Vec<Outcome>> {
        Outcome::parse(output, Duration::from_secs(9), 0.0)
    }

    #[test]
    fn lines_results_and_status_of_each_scenario_are_found_between_the_markers() {
        let output = "noise\r\n@begin 4.50\r\nhello\r\n@result a 1\n@result b [2]\n\
                      @result a 3\n@end 7\n@result a 4\n@end 0\n@over\nnoise\n";
        let outcomes = parse(output).unwrap();
        let statuses: Vec<i32> = outcomes.iter().map(|one| one.status).collect();
        assert_eq!(statuses, [7, 0]);
        assert_eq!(outcomes[0].boot, Duration::from_millis(4500));
        assert_eq!(outcomes[0].lines.len(), 4);
        assert_eq!(outcomes[0].results::<u32>("a").unwrap(), [1, 3]);
        assert_eq!(outcomes[0].result::<Vec<u32>>("b").unwrap(), [2]);
        assert_eq!(outcomes[1].result::<u32>("a").unwrap(), 4);
    }

    #[test]
    fn missing_double_and_malformed_results_are_told_apart() {
        let said = "@begin 1\n@result a 1\n@result a 2\n@end 0\n@over\n";
        let outcome = parse(said).unwrap().remove(0);
        let message = |error: anyhow::Error| format!("{error:#}");
        assert!(message(outcome.result::<u32>("a").unwrap_err()).contains("2 results a"));
        assert!(message(outcome.result::<u32>("c").unwrap_err()).contains("@result a 1"));
        assert!(message(outcome.results::<String>("a").unwrap_err()).contains("result a: 1"));
    }

    #[test]
    fn a_guest_that_stopped_midway_is_an_error() {
        for (output, part) in [
            ("", "did not begin"),
            ("@begin 1\nhello\n", "scenario 1 began"),
            (
                "@begin 1\n@end 0\nhello\n",
                "scenario 2 began but did not end",
            ),
            ("@begin x\n@end 0\n", "without a time"),
            ("@begin 1\n@end x\n", "without a status"),
        ] {
            let error = parse(output).unwrap_err();
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
    }

    #[test]
    fn a_tail_has_the_last_lines_cut() {
        assert_eq!(tail("a\nb\nc", 2), "    b\n    c\n");
        assert_eq!(tail(&"x".repeat(999), 1).trim().len(), 300);
    }
}
