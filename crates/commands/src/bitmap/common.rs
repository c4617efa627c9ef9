//! What several files of this family use: arguments, look-ups, replies.

use crate::error::CmdError;
use crate::limits::Limits;
use sluice_base::num::parse_i64;

pub(crate) const BAD_OFFSET: CmdError = CmdError::text("ERR bit offset is not an integer or out of range");

/// A bit's offset.
pub(crate) fn bit_offset(word: &[u8], limits: &Limits) -> Result<usize, CmdError> {
    checked_offset(parse_i64(word), limits)
}

/// An offset that lies in the largest string.
pub(crate) fn checked_offset(offset: Option<i64>, limits: &Limits) -> Result<usize, CmdError> {
    let offset = offset.and_then(|offset| usize::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < limits.proto_max_bulk_len).ok_or(BAD_OFFSET)
}
