//! `WorkspaceTemplate`: a prepared kind of workspace that people choose from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workspace::{Dotfiles, EnvironmentSource, WorkspaceRepository, WorkspaceResources};
use crate::Quantity;

/// A prepared kind of workspace.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "WorkspaceTemplate",
    plural = "workspacetemplates",
    shortname = "wst",
    namespaced,
    status = "WorkspaceTemplateStatus",
    derive = "PartialEq",
    doc = "A prepared kind of workspace: people choose it and give only what is theirs.",
    printcolumn(
        name = "Display Name",
        type_ = "string",
        json_path = ".spec.displayName"
    ),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.template.image"),
    printcolumn(name = "Category", type_ = "string", json_path = ".spec.category"),
    printcolumn(name = "Scope", type_ = "string", json_path = ".spec.scope"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateSpec {
    /// Name that people see.
    #[schemars(length(min = 1, max = 128))]
    pub display_name: String,
    /// What the template is for, in a sentence or two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A short text or an address of a picture that stands for the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Kind of work it is made for. Default `custom`.
    #[serde(default)]
    pub category: WorkspaceTemplateCategory,
    /// Who sees it: the `team` whose namespace it is in, or everyone (`cluster`). Default `team`.
    #[serde(default)]
    pub scope: WorkspaceTemplateScope,
    /// What a workspace made from it starts with.
    pub template: WorkspaceTemplateBody,
}

/// Kind of work a template is made for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum WorkspaceTemplateCategory {
    /// Servers and services.
    Backend,
    /// User interfaces.
    Frontend,
    /// Data and models.
    Data,
    /// Infrastructure and delivery.
    Devops,
    /// Anything else.
    #[default]
    Custom,
}

/// Who sees a template.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum WorkspaceTemplateScope {
    /// Everyone.
    Cluster,
    /// The team whose namespace it is in.
    #[default]
    Team,
}

/// What a workspace made from a template starts with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateBody {
    /// Container image of the workspace.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// A repository to clone into `/workspace/src`; together with `repositories`, all are cloned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<WorkspaceRepository>,
    /// Repositories to clone, each into a directory of its own under `/workspace`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub repositories: Vec<WorkspaceRepository>,
    /// Settings to install, unless the person brings their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dotfiles: Option<Dotfiles>,
    /// A workload whose environment variables the workspace takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_from: Option<EnvironmentSource>,
    /// CPU and memory that the workspace may use. If absent, 2 cores and 4Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<WorkspaceResources>,
    /// Size of the volume that keeps the work. If absent, the size a workspace has without a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_size: Option<Quantity>,
}

/// What Butler reports about a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateStatus {
    /// Generation of the spec that this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether workspaces can be made from the template, and if not, why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn template_reads_back_equal() {
        let manifest: Value =
            serde_saphyr::from_str(include_str!("../../../../examples/workspace-template.yaml"))
                .unwrap();
        let template: WorkspaceTemplate = serde_json::from_value(manifest.clone()).unwrap();
        assert_eq!(serde_json::to_value(&template).unwrap(), manifest);
    }

    #[test]
    fn template_without_category_and_scope_is_the_teams_own() {
        let spec: WorkspaceTemplateSpec = serde_json::from_value(json!({
            "displayName": "Go service",
            "template": {"image": "registry.example.com/workspaces/go:1"},
        }))
        .unwrap();
        assert_eq!(spec.scope, WorkspaceTemplateScope::Team);
        assert_eq!(spec.category, WorkspaceTemplateCategory::Custom);
    }

    #[test]
    fn template_can_say_whether_it_is_usable() {
        let crd = WorkspaceTemplate::crd();
        assert_eq!(crd.spec.names.short_names, Some(vec!["wst".to_owned()]));
        assert_eq!(crd.spec.scope, "Namespaced");
        assert!(
            crd.spec.versions[0]
                .subresources
                .as_ref()
                .unwrap()
                .status
                .is_some()
        );
    }
}
