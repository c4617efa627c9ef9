//! Finds messages in a stream of bytes: the first bytes of a message, and a buffer for an incomplete one.
//!
//! Invariants: (1) memory is proportional to the bytes received, never to a length in a message; (2) at
//! most one message is kept, and none that is longer than its type and sender allow, because the bytes
//! of a longer message are counted and skipped; (3) the result is a function of the bytes, however they are
//! split.

use super::layout::{self, field, u16_at, u32_at};
use super::message::MessageType;
use crate::id::{ID_LEN, NodeId};

/// Bytes that contain a message's signature, length and type (2.5, step 1).
const PREFIX_LEN: usize = 14;
/// Bytes that also contain the sender of a message with a full header.
const SENDER_END: usize = layout::SENDER + ID_LEN;
/// The longest message whose length does not depend on clients: a header, 65,535 entries, extensions.
pub const MESSAGE_MAX: usize =
    layout::HEADER_LEN + layout::ENTRY_LEN * u16::MAX as usize + layout::EXTENSIONS_MAX;
/// Bytes of memory that a buffer keeps between messages; a buffer that has grown beyond this size is shrunk
/// after its message.
pub const BUFFER_MIN: usize = 1_024;
/// Size from which on a buffer grows by an eighth instead of doubling, so that little of it is unused.
const DOUBLE_MAX: usize = 1 << 20;

/// The properties of a message in its first 14 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePrefix {
    /// Bytes of the message, its header included.
    pub length: u32,
    /// The type's number, without the light bit.
    pub number: u16,
    /// Whether the header is light.
    pub is_light: bool,
}

impl MessagePrefix {
    /// The prefix at the beginning of `bytes`; `None` while there are too few bytes.
    ///
    /// [`BadPrefix`] if the bytes are no message, so that the connection must be closed.
    pub fn of(bytes: &[u8]) -> Option<Result<MessagePrefix, BadPrefix>> {
        if bytes.len() < PREFIX_LEN {
            return None;
        }
        let raw = u16_at(bytes, layout::TYPE);
        let is_light = raw & layout::LIGHT != 0;
        let least = if is_light { layout::LIGHT_HEADER_LEN } else { layout::HEADER_LEN };
        let length = u32_at(bytes, layout::LENGTH);
        let is_message = bytes.starts_with(layout::SIGNATURE) && length as usize >= least;
        Some(
            is_message
                .then_some(MessagePrefix { length, number: raw & !layout::LIGHT, is_light })
                .ok_or(BadPrefix),
        )
    }

    /// Whether the type is known, and its length depends on clients.
    fn is_published(self) -> bool {
        MessageType::from_number(self.number).is_some_and(MessageType::may_be_light)
    }
}

/// Bytes that are no message. The log line is `Bad message length or signature received on the Cluster bus`,
/// and the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPrefix;

/// The next item in the stream of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedMessage<'a> {
    /// A whole message, for [`super::parse()`].
    BusMessage(&'a [u8]),
    /// A message that had to be skipped; all its bytes have arrived. The message counts as received.
    PassedOver(MessagePrefix),
    /// The connection must be closed; no further items follow.
    Bad(BadPrefix),
}

/// The bytes of a link's incomplete message.
#[derive(Debug, Default)]
pub struct ReceiveBuffer {
    bytes: Vec<u8>,
    filling: PendingMessage,
}

#[derive(Clone, Copy, Debug, Default)]
enum PendingMessage {
    /// The bytes are the beginning of a message whose prefix is incomplete.
    #[default]
    Undecided,
    /// The bytes are the beginning of a message of this length, which is kept.
    Keeping(usize),
    /// The bytes are a message that was handed out.
    HandedOut,
    /// This many bytes of the message are still to be skipped.
    PassingOver(MessagePrefix, usize),
    /// The connection must be closed.
    Bad,
}

/// The action for a message that begins.
enum Disposition {
    /// This many bytes are needed before the decision.
    NeedMore(usize),
    Keep(usize),
    PassOver(MessagePrefix),
    Bad,
}

impl ReceiveBuffer {
    /// A buffer without bytes.
    pub fn new() -> ReceiveBuffer {
        ReceiveBuffer::default()
    }

    /// The next item of the stream. `input` has the stream's next bytes, and loses those that are consumed.
    ///
    /// `None` when all of `input` is consumed. A message that is completely in `input` is not copied.
    /// `published_max` is the longest published or module message that a known sender may send; `is_known`
    /// says whether the sender is known. The argument of `is_known` is the id in the header, or `None` for
    /// the node of the link.
    pub fn next<'a, 'b: 'a>(
        &'a mut self,
        input: &mut &'b [u8],
        published_max: usize,
        is_known: impl Fn(Option<NodeId>) -> bool,
    ) -> Option<ReceivedMessage<'a>> {
        loop {
            match self.filling {
                PendingMessage::Bad => {
                    *input = &[];
                    return None;
                }
                PendingMessage::HandedOut => self.clear(),
                PendingMessage::PassingOver(prefix, left) => {
                    let left = left - take(input, left).len();
                    if left > 0 {
                        self.filling = PendingMessage::PassingOver(prefix, left);
                        return None;
                    }
                    self.filling = PendingMessage::Undecided;
                    return Some(ReceivedMessage::PassedOver(prefix));
                }
                PendingMessage::Keeping(length) => {
                    self.append(input, length);
                    if self.bytes.len() < length {
                        return None;
                    }
                    self.filling = PendingMessage::HandedOut;
                    return Some(ReceivedMessage::BusMessage(&self.bytes));
                }
                PendingMessage::Undecided => {
                    let from = if self.bytes.is_empty() { *input } else { &self.bytes };
                    match decide(from, published_max, &is_known) {
                        Disposition::NeedMore(_) if input.is_empty() => return None,
                        Disposition::NeedMore(length) => self.append(input, length),
                        Disposition::Keep(length) if self.bytes.is_empty() && input.len() >= length => {
                            return Some(ReceivedMessage::BusMessage(take(input, length)));
                        }
                        Disposition::Keep(length) => self.filling = PendingMessage::Keeping(length),
                        Disposition::PassOver(prefix) => {
                            let left = prefix.length as usize - self.bytes.len();
                            self.clear();
                            self.filling = PendingMessage::PassingOver(prefix, left);
                        }
                        Disposition::Bad => {
                            self.clear();
                            self.filling = PendingMessage::Bad;
                            return Some(ReceivedMessage::Bad(BadPrefix));
                        }
                    }
                }
            }
        }
    }

    /// Bytes of memory that count against the limit of X-2: all of the buffer, or none while it has the
    /// beginning of a published or module message.
    pub fn kept(&self) -> usize {
        match MessagePrefix::of(&self.bytes) {
            Some(Ok(prefix)) if prefix.is_published() => 0,
            _ => self.memory(),
        }
    }

    /// Bytes of memory that the buffer has allocated.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Moves bytes from `input` to the buffer until the buffer has `length` bytes.
    fn append(&mut self, input: &mut &[u8], length: usize) {
        let more = take(input, length.saturating_sub(self.bytes.len()));
        let needed = self.bytes.len() + more.len();
        if needed > self.bytes.capacity() {
            let spare = if needed < DOUBLE_MAX { needed } else { needed / 8 };
            let capacity = needed.saturating_add(spare).clamp(BUFFER_MIN, length.max(BUFFER_MIN));
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(BUFFER_MIN);
        self.filling = PendingMessage::Undecided;
    }
}

fn decide(bytes: &[u8], published_max: usize, is_known: &impl Fn(Option<NodeId>) -> bool) -> Disposition {
    let prefix = match MessagePrefix::of(bytes) {
        None => return Disposition::NeedMore(PREFIX_LEN),
        Some(Err(BadPrefix)) => return Disposition::Bad,
        Some(Ok(prefix)) => prefix,
    };
    let length = prefix.length as usize;
    if !prefix.is_published() {
        return if length > MESSAGE_MAX { Disposition::PassOver(prefix) } else { Disposition::Keep(length) };
    }
    if length > published_max {
        return Disposition::PassOver(prefix);
    }
    let is_known = if prefix.is_light {
        is_known(None)
    } else if bytes.len() < SENDER_END {
        return Disposition::NeedMore(SENDER_END);
    } else {
        NodeId::parse(&field::<ID_LEN>(bytes, layout::SENDER)).is_some_and(|sender| is_known(Some(sender)))
    };
    if is_known { Disposition::Keep(length) } else { Disposition::PassOver(prefix) }
}

/// Splits up to `len` bytes off the front of `input`.
fn take<'a>(input: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(len.min(input.len()));
    *input = rest;
    taken
}
