//! What the kernel has now, read from `ip -json`.

use std::{collections::BTreeSet, net::Ipv4Addr};

use ipnet::Ipv4Net;
use serde::{Deserialize, de::DeserializeOwned};

use super::{NetworkError, plan::ROUTE_PROTOCOL};
use crate::command::Program;

/// Addresses of services on a machine's interface say so by this label, which begins with the interface as it must.
pub(super) const SERVICE_LABEL: &str = "eth0:service";

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) name: String,
    /// `bridge`, `veth`; absent for hardware.
    pub(super) kind: Option<String>,
    pub(super) up: bool,
    /// The bridge it is joined to.
    pub(super) master: Option<String>,
    pub(super) addresses: Vec<Ipv4Net>,
    /// Those of them that are addresses of services.
    pub(super) services: Vec<Ipv4Addr>,
}

/// A route of any table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Route {
    /// Absent for the default route.
    pub(super) destination: Option<Ipv4Net>,
    /// Absent for those that lead nowhere.
    pub(super) device: Option<String>,
    pub(super) gateway: Option<String>,
    /// Who made it.
    pub(super) protocol: Option<String>,
    /// Of two routes to one place, the lower counts.
    pub(super) metric: Option<u32>,
}

impl Route {
    /// Whether we made it, or another installation of ours.
    pub(super) fn is_ours(&self) -> bool {
        self.protocol.as_deref() == Some(ROUTE_PROTOCOL)
    }
}

/// The host outside of all machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostView {
    pub(super) links: Vec<Link>,
    pub(super) routes: Vec<Route>,
    pub(super) namespaces: BTreeSet<String>,
}

impl HostView {
    pub(super) fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }
}

/// Inside of a machine's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamespaceView {
    pub(super) links: Vec<Link>,
    pub(super) routes: Vec<Route>,
    /// Whether it passes packets on, as a node does for its pods.
    pub(super) forwarding: bool,
}

impl NamespaceView {
    pub(super) fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }
}

#[derive(Deserialize)]
struct RawLink {
    ifname: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    master: Option<String>,
    linkinfo: Option<RawLinkInfo>,
    #[serde(default)]
    addr_info: Vec<RawAddress>,
}

#[derive(Deserialize)]
struct RawLinkInfo {
    info_kind: Option<String>,
}

#[derive(Deserialize)]
struct RawAddress {
    family: Option<String>,
    local: Option<String>,
    prefixlen: Option<u8>,
    label: Option<String>,
}

#[derive(Deserialize)]
struct RawRoute {
    dst: Option<String>,
    dev: Option<String>,
    gateway: Option<String>,
    protocol: Option<String>,
    metric: Option<u32>,
}

#[derive(Deserialize)]
struct RawNamespace {
    name: String,
}

impl From<RawLink> for Link {
    fn from(raw: RawLink) -> Self {
        Self {
            name: raw.ifname.unwrap_or_default(),
            kind: raw.linkinfo.and_then(|info| info.info_kind),
            up: raw.flags.iter().any(|flag| flag == "UP"),
            master: raw.master,
            services: raw
                .addr_info
                .iter()
                .filter(|address| address.label.as_deref() == Some(SERVICE_LABEL))
                .filter_map(|address| address.local.as_ref()?.parse().ok())
                .collect(),
            addresses: raw
                .addr_info
                .into_iter()
                .filter(|address| address.family.as_deref() == Some("inet"))
                .filter_map(|address| {
                    Ipv4Net::new(address.local?.parse().ok()?, address.prefixlen?).ok()
                })
                .collect(),
        }
    }
}

impl From<RawRoute> for Route {
    fn from(raw: RawRoute) -> Self {
        let destination = raw.dst.as_deref().and_then(|text| {
            // A single address is written without a length.
            text.parse::<Ipv4Net>()
                .ok()
                .or_else(|| text.parse::<Ipv4Addr>().ok().map(Ipv4Net::from))
        });
        Self {
            destination,
            device: raw.dev,
            gateway: raw.gateway,
            protocol: raw.protocol,
            metric: raw.metric,
        }
    }
}

const LINKS: &[&str] = &["-json", "-details", "address", "show"];
const ROUTES: &[&str] = &["-json", "-4", "route", "show", "table", "all"];

pub(super) async fn host(ip: &Program) -> Result<HostView, NetworkError> {
    let namespaces: Vec<RawNamespace> = read(ip, &["-json", "netns", "list"]).await?;
    Ok(HostView {
        links: links(ip, &[]).await?,
        routes: routes(ip, &[]).await?,
        namespaces: namespaces
            .into_iter()
            .map(|namespace| namespace.name)
            .collect(),
    })
}

pub(super) async fn namespace(ip: &Program, name: &str) -> Result<NamespaceView, NetworkError> {
    let forwarding = ip
        .run([
            "netns",
            "exec",
            name,
            "cat",
            "/proc/sys/net/ipv4/ip_forward",
        ])
        .await?;
    Ok(NamespaceView {
        links: links(ip, &["-n", name]).await?,
        routes: routes(ip, &["-n", name]).await?,
        forwarding: forwarding.trim() == "1",
    })
}

async fn links(ip: &Program, place: &[&str]) -> Result<Vec<Link>, NetworkError> {
    let raw: Vec<RawLink> = read(ip, &[place, LINKS].concat()).await?;
    Ok(raw
        .into_iter()
        // Some versions print an empty object for an interface that was filtered out.
        .filter(|link| link.ifname.is_some())
        .map(Link::from)
        .collect())
}

async fn routes(ip: &Program, place: &[&str]) -> Result<Vec<Route>, NetworkError> {
    let raw: Vec<RawRoute> = read(ip, &[place, ROUTES].concat()).await?;
    Ok(raw.into_iter().map(Route::from).collect())
}

async fn read<T: DeserializeOwned + Default>(
    ip: &Program,
    arguments: &[&str],
) -> Result<T, NetworkError> {
    let text = ip.run(arguments.iter().copied()).await?;
    parse(&text).map_err(|source| NetworkError::Answer {
        arguments: arguments.join(" "),
        source,
    })
}

/// Of nothing, `ip` prints either an empty list or nothing at all.
fn parse<T: DeserializeOwned + Default>(text: &str) -> Result<T, serde_json::Error> {
    if text.trim().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_str(text)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_ip_prints_is_understood() {
        let links: Vec<RawLink> = parse(
            r#"[{},{"ifname":"br7","flags":["BROADCAST","UP","LOWER_UP"],"linkinfo":{"info_kind":"bridge","info_data":{}},
                "addr_info":[{"family":"inet","local":"10.213.7.1","prefixlen":24},{"family":"inet6","local":"fe80::1","prefixlen":64}]},
                {"ifname":"bm1","link_index":2,"master":"br7","flags":["BROADCAST"],"linkinfo":{"info_kind":"veth"},
                 "addr_info":[{"family":"inet","local":"10.213.7.200","prefixlen":32,"label":"eth0:service"}]}]"#,
        )
        .unwrap();
        let links: Vec<Link> = links.into_iter().skip(1).map(Link::from).collect();
        assert_eq!(
            links,
            [
                Link {
                    name: "br7".to_owned(),
                    kind: Some("bridge".to_owned()),
                    up: true,
                    addresses: vec!["10.213.7.1/24".parse().unwrap()],
                    ..Link::default()
                },
                Link {
                    name: "bm1".to_owned(),
                    kind: Some("veth".to_owned()),
                    master: Some("br7".to_owned()),
                    addresses: vec!["10.213.7.200/32".parse().unwrap()],
                    services: vec!["10.213.7.200".parse().unwrap()],
                    ..Link::default()
                },
            ]
        );

        let routes: Vec<RawRoute> = parse(
            r#"[{"dst":"default","gateway":"192.0.2.1","dev":"eth0","flags":[]},{"type":"local","dst":"10.213.7.1","dev":"br7","table":"local"},
                {"type":"unreachable","dst":"10.96.0.0/12","dev":"lo"}]"#,
        )
        .unwrap();
        let destinations: Vec<Option<String>> = routes
            .into_iter()
            .map(|raw| Route::from(raw).destination.map(|net| net.to_string()))
            .collect();
        assert_eq!(
            destinations,
            [
                None,
                Some("10.213.7.1/32".to_owned()),
                Some("10.96.0.0/12".to_owned())
            ]
        );
        assert!(parse::<Vec<RawRoute>>(" \n").unwrap().is_empty());
    }
}
