//! Lists of networks in a directive: `10.0.0.0/8 2001:db8::/32,192.0.2.7`.

use std::net::IpAddr;

/// A network: all addresses with the same prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The first address: the bits after the prefix are 0.
    first: u128,
    /// The bits of the prefix.
    mask: u128,
    is_ipv4: bool,
}

impl Subnet {
    /// The network of a word: an address, with `/` and the length of the prefix unless the
    /// network is that one address. IPv4 written as IPv6 (`::ffff:10.0.0.0/104`) means the IPv4
    /// network. `None` for anything else.
    pub fn parse(word: &str) -> Option<Subnet> {
        let (address, prefix) = match word.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u32>().ok()?)),
            None => (word, None),
        };
        let written: IpAddr = address.parse().ok()?;
        let bits = if written.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(bits);
        if prefix > bits {
            return None;
        }
        let address = written.to_canonical();
        let (bits, prefix) = match address.is_ipv4() == written.is_ipv4() {
            true => (bits, prefix),
            // A prefix shorter than 96 bits is refused, because the network would contain more than all
            // IPv4 addresses.
            false => (32, prefix.checked_sub(96)?),
        };
        let mask = match prefix {
            0 => 0,
            _ => u128::MAX << (bits - prefix) & (u128::MAX >> (128 - bits)),
        };
        Some(Subnet { first: number(address) & mask, mask, is_ipv4: address.is_ipv4() })
    }

    /// Whether the address is in the network.
    pub fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.is_ipv4 && number(address) & self.mask == self.first
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// Networks, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subnets(Vec<Subnet>);

impl Subnets {
    /// The networks of a text, separated by commas, blanks and tabs. `None` when one of the
    /// words is no network.
    pub fn parse(text: &[u8]) -> Option<Subnets> {
        let text = std::str::from_utf8(text).ok()?;
        let words = text.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        words.map(Subnet::parse).collect::<Option<Vec<_>>>().map(Subnets)
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the address is in one of the networks. O(networks).
    pub fn have(&self, address: IpAddr) -> bool {
        self.0.iter().any(|subnet| subnet.has(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(subnets: &str, address: &str) -> bool {
        Subnets::parse(subnets.as_bytes()).expect("subnets").have(address.parse().expect("an address"))
    }

    #[test]
    fn an_address_is_in_a_subnet_whose_prefix_it_has() {
        for (subnets, inside, outside) in [
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("10.1.2.3/8", "10.255.0.1", "11.0.0.1"),
            ("10.0.0.0/9", "10.127.255.255", "10.128.0.0"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
            ("::1/128", "::1", "::2"),
            ("::ffff:10.0.0.0/104", "10.200.0.1", "11.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.0.0.1", "::ffff:11.0.0.1"),
            ("1.1.1.1, 2.2.2.2/32\t3.0.0.0/8,,", "3.4.5.6", "2.2.2.3"),
        ] {
            assert!(has(subnets, inside), "{subnets} {inside}");
            assert!(!has(subnets, outside), "{subnets} {outside}");
        }
        assert!(Subnets::parse(b"").is_some_and(|subnets| subnets.is_empty()));
        assert!(Subnets::parse(b" ,").is_some_and(|subnets| subnets.is_empty()));
    }

    #[test]
    fn what_is_no_subnet_is_none() {
        for text in [
            "127.0.0.1/33",
            "127.0.0.1/99",
            "::1/129",
            "::ffff:10.0.0.0/8",
            "invalid/24",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "/8",
            "10.0.0.0/8 x",
            "\u{fc}",
        ] {
            assert_eq!(Subnets::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Subnets::parse(b"\xff"), None);
    }
}
