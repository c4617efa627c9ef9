//! Maintenance notifications: their ids, their encoding, and the address given to a client.
//! `replication/maintenance.rs` of the engine sends them.

use sluice_base::key_slot;
use sluice_cluster::NodeId;
use sluice_config::{Config, param};
use sluice_replication::Primary;
use sluice_resp::{Protocol, Reply};
use sluice_session::{ClientKind, MaintenanceNotices, Medium, Session};
use std::net::Ipv4Addr;

/// The state of notifications about failovers and slot migrations.
#[derive(Debug, Default)]
pub struct Maintenance {
    /// Id of the last notification; 0 before the first.
    pub last_id: i64,
    /// Set while clients should reconnect to the primary that this server follows.
    pub departure: Option<Departure>,
    /// The running command has requested notifications, so its client also gets the present ones, which
    /// other clients have received already.
    pub has_newcomer: bool,
}

/// A server that has become a replica: its clients should reconnect to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Id of the notification that clients have received.
    pub id: i64,
    /// Clients that connect before this time, in ms of the monotonic clock, are notified too.
    pub until_ms: u64,
}

impl Maintenance {
    /// The id of the next notification: the time in milliseconds or the last id plus one, whichever is
    /// greater.
    pub fn next_id(&mut self, unix_ms: i64) -> i64 {
        self.last_id = unix_ms.max(self.last_id.saturating_add(1));
        self.last_id
    }

    /// The id of the next notification of a cluster node: the time in milliseconds or the time in the last id
    /// plus one, whichever is greater, with `NODE_BITS` bits of a hash of the node's id as low bits.
    /// node-redis keeps the ids of all nodes in one list, and ignores a second notification with the same id.
    pub fn next_id_of_node(&mut self, unix_ms: i64, node: NodeId) -> i64 {
        let ms = unix_ms.max((self.last_id >> NODE_BITS).saturating_add(1));
        let of_node = i64::from(key_slot(node.as_bytes())) & ((1 << NODE_BITS) - 1);
        // For 200 years the id stays below 2^53, up to which JavaScript numbers are exact.
        self.last_id = (ms << NODE_BITS) | of_node;
        self.last_id
    }
}

/// Number of bits of an id that distinguish the nodes of a cluster.
const NODE_BITS: u32 = 10;

/// Whether a client has requested notifications and can receive pushes: with RESP2 a push would look like a
/// reply, and in a replica's stream like a command.
pub fn has_asked(session: &Session) -> bool {
    let caller = &session.caller;
    let is_plain = caller.kind == ClientKind::Normal && caller.replica.is_none();
    caller.flags.maintenance != MaintenanceNotices::Off && caller.proto == Protocol::Resp3 && is_plain
}

/// The notifications that clients can request.
#[derive(Clone, Copy, Debug)]
pub enum Notice<'a> {
    /// A failover has begun.
    FailingOver {
        /// Seconds left until the failover times out.
        left_s: u64,
    },
    /// The failover has ended, with or without success.
    FailedOver,
    /// The client should connect to another server.
    Moving {
        /// Seconds for which the address is valid.
        left_s: u64,
        /// Host and port; `None` for the address that the client is configured with.
        endpoint: Option<&'a str>,
    },
    /// Slots of this node are being migrated to another node.
    SlotsMigrating {
        /// Slots and ranges, separated by commas.
        slots: &'a str,
    },
    /// Another node now owns the slots.
    SlotsMigrated {
        /// Host and port of this node, as the client got them from CLUSTER SLOTS.
        source: &'a str,
        /// Host and port of the slots' new owner.
        target: &'a str,
        /// Slots and ranges, as in [`Notice::SlotsMigrating`].
        slots: &'a str,
    },
    /// The migration has ended without a new address: the slots stay, or their owner has no address
    /// for this client.
    MoveEnded,
}

impl Notice<'_> {
    /// Writes the notification as a push with this id.
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

/// The address of the primary that a server follows, in the form for clients.
#[derive(Debug)]
pub struct NextPrimary {
    /// Host and port, joined by a colon.
    pub endpoint: String,
    /// Whether the host is a name or an IPv4 address: clients split other addresses at the wrong colon.
    is_usable: bool,
    /// Whether a usable host is a name, not an IPv4 address.
    is_name: bool,
    /// Whether the port expects TLS.
    takes_tls: bool,
}

/// The form of the address in MOVING for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressForm {
    /// The address of the next primary.
    Named,
    /// No address, as the client has requested.
    Absent,
    /// The client could not use the address, so no MOVING is sent.
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

    /// The form of the address for a client. The client's connection must be of the kind that the port
    /// expects, and a TLS client that wants a name compares it with the certificate.
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

/// The list of shards in the notification of a failover, as text; empty for a server outside of a cluster.
/// Clients display the text.
const SHARDS: &[u8] = b"[]";
