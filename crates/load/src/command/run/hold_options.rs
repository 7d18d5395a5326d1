// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of everything that holds CPU conditions beside a command: loads,
//! profiles, virtual nodes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::metrics::MetricsArgs;
use clap::Args;
use sandbag_linux::user::User;
use sandbag_run::directory::RunDir;
use sandbag_ui::messages::Messages;

use sandbag_ui::output::{JsonArgs, Overwrite};
use sandbag_ui::units;

/// How long conditions are held, for which command, and what is left.
#[derive(Debug, Clone, Args)]
pub struct HoldOptions {
    /// Directory of the report [default: sandbag-run-<time>]
    ///
    /// It gets run.json, achieved.csv and report.html.
    #[arg(long, value_name = "DIR", conflicts_with = "no_out")]
    pub out: Option<PathBuf>,

    /// Leave no run directory
    #[arg(long)]
    pub no_out: bool,

    /// The directory that was made, in all copies of these options.
    #[arg(skip)]
    pub made: Arc<OnceLock<PathBuf>>,

    /// Whether results that exist are replaced.
    #[command(flatten)]
    pub overwrite: Overwrite,

    /// Error that counts as kept, in points
    ///
    /// MEAN is the largest mean absolute error; 99 % of the 1 s windows must be
    /// within WINDOW, by default three times MEAN.
    #[arg(long, value_name = "MEAN[,WINDOW]", default_value = "1,3",
          value_parser = units::tolerance)]
    pub tolerance: sandbag_stats::Tolerance,

    /// The run's record.
    #[command(flatten)]
    pub json: JsonArgs,

    /// Start CMD at once, without waiting for the first level or speed to be
    /// held
    #[arg(long)]
    pub no_settle: bool,

    /// End after this long, and end CMD (exit code 124)
    ///
    /// CMD and all that it started get SIGTERM, and 5 s later SIGKILL. A pause
    /// (Ctrl-Z) does not count.
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub timeout: Option<Duration>,

    /// Kill CMD, and what it started, should sandbag end or die before CMD does
    /// (otherwise they live on, without the load and at full speed)
    #[arg(long, requires = "command")]
    pub kill: bool,

    /// With sudo, run CMD as root and not as the calling user
    #[arg(long)]
    pub as_root: bool,

    /// Exit with 3 (missed) or 4 (undecided) though CMD succeeds
    #[arg(long)]
    pub strict: bool,

    /// Metrics of the run.
    #[command(flatten)]
    pub metrics: MetricsArgs,

    /// Make the groups in this cgroup, which was delegated to us
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,

    /// Check everything, print what would be done, change nothing
    #[arg(long, conflicts_with = "json")]
    pub dry_run: bool,

    /// The program to run, and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl HoldOptions {
    /// Refuses results that exist or cannot be made, before anything is measured for them.
    pub fn check_results(&self) -> sandbag_ui::Result<()> {
        self.overwrite.check_dir(self.out.as_deref())?;
        self.json.check_within(self.overwrite, self.out.as_deref())
    }

    /// The user that CMD runs as, where that is not ours.
    pub fn user(&self) -> Option<User> {
        User::behind_sudo().filter(|_| !self.as_root)
    }

    /// Makes the run directory, unless none is wanted. The results of an earlier run stay there
    /// until this one is registered: it may be refused.
    ///
    /// # Errors
    /// One that was named cannot be made.
    pub fn make_dir(&self, messages: &Messages) -> sandbag_ui::Result<Option<RunDir>> {
        if self.no_out {
            return Ok(None);
        }
        let dir = RunDir::make(self.out.clone(), self.user(), messages)?;
        if let Some(dir) = &dir {
            self.made.get_or_init(|| dir.path().to_owned());
        }
        Ok(dir)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser as _;
    use sandbag_run::directory::{ACHIEVED_CSV, REPORT_HTML, RUN_JSON};

    use super::*;
    use crate::command::run::observer::Collector;
    use crate::supervisor::Observer as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        hold: HoldOptions,
    }

    #[test]
    fn results_of_an_earlier_run_stay_until_the_next_is_registered() {
        let place = tempfile::tempdir().unwrap();
        let files = [
            RUN_JSON,
            ACHIEVED_CSV,
            REPORT_HTML,
            "nodes.json",
            "sweep.json",
            "hosts.json",
        ];
        let text = |name: &str| fs::read_to_string(place.path().join(name)).ok();
        for name in files {
            fs::write(place.path().join(name), "earlier\nresult\n").unwrap();
        }
        let out = place.path().to_str().unwrap();
        let hold = Line::parse_from(["x", "--force", "--out", out]).hold;
        let messages = Messages::new(true, 0);
        hold.check_results().unwrap();
        let dir = hold.make_dir(&messages).unwrap().unwrap();
        let mut collector = Collector::new(&[0], false, None, Some(&dir), false, &messages);
        // It may be refused here: its CPU is taken, or a part of it cannot begin.
        for name in files {
            assert_eq!(text(name).as_deref(), Some("earlier\nresult\n"), "{name}");
        }
        collector.registered();
        for name in files.into_iter().filter(|name| *name != ACHIEVED_CSV) {
            assert_eq!(text(name), None, "{name}");
        }
        assert!(!text(ACHIEVED_CSV).unwrap().contains("earlier"));
        assert_eq!(collector.close(), Vec::<String>::new());
    }
}
