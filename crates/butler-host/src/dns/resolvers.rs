//! The host's own servers.

use std::net::{IpAddr, SocketAddr};

use crate::network::DNS_PORT;

/// Where a host names its servers.
pub const RESOLVER_FILE: &str = "/etc/resolv.conf";

/// The servers that a resolver file names. Lines that name none, and addresses with a zone, are passed over.
pub fn resolvers(text: &str) -> Vec<SocketAddr> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = (words.next()? == "nameserver").then(|| words.next())??;
            let address: IpAddr = address.parse().ok()?;
            Some(SocketAddr::new(address, DNS_PORT))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_in_their_order() {
        let text = "# nameserver 192.0.2.9\nsearch test\nnameserver 127.0.0.53\n nameserver\t2001:db8::53 # second\n\
                    nameserver fe80::1%eth0\nnameserver\nnameserver nonsense\noptions edns0\n";
        let found: Vec<String> = resolvers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["127.0.0.53:53", "[2001:db8::53]:53"]);
        assert!(resolvers("").is_empty());
    }
}
