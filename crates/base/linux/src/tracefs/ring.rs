// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of the ring buffer, as `trace_pipe_raw` gives them.
//!
//! A page begins with the stamp of its first record (u64) and `commit`, the
//! bytes of records in it with two flags for those lost before it. A record has
//! a word: five bits of length or kind, 27 of time since the one before
//! (`events/header_event`, include/linux/ring_buffer.h).

use super::format;

/// Where things are in a page, by `events/header_page`; bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    commit: usize,
    data: usize,
    page: usize,
}

/// Records were lost before the page.
const MISSED: u32 = 1 << 31;
/// The bytes of records in a page are in these.
const LENGTH: u32 = (1 << 27) - 1;

/// Kinds of records beside those of events, by the five bits.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Of the 64 bits of an absolute stamp a record holds all but these.
const HIGH_BITS: u64 = 0xf8 << 56;

/// What a page may be at most; the kernel's are 4 to 64 KiB unless they were
/// set larger.
const MAX_PAGE: usize = 16 << 20;

impl PageLayout {
    /// Reads the text of `header_page`.
    pub fn parse(text: &str) -> Option<Self> {
        let fields = format::fields(text);
        let of = |name: &str| fields.iter().find(|field| field.name() == name);
        let (commit, data) = (of("commit")?.offset(), of("data")?);
        let page = data.offset().checked_add(data.size())?;
        (commit >= 8 && data.offset() >= commit + 4 && page <= MAX_PAGE).then_some(Self {
            commit,
            data: data.offset(),
            page,
        })
    }

    /// How long a page is.
    pub fn page_bytes(&self) -> usize {
        self.page
    }

    /// What is in a page; nothing in one that is cut off before its records.
    pub fn page<'a>(&self, bytes: &'a [u8]) -> Page<'a> {
        let word = |at: usize| match bytes.get(at..at + 4) {
            Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
            _ => 0,
        };
        let commit = word(self.commit);
        let end = self.data + (commit & LENGTH) as usize;
        let data = bytes.get(self.data..end.min(bytes.len()));
        Page {
            at: u64::from(word(0)) | u64::from(word(4)) << 32,
            rest: data.unwrap_or_default(),
            missed: commit & MISSED != 0,
        }
    }
}

/// A page; iterates over its records.
#[derive(Debug, Clone)]
pub struct Page<'a> {
    at: u64,
    rest: &'a [u8],
    missed: bool,
}

/// What the kernel wrote of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Stamp, by the buffer's clock.
    pub at: u64,
    /// As its format says.
    pub data: &'a [u8],
}

impl Page<'_> {
    /// The stamp of its first record.
    pub fn begins_at(&self) -> u64 {
        self.at
    }

    /// Whether records were lost before it.
    pub fn missed(&self) -> bool {
        self.missed
    }
}

impl<'a> Iterator for Page<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            let head = take_word(&mut self.rest)?;
            let (kind, since) = (head & 0x1f, u64::from(head >> 5));
            match kind {
                PADDING if since == 0 => {
                    self.rest = &[];
                    return None;
                }
                // One that was discarded.
                PADDING => {
                    self.at = self.at.wrapping_add(since);
                    let length = take_word(&mut self.rest)? as usize;
                    self.rest = self.rest.get(length.saturating_sub(4)..)?;
                }
                TIME_EXTEND => {
                    let high = u64::from(take_word(&mut self.rest)?);
                    self.at = self.at.wrapping_add((high << 27) + since);
                }
                TIME_STAMP => {
                    let high = u64::from(take_word(&mut self.rest)?);
                    self.at = absolute((high << 27) + since, self.at);
                }
                words => {
                    self.at = self.at.wrapping_add(since);
                    let length = match words {
                        // It stands before the data and counts itself.
                        0 => (take_word(&mut self.rest)? as usize).checked_sub(4)?,
                        words => words as usize * 4,
                    };
                    let data = self.rest.get(..length)?;
                    self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
                    return Some(Record { at: self.at, data });
                }
            }
        }
    }
}

/// An absolute stamp with the bits that it lacks, from the one before
/// (`rb_fix_abs_ts`).
fn absolute(stamp: u64, before: u64) -> u64 {
    if before & HIGH_BITS == 0 {
        return stamp;
    }
    let stamp = stamp | before & HIGH_BITS;
    if stamp < before {
        stamp.wrapping_add(1 << 59)
    } else {
        stamp
    }
}

fn take_word(from: &mut &[u8]) -> Option<u32> {
    let (word, rest) = from.split_first_chunk::<4>()?;
    *from = rest;
    Some(u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Of Linux 6.18, x86-64.
    const HEADER: &str = "\
	field: u64 timestamp;	offset:0;	size:8;	signed:0;
	field: local_t commit;	offset:8;	size:8;	signed:1;
	field: int overwrite;	offset:8;	size:1;	signed:1;
	field: char data;	offset:16;	size:4080;	signed:0;
";

    fn layout() -> PageLayout {
        PageLayout::parse(HEADER).unwrap()
    }

    /// A page as the kernel writes it.
    fn page(begin: u64, records: &[(u64, Vec<u8>)], missed: bool) -> Vec<u8> {
        let mut data = Vec::new();
        let mut last = begin;
        for (at, bytes) in records {
            let since = at - last;
            if since >= 1 << 27 {
                let low = (since & ((1 << 27) - 1)) as u32;
                data.extend((TIME_EXTEND | low << 5).to_le_bytes());
                data.extend(((since >> 27) as u32).to_le_bytes());
            }
            let since = if since >= 1 << 27 { 0 } else { since as u32 };
            let padded = bytes.len().next_multiple_of(4);
            match padded / 4 {
                words @ 1..=28 if padded == bytes.len() => {
                    data.extend((words as u32 | since << 5).to_le_bytes());
                }
                _ => {
                    data.extend((since << 5).to_le_bytes());
                    data.extend((bytes.len() as u32 + 4).to_le_bytes());
                }
            }
            data.extend(bytes);
            data.resize(data.len() + padded - bytes.len(), 0);
            last = *at;
        }
        let mut page = begin.to_le_bytes().to_vec();
        let commit = data.len() as u64 | u64::from(missed) << 31;
        page.extend(commit.to_le_bytes());
        page.extend(data);
        page.resize(4096.max(page.len()), 0xee);
        page
    }

    #[test]
    fn records_have_stamps_and_data() {
        let long = vec![7; 130];
        let records = [
            (1000, vec![1, 0, 0, 0]),
            (1000, vec![2; 8]),
            (5_000_000_000, long.clone()),
            (5_000_000_001, vec![4; 12]),
        ];
        let bytes = page(1000, &records, true);
        let read = layout().page(&bytes);
        assert!(read.missed() && read.begins_at() == 1000);
        let back: Vec<(u64, Vec<u8>)> = read.map(|r| (r.at, r.data.to_vec())).collect();
        assert_eq!(back, records);
        assert!(!layout().page(&page(0, &[], false)).missed());
    }

    #[test]
    fn discarded_ones_and_absolute_stamps() {
        let high = 0x18u64 << 56;
        let mut bytes = (high | 90).to_le_bytes().to_vec();
        let mut data = Vec::new();
        // Discarded: 8 bytes beside its word.
        data.extend((PADDING | 5 << 5).to_le_bytes());
        data.extend(8u32.to_le_bytes());
        data.extend([0; 4]);
        data.extend((1u32 | 5 << 5).to_le_bytes());
        data.extend([1; 4]);
        data.extend((TIME_STAMP | 7 << 5).to_le_bytes());
        data.extend(2u32.to_le_bytes());
        data.extend(1u32.to_le_bytes());
        data.extend([2; 4]);
        data.extend(PADDING.to_le_bytes());
        data.extend([9; 8]);
        bytes.extend((data.len() as u64).to_le_bytes());
        bytes.extend(data);
        let stamps: Vec<u64> = layout().page(&bytes).map(|record| record.at).collect();
        assert_eq!(stamps, [high | 100, high | ((2 << 27) + 7)]);
        // The bits above it went on.
        assert_eq!(absolute(5, high | ((1 << 59) - 1)), high + (1 << 59) + 5);
    }

    #[test]
    fn what_is_no_layout_is_none() {
        assert_eq!(layout().page_bytes(), 4096);
        let part = "field: u64 timestamp; offset:0; size:8;";
        assert_eq!(PageLayout::parse(part), None);
        let huge = HEADER.replace("size:4080", "size:99999999999");
        assert_eq!(PageLayout::parse(&huge), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            steps in prop::collection::vec((0u64..1 << 40, prop::collection::vec(any::<u8>(), 1..150)), 0..20),
            begin in 0u64..1 << 58,
        ) {
            let mut at = begin;
            let records: Vec<(u64, Vec<u8>)> = steps
                .into_iter()
                .enumerate()
                .map(|(n, (step, bytes))| {
                    at += if n == 0 { 0 } else { step };
                    (at, bytes)
                })
                .collect();
            let bytes = page(begin, &records, false);
            let back: Vec<(u64, Vec<u8>)> = layout()
                .page(&bytes)
                .map(|record| (record.at, record.data.to_vec()))
                .collect();
            prop_assert_eq!(back, records);
        }

        #[test]
        fn anything_may_stand_there(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
            for record in layout().page(&bytes) {
                prop_assert!(record.data.len() <= bytes.len());
            }
        }
    }
}
