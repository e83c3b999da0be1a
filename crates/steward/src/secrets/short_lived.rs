//! Kubeconfigs for a while: a certificate that ends by itself, for whoever may have one. Owns how one is made, and whether one
//! that was made before is still what is asked for. It stores nothing.

use std::collections::BTreeMap;

use butler_api::{keys::secret_keys, steward::tenant_control_plane::TenantControlPlane};
use butler_pki::{SecretText, Validity};
use butler_runtime::{api_server::ApiServer, failure::Failure};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{
    content::{KubeconfigFacts, Pair},
    issue::{client_of, load, render},
    order::KubeconfigWish,
    review::check_kubeconfigs,
};
use crate::names::{Names, SecretRole};

/// Who gets a kubeconfig, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Borrower {
    /// What the file calls the user; the API server does not see it.
    pub entry: String,
    /// The user.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// How long it can be used.
    pub life: SignedDuration,
    /// The URL of the API server in it.
    pub server: String,
}

impl Borrower {
    /// Until when a kubeconfig can be used that is made now.
    pub fn end(&self, now: Timestamp) -> Timestamp {
        Validity::starting(now, self.life).not_after
    }

    fn wish(&self) -> KubeconfigWish {
        KubeconfigWish {
            user: self.user.clone(),
            groups: self.groups.clone(),
            servers: vec![(secret_keys::VALUE.to_owned(), self.server.clone())],
        }
    }
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
    let made = client_of(&borrower.wish(), &authority, now, borrower.life).and_then(|client| {
        render(
            names.name(),
            &borrower.entry,
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

/// A kubeconfig that is what its borrower asks for, and works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loan {
    /// From when on it should be renewed.
    pub(crate) renewal: Timestamp,
    /// Until when it works.
    pub(crate) end: Timestamp,
}

/// Whether what a Secret holds is what a borrower asks for; else what is wrong with it, in words that follow its name.
pub(crate) fn check_loan(
    borrower: &Borrower,
    found: &BTreeMap<String, Result<KubeconfigFacts, String>>,
    authority: &Pair,
    now: Timestamp,
) -> Result<Loan, String> {
    let key = secret_keys::VALUE;
    let facts = match found.get(key) {
        None => return Err(format!("lacks {key}")),
        Some(Err(defect)) => return Err(format!("has an unusable {key}: {defect}")),
        Some(Ok(kubeconfig)) => &kubeconfig.facts,
    };
    // As it was on its first day: what is due for renewal still works, so its age is judged apart.
    let renewal = check_kubeconfigs(&[borrower.wish()], found, authority, facts.not_before)?;
    let end = facts.not_after;
    if end <= now {
        return Err(format!("expired at {end}"));
    }
    let asked = Validity::starting(now, borrower.life);
    let life = end.duration_since(facts.not_before);
    if life > asked.not_after.duration_since(asked.not_before) {
        return Err("lives longer than is asked for".to_owned());
    }
    Ok(Loan { renewal, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        secrets::{Content, content::kubeconfig, issue, review, wanted},
        settings::Settings,
        testing::{Memory, OneKey, control_plane, now, service_at},
    };

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    fn borrower() -> Borrower {
        Borrower {
            entry: "alice".to_owned(),
            user: "alice".to_owned(),
            groups: vec!["developers".to_owned(), "on-call".to_owned()],
            life: HOUR,
            server: "https://192.0.2.4:6443".to_owned(),
        }
    }

    fn minutes(count: i64) -> Timestamp {
        now().checked_add(SignedDuration::from_mins(count)).unwrap()
    }

    /// A control plane with its Secrets, and what its authority says.
    async fn control_plane_with_authority() -> (TenantControlPlane, Memory, Pair) {
        let control_plane = control_plane("LoadBalancer");
        let memory = Memory::default();
        let wanted = wanted(
            &control_plane,
            &"v1.36.3".parse().unwrap(),
            Some(&service_at("192.0.2.4")),
            &Settings::default(),
        );
        let orders = review(&wanted, &memory.seen(), true, now()).orders;
        issue(&Names::of(&control_plane), &orders, now(), &OneKey, &memory)
            .await
            .unwrap();
        let authority = memory.seen()[&SecretRole::Authority].value.content.clone();
        let Content::Pair(Ok(authority)) = authority else {
            panic!("{authority:?}");
        };
        (control_plane, memory, authority)
    }

    #[tokio::test]
    async fn a_kubeconfig_for_an_hour_ends_after_an_hour() {
        let (control_plane, memory, _) = control_plane_with_authority().await;
        let borrower = borrower();
        let text = short_lived_kubeconfig(&control_plane, &borrower, now(), &memory)
            .await
            .unwrap();
        let facts = kubeconfig(text.expose()).unwrap();
        assert_eq!(facts.server, borrower.server);
        assert_eq!(facts.facts.common_name, "alice");
        assert_eq!(facts.facts.organizations.len(), 2);
        assert_eq!(facts.facts.not_after, minutes(60));
        assert_eq!(borrower.end(now()), minutes(60));
    }

    #[tokio::test]
    async fn a_kubeconfig_is_good_until_its_end_and_only_as_it_is_asked_for() {
        let (control_plane, memory, authority) = control_plane_with_authority().await;
        let text = short_lived_kubeconfig(&control_plane, &borrower(), now(), &memory)
            .await
            .unwrap();
        let found = [("value".to_owned(), kubeconfig(text.expose()))].into();
        let check = |borrower: &Borrower, at| check_loan(borrower, &found, &authority, at);
        let loan = check(&borrower(), now()).unwrap();
        assert_eq!(loan.end, minutes(60));
        assert!(minutes(30) < loan.renewal && loan.renewal < minutes(45));
        assert_eq!(check(&borrower(), minutes(59)), Ok(loan), "it still works");
        assert_eq!(
            check(&borrower(), minutes(60)).unwrap_err(),
            "expired at 2026-01-01T01:00:00Z"
        );

        let with_life = |life| Borrower { life, ..borrower() };
        assert_eq!(
            check(&with_life(SignedDuration::from_mins(10)), now()).unwrap_err(),
            "lives longer than is asked for"
        );
        assert_eq!(check(&with_life(HOUR * 2), now()), Ok(loan));
        let other = Borrower {
            user: "bob".to_owned(),
            ..borrower()
        };
        let told = check(&other, now()).unwrap_err();
        assert!(told.ends_with("instead of bob"), "{told}");
        assert_eq!(
            check_loan(&borrower(), &BTreeMap::new(), &authority, now()).unwrap_err(),
            "lacks value"
        );
    }
}
