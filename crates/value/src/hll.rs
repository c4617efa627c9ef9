//! HyperLogLogs: estimates of the number of distinct elements, in strings with the reference's bytes.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 4 | `HYLL` |
//! | 4 | 1 | encoding: 0 dense, 1 sparse |
//! | 5 | 3 | not used |
//! | 8 | 8 | the estimate, little endian; the last byte's high bit says that it is out of date |
//! | 16 | … | the registers |
//!
//! The dense encoding has 16,384 registers of six bits; the first register is in the low bits of the first
//! byte. The sparse encoding has operations, each for consecutive registers: `00xxxxxx` stands for x + 1
//! zeros, `01xxxxxx yyyyyyyy` for more zeros, whose number less one has these fourteen bits, and
//! `1vvvvvxx` for x + 1 registers of the value v + 1.
//!
//! Invariants: (1) the bytes come from clients: a string of any bytes is read without a panic, and a function
//! that reads all operations returns [`Corrupt`] if they do not cover the registers exactly; (2) an update of
//! a sparse string yields the same operations as in the reference, so that dumps are equal.

mod estimate;
mod registers;
mod sparse;

pub use registers::{Corrupt, REGISTERS, RegisterMark, Registers};

use registers::{DENSE_BYTES, HEADER_BYTES};
use sluice_collections::bits;

/// The whole string of a HyperLogLog while it is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hll(Vec<u8>);

/// The encoding of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HllEncoding {
    /// Six bits for each of the 16,384 registers.
    Dense,
    /// Run-length operations, for few elements.
    Sparse,
}

/// The string is no HyperLogLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHll;

const MAGIC: &[u8; 4] = b"HYLL";

/// The encoding of the registers in a string of `len` bytes.
///
/// # Errors
/// The string is no HyperLogLog.
pub fn encoding_of(len: usize, header: &[u8]) -> Result<HllEncoding, NotHll> {
    let header = header.first_chunk::<HEADER_BYTES>().filter(|header| header.starts_with(MAGIC));
    match header.map(|header| header[4]) {
        Some(0) if len == DENSE_BYTES => Ok(HllEncoding::Dense),
        Some(1) => Ok(HllEncoding::Sparse),
        Some(_) | None => Err(NotHll),
    }
}

/// The estimate that the string stores, unless it is out of date.
pub fn kept_estimate(header: &[u8]) -> Option<u64> {
    let bytes = header.get(8..)?.first_chunk::<8>()?;
    (bytes[7] & OUT_OF_DATE == 0).then(|| u64::from_le_bytes(*bytes))
}

/// The bytes of an estimate, marked as out of date.
pub fn invalidated(mut estimate: [u8; 8]) -> [u8; 8] {
    estimate[7] |= OUT_OF_DATE;
    estimate
}

/// The estimate for a union of HyperLogLogs whose combined registers these are.
pub fn estimate(registers: &Registers) -> u64 {
    estimate::of_registers(registers)
}

/// Raises each of `registers` to the value that it has in `bytes`, a HyperLogLog string with a valid header.
///
/// # Errors
/// The operations do not cover the registers.
pub fn merge(bytes: &[u8], encoding: HllEncoding, registers: &mut Registers) -> Result<(), Corrupt> {
    let bytes = bytes.get(HEADER_BYTES..).unwrap_or_default();
    match encoding {
        HllEncoding::Dense => bits::raise_six_bits(bytes, registers),
        HllEncoding::Sparse => sparse::merge(bytes, registers)?,
    }
    Ok(())
}

impl Hll {
    /// A HyperLogLog without elements, in the sparse encoding.
    pub fn empty() -> Hll {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = 1;
        sparse::push_zeros(&mut bytes, REGISTERS);
        Hll(bytes)
    }

    /// A HyperLogLog with the string `bytes`.
    ///
    /// # Errors
    /// The string is no HyperLogLog.
    pub fn read(bytes: Vec<u8>) -> Result<Hll, NotHll> {
        encoding_of(bytes.len(), &bytes)?;
        Ok(Hll(bytes))
    }

    /// The string as it is stored under the key.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The string, moved out.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The encoding of the registers.
    pub fn encoding(&self) -> HllEncoding {
        if self.0[4] == 0 { HllEncoding::Dense } else { HllEncoding::Sparse }
    }

    /// Raises the register that an element belongs to (`mark`) to the mark's value; returns whether that
    /// changed the register. A sparse HyperLogLog becomes dense if it would need more than `sparse_bytes_max`
    /// bytes, or if its operations cannot express the value.
    ///
    /// # Errors
    /// The operations examined are malformed.
    pub fn add(&mut self, mark: RegisterMark, sparse_bytes_max: usize) -> Result<bool, Corrupt> {
        match self.encoding() {
            HllEncoding::Dense => {}
            HllEncoding::Sparse => match sparse::raise(&mut self.0, mark, sparse_bytes_max)? {
                sparse::Raised::Yes => return Ok(true),
                sparse::Raised::No => return Ok(false),
                sparse::Raised::TooLarge => self.make_dense()?,
            },
        }
        let (at, len) = mark.dense_range();
        let mut bytes = [0; 2];
        bytes[..len].copy_from_slice(&self.0[at..at + len]);
        let Some(raised) = mark.raised_dense(bytes) else { return Ok(false) };
        self.0[at..at + len].copy_from_slice(&raised[..len]);
        Ok(true)
    }

    /// Converts the registers to the dense encoding; the stored estimate stays.
    ///
    /// # Errors
    /// The operations do not cover the registers.
    pub fn make_dense(&mut self) -> Result<(), Corrupt> {
        if self.encoding() == HllEncoding::Dense {
            return Ok(());
        }
        let mut registers = [0; REGISTERS];
        self.merge_into(&mut registers)?;
        let mut bytes = vec![0; DENSE_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(&self.0[..HEADER_BYTES]);
        bytes[4] = 0;
        bits::pack_six_bits(&registers, &mut bytes[HEADER_BYTES..]);
        self.0 = bytes;
        Ok(())
    }

    /// Raises each of `registers` to the value in this HyperLogLog.
    ///
    /// # Errors
    /// The operations do not cover the registers.
    pub fn merge_into(&self, registers: &mut Registers) -> Result<(), Corrupt> {
        merge(&self.0, self.encoding(), registers)
    }

    /// Replaces all registers. A sparse HyperLogLog becomes dense first.
    ///
    /// # Errors
    /// The operations of a sparse HyperLogLog do not cover the registers.
    pub fn set_dense(&mut self, registers: &Registers) -> Result<(), Corrupt> {
        self.make_dense()?;
        bits::pack_six_bits(registers, &mut self.0[HEADER_BYTES..]);
        Ok(())
    }

    /// Raises each register of this HyperLogLog to the value in `registers`.
    ///
    /// # Errors
    /// The operations do not cover the registers.
    pub fn merge_from(&mut self, registers: &Registers, sparse_bytes_max: usize) -> Result<(), Corrupt> {
        for (register, value) in registers.iter().enumerate() {
            if self.encoding() == HllEncoding::Dense {
                // In the dense form all registers are raised together.
                let mut all = *registers;
                bits::raise_six_bits(&self.0[HEADER_BYTES..], &mut all);
                bits::pack_six_bits(&all, &mut self.0[HEADER_BYTES..]);
                return Ok(());
            }
            if *value > 0 {
                self.add(RegisterMark::new(register, *value), sparse_bytes_max)?;
            }
        }
        Ok(())
    }

    /// Computes the estimate from the registers.
    ///
    /// # Errors
    /// The operations do not cover the registers.
    pub fn estimate(&self) -> Result<u64, Corrupt> {
        let mut registers = [0; REGISTERS];
        self.merge_into(&mut registers)?;
        Ok(estimate::of_registers(&registers))
    }

    /// Marks the stored estimate as out of date.
    pub fn invalidate_estimate(&mut self) {
        self.0[ESTIMATE.end - 1] |= OUT_OF_DATE;
    }

    /// The operations of a sparse HyperLogLog as text; `None` for a dense one.
    pub fn decoded(&self) -> Option<String> {
        match self.encoding() {
            HllEncoding::Dense => None,
            HllEncoding::Sparse => Some(sparse::text(&self.0[HEADER_BYTES..])),
        }
    }
}

/// The range of the stored estimate in the string.
pub const ESTIMATE: std::ops::Range<usize> = 8..16;
/// The bit of the estimate's last byte that marks it as out of date.
const OUT_OF_DATE: u8 = 0x80;

#[cfg(test)]
mod tests;
