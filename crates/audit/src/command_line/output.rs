// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In which form an audit is written, and where to.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::model::Audit;
use crate::report::{csv, file, junit, page, terminal};
use clap::{Args, ValueEnum};
use sandbag_input::NewFile;
use sandbag_ui::failure::{Context as _, Result};

use super::look;
use sandbag_ui::BadInput;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, JsonArgs, Overwrite};

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AuditFormat {
    /// Tables, suspects, verdict
    Text,
    /// All of it, as -o writes it
    Json,
    /// A line for each run and for each effect
    Csv,
    /// JUnit XML: a suite for each test, a case for each CPU
    Junit,
    /// A page with charts
    Html,
}

impl AuditFormat {
    /// What the ending of a file says.
    fn by_ending(path: &Path) -> Result<Self> {
        output::refuse_ending(path, &["json", "html", "htm", "csv", "xml"])?;
        let ending = path.extension().and_then(|ending| ending.to_str());
        Ok(match ending {
            Some("html" | "htm") => Self::Html,
            Some("csv") => Self::Csv,
            Some("xml") => Self::Junit,
            _ => Self::Json,
        })
    }
}

/// In which form it is shown
#[derive(Debug, Args)]
pub(super) struct FormArgs {
    /// Write the audit: .json for `audit show` and `audit compare`, also .html,
    /// .csv or .xml (JUnit); - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// What to write there [default: by the ending of FILE, else json]
    #[arg(long, value_enum, value_name = "FORMAT", requires = "output")]
    to: Option<AuditFormat>,

    #[command(flatten)]
    json: JsonArgs,

    /// A page with charts: one file, no network; - for standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// What standard output gets; the name of -o - --to before.
    #[arg(long, value_enum, value_name = "FORMAT", hide = true)]
    format: Option<AuditFormat>,

    #[command(flatten)]
    overwrite: Overwrite,
}

/// For `--format`, which the next version drops.
const FORMAT_MOVED: &str =
    "--format is going: --json, --html -, or -o - --to FORMAT say what standard output gets";

/// Where a result goes, checked and opened: an audit of minutes is not to be lost for
/// a directory that is not there.
pub(super) struct Places {
    on_stdout: AuditFormat,
    files: Vec<(AuditFormat, PathBuf, NewFile)>,
}

impl FormArgs {
    pub(super) fn open(&self, messages: &Messages) -> Result<Places> {
        let output = self.output.as_deref();
        let form = match (self.to, output) {
            (Some(to), _) => to,
            (None, Some(path)) => AuditFormat::by_ending(path)?,
            (None, None) => AuditFormat::Json,
        };
        let named = [
            (form, output),
            (AuditFormat::Json, self.json.path()),
            (AuditFormat::Html, self.html.as_deref()),
        ];
        Places::open(&named, self.format, self.overwrite, messages)
    }
}

impl Places {
    /// Opens files; `on_stdout` and the name `-` are for standard output.
    pub(super) fn open(
        named: &[(AuditFormat, Option<&Path>)],
        on_stdout: Option<AuditFormat>,
        overwrite: Overwrite,
        messages: &Messages,
    ) -> Result<Self> {
        if on_stdout.is_some() {
            messages.warning(FORMAT_MOVED);
        }
        let mut on_stdout: Vec<AuditFormat> = on_stdout.into_iter().collect();
        let mut files: Vec<(AuditFormat, PathBuf, NewFile)> = Vec::new();
        let named = named
            .iter()
            .filter_map(|(format, path)| Some((*format, (*path)?)));
        for (format, path) in named {
            if path.as_os_str() == "-" {
                on_stdout.push(format);
                continue;
            }
            let absolute = |path: &Path| std::path::absolute(path).ok();
            let mut taken = files.iter().map(|(_, other, _)| absolute(other));
            if taken.any(|other| other == absolute(path)) {
                let text = format!("{} takes one form: give the other a file", path.display());
                return Err(BadInput(text).into());
            }
            overwrite.check(Some(path))?;
            let file = NewFile::create(path, overwrite.existing());
            let file = file.with_context(|| path.display().to_string())?;
            files.push((format, path.to_owned(), file));
        }
        on_stdout.dedup();
        match on_stdout[..] {
            [] => Ok(Self {
                on_stdout: AuditFormat::Text,
                files,
            }),
            [on_stdout] => Ok(Self { on_stdout, files }),
            _ => {
                let text = "standard output takes one form: give the others a file";
                Err(BadInput(text.to_owned()).into())
            }
        }
    }

    /// Writes all forms, whatever becomes of one place: an audit of minutes is not to be
    /// lost for a full disk.
    pub(super) fn write(
        self,
        messages: &Messages,
        text: impl Fn(AuditFormat) -> Result<String>,
    ) -> Result<()> {
        let mut failed: Option<sandbag_ui::Failure> = None;
        let mut keep = |outcome: Result<()>| match (outcome, &failed) {
            (Ok(()), _) => {}
            (Err(error), None) => failed = Some(error),
            (Err(error), Some(_)) => messages.warning(&error.line()),
        };
        keep(text(self.on_stdout).and_then(|text| print(text, self.on_stdout)));
        for (format, path, mut file) in self.files {
            let name = || path.display().to_string();
            let written = file.write_all(text(format)?.as_bytes());
            let written = written.and_then(|()| file.finish()).with_context(name);
            if written.is_ok() {
                output::give_to_caller(&path);
                messages.say(&format!("wrote {}", name()));
            }
            keep(written);
        }
        failed.map_or(Ok(()), Err)
    }

    pub(super) fn write_audit(self, audit: &Audit, messages: &Messages) -> Result<()> {
        self.write(messages, |format| {
            Ok(match format {
                AuditFormat::Text => terminal::audit(audit, &look(messages)),
                AuditFormat::Json => file::write(audit),
                AuditFormat::Csv => csv::csv(audit),
                AuditFormat::Junit => junit::junit(audit),
                AuditFormat::Html => page::audit(audit),
            })
        })
    }
}

fn print(text: String, format: AuditFormat) -> Result<()> {
    match format {
        AuditFormat::Text | AuditFormat::Json => output::print(text).context("standard output"),
        AuditFormat::Csv | AuditFormat::Junit | AuditFormat::Html => output::put_data(text),
    }
}
