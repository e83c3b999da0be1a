//! A control plane of pods, with a node of its own: made, upgraded, joined, reached through the tunnel, given a new authority,
//! and gone.
//!
//! One story in chapters, as [`crate::story`]: each stands on the one before.

mod additions;
mod authority;
mod load;
mod tenant;
mod tunnel;
mod upgrade;
mod worker;

use std::time::Instant;

use butler_assets::{Resolver, Settings, stderr_progress};
use butler_testkit::{requires, skip::Requirement};
use steward_tenant::core_dns_tag;

use self::tenant::Tenant;
use crate::{
    kit::{Installation, alone, butler, eventually, note},
    network::echo_image,
    story::unfit,
    traces::Traces,
};

/// What the control plane begins with.
const OLD: &str = "1.35.4";
/// What it becomes, and what machines have: a kubelet must not be newer than its API server.
const NEW: &str = "1.36.3";
/// The namespace of control planes in this story.
const NAMESPACE: &str = "default";

/// An image of every installation, but for its version.
const PAUSE: &str = "registry.k8s.io/pause";

type Chapter = fn(&Installation);

#[test]
fn a_hosted_control_plane_serves_nodes_of_its_own_from_its_first_day_to_its_last() {
    let _alone = alone();
    let unfit = unfit();
    requires!(Requirement::new(unfit.is_none(), unfit.unwrap_or_default()));
    let before = Traces::look();
    let installation = Installation::new("hosted", "10.213.94.0/24");
    let chapters: [(&str, Chapter); 14] = [
        ("up", up),
        ("images of an older Kubernetes can be pulled", images),
        ("a control plane becomes Ready", becomes_ready),
        ("what its owner added to its pods runs", additions::run),
        (
            "two replicas change their version and no request fails",
            upgrade::under_load,
        ),
        ("a sleeper wakes up at another version", upgrade::asleep),
        ("a machine joins by kubeadm", worker::joins),
        ("names and rules work in the tenant", worker::addons),
        ("logs, exec and port-forward", tunnel::hands),
        ("a pod guards what may be created", tunnel::webhook),
        ("a pod serves an API of its own", tunnel::aggregated),
        (
            "a new authority signs, and the node stays",
            authority::rotation,
        ),
        ("the old authority is dropped", authority::retirement),
        ("a control plane goes, and all of it", goes),
    ];
    for (title, chapter) in chapters {
        let began = Instant::now();
        note(&format!("=== {title}"));
        chapter(&installation);
        note(&format!(
            "=== {title}: {:.1}s",
            began.elapsed().as_secs_f32()
        ));
    }
    let said = installation.well(&["down"]);
    assert!(said.contains("nothing of it is left"), "{said}");
    before.assert_unchanged();
}

fn up(installation: &Installation) {
    installation.well(&[
        "up",
        "--range",
        installation.range,
        "--workers",
        "1",
        "--memory",
        "5Gi",
        "--butler-binary",
        &butler(),
    ]);
    let archive = echo_image();
    installation.well(&["image", "add", archive.to_str().unwrap()]);
}

fn images(installation: &Installation) {
    // With the caches of whoever runs this: an installation has a home of its own, in which every module would be fetched anew.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let resolver = Resolver::new(Settings::from_env().unwrap());
    let tag = core_dns_tag(&OLD.parse().unwrap());
    let progress = stderr_progress();
    runtime
        .block_on(resolver.hosted_images(&OLD.parse().unwrap(), tag, progress.as_ref()))
        .unwrap();
    let said = installation.well(&["image", "kubernetes", OLD]);
    let again = installation.well(&["image", "kubernetes", OLD]);
    assert_eq!(said, again);
    let listed = installation.well(&["image", "list"]);
    for version in [OLD, NEW] {
        let dns = core_dns_tag(&version.parse().unwrap());
        for image in [
            format!("registry.k8s.io/kube-apiserver:v{version}"),
            format!("registry.k8s.io/kube-controller-manager:v{version}"),
            format!("registry.k8s.io/kube-scheduler:v{version}"),
            format!("registry.k8s.io/kube-proxy:v{version}"),
            format!("registry.k8s.io/coredns/coredns:{dns}"),
        ] {
            let is_listed = listed
                .lines()
                .any(|line| line.split(' ').next() == Some(&*image));
            assert!(is_listed, "{image} is not among\n{listed}");
        }
    }
}

/// The image of pause that this installation has.
fn pause(installation: &Installation) -> String {
    let listed = installation.well(&["image", "list"]);
    let images = listed.lines().filter_map(|line| line.split(' ').next());
    let mut images = images.filter(|image| image.starts_with(&format!("{PAUSE}:")));
    let found = images.next().map(ToOwned::to_owned);
    found.unwrap_or_else(|| panic!("{PAUSE} is not among\n{listed}"))
}

fn becomes_ready(installation: &Installation) {
    let tenant = Tenant::shop(installation);
    let manifest = include_str!("shop.yaml");
    installation.apply(&manifest.replace(PAUSE, &pause(installation)));
    eventually("the control plane is Ready", || {
        tenant.reached("Ready", OLD, 2)
    });
    let endpoint = tenant.status()["controlPlaneEndpoint"].clone();
    note(&format!("shop is at {endpoint}"));
    tenant.fetch_kubeconfig();
    let version = eventually("an answer of the API server", || tenant.version());
    assert_eq!(version, format!("v{OLD}"));
    let namespaces = tenant
        .kubectl(&["get", "namespaces", "-o", "name"])
        .unwrap();
    assert!(namespaces.contains("namespace/kube-system"), "{namespaces}");
    // Who comes without a certificate is nobody.
    let anonymous = tenant.kubectl(&[
        "auth",
        "can-i",
        "--as",
        "system:anonymous",
        "list",
        "secrets",
    ]);
    assert!(anonymous.is_err(), "{anonymous:?}");
}

fn goes(installation: &Installation) {
    let tenant = Tenant::shop(installation);
    worker::remove(&tenant);
    tenant.delete();
    let selector = tenant.selector();
    for kind in ["deployment", "service", "secret", "pod"] {
        eventually(&format!("no {kind} of the control plane is left"), || {
            let left = installation.kubectl(&[
                "get",
                kind,
                "--namespace",
                NAMESPACE,
                "--selector",
                &selector,
                "-o",
                "name",
            ])?;
            if left.trim().is_empty() {
                Ok(())
            } else {
                Err(left)
            }
        });
    }
    eventually("the store serves nobody", || {
        let store = installation.get(&["datastore", "default"]);
        let used = &store["status"]["usedBy"];
        if used.as_array().is_none_or(Vec::is_empty) {
            Ok(())
        } else {
            Err(store["status"].to_string())
        }
    });
}
