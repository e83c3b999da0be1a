//! `Team`: who may use which clusters, and how much of the platform they may take.
//!
//! Two spellings of some limits and roles are accepted; [`crate::normalize::team`] turns them into one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::reference::LocalReference;

/// Who belongs to the team and what it may use.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "Team",
    plural = "teams",
    shortname = "tm",
    status = "TeamStatus",
    derive = "PartialEq",
    doc = "A group of people with a namespace of its own, clusters in it, and limits.",
    validation = Rule::new(crate::name::unreserved_label_expression()).message(
        "metadata.name becomes the team's namespace: use at most 63 lower case letters, digits and dashes, \
         and no namespace of the platform such as default, kube-* or butler-system"
    ),
    printcolumn(name = "Display Name", type_ = "string", json_path = ".spec.displayName"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".status.namespace"),
    printcolumn(name = "Clusters", type_ = "integer", json_path = ".status.clusterCount"),
    printcolumn(name = "Quota", type_ = "string", json_path = ".status.quotaStatus"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TeamSpec {
    /// Name shown to people; the object's name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the team does, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// People and groups of the team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<TeamAccess>,
    /// What the team may take. Platform administrators set it; what is absent follows `ButlerConfig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_limits: Option<ResourceLimits>,
    /// What new clusters of the team get where they say nothing themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_defaults: Option<ClusterDefaults>,
    /// Parts of the team, such as development and production, with limits and access of their own. If there are any,
    /// each cluster of the team belongs to one, by the label `butler.butlerlabs.dev/environment`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub environments: Vec<TeamEnvironment>,
    /// Provider of the team's clusters that name none; the platform's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config_ref: Option<LocalReference>,
}

/// People and groups with their roles. Whoever is named twice has the higher role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamAccess {
    /// People, by e-mail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<TeamUser>,
    /// Groups of an identity provider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<TeamGroup>,
}

/// One person of the team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamUser {
    /// E-mail of the person; upper and lower case are the same.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What the person may do.
    #[serde(default)]
    pub role: TeamRole,
}

/// One group of the team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamGroup {
    /// Name of the group, as the identity provider spells it; an LDAP name or an e-mail is read by its first part.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What the people in the group may do.
    #[serde(default)]
    pub role: TeamRole,
    /// The `IdentityProvider` that must have reported the group; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_provider: Option<String>,
}

/// What a member of a team may do.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum TeamRole {
    /// Everything, membership included.
    Admin,
    /// Make, change and delete clusters and addons.
    Operator,
    /// Look.
    #[default]
    Viewer,
    /// Another word for operator.
    Member,
}

/// What a team may take. Limits that have two spellings hold at the smaller value if both are given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLimits {
    /// Clusters of the team; 0 allows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_clusters: Option<i32>,
    /// Workers of all clusters together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_total_nodes: Option<i32>,
    /// Workers of one cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_nodes_per_cluster: Option<i32>,
    /// Workers of one cluster: another word for `maxNodesPerCluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_workers_per_cluster: Option<i32>,
    /// CPU of all workers together, in cores.
    #[serde(
        rename = "maxCPUCores",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_cpu_cores: Option<Quantity>,
    /// CPU of all workers together, in cores: another word for `maxCPUCores`.
    #[serde(
        rename = "maxTotalCPU",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_total_cpu: Option<Quantity>,
    /// Memory of all workers together, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<Quantity>,
    /// Memory of all workers together, in bytes: another word for `maxMemory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_total_memory: Option<Quantity>,
    /// Disks of all workers together, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_storage: Option<Quantity>,
    /// Disks of all workers together, in bytes: another word for `maxStorage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_total_storage: Option<Quantity>,
    /// Workers of a new cluster that says nothing.
    #[serde(default = "default_node_count")]
    #[schemars(range(min = 0))]
    pub default_node_count: i32,
    /// CPU of a worker of a new cluster that says nothing.
    #[serde(
        rename = "defaultCPUPerNode",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub default_cpu_per_node: Option<Quantity>,
    /// Memory of a worker of a new cluster that says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_memory_per_node: Option<Quantity>,
    /// Kubernetes versions the team may use: `v1.31.0`, or `v1.31` for all of its patch versions. All if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_kubernetes_versions: Vec<String>,
    /// Provider configurations the team may use, by name. All it has access to if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_providers: Vec<String>,
    /// Addons the team may install. All if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_addons: Vec<String>,
    /// Addons the team may not install, whatever `allowedAddons` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_addons: Vec<String>,
}

fn default_node_count() -> i32 {
    3
}

/// What new clusters get where they say nothing themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDefaults {
    /// Kubernetes version: `v1.31.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = crate::version::VERSION_PATTERN))]
    pub kubernetes_version: Option<String>,
    /// Number of workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub worker_count: Option<i32>,
    /// Cores of a worker.
    #[serde(rename = "workerCPU", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub worker_cpu: Option<i32>,
    /// Memory of a worker, in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub worker_memory_gi: Option<i32>,
    /// Disk of a worker, in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10))]
    pub worker_disk_gi: Option<i32>,
    /// Addons that every new cluster gets, by the name of their definition; added to those of the team.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_addons: Vec<String>,
}

/// A part of the team with limits and access of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamEnvironment {
    /// Name, as clusters carry it in their environment label.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    )]
    pub name: String,
    /// What it is for, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Roles that members of the team have in this environment besides their role in the team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<TeamAccess>,
    /// What may be made in this environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<EnvironmentLimits>,
    /// What new clusters here get; wins over the team's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_defaults: Option<ClusterDefaults>,
}

/// What may be made in an environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentLimits {
    /// Clusters in the environment; 0 or absent sets no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_clusters: Option<i32>,
    /// Clusters one member may own in the environment; 0 or absent sets no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_clusters_per_member: Option<i32>,
}

/// What Butler reports about a team.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamStatus {
    /// `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Summary of the conditions, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TeamPhase>,
    /// The team's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Number of clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_count: Option<i32>,
    /// Number of people and groups that have access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_count: Option<i32>,
    /// How near the limits are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_status: Option<QuotaStatus>,
    /// Which limit is near or used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_message: Option<String>,
    /// What the team has taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_usage: Option<ResourceUsage>,
    /// `NamespaceReady`, `RBACReady`, `QuotaExceeded`, Ready and what the engine reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Where a team is in its life.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum TeamPhase {
    /// Its namespace is being made.
    Pending,
    /// It can be used.
    Ready,
    /// It is being deleted.
    Terminating,
    /// Something went wrong; the conditions say what.
    Failed,
}

/// How near a team's limits are.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum QuotaStatus {
    /// All limits are far.
    #[serde(rename = "OK")]
    Ok,
    /// A limit is near.
    Warning,
    /// A limit is used up.
    Exceeded,
}

/// What a team has taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// Clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<i32>,
    /// Workers of all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_nodes: Option<i32>,
    /// CPU of all workers, in cores.
    #[serde(rename = "totalCPU", default, skip_serializing_if = "Option::is_none")]
    pub total_cpu: Option<Quantity>,
    /// Memory of all workers, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_memory: Option<Quantity>,
    /// Disks of all workers, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_storage: Option<Quantity>,
    /// Share of `maxClusters` in use, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cluster_utilization: Option<i32>,
    /// Share of `maxTotalNodes` in use, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub node_utilization: Option<i32>,
    /// Share of the CPU limit in use, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cpu_utilization: Option<i32>,
    /// Share of the memory limit in use, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub memory_utilization: Option<i32>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;
    use crate::testing::{columns, read};

    #[test]
    fn a_users_team_is_read_and_written_unchanged() {
        let team = read::<Team>(include_str!("../../../../examples/team.yaml"));
        let access = team.spec.access.expect("access");
        assert_eq!(access.users[0].role, TeamRole::Admin);
        assert_eq!(access.groups[0].role, TeamRole::Member);
    }

    #[test]
    fn the_crd_has_the_names_people_type() {
        let crd = Team::crd();
        assert_eq!(crd.spec.scope, "Cluster");
        assert_eq!(crd.spec.names.short_names, Some(vec!["tm".to_owned()]));
        assert_eq!(
            columns::<Team>(),
            [
                "Display Name",
                "Phase",
                "Namespace",
                "Clusters",
                "Quota",
                "Age"
            ]
        );
    }
}
