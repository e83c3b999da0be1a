//! Where a stream is to go, whether it may, and the connection itself.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use http::uri::Authority;
use ipnet::IpNet;
use tokio::net::{TcpStream, lookup_host};

use crate::failure::{Failure, TunnelError};

/// A host, by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    host: String,
    port: u16,
}

/// A destination that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no destination; write host:port, such as 10.0.0.1:443 or [fd00::1]:443")]
pub struct DestinationError(String);

impl Destination {
    /// The name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The destination as a request names it.
    pub(crate) fn authority(&self) -> Result<Authority, DestinationError> {
        self.to_string()
            .parse()
            .map_err(|_| DestinationError(self.to_string()))
    }
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let problem = || DestinationError(text.chars().take(300).collect());
        let authority: Authority = text.parse().map_err(|_| problem())?;
        let port = authority.port_u16().ok_or_else(problem)?;
        let host = authority.host();
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        if port == 0 || host.is_empty() || text.contains('@') {
            return Err(problem());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

/// Which addresses an agent connects to.
///
/// Refused are the agent's own loopback, link-local addresses (where clouds serve the credentials of machines), and what is
/// no address of one host. An address that is allowed explicitly is never refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DestinationPolicy {
    /// Ranges that are open although the rules above close them.
    pub allowed: Vec<IpNet>,
}

impl DestinationPolicy {
    /// Whether the agent may connect there.
    pub fn permits(&self, address: IpAddr) -> bool {
        // An IPv4 address may be written as an IPv6 address, and means the same then.
        let address = address.to_canonical();
        self.allowed.iter().any(|range| range.contains(&address)) || !is_closed(address)
    }
}

fn is_closed(address: IpAddr) -> bool {
    let special = address.is_loopback() || address.is_unspecified() || address.is_multicast();
    special
        || match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }
}

/// Connects to a destination, if the policy lets us.
pub(crate) async fn dial(
    destination: &Destination,
    policy: &DestinationPolicy,
    timeout: Duration,
) -> Result<TcpStream, TunnelError> {
    let dialling = async {
        let addresses = resolve(destination).await?;
        let (permitted, closed): (Vec<_>, Vec<_>) = addresses
            .into_iter()
            .partition(|address| policy.permits(address.ip()));
        if let ([], Some(closed)) = (permitted.as_slice(), closed.first()) {
            return Err(TunnelError::new(
                Failure::Forbidden,
                format!(
                    "{destination}: agents do not connect to {}; --allow-destination opens it",
                    closed.ip()
                ),
            ));
        }
        connect(destination, &permitted).await
    };
    in_time(destination, timeout, dialling).await
}

/// Connects to a destination that the operator of this process has named: no policy is between.
pub(crate) async fn reach(
    destination: &Destination,
    timeout: Duration,
) -> Result<TcpStream, TunnelError> {
    let reaching = async {
        let addresses = resolve(destination).await?;
        connect(destination, &addresses).await
    };
    in_time(destination, timeout, reaching).await
}

async fn in_time(
    destination: &Destination,
    timeout: Duration,
    dialling: impl Future<Output = Result<TcpStream, TunnelError>>,
) -> Result<TcpStream, TunnelError> {
    let outcome = tokio::time::timeout(timeout, dialling).await;
    outcome.unwrap_or_else(|_| {
        Err(TunnelError::new(
            Failure::Timeout,
            format!("{destination} did not answer within {timeout:?}"),
        ))
    })
}

async fn resolve(destination: &Destination) -> Result<Vec<SocketAddr>, TunnelError> {
    let unknown = |problem: String| {
        TunnelError::new(
            Failure::UnknownName,
            format!("{destination} has no address: {problem}"),
        )
    };
    let found = lookup_host((destination.host(), destination.port())).await;
    let addresses: Vec<_> = found.map_err(|error| unknown(error.to_string()))?.collect();
    if addresses.is_empty() {
        return Err(unknown("the name has none".to_owned()));
    }
    Ok(addresses)
}

/// Tries one address after the other; the last failure is told.
async fn connect(
    destination: &Destination,
    addresses: &[SocketAddr],
) -> Result<TcpStream, TunnelError> {
    let mut last = TunnelError::new(
        Failure::UnknownName,
        format!("{destination} has no address"),
    );
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Without it small messages wait for acknowledgements; if it cannot be set, they do.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => {
                last = TunnelError::new(
                    failure_of(&error),
                    format!("cannot connect to {destination}: {error}"),
                );
            }
        }
    }
    Err(last)
}

fn failure_of(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Failure::Refused,
        io::ErrorKind::TimedOut => Failure::Timeout,
        _ => Failure::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn parsed(text: &str) -> Option<(String, u16)> {
        let destination: Destination = text.parse().ok()?;
        assert_eq!(
            destination.to_string(),
            text,
            "reads back as it was written"
        );
        Some((destination.host().to_owned(), destination.port()))
    }

    #[test]
    fn destinations_are_names_and_addresses_with_a_port() {
        let name = "webhook.tenant.svc".to_owned();
        assert_eq!(parsed("webhook.tenant.svc:443"), Some((name, 443)));
        assert_eq!(parsed("10.96.0.1:1"), Some(("10.96.0.1".to_owned(), 1)));
        assert_eq!(parsed("[fd00::1]:443"), Some(("fd00::1".to_owned(), 443)));
    }

    #[test]
    fn what_is_no_destination_is_refused_with_an_example() {
        for text in [
            "",
            "host",
            "host:0",
            "host:70000",
            ":443",
            "user@host:443",
            "a b:1",
        ] {
            let error = text.parse::<Destination>().expect_err(text);
            assert!(error.to_string().contains("10.0.0.1:443"), "{error}");
        }
    }

    #[test]
    fn an_agent_keeps_its_own_host_and_the_metadata_of_clouds_closed() {
        let policy = DestinationPolicy::default();
        for closed in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "::ffff:127.0.0.1",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
        ] {
            assert!(!policy.permits(closed.parse().unwrap()), "{closed}");
        }
        for open in ["10.0.0.1", "192.168.1.1", "fd00::1", "203.0.113.7"] {
            assert!(policy.permits(open.parse().unwrap()), "{open}");
        }
    }

    #[test]
    fn what_an_operator_opens_is_open_and_nothing_beside_it() {
        let policy = DestinationPolicy {
            allowed: vec!["169.254.20.10/32".parse().unwrap()],
        };
        assert!(policy.permits("169.254.20.10".parse().unwrap()));
        assert!(policy.permits("::ffff:169.254.20.10".parse().unwrap()));
        assert!(!policy.permits("169.254.169.254".parse().unwrap()));
    }

    #[tokio::test]
    async fn a_name_that_means_the_agent_itself_is_as_closed_as_the_address() {
        let destination: Destination = "localhost:6443".parse().unwrap();
        let policy = DestinationPolicy::default();
        let error = dial(&destination, &policy, Duration::from_secs(10))
            .await
            .expect_err("closed");
        assert_eq!(error.failure, Failure::Forbidden, "{error}");
        assert!(error.message.contains("--allow-destination"), "{error}");
    }
}
