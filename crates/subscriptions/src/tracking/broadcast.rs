//! Invalidations for prefixes (CLIENT TRACKING BCAST) that are being sent, in slices, after the changes were
//! taken from the list (`prefixes.rs`).
//!
//! The work is clients × names × patterns of their users, three numbers that clients and users control. So
//! the names below a prefix (changed keys that begin with it) are sent in pieces. For each piece the rights
//! of a user are checked once, not once for each of its clients, and a client receives nothing of a piece
//! before all names of the piece are checked.
//!
//! Invariants: (1) a client receives the pieces of a prefix one after the other, and later changes after
//! all of them; (2) a view (the names of a piece that a user may read) belongs to one version of the user:
//! if a client's user has changed since, the client gets another view; (3) changes that were sent or given
//! up are freed in slices.

use sluice_acl::User;
use sluice_base::{SessionKey, heap};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::tracking::prefixes::{Broadcast, ChangedKey, TakenChanges};
use crate::tracking::table::Tracker;

/// The taken changes, the piece being sent, and changes waiting to be freed.
#[derive(Debug, Default)]
pub struct BroadcastsUnderWay {
    changed: Vec<ChangedKey>,
    waiting: VecDeque<Broadcast>,
    /// Number of keys of the first waiting broadcast that were sent.
    told_keys: usize,
    /// Approximate bytes of `changed` and `waiting`.
    bytes: usize,
    piece: Option<Box<BroadcastPiece>>,
    /// Changes that were sent or given up, to be freed in slices.
    remains: Vec<TakenChanges>,
}

/// Some names below a prefix, sent to one client after the other.
#[derive(Debug)]
pub struct BroadcastPiece {
    /// Indexes in the list of changed keys, sorted by name.
    keys: Vec<u32>,
    /// Clients that are the only writer of some key. Sorted.
    writers: Vec<SessionKey>,
    /// The last client that the piece was sent to.
    pub told: Option<Tracker>,
    /// Views, by the address of the `User` object that they belong to.
    views: BTreeMap<usize, NameView>,
    /// The view that is not yet complete.
    unfinished: Option<ViewId>,
}

/// The names of a piece that one user may read.
#[derive(Debug)]
struct NameView {
    /// Kept alive so that the address is not reused for another user.
    user: Arc<User>,
    /// Number of names that are checked so far, from the beginning of the piece.
    judged: usize,
    /// A bit for each name of the piece, which is set if the user may read it.
    visible: [u64; PIECE_KEYS_MAX / 64],
}

/// The names of a piece that a client receives: all, or those of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ViewId(Option<usize>);

impl ViewId {
    /// Every name of the piece, for users whom the ACL allows everything.
    pub const WHOLE: ViewId = ViewId(None);
}

impl BroadcastsUnderWay {
    /// Whether nothing is left to be sent or freed.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.changed.is_empty() && self.remains.is_empty()
    }

    /// Approximate bytes of heap memory for the changes, the piece and the views. O(remains).
    pub fn footprint(&self) -> usize {
        let piece = self.piece.as_deref().map_or(0, |piece| {
            heap::boxed::<BroadcastPiece>()
                + heap::vec(&piece.keys)
                + heap::vec(&piece.writers)
                + heap::tree::<usize, NameView>(piece.views.len())
        });
        self.bytes + self.remains.iter().map(|taken| taken.bytes).sum::<usize>() + piece
    }

    /// Starts sending taken changes; must not be called while other changes are being sent or freed.
    pub fn begin(&mut self, taken: TakenChanges) {
        debug_assert!(self.is_idle(), "what is under way is told first");
        (self.waiting, self.changed, self.bytes) = (taken.broadcasts, taken.changed, taken.bytes);
        self.next_piece();
    }

    /// Drops the changes in progress and `taken`; clients have to drop all copies instead.
    pub fn give_up(&mut self, taken: TakenChanges) {
        self.end();
        self.remains.push(taken);
    }

    /// The prefix, the piece of its names that is being sent, and all changed keys.
    pub fn current(&mut self) -> Option<(&Broadcast, &mut BroadcastPiece, &[ChangedKey])> {
        Some((self.waiting.front()?, self.piece.as_deref_mut()?, &self.changed))
    }

    /// Ends a piece that was sent to all clients, and begins the next one.
    pub fn end_piece(&mut self) {
        self.told_keys += self.piece.take().map_or(0, |piece| piece.keys.len());
        self.next_piece();
    }

    fn next_piece(&mut self) {
        if self.waiting.front().is_some_and(|of| of.keys.len() <= self.told_keys) {
            self.waiting.pop_front();
            self.told_keys = 0;
        }
        match self.waiting.front() {
            None => self.end(),
            Some(of) => {
                let piece = BroadcastPiece::first_of(&of.keys[self.told_keys..], &self.changed);
                self.piece = Some(Box::new(piece));
            }
        }
    }

    fn end(&mut self) {
        self.piece = None;
        self.told_keys = 0;
        self.remains.push(TakenChanges {
            broadcasts: std::mem::take(&mut self.waiting),
            changed: std::mem::take(&mut self.changed),
            bytes: std::mem::take(&mut self.bytes),
        });
    }

    /// Frees up to `FREED_AT_ONCE` keys and prefixes. Returns false if nothing is left to be freed.
    pub fn free_some(&mut self) -> bool {
        let Some(taken) = self.remains.last_mut() else { return false };
        taken.changed.truncate(taken.changed.len().saturating_sub(FREED_AT_ONCE));
        taken.broadcasts.truncate(taken.broadcasts.len().saturating_sub(FREED_AT_ONCE));
        if taken.changed.is_empty() && taken.broadcasts.is_empty() {
            self.remains.pop();
        }
        true
    }
}

impl BroadcastPiece {
    /// A piece with as many of these keys, from the first one on, as fit.
    fn first_of(keys: &[u32], changed: &[ChangedKey]) -> BroadcastPiece {
        let mut bytes = 0;
        let fits = |at: &&u32| {
            let is_first = bytes == 0;
            bytes += changed[**at as usize].name.len() + 1;
            is_first || bytes <= PIECE_BYTES_MAX
        };
        let mut keys: Vec<u32> = keys.iter().take(PIECE_KEYS_MAX).take_while(fits).copied().collect();
        keys.sort_unstable_by(|a, b| changed[*a as usize].name.cmp(&changed[*b as usize].name));
        let mut writers: Vec<SessionKey> =
            keys.iter().filter_map(|at| changed[*at as usize].writer).collect();
        writers.sort_unstable();
        writers.dedup();
        BroadcastPiece { keys, writers, told: None, views: BTreeMap::new(), unfinished: None }
    }

    /// Whether the client is the only writer of some key of the piece.
    pub fn has_written(&self, client: SessionKey) -> bool {
        self.writers.binary_search(&client).is_ok()
    }

    /// The view of a user; `None` until [`BroadcastPiece::judge_some`] has completed it.
    pub fn view_of(&mut self, user: &Arc<User>) -> Option<ViewId> {
        if user.allows_all() {
            return Some(ViewId::WHOLE);
        }
        let id = Arc::as_ptr(user).addr();
        let of_all = self.keys.len();
        let view = self.views.entry(id).or_insert_with(|| match user.may_read_every_key() {
            true => NameView { user: Arc::clone(user), judged: of_all, visible: [u64::MAX; _] },
            false => NameView { user: Arc::clone(user), judged: 0, visible: [0; _] },
        });
        if view.judged == of_all {
            return Some(ViewId(Some(id)));
        }
        self.unfinished = Some(ViewId(Some(id)));
        None
    }

    /// Checks a user's rights to some more names of the incomplete view. Returns false if no view is
    /// incomplete.
    pub fn judge_some(&mut self, changed: &[ChangedKey]) -> bool {
        let Some(ViewId(Some(id))) = self.unfinished else { return false };
        let Some(view) = self.views.get_mut(&id) else { return false };
        let until = (view.judged + JUDGED_AT_ONCE).min(self.keys.len());
        for at in view.judged..until {
            let key = &changed[self.keys[at] as usize];
            let is_visible = view.user.may_read_key(&key.name, key.databases());
            view.visible[at / 64] |= u64::from(is_visible) << (at % 64);
        }
        view.judged = until;
        if until == self.keys.len() {
            self.unfinished = None;
        }
        true
    }

    /// The names of a view, without those that only the client `but_of` has written.
    pub fn names<'c>(
        &self,
        view: ViewId,
        but_of: Option<SessionKey>,
        changed: &'c [ChangedKey],
    ) -> Vec<&'c [u8]> {
        let visible = view.0.and_then(|id| self.views.get(&id)).map(|view| &view.visible);
        let is_visible = |at: usize| visible.is_none_or(|bits| bits[at / 64] >> (at % 64) & 1 != 0);
        let keys = self.keys.iter().enumerate().filter(|(at, _)| is_visible(*at));
        let keys = keys.map(|(_, key)| &changed[*key as usize]);
        keys.filter(|key| but_of.is_none() || key.writer != but_of).map(|key| &*key.name).collect()
    }
}

/// Maximum number of names in a piece, and therefore in one invalidation array.
const PIECE_KEYS_MAX: usize = 1024;

/// Maximum total length in bytes of the names in a piece, unless its first name alone is longer.
const PIECE_BYTES_MAX: usize = 256 << 10;

/// Number of names checked for a user between two readings of the clock. Small, because a name may be long
/// and a user may have many patterns.
const JUDGED_AT_ONCE: usize = 16;

/// Number of keys and prefixes freed between two readings of the clock.
const FREED_AT_ONCE: usize = 1024;
