//! How each kind of infrastructure learns the endpoint, or is found to know a wrong one.

use pretty_assertions::assert_eq;

use super::*;
use crate::steward_control_plane::scene::{endpoint, here};

fn kind(name: &str) -> Kind {
    Kind {
        group: "infrastructure.cluster.x-k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        kind: name.to_owned(),
        plural: plural(name),
        namespaced: true,
    }
}

fn found(name: &str, contract: Contract, parts: Value) -> InfrastructureSight {
    let mut body = json!({ "metadata": { "name": "shop", "namespace": "payments", "uid": "i-1" } });
    if let Value::Object(parts) = parts {
        body.as_object_mut().unwrap().extend(parts);
    }
    let manner = manner_of(name, &BTreeSet::new()).unwrap();
    InfrastructureSight::Found(Infrastructure::of(&body, kind(name), contract, manner))
}

/// What is told and done, in lines.
fn told(sight: &InfrastructureSight) -> String {
    let (finding, effects) = settle(sight, Some(&endpoint()));
    let mut lines = vec![format!(
        "{} {}: {}",
        finding.answer.as_str(),
        finding.reason,
        finding.message
    )];
    lines.extend(effects.iter().map(|effect| match effect {
        Effect::TellInfrastructure { kind, patch, .. } => format!("tell {kind} {patch}"),
        Effect::DeclareInfrastructureReady { kind, status, .. } => {
            format!("declare {kind} {status}")
        }
        other => format!("{other:?}"),
    }));
    lines.join("\n")
}

fn fresh(name: &str) -> String {
    told(&found(name, Contract::V1Beta1, json!({})))
}

#[test]
fn clouds_are_told_the_endpoint() {
    for name in [
        "AWSCluster",
        "AzureCluster",
        "HetznerCluster",
        "IonosCloudCluster",
        "ButlerCluster",
    ] {
        let lines = fresh(name).replace(name, "KIND");
        insta::allow_duplicates! {
            insta::assert_snapshot!(lines, @r#"
            False Pending: the KIND payments/shop is told the endpoint
            tell KIND {"metadata":{"uid":"i-1"},"spec":{"controlPlaneEndpoint":{"host":"192.0.2.4","port":40443}}}
            "#);
        }
    }
}

#[test]
fn kinds_whose_controller_rests_are_declared_ready_too() {
    for name in ["KubevirtCluster", "NutanixCluster", "PacketCluster"] {
        let lines = fresh(name).replace(name, "KIND");
        insta::allow_duplicates! {
            insta::assert_snapshot!(lines, @r#"
            False Pending: the KIND payments/shop is told the endpoint
            tell KIND {"metadata":{"uid":"i-1"},"spec":{"controlPlaneEndpoint":{"host":"192.0.2.4","port":40443}}}
            declare KIND {"ready":true}
            "#);
        }
    }
    let current = found("KubevirtCluster", Contract::V1Beta2, json!({}));
    insta::assert_snapshot!(told(&current), @r#"
    False Pending: the KubevirtCluster payments/shop is told the endpoint
    tell KubevirtCluster {"metadata":{"uid":"i-1"},"spec":{"controlPlaneEndpoint":{"host":"192.0.2.4","port":40443}}}
    declare KubevirtCluster {"initialization":{"provisioned":true}}
    "#);
}

#[test]
fn a_kind_that_was_told_and_declared_ready_is_left_alone() {
    let known = json!({
        "spec": { "controlPlaneEndpoint": endpoint() }, "status": { "ready": true },
    });
    insta::assert_snapshot!(told(&found("NutanixCluster", Contract::V1Beta1, known)), @"True Succeeded: the NutanixCluster payments/shop knows the endpoint");
}

#[test]
fn openstack_has_words_of_its_own() {
    insta::assert_snapshot!(fresh("OpenStackCluster"), @r#"
    False Pending: the OpenStackCluster payments/shop is told the endpoint
    tell OpenStackCluster {"metadata":{"uid":"i-1"},"spec":{"apiServerFixedIP":"192.0.2.4","apiServerPort":40443}}
    "#);
    let known = json!({ "spec": { "apiServerFixedIP": "192.0.2.4", "apiServerPort": 40443 } });
    insta::assert_snapshot!(told(&found("OpenStackCluster", Contract::V1Beta1, known)), @"True Succeeded: the OpenStackCluster payments/shop knows the endpoint");
}

#[test]
fn metal_must_know_it_beforehand() {
    let other =
        json!({ "spec": { "controlPlaneEndpoint": { "host": "192.0.2.9", "port": 6443 } } });
    for name in ["Metal3Cluster", "MetalStackCluster"] {
        let lines = [
            fresh(name),
            told(&found(name, Contract::V1Beta1, other.clone())),
        ];
        let lines = lines.join("\n").replace(name, "KIND");
        insta::allow_duplicates! {
            insta::assert_snapshot!(lines, @r"
            False Failed: the KIND payments/shop has no spec.controlPlaneEndpoint; set it to 192.0.2.4:40443
            False Failed: the KIND payments/shop says that the API server is at 192.0.2.9:6443, but it is at 192.0.2.4:40443; correct its spec.controlPlaneEndpoint, or give the control plane that address by network.serviceAddress
            ");
        }
    }
}

#[test]
fn what_somebody_else_may_have_set_is_set_only_where_it_is_empty() {
    let other = json!({ "spec": { "controlPlaneEndpoint": { "host": "fd00::9", "port": 6443 } } });
    for name in ["ProxmoxCluster", "TinkerbellCluster", "VSphereCluster"] {
        let empty = json!({ "spec": { "controlPlaneEndpoint": { "host": "", "port": 0 } } });
        let lines = [
            told(&found(name, Contract::V1Beta1, empty)),
            told(&found(name, Contract::V1Beta1, other.clone())),
        ];
        let lines = lines.join("\n").replace(name, "KIND");
        insta::allow_duplicates! {
            insta::assert_snapshot!(lines, @r#"
            False Pending: the KIND payments/shop is told the endpoint
            tell KIND {"metadata":{"uid":"i-1"},"spec":{"controlPlaneEndpoint":{"host":"192.0.2.4","port":40443}}}
            False Failed: the KIND payments/shop says that the API server is at [fd00::9]:6443, but it is at 192.0.2.4:40443; correct its spec.controlPlaneEndpoint, or give the control plane that address by network.serviceAddress
            "#);
        }
    }
}

#[test]
fn other_kinds_are_told_if_the_operator_says_so() {
    assert_eq!(manner_of("RackCluster", &BTreeSet::new()), None);
    let further = BTreeSet::from(["RackCluster".to_owned()]);
    assert_eq!(manner_of("RackCluster", &further), Some(Manner::Tell));
    let unsupported = InfrastructureSight::Unsupported("RackCluster".to_owned());
    insta::assert_snapshot!(told(&unsupported), @"False Unsupported: Steward does not know how a RackCluster learns its endpoint; if it has a spec.controlPlaneEndpoint, start Steward with --dynamic-infrastructure-clusters=RackCluster");
}

#[test]
fn what_is_not_there_is_waited_for() {
    let missing = InfrastructureSight::Missing {
        kind: "AWSCluster".to_owned(),
        key: here("shop"),
    };
    let undefined =
        InfrastructureSight::Undefined("awsclusters.infrastructure.cluster.x-k8s.io".to_owned());
    let lines = [
        missing,
        undefined,
        InfrastructureSight::Unset,
        InfrastructureSight::LeftAlone,
    ];
    let lines = lines.each_ref().map(told).join("\n");
    insta::assert_snapshot!(lines, @r"
    False Pending: waiting for the AWSCluster payments/shop
    False Pending: waiting for the definition awsclusters.infrastructure.cluster.x-k8s.io with a label of Cluster API's contract; install its provider
    True NotRequired: the Cluster has no spec.infrastructureRef
    True NotRequired: Steward is told to leave infrastructure alone
    ");
}

#[test]
fn without_an_endpoint_nothing_is_told() {
    let (finding, effects) = settle(&found("AWSCluster", Contract::V1Beta1, json!({})), None);
    assert_eq!(effects, []);
    assert_eq!(finding.reason, reasons::PENDING);
}

#[test]
fn what_goes_is_not_told_any_more() {
    let metadata = json!({
        "name": "shop", "namespace": "payments", "uid": "i-1", "deletionTimestamp": "2026-01-01T00:00:00Z",
    });
    let going = found(
        "AWSCluster",
        Contract::V1Beta1,
        json!({ "metadata": metadata }),
    );
    insta::assert_snapshot!(told(&going), @"False Pending: the AWSCluster payments/shop is being deleted");
}

#[test]
fn the_version_of_a_kind_is_the_last_that_follows_the_newest_contract() {
    let versions = |labels: Value| {
        ContractVersions::project(json!({ "metadata": { "name": "x", "labels": labels } })).unwrap()
    };
    let both = versions(json!({
        "cluster.x-k8s.io/v1beta1": "v1alpha1_v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2",
    }));
    assert_eq!(both.newest(), Some(("v1beta2", Contract::V1Beta2)));
    let older = versions(json!({ "cluster.x-k8s.io/v1beta1": "v1alpha1_v1beta1" }));
    assert_eq!(older.newest(), Some(("v1beta1", Contract::V1Beta1)));
    assert_eq!(versions(json!({})).newest(), None);
    let reference = ContractReference {
        api_group: "infrastructure.cluster.x-k8s.io".to_owned(),
        kind: "AWSCluster".to_owned(),
        name: "shop".to_owned(),
    };
    assert_eq!(
        definition_of(&reference),
        "awsclusters.infrastructure.cluster.x-k8s.io"
    );
}
