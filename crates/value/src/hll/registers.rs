//! Registers, and the register that an element raises.

use sluice_base::murmur::murmur64a;

/// The operations of a sparse HyperLogLog do not cover its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// The value of each register.
pub type Registers = [u8; REGISTERS];

/// Number of registers of a HyperLogLog.
pub const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// Bits of a hash from which a register's value is computed.
pub(super) const VALUE_BITS: u32 = 64 - INDEX_BITS;
pub(super) const HEADER_BYTES: usize = 16;
pub(super) const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * 6 / 8;
const HASH_SEED: u64 = 0xadc8_3b19;

/// The register that an element belongs to, and the least value that the register must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterMark {
    pub(super) register: usize,
    pub(super) value: u8,
}

impl RegisterMark {
    /// The mark of an element, computed from its hash.
    pub fn of(element: &[u8]) -> RegisterMark {
        let hash = murmur64a(element, HASH_SEED);
        let rest = hash >> INDEX_BITS | 1 << VALUE_BITS;
        RegisterMark { register: hash as usize & (REGISTERS - 1), value: rest.trailing_zeros() as u8 + 1 }
    }

    /// Offset of the mark's register in a dense string, and the number of bytes that hold it, 1 or 2.
    pub fn dense_range(self) -> (usize, usize) {
        let at = HEADER_BYTES + self.register * 6 / 8;
        (at, 2.min(DENSE_BYTES - at))
    }

    /// The bytes of [`RegisterMark::dense_range`] with the register raised; `None` if the register has
    /// the mark's value or a higher one already.
    pub fn raised_dense(self, bytes: [u8; 2]) -> Option<[u8; 2]> {
        let shift = self.register * 6 % 8;
        let word = u16::from_le_bytes(bytes);
        if (word >> shift) as u8 & 63 >= self.value {
            return None;
        }
        Some((word & !(63 << shift) | u16::from(self.value) << shift).to_le_bytes())
    }

    pub(super) fn new(register: usize, value: u8) -> RegisterMark {
        debug_assert!(register < REGISTERS);
        RegisterMark { register, value }
    }
}
