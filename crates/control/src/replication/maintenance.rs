//! Maintenance notifications: which are remembered, their frames, and the address that a client is named.
//! `replication/maintenance.rs` of the engine sends the frames.

use sluice_base::key_slot;
use sluice_cluster::NodeId;
use sluice_config::{Config, param};
use sluice_replication::Primary;
use sluice_resp::{Protocol, Reply};
use sluice_session::{ClientKind, MaintenanceNotices, Medium, Session};
use std::net::Ipv4Addr;

/// What clients are told that want to know of failovers, and of slots that leave a node.
#[derive(Debug, Default)]
pub struct Maintenance {
    /// The id of the notification that was sent last; 0 before the first.
    pub last_id: i64,
    /// Clients are to go to the primary that this server follows.
    pub departure: Option<Departure>,
    /// The client that runs a command has asked for notifications: the client is told what others were told.
    pub has_newcomer: bool,
}

/// Clients of a server that has become a replica are to go to its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The id under which clients were told.
    pub id: i64,
    /// Until when whoever comes is told, too, ms of the monotonic clock.
    pub until_ms: u64,
}

impl Maintenance {
    /// The id of the next notification: the time in milliseconds, or one more than the last.
    pub fn next_id(&mut self, unix_ms: i64) -> i64 {
        self.last_id = unix_ms.max(self.last_id.saturating_add(1));
        self.last_id
    }

    /// The id of the next notification of a node of a cluster: the time in milliseconds, or one more than the
    /// last, with `NODE_BITS` of the node's id as its low bits. node-redis remembers ids of all nodes in
    /// one list, and takes the second of two equal ones for a repetition.
    pub fn next_id_of_node(&mut self, unix_ms: i64, node: NodeId) -> i64 {
        let ms = unix_ms.max((self.last_id >> NODE_BITS).saturating_add(1));
        let of_node = i64::from(key_slot(node.as_bytes())) & ((1 << NODE_BITS) - 1);
        // Within 2^53, which numbers of JavaScript hold, for 200 years.
        self.last_id = (ms << NODE_BITS) | of_node;
        self.last_id
    }
}

/// Bits of an id that tell nodes of a cluster apart.
const NODE_BITS: u32 = 10;

/// Whether a client has asked for notifications and can be pushed some: in RESP2 a push would be a reply, and
/// in the stream of a replica a command.
pub fn has_asked(session: &Session) -> bool {
    let caller = &session.caller;
    let is_plain = caller.kind == ClientKind::Normal && caller.replica.is_none();
    caller.flags.maintenance != MaintenanceNotices::Off && caller.proto == Protocol::Resp3 && is_plain
}

/// A notification.
#[derive(Clone, Copy, Debug)]
pub enum Notice<'a> {
    /// A failover has begun.
    FailingOver {
        /// Seconds that are left of its time.
        left_s: u64,
    },
    /// The failover has ended, well or not.
    FailedOver,
    /// The client is to connect elsewhere.
    Moving {
        /// Seconds for which the address counts.
        left_s: u64,
        /// The address; none for the one that the client is configured to.
        endpoint: Option<&'a str>,
    },
    /// Slots of this node are on their way to another.
    SlotsMigrating {
        /// Slots and ranges of these, with commas between.
        slots: &'a str,
    },
    /// The slots are another node's from now on.
    SlotsMigrated {
        /// Host and port of this node, as CLUSTER SLOTS has told the client.
        source: &'a str,
        /// Host and port of the node that owns the slots.
        target: &'a str,
        /// As in [`Notice::SlotsMigrating`].
        slots: &'a str,
    },
    /// The move has ended, and there is nothing more to tell: the slots stay, or the client cannot be named
    /// the node that has them.
    MoveEnded,
}

impl Notice<'_> {
    /// Writes the push.
    pub fn write(self, id: i64, mut reply: Reply<'_>) {
        let mut head = |len: usize, name: &[u8]| {
            reply.push(len);
            reply.bulk(name);
            reply.int(id);
        };
        match self {
            Notice::FailingOver { left_s } => {
                head(4, b"FAILING_OVER");
                reply.int(i64::try_from(left_s).unwrap_or(i64::MAX));
                reply.bulk(SHARDS);
            }
            Notice::FailedOver => {
                head(3, b"FAILED_OVER");
                reply.bulk(SHARDS);
            }
            Notice::Moving { left_s, endpoint } => {
                head(4, b"MOVING");
                reply.int(i64::try_from(left_s).unwrap_or(i64::MAX));
                match endpoint {
                    Some(endpoint) => reply.bulk(endpoint.as_bytes()),
                    None => reply.null(),
                }
            }
            Notice::SlotsMigrating { slots } => {
                head(3, b"SMIGRATING");
                reply.bulk(slots.as_bytes());
            }
            Notice::SlotsMigrated { source, target, slots } => {
                head(3, b"SMIGRATED");
                reply.array(1);
                reply.array(3);
                [source, target, slots].into_iter().for_each(|text| reply.bulk(text.as_bytes()));
            }
            Notice::MoveEnded => {
                head(3, b"MIGRATED");
                reply.bulk(SHARDS);
            }
        }
    }
}

/// The address of the primary that a server follows, as clients may be named it.
#[derive(Debug)]
pub struct NextPrimary {
    /// Host and port, with a colon between.
    pub endpoint: String,
    /// A host name, or an IP address in dotted form: clients split other addresses at the wrong colon.
    is_usable: bool,
    /// The host is a name.
    is_name: bool,
    /// The port takes TLS.
    takes_tls: bool,
}

/// The address in a MOVING for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressForm {
    /// The next primary's.
    Named,
    /// None, as the client wants it.
    Absent,
    /// The client could not use the address: no MOVING is sent.
    Useless,
}

impl NextPrimary {
    /// The address of a replica's primary.
    pub fn new(primary: &Primary, config: &Config) -> NextPrimary {
        NextPrimary {
            endpoint: format!("{}:{}", primary.host, primary.port),
            is_usable: !primary.host.contains(':'),
            is_name: primary.host.parse::<Ipv4Addr>().is_err(),
            takes_tls: config.bool(param::TLS_REPLICATION),
        }
    }

    /// What a client is to be sent. Its connection must be of the kind that the address takes, and a TLS
    /// client that wants a name compares the name with the certificate.
    pub fn form_for(&self, session: &Session) -> AddressForm {
        let flags = &session.caller.flags;
        let is_tls = flags.medium == Medium::Tls;
        let is_reached = self.is_usable && is_tls == self.takes_tls && flags.medium != Medium::Unix;
        let is_of_form = match flags.maintenance {
            MaintenanceNotices::ToSame => return AddressForm::Absent,
            MaintenanceNotices::Off => false,
            MaintenanceNotices::ToIp => true,
            MaintenanceNotices::ToName => self.is_name || !is_tls,
        };
        match is_reached && is_of_form {
            true => AddressForm::Named,
            false => AddressForm::Useless,
        }
    }
}

/// The list of shards that a failover is of: a server alone has none. Clients show the text.
const SHARDS: &[u8] = b"[]";
