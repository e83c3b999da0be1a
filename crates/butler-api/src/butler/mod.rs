//! Kinds of the group `butler.butlerlabs.dev`.

pub mod addon_definition;
pub mod butler_config;
pub mod cluster_bootstrap;
pub mod cluster_creation_policy;
pub mod identity_provider;
pub mod image_sync;
pub mod ip_allocation;
pub mod load_balancer_request;
pub mod machine_request;
pub mod management_addon;
pub mod network_pool;
pub mod provider_config;
pub mod team;
pub mod tenant_addon;
pub mod tenant_cluster;
pub mod user;
pub mod workspace;
pub mod workspace_template;

/// What the tests of the kinds share.
#[cfg(test)]
pub(crate) mod testing {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use pretty_assertions::assert_eq;
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    /// Reads a manifest as the kind and checks that writing it gives the same JSON.
    pub(crate) fn round_trips<K: Serialize + DeserializeOwned>(manifest: &str) -> K {
        let written: serde_json::Value =
            serde_saphyr::from_str(manifest).expect("manifest is YAML");
        let kind: K = serde_json::from_value(written.clone()).expect("manifest is of the kind");
        assert_eq!(
            serde_json::to_value(&kind).expect("kind serialises"),
            written
        );
        kind
    }

    /// Titles of the columns `kubectl get` prints.
    pub(crate) fn columns(crd: &CustomResourceDefinition) -> Vec<&str> {
        crd.spec
            .versions
            .iter()
            .flat_map(|version| version.additional_printer_columns.iter().flatten())
            .map(|column| column.name.as_str())
            .collect()
    }
}
