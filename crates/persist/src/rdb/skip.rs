//! Skips a value part by part, without keeping any of it.

use super::cursor::{InputCursor, ReadStop, TextHead};
use super::error::Problem;
use super::kind::Part;

/// A value that is being skipped. Memory: one [`RepeatedParts`] for each level of nested parts, of which
/// there are at most three.
#[derive(Debug)]
pub(super) struct Skip {
    stack: Vec<RepeatedParts>,
    /// Number of bytes to skip before the next part.
    bytes: u64,
}

/// Parts that are repeated.
#[derive(Debug)]
struct RepeatedParts {
    parts: &'static [Part],
    /// Index of the next part.
    next: usize,
    /// Number of repetitions left, including the present one.
    left: u64,
}

impl Skip {
    /// A value that consists of these parts.
    pub(super) fn new(parts: &'static [Part]) -> Skip {
        Skip { stack: vec![RepeatedParts { parts, next: 0, left: 1 }], bytes: 0 }
    }

    /// Skips some bytes; returns whether the value has ended. Nothing has changed if more bytes are needed.
    pub(super) fn step(&mut self, cursor: &mut InputCursor<'_>) -> Result<bool, ReadStop> {
        if self.bytes > 0 {
            self.bytes -= cursor.take_some(self.bytes)?.len() as u64;
            return Ok(false);
        }
        let Some(frame) = self.stack.last_mut() else { return Ok(true) };
        let Some(part) = frame.parts.get(frame.next) else {
            frame.left -= 1;
            frame.next = 0;
            if frame.left == 0 {
                self.stack.pop();
            }
            return Ok(false);
        };
        match *part {
            Part::Len => drop(cursor.len()?),
            Part::Text => self.bytes = text_bytes(cursor)?,
            Part::Counted(parts) => {
                let left = cursor.len()?;
                frame.next += 1;
                if left > 0 {
                    self.stack.push(RepeatedParts { parts, next: 0, left });
                }
                return Ok(false);
            }
            Part::Module => {
                let offset = cursor.offset();
                self.bytes = match cursor.len()? {
                    0 => {
                        frame.next += 1;
                        return Ok(false);
                    }
                    1 | 2 => cursor.len().map(|_| 0)?,
                    3 => 4,
                    4 => 8,
                    5 => text_bytes(cursor)?,
                    _ => return cursor.bad(offset, Problem::Module),
                };
                // Another part of the module follows.
                return Ok(false);
            }
        }
        frame.next += 1;
        Ok(false)
    }
}

/// Number of bytes that a text has after its encoded length.
fn text_bytes(cursor: &mut InputCursor<'_>) -> Result<u64, ReadStop> {
    let offset = cursor.offset();
    Ok(match cursor.text_head()? {
        TextHead::Int(_) => 0,
        TextHead::Plain(len) => len,
        TextHead::Lzf { small, len } if len / LZF_GAIN_MAX > small => {
            return cursor.bad(offset, Problem::Compression);
        }
        TextHead::Lzf { small, .. } => small,
    })
}

/// One compressed byte decompresses to at most this many bytes.
const LZF_GAIN_MAX: u64 = 264;
