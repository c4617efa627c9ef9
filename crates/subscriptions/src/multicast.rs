//! Messages for many clients whose connections belong to another thread: one text, and a list of receivers.
//!
//! The server assigns the clients of each I/O thread to a *group*. A message published to such a client is
//! not copied into the client's outbox: the text is kept once for each group and protocol version, with the
//! keys of the receivers, and the I/O thread appends the text to the output of each receiver. For each
//! receiver, the engine only writes its key and counts the bytes.
//!
//! Invariants: (1) text listed for a session precedes the contents of its outbox, so a session with
//! output in its outbox is not listed; (2) listed bytes count as bytes in flight from the moment of
//! listing; (3) during an iteration a session is listed under one protocol version only, so the order
//! between the two texts does not matter; (4) no list is left when the iteration ends.

use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_resp::{Mark, Outbox, Protocol};

/// The clients whose connections one I/O thread has, as a number that the server assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputGroup(pub u16);

/// Messages for the clients of one group with one protocol version, in order.
#[derive(Debug, Default)]
pub struct Multicast {
    text: Outbox,
    /// Receivers of all lists, concatenated in the order of the lists.
    pub receivers: Vec<SessionKey>,
    lists: Vec<ReceiverList>,
}

/// A part of the text and its receivers.
#[derive(Debug)]
struct ReceiverList {
    /// Compared with [`Listing::last`] to find whether a client is on this list.
    id: ListId,
    /// End of this list in `receivers`; the list begins at the end of the previous list.
    receivers: usize,
    /// End of this list's part of the text; the part begins at the end of the previous part.
    text: Mark,
}

/// The state of a client that can be listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing {
    /// The client's group; `None` if messages go to its outbox.
    pub group: Option<OutputGroup>,
    /// The last list that contains the client, in this iteration.
    pub last: ListId,
    /// Bytes listed for the client, for display; [`u32::MAX`] stands for more.
    pub bytes: u32,
}

/// Identifies a list within one iteration: even for RESP2, odd for RESP3; values below 2 stand for no list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListId(u32);

/// The messages listed in one iteration.
#[derive(Debug, Default)]
pub struct Multicasts {
    /// Lists, indexed by the number of the group.
    pub groups: Vec<GroupLists>,
    /// State of clients, indexed by the slot of the client's key; empty while no client is in a group.
    pub clients: Vec<Listing>,
    /// Number of messages so far in this iteration.
    messages: u32,
    /// Whether a message is listed.
    pub are_pending: bool,
}

/// The lists of one group, indexed by protocol version.
#[derive(Debug, Default)]
pub struct GroupLists {
    lists: [Lists; 2],
}

#[derive(Debug, Default)]
struct Lists {
    multicast: Multicast,
    /// A receiver of the message that is being listed did not receive the previous message.
    is_mixed: bool,
    /// Number of receivers when the lists were last taken; the next receiver to be added reserves memory for
    /// that many.
    room: usize,
}

/// Output for the I/O thread of one group.
#[derive(Debug)]
pub struct GroupOutput {
    /// The group whose I/O thread sends the output.
    pub group: OutputGroup,
    /// The text and receivers for RESP2, then those for RESP3.
    pub multicasts: Box<[Multicast; 2]>,
    /// Number of clients that receive something.
    pub receivers: u64,
}

impl ListId {
    fn is_of(self, proto: Protocol) -> bool {
        self.0 < 2 || self.0 % 2 == proto as u32
    }
}

impl Multicast {
    /// The parts of the text in order, each with its receivers.
    pub fn lists(&self) -> impl ExactSizeIterator<Item = (&[SessionKey], Mark, Mark)> {
        let (mut first, mut from) = (0, Mark::default());
        self.lists.iter().map(move |list| {
            let part = (&self.receivers[first..list.receivers], from, list.text);
            (first, from) = (list.receivers, list.text);
            part
        })
    }

    /// The whole text; each list covers a part of it.
    pub fn text(&self) -> &Outbox {
        &self.text
    }

    /// The whole text and all receivers; valid only if there is one list.
    pub fn into_parts(self) -> (Outbox, Vec<SessionKey>) {
        (self.text, self.receivers)
    }

    /// Bytes of heap memory that the text and the lists take, without the shared values in the text.
    pub(crate) fn footprint(&self) -> usize {
        self.text.footprint() + heap::vec(&self.receivers) + heap::vec(&self.lists)
    }

    /// Number of receivers on lists that are complete.
    fn listed(&self) -> usize {
        self.lists.last().map_or(0, |list| list.receivers)
    }
}

impl Lists {
    /// Ends the list of a message. If the previous message had exactly the same receivers, the list of that
    /// message is extended instead.
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
            // The receivers all received the previous message, too, and a list contains a session once, so an
            // equal number means the same receivers.
            Some(last) if !is_mixed && receivers.len() - end == end - begin => {
                receivers.truncate(end);
                (last.id, last.text) = (id, text.mark());
            }
            Some(_) | None => lists.push(ReceiverList { id, receivers: receivers.len(), text: text.mark() }),
        }
    }
}

impl Multicasts {
    /// Bytes of heap memory that the lists, their texts and the clients' states take.
    pub fn footprint(&self) -> usize {
        let all = self.groups.iter().flat_map(|group| &group.lists);
        heap::vec(&self.groups)
            + heap::vec(&self.clients)
            + all.map(|lists| lists.multicast.footprint()).sum::<usize>()
    }

    /// Begins a message: the following calls of [`Multicasts::add`] add receivers of this message.
    pub fn begin(&mut self) {
        self.messages = if self.are_pending { self.messages + 1 } else { 1 };
    }

    /// The group of a client, if a message in this protocol version can be listed for the client.
    #[inline]
    pub fn group(&self, client: SessionKey, proto: Protocol) -> Option<OutputGroup> {
        let listing = self.clients.get(client.slot as usize)?;
        listing.group.filter(|_| listing.last.is_of(proto))
    }

    /// Lists the current message, of `bytes` bytes, for a client of this group.
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

    /// Ends the current message. `append` writes the message once for each group and protocol version that
    /// has a receiver.
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

    /// Removes and returns the lists of one group; `None` if no group has any.
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

    /// Marks the lists of a client as taken. Returns its listed bytes on the first call, then `None`.
    pub fn taken(&mut self, client: SessionKey) -> Option<u32> {
        let listing = self.clients.get_mut(client.slot as usize)?;
        listing.last = ListId::default();
        Some(std::mem::take(&mut listing.bytes)).filter(|bytes| *bytes > 0)
    }
}
