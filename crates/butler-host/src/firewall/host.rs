//! The host's table: what machines may reach of the host and beyond it.

use super::{Table, TableName};
use crate::network::{DNS_PORT, Egress, InterfaceName, NetworkSpec, REGISTRY_PORT};

/// Addresses that are somebody's own, or nobody's. Nothing of a machine goes there, whatever the egress: the host's
/// neighbours did not ask for machines.
const SPECIAL: [&str; 11] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
];

/// Name of the host's table for a bridge.
pub(crate) fn host_table_name(bridge: &InterfaceName) -> TableName {
    TableName::new(bridge.as_str())
}

/// The rules of a bridge.
///
/// A packet between two machines is bridged. Where the kernel shows bridged packets to the filters of routed ones, it
/// comes from the bridge and goes to the bridge, and passes.
pub(crate) fn host_table(spec: &NetworkSpec) -> Table {
    Table {
        name: host_table_name(&spec.bridge),
        chains: [
            special(),
            forward(spec),
            outward(spec),
            input(spec),
            postrouting(spec),
        ]
        .concat(),
    }
}

fn special() -> String {
    let elements = SPECIAL.join(", ");
    format!(
        "\tset special {{\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = {{ {elements} }}\n\t}}\n"
    )
}

fn forward(spec: &NetworkSpec) -> String {
    let bridge = &spec.bridge;
    chain(
        "forward",
        Some("type filter hook forward priority filter; policy accept;"),
        &[
            format!("iifname \"{bridge}\" oifname \"{bridge}\" accept"),
            format!("iifname \"{bridge}\" goto outward"),
            format!("oifname \"{bridge}\" ct state established,related accept"),
            format!("oifname \"{bridge}\" drop"),
        ],
    )
}

/// What leaves is refused aloud: a client that is told gives up at once, and one that is not waits for minutes.
fn outward(spec: &NetworkSpec) -> String {
    let range = spec.range();
    let refused = "reject with icmpx admin-prohibited";
    let mut rules = vec![
        "meta nfproto ipv6 drop".to_owned(),
        format!("ip saddr != {range} drop"),
        format!("ip daddr @special {refused}"),
    ];
    rules.push(match spec.egress {
        Egress::Off => refused.to_owned(),
        Egress::Nat => "accept".to_owned(),
    });
    chain("outward", None, &rules)
}

/// Of the host itself, machines reach images, names where they may go out, and whether it is there. A pod reaches no more
/// than its machine: whatever else listens on the host is not for them, under none of the host's addresses.
fn input(spec: &NetworkSpec) -> String {
    let host = spec.host();
    let range = spec.range();
    let mut rules = vec![
        // The kernel takes packets for this address from every interface; it is for machines and for the host itself.
        format!(
            "iifname != {{ \"{}\", \"lo\" }} ip daddr {host} drop",
            spec.bridge
        ),
        format!("iifname != \"{}\" accept", spec.bridge),
        // Neighbour discovery is part of it.
        "meta l4proto ipv6-icmp accept".to_owned(),
        "meta nfproto ipv6 drop".to_owned(),
        format!("ip saddr != {range} drop"),
        "ct state established,related accept".to_owned(),
        "meta l4proto icmp accept".to_owned(),
        format!("ip daddr {host} tcp dport {REGISTRY_PORT} accept"),
    ];
    if spec.egress == Egress::Nat {
        rules.push(format!(
            "ip daddr {host} meta l4proto {{ tcp, udp }} th dport {DNS_PORT} accept"
        ));
    }
    rules.push("meta l4proto tcp reject with tcp reset".to_owned());
    rules.push("reject with icmpx port-unreachable".to_owned());
    chain(
        "input",
        Some("type filter hook input priority filter; policy accept;"),
        &rules,
    )
}

/// The host's own address on the bridge is also what it says to itself with: that stays as it is.
fn postrouting(spec: &NetworkSpec) -> String {
    if spec.egress == Egress::Off {
        return String::new();
    }
    let (bridge, range, host) = (&spec.bridge, spec.range(), spec.host());
    chain(
        "postrouting",
        Some("type nat hook postrouting priority srcnat; policy accept;"),
        &[format!(
            "oifname != \"{bridge}\" ip saddr {range} ip saddr != {host} masquerade"
        )],
    )
}

/// A chain as `nft` reads it.
pub(super) fn chain(name: &str, hook: Option<&str>, rules: &[String]) -> String {
    let lines = hook
        .into_iter()
        .chain(rules.iter().map(String::as_str))
        .fold(String::new(), |text, line| format!("{text}\t\t{line}\n"));
    format!("\tchain {name} {{\n{lines}\t}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(egress: Egress) -> NetworkSpec {
        NetworkSpec {
            egress,
            ..NetworkSpec::new("br7".parse().unwrap(), "10.213.7.1/24".parse().unwrap())
        }
    }

    #[test]
    fn the_whole_table_without_egress() {
        insta::assert_snapshot!(host_table(&spec(Egress::Off)).replacement());
    }

    #[test]
    fn the_whole_table_with_egress() {
        insta::assert_snapshot!(host_table(&spec(Egress::Nat)).replacement());
    }
}
