//! Connections below the protocol: what an event of the event loop is about ([`Endpoint`]), a connected
//! socket on its way between holders ([`Stream`]), and the options of sockets. Listening sockets are
//! `listen.rs`; what a client's connection does with its bytes is `connection.rs`.

mod codec;
mod endpoint;
pub mod handshakes;
pub mod options;
mod stream;
pub mod tls;
mod unpacking;

pub use codec::{Codec, PeerSide, TlsCodec};
pub use endpoint::{BusPlace, Endpoint, LinkChannel};
pub use stream::{BlockingStream, ConnectPlan, Ends, Stream, StreamRemote, send_now};
pub use unpacking::UnpackingCodec;
