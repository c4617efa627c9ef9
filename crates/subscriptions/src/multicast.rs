//! Messages for many clients whose connections another thread has: a text, and a list of its receivers.
//!
//! The server tells which clients are of one *group*, an I/O thread's. What is published to such a client is
//! not copied into the client's outbox: the text is kept once for each group and protocol version, with the
//! keys of its receivers, and that thread appends it to the output of each. For each receiver the engine
//! writes a key and counts the bytes.
//!
//! Invariants: (1) what is listed for a session comes before what its outbox holds, so a session with output
//! in its outbox is not listed; (2) listed bytes count as bytes in flight from the moment at which they are
//! listed; (3) in an iteration a session is listed under one protocol version, so the order between the two
//! texts does not matter; (4) nothing is left when the iteration ends.

use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_resp::{Mark, Outbox, Protocol};

/// Clients whose connections one thread has; the server counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputGroup(pub u16);

/// Messages for clients of one group that speak one version of the protocol, in order.
#[derive(Debug, Default)]
pub struct Multicast {
    text: Outbox,
    /// Receivers of all lists, one list after the other.
    pub receivers: Vec<SessionKey>,
    lists: Vec<ReceiverList>,
}

/// A part of the text, and who is sent it.
#[derive(Debug)]
struct ReceiverList {
    /// Its receivers know that they are on it by this.
    id: ListId,
    /// Where its receivers end; they begin behind those of the list before.
    receivers: usize,
    /// Where its part of the text ends, likewise.
    text: Mark,
}

/// What is known of a client that can be listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing {
    /// Its group, if any.
    pub group: Option<OutputGroup>,
    /// The last list that it is on.
    pub last: ListId,
    /// Bytes that are listed for it, for display; [`u32::MAX`] for more.
    pub bytes: u32,
}

/// Names a list for one iteration: even numbers for RESP2, odd ones for RESP3; below 2: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListId(u32);

/// What is listed in an iteration.
#[derive(Debug, Default)]
pub struct Multicasts {
    /// Lists by the number of their group.
    pub groups: Vec<GroupLists>,
    /// By the slot of the client's key; as long as no client is of a group, there are none.
    pub clients: Vec<Listing>,
    /// Messages so far in this iteration.
    messages: u32,
    /// Whether anything is listed.
    pub are_pending: bool,
}

/// One group's lists, by protocol version.
#[derive(Debug, Default)]
pub struct GroupLists {
    lists: [Lists; 2],
}

#[derive(Debug, Default)]
struct Lists {
    multicast: Multicast,
    /// A receiver of the message that is being listed did not receive the one before.
    is_mixed: bool,
    /// How many receivers there were last time: room that will be needed.
    room: usize,
}

/// What the I/O thread of a group is to be given.
#[derive(Debug)]
pub struct GroupOutput {
    /// Whose it is.
    pub group: OutputGroup,
    /// By protocol version.
    pub multicasts: Box<[Multicast; 2]>,
    /// Clients that receive something.
    pub receivers: u64,
}

impl ListId {
    fn is_of(self, proto: Protocol) -> bool {
        self.0 < 2 || self.0 % 2 == proto as u32
    }
}

impl Multicast {
    /// Parts of the text in order, each with its receivers.
    pub fn lists(&self) -> impl ExactSizeIterator<Item = (&[SessionKey], Mark, Mark)> {
        let (mut first, mut from) = (0, Mark::default());
        self.lists.iter().map(move |list| {
            let part = (&self.receivers[first..list.receivers], from, list.text);
            (first, from) = (list.receivers, list.text);
            part
        })
    }

    /// The text, of which each list is sent its part.
    pub fn text(&self) -> &Outbox {
        &self.text
    }

    /// The text and all receivers, where there is one list.
    pub fn into_parts(self) -> (Outbox, Vec<SessionKey>) {
        (self.text, self.receivers)
    }

    /// Bytes that the allocator has given: without the shared values.
    pub(crate) fn footprint(&self) -> usize {
        self.text.footprint() + heap::vec(&self.receivers) + heap::vec(&self.lists)
    }

    /// Receivers on whole lists.
    fn listed(&self) -> usize {
        self.lists.last().map_or(0, |list| list.receivers)
    }
}

impl Lists {
    /// Ends a message's list. Those who received the message before, all of them and nobody else, need no
    /// list of their own.
    fn end(&mut self, id: ListId, spare: &mut Vec<Outbox>, append: impl FnOnce(&mut Outbox)) {
        let Multicast { text, receivers, lists } = &mut self.multicast;
        if text.capacity_bytes() == 0
            && let Some(spare) = spare.pop()
        {
            *text = spare;
        }
        append(text);
        let is_mixed = std::mem::take(&mut self.is_mixed);
        let end = lists.last().map_or(0, |list| list.receivers);
        let begin = lists.iter().rev().nth(1).map_or(0, |list| list.receivers);
        match lists.last_mut() {
            // A session is on a list once, so as many of its receivers are all of them.
            Some(last) if !is_mixed && receivers.len() - end == end - begin => {
                receivers.truncate(end);
                (last.id, last.text) = (id, text.mark());
            }
            Some(_) | None => lists.push(ReceiverList { id, receivers: receivers.len(), text: text.mark() }),
        }
    }
}

impl Multicasts {
    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        let all = self.groups.iter().flat_map(|group| &group.lists);
        heap::vec(&self.groups)
            + heap::vec(&self.clients)
            + all.map(|lists| lists.multicast.footprint()).sum::<usize>()
    }

    /// Begins a message.
    pub fn begin(&mut self) {
        self.messages = if self.are_pending { self.messages + 1 } else { 1 };
    }

    /// The group of a client's whom a message in this version of the protocol can be listed for.
    #[inline]
    pub fn group(&self, client: SessionKey, proto: Protocol) -> Option<OutputGroup> {
        let listing = self.clients.get(client.slot as usize)?;
        listing.group.filter(|_| listing.last.is_of(proto))
    }

    /// Lists the message that has begun, of so many bytes, for a client of this group.
    #[inline]
    pub fn add(&mut self, group: OutputGroup, client: SessionKey, proto: Protocol, bytes: usize) {
        let id = self.id(proto);
        let Lists { multicast, is_mixed, room } =
            &mut self.groups[usize::from(group.0)].lists[proto as usize];
        let listing = &mut self.clients[client.slot as usize];
        let before = std::mem::replace(&mut listing.last, id);
        listing.bytes = listing.bytes.saturating_add(heap::short(bytes));
        *is_mixed |= multicast.lists.last().is_none_or(|last| last.id != before);
        if multicast.receivers.capacity() == 0 {
            multicast.receivers.reserve(*room);
        }
        multicast.receivers.push(client);
        self.are_pending = true;
    }

    /// Ends the message that has begun: `append` appends it in a version of the protocol that somebody was
    /// listed for.
    pub fn end(&mut self, spare: &mut Vec<Outbox>, mut append: impl FnMut(Protocol, &mut Outbox)) {
        if !self.are_pending {
            return;
        }
        for proto in [Protocol::Resp2, Protocol::Resp3] {
            let id = self.id(proto);
            for group in &mut self.groups {
                let lists = &mut group.lists[proto as usize];
                if lists.multicast.receivers.len() > lists.multicast.listed() {
                    lists.end(id, spare, |text| append(proto, text));
                }
            }
        }
    }

    fn id(&self, proto: Protocol) -> ListId {
        ListId(self.messages * 2 + proto as u32)
    }

    /// Takes what is listed for one group.
    pub fn take(&mut self) -> Option<(OutputGroup, Box<[Multicast; 2]>)> {
        let is_pending =
            |group: &GroupLists| group.lists.iter().any(|lists| !lists.multicast.lists.is_empty());
        let Some(n) = self.groups.iter().position(is_pending) else {
            self.are_pending = false;
            return None;
        };
        let multicasts = self.groups[n].lists.each_mut().map(|lists| {
            lists.room = lists.multicast.receivers.len();
            std::mem::take(&mut lists.multicast)
        });
        Some((OutputGroup(n as u16), Box::new(multicasts)))
    }

    /// What is listed for a client was taken; the bytes, the first time.
    pub fn taken(&mut self, client: SessionKey) -> Option<u32> {
        let listing = self.clients.get_mut(client.slot as usize)?;
        listing.last = ListId::default();
        Some(std::mem::take(&mut listing.bytes)).filter(|bytes| *bytes > 0)
    }
}
