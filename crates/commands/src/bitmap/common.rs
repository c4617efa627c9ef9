//! Arguments shared by the files of this family.

use crate::error::CmdError;
use sluice_base::num::parse_i64;

pub(crate) const BAD_OFFSET: CmdError = CmdError::text("ERR bit offset is not an integer or out of range");

/// Offset of a bit given by `word`, in the largest string of `bytes_max` bytes.
pub(crate) fn bit_offset(word: &[u8], bytes_max: usize) -> Result<usize, CmdError> {
    checked_offset(parse_i64(word), bytes_max)
}

/// Checks that an offset lies in the largest string, of `bytes_max` bytes.
pub(crate) fn checked_offset(offset: Option<i64>, bytes_max: usize) -> Result<usize, CmdError> {
    let offset = offset.and_then(|offset| usize::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < bytes_max).ok_or(BAD_OFFSET)
}
