//! A replica's link without a socket: the test supplies the primary's replies.

use crate::Rig;
use sluice_base::SessionKey;
use sluice_replication::{Input, TransportOrder};
use sluice_resp::command::push_command;
use sluice_session::{ClientAddress, Medium};

/// The link of the rig's engine to its primary. Requests of the link about connections are returned;
/// requests to the engine are carried out.
pub struct RigLink {
    /// The number of the connection attempt that inputs name.
    pub attempt: u64,
}

impl RigLink {
    /// The link in its present state.
    pub fn of(rig: &Rig) -> RigLink {
        RigLink { attempt: rig.engine.link_attempt() }
    }

    /// Connects a link and answers its requests until it has sent PSYNC.
    #[track_caller]
    pub fn asking(rig: &mut Rig) -> RigLink {
        let mut link = RigLink::of(rig);
        link.connect(rig);
        let mut orders = link.receive(rig, b"+PONG\r\n");
        for _ in 0..WORDS_MAX {
            if orders.iter().any(is_psync) {
                return link;
            }
            orders = link.receive(rig, b"+OK\r\n");
        }
        panic!("PSYNC is not sent: {orders:?}");
    }

    /// A link that receives the primary's commands after a partial resynchronization. The engine must have an
    /// offset to continue from.
    #[track_caller]
    pub fn up(rig: &mut Rig) -> RigLink {
        let mut link = RigLink::asking(rig);
        let orders = link.receive(rig, b"+CONTINUE\r\n");
        assert!(orders.contains(&TransportOrder::Stream(Vec::new())), "{orders:?}");
        link
    }

    /// Like [`RigLink::up`]; returns the session that executes the primary's commands.
    #[track_caller]
    pub fn streaming(rig: &mut Rig) -> SessionKey {
        RigLink::up(rig);
        let addr = rig.engine.primary().map(|primary| format!("{}:{}", primary.host, primary.port));
        let addr = addr.expect("a primary that is followed");
        let connection =
            ClientAddress { addr, laddr: "".into(), fd: 9, medium: Medium::Tcp, has_priority: false };
        rig.engine.connect_primary(connection, &mut rig.process)
    }

    /// A link that has received a snapshot as a file, which is about to replace the RDB file. The
    /// primary's replication id consists of 40 times the letter `replid`.
    #[track_caller]
    pub fn committed(rig: &mut Rig, replid: char) -> RigLink {
        let mut link = RigLink::asking(rig);
        let replid = replid.to_string().repeat(40);
        let orders = link.receive(rig, format!("+FULLRESYNC {replid} 700\r\n$5\r\nREDIS").as_bytes());
        assert!(orders.iter().any(|order| matches!(order, TransportOrder::Receive(_))), "{orders:?}");
        link.step(rig, Input::Saved(link.attempt));
        link
    }

    /// Reports that the file was renamed; the engine then begins to load it.
    pub fn load(&mut self, rig: &mut Rig) {
        self.step(rig, Input::InForce(self.attempt));
        rig.end_iteration();
    }

    /// Reports that the load has succeeded.
    pub fn loaded(&mut self, rig: &mut Rig) -> Vec<TransportOrder> {
        self.step(rig, Input::Loaded(self.attempt))
    }

    /// Reports that the connection has ended.
    pub fn connection_lost(&mut self, rig: &mut Rig) {
        self.step(rig, Input::Ended(self.attempt));
        self.attempt = rig.engine.link_attempt();
    }

    /// Makes the connection of the next attempt.
    #[track_caller]
    pub fn connect(&mut self, rig: &mut Rig) {
        for _ in 0..PAUSES_MAX {
            // A link that was lost may have requested its next connection in the same step.
            if rig.link_asked.is_none() {
                self.step(rig, Input::Tick);
            }
            if let Some(attempt) = rig.link_asked.take() {
                self.attempt = attempt;
                self.step(rig, Input::Opened(attempt));
                return;
            }
            rig.pass_ms(100);
        }
        panic!("no connection is asked for");
    }

    /// Passes an input to the link; returns the link's requests about its connections.
    pub fn step(&mut self, rig: &mut Rig, input: Input<'_>) -> Vec<TransportOrder> {
        rig.engine.step_link(input, 0, &mut rig.process);
        let orders: Vec<TransportOrder> =
            std::iter::from_fn(|| rig.engine.next_transport_order(&mut rig.process)).collect();
        let asked = orders.iter().find_map(|order| match order {
            TransportOrder::Connect(attempt, _) => Some(*attempt),
            _ => None,
        });
        rig.link_asked = asked.or(rig.link_asked);
        orders
    }

    /// Passes bytes of the primary to the link.
    pub fn receive(&mut self, rig: &mut Rig, answer: &[u8]) -> Vec<TransportOrder> {
        self.step(rig, Input::Received(self.attempt, answer))
    }
}

/// A line as a request: an array of bulk strings, one for each word between spaces.
pub fn request_of(line: &str) -> Vec<u8> {
    let mut request = Vec::new();
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    push_command(&mut request, words.into_iter());
    request
}

fn is_psync(order: &TransportOrder) -> bool {
    matches!(order, TransportOrder::Send(bytes) if bytes.windows(5).any(|five| five == b"PSYNC"))
}

/// Maximum replies to a link's requests between PING and PSYNC; fewer are needed.
const WORDS_MAX: usize = 10;

/// Maximum ticks (tenths of a second) until a link's next attempt; fewer are needed after a failed attempt.
const PAUSES_MAX: usize = 30;
