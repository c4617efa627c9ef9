//! Produces a reply piece by piece from roots. A root (see `root_of`) is a second owner of a value, and keeps
//! the value as it was when the command ran.

use sluice_base::Bytes;
use sluice_keyspace::{Str, ValueRef};
use sluice_resp::{Outbox, Protocol, Reply};
use sluice_value::{Hash, HashRef, List, ListRef, Set, SetRef, Value, Zset, ZsetRef};

/// Whether more of a reply follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another piece follows this one.
    More,
    /// The reply is complete.
    End,
}

/// Makes a reply from shared roots, piece by piece. It knows no keys and no clients.
pub(crate) trait Production: Send + std::fmt::Debug {
    /// Continues until [`is_piece`] finds the reply long enough, or a step of work is done (one or a few
    /// milliseconds, except in [`SlowRead::in_one_step`]). May remove roots that are no longer needed from
    /// `roots`.
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress;
}

/// A reply that is made in one step, and handed over in pieces.
struct OneStep<F> {
    make: Option<F>,
    made: Vec<u8>,
    /// Number of bytes of `made` that were handed over.
    handed_over: usize,
}

impl<F> std::fmt::Debug for OneStep<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneStep").field("made", &self.made.len()).finish_non_exhaustive()
    }
}

impl<F: FnOnce(&[Value], &mut Reply<'_>) + Send> Production for OneStep<F> {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        if let Some(make) = self.make.take() {
            let mut made = Outbox::new();
            make(roots, &mut Reply::new(&mut made, reply.protocol()));
            roots.clear();
            self.made = if made.is_plain() { made.into_parts().0 } else { made.flatten() };
            return Progress::More;
        }
        let end = self.made.len().min(self.handed_over + PIECE_BYTES);
        reply.raw(&self.made[self.handed_over..end]);
        self.handed_over = end;
        if end < self.made.len() { Progress::More } else { Progress::End }
    }
}

/// A read that another thread produces: its roots, and the production of the reply.
#[derive(Debug)]
pub struct SlowRead {
    roots: Vec<Value>,
    production: Box<dyn Production>,
    /// Protocol version of the reply.
    pub proto: Protocol,
    /// Whether the command has removed the roots from the keyspace, so that the read does not keep an earlier
    /// version of a present value in memory.
    is_of_taken: bool,
    /// Length of the last piece in bytes; the next one may be as long.
    last_len: usize,
}

impl SlowRead {
    /// A read of `roots`, which `production` gets in the same order.
    pub(crate) fn new(roots: Vec<Value>, production: impl Production + 'static) -> SlowRead {
        let production = Box::new(production);
        SlowRead { roots, production, proto: Protocol::Resp2, is_of_taken: false, last_len: 0 }
    }

    /// The reply of a command that has removed these roots from the data.
    pub(crate) fn of_taken(roots: Vec<Value>, production: impl Production + 'static) -> SlowRead {
        SlowRead { is_of_taken: true, ..SlowRead::new(roots, production) }
    }

    /// A read whose reply `make` writes in one step, which cannot be interrupted.
    pub(crate) fn in_one_step(
        roots: Vec<Value>,
        make: impl FnOnce(&[Value], &mut Reply<'_>) + Send + 'static,
    ) -> SlowRead {
        SlowRead::new(roots, OneStep { make: Some(make), made: Vec::new(), handed_over: 0 })
    }

    /// The next piece of the reply: about 256 KiB, without large values, which it shares. It may be
    /// empty before the end.
    pub fn next_piece(&mut self) -> (Outbox, Progress) {
        let mut piece = Outbox::from_buffer(Vec::with_capacity(self.last_len.min(PIECE_BYTES)));
        let progress = self.production.go_on(&mut self.roots, &mut Reply::new(&mut piece, self.proto));
        self.last_len = piece.len();
        // The main thread only forwards the piece, so it is put into shared runs here.
        piece.share_runs(SHARED_RUN_BYTES_MIN);
        (piece, progress)
    }

    /// Bytes of the roots, including bytes with other owners; 0 for roots that the command has removed from
    /// the keyspace.
    pub fn root_bytes(&self) -> usize {
        if self.is_of_taken { 0 } else { self.roots.iter().map(Value::heap_bytes).sum() }
    }

    /// Bytes of the roots that only this read still holds, because the data have changed since. Cost:
    /// one step for each part that is not shared.
    pub fn retained_bytes(&self) -> usize {
        if self.is_of_taken {
            return 0;
        }
        self.roots.iter().map(Value::own_bytes).sum()
    }
}

/// Whether a reply is long enough for a piece.
#[inline]
pub(crate) fn is_piece(reply: &mut Reply<'_>) -> bool {
    reply.outbox().len() >= PIECE_BYTES - ELEMENT_BYTES_MAX
}

/// A root of a value. O(1), except for a value inside the block of its entry, which is copied.
pub(crate) fn root_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Str(text @ Str::Int(_)) => Value::Str(Bytes::from_vec(text.to_vec())),
        ValueRef::Str(Str::Inline(bytes)) => Value::Str(Bytes::copy_from(bytes)),
        ValueRef::Str(Str::Shared(bytes)) => Value::Str(bytes.clone()),
        ValueRef::Str(Str::Pages(pages)) => Value::Pages(pages.share()),
        ValueRef::List(ListRef::Inline { bytes, encoding }) => {
            Value::List(List::from_inline(bytes, encoding))
        }
        ValueRef::List(ListRef::Value(list)) => Value::List(list.share()),
        ValueRef::Hash(HashRef::Inline { bytes, encoding }) => {
            Value::Hash(Hash::from_inline(bytes, encoding))
        }
        ValueRef::Hash(HashRef::Value(hash)) => Value::Hash(hash.share()),
        ValueRef::Set(SetRef::Inline { bytes, encoding }) => Value::Set(Set::from_inline(bytes, encoding)),
        ValueRef::Set(SetRef::Value(set)) => Value::Set(set.share()),
        ValueRef::Zset(ZsetRef::Inline { bytes, encoding }) => {
            Value::Zset(Zset::from_inline(bytes, encoding))
        }
        ValueRef::Zset(ZsetRef::Value(zset)) => Value::Zset(zset.share()),
        ValueRef::Stream(stream) => Value::Stream(stream.share()),
    }
}

/// Largest length of a piece in bytes, without the values that it shares.
pub const PIECE_BYTES: usize = 256 << 10;
/// Largest number of bytes that one element (a field with its value) adds to a piece. Larger values are
/// shared, not copied.
pub(crate) const ELEMENT_BYTES_MAX: usize = 33 << 10;
/// Runs with fewer bytes are copied when a piece is taken.
pub(crate) const SHARED_RUN_BYTES_MIN: usize = 4 << 10;
