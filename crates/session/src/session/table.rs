//! The table of sessions. Each session has a slot of the table, which another client's session may get after
//! the first one has ended.

use super::Session;
use sluice_base::{ClientId, SessionKey, heap};

/// Numbers of sessions, including sessions that are executing a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Number of all sessions.
    pub all: usize,
    /// Sessions whose clients have priority.
    pub priority: usize,
}

/// The table of sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    slots: Vec<SessionSlot>,
    free: Vec<u32>,
    count: usize,
    /// Number of sessions with priority.
    priority: usize,
    next_id: u64,
}

#[derive(Debug, Default)]
struct SessionSlot {
    generation: u32,
    session: Option<Box<Session>>,
    live: bool,
}

impl Sessions {
    /// Heap bytes of the table and of the sessions in it. O(slots).
    pub fn footprint(&self) -> usize {
        heap::vec(&self.slots) + heap::vec(&self.free) + self.iter().map(Session::footprint).sum::<usize>()
    }

    /// Number of sessions, including one that is executing a command.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks whether there are none")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The number of all sessions, and of those with priority.
    pub fn counts(&self) -> SessionCounts {
        SessionCounts { all: self.count, priority: self.priority }
    }

    /// Adds a session built by `make` for its key and id.
    pub fn add(&mut self, make: impl FnOnce(SessionKey, ClientId) -> Session) -> SessionKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(SessionSlot::default());
            (self.slots.len() - 1) as u32
        });
        self.next_id += 1;
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.live = true;
        let key = SessionKey { slot, generation: entry.generation };
        let session = make(key, ClientId(self.next_id));
        self.priority += usize::from(session.has_priority);
        entry.session = Some(Box::new(session));
        self.count += 1;
        key
    }

    /// The session; `None` if it has ended, or executes right now.
    #[inline]
    pub fn get(&self, key: SessionKey) -> Option<&Session> {
        let slot = self.slots.get(key.slot as usize)?;
        if slot.generation == key.generation { slot.session.as_deref() } else { None }
    }

    /// Whether the session has not ended, even if it executes right now.
    #[inline]
    pub fn is_live(&self, key: SessionKey) -> bool {
        self.slots.get(key.slot as usize).is_some_and(|slot| slot.live && slot.generation == key.generation)
    }

    /// The session, for a change; `None` if it has ended, or executes right now.
    #[inline]
    pub fn get_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation == key.generation { slot.session.as_deref_mut() } else { None }
    }

    /// Takes a session out of the table to execute; [`Sessions::put_back`] must follow. `None` if the session
    /// has ended, or executes already.
    #[inline]
    pub fn take(&mut self, key: SessionKey) -> Option<Box<Session>> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation == key.generation { slot.session.take() } else { None }
    }

    /// Puts back a session that was taken out.
    #[inline]
    pub fn put_back(&mut self, session: Box<Session>) {
        let slot = &mut self.slots[session.key.slot as usize];
        debug_assert!(slot.live && slot.generation == session.key.generation && slot.session.is_none());
        slot.session = Some(session);
    }

    /// Removes a session and frees its slot; `None` if it has ended already, or executes right now.
    pub fn remove(&mut self, key: SessionKey) -> Option<Box<Session>> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let session = slot.session.take()?;
        slot.live = false;
        self.free.push(key.slot);
        self.count -= 1;
        self.priority -= usize::from(session.has_priority);
        Some(session)
    }

    /// All sessions, in no particular order, except one that is executing. O(slots).
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().filter_map(|slot| slot.session.as_deref())
    }

    /// All sessions, for changes, except one that is executing.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.slots.iter_mut().filter_map(|slot| slot.session.as_deref_mut())
    }

    /// Number of slots, used or free; the slot index of each session is smaller.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The session in a slot, for loops over all slots that are interrupted and continue later; `None` if the
    /// slot is free, or its session executes right now.
    #[inline]
    pub fn in_slot(&mut self, slot: usize) -> Option<&mut Session> {
        self.slots.get_mut(slot)?.session.as_deref_mut()
    }
}
