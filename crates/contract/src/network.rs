//! Which network an IP address belongs to, from the public internet to this machine. Callers use it to decide where a name or a
//! URL from outside may lead. It resolves no names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network, ordered from public to this machine and its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Network {
    /// The public internet.
    Public,
    /// The network of an organisation: RFC 1918, unique local, shared address space.
    Private,
    /// This machine.
    Loopback,
    /// Link-local addresses, where cloud machines get their credentials, and addresses that no server can have.
    Link,
}

impl Network {
    /// The network of an address.
    pub fn from_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => network_of_v4(address),
            IpAddr::V6(address) => address.to_ipv4_mapped().map_or_else(|| network_of_v6(address), network_of_v4),
        }
    }

    /// Whether a server in this network may send the gateway to an address in that one.
    pub const fn may_send_to(self, other: Self) -> bool {
        match other {
            Self::Public => true,
            Self::Private => matches!(self, Self::Private | Self::Loopback),
            Self::Loopback => matches!(self, Self::Loopback),
            Self::Link => matches!(self, Self::Link),
        }
    }
}

fn network_of_v4(address: Ipv4Addr) -> Network {
    let [first, second, third, _] = address.octets();
    // Addresses reserved for protocols and examples, and the address at which Azure's machines get their secrets.
    let is_special = matches!((first, second, third), (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113))
        || address == Ipv4Addr::new(168, 63, 129, 16);
    if address.is_loopback() {
        Network::Loopback
    } else if address.is_private()
        || (first == 100 && (64..128).contains(&second))
        || (first == 198 && second & 0xfe == 18)
    {
        Network::Private
    } else if first == 0 || first >= 224 || address.is_link_local() || is_special {
        Network::Link
    } else {
        Network::Public
    }
}

fn network_of_v6(address: Ipv6Addr) -> Network {
    let segments = address.segments();
    let [first, second, ..] = segments;
    // IPv4 addresses inside IPv6 ones: 64:ff9b::/96, 2002::/16, ::/96.
    let inside = match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some((high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some((high, low)),
        _ => None,
    };
    if let Some((high, low)) = inside {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        return network_of_v4(Ipv4Addr::new(a, b, c, d));
    }
    // The address at which AWS's machines get their credentials.
    let is_metadata = segments == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254];
    // Servers have addresses in 2000::/3 only. These parts of it are reserved for protocols and examples.
    let is_special = (first == 0x2001 && (second < 0x200 || second == 0xdb8)) || (first == 0x3fff && second < 0x1000);
    if address.is_loopback() {
        Network::Loopback
    } else if first & 0xfe00 == 0xfc00 && !is_metadata {
        Network::Private
    } else if first & 0xe000 == 0x2000 && !is_special {
        Network::Public
    } else {
        Network::Link
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn an_address_is_of_one_network_however_it_is_written() {
        for (address, network) in [
            ("8.8.8.8", Network::Public),
            ("2606:4700::1", Network::Public),
            ("10.1.2.3", Network::Private),
            ("100.64.0.1", Network::Private),
            ("fd00::1", Network::Private),
            ("::ffff:10.0.0.1", Network::Private),
            ("64:ff9b::a00:1", Network::Private),
            ("127.9.9.9", Network::Loopback),
            ("::1", Network::Loopback),
            ("2002:7f00:1::", Network::Loopback),
            ("169.254.169.254", Network::Link),
            ("::ffff:169.254.169.254", Network::Link),
            ("fe80::1", Network::Link),
            ("0.0.0.0", Network::Link),
            ("::", Network::Link),
            ("255.255.255.255", Network::Link),
            ("224.0.0.1", Network::Link),
            ("192.0.0.192", Network::Link),
            ("168.63.129.16", Network::Link),
            ("fec0::1", Network::Link),
            ("fd00:ec2::254", Network::Link),
            ("64:ff9b:1::7f00:1", Network::Link),
            ("::ffff:0:127.0.0.1", Network::Link),
            ("2001:0:7f00:1::", Network::Link),
            ("2001:db8::1", Network::Link),
            ("::2", Network::Link),
            ("100::1", Network::Link),
        ] {
            assert_eq!(Network::from_address(address.parse().unwrap()), network, "{address}");
        }
    }
}
