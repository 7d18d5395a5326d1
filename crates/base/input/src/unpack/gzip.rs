// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The members of a gzip file, one after the other, up to the zeros that may fill it up: a
//! file is often as long as the blocks of a tape or of an archive.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

pub(super) struct Members<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Members<R> {
    pub(super) fn new(packed: R) -> Self {
        Self(Some(GzDecoder::new(packed)))
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let count = member.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            let next = member.get_mut().fill_buf()?.first().copied();
            let packed = self.0.take().map(GzDecoder::into_inner);
            match (next, packed) {
                (Some(0), Some(rest)) => only_zeros(rest)?,
                (Some(_), Some(rest)) => self.0 = Some(GzDecoder::new(rest)),
                _ => {}
            }
        }
        Ok(0)
    }
}

fn only_zeros(rest: impl BufRead) -> io::Result<()> {
    for byte in rest.bytes() {
        if byte? != 0 {
            let text = "something stands behind the zeros at its end";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
    Ok(())
}
