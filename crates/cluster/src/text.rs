//! Texts that a node announces: the characters that are allowed, and the errors of CONFIG SET.
//!
//! Invariants: (1) an empty text passes every check and stands for no value; (2) a text that passes can
//! be written to `nodes.conf`, whose writer does not quote, and sent on the bus; the same checks apply
//! to texts of other nodes and of the file.

use std::fmt;
use std::net::{AddrParseError, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The most bytes of an address. The field in messages has 46 bytes, one of which is a NUL.
pub const IP_MAX: usize = 45;
/// An IPv6 address as the operator wrote it. An address has several spellings, and clients are shown the
/// operator's spelling.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Text {
    bytes: [u8; IP_MAX],
    len: u8,
}

impl Ipv6Text {
    fn as_str(&self) -> &str {
        self.bytes.get(..usize::from(self.len)).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("")
    }

    /// The first bytes of `text`, as many as the longest spelling has.
    fn of(text: &str) -> Ipv6Text {
        let mut bytes = [0; IP_MAX];
        let len = bytes.iter_mut().zip(text.bytes()).map(|(to, byte)| *to = byte).count();
        Ipv6Text { bytes, len: len as u8 }
    }
}

impl FromStr for Ipv6Text {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Ipv6Text, AddrParseError> {
        text.parse::<Ipv6Addr>().map(|_| Ipv6Text::of(text))
    }
}

impl From<Ipv6Addr> for Ipv6Text {
    fn from(ip: Ipv6Addr) -> Ipv6Text {
        Ipv6Text::of(&ip.to_string())
    }
}

impl fmt::Display for Ipv6Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Ipv6Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The most bytes of a host name; the reference has the same limit.
pub const HOST_NAME_MAX: usize = 255;
/// The most bytes of a human name and of a zone: with 1,024 forgotten nodes, all extensions of a message then
/// fit into 64 KiB ([`crate::wire::EXTENSIONS_MAX`]). The reference has no limit.
pub const NAME_MAX: usize = 1_024;

/// The reason why a text is refused, in the words of CONFIG SET.
pub type TextError = &'static str;

/// Whether `text` has no byte that would need quotes in nodes.conf or that separates its fields: bytes
/// above `,` but for DEL and `` ;<=>?@[]^{|}~\ ``.
pub fn is_plain(text: &[u8]) -> bool {
    text.iter().all(|&byte| PLAIN[usize::from(byte)])
}

/// The plain bytes as a table, so that a check costs one look-up for each byte; every entry of gossip has an
/// address to check.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut byte = 0;
    while byte <= b',' as usize {
        plain[byte] = false;
        byte += 1;
    }
    let separators = b";<=>?@[]^{|}~\\\x7f";
    let mut at = 0;
    while at < separators.len() {
        plain[separators[at] as usize] = false;
        at += 1;
    }
    plain
};

/// Checks a value of `cluster-announce-human-nodename`: at most [`NAME_MAX`] plain bytes.
pub fn check_human_name(text: &[u8]) -> Result<(), TextError> {
    if !is_plain(text) {
        return Err("Announced human node name contained invalid character");
    }
    if text.len() > NAME_MAX {
        return Err("Announced human node name must be at most 1024 bytes");
    }
    Ok(())
}

/// Checks a value of `availability-zone`: at most [`NAME_MAX`] plain bytes. The reference does not check it.
pub fn check_zone(text: &[u8]) -> Result<(), TextError> {
    if !is_plain(text) {
        return Err("availability-zone contains invalid character");
    }
    if text.len() > NAME_MAX {
        return Err("availability-zone must be at most 1024 bytes");
    }
    Ok(())
}

/// Checks a value of `cluster-announce-ip`: at most [`IP_MAX`] plain bytes of ASCII.
pub fn check_ip(text: &[u8]) -> Result<(), TextError> {
    if !is_plain(text) || !text.is_ascii() {
        return Err("cluster-announce-ip contains invalid character");
    }
    if text.len() > IP_MAX {
        return Err("cluster-announce-ip is too long");
    }
    Ok(())
}

/// Checks a value of `cluster-announce-hostname`: at most [`HOST_NAME_MAX`] letters, digits, hyphens and
/// dots.
pub fn check_host_name(text: &[u8]) -> Result<(), TextError> {
    if text.len() > HOST_NAME_MAX {
        return Err("Hostnames must be less than 256 characters");
    }
    if !text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')) {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots");
    }
    Ok(())
}

/// Parses `cluster-announce-client-ipv4`; `None` for an empty text.
pub fn client_ipv4(text: &[u8]) -> Result<Option<Ipv4Addr>, TextError> {
    parse_address(text, "Invalid IPv4 address")
}

/// Parses `cluster-announce-client-ipv6`; `None` for an empty text.
pub fn client_ipv6(text: &[u8]) -> Result<Option<Ipv6Text>, TextError> {
    parse_address(text, "Invalid IPv6 address")
}

fn parse_address<T: FromStr>(text: &[u8], error: TextError) -> Result<Option<T>, TextError> {
    if text.is_empty() {
        return Ok(None);
    }
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).map(Some).ok_or(error)
}

/// `text` as an address that fits into its field; `None` for one that may not be stored.
pub(crate) fn ip(text: &[u8]) -> Option<&str> {
    check_ip(text).ok()?;
    std::str::from_utf8(text).ok()
}

/// `text` as a host name; `None` for one that may not be stored.
pub(crate) fn host_name(text: &[u8]) -> Option<&str> {
    check_host_name(text).ok()?;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cl_x8_texts_are_refused_with_the_errors_of_the_reference() {
        for byte in 0..=255_u8 {
            let separates = byte <= b',' || byte == 0x7f || b";<=>?@[]^{|}~\\".contains(&byte);
            let name = [b'a', byte];
            let expected = Err("Announced human node name contained invalid character");
            assert_eq!(check_human_name(&name), if separates { expected } else { Ok(()) }, "{byte:#x}");
            let expected = Err("availability-zone contains invalid character");
            assert_eq!(check_zone(&name), if separates { expected } else { Ok(()) }, "{byte:#x}");
            let expected = Err("Hostnames may only contain alphanumeric characters, hyphens or dots");
            let is_host = byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
            assert_eq!(check_host_name(&name), if is_host { Ok(()) } else { expected }, "{byte:#x}");
        }
        assert_eq!(check_ip(b"::1"), Ok(()));
        assert_eq!(check_ip(b"1.2.3.4,"), Err("cluster-announce-ip contains invalid character"));
        assert_eq!(check_ip(&[b'1'; 45]), Ok(()));
        assert_eq!(check_ip(&[b'1'; 46]), Err("cluster-announce-ip is too long"));
        assert_eq!(check_host_name(&[b'a'; 255]), Ok(()));
        assert_eq!(check_host_name(&[b'a'; 256]), Err("Hostnames must be less than 256 characters"));
        assert_eq!(client_ipv4(b"1.2.3.4"), Ok(Some(Ipv4Addr::new(1, 2, 3, 4))));
        assert_eq!(client_ipv4(b"1.2.3.4.5"), Err("Invalid IPv4 address"));
        assert_eq!(
            client_ipv6(b"FD00::1").map(|ip| ip.map(|ip| ip.to_string())),
            Ok(Some("FD00::1".to_owned()))
        );
        for text in ["cafe:1234::0", "::", "0000:0000:0000:0000:0000:ffff:255.255.255.255"] {
            assert_eq!(client_ipv6(text.as_bytes()).unwrap().unwrap().to_string(), text, "as it was written");
        }
        assert_eq!(client_ipv6(&[b'0'; 46]), Err("Invalid IPv6 address"));
        assert_eq!(client_ipv6(b"1.2.3.4"), Err("Invalid IPv6 address"));
    }

    #[test]
    fn cl_x8_names_are_bounded_and_an_empty_text_is_none() {
        assert_eq!(check_human_name(&[0x80; NAME_MAX]), Ok(()));
        assert!(check_human_name(&[0x80; NAME_MAX + 1]).is_err());
        assert!(check_zone(&[b'z'; NAME_MAX + 1]).is_err());
        assert_eq!((client_ipv4(b""), client_ipv6(b"")), (Ok(None), Ok(None)));
        for check in [check_human_name, check_zone, check_ip, check_host_name] {
            assert_eq!(check(b""), Ok(()));
        }
    }
}
