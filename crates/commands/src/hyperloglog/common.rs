//! Look-ups shared by the files of this family.

use crate::error::CmdError;
use sluice_keyspace::{Entry, Str};
use sluice_value::hll::{self, Corrupt, Hll, HllEncoding, NotHll};

impl From<NotHll> for CmdError {
    fn from(_: NotHll) -> CmdError {
        CmdError::text("WRONGTYPE Key is not a valid HyperLogLog string value.")
    }
}

impl From<Corrupt> for CmdError {
    fn from(_: Corrupt) -> CmdError {
        CmdError::text("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// The string of an entry that holds a HyperLogLog, the encoding of the registers, and the
/// header before them.
pub(crate) fn checked(entry: Entry<'_>) -> Result<(Str<'_>, HllEncoding, [u8; 16]), CmdError> {
    let text = entry.as_str()?;
    let mut header = [0; 16];
    text.copy_at(0, &mut header);
    let header_len = text.len().min(header.len());
    let encoding = hll::encoding_of(text.len(), &header[..header_len])?;
    Ok((text, encoding, header))
}

/// A copy of the HyperLogLog of an entry.
pub(crate) fn read(entry: Entry<'_>) -> Result<Hll, CmdError> {
    Ok(Hll::read(checked(entry)?.0.to_vec())?)
}
