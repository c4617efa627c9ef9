//! The main channel of a replica whose snapshot arrives on a separate connection; the counterpart of
//! `server/iteration/main_channel.rs`.
//!
//! Invariants: (1) the buffered stream is executed after the snapshot is loaded, in order, and before
//! bytes that are still in the network; (2) an iteration executes at most one block of that stream.

mod link;

pub(super) use self::link::{MainLink, Replay};

use super::{Holder, Peer, SimNode, connection};
use crate::net::{Arrived, Net, Side};
use sluice_replication::Input;

impl SimNode {
    /// Buffers the bytes that the main channel has received, unless the buffer already exceeds
    /// `stream_bound`.
    pub(super) fn collect_for_main(&mut self, net: &mut Net) {
        let attempt = self.attempt;
        let Some(main) = &mut self.main else { return };
        let is_full = main.buffer.as_ref().is_some_and(|buffer| buffer.len() > self.stream_bound);
        if main.has_ended || is_full {
            return;
        }
        let Arrived { bytes, has_ended } = net.receive(main.conn, Side::Opener);
        main.has_ended = has_ended;
        match &mut main.buffer {
            Some(buffer) => buffer.extend_from_slice(&bytes),
            None if bytes.is_empty() => {}
            None => self.link_input(Input::MainReceived(attempt, &bytes), net),
        }
        if has_ended {
            // The link ignores this if another attempt is under way.
            self.link_input(Input::MainEnded(attempt), net);
        }
    }

    /// Gives the main channel a session, because the snapshot is loaded. The session first executes the
    /// buffered stream.
    pub(super) fn stream_from_main(&mut self, main: MainLink, net: &mut Net) {
        if let Holder::Received(conn, _) = std::mem::replace(&mut self.holder, Holder::Nobody) {
            net.close(conn, Side::Opener, &mut self.rng);
        }
        let key = self.engine.connect_primary(connection(self.id), &mut self.process);
        self.note_activity();
        self.holder = Holder::Session(key);
        self.add_seat(key, Peer::Link(main.conn), Vec::new());
        self.replay = Some(Replay { key, rest: main.buffer.unwrap_or_default() });
        self.met_dual += 1;
        self.replay_stream();
    }

    /// Executes one block of the buffered stream; after the last block, the session receives from
    /// the network again.
    pub(super) fn replay_stream(&mut self) {
        let Some(mut replay) = self.replay.take() else { return };
        let (key, block_bytes) = (replay.key, self.block_bytes);
        let Some(seat) = self.seat(key) else { return };
        if replay.rest.is_empty() {
            return;
        }
        // While a command is blocked, the commands after it wait.
        if !seat.waits {
            let behind = replay.rest.split_off(block_bytes.min(replay.rest.len()));
            seat.buf.extend_from_slice(&std::mem::replace(&mut replay.rest, behind));
            self.last_activity_ns = self.process.base.now.mono_ns;
            self.replay = Some(replay);
            self.execute(key);
        } else {
            self.replay = Some(replay);
        }
    }

    /// Closes the main channel and drops the buffered stream.
    pub(super) fn close_main(&mut self, net: &mut Net) {
        self.replay = None;
        if let Some(main) = self.main.take() {
            net.close(main.conn, Side::Opener, &mut self.rng);
        }
    }
}
