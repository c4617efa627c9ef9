//! Two sessions of this crate that are connected to each other.

use sluice_tls::{Buffers, ClientAuth, Context, Options, Received, Session, SessionError, Sources};

use crate::certs::{CA, CLIENT, NOW_S, SERVER, now};

/// The defaults of the reference's configuration.
pub fn options() -> Options {
    Options {
        client_auth: ClientAuth::Required,
        protocols: String::new(),
        ciphers: String::new(),
        ciphersuites: String::new(),
        prefer_server_ciphers: false,
        session_caching: true,
        session_cache_size: 20_480,
        session_timeout_s: 300,
    }
}

/// The files for both sides.
pub fn sources() -> Sources {
    Sources {
        cert: Some(SERVER.cert.clone()),
        key: Some(SERVER.key.clone()),
        client_cert: Some(CLIENT.cert.clone()),
        client_key: Some(CLIENT.key.clone()),
        ca: vec![CA.file()],
        ..Sources::default()
    }
}

/// A context; panics if it cannot be built.
pub fn context(sources: &Sources, options: &Options) -> Context {
    Context::build(sources, options, NOW_S, now).unwrap_or_else(|error| panic!("{error}"))
}

/// One side of a connection, with its buffers.
pub struct End {
    pub session: Session,
    pub buffers: Buffers,
}

impl End {
    pub fn new(session: Session) -> End {
        End { session, buffers: Buffers::default() }
    }

    /// Processes bytes in pieces of `step`.
    pub fn receive(&mut self, bytes: &[u8], step: usize) -> Result<Received, SessionError> {
        let mut all = Received::default();
        for piece in bytes.chunks(step) {
            let received = self.session.receive(piece, &mut self.buffers)?;
            all.established_now |= received.established_now;
            all.closed |= received.closed;
        }
        Ok(all)
    }

    /// Takes the bytes to be sent to the peer.
    pub fn answer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffers.answer)
    }

    /// Takes the data that were decrypted.
    pub fn plain(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffers.plain)
    }

    /// Encrypts one part and returns the records.
    pub fn send(&mut self, part: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.session.send([part].into_iter(), &mut out).expect("sent");
        out
    }
}

/// A handshake between two contexts. Returns both established ends, or the first error of either side.
pub fn handshake(server: &Context, client: &Context, step: usize) -> Result<(End, End), SessionError> {
    let mut server = End::new(server.accept().expect("a session"));
    let mut client = End::new(client.connect().expect("a session"));
    client.session.start(&mut client.buffers)?;
    for _ in 0..10 {
        let flight = client.answer();
        server.receive(&flight, step)?;
        let flight = server.answer();
        client.receive(&flight, step)?;
        if client.buffers.answer.is_empty() && server.session.is_established() {
            break;
        }
    }
    assert!(server.session.is_established() && client.session.is_established());
    Ok((server, client))
}
