//! Reads gossip entries and extensions from a checked message, and writes them for a new one.

use super::layout::{self, extension, field, u16_at, u32_at, u64_at, until_nul};
use super::message::{Extension, ForgottenNode, Gossip, GossipEntry, NodeFlags};
use crate::id::{ID_LEN, NodeId, ShardId};
use crate::text::{self, Ipv6Text};
use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// An extension that is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassedOver {
    /// An unknown type, for which the reference logs `Received unknown extension type <n>`.
    Unknown(u16),
    /// A text that CONFIG SET would refuse, in the extension with this number. The value counts as
    /// absent.
    Refused(u16),
}

impl<'a> Gossip<'a> {
    /// Number of entries in the message, including those that [`Gossip::entries`] leaves out.
    pub fn count(&self) -> u16 {
        (self.entries.len() / layout::ENTRY_LEN) as u16
    }

    /// Whether the message has extensions, even if all of them are unknown. A message without extensions
    /// resets all values of the sender that extensions could have set (W-10).
    pub fn has_extensions(&self) -> bool {
        self.extensions.is_some()
    }

    /// The entries; none at all if one of them has a malformed id (G-11). Entries without a usable
    /// address are left out. These are entries whose text has no NUL or may not be stored, and entries
    /// without a port unless the node is NOADDR.
    ///
    /// Flags are as on the wire; the reader decides which bits to believe (G-10).
    pub fn entries(&self) -> impl Iterator<Item = GossipEntry<'a>> + use<'a> {
        let entries = if self.invalid_ids > 0 { &[] } else { self.entries };
        entries.chunks_exact(layout::ENTRY_LEN).filter_map(read_entry)
    }

    /// The first malformed id, as on the wire, for the log: `Received gossip about a node with invalid ID …`.
    pub fn invalid_id(&self) -> Option<&'a [u8]> {
        let mut ids = self.entries.chunks_exact(layout::ENTRY_LEN).map(|entry| &entry[..ID_LEN]);
        ids.find(|id| NodeId::parse(id).is_none())
    }

    /// The extensions with a value. Left out are empty texts, extensions without a meaning for this server,
    /// and those of [`Gossip::passed_over`].
    pub fn extensions(&self) -> impl Iterator<Item = Extension<'a>> + use<'a> {
        Payloads { rest: self.extensions.unwrap_or_default() }
            .filter_map(|(kind, payload)| read_extension(kind, payload).ok().flatten())
    }

    /// The extensions that are ignored: unknown types and refused texts.
    pub fn passed_over(&self) -> impl Iterator<Item = PassedOver> + use<'a> {
        Payloads { rest: self.extensions.unwrap_or_default() }
            .filter_map(|(kind, payload)| read_extension(kind, payload).err())
    }

    pub(super) fn extension_count(&self) -> u16 {
        Payloads { rest: self.extensions.unwrap_or_default() }.count() as u16
    }
}

/// The number and the payload of each extension; the parser has checked the lengths.
struct Payloads<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Payloads<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let length = u32_at(self.rest, 0) as usize;
        let (extension, rest) = self.rest.split_at_checked(length)?;
        let payload = extension.get(layout::EXTENSION_HEAD..)?;
        self.rest = rest;
        Some((u16_at(extension, 4), payload))
    }
}

fn read_entry(entry: &[u8]) -> Option<GossipEntry<'_>> {
    let flags = NodeFlags(u16_at(entry, 98));
    let port = u16_at(entry, 94);
    if port == 0 && !flags.contains(NodeFlags::NOADDR) {
        return None;
    }
    Some(GossipEntry {
        node: NodeId::parse(&entry[..ID_LEN])?,
        ping_sent_s: u32_at(entry, 40),
        pong_received_s: u32_at(entry, 44),
        ip: until_nul(&entry[48..48 + layout::IP_LEN]).and_then(text::ip)?,
        port,
        other_port: u16_at(entry, 100),
        bus_port: u16_at(entry, 96),
        flags,
    })
}

/// Reads an extension: `None` for an empty text, and for one that has no meaning for this server.
fn read_extension(kind: u16, payload: &[u8]) -> Result<Option<Extension<'_>>, PassedOver> {
    let text = until_nul(payload).unwrap_or_default();
    let refused = PassedOver::Refused(kind);
    let name = |check: fn(&[u8]) -> Result<(), text::TextError>| match check(text) {
        Ok(()) => Ok((!text.is_empty()).then_some(text)),
        Err(_) => Err(refused),
    };
    Ok(match kind {
        _ if layout::is_secret_of_redis(kind, payload) => None,
        extension::HOST_NAME => {
            let name = text::host_name(text).ok_or(refused)?;
            (!name.is_empty()).then_some(Extension::HostName(name))
        }
        extension::HUMAN_NAME => name(text::check_human_name)?.map(Extension::HumanName),
        extension::ZONE => name(text::check_zone)?.map(Extension::AvailabilityZone),
        extension::CLIENT_IPV4 => text::client_ipv4(text).map_err(|_| refused)?.map(Extension::ClientIpv4),
        extension::CLIENT_IPV6 => text::client_ipv6(text).map_err(|_| refused)?.map(Extension::ClientIpv6),
        extension::CLIENT_PORT => Some(Extension::ClientPort(u16_at(payload, 0))),
        extension::CLIENT_TLS_PORT => Some(Extension::ClientTlsPort(u16_at(payload, 0))),
        extension::SHARD => ShardId::parse(&field::<ID_LEN>(payload, 0)).map(Extension::Shard),
        extension::FORGOTTEN => NodeId::parse(&field::<ID_LEN>(payload, 0))
            .map(|node| Extension::Forgotten(ForgottenNode { node, seconds: u64_at(payload, ID_LEN) })),
        unknown => return Err(PassedOver::Unknown(unknown)),
    })
}

/// The sender's properties that it announces by extensions. Empty texts and ports of 0 are not announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnouncedLabels<'a> {
    /// `cluster-announce-hostname`, empty for none.
    pub host_name: &'a str,
    /// `cluster-announce-human-nodename`, empty for none.
    pub human_name: &'a [u8],
    /// `cluster-announce-client-ipv4`, `None` if not set.
    pub client_ipv4: Option<Ipv4Addr>,
    /// `cluster-announce-client-ipv6`, `None` if not set.
    pub client_ipv6: Option<Ipv6Text>,
    /// `cluster-announce-client-port`, 0 for none.
    pub client_port: u16,
    /// `cluster-announce-client-tls-port`, 0 for none.
    pub client_tls_port: u16,
    /// `availability-zone`, empty for none.
    pub availability_zone: &'a [u8],
    /// The id of the sender's shard, which is always announced.
    pub shard: ShardId,
}

/// A writer of gossip for messages: entries and extensions as bytes. The buffer can be reused.
#[derive(Clone, Debug, Default)]
pub struct GossipBuffer {
    entries: Vec<u8>,
    /// The bytes of the extensions; not empty once [`GossipBuffer::announce`] was called.
    extensions: Vec<u8>,
}

impl GossipBuffer {
    /// Gossip without entries and extensions.
    pub fn new() -> GossipBuffer {
        GossipBuffer::default()
    }

    /// Removes entries and extensions, and keeps their memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.extensions.clear();
    }

    /// The gossip, for a message's body.
    pub fn gossip(&self) -> Gossip<'_> {
        let extensions = (!self.extensions.is_empty()).then_some(&self.extensions[..]);
        Gossip { entries: &self.entries, invalid_ids: 0, extensions }
    }

    /// Adds an entry; `false` if the message has 65,535 entries already.
    pub fn push(&mut self, entry: &GossipEntry<'_>) -> bool {
        if self.entries.len() / layout::ENTRY_LEN >= usize::from(u16::MAX) {
            return false;
        }
        let out = &mut self.entries;
        out.extend_from_slice(entry.node.as_bytes());
        out.extend_from_slice(&entry.ping_sent_s.to_be_bytes());
        out.extend_from_slice(&entry.pong_received_s.to_be_bytes());
        out.extend_from_slice(&ip_field(entry.ip));
        for number in [entry.port, entry.bus_port, entry.flags.0, entry.other_port, 0] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        true
    }

    /// Replaces the extensions, in the reference's order (W-8): first the names, addresses, ports and zone
    /// that have a value, then `forgotten`, then the shard.
    ///
    /// Forgotten nodes that exceed [`layout::EXTENSIONS_MAX`] are left out, because receivers skip a message
    /// that is too long.
    pub fn announce(
        &mut self,
        announced: &AnnouncedLabels<'_>,
        forgotten: impl IntoIterator<Item = ForgottenNode>,
    ) {
        self.extensions.clear();
        self.push_text(extension::HOST_NAME, announced.host_name.as_bytes());
        self.push_text(extension::HUMAN_NAME, announced.human_name);
        self.push_address(extension::CLIENT_IPV4, announced.client_ipv4);
        self.push_address(extension::CLIENT_IPV6, announced.client_ipv6);
        for (kind, port) in [
            (extension::CLIENT_PORT, announced.client_port),
            (extension::CLIENT_TLS_PORT, announced.client_tls_port),
        ] {
            if port != 0 {
                self.push_extension(kind, &[&port.to_be_bytes()]);
            }
        }
        self.push_text(extension::ZONE, announced.availability_zone);
        let shard_len = layout::EXTENSION_HEAD + ID_LEN;
        let forgotten_len = shard_len + 8;
        for entry in forgotten {
            if self.extensions.len() + forgotten_len + shard_len > layout::EXTENSIONS_MAX {
                break;
            }
            let parts: [&[u8]; 2] = [entry.node.as_bytes(), &entry.seconds.to_be_bytes()];
            self.push_extension(extension::FORGOTTEN, &parts);
        }
        self.push_extension(extension::SHARD, &[announced.shard.as_bytes()]);
    }

    fn push_address(&mut self, kind: u16, address: Option<impl std::fmt::Display>) {
        let Some(address) = address else { return };
        let mut text = String::with_capacity(text::IP_MAX);
        // Writing to a string cannot fail.
        let _ = write!(text, "{address}");
        self.push_text(kind, text.as_bytes());
    }

    /// Adds a text with its NUL; adds nothing for an empty text.
    fn push_text(&mut self, kind: u16, text: &[u8]) {
        if !text.is_empty() {
            self.push_extension(kind, &[text, &[0]]);
        }
    }

    fn push_extension(&mut self, kind: u16, payload: &[&[u8]]) {
        let start = self.extensions.len();
        let payload_len: usize = payload.iter().map(|part| part.len()).sum();
        let length = (layout::EXTENSION_HEAD + payload_len).next_multiple_of(8);
        let out = &mut self.extensions;
        out.extend_from_slice(&(length as u32).to_be_bytes());
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        for part in payload {
            out.extend_from_slice(part);
        }
        out.resize(start + length, 0);
    }
}

/// The field of an address. Settings and messages have no text longer than [`text::IP_MAX`]; a longer
/// one gives an empty field, not a part of the address.
pub(super) fn ip_field(ip: &str) -> [u8; layout::IP_LEN] {
    let mut out = [0; layout::IP_LEN];
    if ip.len() <= text::IP_MAX {
        out[..ip.len()].copy_from_slice(ip.as_bytes());
    }
    out
}
