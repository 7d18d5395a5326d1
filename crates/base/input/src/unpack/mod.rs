// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packed files (gzip, xz, zstd), read as what they hold. Profiles and traces
//! of jitter are read through here, so that both take the same files.

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
/// damaged or cut off gives an error of kind [`io::ErrorKind::InvalidData`]
/// when its reader comes there.
pub fn unpack<'a>(mut plain: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut magic = Vec::with_capacity(MAGIC as usize);
    plain.by_ref().take(MAGIC).read_to_end(&mut magic)?;
    let packing = Packing::of(&magic);
    let whole = io::Cursor::new(magic).chain(plain);
    Ok(match packing {
        Packing::None => Box::new(whole),
        Packing::Gzip => {
            let inside = flate2::bufread::MultiGzDecoder::new(BufReader::new(whole));
            Box::new(UnpackReader("gzip", inside))
        }
        Packing::Xz => {
            let inside = xz2::bufread::XzDecoder::new_multi_decoder(BufReader::new(whole));
            Box::new(UnpackReader("xz", inside))
        }
        Packing::Zstd => Box::new(UnpackReader(
            "zstd",
            zstd::stream::read::Decoder::new(whole)?,
        )),
    })
}

/// Says what is wrong with a packed file that is not whole.
struct UnpackReader<R>(&'static str, R);

impl<R: Read> Read for UnpackReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1.read(into).map_err(|cause| {
            // What the system says, or a reader that wants to be asked again.
            if cause.raw_os_error().is_some() || cause.kind() == io::ErrorKind::Interrupted {
                return cause;
            }
            let text = format!("the file is packed ({}) and damaged: {cause}", self.0);
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
    fn what_is_damaged_says_so() {
        for bytes in packed_samples() {
            let error = all(&bytes[..bytes.len() - 5]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains("damaged"), "{error}");
        }
    }
}
