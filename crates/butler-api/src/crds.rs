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
    addon_definition, butler_config, cluster_bootstrap, cluster_creation_policy,
    identity_provider, image_sync, ip_allocation, load_balancer_request, machine_request,
    management_addon, network_pool, provider_config, team, tenant_addon, tenant_cluster, user, workspace,
    workspace_template,
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
    let mut definitions: Vec<_> = [
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
            drop_nullable(schema);
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

/// Optional fields must not be nullable: the API server then drops a null, so that for rules and for readers "null" and
/// "absent" are the same.
fn drop_nullable(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    for field in schema.properties.iter_mut().flat_map(BTreeMap::values_mut) {
        drop_nullable(field);
    }
    match schema.items.as_mut() {
        Some(JSONSchemaPropsOrArray::Schema(items)) => drop_nullable(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(drop_nullable),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = schema.additional_properties.as_mut() {
        drop_nullable(values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_sorted_and_named_once() {
        let names: Vec<_> = all()
            .into_iter()
            .map(|crd| crd.metadata.name.unwrap())
            .collect();
        assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
    }

    #[test]
    fn yaml_is_read_back_as_the_same_definition() {
        for definition in all() {
            let yaml = to_yaml(&definition).expect("YAML");
            assert_eq!(yaml, to_yaml(&definition).expect("YAML"));
            let read: CustomResourceDefinition = serde_saphyr::from_str(&yaml).expect("definition");
            assert_eq!(read, definition);
        }
    }

    #[test]
    fn files_are_named_by_group_and_plural() {
        let names: Vec<_> = all().iter().map(file_name).collect();
        assert!(
            names.contains(&"butler.butlerlabs.dev_teams.yaml".to_owned()),
            "{names:?}"
        );
    }

    #[test]
    fn cluster_api_finds_its_contract_on_our_definitions() {
        let control_plane = labels_of(groups::CONTROL_PLANE);
        assert_eq!(control_plane["cluster.x-k8s.io/v1beta2"], "v1alpha1");
        assert_eq!(control_plane["cluster.x-k8s.io/v1beta1"], "v1alpha1");
        assert_eq!(
            control_plane["cluster.x-k8s.io/provider"],
            "control-plane-steward"
        );
        let infrastructure = labels_of(groups::INFRASTRUCTURE);
        assert_eq!(
            infrastructure["cluster.x-k8s.io/provider"],
            "infrastructure-butler"
        );
        assert!(!infrastructure.contains_key("cluster.x-k8s.io/v1beta1"));
        assert_eq!(labels_of(groups::BUTLER).len(), 1);
    }

    #[test]
    fn no_field_is_nullable() {
        for definition in all() {
            let text = serde_json::to_string(&definition).expect("JSON");
            assert!(
                !text.contains("\"nullable\""),
                "{:?}",
                definition.metadata.name
            );
        }
    }

    #[test]
    fn every_field_is_described() {
        fn undescribed(path: &str, schema: &JSONSchemaProps, found: &mut Vec<String>) {
            for (name, field) in schema.properties.iter().flatten() {
                let path = format!("{path}.{name}");
                if field.description.as_deref().unwrap_or_default().is_empty() {
                    found.push(path.clone());
                }
                undescribed(&path, field, found);
                if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items {
                    undescribed(&format!("{path}[]"), items, found);
                }
            }
        }
        let mut found = Vec::new();
        for definition in all() {
            for version in &definition.spec.versions {
                let schema = version
                    .schema
                    .as_ref()
                    .and_then(|s| s.open_api_v3_schema.as_ref());
                for part in ["spec", "status"] {
                    if let Some(schema) = schema.and_then(|s| s.properties.as_ref()?.get(part)) {
                        undescribed(
                            &format!("{} {part}", definition.spec.names.kind),
                            schema,
                            &mut found,
                        );
                    }
                }
            }
        }
        assert_eq!(found, Vec::<String>::new());
    }
}
