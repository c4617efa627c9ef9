//! Commands to propagate whose bytes are made later, because there may be many: the command that removes a
//! million members of a set takes twenty megabytes.
//!
//! The length is known at once, and so is every later position of the stream. Each reader of the stream
//! makes the bytes for itself, piece by piece, from values that are no longer part of the data.
//!
//! Invariant: (1) the pieces together have as many bytes as were promised.

use sluice_value::Value;

/// Commands to propagate, encoded one after the other as in the replication stream.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct EncodedCommands {
    /// RESP arrays of bulk strings.
    pub bytes: Vec<u8>,
    /// Number of commands in `bytes`.
    pub count: usize,
}

/// A source that makes the bytes of the commands, piece by piece.
pub trait CommandSource: Send + std::fmt::Debug {
    /// A second source of the remaining bytes. Cost: O(1), or one step for each remaining value.
    fn share(&self) -> Box<dyn CommandSource>;

    /// Appends the next bytes to `out`, about `bytes` bytes, but at least one. Values that are no longer
    /// needed go to `garbage`.
    fn go_on(&mut self, bytes: usize, out: &mut Vec<u8>, garbage: &mut Vec<Value>);

    /// Heap bytes of the remaining values, even if they have other owners.
    fn heap_bytes(&self) -> usize;
}

/// Commands whose bytes a [`CommandSource`] makes later, with their known length.
#[derive(Debug)]
pub struct PromisedCommands {
    source: Box<dyn CommandSource>,
    count: usize,
    left: usize,
}

impl PromisedCommands {
    /// `count` commands with a total length of `bytes` bytes; both must be above 0.
    pub fn new(count: usize, bytes: usize, source: Box<dyn CommandSource>) -> PromisedCommands {
        PromisedCommands { source, count, left: bytes }
    }

    /// Number of commands, including those already encoded.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of bytes not made yet.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Heap bytes of the remaining values, even if they have other owners.
    pub fn heap_bytes(&self) -> usize {
        self.source.heap_bytes()
    }

    /// The remaining bytes, for another reader.
    #[must_use]
    pub fn share(&self) -> PromisedCommands {
        PromisedCommands { source: self.source.share(), count: self.count, left: self.left }
    }

    /// Appends the next bytes, about `bytes`, unless none remain. Values that are no longer needed
    /// go to `garbage`.
    pub fn go_on(&mut self, bytes: usize, out: &mut Vec<u8>, garbage: &mut Vec<Value>) {
        if self.left == 0 {
            return;
        }
        let before = out.len();
        self.source.go_on(bytes, out, garbage);
        let made = out.len() - before;
        // A wrong number of bytes cannot be tolerated, because the positions of later bytes of the stream
        // are already assigned.
        assert!(made > 0 && made <= self.left, "commands have the length that was promised");
        self.left -= made;
    }

    /// All remaining bytes at once, for a reader that needs them now.
    pub fn encoded(&self) -> EncodedCommands {
        let (mut twin, mut bytes) = (self.share(), Vec::with_capacity(self.left));
        while twin.left > 0 {
            twin.go_on(twin.left, &mut bytes, &mut Vec::new());
        }
        EncodedCommands { bytes, count: self.count }
    }
}
