//! Kubeconfigs for a while: a certificate that ends by itself, for whoever may have one.

use butler_api::steward::tenant_control_plane::TenantControlPlane;
use butler_pki::SecretText;
use butler_runtime::{api_server::ApiServer, failure::Failure};
use jiff::{SignedDuration, Timestamp};

use super::{
    issue::{client_of, load, render},
    order::KubeconfigWish,
};
use crate::names::{Names, SecretRole};

/// Who gets a kubeconfig, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Borrower {
    /// The user.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// How long it can be used.
    pub life: SignedDuration,
    /// The URL of the API server in it.
    pub server: String,
}

/// A kubeconfig that works until its certificate ends. Nothing is stored.
pub async fn short_lived_kubeconfig(
    control_plane: &TenantControlPlane,
    borrower: &Borrower,
    now: Timestamp,
    api: &dyn ApiServer,
) -> Result<SecretText, Failure> {
    let names = Names::of(control_plane);
    let authority = load(&names, SecretRole::Authority, api).await?;
    let wish = KubeconfigWish {
        user: borrower.user.clone(),
        groups: borrower.groups.clone(),
        servers: Vec::new(),
    };
    let made = client_of(&wish, &authority, now, borrower.life).and_then(|client| {
        render(
            names.name(),
            &borrower.user,
            &borrower.server,
            &authority,
            &client,
        )
    });
    made.map_err(|error| {
        let message = format!(
            "could not make a kubeconfig for {}: {error}",
            names.itself()
        );
        Failure::retry(error.reason(), message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        secrets::{content::kubeconfig, issue, review, wanted},
        settings::Settings,
        testing::{Memory, OneKey, control_plane, now, service_at},
    };

    #[tokio::test]
    async fn a_kubeconfig_for_an_hour_ends_after_an_hour() {
        let control_plane = control_plane("LoadBalancer");
        let memory = Memory::default();
        let names = Names::of(&control_plane);
        let version = "v1.36.3".parse().unwrap();
        let wanted = wanted(
            &control_plane,
            &version,
            Some(&service_at("192.0.2.4")),
            &Settings::default(),
        );
        let orders = review(&wanted, &memory.seen(), true, now()).orders;
        issue(&names, &orders, now(), &OneKey, &memory)
            .await
            .unwrap();
        let hour = SignedDuration::from_hours(1);
        let borrower = Borrower {
            user: "alice".to_owned(),
            groups: vec!["developers".to_owned(), "on-call".to_owned()],
            life: hour,
            server: "https://192.0.2.4:6443".to_owned(),
        };
        let text = short_lived_kubeconfig(&control_plane, &borrower, now(), &memory)
            .await
            .unwrap();
        let facts = kubeconfig(text.expose()).unwrap();
        assert_eq!(facts.server, borrower.server);
        assert_eq!(facts.facts.common_name, "alice");
        assert_eq!(facts.facts.organizations.len(), 2);
        assert_eq!(facts.facts.not_after, now().checked_add(hour).unwrap());
    }
}
