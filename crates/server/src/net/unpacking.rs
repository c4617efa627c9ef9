//! Decompresses a primary's stream as it is received, with or without TLS.

use super::codec::{Codec, PeerSide};
use sluice_persist::rdb::PackedStream;
use sluice_tls::Buffers;

/// Decompresses received bytes, if they are compressed; sent bytes are not compressed.
#[derive(Debug)]
pub struct UnpackingCodec {
    stream: PackedStream,
    /// The TLS codec; `None` on a plain connection.
    inner: Option<Box<dyn Codec>>,
}

impl UnpackingCodec {
    /// A codec that continues the decompression `stream`, on a connection whose bytes pass through `inner`
    /// (`None` on a plain connection).
    pub fn boxed(stream: PackedStream, inner: Option<Box<dyn Codec>>) -> Box<dyn Codec> {
        Box::new(UnpackingCodec { stream, inner })
    }
}

impl Codec for UnpackingCodec {
    fn decode(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<PeerSide, String> {
        let mut side = PeerSide::Open;
        let mut decoded = Buffers::default();
        let packed = match &mut self.inner {
            None => bytes,
            Some(inner) => {
                let done = inner.decode(bytes, &mut decoded);
                buffers.answer.append(&mut decoded.answer);
                side = done?;
                &decoded.plain
            }
        };
        self.stream.feed(packed, &mut buffers.plain).map_err(|error| error.to_string())?;
        Ok(side)
    }

    fn encode(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        match &mut self.inner {
            Some(inner) => inner.encode(parts, out),
            None => {
                parts.iter().for_each(|part| out.extend_from_slice(part));
                Ok(())
            }
        }
    }

    fn peer_has_ended(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.peer_has_ended())
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(inner) = &mut self.inner {
            inner.end(out);
        }
    }

    fn footprint(&self) -> usize {
        let inner = self.inner.as_ref().map_or(0, |inner| inner.footprint());
        size_of::<UnpackingCodec>() + self.stream.held_bytes() + inner
    }
}
