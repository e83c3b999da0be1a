use pretty_assertions::assert_eq;

use super::*;

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

fn names() -> ServerNames {
    ServerNames {
        dns_names: vec!["butler-webhook.butler-system.svc".to_owned()],
        ip_addresses: vec![IpAddr::from([127, 0, 0, 1])],
    }
}

fn created() -> Material {
    Material::create("butler-webhook", &names(), start()).expect("created")
}

fn plan(material: &Material, now: Timestamp) -> CertificatePlan {
    plan_certificates(material.facts().as_ref(), &names(), now)
}

#[test]
fn nothing_there_makes_everything() {
    assert_eq!(
        plan_certificates(None, &names(), start()),
        CertificatePlan::CreateAll
    );
}

#[test]
fn fresh_certificates_are_kept_until_two_thirds_of_the_leaf() {
    let CertificatePlan::Keep { until } = plan(&created(), start()) else {
        panic!("fresh certificates are kept");
    };
    let sixty_days = start() + 60 * DAY;
    assert!(until <= sixty_days && until > sixty_days - DAY, "{until}");
    assert_eq!(plan(&created(), until), CertificatePlan::IssueLeaf);
}

#[test]
fn a_new_leaf_comes_from_the_same_authority() {
    let old = created();
    let later = start() + 61 * DAY;
    let new = old.with_new_leaf(&names(), later).expect("issued");
    assert_eq!(new.bundle, old.bundle);
    assert_ne!(new.leaf, old.leaf);
    assert!(matches!(plan(&new, later), CertificatePlan::Keep { .. }));
}

#[test]
fn a_new_name_of_the_server_needs_a_new_leaf() {
    let facts = created().facts();
    let moved = ServerNames {
        dns_names: vec!["elsewhere.svc".to_owned()],
        ..names()
    };
    assert_eq!(
        plan_certificates(facts.as_ref(), &moved, start()),
        CertificatePlan::IssueLeaf
    );
}

#[test]
fn an_authority_is_replaced_in_two_phases() {
    let year = 365 * DAY;
    let late = start() + 9 * year + 2 * DAY;
    let old = created().with_new_leaf(&names(), late).expect("issued");
    assert_eq!(plan(&old, late), CertificatePlan::RotateAuthority);

    let both = old
        .with_new_authority("butler-webhook", late)
        .expect("created");
    assert_eq!(certificates(&both.bundle).count(), 2);
    assert_eq!(
        both.leaf, old.leaf,
        "the leaf stays until the bundle is trusted"
    );
    let CertificatePlan::Keep { until } = plan(&both, late) else {
        panic!("the leaf of the old authority is kept for now");
    };

    let renewed = both.with_new_leaf(&names(), until).expect("issued");
    let issuer = certificates(&renewed.bundle)
        .next()
        .expect("the new authority is first");
    assert!(is_issued_by(&renewed.leaf, issuer).expect("readable"));

    let much_later = start() + 10 * year + DAY;
    let alone = renewed.with_new_leaf(&names(), much_later).expect("issued");
    assert_eq!(
        certificates(&alone.bundle).count(),
        1,
        "the old authority is past its end"
    );
}

#[test]
fn an_expired_leaf_is_replaced_before_the_authority() {
    let late = start() + 9 * 365 * DAY + 2 * DAY;
    assert_eq!(plan(&created(), late), CertificatePlan::IssueLeaf);
}

#[test]
fn a_leaf_never_outlives_its_authority() {
    let late = start() + 10 * 365 * DAY - DAY;
    let material = created().with_new_leaf(&names(), late).expect("issued");
    let facts = material.facts().expect("readable");
    assert_eq!(
        facts.leaf.expect("usable").not_after,
        facts.authority.not_after
    );
}

#[test]
fn keys_that_do_not_fit_are_noticed() {
    let (one, other) = (created(), created());
    let wrong_leaf_key = Material {
        leaf_key: other.leaf_key.clone(),
        ..one.clone()
    };
    assert_eq!(plan(&wrong_leaf_key, start()), CertificatePlan::IssueLeaf);
    let foreign_leaf = Material {
        leaf: other.leaf.clone(),
        leaf_key: other.leaf_key.clone(),
        ..one.clone()
    };
    assert_eq!(plan(&foreign_leaf, start()), CertificatePlan::IssueLeaf);
    let wrong_authority_key = Material {
        authority_key: other.authority_key,
        ..one
    };
    assert_eq!(
        plan(&wrong_authority_key, start()),
        CertificatePlan::CreateAll
    );
}

#[test]
fn the_secret_gives_back_what_was_put_into_it() {
    let material = created();
    let read = Material::from_data(&material.clone().into_data()).expect("complete");
    assert_eq!(read.facts(), material.facts());
    let mut incomplete = material.into_data();
    incomplete.remove(AUTHORITY_KEY);
    assert!(Material::from_data(&incomplete).is_none());
}

#[test]
fn keys_are_not_shown() {
    assert!(!format!("{:?}", created()).contains("PRIVATE KEY"));
}
