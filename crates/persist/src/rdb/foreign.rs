//! The names of value types that files contain and this server lacks.
//!
//! A file stores a module's type as a 64-bit number: nine letters of six bits each, the first in the
//! highest bits, and ten bits for the version of the module's encoding.

use std::fmt;

/// A type of value that this server lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForeignType {
    /// A value of a module's type.
    Module(ModuleType),
    /// Paths with fields and values, a type of Valkey 9.2.
    PathHash,
}

impl fmt::Display for ForeignType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForeignType::Module(module) => write!(f, "{module} (of a module)"),
            ForeignType::PathHash => f.write_str("path hash"),
        }
    }
}

/// The type of a module: its name and the version of its encoding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleType(pub u64);

impl ModuleType {
    /// The version of the encoding, below 1,024; each module counts its own versions.
    pub fn encoding_version(self) -> u16 {
        (self.0 & ((1 << VERSION_BITS) - 1)) as u16
    }
}

/// The nine letters of the type's name.
impl fmt::Display for ModuleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..NAME_LETTERS).rev().try_for_each(|at| {
            let letter = self.0 >> (VERSION_BITS + at * LETTER_BITS) & (LETTERS.len() as u64 - 1);
            write!(f, "{}", char::from(LETTERS[letter as usize]))
        })
    }
}

impl fmt::Debug for ModuleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {}", self.encoding_version())
    }
}

const VERSION_BITS: u32 = 10;
const NAME_LETTERS: u32 = 9;
const LETTER_BITS: u32 = 6;
/// The letter for each value of six bits.
const LETTERS: &[u8; 1 << LETTER_BITS] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_name_that_its_module_chose() {
        for (number, name, version) in [
            (0x45e2_5238_df91_2c03, "ReJSON-RL", 3),
            (0x7edf_e29d_d7b1_d000, "ft_index0", 0),
            (0x3016_e5a2_89be_f804, "MBbloom--", 4),
            (0, "AAAAAAAAA", 0),
            (u64::MAX, "_________", 1023),
        ] {
            let module = ModuleType(number);
            assert_eq!((module.to_string().as_str(), module.encoding_version()), (name, version));
        }
    }
}
