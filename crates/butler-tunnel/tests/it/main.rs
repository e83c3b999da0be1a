//! Both ends of the tunnel, in one process and on loopback addresses, with real sockets and real TLS.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod authentication;
#[cfg(test)]
mod kit;
#[cfg(test)]
mod network;
#[cfg(test)]
mod objects;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod tcp_proxy;
#[cfg(test)]
mod tcp_proxy_endpoints;
#[cfg(test)]
mod token_review;
