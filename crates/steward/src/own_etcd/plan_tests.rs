use butler_pki::{Authority, LeafRequest, Usage, Validity, inspect};
use jiff::SignedDuration;
use pretty_assertions::assert_eq;

use super::*;

const STORE: &str = "steward-etcd";
const MEMBER: &str = "steward-etcd-0.steward-etcd-members.butler-system.svc";
const PARTS: [Part; 4] = [
    Part::Authority,
    Part::PeerAuthority,
    Part::Server,
    Part::Peer,
];

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn after_days(days: i64) -> Timestamp {
    start() + SignedDuration::from_hours(24 * days)
}

fn wish() -> Wish {
    Wish {
        store: STORE.to_owned(),
        parts: BTreeSet::from(PARTS),
        names: BTreeSet::from([MEMBER.to_owned()]),
    }
}

fn authority(part: Part) -> Authority {
    let years = Validity::starting(start(), SignedDuration::from_hours(24 * 3650));
    Authority::new(&part.secret(STORE), years).unwrap()
}

fn usable(certificate_pem: &str, authority_pem: &str) -> Found {
    Found::Usable {
        pair: Box::new(Pair {
            facts: inspect(certificate_pem).unwrap(),
            certificate_pem: certificate_pem.to_owned(),
        }),
        authority_pem: Some(authority_pem.to_owned()),
    }
}

fn issued(wish: &Wish, part: Part, authority: &Authority) -> Found {
    let request = LeafRequest {
        common_name: wish.common_name(part),
        dns_names: wish.names_of(part).into_iter().collect(),
        ..LeafRequest::new(
            Usage::Both,
            Validity::starting(start(), SignedDuration::from_hours(24 * 365)),
        )
    };
    let leaf = authority.issue(&request).unwrap();
    usable(&leaf.certificate_pem, authority.certificate_pem())
}

/// A store that has everything.
fn complete(wish: &Wish) -> BTreeMap<Part, Found> {
    let (clients, peers) = (authority(Part::Authority), authority(Part::PeerAuthority));
    let own =
        |authority: &Authority| usable(authority.certificate_pem(), authority.certificate_pem());
    BTreeMap::from([
        (Part::Authority, own(&clients)),
        (Part::PeerAuthority, own(&peers)),
        (Part::Server, issued(wish, Part::Server, &clients)),
        (Part::Peer, issued(wish, Part::Peer, &peers)),
        (
            Part::Administrator,
            issued(wish, Part::Administrator, &clients),
        ),
    ])
}

fn orders(wish: &Wish, found: &BTreeMap<Part, Found>, now: Timestamp) -> Vec<(Part, Reason)> {
    let orders = plan(wish, found, now).unwrap();
    orders
        .into_iter()
        .map(|order| (order.part, order.reason))
        .collect()
}

#[test]
fn a_new_store_gets_its_authorities_before_what_they_sign() {
    let mut found = BTreeMap::new();
    let authorities = [
        (Part::Authority, Reason::Missing),
        (Part::PeerAuthority, Reason::Missing),
    ];
    assert_eq!(orders(&wish(), &found, start()), authorities);
    for part in [Part::Authority, Part::PeerAuthority] {
        let authority = authority(part);
        let held = usable(authority.certificate_pem(), authority.certificate_pem());
        found.insert(part, held);
    }
    let leaves = [
        (Part::Server, Reason::Missing),
        (Part::Peer, Reason::Missing),
    ];
    assert_eq!(orders(&wish(), &found, start()), leaves);
}

#[test]
fn good_certificates_are_left_alone_and_made_anew_in_time() {
    let wish = wish();
    let found = complete(&wish);
    assert_eq!(orders(&wish, &found, start()), []);
    assert_eq!(orders(&wish, &found, after_days(240)), []);
    let due = [
        (Part::Server, Reason::EndsSoon),
        (Part::Peer, Reason::EndsSoon),
    ];
    assert_eq!(orders(&wish, &found, after_days(245)), due);
}

#[test]
fn a_further_member_gets_into_the_certificates() {
    let found = complete(&wish());
    let mut larger = wish();
    larger.names.insert(MEMBER.replace("-0.", "-1."));
    let due = [
        (Part::Server, Reason::OtherNames),
        (Part::Peer, Reason::OtherNames),
    ];
    assert_eq!(orders(&larger, &found, start()), due);
    // A name too many does no harm.
    assert_eq!(orders(&wish(), &complete(&larger), start()), []);
}

#[test]
fn what_another_authority_signed_is_made_anew() {
    let wish = wish();
    let mut found = complete(&wish);
    let other = authority(Part::Authority);
    let held = usable(other.certificate_pem(), other.certificate_pem());
    found.insert(Part::Authority, held);
    assert_eq!(
        orders(&wish, &found, start()),
        [(Part::Server, Reason::OtherAuthority)]
    );
}

#[test]
fn members_and_clients_have_authorities_of_their_own() {
    let wish = wish();
    let mut found = complete(&wish);
    let Found::Usable { pair, .. } = found[&Part::Authority].clone() else {
        unreachable!()
    };
    let Some(Found::Usable { authority_pem, .. }) = found.get_mut(&Part::Peer) else {
        unreachable!()
    };
    // Whoever puts the clients' authority there would let tenants in among the members.
    *authority_pem = Some(pair.certificate_pem);
    assert_eq!(
        orders(&wish, &found, start()),
        [(Part::Peer, Reason::OtherAuthority)]
    );
}

#[test]
fn an_authority_that_cannot_be_used_is_never_written_over() {
    let wish = wish();
    let mut found = complete(&wish);
    found.insert(
        Part::Authority,
        Found::Unusable("key ca.key is missing or empty".to_owned()),
    );
    let refusal = plan(&wish, &found, start()).unwrap_err().to_string();
    assert!(
        refusal.contains("steward-etcd-ca") && refusal.contains("ca.key is missing"),
        "{refusal}"
    );
    let refusal = plan(&wish, &complete(&wish), after_days(3651)).unwrap_err();
    assert!(refusal.problem.contains("it ended on"), "{refusal}");
}

#[test]
fn the_administrator_is_the_user_root_and_reachable_nowhere() {
    let wish = Wish {
        parts: BTreeSet::from([Part::Administrator]),
        ..wish()
    };
    let mut found = complete(&wish);
    assert_eq!(orders(&wish, &found, start()), []);
    assert_eq!(wish.common_name(Part::Administrator), "root");
    assert!(wish.names_of(Part::Administrator).is_empty());
    found.insert(Part::Administrator, Found::Absent);
    assert_eq!(
        orders(&wish, &found, start()),
        [(Part::Administrator, Reason::Missing)]
    );
}

#[test]
fn the_end_of_an_authority_is_told_more_than_a_year_before() {
    let wish = wish();
    let found = complete(&wish);
    // They live for 3650 days, and are told of 455 days before their end.
    assert_eq!(endings(&wish, &found, after_days(3194)), []);
    let told = endings(&wish, &found, after_days(3196));
    let secrets: Vec<_> = told.iter().map(|ending| ending.secret.as_str()).collect();
    assert_eq!(secrets, ["steward-etcd-ca", "steward-etcd-peer-ca"]);
    let words = told[0].to_string();
    assert!(
        words.contains("2035-12-30") && words.contains("replace it before"),
        "{words}"
    );
}
