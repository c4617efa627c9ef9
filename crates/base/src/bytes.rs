//! Shared bytes: a large value that a reply can hold while the keyspace holds it too.

use crate::heap;
use std::sync::Arc;

/// Reference-counted bytes, one word wide. Cloning is an atomic increment; writing needs [`Bytes::make_mut`],
/// which copies when another owner holds the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(Arc<Vec<u8>>);

impl Bytes {
    /// Takes the vector without a copy.
    pub fn from_vec(bytes: Vec<u8>) -> Bytes {
        Bytes(Arc::new(bytes))
    }

    /// Copies `bytes` into a vector of exactly that capacity.
    pub fn copy_from(bytes: &[u8]) -> Bytes {
        Bytes(Arc::new(bytes.to_vec()))
    }

    /// The vector, to be changed in place. A shared vector is copied first.
    pub fn make_mut(&mut self) -> &mut Vec<u8> {
        Arc::make_mut(&mut self.0)
    }

    /// The vector, when these bytes have no other owner.
    ///
    /// # Errors
    /// The bytes themselves, when another owner holds them.
    pub fn into_vec(self) -> Result<Vec<u8>, Bytes> {
        Arc::try_unwrap(self.0).map_err(Bytes)
    }

    /// Whether these bytes have another owner.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Bytes of heap memory, as the allocator rounds them: the contents, the vector's header and the counts
    /// of owners.
    pub fn footprint(&self) -> usize {
        heap::counted::<Vec<u8>>() + heap::vec(&self.0)
    }

    /// Bytes allocated for the contents.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
