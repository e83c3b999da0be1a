//! Where something listens.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{NetError, serde_as_text};

/// Where something listens: `10.40.0.200:6443`, `[fd00::1]:6443`, `api.example.com:443`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    /// Joins a host, an address or a DNS name, and a port other than zero.
    pub fn new(host: &str, port: u16) -> Result<Self, NetError> {
        let refuse = |rule| NetError::new("endpoint", &format!("{host}:{port}"), rule);
        let host = if let Ok(address) = host.parse::<IpAddr>() {
            address.to_string()
        } else {
            let name = host.to_ascii_lowercase();
            if name.parse::<crate::name::ObjectName>().is_err() {
                return Err(refuse("the host must be an address or a DNS name"));
            }
            name
        };
        if port == 0 {
            return Err(refuse("the port must be between 1 and 65535"));
        }
        Ok(Self { host, port })
    }

    /// The address or DNS name, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for HostPort {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |rule| NetError::new("endpoint", text, rule);
        let (host, port) = text
            .rsplit_once(':')
            .ok_or_else(|| refuse("write a host and a port, for example api.example.com:6443"))?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(|| {
                refuse("close the bracket after the IPv6 address: [fd00::1]:6443")
            })?,
            None if host.contains(':') => {
                return Err(refuse("put an IPv6 address in brackets: [fd00::1]:6443"));
            }
            None => host,
        };
        let port = port
            .parse()
            .map_err(|_| refuse("the port must be between 1 and 65535"))?;
        Self::new(host, port)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

serde_as_text!(HostPort);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::addresses;
    use super::*;

    #[test]
    fn endpoints_need_brackets_around_ipv6_and_a_port() {
        assert_eq!(
            "[FD00::1]:6443"
                .parse::<HostPort>()
                .expect("IPv6")
                .to_string(),
            "[fd00::1]:6443"
        );
        assert_eq!(
            "API.example.com:443"
                .parse::<HostPort>()
                .expect("name")
                .host(),
            "api.example.com"
        );
        for text in [
            "10.0.0.1",
            "fd00::1:6443",
            "[fd00::1:6443",
            "host:0",
            "host:70000",
            "ho st:1",
            ":1",
        ] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn endpoints_survive_being_written_and_read(address in addresses(), port in 1_u16..) {
            let endpoint = HostPort::new(&address.to_string(), port).unwrap();
            prop_assert_eq!(endpoint.to_string().parse::<HostPort>().unwrap(), endpoint);
        }
    }
}
