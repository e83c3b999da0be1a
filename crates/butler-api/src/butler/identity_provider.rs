//! `IdentityProvider`: a service that says who people are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::SecretReference;

/// Which service it is and how to ask it.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "IdentityProvider",
    plural = "identityproviders",
    shortname = "idp",
    status = "IdentityProviderStatus",
    derive = "PartialEq",
    doc = "A service that says who people are, so that they log in to Butler with the account they have.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Issuer", type_ = "string", json_path = ".spec.oidc.issuerURL"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    validation = Rule::new("self.type != 'oidc' || has(self.oidc)")
        .message("oidc is required when type is oidc")
)]
#[serde(rename_all = "camelCase")]
pub struct IdentityProviderSpec {
    /// The protocol the service speaks.
    #[serde(rename = "type")]
    pub kind: IdentityProviderType,
    /// Name on the login button; the object's name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Settings of OIDC. Required for `oidc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcSettings>,
    /// Groups whose people have a role on the whole platform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platform_role_groups: Vec<PlatformRoleGroup>,
}

/// Protocols.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum IdentityProviderType {
    /// OIDC.
    Oidc,
}

/// Settings of OIDC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcSettings {
    /// Address of the issuer; its discovery document is read from below it.
    #[serde(rename = "issuerURL")]
    #[schemars(regex(pattern = "^https://"))]
    pub issuer_url: String,
    /// Identifier under which Butler is registered at the issuer.
    #[serde(rename = "clientID")]
    #[schemars(length(min = 1))]
    pub client_id: String,
    /// Secret with the client secret, in the key `client-secret` unless `key` names another.
    pub client_secret_ref: SecretReference,
    /// Address of Butler's server that the issuer sends people back to.
    #[serde(rename = "redirectURL")]
    #[schemars(regex(pattern = "^https?://"))]
    pub redirect_url: String,
    /// Scopes to ask for; `openid`, `profile` and `email` if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Claim that holds the e-mail.
    #[serde(default = "email_claim")]
    pub email_claim: String,
    /// Claim that holds the groups.
    #[serde(default = "groups_claim")]
    pub groups_claim: String,
    /// Only people of this domain may log in; all the issuer knows if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosted_domain: Option<String>,
    /// Whether the issuer's certificate is left unchecked. For trials only: anybody in between can then log in.
    #[serde(default)]
    pub insecure_skip_verify: bool,
    /// How groups are read from Google Workspace, whose tokens hold none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub google_workspace: Option<GoogleWorkspace>,
}

fn email_claim() -> String {
    "email".to_owned()
}

fn groups_claim() -> String {
    "groups".to_owned()
}

/// How groups are read from Google Workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GoogleWorkspace {
    /// Secret with the service account's key file, in the key `service-account.json` unless `key` names another.
    pub service_account_secret_ref: SecretReference,
    /// E-mail of the administrator in whose name groups are read.
    #[schemars(email)]
    pub admin_email: String,
}

/// A group whose people have a role on the whole platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlatformRoleGroup {
    /// Name of the group, as the identity provider spells it.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The role.
    pub role: PlatformGroupRole,
}

/// Roles on the whole platform that a group can give.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum PlatformGroupRole {
    /// May do everything.
    Admin,
    /// May see everything.
    Viewer,
}

/// What Butler reports about an identity provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityProviderStatus {
    /// `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Summary, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<IdentityProviderPhase>,
    /// What went wrong, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the discovery document was last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_validated_time: Option<Time>,
    /// Addresses the discovery document gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovered_endpoints: Option<DiscoveredEndpoints>,
    /// Ready and what the engine reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Whether an identity provider can be used.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum IdentityProviderPhase {
    /// Not tried yet.
    Pending,
    /// It answers.
    Ready,
    /// It does not; the message says why.
    Failed,
}

/// Addresses the discovery document gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveredEndpoints {
    /// Where people log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_endpoint: Option<String>,
    /// Where tokens are given out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
    /// Where more is told about a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_info_endpoint: Option<String>,
    /// Where the keys that sign tokens are.
    #[serde(rename = "jwksURI", default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;
    use crate::testing::{columns, read};

    #[test]
    fn an_identity_provider_is_read_and_written_unchanged() {
        let provider =
            read::<IdentityProvider>(include_str!("../../../../examples/identity-provider.yaml"));
        assert_eq!(provider.spec.kind, IdentityProviderType::Oidc);
    }

    #[test]
    fn claims_have_the_usual_names_by_default() {
        let settings: OidcSettings = serde_json::from_value(serde_json::json!({
            "issuerURL": "https://login.example.com",
            "clientID": "butler",
            "clientSecretRef": { "name": "oidc" },
            "redirectURL": "https://butler.example.com/callback",
        }))
        .expect("settings");
        assert_eq!(
            (settings.email_claim, settings.groups_claim),
            ("email".into(), "groups".into())
        );
        assert!(!settings.insecure_skip_verify);
    }

    #[test]
    fn the_crd_has_the_names_people_type() {
        let crd = IdentityProvider::crd();
        assert_eq!(crd.spec.names.short_names, Some(vec!["idp".to_owned()]));
        assert_eq!(
            columns::<IdentityProvider>(),
            ["Type", "Issuer", "Phase", "Age"]
        );
    }
}
