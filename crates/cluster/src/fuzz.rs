//! Entry points for fuzzers: any bytes that a peer may send, and any text in `nodes.conf`.

use crate::wire::{self, ReceiveBuffer, ReceivedMessage};
use crate::{
    BusTransport, Cluster, ClusterInput, ClusterOutput, ClusterSettings, DialMoment, LinkKey, conf,
    invariants,
};
use sluice_base::Now;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Maximum bytes of a published message that a known sender may send here.
const PUBLISHED_MAX: usize = 1 << 20;

/// The file of a node that knows the senders of the recorded messages: A to E of `tests/golden`.
const FILE: &str = "\
    ffffffffffffffffffffffffffffffffffffffff 10.0.0.9:1@2 myself,master - 0 0 9 connected 16000-16383\n\
    1335dccd34bc7ed4e1066419e873733e27aba1ba 10.0.0.1:1@2 master - 0 0 1 connected 0-5461\n\
    2e810a0df8a3231d993b6751bdf2eb647f16f1d4 10.0.0.2:1@2 slave 1335dccd34bc7ed4e1066419e873733e27aba1ba \
    0 0 1 connected\n\
    4b5eea6c2ba2c9967323e4dcdd372bd9b37ef981 10.0.0.3:1@2 master - 0 0 3 connected 5462-10922\n\
    81e63840e536cd020240fd9777b897465fef3c7d 10.0.0.4:1@2 master - 0 0 4 connected 10923-15999\n\
    vars currentEpoch 9 lastVoteEpoch 3\n";

/// Treats `data` as the bytes of a link: cuts out messages, parses them, writes them again, and passes
/// them to a node. The last byte selects the length of the pieces, which must not change the result.
pub fn fuzz_bus_packets(data: &[u8]) {
    let how = usize::from(data.last().copied().unwrap_or_default());
    let whole = cut(data, data.len().max(1));
    assert_eq!(cut(data, 1 + how), whole, "a split changes what is received");
    for message in whole.iter().flatten() {
        let Ok(read) = wire::parse(message) else { continue };
        let mut written = Vec::new();
        if wire::write(&read, &mut written).is_ok() {
            assert_eq!(wire::parse(&written).as_ref(), Ok(&read), "what is written is read as it was");
        }
    }
    receive(data, 1 + how);
}

/// The complete messages of a stream, with `None` in place of each skipped message and of the end of the
/// link.
fn cut(data: &[u8], piece: usize) -> Vec<Option<Vec<u8>>> {
    let (mut buffer, mut found) = (ReceiveBuffer::new(), Vec::new());
    for mut piece in data.chunks(piece) {
        while let Some(received) = buffer.next(&mut piece, PUBLISHED_MAX, |_| data.len().is_multiple_of(2)) {
            found.push(match received {
                ReceivedMessage::BusMessage(bytes) => Some(bytes.to_vec()),
                ReceivedMessage::PassedOver(_) | ReceivedMessage::Bad(_) => None,
            });
        }
        assert!(buffer.memory() <= 2 * data.len() + wire::BUFFER_MIN, "memory follows the bytes that came");
    }
    found
}

/// Passes `data` to a node on an incoming and on an outgoing link.
fn receive(data: &[u8], piece: usize) {
    let mut around = FuzzedSurroundings { now_ms: 1_000_000, dialled: None };
    let settings = Arc::new(ClusterSettings { node_timeout_ms: 1_000, ..ClusterSettings::default() });
    let Ok(mut node) = Cluster::start(around.now(), settings, 7, Some(FILE.as_bytes()), &[]) else {
        unreachable!("the file is good")
    };
    around.drain(&mut node);
    around.step(&mut node, &ClusterInput::Tick);
    let (peer, local) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)));
    let accepted = node.accept(around.now(), peer, local);
    for link in [accepted, around.dialled].into_iter().flatten() {
        for bytes in data.chunks(piece.max(64)) {
            around.step(&mut node, &ClusterInput::ReceivedMessage { link, bytes });
        }
        around.now_ms += 700;
        around.step(&mut node, &ClusterInput::Tick);
    }
}

/// Simulates a clock, a fast disk, and peers of which only the first can be dialled.
struct FuzzedSurroundings {
    now_ms: u64,
    dialled: Option<LinkKey>,
}

impl FuzzedSurroundings {
    fn now(&self) -> Now {
        Now { mono_ns: self.now_ms * 1_000_000, unix_us: 1_700_000_000_000_000 + self.now_ms as i64 * 1_000 }
    }

    fn step(&mut self, node: &mut Cluster, input: &ClusterInput<'_>) {
        node.step(self.now(), input);
        invariants::check(&node.machine);
        self.drain(node);
    }

    fn drain(&mut self, node: &mut Cluster) {
        while let Some(output) = node.next_output() {
            match output {
                ClusterOutput::Persist { generation, file } => {
                    assert!(conf::read(&file, BusTransport::Tcp).is_ok_and(|read| read.repairs.is_empty()));
                    node.step(self.now(), &ClusterInput::Saved { generation });
                }
                ClusterOutput::Dial { link, .. } if self.dialled.is_none() => {
                    self.dialled = Some(link);
                    node.step(self.now(), &ClusterInput::Connected { link });
                }
                ClusterOutput::Dial { link, .. } => {
                    node.step(self.now(), &ClusterInput::DialFailed { link, moment: DialMoment::Later });
                }
                _ => {}
            }
            invariants::check(&node.machine);
        }
    }
}

/// Treats `data` as `nodes.conf`: a node starts or gives a reason, and a node that starts from the file
/// that it has written has the same state.
pub fn fuzz_nodes_conf(data: &[u8]) {
    for transport in [BusTransport::Tcp, BusTransport::Tls] {
        let Some(first) = start(data, transport) else { continue };
        let second = start(&first, transport).unwrap_or_default();
        let (first, second) = (first.escape_ascii().to_string(), second.escape_ascii().to_string());
        assert_eq!(second, first, "the file of a node starts the same node");
    }
}

/// The file that a node writes after a start from `text`; `None` if no node starts.
fn start(text: &[u8], transport: BusTransport) -> Option<Arc<[u8]>> {
    let settings = ClusterSettings { transport, ..ClusterSettings::default() };
    let now = Now { mono_ns: 1_000_000_000_000, unix_us: 1_700_000_000_000_000 };
    let mut node = Cluster::start(now, Arc::new(settings), 7, Some(text), &[]).ok()?;
    invariants::check(&node.machine);
    let outputs = std::iter::from_fn(|| node.next_output());
    let files = outputs.filter_map(|output| match output {
        ClusterOutput::Persist { file, .. } => Some(file),
        _ => None,
    });
    let file = files.last();
    assert!(file.is_some(), "a start writes the file");
    node.step(now, &ClusterInput::Tick);
    invariants::check(&node.machine);
    file
}
