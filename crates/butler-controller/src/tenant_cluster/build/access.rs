//! Who of the team may do what in the namespace of a tenant cluster.
//!
//! The namespace holds more than the team's own: keys of the cluster's authorities, and with some infrastructure the
//! credentials of the provider. So nobody may read Secrets at large. Everybody of the team may look at the rest; admins and
//! operators may read the two Secrets with kubeconfigs.

use std::collections::BTreeMap;

use butler_api::{butler::team::TeamAccess, keys::names, normalize::team::Role as TeamRole};
use butler_runtime::object::{Kind, Manifest};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::{Value, json};

use super::metadata;
use crate::tenant_cluster::blueprint::Blueprint;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Kubernetes' own role for looking at everything but Secrets.
const VIEW: &str = "view";

/// The bindings of the team's members, and the role they need; nothing without a team.
pub(crate) fn access(blueprint: &Blueprint) -> Vec<Manifest> {
    let Some(team) = &blueprint.team else {
        return Vec::new();
    };
    let members = members(&team.access);
    let everybody: Vec<_> = members.keys().map(subject).collect();
    let users: Vec<_> = members
        .iter()
        .filter(|(_, role)| **role >= TeamRole::Operator)
        .map(|(who, _)| subject(who))
        .collect();
    let mut found = Vec::new();
    if !everybody.is_empty() {
        let name = format!("butler-team-{}-access", team.name);
        found.push(binding(blueprint, &name, ("ClusterRole", VIEW), &everybody));
    }
    if !users.is_empty() {
        let name = format!("butler-team-{}-kubeconfig", team.name);
        found.push(kubeconfig_role(blueprint, &name));
        found.push(binding(blueprint, &name, ("Role", &name), &users));
    }
    found
}

/// A user or a group, by the name that the API server knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who<'a> {
    User(&'a str),
    Group(&'a str),
}

/// Everybody with the highest role given.
fn members(access: &TeamAccess) -> BTreeMap<Who<'_>, TeamRole> {
    let users = access.users.iter();
    let users = users.map(|user| (Who::User(user.name.trim()), user.role));
    let groups = access.groups.iter();
    let groups = groups.map(|group| (Who::Group(group.name.trim()), group.role));
    let mut found = BTreeMap::new();
    for (who, role) in users.chain(groups) {
        let highest = found.entry(who).or_insert(TeamRole::Viewer);
        *highest = (*highest).max(role.into());
    }
    found
}

fn subject(who: &Who<'_>) -> Value {
    let (kind, name) = match who {
        Who::User(name) => ("User", name),
        Who::Group(name) => ("Group", name),
    };
    json!({ "apiGroup": RBAC, "kind": kind, "name": name })
}

fn kubeconfig_role(blueprint: &Blueprint, name: &str) -> Manifest {
    let secrets = [names::ADMIN_KUBECONFIG_SUFFIX, names::KUBECONFIG_SUFFIX]
        .map(|suffix| format!("{}{suffix}", blueprint.name));
    let body = json!({
        "metadata": metadata(blueprint, name),
        "rules": [{
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": secrets, "verbs": ["get", "watch"],
        }],
    });
    Manifest::new(Kind::of::<Role>(), body)
}

fn binding(
    blueprint: &Blueprint,
    name: &str,
    (kind, role): (&str, &str),
    subjects: &[Value],
) -> Manifest {
    let body = json!({
        "metadata": metadata(blueprint, name),
        "roleRef": { "apiGroup": RBAC, "kind": kind, "name": role },
        "subjects": subjects,
    });
    Manifest::new(Kind::of::<RoleBinding>(), body)
}
