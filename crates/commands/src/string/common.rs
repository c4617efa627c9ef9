//! Look-ups and replies shared by the files of this family.

use crate::error::CmdError;
use sluice_base::Bytes;
use sluice_keyspace::{Entry, Str};
use sluice_resp::Reply;
use sluice_value::{PAGE_BYTES, Pages, Piece};
use std::ops::Range;

/// Writes a string as a bulk reply. Always inlined, because GET does little else; strings in pages are
/// written by a separate function.
#[inline(always)]
pub(crate) fn reply_str(reply: &mut Reply<'_>, value: Str<'_>) {
    match value {
        Str::Inline(bytes) => reply.bulk(bytes),
        Str::Int(n) => reply.bulk_int(n),
        Str::Shared(bytes) => reply.bulk_shared(bytes),
        Str::Pages(pages) => reply_pages(reply, pages, 0..pages.len()),
    }
}

/// Writes a part of a string in pages as a bulk reply, sharing the pages that are completely in it.
/// `range` lies in the string.
#[cold]
pub(crate) fn reply_pages(reply: &mut Reply<'_>, pages: &Pages, range: Range<usize>) {
    // A single page of zeros is shared for all missing pages.
    let mut zeros = None;
    reply.bulk_header(range.len());
    for piece in pages.pieces(range) {
        match piece {
            Piece::Page(page) => reply.part_shared(page),
            Piece::Part(part) => reply.raw(part),
            Piece::Zeros(PAGE_BYTES) => {
                reply.part_shared(zeros.get_or_insert_with(|| Bytes::copy_from(piece.bytes())));
            }
            Piece::Zeros(_) => reply.raw(piece.bytes()),
        }
    }
    reply.raw(b"\r\n");
}

/// The string of an entry; an error for another type.
#[inline]
pub(crate) fn str_of(entry: Entry<'_>) -> Result<Str<'_>, CmdError> {
    Ok(entry.as_str()?)
}
