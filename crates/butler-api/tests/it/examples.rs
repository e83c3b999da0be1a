//! Every manifest we show to users works unchanged on a real API server, and nothing written in it is lost.

use std::path::Path;

use butler_api::butler::addon_definition::AddonDefinition;
use butler_api::butler::butler_config::ButlerConfig;
use butler_api::butler::cluster_bootstrap::ClusterBootstrap;
use butler_api::butler::cluster_creation_policy::ClusterCreationPolicy;
use butler_api::butler::identity_provider::IdentityProvider;
use butler_api::butler::image_sync::ImageSync;
use butler_api::butler::ip_allocation::IPAllocation;
use butler_api::butler::load_balancer_request::LoadBalancerRequest;
use butler_api::butler::machine_request::MachineRequest;
use butler_api::butler::management_addon::ManagementAddon;
use butler_api::butler::network_pool::NetworkPool;
use butler_api::butler::network_pool_ledger::NetworkPoolLedger;
use butler_api::butler::provider_config::ProviderConfig;
use butler_api::butler::team::Team;
use butler_api::butler::tenant_addon::TenantAddon;
use butler_api::butler::tenant_cluster::TenantCluster;
use butler_api::butler::user::User;
use butler_api::butler::workspace::Workspace;
use butler_api::butler::workspace_template::WorkspaceTemplate;
use butler_api::cluster_api::butler_cluster::{ButlerCluster, ButlerClusterTemplate};
use butler_api::cluster_api::butler_machine::{ButlerMachine, ButlerMachineTemplate};
use butler_api::cluster_api::steward_control_plane::{
    StewardControlPlane, StewardControlPlaneTemplate,
};
use butler_api::steward::data_store::DataStore;
use butler_api::steward::kubeconfig_generator::KubeconfigGenerator;
use butler_api::steward::tenant_control_plane::TenantControlPlane;
use butler_testkit::ApiServer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::DEFINITIONS;
use crate::manifests::Manifest;

/// Every manifest of `examples/` and `examples/mission/`, by file name.
fn examples() -> Vec<(String, Manifest)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found = Vec::new();
    for directory in [root.clone(), root.join("mission")] {
        for entry in std::fs::read_dir(&directory).expect("directory of examples") {
            let path = entry.expect("entry").path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                let yaml = std::fs::read_to_string(&path).expect("example can be read");
                found.push((path.display().to_string(), Manifest::parse(&yaml)));
            }
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

/// What the Rust type of the kind keeps of an object.
fn through_type(kind: &str, object: Value) -> Value {
    fn again<K: DeserializeOwned + Serialize>(object: Value) -> Value {
        let typed: K =
            serde_json::from_value(object).expect("the type reads what the server keeps");
        serde_json::to_value(typed).expect("the type writes")
    }
    macro_rules! by_kind {
        ($($name:ident)*) => {
            match kind {
                $(stringify!($name) => again::<$name>(object),)*
                other => panic!("no type for the kind {other}"),
            }
        };
    }
    by_kind! {
        AddonDefinition
        ButlerCluster
        ButlerClusterTemplate
        ButlerConfig
        ButlerMachine
        ButlerMachineTemplate
        ClusterBootstrap
        ClusterCreationPolicy
        DataStore
        IPAllocation
        IdentityProvider
        ImageSync
        KubeconfigGenerator
        LoadBalancerRequest
        MachineRequest
        ManagementAddon
        NetworkPool
        NetworkPoolLedger
        ProviderConfig
        StewardControlPlane
        StewardControlPlaneTemplate
        Team
        TenantAddon
        TenantCluster
        TenantControlPlane
        User
        Workspace
        WorkspaceTemplate
    }
}

/// Paths at which `kept` lacks or changes something of `written`. What `kept` has besides is not looked at.
fn lost(path: &str, written: &Value, kept: &Value, found: &mut Vec<String>) {
    match (written, kept) {
        (Value::Object(written), Value::Object(kept)) => {
            for (name, value) in written {
                let path = format!("{path}.{name}");
                match kept.get(name) {
                    Some(kept) => lost(&path, value, kept, found),
                    None => found.push(format!("{path} is gone")),
                }
            }
        }
        (Value::Array(written), Value::Array(kept)) if written.len() == kept.len() => {
            for (index, (written, kept)) in written.iter().zip(kept).enumerate() {
                lost(&format!("{path}[{index}]"), written, kept, found);
            }
        }
        _ if written == kept => {}
        _ => found.push(format!("{path}: {written} became {kept}")),
    }
}

fn assert_keeps(what: &str, written: &Value, kept: &Value) {
    let mut found = Vec::new();
    lost("spec", written, kept, &mut found);
    assert!(found.is_empty(), "{what}: {found:#?}");
}

#[tokio::test]
async fn every_example_is_accepted_and_kept_whole() {
    let client = ApiServer::shared().await.client();
    for (file, manifest) in examples() {
        manifest.ensure_namespace(&client).await;
        let created = manifest.create(&client, false).await;
        created.unwrap_or_else(|error| panic!("{file}: {error}"));
        let kept = manifest
            .get(&client)
            .await
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        // Two examples may show the same object, such as the one ButlerConfig.
        manifest
            .delete(&client)
            .await
            .unwrap_or_else(|error| panic!("{file}: {error}"));

        assert_keeps(
            &format!("{file}, by the API server"),
            &manifest.value["spec"],
            &kept["spec"],
        );
        let typed = through_type(&manifest.kind, kept.clone());
        assert_keeps(
            &format!("{file}, by the type"),
            &kept["spec"],
            &typed["spec"],
        );
        assert_keeps(
            &format!("{file}, back from the type"),
            &typed["spec"],
            &kept["spec"],
        );
    }
}

#[test]
fn every_kind_has_an_example() {
    let shown: Vec<_> = examples()
        .into_iter()
        .map(|(_, manifest)| manifest.kind)
        .collect();
    let missing: Vec<_> = DEFINITIONS
        .iter()
        .map(|definition| &definition.spec.names.kind)
        .filter(|kind| !shown.contains(kind))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
