//! Connections below the protocol: the connection or socket to which an event of the event loop belongs
//! ([`Endpoint`]), a connected socket that is passed from one holder to another ([`Stream`]), and the options
//! of sockets. Listening sockets are in `listen.rs`; `connection.rs` handles the bytes of a client's
//! connection.

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
