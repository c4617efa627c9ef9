//! The checksum at the end of a file or of a DUMP payload: CRC-64 of Jones, over everything before it.

use crc::{CRC_64_REDIS, Crc, Digest, Table};

static TABLE: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// A checksum that is being computed.
#[derive(Clone)]
pub(super) struct Sum(Digest<'static, u64, Table<16>>);

impl std::fmt::Debug for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sum({:016x})", self.value())
    }
}

impl Sum {
    pub(super) fn new() -> Sum {
        Sum(TABLE.digest())
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.clone().finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_reference_s() {
        let mut sum = Sum::new();
        sum.add(b"12345");
        sum.add(b"6789");
        assert_eq!(sum.value(), 0xe9c6_d914_c4b8_d9ca);
    }
}
