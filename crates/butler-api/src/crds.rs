//! Every custom resource definition, as it is installed.
//!
//! Owns: the list, the labels Cluster API and people look for, and the YAML form that is committed and shipped.
//!
//! Must not: say anything about fields; they come from the types.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use thiserror::Error;

use crate::butler::{
    addon_definition, butler_config, cluster_bootstrap, cluster_creation_policy, identity_provider,
    image_sync, ip_allocation, load_balancer_request, machine_request, management_addon,
    network_pool, network_pool_ledger, provider_config, team, tenant_addon, tenant_cluster, user,
    workspace, workspace_template,
};
use crate::cluster_api::{butler_cluster, butler_machine, steward_control_plane};
use crate::keys::{groups, labels, values};
use crate::steward::{data_store, kubeconfig_generator, tenant_control_plane};

/// A definition could not be written as YAML.
#[derive(Debug, Error)]
#[error("writing the definition of {name} as YAML failed; this is a defect of Butler")]
pub struct WriteError {
    /// Name of the definition.
    pub name: String,
    /// What went wrong.
    #[source]
    pub source: serde_saphyr::ser::Error,
}

/// Every custom resource definition, sorted by name.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut definitions: Vec<_> = vec![
        addon_definition::AddonDefinition::crd(),
        butler_cluster::ButlerCluster::crd(),
        butler_cluster::ButlerClusterTemplate::crd(),
        butler_config::ButlerConfig::crd(),
        butler_machine::ButlerMachine::crd(),
        butler_machine::ButlerMachineTemplate::crd(),
        cluster_bootstrap::ClusterBootstrap::crd(),
        cluster_creation_policy::ClusterCreationPolicy::crd(),
        data_store::DataStore::crd(),
        identity_provider::IdentityProvider::crd(),
        image_sync::ImageSync::crd(),
        ip_allocation::IPAllocation::crd(),
        kubeconfig_generator::KubeconfigGenerator::crd(),
        load_balancer_request::LoadBalancerRequest::crd(),
        machine_request::MachineRequest::crd(),
        management_addon::ManagementAddon::crd(),
        network_pool::NetworkPool::crd(),
        network_pool_ledger::NetworkPoolLedger::crd(),
        provider_config::ProviderConfig::crd(),
        steward_control_plane::StewardControlPlane::crd(),
        steward_control_plane::StewardControlPlaneTemplate::crd(),
        team::Team::crd(),
        tenant_addon::TenantAddon::crd(),
        tenant_cluster::TenantCluster::crd(),
        tenant_control_plane::TenantControlPlane::crd(),
        user::User::crd(),
        workspace::Workspace::crd(),
        workspace_template::WorkspaceTemplate::crd(),
    ]
    .into_iter()
    .map(finish)
    .collect();
    definitions.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    definitions
}

/// Name of the file a definition is kept in: `<group>_<plural>.yaml`.
pub fn file_name(definition: &CustomResourceDefinition) -> String {
    format!(
        "{}_{}.yaml",
        definition.spec.group, definition.spec.names.plural
    )
}

/// The definition as YAML, the same text for the same definition.
pub fn to_yaml(definition: &CustomResourceDefinition) -> Result<String, WriteError> {
    serde_saphyr::to_string(definition).map_err(|source| WriteError {
        name: definition.metadata.name.clone().unwrap_or_default(),
        source,
    })
}

/// What every definition needs beyond its derive.
fn finish(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let extra = labels_of(&definition.spec.group);
    definition
        .metadata
        .labels
        .get_or_insert_default()
        .extend(extra);
    for version in &mut definition.spec.versions {
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut())
        {
            make_spec_optional(schema);
            tidy(schema);
        }
    }
    definition
}

fn labels_of(group: &str) -> BTreeMap<String, String> {
    let contract = |provider| {
        [
            (labels::CLUSTER_API_PROVIDER, provider),
            (
                labels::CLUSTER_API_CONTRACT_V1BETA2,
                groups::INFRASTRUCTURE_VERSION,
            ),
        ]
    };
    let mut found = vec![(labels::PART_OF, values::PART_OF_BUTLER)];
    if group == groups::INFRASTRUCTURE {
        found.extend(contract(values::PROVIDER_INFRASTRUCTURE));
    } else if group == groups::CONTROL_PLANE {
        found.extend(contract(values::PROVIDER_CONTROL_PLANE));
        found.push((
            labels::CLUSTER_API_CONTRACT_V1BETA1,
            groups::CONTROL_PLANE_VERSION,
        ));
    }
    found
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Lets a manifest leave out a spec in which nothing is required: the API server then fills in an empty one, so that the
/// types can rely on it.
fn make_spec_optional(schema: &mut JSONSchemaProps) {
    let Some(spec) = schema
        .properties
        .as_mut()
        .and_then(|fields| fields.get_mut("spec"))
    else {
        return;
    };
    if spec.required.as_ref().is_none_or(Vec::is_empty) {
        spec.default = Some(JSON(serde_json::json!({})));
        if let Some(required) = schema.required.as_mut() {
            required.retain(|field| field != "spec");
        }
        if schema.required.as_ref().is_some_and(Vec::is_empty) {
            schema.required = None;
        }
    }
}

/// Takes out of a schema and all within it what is about Rust and not about the field.
fn tidy(schema: &mut JSONSchemaProps) {
    // Optional fields must not be nullable: the API server then drops a null, so that for rules and for readers "null"
    // and "absent" are the same.
    schema.nullable = None;
    if let Some(description) = &mut schema.description {
        *description = join_lines(description);
    }
    for field in schema.properties.iter_mut().flat_map(BTreeMap::values_mut) {
        tidy(field);
    }
    match schema.items.as_mut() {
        Some(JSONSchemaPropsOrArray::Schema(items)) => tidy(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(tidy),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = schema.additional_properties.as_mut() {
        tidy(values);
    }
}

/// Each paragraph on one line: where a line of source ends means nothing to the reader of `kubectl explain`.
fn join_lines(text: &str) -> String {
    text.split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n\n")
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    /// Made once: without optimisation that takes seconds.
    static DEFINITIONS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(all);

    #[test]
    fn definitions_are_sorted_and_named_once() {
        let names: Vec<_> = DEFINITIONS
            .iter()
            .map(|crd| crd.metadata.name.as_deref())
            .collect();
        assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
    }

    #[test]
    fn yaml_is_read_back_as_the_same_definition() {
        for definition in &*DEFINITIONS {
            let yaml = to_yaml(definition).expect("YAML");
            assert_eq!(yaml, to_yaml(definition).expect("YAML"));
            let read: CustomResourceDefinition = serde_saphyr::from_str(&yaml).expect("definition");
            assert_eq!(read, *definition);
        }
    }

    #[test]
    fn files_are_named_by_group_and_plural() {
        let names: Vec<_> = DEFINITIONS.iter().map(file_name).collect();
        assert!(
            names.contains(&"butler.butlerlabs.dev_teams.yaml".to_owned()),
            "{names:?}"
        );
    }

    fn labels_of_kind(kind: &str) -> BTreeMap<String, String> {
        let definition = DEFINITIONS
            .iter()
            .find(|definition| definition.spec.names.kind == kind);
        definition
            .and_then(|definition| definition.metadata.labels.clone())
            .expect("labels")
    }

    #[test]
    fn cluster_api_finds_its_contract_on_our_definitions() {
        for kind in ["StewardControlPlane", "StewardControlPlaneTemplate"] {
            let labels = labels_of_kind(kind);
            assert_eq!(labels["cluster.x-k8s.io/v1beta2"], "v1alpha1");
            assert_eq!(labels["cluster.x-k8s.io/v1beta1"], "v1alpha1");
            assert_eq!(labels["cluster.x-k8s.io/provider"], "control-plane-steward");
        }
        for kind in [
            "ButlerCluster",
            "ButlerClusterTemplate",
            "ButlerMachine",
            "ButlerMachineTemplate",
        ] {
            let labels = labels_of_kind(kind);
            assert_eq!(labels["cluster.x-k8s.io/v1beta2"], "v1alpha1");
            assert_eq!(labels["cluster.x-k8s.io/provider"], "infrastructure-butler");
            assert!(!labels.contains_key("cluster.x-k8s.io/v1beta1"));
        }
        assert_eq!(labels_of_kind("Team").len(), 1);
    }

    #[test]
    fn the_contract_labels_are_not_on_the_objects() {
        let machine =
            butler_machine::ButlerMachine::new("m", butler_machine::ButlerMachineSpec::default());
        assert_eq!(machine.metadata.labels, None);
        let cluster =
            butler_cluster::ButlerCluster::new("c", butler_cluster::ButlerClusterSpec::default());
        assert_eq!(cluster.metadata.labels, None);
        let spec = serde_json::from_value(serde_json::json!({ "version": "v1.35.2" }));
        let control_plane =
            steward_control_plane::StewardControlPlane::new("p", spec.expect("spec"));
        assert_eq!(control_plane.metadata.labels, None);
    }

    #[test]
    fn descriptions_have_a_line_for_each_paragraph() {
        assert_eq!(
            join_lines("Number of\nworkers.\n\nZero is\n  allowed."),
            "Number of workers.\n\nZero is allowed."
        );
    }

    #[test]
    fn no_field_is_nullable() {
        for definition in &*DEFINITIONS {
            let text = serde_json::to_string(definition).expect("JSON");
            assert!(
                !text.contains("\"nullable\""),
                "{:?}",
                definition.metadata.name
            );
        }
    }

    /// Where Kubernetes' own types begin: the field says which `kubectl explain` knows what is below it.
    const KNOWN_ELSEWHERE: &str = "See `kubectl explain ";

    fn undescribed(path: &str, schema: &JSONSchemaProps, found: &mut Vec<String>) {
        for (name, field) in schema.properties.iter().flatten() {
            let path = format!("{path}.{name}");
            let description = field.description.as_deref().unwrap_or_default();
            if description.is_empty() {
                found.push(path.clone());
            }
            if !description.contains(KNOWN_ELSEWHERE) {
                undescribed(&path, field, found);
            }
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            undescribed(&format!("{path}[]"), items, found);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            undescribed(&format!("{path}{{}}"), values, found);
        }
    }

    #[test]
    fn every_field_is_described() {
        let mut found = Vec::new();
        for definition in &*DEFINITIONS {
            let kind = &definition.spec.names.kind;
            for version in &definition.spec.versions {
                let schema = version
                    .schema
                    .as_ref()
                    .and_then(|schema| schema.open_api_v3_schema.as_ref())
                    .expect("schema");
                for (part, field) in schema.properties.iter().flatten() {
                    // The rest is Kubernetes' own.
                    if ["spec", "status"].contains(&part.as_str()) {
                        undescribed(&format!("{kind} {part}"), field, &mut found);
                    }
                }
            }
        }
        assert!(found.is_empty(), "{found:#?}");
    }
}
