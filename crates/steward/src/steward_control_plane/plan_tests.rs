//! A control plane from its creation to its end, one stage at a time.

use butler_api::{
    cluster_api::butler_cluster::ButlerCluster, keys::annotations,
    steward::tenant_control_plane::ControlPlanePhase,
};
use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;
use crate::{
    secrets::Guard,
    steward_control_plane::{
        ClusterSecret, Contract, CopySight, Infrastructure, InfrastructureSight, Manner, Origin,
        SecretSource,
        scene::{asleep, control_plane, endpoint, here, renamed, serving, upgrading, world, young},
        secrets::CopiedSecret,
    },
    testing::{now, told as conditions},
};

/// A plan in lines: conditions, what is applied, effects and the rest of the status.
pub(super) fn lines(plan: &Plan<StewardControlPlaneStatus, Effect>) -> String {
    let mut lines = vec![conditions(plan)];
    lines.extend(plan.effects.iter().map(|effect| match effect {
        Effect::ApplyElsewhere(manifest) => format!("apply there {}", manifest.key),
        Effect::RemoveTenant { key, uid } => format!("remove {key} {uid}"),
        Effect::TellInfrastructure { kind, key, patch } => format!("tell {kind} {key} {patch}"),
        Effect::DeclareInfrastructureReady { kind, key, status } => {
            format!("declare {kind} {key} {status}")
        }
        Effect::CopySecret {
            secret,
            origin,
            guard,
            ..
        } => {
            let over = match guard {
                Guard::Absent => "new".to_owned(),
                Guard::Version { uid, .. } => format!("over {uid}"),
            };
            let Origin {
                secret: from,
                entry,
                checksum,
            } = origin;
            format!("copy {secret:?} from {from}/{entry}@{checksum} {over}")
        }
    }));
    let mut status = serde_json::json!(plan.status);
    if let Some(fields) = status.as_object_mut() {
        fields.remove("conditions");
        lines.extend(
            fields
                .iter()
                .map(|(name, value)| format!("{name}: {value}")),
        );
    }
    let text = lines.join("\n");
    text.lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

fn copied(of: &str) -> CopySight {
    CopySight {
        copy: CopiedSecret {
            owner: control_plane(Value::Null).uid(),
            copy_of: Some(of.to_owned()),
            is_intact: true,
        },
        guard: Guard::Version {
            uid: "secret-uid".to_owned(),
            resource_version: "7".to_owned(),
        },
    }
}

const KUBECONFIG: &str = "payments/shop-admin-kubeconfig/admin.conf@abc";

fn own_infrastructure(endpoint: Option<ControlPlaneEndpoint>) -> InfrastructureSight {
    InfrastructureSight::Found(Infrastructure {
        kind: Kind::of::<ButlerCluster>(),
        key: here("shop"),
        uid: "i-1".to_owned(),
        manner: Manner::Tell,
        contract: Contract::V1Beta2,
        endpoint,
        declared_ready: false,
        deleting: false,
    })
}

/// A control plane that shows what a plan says, with its endpoint published.
fn shown_as(plan: Plan<StewardControlPlaneStatus, Effect>) -> StewardControlPlane {
    let mut control_plane = control_plane(json!({ "controlPlaneEndpoint": endpoint() }));
    control_plane.status = Some(plan.status);
    control_plane
}

/// The world when everything is in place.
pub(super) fn settled() -> World {
    World {
        infrastructure: own_infrastructure(Some(endpoint())),
        secrets: [(ClusterSecret::Kubeconfig, copied(KUBECONFIG))].into(),
        ..world(Some(serving()))
    }
}

#[test]
fn a_control_plane_that_nobody_uses_waits_for_its_cluster() {
    let plan = plan(&control_plane(Value::Null), &World::default(), now());
    insta::assert_snapshot!(lines(&plan), @r#"
    Available=False Pending: waiting for a Cluster that names it in spec.controlPlaneRef
    RollingOut=False Creating: there is no TenantControlPlane yet
    ScalingUp=False Creating: there is no TenantControlPlane yet
    ScalingDown=False Creating: there is no TenantControlPlane yet
    TenantControlPlaneCreated=False Pending: waiting for a Cluster that names it in spec.controlPlaneRef
    TenantControlPlaneAddressReady=False Pending: the address is not known yet
    ControlPlaneEndpointPatched=False Pending: the endpoint is written when it is known
    InfrastructureClusterPatched=False Pending: the infrastructure is told the endpoint when there is a Cluster
    KubeadmResourcesCreated=False Pending: the Secrets are made when there is a TenantControlPlane
    StewardControlPlaneIsInitialized=False Pending: waiting until the API server serves and its kubeconfig is there
    StewardControlPlaneIsReady=False Pending: the API server does not serve; Available says why
    Paused=False NotPaused:
    externalManagedControlPlane: true
    initialization: {"controlPlaneInitialized":false}
    initialized: false
    ready: false
    "#);
}

#[test]
fn a_cluster_that_is_not_there_is_named() {
    let world = World {
        cluster: ClusterSight::Missing(here("shop")),
        ..World::default()
    };
    let plan = plan(&control_plane(Value::Null), &world, now());
    assert_eq!(plan.apply, []);
    let created = plan.status.conditions.iter();
    let mut created = created.filter(|said| said.type_ == types::TENANT_CONTROL_PLANE_CREATED);
    assert_eq!(
        created.next().map(|said| said.message.as_str()),
        Some("waiting for its Cluster payments/shop")
    );
}

#[test]
fn the_control_plane_is_made_as_soon_as_there_is_a_cluster() {
    let world = World {
        infrastructure: own_infrastructure(None),
        ..world(None)
    };
    let plan = plan(&control_plane(Value::Null), &world, now());
    insta::assert_snapshot!(lines(&plan), @r#"
    Available=False Pending: the TenantControlPlane payments/shop is being made
    RollingOut=False Creating: there is no TenantControlPlane yet
    ScalingUp=False Creating: there is no TenantControlPlane yet
    ScalingDown=False Creating: there is no TenantControlPlane yet
    TenantControlPlaneCreated=False Pending: the TenantControlPlane payments/shop is being made
    TenantControlPlaneAddressReady=False Pending: the address is not known yet
    ControlPlaneEndpointPatched=False Pending: the endpoint is written when it is known
    InfrastructureClusterPatched=False Pending: the ButlerCluster payments/shop is told the endpoint when it is known
    KubeadmResourcesCreated=False Pending: the Secrets are made when there is a TenantControlPlane
    StewardControlPlaneIsInitialized=False Pending: waiting until the API server serves and its kubeconfig is there
    StewardControlPlaneIsReady=False Pending: the API server does not serve; Available says why
    Paused=False NotPaused:
    apply TenantControlPlane payments/shop
    externalManagedControlPlane: true
    initialization: {"controlPlaneInitialized":false}
    initialized: false
    ready: false
    "#);
}

#[test]
fn an_address_is_handed_on_to_everybody_at_once() {
    let tenant = TenantSight {
        endpoint: Some(endpoint()),
        ..young()
    };
    let world = World {
        infrastructure: own_infrastructure(None),
        ..world(Some(tenant))
    };
    let plan = plan(&control_plane(Value::Null), &world, now());
    assert_eq!(
        plan.apply[1].body["spec"],
        json!({ "controlPlaneEndpoint": { "host": "192.0.2.4", "port": 40443 } })
    );
    insta::assert_snapshot!(lines(&plan), @r#"
    Available=False PodsNotReady: the TenantControlPlane is Provisioning
    RollingOut=False Ready:
    ScalingUp=True Reconciling: 0 of 2 replicas; more are made
    ScalingDown=False Ready:
    TenantControlPlaneCreated=True Succeeded: the TenantControlPlane payments/shop runs it
    TenantControlPlaneAddressReady=True Succeeded: the API server is at 192.0.2.4:40443
    ControlPlaneEndpointPatched=False Pending: spec.controlPlaneEndpoint is being written
    InfrastructureClusterPatched=False Pending: the ButlerCluster payments/shop is told the endpoint
    KubeadmResourcesCreated=False Pending: the Secret payments/shop-ca is made when the TenantControlPlane payments/shop has what it is copied from
    StewardControlPlaneIsInitialized=False Pending: waiting until the API server serves and its kubeconfig is there
    StewardControlPlaneIsReady=False Pending: the API server does not serve; Available says why
    Paused=False NotPaused:
    apply TenantControlPlane payments/shop
    apply StewardControlPlane payments/shop
    tell ButlerCluster payments/shop {"metadata":{"uid":"i-1"},"spec":{"controlPlaneEndpoint":{"host":"192.0.2.4","port":40443}}}
    externalManagedControlPlane: true
    initialization: {"controlPlaneInitialized":false}
    initialized: false
    ready: false
    "#);
}

#[test]
fn a_control_plane_that_serves_is_initialized_when_its_kubeconfig_is_there() {
    let world = World {
        secrets: std::collections::BTreeMap::new(),
        ..settled()
    };
    let first = plan(&control_plane(Value::Null), &world, now());
    assert!(first.status.ready);
    assert!(!first.status.initialized);
    let copies = first.effects.iter();
    let copies = copies.filter(|effect| matches!(effect, Effect::CopySecret { .. }));
    assert_eq!(
        copies.count(),
        1,
        "the authority has the right name already"
    );
    let second = plan(&shown_as(first), &settled(), now());
    insta::assert_snapshot!(lines(&second), @r#"
    Available=True Ready: the API server serves
    RollingOut=False Ready:
    ScalingUp=False Ready:
    ScalingDown=False Ready:
    TenantControlPlaneCreated=True Succeeded: the TenantControlPlane payments/shop runs it
    TenantControlPlaneAddressReady=True Succeeded: the API server is at 192.0.2.4:40443
    ControlPlaneEndpointPatched=True Succeeded: spec.controlPlaneEndpoint is 192.0.2.4:40443
    InfrastructureClusterPatched=True Succeeded: the ButlerCluster payments/shop knows the endpoint
    KubeadmResourcesCreated=True Succeeded:
    StewardControlPlaneIsInitialized=True Succeeded: the API server has served, and its kubeconfig is there
    StewardControlPlaneIsReady=True Succeeded: the API server serves
    Paused=False NotPaused:
    apply TenantControlPlane payments/shop
    availableReplicas: 2
    externalManagedControlPlane: true
    initialization: {"controlPlaneInitialized":true}
    initialized: true
    ready: true
    readyReplicas: 2
    replicas: 2
    selector: "steward.butlerlabs.dev/name=shop"
    unavailableReplicas: 0
    upToDateReplicas: 2
    updatedReplicas: 2
    version: "v1.36.3"
    versions: [{"replicas":2,"version":"v1.36.3"}]
    "#);
}

#[test]
fn a_control_plane_named_otherwise_than_its_cluster_gets_both_secrets() {
    let tenant = TenantSight {
        name: "hosted".to_owned(),
        authority: Some(SecretSource {
            key: here("hosted-ca"),
            checksum: "def".to_owned(),
        }),
        ..serving()
    };
    let named = renamed(control_plane(Value::Null), "hosted");
    let plan = plan(&named, &world(Some(tenant)), now());
    let text = lines(&plan);
    let copies: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("copy"))
        .collect();
    insta::assert_snapshot!(copies.join("\n"), @r"
    copy Kubeconfig from payments/shop-admin-kubeconfig/admin.conf@abc new
    copy Authority from payments/hosted-ca/tls.crt@def new
    ");
}

#[test]
fn a_secret_is_copied_again_when_its_source_or_somebody_else_changed_it() {
    let effects = |sight: CopySight| {
        let world = World {
            secrets: [(ClusterSecret::Kubeconfig, sight)].into(),
            ..settled()
        };
        let plan = plan(&control_plane(Value::Null), &world, now());
        plan.effects.len()
    };
    assert_eq!(effects(copied(KUBECONFIG)), 0);
    assert_eq!(
        effects(copied("payments/shop-admin-kubeconfig/admin.conf@old")),
        1
    );
    let mut spoilt = copied(KUBECONFIG);
    spoilt.copy.is_intact = false;
    assert_eq!(effects(spoilt), 1);
}

#[test]
fn a_secret_of_another_control_plane_is_left_alone() {
    let mut foreign = copied("elsewhere");
    foreign.copy.owner = Some("somebody".to_owned());
    let world = World {
        secrets: [(ClusterSecret::Kubeconfig, foreign)].into(),
        ..settled()
    };
    let plan = plan(&control_plane(Value::Null), &world, now());
    assert_eq!(plan.effects, []);
    let notes: Vec<_> = plan
        .notes
        .iter()
        .map(|note| note.message.as_str())
        .collect();
    insta::assert_snapshot!(notes.join("\n"), @"the Secret payments/shop-kubeconfig exists and was not made for this control plane; delete it if nobody needs it");
}

#[test]
fn another_key_of_the_kubeconfigs_can_be_chosen() {
    let mut chosen = control_plane(Value::Null);
    let annotation = annotations::STEWARD_KUBECONFIG_SECRET_KEY.to_owned();
    chosen.metadata.annotations = Some([(annotation, "admin.svc".to_owned())].into());
    let plan = plan(&chosen, &settled(), now());
    assert!(
        lines(&plan).contains("from payments/shop-admin-kubeconfig/admin.svc@abc over secret-uid")
    );
}

#[test]
fn a_control_plane_at_zero_sleeps_and_stays_initialized() {
    let mut control_plane = shown_as(plan(&control_plane(Value::Null), &settled(), now()));
    control_plane.spec.replicas = 0;
    let world = World {
        tenant: Some(asleep()),
        ..settled()
    };
    let plan = plan(&control_plane, &world, now());
    assert_eq!(
        plan.apply[0].body["spec"]["controlPlane"]["deployment"]["replicas"],
        0
    );
    insta::assert_snapshot!(lines(&plan), @r#"
    Available=False Sleeping: it is scaled to zero; scale it up to wake it
    RollingOut=False Ready:
    ScalingUp=False Ready:
    ScalingDown=False Ready:
    TenantControlPlaneCreated=True Succeeded: the TenantControlPlane payments/shop runs it
    TenantControlPlaneAddressReady=True Succeeded: the API server is at 192.0.2.4:40443
    ControlPlaneEndpointPatched=True Succeeded: spec.controlPlaneEndpoint is 192.0.2.4:40443
    InfrastructureClusterPatched=True Succeeded: the ButlerCluster payments/shop knows the endpoint
    KubeadmResourcesCreated=True Succeeded:
    StewardControlPlaneIsInitialized=True Succeeded: the API server has served, and its kubeconfig is there
    StewardControlPlaneIsReady=False Pending: the API server does not serve; Available says why
    Paused=False NotPaused:
    apply TenantControlPlane payments/shop
    availableReplicas: 0
    externalManagedControlPlane: true
    initialization: {"controlPlaneInitialized":true}
    initialized: true
    ready: false
    readyReplicas: 0
    replicas: 0
    selector: "steward.butlerlabs.dev/name=shop"
    unavailableReplicas: 0
    upToDateReplicas: 0
    updatedReplicas: 0
    version: "v1.36.3"
    versions: [{"replicas":0,"version":"v1.36.3"}]
    "#);
}

#[test]
fn an_upgrade_shows_both_versions_and_goes_on_serving() {
    let control_plane = shown_as(plan(&control_plane(Value::Null), &settled(), now()));
    let world = World {
        tenant: Some(upgrading()),
        ..settled()
    };
    let plan = plan(&control_plane, &world, now());
    insta::assert_snapshot!(lines(&plan), @r#"
    Available=True Ready: the API server serves
    RollingOut=True RollingOut: 3 of 2 replicas; new ones take over
    ScalingUp=False Ready:
    ScalingDown=False Ready:
    TenantControlPlaneCreated=True Succeeded: the TenantControlPlane payments/shop runs it
    TenantControlPlaneAddressReady=True Succeeded: the API server is at 192.0.2.4:40443
    ControlPlaneEndpointPatched=True Succeeded: spec.controlPlaneEndpoint is 192.0.2.4:40443
    InfrastructureClusterPatched=True Succeeded: the ButlerCluster payments/shop knows the endpoint
    KubeadmResourcesCreated=True Succeeded:
    StewardControlPlaneIsInitialized=True Succeeded: the API server has served, and its kubeconfig is there
    StewardControlPlaneIsReady=True Succeeded: the API server serves
    Paused=False NotPaused:
    apply TenantControlPlane payments/shop
    availableReplicas: 2
    externalManagedControlPlane: true
    initialization: {"controlPlaneInitialized":true}
    initialized: true
    ready: true
    readyReplicas: 2
    replicas: 3
    selector: "steward.butlerlabs.dev/name=shop"
    unavailableReplicas: 0
    upToDateReplicas: 1
    updatedReplicas: 1
    version: "v1.35.4"
    versions: [{"replicas":2,"version":"v1.35.4"},{"replicas":1,"version":"v1.36.3"}]
    "#);
}

#[test]
fn a_version_that_cannot_be_reached_is_told_while_the_old_one_serves() {
    let said = Conditions::since(&serving().conditions, None, now())
        .say(types::AVAILABLE, true, "Ready", "the API server serves")
        .say(
            types::READY,
            false,
            reasons::VERSION_SKEW,
            "spec.kubernetes.version: not so fast",
        )
        .finish();
    let tenant = TenantSight {
        conditions: said,
        ..serving()
    };
    let plan = plan(&control_plane(Value::Null), &world(Some(tenant)), now());
    assert!(plan.status.ready);
    let notes = [Note::warning(
        reasons::VERSION_SKEW,
        "spec.kubernetes.version: not so fast",
    )];
    assert_eq!(plan.notes, notes);
}

#[test]
fn a_control_plane_of_an_older_release_is_understood() {
    let mut control_plane = control_plane(Value::Null);
    control_plane.status = Some(StewardControlPlaneStatus {
        initialized: true,
        ..StewardControlPlaneStatus::default()
    });
    let tenant = TenantSight {
        conditions: Vec::new(),
        phase: ControlPlanePhase::NotReady,
        ..serving()
    };
    let plan = plan(&control_plane, &world(Some(tenant)), now());
    assert!(!plan.status.ready);
    let initialization = plan.status.initialization.unwrap();
    assert_eq!(initialization.control_plane_initialized, Some(true));
}

#[test]
fn a_tenant_control_plane_of_somebody_else_is_left_alone() {
    let foreign = TenantSight {
        controller: None,
        ..serving()
    };
    let plan = plan(&control_plane(Value::Null), &world(Some(foreign)), now());
    assert_eq!((plan.apply.len(), plan.effects.len()), (0, 0));
    insta::assert_snapshot!(lines(&plan), @r#"
    Available=False NameTaken: the TenantControlPlane payments/shop exists and is not this control plane's; give the control plane another name
    RollingOut=False Creating: there is no TenantControlPlane yet
    ScalingUp=False Creating: there is no TenantControlPlane yet
    ScalingDown=False Creating: there is no TenantControlPlane yet
    TenantControlPlaneCreated=False NameTaken: the TenantControlPlane payments/shop exists and is not this control plane's; give the control plane another name
    TenantControlPlaneAddressReady=False Pending: the address is not known yet
    ControlPlaneEndpointPatched=False Pending: the endpoint is written when it is known
    InfrastructureClusterPatched=True NotRequired: the Cluster has no spec.infrastructureRef
    KubeadmResourcesCreated=False Pending: the Secrets are made when there is a TenantControlPlane
    StewardControlPlaneIsInitialized=False Pending: waiting until the API server serves and its kubeconfig is there
    StewardControlPlaneIsReady=False Pending: the API server does not serve; Available says why
    Paused=False NotPaused:
    Warning NameTaken: the TenantControlPlane payments/shop exists and is not this control plane's; give the control plane another name
    externalManagedControlPlane: true
    initialization: {"controlPlaneInitialized":false}
    initialized: false
    ready: false
    "#);
}
