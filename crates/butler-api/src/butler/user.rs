//! `User`: a person who logs in to Butler.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::butler::team::TeamRole;
use crate::reference::SecretReference;

/// Who the person is and what they may do on the platform.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "User",
    plural = "users",
    shortname = "usr",
    status = "UserStatus",
    derive = "PartialEq",
    doc = "A person who logs in to Butler, with a password or through an identity provider.",
    printcolumn(name = "Email", type_ = "string", json_path = ".spec.email"),
    printcolumn(
        name = "Display Name",
        type_ = "string",
        json_path = ".spec.displayName"
    ),
    printcolumn(name = "Auth", type_ = "string", json_path = ".spec.authType"),
    printcolumn(
        name = "Platform Admin",
        type_ = "boolean",
        json_path = ".spec.isPlatformAdmin"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Last Login",
        type_ = "date",
        json_path = ".status.lastLoginTime"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct UserSpec {
    /// E-mail, by which teams name the person; upper and lower case are the same.
    #[schemars(email)]
    pub email: String,
    /// Name shown to people; the e-mail if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Address of a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar: Option<String>,
    /// How the person logs in: `internal` with a password kept by Butler, `sso` through an identity provider.
    #[serde(default)]
    pub auth_type: AuthenticationType,
    /// The `IdentityProvider` the person logs in through, for `sso`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sso_provider: Option<String>,
    /// The identity provider's own identifier of the person; set at the first login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sso_subject: Option<String>,
    /// Secret with the password's hash, in the key `password` unless `key` names another, for `internal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret_ref: Option<SecretReference>,
    /// Whether the person administers the whole platform. The same as `platformRole: admin`.
    #[serde(default)]
    pub is_platform_admin: bool,
    /// Role on the whole platform, apart from teams: `admin`, `viewer`, or empty for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_role: Option<PlatformRole>,
    /// Whether the person is kept out.
    #[serde(default)]
    pub disabled: bool,
    /// SSH public keys the person uses for workspaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_keys: Vec<SshKey>,
}

/// How a person logs in.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum AuthenticationType {
    /// Through an identity provider.
    Sso,
    /// With a password kept by Butler.
    #[default]
    Internal,
}

/// Role on the whole platform.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum PlatformRole {
    /// May do everything.
    Admin,
    /// May see everything.
    Viewer,
    /// Has no role on the platform.
    #[serde(rename = "")]
    None,
}

/// One SSH public key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SshKey {
    /// Name the person gave the key.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The key, as one line of an `authorized_keys` file.
    #[schemars(length(min = 1))]
    pub public_key: String,
    /// SHA-256 fingerprint of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// When the key was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_at: Option<Time>,
}

/// What Butler reports about a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserStatus {
    /// `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Summary, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<UserPhase>,
    /// Teams the person belongs to, by name or by group, each with the highest role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub teams: Vec<TeamMembership>,
    /// When `teams` was last found to have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teams_resolved_at: Option<Time>,
    /// Groups the identity provider reported at the last login.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_seen_groups: Vec<String>,
    /// When the person last logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_login_time: Option<Time>,
    /// How often the person has logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_count: Option<i64>,
    /// Wrong passwords since the last login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_login_attempts: Option<i32>,
    /// Until when logging in is refused because of wrong passwords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_until: Option<Time>,
    /// Secret with the hash of the password the person set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret_ref: Option<SecretReference>,
    /// When the password was last set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_changed_at: Option<Time>,
    /// SHA-256 of the token in the open invitation, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invite_token_hash: Option<String>,
    /// When the open invitation was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invite_sent_at: Option<Time>,
    /// Until when the open invitation can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invite_expires_at: Option<Time>,
    /// What the engine reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Whether a person can log in.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum UserPhase {
    /// Invited; no password set yet.
    Pending,
    /// Can log in.
    Active,
    /// Kept out for a while because of wrong passwords.
    Locked,
    /// Kept out by an administrator.
    Disabled,
}

/// A team the person belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamMembership {
    /// Name of the team.
    pub name: String,
    /// Highest role the person has there.
    pub role: TeamRole,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;
    use crate::testing::{columns, read};

    #[test]
    fn a_person_is_read_and_written_unchanged() {
        let user = read::<User>(include_str!("../../../../examples/user.yaml"));
        assert_eq!(user.spec.platform_role, Some(PlatformRole::Viewer));
        assert_eq!(user.spec.ssh_keys.len(), 1);
    }

    #[test]
    fn the_empty_platform_role_is_none() {
        let role: PlatformRole = serde_json::from_str("\"\"").expect("empty role");
        assert_eq!(role, PlatformRole::None);
    }

    #[test]
    fn the_crd_has_the_names_people_type() {
        let crd = User::crd();
        assert_eq!(crd.spec.names.short_names, Some(vec!["usr".to_owned()]));
        assert_eq!(
            columns::<User>(),
            [
                "Email",
                "Display Name",
                "Auth",
                "Platform Admin",
                "Phase",
                "Last Login",
                "Age"
            ]
        );
    }
}
