//! Somebody is let into a cluster for a while: by a kubeconfig of her own, which is good for nothing afterwards.

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use butler_pki::{Authority, LeafRequest, SecretText, Usage, Validity, inspect};
use jiff::{SignedDuration, Timestamp};
use kube::config::Kubeconfig;

use super::cluster::Cluster;
use crate::kit::{Installation, eventually, note, words};

const PERSON: &str = "jane";
const GROUP: &str = "developers";
/// The shortest that there is.
const LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// Clocks of one host agree; certificates have whole seconds.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(5);
/// What is left of a certificate whose time is nearly over.
const MOMENT: i64 = 10;

pub(super) fn visits(installation: &Installation) {
    let shop = Cluster::shop(installation);
    let file = installation.home().join("jane.conf");
    let too_short = kubeconfig(&shop, &file, "9m");
    assert_eq!(too_short.status.code(), Some(2), "{}", words(&too_short));

    let asked = Timestamp::now();
    let given = kubeconfig(&shop, &file, "10m");
    let given_at = Timestamp::now();
    assert!(given.status.success(), "{}", words(&given));
    let login = login(&file);
    let facts = inspect(&login).unwrap();
    assert_eq!(facts.common_name, PERSON);
    assert!(facts.organizations.contains(GROUP), "{facts:?}");
    let ends = facts.not_after;
    note(&format!("{PERSON} was let in at {asked} until {ends}"));
    assert!(
        ends >= asked + LIFETIME - TOLERANCE && ends <= given_at + LIFETIME + TOLERANCE,
        "asked at {asked}, given at {given_at}, and it ends at {ends}"
    );

    // She is who she says, and may do what her group may.
    let look = || installation.kubectl_of(&file, &["get", "pods", "--namespace", "default"], "");
    let refused = look().expect_err("nobody allowed it yet");
    assert!(refused.contains("User \"jane\" cannot list"), "{refused}");
    let group = format!("--group={GROUP}");
    let allow = ["create", "rolebinding", GROUP, "--clusterrole=view", &group];
    eventually("her group may look", || shop.kubectl(&allow));
    let pods = eventually("she may look", look);
    assert!(pods.contains("echo-"), "{pods}");
    let make = ["create", "configmap", "mine", "--namespace", "default"];
    let refused = installation.kubectl_of(&file, &make, "");
    assert!(refused.is_err(), "{refused:?}");

    // The clock of this host stays as it is. Instead, hers is dated as if nine minutes and more had passed.
    let late = dated(&shop, &file, &login);
    let look = || installation.kubectl_of(&late, &["get", "pods", "--namespace", "default"], "");
    look().unwrap_or_else(|words| panic!("it is not over yet: {words}"));
    eventually("her time is over", || match look() {
        Err(words) if words.contains("Unauthorized") => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
}

/// What somebody types who may let others in.
fn kubeconfig(shop: &Cluster<'_>, file: &Path, lifetime: &str) -> Output {
    let file = file.to_str().unwrap();
    let person = ["--user", PERSON, "--group", GROUP, "--ttl", lifetime];
    shop.typed("kubeconfig", &[&person[..], &["--output", file]].concat())
}

/// The certificate by which a kubeconfig logs in.
fn login(file: &Path) -> String {
    let file = Kubeconfig::read_from(file).unwrap();
    let user = file.auth_infos[0].auth_info.clone().unwrap();
    decoded(&user.client_certificate_data.unwrap())
}

fn decoded(text: &str) -> String {
    String::from_utf8(STANDARD.decode(text.trim()).unwrap()).unwrap()
}

/// The same kubeconfig a moment before its end.
fn dated(shop: &Cluster<'_>, file: &Path, login: &str) -> PathBuf {
    let authority = authority(shop);
    let from_now = |seconds: i64| Timestamp::now() + SignedDuration::from_secs(seconds);
    let facts = inspect(login).unwrap();
    let request = LeafRequest {
        common_name: facts.common_name,
        organizations: facts.organizations.into_iter().collect(),
        ..LeafRequest::new(
            Usage::Client,
            Validity {
                not_before: from_now(MOMENT) - LIFETIME,
                not_after: from_now(MOMENT),
            },
        )
    };
    let client = authority.issue(&request).unwrap();
    let written = Kubeconfig::read_from(file).unwrap();
    let cluster = written.clusters[0].cluster.clone().unwrap();
    let rendered = butler_pki::Kubeconfig {
        cluster: shop.name,
        user: PERSON,
        server: cluster.server.as_deref().unwrap(),
        authority_pem: &decoded(&cluster.certificate_authority_data.unwrap()),
        client: &client,
    };
    let late = file.with_file_name("jane-later.conf");
    std::fs::write(&late, rendered.render().unwrap().expose()).unwrap();
    late
}

/// Who signs for the cluster.
fn authority(shop: &Cluster<'_>) -> Authority {
    let namespace = shop.namespace().unwrap();
    let name = format!("{}-ca", shop.name);
    let part = |key: &str| {
        let found = shop.installation.kubectl(&[
            "get",
            "secret",
            "--namespace",
            &namespace,
            &name,
            "-o",
            &format!("jsonpath={{.data.ca\\.{key}}}"),
        ]);
        decoded(&found.unwrap())
    };
    Authority::from_pem(&part("crt"), &SecretText::new(part("key"))).unwrap()
}
