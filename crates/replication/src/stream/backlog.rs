//! The backlog: the last bytes of the history. All replicas get their bytes from it, and a replica that
//! was disconnected can continue from it.
//!
//! ```text
//!     start                                          tail_start           end
//!       │  sealed, shared with the replicas' output      │ grows: is copied │
//!       [ block ][ block ][       block        ][ block ][ tail.............
//!                    ▲ a replica's next byte
//! ```
//!
//! Invariants: (1) the sealed blocks and the tail cover the history from `start` to `end` without a gap;
//! (2) a sealed block is not empty and never changes; (3) a replica holds nothing but the offset of its
//! next byte: bytes that are not in its output yet are kept here once, however many replicas wait for them;
//! (4) promised bytes are bytes of commands that are encoded later ([`PromisedCommands`]). A block of
//! promised bytes occupies its offsets like any other block. Bytes that have been encoded are split off at
//! its beginning as sealed blocks. The bytes still promised are neither read nor trimmed.
//!
//! Memory: the configured size plus one block, and beyond that the bytes that are not in the slowest
//! replica's output yet, which the output limit bounds. For each replica, at most [`WINDOW_BYTES`] plus one
//! block are queued and not sent yet.

use sluice_base::{Bytes, heap};
use sluice_keyspace::PromisedCommands;
use sluice_resp::Outbox;
use sluice_value::Value;
use std::collections::VecDeque;

/// The last bytes of the history, as sealed blocks and a growing tail.
#[derive(Debug)]
pub struct Backlog {
    sealed: VecDeque<SealedBlock>,
    /// Memory of the sealed blocks.
    sealed_bytes: usize,
    tail: Vec<u8>,
    /// Offset of the tail's first byte.
    tail_start: u64,
    /// Memory of blocks that were trimmed, to be reused for the next tails.
    spare: Vec<Vec<u8>>,
    /// Ends of the sealed blocks whose bytes are promised, in order.
    promises: VecDeque<u64>,
}

#[derive(Debug)]
struct SealedBlock {
    start: u64,
    bytes: Bytes,
    /// Commands that are encoded later. In a block that has some, `bytes` is empty.
    promised: Option<Box<PromisedCommands>>,
}

impl SealedBlock {
    fn len(&self) -> usize {
        self.promised.as_ref().map_or(self.bytes.len(), |commands| commands.left())
    }

    fn end(&self) -> u64 {
        self.start + self.len() as u64
    }
}

impl Backlog {
    /// An empty backlog that begins at this offset of the history.
    pub fn new(offset: u64) -> Backlog {
        let (sealed, tail, spare) = (VecDeque::new(), Vec::new(), Vec::new());
        Backlog { sealed, sealed_bytes: 0, tail, tail_start: offset, spare, promises: VecDeque::new() }
    }

    /// Bytes of heap memory, including promised commands. Cost: O(promised blocks).
    pub fn footprint(&self) -> usize {
        let spare: usize = self.spare.iter().map(heap::vec).sum();
        let promised: usize = self.promised().map(PromisedCommands::heap_bytes).sum();
        heap::deque(&self.sealed)
            + heap::deque(&self.promises)
            + heap::vec(&self.tail)
            + heap::vec(&self.spare)
            + self.sealed_bytes
            + spare
            + promised
    }

    /// The index of the sealed block that ends at this offset.
    fn sealed_until(&self, end: u64) -> usize {
        self.sealed.partition_point(|block| block.end() < end)
    }

    fn promised(&self) -> impl Iterator<Item = &PromisedCommands> {
        let block = |end: &u64| self.sealed.get(self.sealed_until(*end));
        self.promises.iter().filter_map(block).filter_map(|block| block.promised.as_deref())
    }

    /// Offset of the first byte.
    pub fn start(&self) -> u64 {
        self.sealed.front().map_or(self.tail_start, |block| block.start)
    }

    /// Offset after the last byte.
    pub fn end(&self) -> u64 {
        self.tail_start + self.tail.len() as u64
    }

    /// Number of bytes of the history that the backlog has.
    pub fn kept_bytes(&self) -> u64 {
        self.end() - self.start()
    }

    /// Whether the history can be read from this offset on.
    pub fn reaches(&self, offset: u64) -> bool {
        (self.start()..=self.end()).contains(&offset)
    }

    /// The buffer at the end of the backlog. The caller appends about `bytes` bytes to it.
    pub fn tail(&mut self, bytes: usize) -> &mut Vec<u8> {
        if !self.tail.is_empty() && self.tail.len() + bytes > BLOCK_BYTES {
            self.seal();
        }
        if self.tail.capacity() == 0 {
            self.tail = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK_BYTES));
        }
        &mut self.tail
    }

    /// Seals the tail's block if it is full, so that readers share the block and do not copy it. To be
    /// called before replicas read.
    pub(crate) fn seal_full(&mut self) {
        if self.tail.len() >= BLOCK_BYTES {
            self.seal();
        }
    }

    /// Ends the tail's block.
    fn seal(&mut self) {
        let mut bytes = std::mem::take(&mut self.tail);
        if bytes.capacity() > bytes.len() + bytes.len() / 2 {
            // The bytes are copied, because a sealed block would keep its unused room allocated.
            let copy = bytes[..].to_vec();
            bytes.clear();
            self.keep(bytes);
            bytes = copy;
        }
        self.push_sealed(bytes);
    }

    /// Ends the tail after a unit of several commands. A large unit in one block would stay until all of it
    /// can be trimmed, so it is copied into blocks of the usual size. A single large command is not split,
    /// because the copy would only cost time.
    pub(crate) fn split_large(&mut self) {
        if self.tail.len() >= 2 * BLOCK_BYTES {
            let bytes = std::mem::take(&mut self.tail);
            bytes.chunks(BLOCK_BYTES).for_each(|part| self.push_sealed(part.to_vec()));
        }
    }

    fn push_sealed(&mut self, bytes: Vec<u8>) {
        let start = self.tail_start;
        self.tail_start += bytes.len() as u64;
        let bytes = Bytes::from_vec(bytes);
        self.sealed_bytes += bytes.footprint();
        self.sealed.push_back(SealedBlock { start, bytes, promised: None });
    }

    /// Adds commands that are encoded later, by [`Backlog::keep_promises`].
    pub(crate) fn push_promised(&mut self, commands: PromisedCommands) {
        if !self.tail.is_empty() {
            self.seal();
        }
        let start = self.tail_start;
        self.tail_start += commands.left() as u64;
        self.promises.push_back(self.tail_start);
        self.sealed.push_back(SealedBlock {
            start,
            bytes: Bytes::default(),
            promised: Some(Box::new(commands)),
        });
    }

    /// Whether the backlog has promised bytes: bytes of commands that were added and are encoded later.
    #[inline]
    pub(crate) fn has_promises(&self) -> bool {
        !self.promises.is_empty()
    }

    /// Number of promised bytes that are not encoded yet. Cost: O(promised blocks).
    pub(crate) fn promised_left(&self) -> usize {
        self.promised().map(PromisedCommands::left).sum()
    }

    /// Encodes about `bytes` of the first promised bytes. Values that are no longer needed go to `garbage`.
    pub(crate) fn keep_promises(&mut self, bytes: usize, garbage: &mut Vec<Value>) {
        let mut left = bytes;
        while let Some(end) = self.promises.front().filter(|_| left > 0) {
            let at = self.sealed_until(*end);
            let SealedBlock { start, promised: Some(commands), .. } = &mut self.sealed[at] else { return };
            let mut made = Vec::with_capacity(BLOCK_BYTES);
            commands.go_on(BLOCK_BYTES - ARGUMENT_BYTES_MAX, &mut made, garbage);
            left = left.saturating_sub(made.len());
            let made_from = std::mem::replace(start, *start + made.len() as u64);
            if commands.left() == 0 {
                self.promises.pop_front();
                self.sealed.remove(at);
            }
            let bytes = Bytes::from_vec(made);
            self.sealed_bytes += bytes.footprint();
            self.sealed.insert(at, SealedBlock { start: made_from, bytes, promised: None });
        }
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BLOCKS && (BLOCK_BYTES..=2 * BLOCK_BYTES).contains(&buffer.capacity()) {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Frees whole blocks, up to the first promised block, as long as `size` bytes are left and no byte from
    /// `needed` on is lost. `last_look` sees each block before it is freed.
    pub fn trim(&mut self, size: u64, needed: u64, mut last_look: impl FnMut(u64, &Bytes)) {
        while let Some(first) = self.sealed.front()
            && first.promised.is_none()
            && self.kept_bytes() - first.bytes.len() as u64 >= size
            && first.end() <= needed
        {
            let Some(block) = self.sealed.pop_front() else { return };
            self.sealed_bytes -= block.bytes.footprint();
            last_look(block.start, &block.bytes);
            if let Ok(buffer) = block.bytes.into_vec() {
                self.keep(buffer);
            }
        }
    }

    /// Appends the bytes from `from` on to an output, up to the end of the block that fills `room` or up to a
    /// promised block. Returns the offset after the appended bytes. The backlog must reach back to `from`.
    pub fn read(&self, mut from: u64, room: usize, out: &mut Outbox) -> u64 {
        let until = from.saturating_add(room as u64);
        let mut index = self.sealed.partition_point(|block| block.end() <= from);
        while from < until {
            let Some(block) = self.sealed.get(index) else {
                let skipped = usize::try_from(from - self.tail_start).unwrap_or(usize::MAX);
                out.push(self.tail.get(skipped..).unwrap_or_default());
                return self.end();
            };
            if block.promised.is_some() {
                return from;
            }
            let skipped = (from - block.start) as usize;
            match skipped {
                0 if block.bytes.len() > COPIED_BYTES_MAX => out.push_shared(block.bytes.clone()),
                _ => {
                    // From a large block that begins before `from`, only as many bytes are taken as there
                    // is room for.
                    let rest = &block.bytes[skipped..];
                    let len = rest.len().min((until - from).max(BLOCK_BYTES as u64) as usize);
                    out.push(&rest[..len]);
                    from += len as u64;
                    index += usize::from(from == block.end());
                    continue;
                }
            }
            from = block.end();
            index += 1;
        }
        from
    }
}

/// Size in bytes of a block, unless one command has more bytes. The reference's reply blocks have the
/// same size. With this size, few bytes of a block stay unused.
const BLOCK_BYTES: usize = 16 * 1024;
/// Room in bytes that is left free at the end of a block when promised commands are encoded. The block ends
/// with a whole argument, which is seldom longer than this.
const ARGUMENT_BYTES_MAX: usize = 64;
/// Maximum number of bytes of the stream that are queued for a replica and not sent yet.
pub const WINDOW_BYTES: usize = 1 << 20;
/// A block up to this size is copied into an output, because one more range in the send call costs more
/// than the copy.
const COPIED_BYTES_MAX: usize = 512;
/// Maximum number of blocks whose memory is kept for reuse. One suffices, because about one block is trimmed
/// for each block that is sealed.
const SPARE_BLOCKS: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;
    use sluice_keyspace::CommandSource;

    /// Appends `piece` to the backlog as if it were one command, and to `all`.
    fn append(backlog: &mut Backlog, all: &mut Vec<u8>, piece: &[u8]) {
        backlog.tail(piece.len()).extend_from_slice(piece);
        all.extend_from_slice(piece);
    }

    #[test]
    fn readers_at_random_positions_read_the_history_while_it_grows_and_is_trimmed() {
        let mut rng = Rng::new(3);
        for round in 0..200 {
            let size = 1 + rng.below(60_000);
            let (mut backlog, mut all) = (Backlog::new(0), Vec::new());
            let mut readers = [0u64; 3];
            for _ in 0..rng.below(60) {
                let len = if rng.below(8) == 0 { rng.below(80_000) } else { rng.below(3000) };
                let piece: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
                append(&mut backlog, &mut all, &piece);
                assert_eq!(backlog.end(), all.len() as u64);
                let reader = &mut readers[rng.below(3) as usize];
                let (mut out, from) = (Outbox::new(), *reader);
                *reader = backlog.read(from, 1 + rng.below(40_000) as usize, &mut out);
                assert_eq!(out.flatten(), all[from as usize..*reader as usize], "round {round}");
                assert!(*reader > from || from == backlog.end());
                let slowest = readers.iter().copied().min().unwrap_or(0);
                backlog.trim(size, slowest, |_, _| {});
                assert!(backlog.start() <= slowest);
                assert!(backlog.kept_bytes() >= size.min(all.len() as u64));
            }
            assert!(backlog.reaches(backlog.start()) && backlog.reaches(backlog.end()));
            assert!(!backlog.reaches(backlog.end() + 1));
        }
    }

    /// A source of bytes with increasing values, which are made three at a time; the field is the number of
    /// bytes left.
    #[derive(Debug)]
    struct Counting(u8);

    impl CommandSource for Counting {
        fn share(&self) -> Box<dyn CommandSource> {
            Box::new(Counting(self.0))
        }

        fn go_on(&mut self, bytes: usize, out: &mut Vec<u8>, garbage: &mut Vec<Value>) {
            let end = out.len() + bytes.min(usize::from(200 - self.0));
            while out.len() < end {
                out.push(self.0);
                self.0 += 1;
            }
            if self.0 == 200 {
                garbage.push(Value::Str(Bytes::default()));
            }
        }

        fn heap_bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn promised_bytes_have_their_place_and_nobody_reads_across_them_before_they_are_made() {
        let (mut backlog, mut garbage) = (Backlog::new(1000), Vec::new());
        backlog.tail(3).extend_from_slice(b"abc");
        backlog.push_promised(PromisedCommands::new(1, 200, Box::new(Counting(0))));
        backlog.tail(3).extend_from_slice(b"def");
        backlog.push_promised(PromisedCommands::new(1, 200, Box::new(Counting(0))));
        backlog.tail(3).extend_from_slice(b"ghi");
        assert_eq!((backlog.start(), backlog.end()), (1000, 1409));
        let read = |backlog: &Backlog, from: u64| {
            let mut out = Outbox::new();
            let end = backlog.read(from, usize::MAX, &mut out);
            (end, out.flatten())
        };
        assert_eq!(read(&backlog, 1000), (1003, b"abc".to_vec()));
        assert_eq!(read(&backlog, 1003), (1003, Vec::new()));
        assert_eq!(read(&backlog, 1203), (1206, b"def".to_vec()), "what is behind one can be read");
        backlog.trim(0, u64::MAX, |_, _| {});
        assert_eq!(backlog.start(), 1003, "it is not trimmed");
        backlog.keep_promises(1, &mut garbage);
        assert_eq!(read(&backlog, 1003).0, 1206);
        assert_eq!(read(&backlog, 1003).1[..200], (0..200).collect::<Vec<u8>>());
        assert!(backlog.has_promises() && garbage.len() == 1);
        backlog.keep_promises(usize::MAX, &mut garbage);
        assert!(!backlog.has_promises() && garbage.len() == 2);
        let all: Vec<u8> = (0..200).chain(*b"def").chain(0..200).chain(*b"ghi").collect();
        assert_eq!(read(&backlog, 1003), (1409, all));
        backlog.keep_promises(1, &mut garbage);
        backlog.trim(0, u64::MAX, |_, _| {});
        assert_eq!(backlog.start(), 1406);
    }

    #[test]
    fn a_large_unit_of_many_commands_goes_block_by_block() {
        let (mut backlog, mut all) = (Backlog::new(0), Vec::new());
        append(&mut backlog, &mut all, &[7; 160_000]);
        backlog.split_large();
        backlog.trim(20_000, u64::MAX, |_, _| {});
        assert!((20_000..20_000 + BLOCK_BYTES as u64).contains(&backlog.kept_bytes()));
        let (mut out, from) = (Outbox::new(), backlog.start());
        assert_eq!(backlog.read(from, usize::MAX, &mut out), 160_000);
        assert_eq!(out.flatten(), all[from as usize..]);
    }

    #[test]
    fn no_more_than_a_block_is_kept_beyond_the_size() {
        let (mut backlog, mut all) = (Backlog::new(0), Vec::new());
        for _ in 0..1000 {
            append(&mut backlog, &mut all, &[7; 1000]);
            backlog.trim(100_000, u64::MAX, |_, _| {});
            assert!(backlog.kept_bytes() <= 100_000 + BLOCK_BYTES as u64);
        }
        assert!(backlog.footprint() <= 100_000 + (SPARE_BLOCKS + 3) * BLOCK_BYTES, "{}", backlog.footprint());
    }

    #[test]
    fn blocks_are_shared_by_outputs_and_the_memory_of_trimmed_ones_is_used_again() {
        let (mut backlog, mut all) = (Backlog::new(0), Vec::new());
        for _ in 0..40 {
            append(&mut backlog, &mut all, &[7; 1000]);
        }
        let (mut a, mut b) = (Outbox::new(), Outbox::new());
        backlog.read(0, 1, &mut a);
        backlog.read(0, 1, &mut b);
        let address = |out: &Outbox| out.shared().next().map(|block| block.as_ptr());
        assert!(address(&a).is_some() && address(&a) == address(&b));
        drop((a, b));
        backlog.trim(0, u64::MAX, |_, _| {});
        assert!(!backlog.spare.is_empty());
    }

    #[test]
    fn a_large_command_that_came_last_is_not_copied_for_each_reader() {
        let (mut backlog, mut all) = (Backlog::new(0), Vec::new());
        append(&mut backlog, &mut all, &vec![1; 1 << 20]);
        backlog.seal_full();
        let mut out = Outbox::new();
        assert_eq!(backlog.read(0, 1, &mut out), 1 << 20);
        assert_eq!((out.shared().count(), backlog.end()), (1, 1 << 20));
        append(&mut backlog, &mut all, b"small");
        backlog.seal_full();
        assert_eq!(backlog.sealed.len(), 1, "what is small grows on");
    }

    #[test]
    fn a_large_command_is_a_block_of_its_own_and_read_from_its_middle_by_pieces() {
        let (mut backlog, mut all) = (Backlog::new(10), Vec::new());
        append(&mut backlog, &mut all, b"small");
        append(&mut backlog, &mut all, &vec![1; 1 << 20]);
        append(&mut backlog, &mut all, b"small");
        let mut out = Outbox::new();
        assert_eq!(backlog.read(15, 1, &mut out), 15 + (1 << 20));
        assert_eq!(out.shared().count(), 1);
        let mut out = Outbox::new();
        assert_eq!(backlog.read(16, 1, &mut out), 16 + BLOCK_BYTES as u64);
    }
}
