use butler_runtime::{
    admission::Operation,
    cache::{AnyStore, Delta},
};
use serde_json::{Value, json};

use super::*;
use crate::testing::{control_plane, control_plane_with, now};

fn verdict_among(
    others: Vec<TenantControlPlane>,
    object: &TenantControlPlane,
    old: Option<&TenantControlPlane>,
) -> String {
    verdict_with(Vec::new(), others, object, old)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write it down in place"
)]
fn verdict_with(
    stores: Vec<Value>,
    others: Vec<TenantControlPlane>,
    object: &TenantControlPlane,
    old: Option<&TenantControlPlane>,
) -> String {
    let caches = Arc::<Caches>::default();
    caches
        .store::<Whole<DataStore>>()
        .ingest(Delta::Reset(stores));
    let store = caches.store::<Whole<TenantControlPlane>>();
    store.ingest(Delta::Reset(
        others.iter().map(|other| json!(other)).collect(),
    ));
    let rules = ControlPlaneRules::new(&caches, &Settings::default());
    let verdict = rules.validate(&Review {
        operation: if old.is_some() {
            Operation::Update
        } else {
            Operation::Create
        },
        object,
        old,
        user: "alice",
        groups: &[],
        dry_run: false,
        now: now(),
    });
    match verdict {
        Ok(_) => "fine".to_owned(),
        Err(denials) => denials
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn verdict(object: &TenantControlPlane, old: Option<&TenantControlPlane>) -> String {
    verdict_among(Vec::new(), object, old)
}

fn at_version(version: &str) -> TenantControlPlane {
    control_plane_with(json!({ "kubernetes": { "version": version, "kubelet": {} } }))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write it down in place"
)]
fn with_pods(deployment: Value) -> TenantControlPlane {
    control_plane_with(json!({ "controlPlane": {
        "service": { "serviceType": "LoadBalancer" }, "deployment": deployment,
    } }))
}

#[test]
fn a_plain_control_plane_is_fine() {
    assert_eq!(verdict(&control_plane("LoadBalancer"), None), "fine");
}

#[test]
fn versions_go_up_by_one_minor_at_a_time() {
    let told = [
        verdict(&at_version("v1.20.0"), None),
        verdict(&at_version("v1.40.0"), None),
        verdict(&at_version("v1.36.3"), Some(&at_version("v1.35.4"))),
        verdict(&at_version("v1.34.0"), Some(&at_version("v1.35.4"))),
        verdict(&at_version("v1.36.3"), Some(&at_version("v1.34.0"))),
    ];
    insta::assert_snapshot!(told.join("\n"), @"
    spec.kubernetes.version: v1.20.0 is not hosted by this release: choose a version from v1.29 to v1.36
    spec.kubernetes.version: v1.40.0 is not hosted by this release: choose a version from v1.29 to v1.36
    fine
    spec.kubernetes.version: cannot go from v1.35.4 back to v1.34.0: Kubernetes does not support going back to an older minor version
    spec.kubernetes.version: cannot go from v1.34.0 to v1.36.3 in one step: upgrade one minor version at a time, first to v1.35.x
    ");
}

#[test]
fn an_upgrade_on_the_way_cannot_be_overtaken_by_the_next_one() {
    let mut old = at_version("v1.35.4");
    old.status = serde_json::from_value(json!({
        "kubernetesResources": { "version": { "version": "v1.34.2", "status": "Upgrading" } },
    }))
    .unwrap();
    insta::assert_snapshot!(verdict(&at_version("v1.36.3"), Some(&old)), @"spec.kubernetes.version: cannot go from v1.34.2 to v1.36.3 in one step: v1.35.4 must have served between them; wait until it has, and if the control plane sleeps, wake it first");
}

#[test]
fn what_would_take_the_place_of_our_own_is_refused() {
    let told = [
        verdict(
            &with_pods(
                json!({ "additionalContainers": [{ "name": "kube-apiserver", "image": "x" }] }),
            ),
            None,
        ),
        verdict(
            &with_pods(
                json!({ "additionalVolumes": [{ "name": "etc-kubernetes-pki", "emptyDir": {} }] }),
            ),
            None,
        ),
        verdict(
            &with_pods(json!({
                "additionalVolumes": [{ "name": "a", "emptyDir": {} }, { "name": "b", "emptyDir": {} }],
                "additionalVolumeMounts": { "apiServer": [
                    { "name": "a", "mountPath": "/logs" }, { "name": "b", "mountPath": "/logs" },
                ] },
            })),
            None,
        ),
        verdict(
            &with_pods(json!({ "extraArgs": { "apiServer": ["v=4"] } })),
            None,
        ),
        verdict(
            &control_plane_with(json!({ "controlPlane": { "service": {
                "serviceType": "LoadBalancer",
                "additionalPorts": [
                    { "name": "kube-apiserver", "port": 1, "targetPort": 1 },
                    { "name": "Bad_Name", "port": 6443, "targetPort": 1 },
                ],
            } } })),
            None,
        ),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
    spec.controlPlane.deployment.additionalContainers: the name kube-apiserver is taken; choose another one
    spec.controlPlane.deployment.additionalVolumes: the name etc-kubernetes-pki is taken; choose another one
    spec.controlPlane.deployment.additionalVolumeMounts.apiServer: /logs is mounted twice; mount it once
    spec.controlPlane.deployment.extraArgs.apiServer: "v=4" is no flag; write --flag=value
    spec.controlPlane.service.additionalPorts: the name kube-apiserver is taken; choose another one
    spec.controlPlane.service.additionalPorts: "Bad_Name" is no name of a port; use lower-case letters, digits and dashes
    spec.controlPlane.service.additionalPorts: the port 6443 is taken; choose another one
    "#);
}

#[test]
fn pods_that_could_never_start_are_refused() {
    let told = [
        json!({ "additionalContainers": [{ "name": "audit" }] }),
        json!({ "additionalInitContainers": [
            { "name": "wait", "image": "x", "resources": { "claims": [{ "name": "gpu" }] } },
        ] }),
        json!({ "additionalContainers": [{
            "name": "audit", "image": "x", "volumeMounts": [{ "name": "logs", "mountPath": "/logs" }],
            "volumeDevices": [{ "name": "disk", "devicePath": "/dev/disk" }],
        }] }),
        json!({ "additionalVolumeMounts": { "scheduler": [{ "name": "logs", "mountPath": "/logs" }] } }),
        // Without a tunnel there are no volumes of one.
        json!({ "additionalVolumeMounts": { "apiServer": [{ "name": "konnectivity-uds", "mountPath": "/a" }] } }),
        json!({ "resources": { "apiServer": { "claims": [{ "name": "gpu" }] } } }),
    ]
    .map(|parts| verdict(&with_pods(parts), None));
    insta::assert_snapshot!(told.join("\n"), @"
    spec.controlPlane.deployment.additionalContainers: audit has no image; name one
    spec.controlPlane.deployment.additionalInitContainers: wait: a container uses claims of its pod, and these pods have none; leave the claims out, and ask for devices by requests and limits
    spec.controlPlane.deployment.additionalContainers: the volume disk does not exist; add it to additionalVolumes
    spec.controlPlane.deployment.additionalContainers: the volume logs does not exist; add it to additionalVolumes
    spec.controlPlane.deployment.additionalVolumeMounts.scheduler: the volume logs does not exist; add it to additionalVolumes
    spec.controlPlane.deployment.additionalVolumeMounts.apiServer: the volume konnectivity-uds does not exist; add it to additionalVolumes
    spec.controlPlane.deployment.resources.apiServer.claims: a container uses claims of its pod, and these pods have none; leave the claims out, and ask for devices by requests and limits
    ");
    let proxied = json!({ "addons": {
        "konnectivity": { "server": { "port": 8132, "resources": { "claims": [{ "name": "gpu" }] } } },
        "tcpProxy": { "resources": { "claims": [{ "name": "gpu" }] } },
    } });
    insta::assert_snapshot!(verdict(&control_plane_with(proxied), None), @"
    spec.addons.konnectivity.server.resources.claims: a container uses claims of its pod, and these pods have none; leave the claims out, and ask for devices by requests and limits
    spec.addons.tcpProxy.resources.claims: a container uses claims of its pod, and these pods have none; leave the claims out, and ask for devices by requests and limits
    ");
}

#[test]
fn where_components_have_their_own_files_nobody_else_mounts() {
    let at = |path: &str| {
        with_pods(json!({
            "additionalVolumes": [{ "name": "more", "emptyDir": {} }],
            "additionalVolumeMounts": { "apiServer": [{ "name": "more", "mountPath": path }] },
        }))
    };
    for path in [
        "/",
        "/etc/kubernetes",
        "/etc/kubernetes/",
        "/etc//kubernetes/./pki",
        "/etc/kubernetes/pki/more",
        "/etc/kubernetes/scheduler.conf",
        "/etc/kubernetes/controller-manager.conf",
        "/etc/kubernetes/konnectivity-server.conf",
        "/etc/kubernetes/konnectivity/configurations",
        "/etc/konnectivity/pki",
        "/etc/ca-certificates",
        "/usr/share/ca-certificates/ours",
        "/usr/local/share/ca-certificates",
        "/uds",
        "/run/konnectivity",
        "/run/butler-tunnel",
    ] {
        let told = verdict(&at(path), None);
        assert!(
            told.contains("is where the component's own files are"),
            "{path}: {told}"
        );
    }
    for path in [
        "/etc/kubernetes/audit",
        "/etc/kubernetes/pki-of-ours",
        "/var/log",
    ] {
        assert_eq!(verdict(&at(path), None), "fine", "{path}");
    }
}

#[test]
fn our_own_volumes_may_be_read_by_what_is_added() {
    let reading = with_pods(json!({ "additionalContainers": [{
        "name": "audit", "image": "x",
        "volumeMounts": [{ "name": "etc-kubernetes-pki", "mountPath": "/etc/kubernetes/pki" }],
    }] }));
    assert_eq!(verdict(&reading, None), "fine");
}

#[test]
fn what_cannot_work_is_refused_with_the_field() {
    let told = [
        verdict(
            &control_plane_with(json!({
                "networkProfile": { "dnsServiceIPs": ["192.0.2.1"] }, "addons": { "coreDNS": {} },
            })),
            None,
        ),
        verdict(
            &control_plane_with(json!({ "networkProfile": { "serviceCidr": "10.96.0.1/16" } })),
            None,
        ),
        verdict(
            &control_plane_with(json!({ "controlPlane": {
                "service": { "serviceType": "ClusterIP" }, "gateway": {},
            } })),
            None,
        ),
        verdict(
            &control_plane_with(json!({ "controlPlane": {
                "service": { "serviceType": "ClusterIP" },
                "gateway": { "hostname": "*.k8s.example.com", "parentRefs": [{ "name": "public" }] },
            } })),
            None,
        ),
        verdict(
            &control_plane_with(json!({ "dataStoreOverrides": [
                { "resource": "events", "dataStore": "a" }, { "resource": "events", "dataStore": "b" },
            ] })),
            None,
        ),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
    spec.networkProfile.dnsServiceIPs: 192.0.2.1 is not in serviceCidr 10.96.0.0/16
    spec.networkProfile.serviceCidr: must be a CIDR without bits beyond its prefix, such as 10.96.0.0/16, or one of each family
    spec.controlPlane.gateway.hostname: required: control planes are told apart by it
    spec.controlPlane.gateway.parentRefs: required: name at least one Gateway
    spec.controlPlane.gateway.hostname: *.k8s.example.com is a wildcard, and clients cannot connect to one; write the whole name of this control plane, such as shop.k8s.example.com
    spec.dataStoreOverrides: "events" is no resource; write <group>/<resource>, such as /events
    spec.dataStoreOverrides: "events" is no resource; write <group>/<resource>, such as /events
    spec.dataStoreOverrides: events is named twice; name one store for it
    "#);
}

fn another(schema: &str) -> TenantControlPlane {
    let mut other = control_plane_with(json!({ "dataStoreSchema": schema }));
    other.metadata.name = Some("other".to_owned());
    other.metadata.uid = Some("7d444840-9dc0-41d1-b245-5ffdce74fad2".to_owned());
    other
}

#[test]
fn nobody_gets_a_part_of_a_store_that_touches_anothers() {
    for (wished, has, allowed) in [
        ("shop", "shop", false),
        ("shop/eu", "shop", false),
        ("shop", "shop/eu", false),
        ("shop", "shop2", true),
        ("shop-eu", "shop", true),
    ] {
        let wishing = control_plane_with(json!({ "dataStoreSchema": wished }));
        let told = verdict_among(vec![another(has)], &wishing, None);
        assert_eq!(told == "fine", allowed, "{wished} beside {has}: {told}");
    }
    let wishing = control_plane_with(json!({ "dataStoreSchema": "shop" }));
    insta::assert_snapshot!(verdict_among(vec![another("shop")], &wishing, None), @"spec.dataStoreSchema: what it asks for in the DataStore is payments/other's; choose another dataStore, dataStoreSchema or dataStoreUsername");
}

fn data_store(name: &str, driver: &str) -> Value {
    json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "DataStore",
        "metadata": { "name": name, "resourceVersion": "1" },
        "spec": { "driver": driver, "endpoints": ["db:5432"] },
    })
}

fn in_gold() -> TenantControlPlane {
    let mut control_plane = control_plane_with(json!({ "dataStore": "gold" }));
    let storage = json!({ "storage": { "dataStoreName": "gold", "driver": "PostgreSQL" } });
    control_plane.status = serde_json::from_value(storage).unwrap();
    control_plane
}

#[test]
fn the_state_moves_only_where_it_can_stay() {
    let old = in_gold();
    let moved = |parts: Value| {
        let mut moved = control_plane_with(parts);
        moved.status = old.status.clone();
        moved
    };
    let to_silver = moved(json!({ "dataStore": "silver" }));
    let told = |store: Value| verdict_with(vec![store], Vec::new(), &to_silver, Some(&old));
    assert_eq!(told(data_store("silver", "PostgreSQL")), "fine");
    assert_eq!(verdict(&to_silver, Some(&old)), "fine", "it may come later");
    let mut leaving = data_store("silver", "PostgreSQL");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let crowded = moved(json!({
        "dataStore": "silver",
        "dataStoreOverrides": [{ "resource": "/events", "dataStore": "silver" }],
    }));
    let mut apart = old.clone();
    apart.spec.data_store_overrides = crowded.spec.data_store_overrides.clone();
    let told = [
        told(data_store("silver", "MySQL")),
        told(leaving),
        verdict(&crowded, Some(&apart)),
    ];
    insta::assert_snapshot!(told.join("\n"), @"
    spec.dataStore: the state is in gold, which is PostgreSQL, and silver is MySQL: it can move only to a DataStore of the same driver
    spec.dataStore: silver is being deleted; name another DataStore
    spec.dataStore: dataStoreOverrides keeps /events in silver, where the whole state would be in its way; name another DataStore
    ");
}

#[test]
fn nobody_moves_to_where_another_has_the_same_names() {
    let old = in_gold();
    let mut to_silver =
        control_plane_with(json!({ "dataStore": "silver", "dataStoreSchema": "shop" }));
    to_silver.status = old.status.clone();
    let mut other = another("shop");
    other.spec.data_store = Some("silver".to_owned());
    let told = verdict_among(vec![other.clone()], &to_silver, Some(&old));
    assert!(told.starts_with("spec.dataStoreSchema: "), "{told}");
    other.spec.data_store = Some("bronze".to_owned());
    assert_eq!(verdict_among(vec![other], &to_silver, Some(&old)), "fine");
}

#[test]
fn what_an_older_release_let_through_may_still_be_labelled() {
    let old = at_version("v1.20.0");
    let mut labelled = old.clone();
    labelled.metadata.labels = Some([("tier".to_owned(), "gold".to_owned())].into());
    assert_eq!(verdict(&labelled, Some(&old)), "fine");
}

#[test]
fn resources_stay_in_the_store_that_has_them() {
    let apart = json!({ "dataStoreOverrides": [{ "resource": "/events", "dataStore": "silver" }] });
    let mut old = control_plane_with(apart.clone());
    let together = control_plane_with(json!({}));
    assert_eq!(
        verdict(&together, Some(&old)),
        "fine",
        "nothing is stored yet"
    );
    old.status = serde_json::from_value(json!({ "storage": { "dataStoreName": "gold" } })).unwrap();
    assert_eq!(verdict(&control_plane_with(apart), Some(&old)), "fine");
    insta::assert_snapshot!(verdict(&together, Some(&old)), @"spec.dataStoreOverrides: cannot be changed any more: what is kept in a store would be left behind in it");
}
