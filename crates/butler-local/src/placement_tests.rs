use pretty_assertions::assert_eq;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::testing::{address, machine_name};

/// A machine that is fit, with these addresses.
fn site(name: &str, has: &[u8]) -> (MachineName, Site) {
    let has: BTreeSet<_> = has.iter().copied().map(address).collect();
    let site = Site {
        node: Some(format!("node-{name}")),
        running: true,
        ready: true,
        leaving: false,
        excluded: false,
        proxy: Proxy::Works,
        confirmed: has.clone(),
        has,
    };
    (machine_name(name), site)
}

fn wants(numbers: &[u8]) -> BTreeMap<Ipv4Addr, Want> {
    let want = |number: &u8| (address(*number), Want::default());
    numbers.iter().map(want).collect()
}

fn on(placement: &Placement, number: u8) -> Option<&str> {
    let name = placement.on.get(&address(number));
    name.map(MachineName::as_str)
}

fn with(sites: &Sites, name: &str, change: impl FnOnce(&mut Site)) -> Sites {
    let mut sites = sites.clone();
    change(sites.get_mut(&machine_name(name)).unwrap());
    sites
}

#[test]
fn addresses_are_spread_over_machines() {
    let sites = Sites::from([site("a", &[]), site("b", &[])]);
    let placement = place(&wants(&[101, 102, 103, 104]), &sites);
    let on_a = placement.on.values().filter(|name| name.as_str() == "a");
    assert_eq!(on_a.count(), 2, "{placement:?}");
}

#[test]
fn an_address_stays_where_it_is_even_if_another_machine_is_idle() {
    let sites = Sites::from([site("a", &[101, 102]), site("b", &[])]);
    let placement = place(&wants(&[101, 102]), &sites);
    assert_eq!(
        (on(&placement, 101), on(&placement, 102)),
        (Some("a"), Some("a"))
    );
    assert_eq!(
        changes(&placement, &sites, &BTreeSet::new()),
        BTreeMap::new()
    );
}

type Unfit = fn(&mut Site);

#[test]
fn an_address_leaves_a_machine_that_is_not_fit_any_more() {
    let sites = Sites::from([site("a", &[101]), site("b", &[])]);
    let unfit: [(&str, Unfit); 8] = [
        ("it ended", |site| site.running = false),
        ("its node is not ready", |site| site.ready = false),
        ("it is excluded", |site| site.excluded = true),
        ("it left the cluster", |site| site.node = None),
        ("it is about to go", |site| site.leaving = true),
        ("its kube-proxy does not work", |site| {
            site.proxy = Proxy::Silent;
        }),
        ("its kube-proxy does not work yet", |site| {
            site.proxy = Proxy::Awaited;
        }),
        ("both", |site| {
            (site.leaving, site.proxy) = (true, Proxy::Silent);
        }),
    ];
    for (why, change) in unfit {
        let sites = with(&sites, "a", change);
        let placement = place(&wants(&[101]), &sites);
        assert_eq!(on(&placement, 101), Some("b"), "{why}");
        let known = BTreeSet::from([address(101)]);
        let changes = changes(&placement, &sites, &known);
        assert_eq!(changes[&machine_name("a")].take_off, known, "{why}");
        assert_eq!(changes[&machine_name("b")].put_on, known, "{why}");
    }
}

#[test]
fn without_a_better_machine_an_address_stays_on_one_that_runs() {
    let sites = Sites::from([site("a", &[101])]);
    let not_ready = with(&sites, "a", |site| site.ready = false);
    assert_eq!(on(&place(&wants(&[101]), &not_ready), 101), Some("a"));
    let excluded = with(&not_ready, "a", |site| site.excluded = true);
    let placement = place(&wants(&[101]), &excluded);
    assert_eq!(on(&placement, 101), None);
    assert_eq!(placement.nowhere[&address(101)], NOBODY);
}

#[test]
fn where_endpoints_matter_an_address_follows_them() {
    let sites = Sites::from([site("a", &[101]), site("b", &[])]);
    let at = |nodes: &[&str]| {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        BTreeMap::from([(address(101), Want { nodes: Some(nodes) })])
    };
    assert_eq!(
        on(&place(&at(&["node-a", "node-b"]), &sites), 101),
        Some("a")
    );
    assert_eq!(on(&place(&at(&["node-b"]), &sites), 101), Some("b"));
    let empty = Sites::from([site("a", &[]), site("b", &[])]);
    assert_eq!(place(&at(&[]), &empty).nowhere[&address(101)], NO_ENDPOINT);
}

#[test]
fn a_machine_that_was_started_again_gets_its_addresses_again() {
    let sites = Sites::from([site("a", &[101])]);
    let restarted = with(&sites, "a", |site| site.confirmed.clear());
    let placement = place(&wants(&[101]), &restarted);
    let changes = changes(&placement, &restarted, &BTreeSet::new());
    let expected = AddressChange {
        take_off: BTreeSet::new(),
        put_on: BTreeSet::from([address(101)]),
    };
    assert_eq!(changes[&machine_name("a")], expected);
}

#[test]
fn what_nobody_wants_goes_from_the_clusters_own_machines_alone() {
    let sites = Sites::from([site("a", &[101]), site("foreign", &[102])]);
    let sites = with(&sites, "foreign", |site| site.node = None);
    let changes = changes(&Placement::default(), &sites, &BTreeSet::new());
    assert_eq!(
        changes.keys().map(MachineName::as_str).collect::<Vec<_>>(),
        ["a"]
    );
}

#[test]
fn an_address_comes_only_to_a_machine_whose_kube_proxy_works() {
    let sites = Sites::from([site("a", &[]), site("b", &[])]);
    let young = with(&sites, "a", |site| site.proxy = Proxy::Awaited);
    assert_eq!(on(&place(&wants(&[101]), &young), 101), Some("b"));
    let both = with(&young, "b", |site| site.proxy = Proxy::Awaited);
    let placement = place(&wants(&[101]), &both);
    assert_eq!(placement.on, BTreeMap::new());
    assert_eq!(placement.nowhere[&address(101)], NO_PROXY);
    // Where there is none that works, one that was silent for long is used all the same.
    let silent = with(&both, "b", |site| site.proxy = Proxy::Silent);
    assert_eq!(on(&place(&wants(&[101]), &silent), 101), Some("b"));
}

#[test]
fn nothing_is_said_while_a_kube_proxy_is_about_to_be_asked() {
    let sites = Sites::from([site("a", &[]), site("b", &[])]);
    let begun = with(&sites, "a", |site| site.proxy = Proxy::Unknown);
    let begun = with(&begun, "b", |site| site.proxy = Proxy::Awaited);
    assert_eq!(place(&wants(&[101]), &begun), Placement::default());
}

#[test]
fn a_process_that_has_just_begun_moves_nothing() {
    let sites = Sites::from([site("a", &[101]), site("b", &[])]);
    let begun = with(&sites, "a", |site| site.proxy = Proxy::Unknown);
    assert_eq!(on(&place(&wants(&[101]), &begun), 101), Some("a"));
}

#[test]
fn an_address_leaves_a_node_that_goes_when_its_successor_works_and_not_before() {
    let sites = Sites::from([site("old", &[101]), site("new", &[])]);
    let going = with(&sites, "old", |site| site.leaving = true);
    let early = with(&going, "new", |site| site.proxy = Proxy::Awaited);
    assert_eq!(on(&place(&wants(&[101]), &early), 101), Some("old"));
    assert_eq!(on(&place(&wants(&[101]), &going), 101), Some("new"));
    // One that works for now is better than one that perhaps never will.
    let silent = with(&going, "new", |site| site.proxy = Proxy::Silent);
    assert_eq!(on(&place(&wants(&[101]), &silent), 101), Some("old"));
}

/// What happens to the world between two passes.
#[derive(Clone, Debug)]
enum Happening {
    Runs(usize, bool),
    Ready(usize, bool),
    Excluded(usize, bool),
    Member(usize, bool),
    Leaves(usize, bool),
    Proxy(usize, Proxy),
    Wanted(u8, bool),
    Endpoints(u8, Option<Vec<usize>>),
}

const MACHINES: [&str; 4] = ["a", "b", "c", "d"];

fn proxy() -> impl Strategy<Value = Proxy> {
    prop_oneof![
        3 => Just(Proxy::Works),
        1 => Just(Proxy::Unknown),
        1 => Just(Proxy::Awaited),
        1 => Just(Proxy::Silent),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let machine = 0..MACHINES.len();
    let number = 100_u8..106;
    let nodes = proptest::option::of(vec(machine.clone(), 0..3));
    prop_oneof![
        (machine.clone(), any::<bool>()).prop_map(|(at, is)| Happening::Runs(at, is)),
        (machine.clone(), any::<bool>()).prop_map(|(at, is)| Happening::Ready(at, is)),
        (machine.clone(), prop::bool::weighted(0.2))
            .prop_map(|(at, is)| Happening::Excluded(at, is)),
        (machine.clone(), prop::bool::weighted(0.8)).prop_map(|(at, is)| Happening::Member(at, is)),
        (machine.clone(), prop::bool::weighted(0.3)).prop_map(|(at, is)| Happening::Leaves(at, is)),
        (machine, proxy()).prop_map(|(at, is)| Happening::Proxy(at, is)),
        (number.clone(), prop::bool::weighted(0.8)).prop_map(|(at, is)| Happening::Wanted(at, is)),
        (number, nodes).prop_map(|(at, nodes)| Happening::Endpoints(at, nodes)),
    ]
}

fn happen(event: &Happening, sites: &mut Sites, wants: &mut BTreeMap<Ipv4Addr, Want>) {
    let mut at = |index: usize, change: &dyn Fn(&mut Site)| {
        change(sites.get_mut(&machine_name(MACHINES[index])).unwrap());
    };
    match event {
        Happening::Runs(index, is) => at(*index, &|site| {
            // Another life: nothing that was told before is known to hold.
            site.running = *is;
            site.confirmed.clear();
        }),
        Happening::Ready(index, is) => at(*index, &|site| site.ready = *is),
        Happening::Excluded(index, is) => at(*index, &|site| site.excluded = *is),
        Happening::Member(index, is) => at(*index, &|site| {
            site.node = is.then(|| format!("node-{}", MACHINES[*index]));
        }),
        Happening::Leaves(index, is) => at(*index, &|site| site.leaving = *is),
        Happening::Proxy(index, is) => at(*index, &|site| site.proxy = *is),
        Happening::Wanted(number, true) => {
            wants.entry(address(*number)).or_default();
        }
        Happening::Wanted(number, false) => {
            wants.remove(&address(*number));
        }
        Happening::Endpoints(number, nodes) => {
            if let Some(want) = wants.get_mut(&address(*number)) {
                let name = |index: &usize| format!("node-{}", MACHINES[*index]);
                want.nodes = nodes.as_ref().map(|nodes| nodes.iter().map(name).collect());
            }
        }
    }
}

fn holders(sites: &Sites, address: Ipv4Addr) -> Vec<&MachineName> {
    let holders = sites.iter().filter(|(_, site)| site.has.contains(&address));
    holders.map(|(name, _)| name).collect()
}

/// One pass, as the loop does it; machines of which the bit is set do not do what they are asked.
fn pass(
    sites: &mut Sites,
    wants: &BTreeMap<Ipv4Addr, Want>,
    stubborn: u8,
) -> Result<(), TestCaseError> {
    let known: BTreeSet<_> = (100..106).map(address).collect();
    let placement = place(wants, sites);
    let changes = changes(&placement, sites, &known);
    let refuses = |name: &MachineName| {
        let index = MACHINES.iter().position(|known| *known == name.as_str());
        index.is_some_and(|index| stubborn & (1 << index) != 0)
    };
    let mut still_held = BTreeSet::new();
    for (name, change) in &changes {
        let site = sites.get_mut(name).unwrap();
        for address in &change.take_off {
            if refuses(name) {
                still_held.insert(*address);
            } else {
                site.has.remove(address);
                site.confirmed.remove(address);
            }
        }
    }
    for (name, arrival) in arrivals(&changes, &still_held) {
        let site = sites.get_mut(&name).unwrap();
        prop_assert!(site.running, "{name} does not run");
        if !refuses(&name) {
            site.has.extend(&arrival.put_on);
            site.confirmed.extend(&arrival.put_on);
        }
        for address in arrival.put_on {
            prop_assert!(
                holders(sites, address).len() <= 1,
                "{address} is on two machines"
            );
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn an_address_is_on_one_machine_at_most_and_moves_for_a_reason(
        steps in vec((vec(happening(), 1..4), any::<u8>()), 1..30),
    ) {
        let mut sites: Sites = MACHINES.into_iter().map(|name| site(name, &[])).collect();
        let mut wanted = wants(&[100, 101, 102]);
        for (events, stubborn) in steps {
            for event in &events {
                happen(event, &mut sites, &mut wanted);
            }
            let before = sites.clone();
            pass(&mut sites, &wanted, stubborn)?;
            for (address, want) in &wanted {
                for name in holders(&before, *address) {
                    if before[name].keeps(want) == Some(Fitness::Good) {
                        prop_assert_eq!(holders(&sites, *address), vec![name], "it moved without a reason");
                    }
                }
            }
            // When everybody does as asked, all is as it should be after one more pass, and then nothing is done.
            let mut calm = sites.clone();
            pass(&mut calm, &wanted, 0)?;
            for number in 100..106 {
                let address = address(number);
                let found = holders(&calm, address);
                match wanted.get(&address) {
                    None => prop_assert!(found.is_empty(), "nobody wants {}", address),
                    Some(want) => {
                        let best = calm.values().filter_map(|site| site.welcomes(want)).min();
                        if let Some(best) = best {
                            let kept = calm[found[0]].keeps(want);
                            prop_assert!(kept.is_some_and(|kept| kept <= best), "{address} is on {found:?}");
                        }
                    }
                }
            }
            let placement = place(&wanted, &calm);
            let known: BTreeSet<_> = (100..106).map(address).collect();
            prop_assert_eq!(changes(&placement, &calm, &known), BTreeMap::new());
        }
    }
}
