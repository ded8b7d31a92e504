//! Reads a write-ahead log as bytes. SQLite chains the checksums of its frames, and silently stops reading at
//! the first one that does not fit. Such a frame is usual after a crash in the middle of a commit. If the
//! ledger is also behind its position, acknowledged commits were cut off, and this module says where.

use std::io::Read;

use crate::report::{LogReport, LogStop};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MAGIC_LITTLE: u32 = 0x377f_0682;
const MAGIC_BIG: u32 = 0x377f_0683;
const PAGE_BYTES: (u32, u32) = (512, 65_536);

/// The running checksum: two sums over pairs of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WalChecksum {
    one: u32,
    two: u32,
}

/// Reads a log to its end. Fails only if reading fails.
pub(crate) fn read(mut log: impl Read) -> std::io::Result<LogReport> {
    let mut report = LogReport { frames: 0, frames_valid: 0, commits_valid: 0, commits_behind: 0, stop: None };
    let mut header = [0; HEADER_BYTES];
    let read = fill(&mut log, &mut header)?;
    if read == 0 {
        return Ok(report);
    }
    let Some((big, page_bytes, salts, mut sums)) = (read == HEADER_BYTES).then(|| of_header(&header)).flatten() else {
        report.stop = Some(LogStop::Header);
        return Ok(report);
    };
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    loop {
        let read = fill(&mut log, &mut frame)?;
        let of_this_turn = read >= 16 && frame.get(8..16) == Some(&salts[..]);
        if read == 0 || (read >= 16 && !of_this_turn) {
            return Ok(report);
        }
        report.frames += 1;
        if read < frame.len() {
            report.stop = report.stop.or(Some(LogStop::Cut(report.frames)));
            report.commits_behind += u64::from(of_this_turn && word(&frame, 4, true) != Some(0));
            return Ok(report);
        }
        let ends_commit = word(&frame, 4, true) != Some(0);
        if report.stop.is_none() {
            sums = sums.over(frame.get(..8), big).over(frame.get(FRAME_HEADER_BYTES..), big);
            if Some(sums) == WalChecksum::at(&frame, 16) {
                report.frames_valid += 1;
                report.commits_valid += u64::from(ends_commit);
                continue;
            }
            report.stop = Some(LogStop::Checksum(report.frames));
        }
        report.commits_behind += u64::from(ends_commit);
    }
}

/// Byte order of the checksums, page size, salts, and the checksum to continue from.
fn of_header(header: &[u8; HEADER_BYTES]) -> Option<(bool, usize, [u8; 8], WalChecksum)> {
    let big = match word(header, 0, true)? {
        MAGIC_LITTLE => false,
        MAGIC_BIG => true,
        _ => return None,
    };
    let page_bytes = word(header, 8, true).filter(|bytes| (PAGE_BYTES.0..=PAGE_BYTES.1).contains(bytes))?;
    let sums = WalChecksum { one: 0, two: 0 }.over(header.get(..24), big);
    let salts = <[u8; 8]>::try_from(header.get(16..24)?).ok()?;
    (Some(sums) == WalChecksum::at(header, 24)).then_some((big, usize::try_from(page_bytes).ok()?, salts, sums))
}

impl WalChecksum {
    fn over(self, bytes: Option<&[u8]>, big: bool) -> Self {
        let Self { mut one, mut two } = self;
        for pair in bytes.unwrap_or_default().chunks_exact(8) {
            one = one.wrapping_add(word(pair, 0, big).unwrap_or_default()).wrapping_add(two);
            two = two.wrapping_add(word(pair, 4, big).unwrap_or_default()).wrapping_add(one);
        }
        Self { one, two }
    }

    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        Some(Self { one: word(bytes, at, true)?, two: word(bytes, at + 4, true)? })
    }
}

fn word(bytes: &[u8], at: usize, big: bool) -> Option<u32> {
    let word = <[u8; 4]>::try_from(bytes.get(at..at + 4)?).ok()?;
    Some(if big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
}

/// Reads until the buffer is full or the log ends. Returns how much was read.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match log.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests;
