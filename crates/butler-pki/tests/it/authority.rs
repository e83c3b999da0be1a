use std::collections::BTreeSet;
use std::net::IpAddr;

use butler_pki::{
    Authority, Error, LeafRequest, SecretText, ServiceAccountKey, Usage, Validity, inspect,
    is_issued_by,
};
use pretty_assertions::assert_eq;

use crate::{authority, now, thirty_days};

fn client(organizations: &[&str]) -> LeafRequest {
    LeafRequest {
        common_name: "jane".to_owned(),
        organizations: organizations
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        ..LeafRequest::new(Usage::Client, thirty_days())
    }
}

#[test]
fn leaf_chains_to_its_authority_and_to_no_other() {
    let (ours, others) = (authority(), authority());
    let leaf = ours.issue(&client(&[])).unwrap();
    assert!(is_issued_by(&leaf.certificate_pem, ours.certificate_pem()).unwrap());
    // The other authority has the same name: only the signature tells.
    assert!(!is_issued_by(&leaf.certificate_pem, others.certificate_pem()).unwrap());
}

#[test]
fn an_authority_vouches_for_its_successor() {
    let (old, new) = (authority(), authority());
    let link = old.vouch_for(&new, thirty_days()).unwrap();
    assert!(is_issued_by(&link, old.certificate_pem()).unwrap());
    assert!(inspect(&link).unwrap().is_ca);
    let leaf = new.issue(&client(&[])).unwrap();
    assert!(is_issued_by(&leaf.certificate_pem, &link).unwrap());
}

#[test]
fn server_certificate_names_all_its_addresses() {
    let addresses: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
    let leaf = authority()
        .issue(&LeafRequest {
            common_name: "kube-apiserver".to_owned(),
            dns_names: vec![
                "kubernetes.default.svc".to_owned(),
                "*.tenants.example".to_owned(),
            ],
            ip_addresses: addresses.to_vec(),
            ..LeafRequest::new(Usage::Server, thirty_days())
        })
        .unwrap();
    let facts = inspect(&leaf.certificate_pem).unwrap();
    assert_eq!(facts.common_name, "kube-apiserver");
    assert_eq!(
        facts.dns_names,
        ["*.tenants.example", "kubernetes.default.svc"]
            .map(str::to_owned)
            .into()
    );
    assert_eq!(facts.ip_addresses, addresses.into());
    assert!(!facts.is_ca);
}

#[test]
fn user_keeps_every_group() {
    let authority = authority();
    for groups in [
        &[][..],
        &["operators"],
        &["operators", "auditors", "system:masters"],
    ] {
        let leaf = authority.issue(&client(groups)).unwrap();
        let facts = inspect(&leaf.certificate_pem).unwrap();
        let expected: BTreeSet<String> = groups.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(facts.organizations, expected);
        assert_eq!(facts.common_name, "jane");
        assert!(is_issued_by(&leaf.certificate_pem, authority.certificate_pem()).unwrap());
    }
}

#[test]
fn groups_too_long_for_a_short_length_survive() {
    let long = ["a".repeat(100), "b".repeat(200), "c".repeat(300)];
    let request = LeafRequest {
        organizations: long.to_vec(),
        ..client(&[])
    };
    let authority = authority();
    let leaf = authority.issue(&request).unwrap();
    assert_eq!(
        inspect(&leaf.certificate_pem).unwrap().organizations,
        long.into()
    );
    assert!(is_issued_by(&leaf.certificate_pem, authority.certificate_pem()).unwrap());
}

#[test]
fn authority_read_back_from_its_secret_goes_on_issuing() {
    let first = authority();
    let again = Authority::from_pem(first.certificate_pem(), first.key_pem()).unwrap();
    let leaf = again.issue(&client(&["operators"])).unwrap();
    assert!(is_issued_by(&leaf.certificate_pem, first.certificate_pem()).unwrap());
}

#[test]
fn each_leaf_has_a_fingerprint_of_its_own() {
    let authority = authority();
    let fingerprint = || {
        let leaf = authority.issue(&client(&[])).unwrap();
        inspect(&leaf.certificate_pem).unwrap().fingerprint
    };
    let (one, two) = (fingerprint(), fingerprint());
    assert_ne!(one, two);
    assert_eq!(one.len(), 64);
}

#[test]
fn key_of_another_authority_is_refused() {
    let error =
        Authority::from_pem(authority().certificate_pem(), authority().key_pem()).unwrap_err();
    assert_eq!(error.reason(), "KeyMismatch");
    assert!(error.to_string().contains("tenant-ca"), "{error}");
}

#[test]
fn leaf_cannot_act_as_authority() {
    let leaf = authority().issue(&client(&[])).unwrap();
    let error = Authority::from_pem(&leaf.certificate_pem, &leaf.key_pem).unwrap_err();
    assert!(matches!(error, Error::NotAnAuthority { ref common_name } if common_name == "jane"));
}

#[test]
fn nonsense_is_refused_in_words() {
    let error = inspect("no certificate").unwrap_err();
    assert_eq!(error.reason(), "InvalidCertificate");
    let ours = authority();
    let error =
        Authority::from_pem(ours.certificate_pem(), &SecretText::new("no key")).unwrap_err();
    assert_eq!(error.reason(), "InvalidPrivateKey");
    let request = LeafRequest {
        dns_names: vec!["bücher.example".to_owned()],
        ..client(&[])
    };
    let error = ours.issue(&request).unwrap_err();
    assert!(error.to_string().contains("bücher.example"), "{error}");
}

#[test]
fn validity_that_ends_before_it_starts_is_refused() {
    let Validity {
        not_before,
        not_after,
    } = thirty_days();
    let reversed = Validity {
        not_before: not_after,
        not_after: not_before,
    };
    assert_eq!(
        Authority::new("ca", reversed).unwrap_err().reason(),
        "InvalidValidity"
    );
    let empty = Validity {
        not_before: now(),
        not_after: now(),
    };
    assert_eq!(
        Authority::new("ca", empty).unwrap_err().reason(),
        "InvalidValidity"
    );
}

#[test]
fn private_keys_are_never_printed() {
    let authority = authority();
    let leaf = authority.issue(&client(&[])).unwrap();
    let account = ServiceAccountKey::generate().unwrap();
    let keys = [authority.key_pem(), &leaf.key_pem, &account.private_pem];
    let printed = format!("{authority:?} {leaf:?} {account:?} {keys:?}");
    for key in keys {
        let body = key.expose().lines().nth(1).unwrap();
        assert!(!printed.contains(body), "{printed}");
    }
    assert!(!printed.contains("PRIVATE KEY"), "{printed}");
}

#[test]
fn service_account_key_is_an_rsa_pair() {
    let key = ServiceAccountKey::generate().unwrap();
    assert!(
        key.private_pem
            .expose()
            .starts_with("-----BEGIN PRIVATE KEY-----")
    );
    assert!(key.public_pem.starts_with("-----BEGIN PUBLIC KEY-----"));
    // 2048 bits are 256 octets, some 390 characters of base64 with their frame; an elliptic key has a quarter of it.
    assert!(key.public_pem.len() > 400, "{}", key.public_pem);
}
