//! Drives the main channel of a full sync: receives the replication stream while the snapshot arrives on
//! another connection, and executes the stream after the snapshot.

use super::Server;
use super::replica::{Decoded, decode_on_link};
use crate::clients::SocketOwner;
use crate::connection::input::{InputState, Receive};
use crate::connection::{self, Connection};
use crate::lazyfree::Garbage;
use crate::replica::LinkConnection;
use crate::replica::main_channel::{MainLink, StreamBuffer};
use sluice_base::LogLevel;
use sluice_base::SessionKey;
use sluice_engine::LinkDriver;
use sluice_evloop::{Event, Received};
use sluice_replication::Input;

impl Server {
    /// Handles an event of the main channel's connection.
    pub(super) fn main_channel_event(&mut self, event: Event) {
        let attempt = self.primary_link.attempt;
        if self.primary_link.main.is_none() {
            return self.keep_late(event);
        }
        let Event::Received { received, .. } = event else { return };
        let chunk = match received {
            Received::Data(chunk) => chunk,
            Received::Eof | Received::Failed(_) => return self.link_input(Input::MainEnded(attempt)),
        };
        self.main_channel_received(attempt, &chunk);
        self.sockets.event_loop.give_back(chunk);
    }

    /// Handles bytes of the main channel as received from the socket.
    fn main_channel_received(&mut self, attempt: u64, chunk: &[u8]) {
        let Some(main) = &mut self.primary_link.main else { return };
        let is_buffering = main.buffer.is_some();
        let mut buffers = self.sockets.spare.decoded();
        let decoded = match main.transport.is_coded() {
            false => Decoded::Plain(chunk),
            true => decode_on_link(&mut main.transport, &mut self.sockets.event_loop, chunk, &mut buffers),
        };
        match decoded {
            Decoded::Plain(bytes) => {
                self.host.work.counts.net_input_bytes += bytes.len() as u64;
                self.host.work.counts.net_repl_input_bytes += bytes.len() as u64;
                match is_buffering {
                    true => self.keep_of_stream(bytes),
                    false if bytes.is_empty() => {}
                    false => self.link_input(Input::MainReceived(attempt, bytes)),
                }
            }
            Decoded::Ended(why) => {
                self.note_link_end(&why);
                self.link_input(Input::MainEnded(attempt));
            }
        }
        self.sockets.spare.keep_decoded(buffers);
    }

    /// Buffers bytes of the stream. Beyond the limit, receiving on the connection stops.
    pub(super) fn keep_of_stream(&mut self, bytes: &[u8]) {
        let bound = self.engine.replica_output_limit();
        let Some(main) = &mut self.primary_link.main else { return };
        let Some(buffer) = &mut main.buffer else { return };
        buffer.push(bytes);
        let is_full = bound.is_some_and(|bound| buffer.bytes() > bound) && !main.is_full;
        self.host.incoming.stream_buffer.set(buffer.footprint());
        if is_full {
            main.is_full = true;
            let bytes = buffer.bytes();
            main.transport.receive(&mut self.sockets.event_loop, Receive::Nothing);
            let text = format!(
                "Dual channel replication: Replication buffer limit reached ({bytes} bytes), stopping buffering. Further \
                 accumulation will occur on primary side."
            );
            self.host.note(LogLevel::Notice, &text);
        }
    }

    /// Makes the main channel the connection of a session, after the snapshot was loaded. The session
    /// first executes the buffered stream.
    pub(super) fn stream_from_main_channel(&mut self, main: MainLink) {
        let MainLink { mut transport, buffer, .. } = main;
        // Receiving stops until the buffered stream is executed.
        transport.receive(&mut self.sockets.event_loop, Receive::Nothing);
        let key = self.session_of_transport(&transport);
        self.primary_link.holder = LinkConnection::Session(key);
        self.sockets.clients.add(key);
        let mut connection = Connection::new(key, transport);
        connection.authentication = sluice_resp::AuthState::Primary;
        connection.is_receive_paused = true;
        connection::ConnectionHost::put(self, connection);
        self.primary_link.replay = Some(buffer.unwrap_or_default());
        self.replay_stream();
    }

    /// Executes a block of the buffered stream; after the last block, receiving from the socket resumes.
    pub(super) fn replay_stream(&mut self) {
        let Some(key) = self.primary_link.session() else { return };
        let Some(mut connection) = connection::ConnectionHost::take(self, key) else { return };
        // While a command of the stream is blocked, the commands after it also wait.
        if !matches!(connection.input.state(), InputState::Open | InputState::Large) {
            return connection::ConnectionHost::put(self, connection);
        }
        let block = self.primary_link.replay.as_mut().and_then(StreamBuffer::take_block);
        self.host.incoming.stream_buffer.set(self.stream_buffer_footprint());
        self.note_activity();
        match block {
            Some(block) => {
                connection::ConnectionHost::process(self, &mut connection, &block);
                connection::ConnectionHost::report_usage(self, &mut connection);
                connection::ConnectionHost::put(self, connection);
            }
            None => {
                self.primary_link.replay = None;
                self.host.incoming.stream_buffer.set(0);
                let text = "Dual channel replication: Successfully streamed replication data into memory";
                self.host.note(LogLevel::Notice, text);
                connection.is_receive_paused = false;
                connection.transport.become_client(&mut self.sockets.event_loop, key);
                connection::resume(self, connection);
            }
        }
    }

    /// Handles an event of the session that executes the buffered stream. Bytes can arrive although
    /// receiving has stopped; they are appended to the buffered bytes. An end of the connection is reported
    /// again when receiving resumes.
    fn keep_late(&mut self, event: Event) {
        let Some(key) = self.primary_link.session().filter(|_| self.primary_link.replay.is_some()) else {
            return;
        };
        match event {
            Event::Received { received: Received::Data(chunk), .. } => {
                self.keep_late_bytes(key, &chunk);
                self.sockets.event_loop.give_back(chunk);
            }
            Event::Received { .. } => {}
            other => connection::handle(self, key, other),
        }
    }

    fn keep_late_bytes(&mut self, key: SessionKey, chunk: &[u8]) {
        let Some(mut connection) = connection::ConnectionHost::take(self, key) else { return };
        let mut buffers = self.sockets.spare.decoded();
        let transport = &mut connection.transport;
        let decoded = match transport.is_coded() {
            false => Decoded::Plain(chunk),
            true => decode_on_link(transport, &mut self.sockets.event_loop, chunk, &mut buffers),
        };
        if let (Decoded::Plain(bytes), Some(replay)) = (decoded, &mut self.primary_link.replay) {
            replay.push(bytes);
        }
        self.sockets.spare.keep_decoded(buffers);
        connection::ConnectionHost::put(self, connection);
    }

    /// Whether a block of the buffered stream can be executed at once.
    pub(super) fn has_replay(&self) -> bool {
        let owner = self.primary_link.session().and_then(|key| self.sockets.clients.owner(key));
        self.primary_link.replay.is_some()
            && matches!(owner, Some(SocketOwner::Main(connection))
                if matches!(connection.input.state(), InputState::Open | InputState::Large))
    }

    /// Heap bytes of the buffered stream; 0 if no stream is buffered.
    pub(super) fn stream_buffer_footprint(&self) -> usize {
        let kept = self.primary_link.main.as_ref().and_then(|main| main.buffer.as_ref());
        kept.or(self.primary_link.replay.as_ref()).map_or(0, StreamBuffer::footprint)
    }

    /// Closes the main channel, and frees its buffered stream.
    pub(super) fn close_main_channel(&mut self) {
        if let Some(mut main) = self.primary_link.main.take() {
            main.transport.close(&mut self.sockets.event_loop);
            self.forget_stream(main.buffer);
        }
    }

    /// Frees the buffered stream of a session that has ended.
    pub(super) fn forget_replay(&mut self, key: SessionKey) {
        if self.primary_link.session() == Some(key)
            && let Some(replay) = self.primary_link.replay.take()
        {
            self.forget_stream(Some(replay));
        }
    }

    /// Frees a buffer on the lazy free thread, because the buffer may be as large as the output limit of
    /// replicas.
    fn forget_stream(&mut self, buffer: Option<StreamBuffer>) {
        self.host.incoming.stream_buffer.set(0);
        if let Some(buffer) = buffer {
            self.free(Garbage::Stream(buffer));
        }
    }
}
