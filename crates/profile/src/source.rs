// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a profile is read from: a file or standard input, packed or not.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sandbag_input::unpack::unpack;
use sandbag_ui::address::public;
use sandbag_ui::quantity::Seconds;

use crate::error::printable;
use crate::number::unquoted;
use crate::reader::{ImportReader, Input, Lines};
use crate::stream::change_steps;
use crate::{BoxSteps, Fault, Format, ReadOptions, Result, algebra, import, native};
use sandbag_input::Head;

/// All that can be read, in the order in which a file is offered to them.
fn readers() -> impl Iterator<Item = &'static ImportReader> {
    [&native::READER].into_iter().chain(import::readers())
}

fn reader_of(format: Format) -> Result<&'static ImportReader, Fault> {
    readers()
        .find(|reader| reader.format == format)
        .ok_or(Fault::NotReadable(format))
}

/// The names of the formats that can be read.
fn names() -> String {
    let all: Vec<String> = Format::ALL
        .iter()
        .filter(|format| format.is_read())
        .map(Format::to_string)
        .collect();
    all.join(", ")
}

impl Format {
    /// Whether profiles can be read from it.
    pub fn is_read(self) -> bool {
        reader_of(self).is_ok()
    }

    /// The format that a file begins like; `None` where it looks like nothing
    /// known.
    ///
    /// `head` is unpacked and without byte order mark; some kilobytes are
    /// enough.
    pub fn detect(head: &[u8]) -> Option<Self> {
        let head = Head::new(head);
        let reader = readers().find(|reader| (reader.looks_like)(&head));
        reader.map(|reader| reader.format)
    }
}

/// How much of a file is looked at to tell its format.
const HEAD: usize = 16 << 10;

/// The most that is kept of a pipe, 1 GiB: the directory of temporary files is often memory.
pub(crate) const MOST_SPOOLED: u64 = 1 << 30;

/// The most that is copied of a file, 16 MiB: a day of many CPUs by the second.
const MOST_COPIED: u64 = 16 << 20;

/// How the daily files of sysstat begin, in the byte order of most machines.
const SYSSTAT_MAGIC: [u8; 2] = 0xd596u16.to_le_bytes();

/// What a file of no known format begins like.
fn looks(head: &Head<'_>) -> String {
    let first = printable(head.first());
    if head.data().next().is_none() && head.first().is_empty() {
        return format!("it begins with {HEAD} bytes of blanks");
    }
    if head.opens_with(b'{') || head.opens_with(b'[') {
        return format!("it begins like JSON, {first}, without a mark of a program that is known");
    }
    let mut rows = head.data();
    let (names, row) = (rows.next(), rows.next());
    let cells = |line: &[u8]| -> Vec<Vec<u8>> {
        let cells = line.split(|b| matches!(b, b',' | b';' | b'\t'));
        cells
            .map(|cell| unquoted(cell.trim_ascii()).to_vec())
            .collect()
    };
    let (names, row) = (
        names.map(cells).unwrap_or_default(),
        row.map(cells).unwrap_or_default(),
    );
    let is_number = |cell: &Vec<u8>| {
        let text = String::from_utf8_lossy(cell);
        text.trim_end_matches('%').trim_end().parse::<f64>().is_ok()
    };
    let is_table = names.len() > 1 && names.len() == row.len() && row.iter().skip(1).all(is_number);
    if is_table {
        format!(
            "it is a table that begins {first}. The columns of a profile are called \
         `time,cpu0,cpu1,...`, hold seconds from the beginning and loads in percent of one CPU, \
         and its last row is the end, as in `60,end`"
        )
    } else {
        format!("it begins with {first}")
    }
}

/// A file name as a shell takes it.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

/// An input that can be read more than once.
///
/// Standard input is first written to an unnamed temporary file, because
/// importers look through their input once for its CPUs before they read it,
/// and replaying means checking everything first and reading it again.
#[derive(Debug)]
pub struct InputSource {
    name: Arc<str>,
    from: SourceKind,
}

#[derive(Debug)]
enum SourceKind {
    /// Opened once, as other files may get its name while it is read again and again; the
    /// second is what is read then.
    Path(PathBuf, OnceLock<File>),
    Spooled(File),
}

impl InputSource {
    /// The file, or standard input for `-`.
    ///
    /// # Errors
    /// Standard input cannot be spooled. A path is not looked at before it
    /// is opened.
    pub fn new(path: &Path) -> Result<Self> {
        if path.as_os_str() != "-" {
            return Ok(Self {
                name: public(&path.to_string_lossy()).into(),
                from: SourceKind::Path(path.to_owned(), OnceLock::new()),
            });
        }
        let name: Arc<str> = "standard input".into();
        Self::spool(&mut io::stdin().lock(), Arc::clone(&name))
    }

    /// Everything that `input` has, kept in an unnamed temporary file; `name`
    /// is what messages call it.
    ///
    /// # Errors
    /// Reading or writing fails, or it is longer than 1 GiB.
    pub fn spool(input: &mut dyn Read, name: Arc<str>) -> Result<Self> {
        Self::spool_within(MOST_SPOOLED, input, name)
    }

    /// The same with another limit, in bytes.
    pub(crate) fn spool_within(most: u64, input: &mut dyn Read, name: Arc<str>) -> Result<Self> {
        let mut spool = || {
            let mut file = tempfile::tempfile().map_err(|e| {
                let dir = std::env::temp_dir();
                let text = format!("no temporary file in {} (TMPDIR): {e}", dir.display());
                io::Error::new(e.kind(), text)
            })?;
            let kept = io::copy(&mut input.take(most + 1), &mut file)?;
            Ok((file, kept))
        };
        match spool() {
            Ok((_, kept)) if kept > most => Err(Fault::PipeTooLong(most).at(&name, None)),
            Ok((file, _)) => Ok(Self {
                name,
                from: SourceKind::Spooled(file),
            }),
            Err(e) => Err(Fault::Io(e).at(&name, None)),
        }
    }

    /// What messages call it.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Opens the profile; `from` names the format where it is not to be
    /// detected.
    ///
    /// # Errors
    /// The file cannot be read or is not a profile of the format. Importers
    /// other than native look through the whole file here.
    pub fn open(&self, from: Option<Format>, options: &ReadOptions) -> Result<BoxSteps> {
        let mut head = Vec::new();
        let mut reader = self.reader()?;
        // Packed files end in the middle when they are damaged; that is for
        // the reader to find, at its place.
        let read = reader.by_ref().take(HEAD as u64).read_to_end(&mut head);
        if head.is_empty() {
            read.map_err(|e| self.fault(Fault::Io(e)))?;
        }
        drop(reader);
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
        if text.trim_ascii().is_empty() && head.len() < HEAD {
            return Err(self.fault(Fault::Empty));
        }
        if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
            return Err(self.fault(Fault::Utf16));
        }
        if text.starts_with(&SYSSTAT_MAGIC)
            || text.starts_with(&[SYSSTAT_MAGIC[1], SYSSTAT_MAGIC[0]])
        {
            let remedy = self.sadf_commands();
            return Err(self.fault(Fault::SysstatBinary { remedy }));
        }
        if text.starts_with(b"BZh") && text.get(4..10) == Some(b"1AY&SY") {
            return Err(self.fault(Fault::Bzip2));
        }
        let head = Head::new(text);
        let reader = match from {
            None => readers().find(|reader| (reader.looks_like)(&head)),
            Some(format) => Some(reader_of(format).map_err(|fault| self.fault(fault))?),
        };
        let reader = reader.ok_or_else(|| {
            self.fault(Fault::UnknownFormat {
                found: looks(&head),
                known: names(),
            })
        })?;
        let mut steps = (reader.open)(&Input {
            lines: &|| self.lines(),
            options,
        })?;
        steps = tell_unused(steps, &self.name, options);
        if options.steal_as_load {
            steps = algebra::steal_as_load(steps);
        }
        Ok(algebra::fill_gaps(steps, options.gaps))
    }

    /// What makes a recording of a daily file of sysstat.
    fn sadf_commands(&self) -> String {
        let sadf = |file: &str, name: &str| {
            let (file, json) = (quoted(file), quoted(&format!("{name}.json")));
            format!("`sadf -j {file} -- -P ALL > {json}`")
        };
        if matches!(self.from, SourceKind::Spooled(_)) {
            return sadf("FILE", "FILE");
        }
        let name = self.name.rsplit('/').next().unwrap_or_default();
        // Old files are packed, which sadf does not read.
        let packings = [(".xz", "xz"), (".gz", "gzip"), (".zst", "zstd")];
        let packed = packings
            .iter()
            .find_map(|(end, tool)| Some((name.strip_suffix(end)?, tool)));
        match packed {
            Some((copy, tool)) => {
                let (file, to) = (quoted(&self.name), quoted(copy));
                format!("`{tool} -dc {file} > {to}`, then {}", sadf(copy, copy))
            }
            None => sadf(&self.name, name),
        }
    }

    fn fault(&self, fault: Fault) -> crate::Error {
        fault.at(&self.name, None)
    }

    fn lines(&self) -> Result<Lines> {
        Ok(Lines::new(self.reader()?, Arc::clone(&self.name)))
    }

    /// The bytes from the beginning, unpacked.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn reader(&self) -> Result<Box<dyn Read + Send>> {
        self.try_reader().map_err(|e| self.fault(Fault::Io(e)))
    }

    fn try_reader(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match &self.from {
            SourceKind::Path(path, kept) => {
                if kept.get().is_none() {
                    let file = File::open(path)?;
                    if !file.metadata()?.is_file() {
                        return unpack(file);
                    }
                    let _ = kept.set(copy_of_small(&file)?.unwrap_or(file));
                }
                unpack(FromStart::of(kept.get().ok_or(io::ErrorKind::NotFound)?)?)?
            }
            SourceKind::Spooled(file) => unpack(FromStart::of(file)?)?,
        })
    }
}

/// Warns of an end and of a number of CPUs that were asked for and that the file overrides.
fn tell_unused(steps: BoxSteps, name: &Arc<str>, options: &ReadOptions) -> BoxSteps {
    let header = steps.header().clone();
    let has = header.cpus.len();
    let spread = options.spread.filter(|spread| spread.cpus as usize != has);
    let cpus = spread.map(|spread| {
        format!(
            "{name} has loads of its {has} CPUs, which were not spread over {}",
            spread.cpus
        )
    });
    let (asked_ns, name) = (options.end_ns, Arc::clone(name));
    // 0 where it was not read to its end.
    let told = move |end_ns| {
        let asked_ns = asked_ns.filter(|asked_ns| *asked_ns != end_ns && end_ns > 0);
        let end = asked_ns.map(|asked_ns| {
            let (asked, end) = (Seconds(asked_ns), Seconds(end_ns));
            format!("{name} has an end of its own, {end}, which was taken and not {asked}")
        });
        let all: Vec<String> = cpus.clone().into_iter().chain(end).collect();
        (!all.is_empty()).then(|| all.join("; "))
    };
    let mut last_ns = 0;
    change_steps(steps, header, told, move |inner, end_ns| {
        let step = inner.next_step()?;
        match &step {
            Some(step) => last_ns = step.end_ns,
            None => *end_ns = last_ns,
        }
        Ok(step)
    })
}

/// A duplicated descriptor shares its position; this one keeps its own, so
/// that several readers of the spooled input do not disturb each other.
struct FromStart {
    file: File,
    offset: u64,
}

impl FromStart {
    fn of(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        Ok(Self { file, offset: 0 })
    }
}

/// An unnamed copy of a file that is not large, which may be written anew while a run replays
/// it; `None` where there is no room for one.
fn copy_of_small(file: &File) -> io::Result<Option<File>> {
    if file.metadata()?.len() > MOST_COPIED {
        return Ok(None);
    }
    let Ok(mut copy) = tempfile::tempfile() else {
        return Ok(None);
    };
    let mut bytes = FromStart::of(file)?.take(MOST_COPIED + 1);
    let copied = io::copy(&mut bytes, &mut copy);
    Ok(copied
        .is_ok_and(|length| length <= MOST_COPIED)
        .then_some(copy))
}

impl Read for FromStart {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = std::os::unix::fs::FileExt::read_at(&self.file, into, self.offset)?;
        self.offset += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("# sandbag profile 1\ntime,cpu0\n", Some(Format::Native))]
    #[case("time,cpu0\n0,50\n", Some(Format::Native))]
    #[case("# mine\n\"Time\";\"cpu0\"\n0;50\n", Some(Format::Native))]
    #[case("# mine\ncpu {\n profile { 0 { 0 5 } } }", Some(Format::Krash))]
    #[case("kill 20", Some(Format::Krash))]
    #[case("all_name = x\n", Some(Format::Krash))]
    #[case("cpu0 50\ncpu1 20\n", None)]
    #[case("cpu 50\n", None)]
    #[case("kill {\n", None)]
    #[case("vm;10;2026-11-21 01:00:10 UTC;0;1;98\n", Some(Format::SadfCsv))]
    #[case("vm;10;1795222810;0;1;98\n", Some(Format::SadfCsv))]
    #[case("1376314846;4;11703.998016;10912.027459;93.233;1;1;1;1;1;1\n", None)]
    #[case("{\"sysstat\": {", Some(Format::SadfJson))]
    #[case("\n# hostname;interval;timestamp;CPU;%user", Some(Format::SadfCsv))]
    #[case(
        "vm;-1;2026-11-21 01:10:53 UTC;LINUX-RESTART\t(2 CPU)",
        Some(Format::SadfCsv)
    )]
    #[case("Linux 6.1 (vm) \t11/21/26\n\n", Some(Format::SarText))]
    #[case("01:10:52  CPU  %user  %idle\n", Some(Format::SarText))]
    #[case(
        "# epoch 1795223452.4\ncpu  1 2 3 4\ncpu0 1 2 3 4",
        Some(Format::ProcStat)
    )]
    #[case(
        "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\"",
        Some(Format::Prometheus)
    )]
    #[case("[{\"metric\":{},\n\"values\":[", Some(Format::Prometheus))]
    #[case("# HELP x y\n# TYPE x counter\n", Some(Format::OpenMetrics))]
    #[case("{__name__=\"up\"} 1 1698674400000\n", Some(Format::OpenMetrics))]
    #[case("up{job=\"x\"} 1 1698674400.0\n", Some(Format::OpenMetrics))]
    // Stamps of mpstat are texts, those of sadf objects.
    #[case("{\"sysstat\": {\"timestamp\":\"10:00:01\"", Some(Format::MpstatJson))]
    #[case("{\"sysstat\": {\"timestamp\": {\"date\"", Some(Format::SadfJson))]
    #[case(" 1 0 0 1 1 1.5 -1 -1 -1 -1 1 1 1 -1 1 -1 -1 -1\n", Some(Format::Swf))]
    #[case("; Version: 2.2\n; MaxJobs: 42264\n", Some(Format::Swf))]
    #[case("; a comment\nx = 5\n", None)]
    #[case("1 2 3 4\n", None)]
    #[case("0 0.5\nLOOPAFTER 5\n", Some(Format::SimGrid))]
    #[case("0 0.5 # half\n10 1\n12", None)]
    #[case(
        "# availability of one CPU, written by sandbag\n0 1\n# end 5\n",
        Some(Format::SimGrid)
    )]
    #[case("STOCHASTIC LOOP\nNORM 1 2 UNIF 0 1\n", Some(Format::SimGrid))]
    #[case("0 4\nPERIODICITY 7\n1 2\n", Some(Format::SimGrid))]
    // Columns of numbers may be anything.
    #[case("10 0.5\n5 1\n7 1\n", None)]
    #[case("0 50\n10 20\n20 3\n", None)]
    #[case("0.25\n0.5\n0.75\n", None)]
    #[case("0 0.5 0.7\n1 0.5 0.7\n2 0 0\n", None)]
    #[case("39600,3,26.5,40.0,41.0,20.1,19.2,18.3\n", None)]
    #[case("time value\n0 0.5\n1 1\n", None)]
    #[case(
        "my_counter{baz=\"abc\"} 1 0.000\nmy_gauge{} 3 0.000\n",
        Some(Format::OpenMetrics)
    )]
    #[case("# nothing\n", None)]
    #[case("hello", None)]
    #[case("", None)]
    fn detection(#[case] head: &str, #[case] format: Option<Format>) {
        assert_eq!(Format::detect(head.as_bytes()), format);
        assert_eq!(
            Format::detect(head.replace('\n', "\r\n").as_bytes()),
            format
        );
    }

    #[test]
    fn an_end_that_the_file_overrides_is_told_where_the_file_was_read_to_it() {
        let mut text = &b"time,cpu0\n0,50\n10,60\n20,end\n"[..];
        let source = InputSource::spool(&mut text, "day.csv".into()).unwrap();
        let options = ReadOptions {
            end_ns: Some(30_000_000_000),
            ..ReadOptions::default()
        };
        let mut steps = source.open(None, &options).unwrap();
        steps.next_step().unwrap();
        assert_eq!(steps.warnings(), [""; 0]);
        while steps.next_step().unwrap().is_some() {}
        let told = "day.csv has an end of its own, 20 s, which was taken and not 30 s";
        assert_eq!(steps.warnings(), [told]);
    }

    #[test]
    fn a_file_is_the_same_whenever_it_is_read() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("p.csv"), place.path().join("new"));
        let text = "time,cpu0\n0,50\n1,end\n";
        // The last is read from the file itself.
        let long = format!("{text}{}", "#\n".repeat(MOST_COPIED as usize / 2));
        for text in [text, &long] {
            std::fs::write(&path, text).unwrap();
            let source = InputSource::new(&path).unwrap();
            let load = || {
                let mut steps = source.open(None, &ReadOptions::default()).unwrap();
                steps.next_step().unwrap().unwrap().cells[0].map(|cell| cell.load_pct)
            };
            assert_eq!(load(), Some(50.0));
            std::fs::write(&other, "time,cpu0\n0,60\n1,end\n").unwrap();
            std::fs::rename(&other, &path).unwrap();
            assert_eq!(load(), Some(50.0));
            std::fs::remove_file(&path).unwrap();
            assert_eq!(load(), Some(50.0));
        }
        std::fs::write(&path, text).unwrap();
        let source = InputSource::new(&path).unwrap();
        source.open(None, &ReadOptions::default()).unwrap();
        std::fs::write(&path, "").unwrap();
        source.open(None, &ReadOptions::default()).unwrap();
    }

    #[test]
    fn a_pipe_without_end_is_refused() {
        let spool =
            |text: &[u8]| InputSource::spool_within(20, &mut &*text, "standard input".into());
        assert!(spool(b"time,cpu0\n0,50\n1,end\n").is_err());
        assert!(spool(b"time,cpu0\n0,5\n1,end\n").is_ok());
        let error = spool(&[0; 21]).unwrap_err();
        let expected = "standard input: it holds more than 20 bytes, the most that is kept";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[rstest]
    #[case(
        "/var/log/sa 1/sa21",
        "`sadf -j '/var/log/sa 1/sa21' -- -P ALL > sa21.json`"
    )]
    #[case(
        "/var/log/sa/sa05.xz",
        "`xz -dc /var/log/sa/sa05.xz > sa05`, then `sadf -j sa05 -- -P ALL > sa05.json`"
    )]
    fn a_binary_file_of_sysstat_has_a_remedy(#[case] name: &str, #[case] remedy: &str) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = b"\x96\xd5\x75\x21 binary".to_vec();
        if name.ends_with(".xz") {
            let mut xz = xz2::write::XzEncoder::new(Vec::new(), 1);
            io::Write::write_all(&mut xz, &text).unwrap();
            text = xz.finish().unwrap();
        }
        std::fs::write(&file, text).unwrap();
        let source = InputSource {
            name: name.into(),
            ..InputSource::new(file.path()).unwrap()
        };
        let error = source.open(None, &ReadOptions::default()).err().unwrap();
        let error = error.to_string();
        assert!(error.contains(remedy), "{error}");
    }

    #[rstest]
    #[case(
        b"\x96\xd5\x75\x21 binary",
        "read: `sadf -j FILE -- -P ALL > FILE.json` makes"
    )]
    #[case(b"BZh91AY&SY\x95\x2b", "packed by bzip2, which is not read here")]
    #[case(b"{\"foo\": [1, 2]}", "it begins like JSON, `{\\\"foo\\\": [1, 2]}`")]
    #[case(
        b"timestamp,load\n0,50\n",
        "it is a table that begins `timestamp,load`"
    )]
    #[case(b"Time;CPU %\n12:00;5%\n", "are called `time,cpu0,cpu1,...`")]
    #[case(b"hello\nworld", "it begins with `hello`; name it")]
    fn what_is_not_recognised_is_described(#[case] text: &[u8], #[case] expected: &str) {
        let source = InputSource::spool(&mut &*text, "/var/log/sa 1/sa21".into()).unwrap();
        let error = source.open(None, &ReadOptions::default()).err().unwrap();
        let error = error.to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("sadf-json: "), "{error}");
    }
}
