// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a profile is read from: a file or standard input, packed or not.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::lines::Lines;
use crate::{BoxSteps, Fault, Format, Gaps, Result, algebra, import, native};

/// How much of a file is looked at to tell its format.
const HEAD: usize = 16 << 10;

/// How a profile is read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// What stands where the load is unknown; default [`Gaps::Keep`].
    pub gaps: Gaps,
    /// Steal counts as load: the load becomes the share of the *wall* time in
    /// which the CPU was not to be had (KRASH's first definition).
    pub steal_as_load: bool,
    /// The end, for formats that may lack one (KRASH without `kill`, a
    /// native file without end row). An end that the file names wins.
    pub end_ns: Option<u64>,
}

/// An input that can be read more than once.
///
/// Standard input is first written to an unnamed temporary file, because
/// importers look through their input once for its CPUs before they read it,
/// and replaying means checking everything first and reading it again.
#[derive(Debug)]
pub struct Source {
    name: Arc<str>,
    from: From,
}

#[derive(Debug)]
enum From {
    Path(PathBuf),
    Spooled(File),
}

impl Source {
    /// The file, or standard input for `-`.
    ///
    /// # Errors
    /// Standard input cannot be spooled. A path is not looked at before it
    /// is opened.
    pub fn new(path: &Path) -> Result<Self> {
        if path.as_os_str() != "-" {
            return Ok(Self {
                name: path.to_string_lossy().into(),
                from: From::Path(path.to_owned()),
            });
        }
        let name: Arc<str> = "standard input".into();
        Self::spool(&mut io::stdin().lock(), Arc::clone(&name))
    }

    /// Everything that `input` has, kept in an unnamed temporary file; `name`
    /// is what messages call it.
    ///
    /// # Errors
    /// Reading or writing fails.
    pub fn spool(input: &mut dyn Read, name: Arc<str>) -> Result<Self> {
        let mut spool = || {
            let mut file = tempfile::tempfile()?;
            io::copy(input, &mut file)?;
            Ok(file)
        };
        match spool() {
            Ok(file) => Ok(Self {
                name,
                from: From::Spooled(file),
            }),
            Err(e) => Err(Fault::Io(e).at(&name, None)),
        }
    }

    /// What messages call it.
    #[must_use]
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
        if text.trim_ascii().is_empty() {
            return Err(self.fault(Fault::Empty));
        }
        if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
            return Err(self.fault(Fault::Utf16));
        }
        let format = from
            .or_else(|| Format::detect(text))
            .ok_or_else(|| self.fault(Fault::UnknownFormat))?;
        let mut steps = match format {
            Format::Native => native::read(self.lines()?, options.end_ns)?,
            Format::Krash => import::krash::read(&mut self.lines()?, options.end_ns)?,
            Format::SadfJson | Format::SadfCsv | Format::SarText | Format::ProcStat => {
                import::read(format, &|| self.lines())?
            }
            Format::SimGrid | Format::Synthetic => {
                return Err(self.fault(Fault::NotReadable(format)));
            }
        };
        if options.steal_as_load {
            steps = algebra::steal_as_load(steps);
        }
        Ok(algebra::fill_gaps(steps, options.gaps))
    }

    fn fault(&self, fault: Fault) -> crate::Error {
        fault.at(&self.name, None)
    }

    fn lines(&self) -> Result<Lines> {
        Ok(Lines::new(self.reader()?, Arc::clone(&self.name)))
    }

    /// The bytes from the beginning, unpacked.
    fn reader(&self) -> Result<Box<dyn Read + Send>> {
        self.try_reader().map_err(|e| self.fault(Fault::Io(e)))
    }

    fn try_reader(&self) -> io::Result<Box<dyn Read + Send>> {
        let mut plain: Box<dyn Read + Send> = match &self.from {
            From::Path(path) => Box::new(File::open(path)?),
            From::Spooled(file) => Box::new(FromStart {
                file: file.try_clone()?,
                offset: 0,
            }),
        };
        let mut magic = Vec::with_capacity(6);
        plain.by_ref().take(6).read_to_end(&mut magic)?;
        let kind = Packing::of(&magic);
        let whole = io::Cursor::new(magic).chain(plain);
        Ok(match kind {
            Packing::None => Box::new(whole),
            Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(whole))),
            Packing::Xz => Box::new(xz2::bufread::XzDecoder::new_multi_decoder(BufReader::new(
                whole,
            ))),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(whole)?),
        })
    }
}

#[derive(Debug, Clone, Copy)]
enum Packing {
    None,
    Gzip,
    Xz,
    Zstd,
}

impl Packing {
    fn of(magic: &[u8]) -> Self {
        if magic.starts_with(b"\x1f\x8b") {
            Self::Gzip
        } else if magic.starts_with(b"\xfd7zXZ\0") {
            Self::Xz
        } else if magic.starts_with(b"\x28\xb5\x2f\xfd") {
            Self::Zstd
        } else {
            Self::None
        }
    }
}

/// A duplicated descriptor shares its position; this one keeps its own, so
/// that several readers of the spooled input do not disturb each other.
struct FromStart {
    file: File,
    offset: u64,
}

impl Read for FromStart {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = std::os::unix::fs::FileExt::read_at(&self.file, into, self.offset)?;
        self.offset += n as u64;
        Ok(n)
    }
}

/// Reads a profile from a file, or from standard input for `-`. The format
/// is detected where `from` does not name it; gzip, xz and zstd are unpacked.
///
/// # Errors
/// The file cannot be read or is not a profile of the format.
pub fn open(path: &Path, from: Option<Format>, options: &ReadOptions) -> Result<BoxSteps> {
    Source::new(path)?.open(from, options)
}
