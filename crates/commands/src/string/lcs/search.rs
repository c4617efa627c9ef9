//! The search for the longest common subsequence.

use crate::error::CmdError;
use sluice_resp::Reply;

/// The requested form of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LcsReply {
    Bytes,
    Length,
    Matches,
}

#[derive(Debug)]
pub(crate) struct LcsOptions {
    pub(super) asked: LcsReply,
    /// Shortest match that is reported; 0 or less: all matches are reported.
    pub(super) match_len_min: i64,
    pub(super) with_match_len: bool,
}

/// A run of equal bytes: its position in both strings, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    a: usize,
    b: usize,
    len: usize,
}

/// Refuses strings of about 4 GiB or more, and strings for which a table of four-byte lengths would exceed
/// `bytes_max`. The search takes time in proportion to the size of that table, although it does not need that
/// much memory.
pub(crate) fn check_size(a: usize, b: usize, bytes_max: usize) -> Result<(), CmdError> {
    if a.max(b) >= u32::MAX as usize - 1 {
        return Err(CmdError::text("ERR String too long for LCS"));
    }
    match (a + 1).checked_mul(b + 1).and_then(|cells| cells.checked_mul(4)) {
        Some(bytes) if bytes <= bytes_max => Ok(()),
        _ => Err(CmdError::text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        )),
    }
}

struct CommonRun {
    /// Length of the whole subsequence.
    len: usize,
    /// The runs of equal bytes, last first.
    matches: Vec<Match>,
}

const NO_MEMORY: CmdError =
    CmdError::text("ERR Insufficient memory, failed allocating transient memory for LCS");

/// A search in progress. It has the last filled row of the table, and the bits of all filled rows.
#[derive(Debug)]
pub(crate) struct Search {
    row: Vec<u32>,
    /// Number of rows that are filled.
    filled: usize,
    /// The bits of each row; empty if only the length is requested.
    bits: Vec<u64>,
}

impl Search {
    pub(crate) fn new(a: &[u8], b: &[u8], asked: LcsReply) -> Result<Search, CmdError> {
        let words = match asked {
            LcsReply::Length => 0,
            LcsReply::Bytes | LcsReply::Matches => a.len() * words_of_row(b),
        };
        Ok(Search { row: zeros(b.len())?, filled: 0, bits: zeros(words)? })
    }

    /// Fills up to `rows_max` more rows of the table; the result is whether all are filled.
    pub(crate) fn fill(&mut self, a: &[u8], b: &[u8], rows_max: usize) -> bool {
        let Search { row, filled, bits } = self;
        let (words, keeps_bits) = (words_of_row(b), !bits.is_empty());
        let first = *filled;
        *filled = first.saturating_add(rows_max).min(a.len());
        for (i, &x) in a.iter().enumerate().take(*filled).skip(first) {
            let (mut left, mut corner) = (0, 0);
            for (n, (above, bytes)) in row.chunks_mut(64).zip(b.chunks(64)).enumerate() {
                let mut word = 0;
                for (bit, (cell, &y)) in above.iter_mut().zip(bytes).enumerate() {
                    let up = *cell;
                    word |= u64::from(up > left) << bit;
                    left = if x == y { corner + 1 } else { up.max(left) };
                    corner = up;
                    *cell = left;
                }
                if keeps_bits {
                    bits[i * words + n] = word;
                }
            }
        }
        *filled == a.len()
    }

    /// The length of the subsequence, once the table is filled.
    fn len(&self) -> usize {
        self.row.last().map_or(0, |last| *last as usize)
    }

    /// Finds the runs of the subsequence by following the bits back from the bottom right corner of the
    /// table.
    fn matches(&self, a: &[u8], b: &[u8]) -> CommonRun {
        let words = words_of_row(b);
        let mut matches = Vec::new();
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            let run = a[..i].iter().rev().zip(b[..j].iter().rev()).take_while(|(x, y)| x == y).count();
            if run > 0 {
                (i, j) = (i - run, j - run);
                matches.push(Match { a: i, b: j, len: run });
            } else if self.bits[(i - 1) * words + (j - 1) / 64] >> ((j - 1) % 64) & 1 == 1 {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        CommonRun { len: self.len(), matches }
    }

    /// Writes the reply, once the table is filled.
    pub(crate) fn reply(&self, reply: &mut Reply<'_>, a: &[u8], b: &[u8], options: &LcsOptions) {
        match options.asked {
            LcsReply::Length => reply.int(self.len() as i64),
            LcsReply::Bytes => {
                let found = self.matches(a, b);
                let mut bytes = Vec::with_capacity(found.len);
                found.matches.iter().rev().for_each(|m| bytes.extend_from_slice(&a[m.a..m.a + m.len]));
                reply.bulk(&bytes);
            }
            LcsReply::Matches => reply_matches(reply, &self.matches(a, b), options),
        }
    }
}

/// Number of words that hold the bits of one row.
fn words_of_row(b: &[u8]) -> usize {
    b.len().div_ceil(64)
}

/// A vector of `len` zeros; an error if there is no memory for it.
fn zeros<T: Clone + Default>(len: usize) -> Result<Vec<T>, CmdError> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(len).map_err(|_| NO_MEMORY)?;
    zeros.resize(len, T::default());
    Ok(zeros)
}

fn reply_matches(reply: &mut Reply<'_>, found: &CommonRun, options: &LcsOptions) {
    let shown = || found.matches.iter().filter(|m| m.len as i64 >= options.match_len_min);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(shown().count());
    for m in shown() {
        reply.array(if options.with_match_len { 3 } else { 2 });
        for start in [m.a, m.b] {
            reply.array(2);
            reply.int(start as i64);
            reply.int((start + m.len - 1) as i64);
        }
        if options.with_match_len {
            reply.int(m.len as i64);
        }
    }
    reply.bulk(b"len");
    reply.int(found.len as i64);
}

#[cfg(test)]
mod tests;
