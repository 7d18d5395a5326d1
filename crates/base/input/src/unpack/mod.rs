// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packed files (gzip, xz, zstd), read as what they hold. Profiles and traces
//! of jitter are read through here, so that both take the same files.

use std::fmt;
use std::io::{self, BufReader, Read};

/// How a file is packed, told from its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    Xz,
    Zstd,
}

/// Bytes that tell.
const MAGIC: u64 = 6;

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

/// The bytes of `plain`, unpacked if they are packed. A packed file that is
/// damaged or cut off ([`is_cut_off`]) gives an error of kind
/// [`io::ErrorKind::InvalidData`] when its reader comes there.
pub fn unpack<'a>(mut plain: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut magic = Vec::with_capacity(MAGIC as usize);
    plain.by_ref().take(MAGIC).read_to_end(&mut magic)?;
    let packing = Packing::of(&magic);
    let whole = io::Cursor::new(magic).chain(plain);
    Ok(match packing {
        Packing::None => Box::new(whole),
        Packing::Gzip => {
            let inside = flate2::bufread::MultiGzDecoder::new(BufReader::new(whole));
            Box::new(UnpackReader::new("gzip", inside))
        }
        Packing::Xz => {
            let inside = xz2::bufread::XzDecoder::new_multi_decoder(BufReader::new(whole));
            Box::new(UnpackReader::new("xz", inside))
        }
        Packing::Zstd => Box::new(UnpackReader::new(
            "zstd",
            zstd::stream::read::Decoder::new(whole)?,
        )),
    })
}

/// A packed file ends before its end, and all before it was read.
#[derive(Debug)]
struct CutOff(&'static str);

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packing = self.0;
        write!(
            f,
            "the file is packed ({packing}) and has no end: it is still being written, or was cut"
        )
    }
}

impl std::error::Error for CutOff {}

/// Whether this is the error of a packed file that is whole as far as it goes,
/// but has no end.
pub fn is_cut_off(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| cause.is::<CutOff>())
}

/// Says what is wrong with a packed file that is not whole.
struct UnpackReader<R> {
    packing: &'static str,
    from: R,
    /// Whether the end was missed. Some decoders say so once.
    is_cut: bool,
}

impl<R> UnpackReader<R> {
    fn new(packing: &'static str, from: R) -> Self {
        Self {
            packing,
            from,
            is_cut: false,
        }
    }

    fn cut_off(&self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, CutOff(self.packing))
    }
}

impl<R: Read> Read for UnpackReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.is_cut {
            return Err(self.cut_off());
        }
        self.from.read(into).map_err(|cause| {
            // What the system says, or a reader that wants to be asked again.
            if cause.raw_os_error().is_some() || cause.kind() == io::ErrorKind::Interrupted {
                return cause;
            }
            if cause.kind() == io::ErrorKind::UnexpectedEof {
                self.is_cut = true;
                return self.cut_off();
            }
            let text = format!("the file is packed ({}) and damaged: {cause}", self.packing);
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const TEXT: &[u8] = b"time,cpu0\n0,50\n1,end\n";

    fn packed_samples() -> [Vec<u8>; 3] {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(TEXT).unwrap();
        let mut xz = xz2::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(TEXT).unwrap();
        [
            gz.finish().unwrap(),
            xz.finish().unwrap(),
            zstd::encode_all(TEXT, 1).unwrap(),
        ]
    }

    fn all(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        unpack(bytes)?.read_to_end(&mut read)?;
        Ok(read)
    }

    #[test]
    fn what_is_packed_comes_out_as_it_was() {
        assert_eq!(all(TEXT).unwrap(), TEXT);
        assert_eq!(all(b"").unwrap(), b"");
        for bytes in packed_samples() {
            assert_eq!(all(&bytes).unwrap(), TEXT);
            // Two in a row are one file, as for zcat and its like.
            let twice = [&bytes[..], &bytes].concat();
            assert_eq!(all(&twice).unwrap(), [TEXT, TEXT].concat());
        }
    }

    #[test]
    fn what_is_cut_off_says_so() {
        for bytes in packed_samples() {
            let mut reader = unpack(&bytes[..bytes.len() - 5]).unwrap();
            for _ in 0..2 {
                let error = io::copy(&mut reader, &mut io::sink()).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                assert!(is_cut_off(&error), "{error}");
                assert!(error.to_string().contains("has no end"), "{error}");
            }
        }
    }

    #[test]
    fn what_is_damaged_says_so() {
        // Its checksum, or what else stands there; zstd has none.
        let [gz, xz, _] = packed_samples();
        for mut bytes in [gz, xz] {
            let at = bytes.len() - 6;
            bytes[at] ^= 0xff;
            let error = all(&bytes).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(!is_cut_off(&error), "{error}");
            assert!(error.to_string().contains("damaged"), "{error}");
        }
    }
}
