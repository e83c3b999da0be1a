//! Where a process listens, as operators write it.

use std::{fmt, net::SocketAddr, str::FromStr};

/// Where to listen: `:8080` on all addresses, `127.0.0.1:8080` on one, `0` nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAddress(Option<SocketAddr>);

impl BindAddress {
    /// The address; none to listen nowhere.
    pub const fn address(self) -> Option<SocketAddr> {
        self.0
    }
}

/// A bind address that cannot be one.
#[derive(Debug, thiserror::Error)]
#[error(
    "write an address and port such as 127.0.0.1:8080, a port such as :8080, or 0 to listen nowhere"
)]
pub struct BindAddressError;

impl FromStr for BindAddress {
    type Err = BindAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "0" {
            return Ok(Self(None));
        }
        let all = text.strip_prefix(':').map(|port| format!("0.0.0.0:{port}"));
        all.as_deref()
            .unwrap_or(text)
            .parse()
            .map(|address| Self(Some(address)))
            .map_err(|_| BindAddressError)
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(formatter),
            None => formatter.write_str("0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bind_addresses_are_read_as_operators_write_them() {
        let read = |text: &str| {
            text.parse::<BindAddress>()
                .map(|address| address.to_string())
        };
        assert_eq!(read(":8080").unwrap(), "0.0.0.0:8080");
        assert_eq!(read("127.0.0.1:1").unwrap(), "127.0.0.1:1");
        assert_eq!(read("0").unwrap(), "0");
        assert!(
            read("localhost")
                .unwrap_err()
                .to_string()
                .contains("such as 127.0.0.1:8080")
        );
    }
}
