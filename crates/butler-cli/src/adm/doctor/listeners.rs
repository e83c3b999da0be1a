//! The kernel's tables of sockets, read for those that listen on every address.

use std::{collections::BTreeSet, fmt};

/// What is listened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// Where the kernel lists its sockets.
    pub(super) const fn tables(self) -> [&'static str; 2] {
        match self {
            Self::Tcp => ["/proc/net/tcp", "/proc/net/tcp6"],
            Self::Udp => ["/proc/net/udp", "/proc/net/udp6"],
        }
    }

    /// How the kernel writes the state of a socket that waits for anybody.
    const fn waiting(self) -> &'static str {
        match self {
            Self::Tcp => "0A",
            Self::Udp => "07",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

/// Ports of a table that somebody has on every address. A socket of IPv6 on every address usually has those of IPv4 too.
pub(super) fn everywhere(protocol: Protocol, table: &str) -> BTreeSet<u16> {
    let sockets = table.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        Some((fields.next()?, fields.nth(1)?))
    });
    sockets
        .filter(|(_, state)| *state == protocol.waiting())
        .filter_map(|(local, _)| {
            let (address, port) = local.split_once(':')?;
            let is_any = address.bytes().all(|digit| digit == b'0');
            is_any.then(|| u16::from_str_radix(port, 16).ok())?
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 0100007F:0035 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1
   2: 00000000:1F90 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000     0        0 3 1
";
    const TCP6: &str = "\
   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 0 0 0 1 1
";
    const UDP: &str = "\
  123: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4 2
";

    #[test]
    fn only_who_listens_on_every_address_is_in_the_way() {
        assert_eq!(everywhere(Protocol::Tcp, TCP), BTreeSet::from([5000]));
        assert_eq!(everywhere(Protocol::Tcp, TCP6), BTreeSet::from([80]));
        assert_eq!(everywhere(Protocol::Udp, UDP), BTreeSet::from([53]));
        assert_eq!(everywhere(Protocol::Udp, ""), BTreeSet::new());
    }
}
