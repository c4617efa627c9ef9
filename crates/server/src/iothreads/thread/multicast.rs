//! Messages for many connections of an I/O thread. Each has a text and a list of the connections that receive
//! the text.
//!
//! A large text is shared by its receivers, and a small text is copied. If an iteration of the main thread
//! sends only one list, as with one busy channel, the text is sent to each receiver at once. Otherwise the
//! texts are first gathered for each connection, so that each connection needs only one send.

mod copies;

pub(super) use copies::Copies;

use super::IoThread;
use crate::connection::{self, ConnectionHost, Flushed};
use sluice_base::SessionKey;
use sluice_engine::SHARED_BYTES_MIN;
use sluice_evloop::SendBuf;
use sluice_resp::{Mark, Outbox};
use sluice_subscriptions::multicast::Multicast;

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
