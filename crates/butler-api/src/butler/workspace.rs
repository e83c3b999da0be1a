//! `Workspace`: a developer's machine in a tenant cluster, with an editor reached over SSH.
//!
//! Also owns the parts that a `WorkspaceTemplate` prepares: image, repositories, dotfiles, environment, size.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::quantity::QUANTITY_PATTERN;
use crate::reference::LocalReference;
use crate::schema::{ARGUMENT_PATTERN, DURATION_PATTERN};

/// A directory name without a way out of its parent.
const DIRECTORY_NAME_PATTERN: &str = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$";

/// A developer's workspace.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "Workspace",
    plural = "workspaces",
    shortname = "ws",
    namespaced,
    status = "WorkspaceStatus",
    derive = "PartialEq",
    doc = "A developer's workspace in a tenant cluster: a volume, a container and SSH.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterRef.name"
    ),
    printcolumn(name = "Owner", type_ = "string", json_path = ".spec.owner"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
    printcolumn(name = "Connected", type_ = "boolean", json_path = ".status.connected"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// `TenantCluster` in the same namespace that runs the workspace. It cannot be changed: the volume is there.
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("clusterRef cannot be changed: the workspace's volume is in that cluster"))]
    pub cluster_ref: LocalReference,
    /// Mail address of the person it belongs to.
    #[schemars(length(min = 1, max = 254))]
    pub owner: String,
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
    /// Personal settings, cloned and installed when the workspace is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dotfiles: Option<Dotfiles>,
    /// Settings of the editor in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub editor_config: Option<EditorConfig>,
    /// A workload whose environment variables the workspace takes over, to work as it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_from: Option<EnvironmentSource>,
    /// CPU and memory that the workspace may use. If absent, 2 cores and 4Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<WorkspaceResources>,
    /// Size of the volume that keeps the work. Default `10Gi`.
    #[serde(default = "ten_gi")]
    pub storage_size: Quantity,
    /// Public SSH keys that may log in. If empty, those of the owner's `User` object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 16384), regex(pattern = r"^[^\r\n]+$"))
    )]
    pub ssh_public_keys: Vec<String>,
    /// How long after it was last used a connection is closed. Default `4h`.
    #[serde(default = "four_hours")]
    #[schemars(regex(pattern = DURATION_PATTERN))]
    pub idle_timeout: String,
    /// How long after the connection was closed the workspace is stopped; the volume stays. Default `8h`.
    #[serde(default = "eight_hours")]
    #[schemars(regex(pattern = DURATION_PATTERN))]
    pub auto_stop_after: String,
}

fn ten_gi() -> Quantity {
    Quantity::new("10Gi")
}

fn four_hours() -> String {
    "4h".to_owned()
}

fn eight_hours() -> String {
    "8h".to_owned()
}

/// A Git repository that a workspace starts with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceRepository {
    /// Address of the repository, as `git clone` takes it.
    #[schemars(regex(pattern = ARGUMENT_PATTERN), length(max = 2048))]
    pub url: String,
    /// Branch to check out. Default `main`.
    #[serde(default = "main_branch")]
    #[schemars(regex(pattern = ARGUMENT_PATTERN), length(max = 255))]
    pub branch: String,
    /// Directory under `/workspace`. If absent, the last part of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DIRECTORY_NAME_PATTERN), length(max = 255))]
    pub name: Option<String>,
    /// Secret in the same namespace with the credentials for the repository. If absent, it is cloned without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

fn main_branch() -> String {
    "main".to_owned()
}

/// A person's settings, kept in a Git repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dotfiles {
    /// Address of the repository, as `git clone` takes it.
    #[schemars(regex(pattern = ARGUMENT_PATTERN), length(max = 2048))]
    pub url: String,
    /// Shell command run in the clone. If absent, `install.sh` if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_command: Option<String>,
}

/// Settings of Neovim in a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditorConfig {
    /// Repository that becomes the configuration directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ARGUMENT_PATTERN), length(max = 2048))]
    pub neovim_config_repo: Option<String>,
    /// The configuration directory as a gzipped tar archive in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neovim_config_archive: Option<String>,
    /// Text of `init.lua`, written after the repository or archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neovim_init_lua: Option<String>,
}

/// A workload in the tenant cluster whose environment variables are taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentSource {
    /// Kind of the workload. Default `Deployment`.
    #[serde(default)]
    pub kind: EnvironmentSourceKind,
    /// Name of the workload.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the workload. Default `default`.
    #[serde(default = "default_namespace")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Container whose variables are read. If absent, the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub container: Option<String>,
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// Kind of a workload whose environment is taken over.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum EnvironmentSourceKind {
    /// A Deployment.
    #[default]
    Deployment,
    /// A `StatefulSet`.
    StatefulSet,
}

/// CPU and memory that a workspace may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceResources {
    /// CPU in cores. Default `2`.
    #[serde(default = "two_cores")]
    #[schemars(regex(pattern = QUANTITY_PATTERN))]
    pub cpu: String,
    /// Memory with its unit. Default `4Gi`.
    #[serde(default = "memory_four_gi")]
    #[schemars(regex(pattern = QUANTITY_PATTERN))]
    pub memory: String,
}

impl Default for WorkspaceResources {
    fn default() -> Self {
        Self {
            cpu: two_cores(),
            memory: memory_four_gi(),
        }
    }
}

fn two_cores() -> String {
    "2".to_owned()
}

fn memory_four_gi() -> String {
    "4Gi".to_owned()
}

/// What Butler reports about a workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStatus {
    /// Generation of the spec that this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word for people, derived from the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<WorkspacePhase>,
    /// The facts: volume, pod and SSH, and `Ready` as their summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Whether the workspace has an SSH endpoint now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// Host and port for SSH while connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_endpoint: Option<String>,
    /// Pod in the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// Volume claim in the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc_name: Option<String>,
    /// Service in the tenant cluster while connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// When the workspace was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_activity_time: Option<Time>,
    /// When the last connection was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_disconnect_time: Option<Time>,
}

/// Where a workspace is in its life. Derived from conditions; code reads those.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum WorkspacePhase {
    /// Accepted, nothing made yet.
    Pending,
    /// Volume and pod are being made.
    Creating,
    /// The pod runs.
    Running,
    /// A stopped workspace comes back.
    Starting,
    /// The pod is gone, the volume is kept.
    Stopped,
    /// Stopped by something that a person must change.
    Failed,
}

#[cfg(test)]
mod tests {
    use kube::{CustomResourceExt, core::cel};
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn example() -> Value {
        serde_saphyr::from_str(include_str!("../../../../examples/workspace.yaml")).unwrap()
    }

    #[test]
    fn workspace_with_repositories_reads_back_equal() {
        let workspace: Workspace = serde_json::from_value(example()).unwrap();
        assert_eq!(serde_json::to_value(&workspace).unwrap(), example());
        cel::validate_cel(&workspace).unwrap();
    }

    #[test]
    fn workspace_of_three_fields_gets_the_usual_times_and_size() {
        let spec: WorkspaceSpec = serde_json::from_value(json!({
            "clusterRef": {"name": "production"},
            "owner": "ada@example.com",
            "image": "ghcr.io/butlerdotdev/workspace-base:latest",
        }))
        .unwrap();
        assert_eq!(spec.storage_size, Quantity::new("10Gi"));
        assert_eq!(
            (spec.idle_timeout.as_str(), spec.auto_stop_after.as_str()),
            ("4h", "8h")
        );
    }

    #[test]
    fn workspace_stays_where_its_volume_is() {
        let before: Workspace = serde_json::from_value(example()).unwrap();
        let mut moved = before.clone();
        moved.spec.cluster_ref.name = "elsewhere".to_owned();
        let refused = cel::validate_cel_update(&moved, &before)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("clusterRef cannot be changed"),
            "{refused}"
        );
    }

    #[test]
    fn list_shows_whether_someone_is_connected() {
        let crd = Workspace::crd();
        assert_eq!(crd.spec.names.short_names, Some(vec!["ws".to_owned()]));
        let connected = crd.spec.versions[0]
            .additional_printer_columns
            .iter()
            .flatten()
            .find(|column| column.name == "Connected")
            .unwrap();
        assert_eq!(connected.json_path, ".status.connected");
        assert_eq!(connected.type_, "boolean");
    }
}
