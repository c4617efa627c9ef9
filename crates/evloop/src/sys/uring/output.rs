//! Sending on the ring, with at most one send per source at a time.
#![allow(unsafe_code)]

mod pending;

pub(super) use self::pending::Pending;

use std::io::{self, IoSlice};

use rustix::io::Errno;

use self::pending::{Message, SLICES_MAX};
use super::Uring;
use super::kernel::{Cqe, Kernel, Patience};
use super::slot::{Life, NONE, OpKind, user_data};
use crate::event::{Event, Sending, Sent};
use crate::handle::Source;
use crate::send_buf::{Cursor, Left, SendBuf};

impl<K: Kernel> Uring<K> {
    #[inline]
    pub(super) fn start_send(&mut self, source: Source, buf: SendBuf) -> Sending {
        let refused = |buf, errno: Errno| Sending::Done(Sent { buf, bytes: 0, error: Some(errno.into()) });
        let Some(slot) = self.slots.get_mut(source.index as usize).filter(|slot| slot.is(source)) else {
            return refused(buf, Errno::BADF);
        };
        if slot.send != NONE {
            return refused(buf, Errno::ALREADY);
        }
        if buf.is_empty() {
            return Sending::Done(Sent { buf, bytes: 0, error: None });
        }
        slot.send = self.sends.insert(Pending { buf, cursor: Cursor::default(), message: None });
        self.inline += 1;
        self.submit_send(source.index, Patience::None);
        Sending::InFlight
    }

    #[inline]
    fn submit_send(&mut self, index: u32, patience: Patience) {
        let slot = &mut self.slots[index as usize];
        let Some(pending) = self.sends.at_mut(slot.send) else { return };
        slot.in_flight += 1;
        self.in_flight += 1;
        let fd = slot.raw_fd();
        let user_data = user_data(OpKind::Send, index);
        if pending.buf.shared.is_empty() {
            let rest = pending.cursor.rest_of_head(&pending.buf);
            // SAFETY: the buffer stays in `sends`, and is neither changed nor dropped, until the completion
            // was reaped.
            // JUSTIFICATION: the kernel sends from where the reply lies.
            unsafe { self.kernel.push_send(fd, rest.as_ptr(), rest.len(), patience, user_data) };
            return;
        }
        let message = pending.message.get_or_insert_with(Message::boxed);
        message.gather(&pending.buf, &pending.cursor);
        // SAFETY: header and slices are boxed in the same entry of `sends` as the buffer they point into, and
        // live as long as that buffer.
        // JUSTIFICATION: as above.
        unsafe { self.kernel.push_sendmsg(fd, &raw const message.header, patience, user_data) };
    }

    /// Whether no send is in flight, or the kernel has taken all bytes and only the completion of the send is
    /// still to be handled. Completions that are reaped here are handled later, in order.
    #[cold]
    pub(super) fn kernel_has_sent(&mut self, source: Source) -> bool {
        let Some(slot) = self.slot(source) else { return false };
        let send = slot.send;
        if send == NONE {
            return true;
        }
        if (self.kernel.unsubmitted() || self.kernel.has_deferred_work()) && self.look().is_err() {
            return false;
        }
        let room = self.ready.len() + self.completions_per_iteration;
        self.kernel.reap(&mut self.ready, room);
        let Some(pending) = self.sends.at_mut(send) else { return false };
        let rest = pending.buf.len() - pending.cursor.sent(&pending.buf);
        let its = user_data(OpKind::Send, source.index);
        self.ready[self.next..]
            .iter()
            .any(|cqe| cqe.user_data == its && usize::try_from(cqe.result).is_ok_and(|sent| sent == rest))
    }

    /// Handles a completion of a send.
    #[inline]
    pub(super) fn sent(&mut self, index: u32, cqe: Cqe) -> Option<Event> {
        let slot = &mut self.slots[index as usize];
        let send = slot.send;
        if slot.life != Life::Open {
            slot.send = NONE;
            self.sends.remove(send);
            return None;
        }
        let pending = self.sends.at_mut(send)?;
        let error = match usize::try_from(cqe.result) {
            Ok(bytes) => {
                if pending.cursor.advance(&pending.buf, bytes) == Left::Some {
                    return self.send_on(index);
                }
                None
            }
            Err(_) if [libc::EAGAIN, libc::EINTR].contains(&-cqe.result) => return self.send_on(index),
            Err(_) => Some(io::Error::from_raw_os_error(-cqe.result)),
        };
        slot.send = NONE;
        let token = slot.token;
        let pending = self.sends.remove(send)?;
        let bytes = pending.cursor.sent(&pending.buf);
        Some(Event::Sent { token, sent: Sent { buf: pending.buf, bytes, error } })
    }

    /// Sends the rest after a send that was short, refused or interrupted; this send waits while the socket
    /// is full.
    #[cold]
    fn send_on(&mut self, index: u32) -> Option<Event> {
        self.metrics.sends_blocked += 1;
        self.submit_send(index, Patience::All);
        None
    }
}

impl Message {
    fn boxed() -> Box<Message> {
        // SAFETY: both are plain C structures for which all zeroes is a valid value.
        // JUSTIFICATION: `msghdr` has private padding on some targets and cannot be written out.
        Box::new(unsafe { std::mem::zeroed() })
    }

    fn gather(&mut self, buf: &SendBuf, cursor: &Cursor) {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = cursor.gather(buf, &mut slices);
        for (to, from) in self.slices.iter_mut().zip(&slices[..count]) {
            *to = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
        }
        self.header.msg_iov = self.slices.as_mut_ptr();
        self.header.msg_iovlen = count as _;
    }
}
