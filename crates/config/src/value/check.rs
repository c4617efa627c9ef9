//! Conditions on text parameters beyond their type; the errors are the reference's if it has the parameter.

use crate::subnets::Subnets;
use std::net::{Ipv4Addr, Ipv6Addr};

type Check = Result<(), &'static str>;

fn reject_if(bad: bool, reason: &'static str) -> Check {
    if bad { Err(reason) } else { Ok(()) }
}

fn is_path(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'/' | b'\\'))
}

pub(crate) fn dir(text: &[u8]) -> Check {
    reject_if(text.is_empty(), "dir can't be empty")
}

pub(crate) fn dbfilename(text: &[u8]) -> Check {
    reject_if(text.is_empty(), "dbfilename can't be empty")?;
    reject_if(is_path(text), "dbfilename can't be a path, just a filename")
}

pub(crate) fn appendfilename(text: &[u8]) -> Check {
    reject_if(text.is_empty(), "appendfilename can't be empty")?;
    reject_if(is_path(text), "appendfilename can't be a path, just a filename")
}

pub(crate) fn appenddirname(text: &[u8]) -> Check {
    reject_if(text.is_empty(), "appenddirname can't be empty")?;
    reject_if(is_path(text), "appenddirname can't be a path, just a dirname")
}

pub(crate) fn cluster_config_file(text: &[u8]) -> Check {
    reject_if(text.is_empty(), "cluster-config-file can't be empty")
}

pub(crate) fn hash_seed(text: &[u8]) -> Check {
    reject_if(text.len() > 256, "hash-seed must be less than or equal to 256 characters")
}

pub(crate) fn ipv4(text: &[u8]) -> Check {
    reject_if(!text.is_empty() && parsed::<Ipv4Addr>(text).is_none(), "Invalid IPv4 address")
}

pub(crate) fn ipv6(text: &[u8]) -> Check {
    reject_if(!text.is_empty() && parsed::<Ipv6Addr>(text).is_none(), "Invalid IPv6 address")
}

fn parsed<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Checks an announced address: it must be short, and contain only characters that `nodes.conf`, where it is
/// written, permits.
pub(crate) fn announced_ip(text: &[u8]) -> Check {
    reject_if(text.len() >= 46, "cluster-announce-ip is too long")?;
    reject_if(!fits_node_file(text), "cluster-announce-ip contains invalid character")
}

pub(crate) fn nodename(text: &[u8]) -> Check {
    reject_if(!fits_node_file(text), "Announced human node name contained invalid character")
}

fn fits_node_file(text: &[u8]) -> bool {
    text.iter().all(|byte| *byte > b',' && *byte != 0x7f && !b";<=>?@[]^{|}~\\".contains(byte))
}

pub(crate) fn hostname(text: &[u8]) -> Check {
    reject_if(text.len() >= 256, "Hostnames must be less than 256 characters")?;
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    reject_if(
        !text.iter().all(allowed),
        "Hostnames may only contain alphanumeric characters, hyphens or dots",
    )
}

/// Accepts only names of locales that sort by bytes, because the server has no others.
pub(crate) fn locale(text: &[u8]) -> Check {
    const KNOWN: [&[u8]; 5] = [b"", b"C", b"POSIX", b"C.UTF-8", b"C.utf8"];
    reject_if(!KNOWN.contains(&text), "Invalid locale name")
}

/// Checks a list of addresses and networks.
pub(crate) fn priority_subnets(text: &[u8]) -> Check {
    reject_if(Subnets::parse(text).is_none(), "Invalid IP address or CIDR subnet in priority-subnets")
}

/// Checks a token for an HTTP header: at most 1,024 visible ASCII characters.
pub(crate) fn metrics_token(text: &[u8]) -> Check {
    reject_if(text.len() > 1024, "metrics-token must be 1024 characters at most")?;
    reject_if(!text.iter().all(u8::is_ascii_graphic), "metrics-token must be visible ASCII characters")
}

/// Checks a template: its variables must be closed and known, and it must not expand to blanks alone.
pub(crate) fn proc_title(text: &[u8]) -> Check {
    let shown = shows_something(text);
    reject_if(shown != Some(true), "template format is invalid or contains unknown variables")
}

/// Whether anything but blanks remains after expansion; `None` for a template that is not well formed.
fn shows_something(mut rest: &[u8]) -> Option<bool> {
    let mut shown = false;
    loop {
        match rest {
            [] => return Some(shown),
            [b'{', b'{', after @ ..] => {
                shown = true;
                rest = after;
            }
            [b'{', after @ ..] => {
                let end = after.iter().position(|byte| *byte == b'}')?;
                // `title` and `server-mode` are empty while a template is checked, and there may be no
                // socket.
                shown |= match &after[..end] {
                    b"title" | b"server-mode" | b"unixsocket" => false,
                    b"listen-addr" | b"config-file" | b"port" | b"tls-port" => true,
                    _ => return None,
                };
                rest = &after[end + 1..];
            }
            [byte, after @ ..] => {
                shown |= *byte != b' ';
                rest = after;
            }
        }
    }
}
