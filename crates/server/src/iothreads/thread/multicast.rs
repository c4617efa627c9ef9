//! Messages for many connections of an I/O thread: a text and a list of its receivers.
//!
//! A large text is shared by the receivers, a small one copied. Where an iteration of the main thread brought one list, as of one
//! busy channel, each receiver is sent its text at once. Otherwise the texts are gathered connection by connection first, so that
//! each needs one send.

use super::IoThread;
use crate::connection::{self, Flushed, Owner};
use sluice_base::heap;
use sluice_engine::{Multicast, SHARED_BYTES_MIN, SessionKey};
use sluice_evloop::SendBuf;
use sluice_resp::{Mark, Outbox};

/// What is used again and again. See [`IoThread::multicast`].
#[derive(Default)]
pub(super) struct Copies {
    /// Memory for copies of a text.
    buffers: Vec<Vec<u8>>,
    /// Memory for the text of a list.
    text: Vec<u8>,
    /// Connections that texts were gathered for.
    gathered: Vec<SessionKey>,
}

impl Copies {
    /// Buffers kept at most.
    const COPIES_MAX: usize = 16;
    /// Room of one that is kept, at most: a copied text and some more.
    const COPY_BYTES_MAX: usize = 2 * SHARED_BYTES_MIN;

    /// Bytes that the allocator has given.
    pub(super) fn footprint(&self) -> usize {
        heap::vec(&self.buffers)
            + self.buffers.iter().map(heap::vec).sum::<usize>()
            + heap::vec(&self.text)
            + heap::vec(&self.gathered)
    }

    /// Keeps a buffer that was sent, if there is to be one more of its size; returns it if not.
    #[inline]
    pub(super) fn keep(&mut self, buffer: Vec<u8>) -> Option<Vec<u8>> {
        let fits = buffer.capacity() > 0 && buffer.capacity() <= Copies::COPY_BYTES_MAX;
        if !fits || self.buffers.len() >= self.buffers.capacity() {
            return Some(buffer);
        }
        self.buffers.push(buffer);
        None
    }

    fn buffer(&mut self) -> Vec<u8> {
        if self.buffers.capacity() == 0 {
            // From now on buffers are kept.
            self.buffers.reserve_exact(Copies::COPIES_MAX);
        }
        self.buffers.pop().unwrap_or_default()
    }
}

impl IoThread {
    /// Sends messages to their receivers.
    pub(super) fn multicast(&mut self, multicasts: [Multicast; 2]) {
        match multicasts.iter().map(|multicast| multicast.lists().len()).sum::<usize>() {
            1 => multicasts.into_iter().for_each(|multicast| self.send_to_all(multicast)),
            _ => self.gather(&multicasts),
        }
    }

    /// Sends one text to one list of receivers.
    fn send_to_all(&mut self, multicast: Multicast) {
        let (mut text, receivers) = multicast.into_parts();
        if let [only] = receivers[..] {
            return self.send_message(only, text);
        }
        text.share_runs(SHARED_BYTES_MIN);
        for key in receivers {
            let mut copy = Outbox::from_buffer(match text.is_plain() {
                true => self.copies.buffer(),
                false => Vec::new(),
            });
            copy.append_copy(&text, Mark::default(), text.mark());
            self.send_message(key, copy);
        }
        self.recycle(SendBuf { head: text.into_buffer(), shared: Vec::new() });
    }

    /// Gathers the texts of several lists for each receiver, and sends them.
    fn gather(&mut self, multicasts: &[Multicast; 2]) {
        let mut gathered = std::mem::take(&mut self.copies.gathered);
        for multicast in multicasts {
            for (receivers, from, to) in multicast.lists() {
                let mut text = Outbox::from_buffer(std::mem::take(&mut self.copies.text));
                text.append_copy(multicast.text(), from, to);
                if receivers.len() > 1 {
                    text.share_runs(SHARED_BYTES_MIN);
                }
                for key in receivers {
                    let Some(connection) = self.connections.get_mut(key.slot as usize) else { continue };
                    let Some(connection) = connection.as_mut().filter(|own| own.key == *key) else {
                        continue;
                    };
                    if connection.output.is_idle() {
                        gathered.push(*key);
                    }
                    connection.output.push_copy(&text, || self.copies.buffer());
                }
                let buffer = text.into_buffer();
                if buffer.capacity() <= Copies::COPY_BYTES_MAX {
                    self.copies.text = buffer;
                }
            }
        }
        for key in gathered.drain(..) {
            let Some(mut connection) = self.take(key) else { continue };
            match connection::flush(self, &mut connection) {
                Flushed::Open => self.put(connection),
                Flushed::Over(why) => self.end(connection, &why),
            }
        }
        self.copies.gathered = gathered;
    }

    fn send_message(&mut self, key: SessionKey, message: Outbox) {
        let Some(mut connection) = self.take(key) else { return };
        match connection::send(self, &mut connection, message) {
            Flushed::Open => self.put(connection),
            Flushed::Over(why) => self.end(connection, &why),
        }
    }
}
