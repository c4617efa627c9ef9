//! Commands to propagate whose bytes are made later: the removal of a million members of a set takes twenty
//! megabytes.
//!
//! The length is known at once, and with it every later position of the stream. Each receiver makes the bytes
//! for itself, piece by piece, out of values that have left the data.
//!
//! Invariant: (1) the pieces have as many bytes together as were promised.

use sluice_value::Value;

/// Commands to propagate, one behind the other as the stream has them.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct EncodedCommands {
    /// RESP arrays of bulk strings.
    pub bytes: Vec<u8>,
    /// How many they are.
    pub count: usize,
}

/// Makes the bytes of the commands, piece by piece.
pub trait CommandSource: Send + std::fmt::Debug {
    /// A second source of the bytes that are left. O(1), or a step for each value that is left.
    fn share(&self) -> Box<dyn CommandSource>;

    /// Appends the next bytes to `out`, about so many and at least one. Values that are not needed any more
    /// go to `garbage`.
    fn go_on(&mut self, bytes: usize, out: &mut Vec<u8>, garbage: &mut Vec<Value>);

    /// Bytes that the allocator has given for the values that are left, other owners or not.
    fn heap_bytes(&self) -> usize;
}

/// See the module.
#[derive(Debug)]
pub struct PromisedCommands {
    source: Box<dyn CommandSource>,
    count: usize,
    left: usize,
}

impl PromisedCommands {
    /// So many commands of `bytes` bytes together, neither of them none.
    pub fn new(count: usize, bytes: usize, source: Box<dyn CommandSource>) -> PromisedCommands {
        PromisedCommands { source, count, left: bytes }
    }

    /// How many commands there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes that were not made yet.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Bytes that the allocator has given for the values that are left, other owners or not.
    pub fn heap_bytes(&self) -> usize {
        self.source.heap_bytes()
    }

    /// A share of the commands for another receiver, from here on.
    #[must_use]
    pub fn share(&self) -> PromisedCommands {
        PromisedCommands { source: self.source.share(), count: self.count, left: self.left }
    }

    /// Appends the next bytes, about so many, as long as some are left. Values that are not needed any more
    /// go to `garbage`.
    pub fn go_on(&mut self, bytes: usize, out: &mut Vec<u8>, garbage: &mut Vec<Value>) {
        if self.left == 0 {
            return;
        }
        let before = out.len();
        self.source.go_on(bytes, out, garbage);
        let made = out.len() - before;
        // Later bytes of the stream have their positions already.
        assert!(made > 0 && made <= self.left, "commands have the length that was promised");
        self.left -= made;
    }

    /// All of them, for a receiver that knows no promise.
    pub fn encoded(&self) -> EncodedCommands {
        let (mut twin, mut bytes) = (self.share(), Vec::with_capacity(self.left));
        while twin.left > 0 {
            twin.go_on(twin.left, &mut bytes, &mut Vec::new());
        }
        EncodedCommands { bytes, count: self.count }
    }
}
