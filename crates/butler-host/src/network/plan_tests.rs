use std::collections::BTreeSet;

use pretty_assertions::assert_eq;

use super::*;

fn spec() -> NetworkSpec {
    NetworkSpec::new("br7".parse().unwrap(), "10.213.7.1/24".parse().unwrap())
}

fn endpoint(gateway: Option<&str>) -> Endpoint {
    Endpoint {
        namespace: "butler-cellar.worker".to_owned(),
        interface: "bm0123456789ab".parse().unwrap(),
        address: "10.213.7.10/24".parse().unwrap(),
        gateway: gateway.map(|text| text.parse().unwrap()),
    }
}

fn link(name: &str, kind: &str) -> Link {
    Link {
        name: name.to_owned(),
        kind: Some(kind.to_owned()),
        up: true,
        ..Link::default()
    }
}

fn route(destination: &str, device: &str) -> Route {
    Route {
        destination: Some(destination.parse().unwrap()),
        device: Some(device.to_owned()),
        ..Route::default()
    }
}

fn with_bridge() -> HostView {
    HostView {
        links: vec![Link {
            addresses: vec![spec().address],
            ..link("br7", "bridge")
        }],
        routes: vec![
            Route::default(),
            route("192.0.2.0/24", "eth0"),
            route("10.213.7.0/24", "br7"),
            route("10.213.7.1/32", "br7"),
        ],
        namespaces: BTreeSet::new(),
    }
}

fn lines(steps: &[Step]) -> Vec<String> {
    steps
        .iter()
        .map(|step| step.arguments().join(" "))
        .collect()
}

#[test]
fn an_empty_host_gets_a_bridge() {
    let steps = bridge(&spec(), false, &HostView::default()).unwrap();
    assert_eq!(
        lines(&steps),
        [
            "link add name br7 type bridge",
            "address add 10.213.7.1/24 dev br7",
            "link set dev br7 up",
        ]
    );
}

#[test]
fn a_bridge_that_is_as_wished_is_left_alone() {
    assert_eq!(bridge(&spec(), true, &with_bridge()).unwrap(), []);
}

#[test]
fn a_bridge_that_was_half_made_is_completed() {
    let mut host = with_bridge();
    host.routes.truncate(2);
    host.links[0].up = false;
    host.links[0].addresses.clear();
    assert_eq!(
        lines(&bridge(&spec(), true, &host).unwrap()),
        ["address add 10.213.7.1/24 dev br7", "link set dev br7 up"]
    );
}

#[test]
fn a_range_that_others_use_is_refused_with_their_route() {
    for (found, words) in [
        (route("10.0.0.0/8", "tun0"), "10.0.0.0/8 dev tun0"),
        (route("10.213.7.128/25", "eth1"), "10.213.7.128/25 dev eth1"),
        (route("10.213.7.5/32", "lo"), "10.213.7.5/32 dev lo"),
        (
            Route {
                gateway: Some("192.0.2.9".to_owned()),
                ..route("10.213.7.0/24", "eth0")
            },
            "10.213.7.0/24 via 192.0.2.9 dev eth0",
        ),
        (
            Route {
                device: None,
                ..route("10.208.0.0/12", "")
            },
            "10.208.0.0/12",
        ),
    ] {
        let mut host = with_bridge();
        host.routes.push(found);
        let refusal = bridge(&spec(), true, &host).unwrap_err();
        assert!(
            refusal.to_string().starts_with(&format!(
                "the range 10.213.7.0/24 of the machines collides with the route {words};"
            )),
            "{refusal}"
        );
    }
}

#[test]
fn what_has_the_name_of_the_bridge_and_is_not_ours_is_left_alone() {
    let name: InterfaceName = "br7".parse().unwrap();
    assert_eq!(
        bridge(&spec(), false, &with_bridge()),
        Err(Refusal::ForeignBridge { name: name.clone() })
    );

    let mut host = with_bridge();
    host.links[0].kind = Some("vxlan".to_owned());
    assert_eq!(
        bridge(&spec(), true, &host),
        Err(Refusal::NotABridge { name: name.clone() })
    );
    assert_eq!(
        remove_bridge(&spec(), &host),
        Err(Refusal::NotABridge { name: name.clone() })
    );

    let mut host = with_bridge();
    host.links[0].addresses = vec!["172.31.0.1/24".parse().unwrap()];
    assert!(matches!(
        bridge(&spec(), true, &host),
        Err(Refusal::OtherAddress { .. })
    ));

    let mut host = with_bridge();
    host.links.push(Link {
        master: Some("br7".to_owned()),
        ..link("vm-tap", "tun")
    });
    assert_eq!(
        remove_bridge(&spec(), &host),
        Err(Refusal::ForeignPort {
            name,
            port: "vm-tap".to_owned()
        })
    );
}

#[test]
fn a_new_machine_is_joined_to_the_bridge() {
    let steps = attach(&spec(), &endpoint(Some("10.213.7.1")), &with_bridge(), None);
    assert_eq!(
        lines(&steps),
        [
            "netns add butler-cellar.worker",
            "link add name bm0123456789ab type veth peer name eth0 netns butler-cellar.worker",
            "link set dev bm0123456789ab master br7",
            "link set dev bm0123456789ab up",
            "-n butler-cellar.worker address add 10.213.7.10/24 dev eth0",
            "-n butler-cellar.worker link set dev eth0 up",
            "-n butler-cellar.worker link set dev lo up",
            "-n butler-cellar.worker route replace default via 10.213.7.1 dev eth0",
            "netns exec butler-cellar.worker sh -c echo 1 > /proc/sys/net/ipv4/ip_forward",
        ]
    );
}

#[test]
fn a_machine_without_a_gateway_reaches_its_range_and_nothing_else() {
    let steps = attach(&spec(), &endpoint(None), &with_bridge(), None);
    assert!(
        !lines(&steps).iter().any(|line| line.contains("route")),
        "{steps:?}"
    );
}

fn joined() -> (HostView, NamespaceView) {
    let mut host = with_bridge();
    host.namespaces.insert("butler-cellar.worker".to_owned());
    host.links.push(Link {
        master: Some("br7".to_owned()),
        ..link("bm0123456789ab", "veth")
    });
    let namespace = NamespaceView {
        links: vec![
            Link {
                kind: None,
                ..link("lo", "")
            },
            Link {
                addresses: vec![
                    "10.213.7.10/24".parse().unwrap(),
                    "10.213.7.200/32".parse().unwrap(),
                ],
                ..link("eth0", "veth")
            },
        ],
        routes: vec![Route {
            gateway: Some("10.213.7.1".to_owned()),
            ..Route::default()
        }],
        forwarding: true,
    };
    (host, namespace)
}

#[test]
fn a_machine_that_is_joined_keeps_what_others_gave_it() {
    let (host, namespace) = joined();
    let steps = attach(
        &spec(),
        &endpoint(Some("10.213.7.1")),
        &host,
        Some(&namespace),
    );
    assert_eq!(steps, []);
}

#[test]
fn half_a_pair_is_replaced() {
    let (mut host, mut namespace) = joined();
    namespace.links.truncate(1);
    let steps = lines(&attach(&spec(), &endpoint(None), &host, Some(&namespace)));
    assert_eq!(
        steps[..2],
        [
            "link delete dev bm0123456789ab",
            "link add name bm0123456789ab type veth peer name eth0 netns butler-cellar.worker",
        ]
    );

    let (_, namespace) = joined();
    host.links.truncate(1);
    let steps = lines(&attach(&spec(), &endpoint(None), &host, Some(&namespace)));
    assert_eq!(
        steps[..2],
        [
            "-n butler-cellar.worker link delete dev eth0",
            "link add name bm0123456789ab type veth peer name eth0 netns butler-cellar.worker",
        ]
    );
}

#[test]
fn a_machine_is_taken_off_once() {
    let (host, _) = joined();
    let endpoint = endpoint(None);
    assert_eq!(
        lines(&detach(&endpoint.namespace, &endpoint.interface, &host)),
        [
            "link delete dev bm0123456789ab",
            "netns delete butler-cellar.worker",
        ]
    );
    assert_eq!(
        detach(&endpoint.namespace, &endpoint.interface, &with_bridge()),
        []
    );
    assert_eq!(
        lines(&remove_bridge(&spec(), &host).unwrap()),
        ["link delete dev br7"]
    );
    assert_eq!(remove_bridge(&spec(), &HostView::default()).unwrap(), []);
}

fn guarding() -> NetworkSpec {
    NetworkSpec {
        guarded: vec![
            "10.244.0.0/16".parse().unwrap(),
            "10.96.0.0/12".parse().unwrap(),
        ],
        ..spec()
    }
}

/// The kernel after the steps that add and delete guards.
fn perform_guards(host: &mut HostView, steps: &[Step]) {
    for step in steps {
        let words: Vec<&str> = step.arguments().iter().map(String::as_str).collect();
        let [
            "route",
            verb,
            "unreachable",
            destination,
            "proto",
            "98",
            "metric",
            metric,
        ] = words[..]
        else {
            panic!("{words:?}");
        };
        let route = Route {
            destination: Some(destination.parse().unwrap()),
            protocol: Some("98".to_owned()),
            metric: Some(metric.parse().unwrap()),
            ..Route::default()
        };
        if verb == "add" {
            assert!(
                !host.routes.contains(&route),
                "the kernel refuses: {words:?}"
            );
            host.routes.push(route);
        } else {
            let place = host.routes.iter().position(|there| *there == route);
            host.routes.remove(place.expect("the route is there"));
        }
    }
}

#[test]
fn two_installations_guard_the_same_range_and_each_takes_its_own_away() {
    let second = NetworkSpec {
        bridge: "br8".parse().unwrap(),
        address: "10.213.8.1/24".parse().unwrap(),
        ..guarding()
    };
    let before = with_bridge();
    let mut host = before.clone();
    for spec in [guarding(), second.clone()] {
        let steps = guard(&spec, &host).unwrap();
        assert_eq!(steps.len(), 2);
        perform_guards(&mut host, &steps);
        assert_eq!(guard(&spec, &host).unwrap(), []);
    }
    let steps = remove_guards(&guarding(), &host);
    perform_guards(&mut host, &steps);
    assert_eq!(guard(&second, &host).unwrap(), []);
    let steps = remove_guards(&second, &host);
    perform_guards(&mut host, &steps);
    assert_eq!(host, before);
}

#[test]
fn a_range_that_is_no_longer_guarded_loses_its_route() {
    let mut host = with_bridge();
    let steps = guard(&guarding(), &host).unwrap();
    perform_guards(&mut host, &steps);
    let fewer = NetworkSpec {
        guarded: vec!["10.96.0.0/12".parse().unwrap()],
        ..spec()
    };
    let steps = guard(&fewer, &host).unwrap();
    assert!(lines(&steps)[0].starts_with("route delete unreachable 10.244.0.0/16 "));
    assert_eq!(steps.len(), 1);
}

#[test]
fn a_guarded_range_of_others_stays_theirs_and_is_told() {
    let mut host = with_bridge();
    host.routes.push(route("10.0.0.0/8", "tun0"));
    assert_eq!(guard(&guarding(), &host).unwrap(), []);
    let warnings = not_guarded(&guarding(), &host);
    assert_eq!(warnings.len(), 2);
    assert!(
        warnings[0]
            .to_string()
            .starts_with("the host reaches 10.244.0.0/16 by the route 10.0.0.0/8 dev tun0;"),
        "{}",
        warnings[0]
    );
    assert_eq!(not_guarded(&guarding(), &with_bridge()), []);
}

#[test]
fn pods_do_not_have_addresses_of_machines() {
    let wrong = NetworkSpec {
        guarded: vec!["10.213.0.0/16".parse().unwrap()],
        ..spec()
    };
    assert!(matches!(
        guard(&wrong, &with_bridge()),
        Err(Refusal::GuardedMachines { .. })
    ));
}
