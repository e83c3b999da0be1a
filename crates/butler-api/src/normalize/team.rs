//! One reading of a `Team`: limits with two spellings become one, `member` becomes operator, names are folded.
//!
//! Owns: what the fields mean together. Whoever needs a team's limits or members asks here and never reads the spec.
//!
//! Must not: know who is logged in or what exists; it sees one object and the platform's defaults.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::butler::butler_config::DefaultTeamLimits;
use crate::butler::team::{ResourceLimits, TeamAccess, TeamRole};
use crate::quantity::{Amount, Quantity, QuantityError};

/// What a member may do, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look.
    Viewer,
    /// Make, change and delete clusters and addons.
    Operator,
    /// Everything, membership included.
    Admin,
}

impl From<TeamRole> for Role {
    fn from(role: TeamRole) -> Self {
        match role {
            TeamRole::Admin => Self::Admin,
            TeamRole::Operator | TeamRole::Member => Self::Operator,
            TeamRole::Viewer => Self::Viewer,
        }
    }
}

impl From<Role> for TeamRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Admin => Self::Admin,
            Role::Operator => Self::Operator,
            Role::Viewer => Self::Viewer,
        }
    }
}

/// A limit whose value is no amount.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "reading the team limit {field}: the value cannot be used; write an amount such as 200 or 1Ti"
)]
pub struct LimitError {
    /// Path of the field.
    pub field: &'static str,
    /// What is wrong with it.
    #[source]
    pub source: QuantityError,
}

/// What a team may take. `None` means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamLimits {
    /// Clusters.
    pub clusters: Option<i32>,
    /// Workers of all clusters.
    pub total_nodes: Option<i32>,
    /// Workers of one cluster.
    pub nodes_per_cluster: Option<i32>,
    /// CPU of all workers.
    pub cpu: Option<Amount>,
    /// Memory of all workers.
    pub memory: Option<Amount>,
    /// Disks of all workers.
    pub storage: Option<Amount>,
}

/// A team's limits. What the team leaves out follows the platform; where a limit is spelled twice, the smaller holds.
pub fn limits(
    team: Option<&ResourceLimits>,
    platform: Option<&DefaultTeamLimits>,
) -> Result<TeamLimits, LimitError> {
    let mut limits = team.map(team_limits).transpose()?.unwrap_or_default();
    if let Some(platform) = platform {
        let defaults = platform_limits(platform)?;
        limits.clusters = limits.clusters.or(defaults.clusters);
        limits.nodes_per_cluster = limits.nodes_per_cluster.or(defaults.nodes_per_cluster);
        limits.cpu = limits.cpu.or(defaults.cpu);
        limits.memory = limits.memory.or(defaults.memory);
        limits.storage = limits.storage.or(defaults.storage);
    }
    Ok(limits)
}

fn team_limits(limits: &ResourceLimits) -> Result<TeamLimits, LimitError> {
    Ok(TeamLimits {
        clusters: limits.max_clusters,
        total_nodes: limits.max_total_nodes,
        nodes_per_cluster: smaller(limits.max_nodes_per_cluster, limits.max_workers_per_cluster),
        cpu: smaller(
            amount(
                "spec.resourceLimits.maxCPUCores",
                limits.max_cpu_cores.as_ref(),
            )?,
            amount(
                "spec.resourceLimits.maxTotalCPU",
                limits.max_total_cpu.as_ref(),
            )?,
        ),
        memory: smaller(
            amount("spec.resourceLimits.maxMemory", limits.max_memory.as_ref())?,
            amount(
                "spec.resourceLimits.maxTotalMemory",
                limits.max_total_memory.as_ref(),
            )?,
        ),
        storage: smaller(
            amount(
                "spec.resourceLimits.maxStorage",
                limits.max_storage.as_ref(),
            )?,
            amount(
                "spec.resourceLimits.maxTotalStorage",
                limits.max_total_storage.as_ref(),
            )?,
        ),
    })
}

fn platform_limits(limits: &DefaultTeamLimits) -> Result<TeamLimits, LimitError> {
    Ok(TeamLimits {
        clusters: limits.max_clusters,
        total_nodes: None,
        nodes_per_cluster: limits.max_workers_per_cluster,
        cpu: amount(
            "spec.defaultTeamLimits.maxTotalCPU",
            limits.max_total_cpu.as_ref(),
        )?,
        memory: amount(
            "spec.defaultTeamLimits.maxTotalMemory",
            limits.max_total_memory.as_ref(),
        )?,
        storage: amount(
            "spec.defaultTeamLimits.maxTotalStorage",
            limits.max_total_storage.as_ref(),
        )?,
    })
}

fn amount(field: &'static str, written: Option<&Quantity>) -> Result<Option<Amount>, LimitError> {
    written
        .map(Quantity::amount)
        .transpose()
        .map_err(|source| LimitError { field, source })
}

fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Which group gives a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// Folded name of the group, see [`fold_group`].
    pub name: String,
    /// The identity provider that must have reported it; any if `None`.
    pub identity_provider: Option<String>,
}

/// Everybody who has access, each with the highest role given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// People by their e-mail in lower case.
    pub users: BTreeMap<String, Role>,
    /// Groups.
    pub groups: BTreeMap<GroupKey, Role>,
}

impl Members {
    /// The highest role a person has by name or by group; `groups` are those a given identity provider reported.
    pub fn role_of<'a>(
        &self,
        email: &str,
        identity_provider: Option<&str>,
        groups: impl IntoIterator<Item = &'a str>,
    ) -> Option<Role> {
        let by_name = self.users.get(&fold_email(email)).copied();
        let by_group = groups.into_iter().filter_map(|group| {
            let name = fold_group(group);
            self.groups
                .iter()
                .filter(|(key, _)| {
                    key.name == name
                        && key
                            .identity_provider
                            .as_deref()
                            .is_none_or(|required| Some(required) == identity_provider)
                })
                .map(|(_, role)| *role)
                .max()
        });
        by_group.chain(by_name).max()
    }
}

/// The members of a team or of one of its environments.
pub fn members(access: &TeamAccess) -> Members {
    let mut members = Members::default();
    for user in &access.users {
        raise(
            members
                .users
                .entry(fold_email(&user.name))
                .or_insert(Role::Viewer),
            user.role,
        );
    }
    for group in &access.groups {
        let key = GroupKey {
            name: fold_group(&group.name),
            identity_provider: group.identity_provider.clone(),
        };
        raise(
            members.groups.entry(key).or_insert(Role::Viewer),
            group.role,
        );
    }
    members
}

fn raise(role: &mut Role, given: TeamRole) {
    *role = (*role).max(given.into());
}

/// An e-mail in the form in which it is compared.
pub fn fold_email(email: &str) -> String {
    email.trim().to_lowercase()
}

/// A group in the form in which it is compared: of an LDAP name (`CN=dev,OU=…`) the first value, of an e-mail the part
/// before the last `@`, in lower case.
pub fn fold_group(group: &str) -> String {
    let group = group.trim();
    let group = match group.split_at_checked(3) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case("cn=") => {
            rest.split_once(',').map_or(rest, |(first, _)| first)
        }
        _ => group,
    };
    group
        .rsplit_once('@')
        .map_or(group, |(name, _)| name)
        .trim()
        .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::butler::team::{Team, TeamGroup, TeamUser};

    fn quantity(text: &str) -> Quantity {
        Quantity::new(text)
    }

    #[test]
    fn the_missions_team_reads_as_the_platforms_words() {
        let manifest = include_str!("../../../../examples/mission/team.yaml");
        let team: Team = serde_saphyr::from_str(manifest).expect("manifest");
        let limits = limits(team.spec.resource_limits.as_ref(), None).expect("limits");
        assert_eq!(limits.clusters, Some(10));
        assert_eq!(limits.cpu, Some(Amount::from_units(200)));
        assert_eq!(limits.memory, Some("1Ti".parse().expect("1Ti")));
        let members = members(&team.spec.access.expect("access"));
        assert_eq!(
            members.role_of("Admin@Example.com", None, []),
            Some(Role::Admin)
        );
        assert_eq!(
            members.role_of("someone@example.com", None, ["platform-engineers"]),
            Some(Role::Operator)
        );
        assert_eq!(members.role_of("stranger@example.com", None, []), None);
    }

    #[test]
    fn of_two_spellings_the_smaller_limit_holds() {
        let spec = ResourceLimits {
            max_cpu_cores: Some(quantity("100")),
            max_total_cpu: Some(quantity("64")),
            max_memory: Some(quantity("1Ti")),
            max_nodes_per_cluster: Some(5),
            max_workers_per_cluster: Some(9),
            ..ResourceLimits::default()
        };
        let limits = limits(Some(&spec), None).expect("limits");
        assert_eq!(limits.cpu, Some(Amount::from_units(64)));
        assert_eq!(limits.memory, Some("1Ti".parse().expect("1Ti")));
        assert_eq!(limits.nodes_per_cluster, Some(5));
        assert_eq!(limits.storage, None);
    }

    #[test]
    fn what_a_team_leaves_out_follows_the_platform() {
        let platform = DefaultTeamLimits {
            max_clusters: Some(5),
            max_total_cpu: Some(quantity("64")),
            ..DefaultTeamLimits::default()
        };
        let spec = ResourceLimits {
            max_clusters: Some(0),
            ..ResourceLimits::default()
        };
        let limits = limits(Some(&spec), Some(&platform)).expect("limits");
        assert_eq!(limits.clusters, Some(0));
        assert_eq!(limits.cpu, Some(Amount::from_units(64)));
    }

    #[test]
    fn a_limit_that_is_no_amount_is_named() {
        let spec = ResourceLimits {
            max_total_memory: Some(quantity("1e99")),
            ..ResourceLimits::default()
        };
        let error = limits(Some(&spec), None).expect_err("too large");
        assert!(
            error
                .to_string()
                .contains("spec.resourceLimits.maxTotalMemory"),
            "{error}"
        );
    }

    #[test]
    fn whoever_is_named_twice_has_the_higher_role() {
        let access = TeamAccess {
            users: vec![
                TeamUser {
                    name: "a@x.org".into(),
                    role: TeamRole::Viewer,
                },
                TeamUser {
                    name: "A@X.org".into(),
                    role: TeamRole::Member,
                },
            ],
            groups: vec![TeamGroup {
                name: "CN=Admins,OU=x,DC=org".into(),
                role: TeamRole::Admin,
                identity_provider: Some("corporate".into()),
            }],
        };
        let members = members(&access);
        assert_eq!(members.users.len(), 1);
        assert_eq!(
            members.role_of("a@x.org", None, ["admins"]),
            Some(Role::Operator)
        );
        assert_eq!(
            members.role_of("a@x.org", Some("corporate"), ["admins@x.org"]),
            Some(Role::Admin)
        );
    }

    #[test]
    fn groups_are_compared_by_their_first_part_in_lower_case() {
        assert_eq!(fold_group(" cn=Dev Team,OU=Groups "), "dev team");
        assert_eq!(fold_group("Dev@Example.com"), "dev");
        assert_eq!(fold_group("Dev"), "dev");
        assert_eq!(fold_group("é"), "é");
    }
}
