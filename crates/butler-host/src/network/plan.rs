//! Which calls of `ip` make the network as wished, from what is there. Nothing is called here.

use ipnet::Ipv4Net;
use thiserror::Error;

use super::{
    Endpoint, InterfaceName, MACHINE_INTERFACE as INSIDE, NetworkSpec, Warning,
    names::{MACHINE_INTERFACE_PREFIX, guard_metric},
    observe::{HostView, Link, NamespaceView, Route},
};

/// Routes of ours say so by this number: nobody else has it in iproute2's list of protocols.
pub(super) const ROUTE_PROTOCOL: &str = "98";
const LOOPBACK: &str = "lo";

/// Arguments of one call of `ip`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step(Vec<String>);

impl Step {
    pub(super) fn new<const COUNT: usize>(arguments: [&str; COUNT]) -> Self {
        Self::from_words(&arguments)
    }

    pub(super) fn from_words(arguments: &[&str]) -> Self {
        Self(arguments.iter().map(ToString::to_string).collect())
    }

    pub(super) fn arguments(&self) -> &[String] {
        &self.0
    }
}

/// Why nothing is done: it would disturb others.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Somebody else's packets go there.
    #[error(
        "the range {range} of the machines collides with the route {route}; choose a range that is free (\"ip route show table all\" lists what is not)"
    )]
    RouteCollision {
        /// The range that was asked for.
        range: Ipv4Net,
        /// The route that is there, in words.
        route: String,
    },
    /// An interface has the name, and is something else.
    #[error(
        "the interface {name} is there and is not a bridge; choose another name for the bridge"
    )]
    NotABridge {
        /// The name.
        name: InterfaceName,
    },
    /// A bridge has the name, and nothing says that it is ours.
    #[error(
        "the bridge {name} is there and was not made by this installation; choose another name, or remove it with \"ip link delete {name}\""
    )]
    ForeignBridge {
        /// The name.
        name: InterfaceName,
    },
    /// The bridge has an address that nobody asked for.
    #[error(
        "the bridge {name} has the address {found} beside {wanted}; remove the address, or the bridge"
    )]
    OtherAddress {
        /// The name.
        name: InterfaceName,
        /// The one that is there.
        found: Ipv4Net,
        /// The one that was asked for.
        wanted: Ipv4Net,
    },
    /// Pods or services are to have addresses of machines.
    #[error(
        "the range {guarded} of pods or services and the range {range} of the machines have addresses in common; choose another for one of them"
    )]
    GuardedMachines {
        /// The range of pods or services.
        guarded: Ipv4Net,
        /// The range of the machines.
        range: Ipv4Net,
    },
    /// The bridge cannot be removed without cutting somebody off.
    #[error(
        "the interface {port} is joined to the bridge {name} and is not a machine's; take it off the bridge first"
    )]
    ForeignPort {
        /// The bridge.
        name: InterfaceName,
        /// What is joined to it.
        port: String,
    },
}

/// Makes the bridge. `ours` says that it was this installation that made the one of that name.
pub(super) fn bridge(
    spec: &NetworkSpec,
    ours: bool,
    host: &HostView,
) -> Result<Vec<Step>, Refusal> {
    let name = spec.bridge.as_str();
    if let Some(route) = host
        .routes
        .iter()
        .find(|route| collides(route, spec.range(), name))
    {
        return Err(Refusal::RouteCollision {
            range: spec.range(),
            route: describe(route),
        });
    }
    let existing = host.link(name);
    if let Some(link) = existing {
        accept_bridge(spec, ours, link)?;
    }
    let mut steps = Vec::new();
    if existing.is_none() {
        steps.push(Step::new(["link", "add", "name", name, "type", "bridge"]));
    }
    if existing.is_none_or(|link| !link.addresses.contains(&spec.address)) {
        let address = spec.address.to_string();
        steps.push(Step::new(["address", "add", &address, "dev", name]));
    }
    if existing.is_none_or(|link| !link.up) {
        steps.push(Step::new(["link", "set", "dev", name, "up"]));
    }
    Ok(steps)
}

fn accept_bridge(spec: &NetworkSpec, ours: bool, link: &Link) -> Result<(), Refusal> {
    let name = spec.bridge.clone();
    if link.kind.as_deref() != Some("bridge") {
        return Err(Refusal::NotABridge { name });
    }
    if !ours {
        return Err(Refusal::ForeignBridge { name });
    }
    let other = link
        .addresses
        .iter()
        .find(|address| **address != spec.address);
    other.map_or(Ok(()), |found| {
        Err(Refusal::OtherAddress {
            name,
            found: *found,
            wanted: spec.address,
        })
    })
}

/// The default route is behind everything and collides with nothing; what the bridge itself brings is ours.
fn collides(route: &Route, range: Ipv4Net, bridge: &str) -> bool {
    let overlaps = route
        .destination
        .is_some_and(|destination| destination.prefix_len() > 0 && overlap(destination, range));
    overlaps && route.device.as_deref() != Some(bridge)
}

fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

fn describe(route: &Route) -> String {
    let destination = route
        .destination
        .map_or_else(|| "default".to_owned(), |net| net.to_string());
    let gateway = route
        .gateway
        .as_ref()
        .map_or_else(String::new, |gateway| format!(" via {gateway}"));
    let device = route
        .device
        .as_ref()
        .map_or_else(String::new, |device| format!(" dev {device}"));
    format!("{destination}{gateway}{device}")
}

/// Keeps the host from sending to pods and services by its default route. Each installation has routes of its own, told
/// apart by their metric. A range that is somebody else's on this host is theirs.
pub(super) fn guard(spec: &NetworkSpec, host: &HostView) -> Result<Vec<Step>, Refusal> {
    let range = spec.range();
    if let Some(guarded) = spec
        .guarded
        .iter()
        .find(|guarded| overlap(**guarded, range))
    {
        return Err(Refusal::GuardedMachines {
            guarded: *guarded,
            range,
        });
    }
    let mut steps: Vec<Step> = own_guards(spec, host)
        .filter(|destination| !spec.guarded.contains(destination))
        .map(|destination| guard_step("delete", destination, spec))
        .collect();
    let missing = spec.guarded.iter().map(Ipv4Net::trunc).filter(|guarded| {
        !own_guards(spec, host).any(|there| there == *guarded) && stranger(*guarded, host).is_none()
    });
    steps.extend(missing.map(|guarded| guard_step("add", guarded, spec)));
    Ok(steps)
}

/// Ranges that are somebody else's on this host.
pub(super) fn not_guarded(spec: &NetworkSpec, host: &HostView) -> Vec<Warning> {
    spec.guarded
        .iter()
        .filter_map(|range| {
            stranger(*range, host).map(|route| Warning::NotGuarded {
                range: *range,
                route: describe(route),
            })
        })
        .collect()
}

/// Takes the guards away.
pub(super) fn remove_guards(spec: &NetworkSpec, host: &HostView) -> Vec<Step> {
    own_guards(spec, host)
        .map(|destination| guard_step("delete", destination, spec))
        .collect()
}

fn own_guards<'view>(
    spec: &NetworkSpec,
    host: &'view HostView,
) -> impl Iterator<Item = Ipv4Net> + use<'view> {
    let metric = guard_metric(&spec.bridge);
    host.routes
        .iter()
        .filter(move |route| route.is_ours() && route.metric == Some(metric))
        .filter_map(|route| route.destination)
}

fn guard_step(verb: &str, destination: Ipv4Net, spec: &NetworkSpec) -> Step {
    let destination = destination.to_string();
    let metric = guard_metric(&spec.bridge).to_string();
    Step::new([
        "route",
        verb,
        "unreachable",
        &destination,
        "proto",
        ROUTE_PROTOCOL,
        "metric",
        &metric,
    ])
}

/// A route of others by which the whole range is reached.
fn stranger(range: Ipv4Net, host: &HostView) -> Option<&Route> {
    host.routes.iter().find(|route| {
        !route.is_ours()
            && route.destination.is_some_and(|destination| {
                destination.prefix_len() > 0 && destination.contains(&range)
            })
    })
}

/// Joins a machine to the bridge. Addresses and routes that others gave the machine stay.
pub(super) fn attach(
    spec: &NetworkSpec,
    endpoint: &Endpoint,
    host: &HostView,
    namespace: Option<&NamespaceView>,
) -> Vec<Step> {
    let name = endpoint.namespace.as_str();
    let outside = endpoint.interface.as_str();
    let mut steps = Vec::new();
    if namespace.is_none() {
        steps.push(Step::new(["netns", "add", name]));
    }
    let mut outer = host.link(outside);
    let mut inner = namespace.and_then(|view| view.link(INSIDE));
    if outer.is_none() || inner.is_none() {
        // Half of a pair is of no use: the other end is in a namespace that is gone.
        if outer.take().is_some() {
            steps.push(Step::new(["link", "delete", "dev", outside]));
        }
        if inner.take().is_some() {
            steps.push(Step::new(["-n", name, "link", "delete", "dev", INSIDE]));
        }
        steps.push(Step::new([
            "link", "add", "name", outside, "type", "veth", "peer", "name", INSIDE, "netns", name,
        ]));
    }
    if outer.is_none_or(|link| link.master.as_deref() != Some(spec.bridge.as_str())) {
        steps.push(Step::new([
            "link",
            "set",
            "dev",
            outside,
            "master",
            spec.bridge.as_str(),
        ]));
    }
    if outer.is_none_or(|link| !link.up) {
        steps.push(Step::new(["link", "set", "dev", outside, "up"]));
    }
    if inner.is_none_or(|link| !link.addresses.contains(&endpoint.address)) {
        let address = endpoint.address.to_string();
        steps.push(Step::new([
            "-n", name, "address", "add", &address, "dev", INSIDE,
        ]));
    }
    for (interface, up) in [
        (INSIDE, inner.is_some_and(|link| link.up)),
        (
            LOOPBACK,
            namespace
                .and_then(|view| view.link(LOOPBACK))
                .is_some_and(|link| link.up),
        ),
    ] {
        if !up {
            steps.push(Step::new([
                "-n", name, "link", "set", "dev", interface, "up",
            ]));
        }
    }
    if let Some(gateway) = endpoint.gateway {
        let gateway = gateway.to_string();
        let is_there = inner.is_some()
            && namespace.is_some_and(|view| {
                view.routes.iter().any(|route| {
                    route.destination.is_none() && route.gateway.as_deref() == Some(&gateway)
                })
            });
        if !is_there {
            steps.push(Step::new([
                "-n", name, "route", "replace", "default", "via", &gateway, "dev", INSIDE,
            ]));
        }
    }
    if !namespace.is_some_and(|view| view.forwarding) {
        steps.push(Step::new([
            "netns",
            "exec",
            name,
            "sh",
            "-c",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
        ]));
    }
    steps
}

/// Takes a machine off the bridge. The pair goes first and by name, for a namespace takes its interfaces along only some
/// time after it was deleted.
pub(super) fn detach(namespace: &str, interface: &InterfaceName, host: &HostView) -> Vec<Step> {
    let mut steps = Vec::new();
    if host.link(interface.as_str()).is_some() {
        steps.push(Step::new(["link", "delete", "dev", interface.as_str()]));
    }
    if host.namespaces.contains(namespace) {
        steps.push(Step::new(["netns", "delete", namespace]));
    }
    steps
}

/// Removes the bridge.
pub(super) fn remove_bridge(spec: &NetworkSpec, host: &HostView) -> Result<Vec<Step>, Refusal> {
    let name = spec.bridge.as_str();
    let Some(link) = host.link(name) else {
        return Ok(Vec::new());
    };
    if link.kind.as_deref() != Some("bridge") {
        return Err(Refusal::NotABridge {
            name: spec.bridge.clone(),
        });
    }
    let foreign = host.links.iter().find(|port| {
        port.master.as_deref() == Some(name) && !port.name.starts_with(MACHINE_INTERFACE_PREFIX)
    });
    if let Some(port) = foreign {
        return Err(Refusal::ForeignPort {
            name: spec.bridge.clone(),
            port: port.name.clone(),
        });
    }
    Ok(vec![Step::new(["link", "delete", "dev", name])])
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
