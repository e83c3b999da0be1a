//! Who may be an agent.
//!
//! An agent is known by a client certificate, or by the token of its service account. Tokens are judged by a
//! [`TokenVerifier`]; the one of the product asks the tenant's API server ([`TokenReviewer`]).

use std::{sync::Arc, time::Duration};

use butler_pki::SecretText;
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::{Api, Client, api::PostParams};

use crate::tls::PeerCertificate;

/// How long the API server may take to judge a token.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Why somebody is not let in.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationError {
    /// They are not who they should be.
    #[error("{0}")]
    Refused(String),
    /// Nobody can say now who they are.
    #[error("the token could not be judged: {0}")]
    Unavailable(String),
}

/// Judges tokens.
pub trait TokenVerifier: Send + Sync {
    /// Says whom the token belongs to, if that is somebody who may be an agent.
    fn verify<'a>(
        &'a self,
        token: &'a SecretText,
    ) -> BoxFuture<'a, Result<String, AuthenticationError>>;
}

/// Judges tokens by asking the API server, which knows whether the service account, and the pod it was given to, still exist.
#[derive(Clone)]
pub struct TokenReviewer {
    reviews: Api<TokenReview>,
    audience: String,
    user: String,
}

impl TokenReviewer {
    /// Accepts tokens for this audience that belong to this user, such as `system:serviceaccount:kube-system:agent`.
    pub fn new(client: Client, audience: impl Into<String>, user: impl Into<String>) -> Self {
        Self {
            reviews: Api::all(client),
            audience: audience.into(),
            user: user.into(),
        }
    }

    async fn review(&self, token: &SecretText) -> Result<String, AuthenticationError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![self.audience.clone()]),
                token: Some(token.expose().to_owned()),
            },
            ..TokenReview::default()
        };
        let parameters = PostParams::default();
        let answer = self.reviews.create(&parameters, &review);
        let answer = tokio::time::timeout(REVIEW_TIMEOUT, answer).await;
        let unavailable = AuthenticationError::Unavailable;
        let review = answer
            .map_err(|_| unavailable(format!("no answer within {REVIEW_TIMEOUT:?}")))?
            .map_err(|error| unavailable(error.to_string()))?;
        judge(
            review.status.unwrap_or_default(),
            &self.audience,
            &self.user,
        )
    }
}

/// What the API server's answer means.
fn judge(
    status: TokenReviewStatus,
    audience: &str,
    user: &str,
) -> Result<String, AuthenticationError> {
    let refused = |reason: String| Err(AuthenticationError::Refused(reason));
    if status.authenticated != Some(true) {
        return refused(format!(
            "the token is not valid for the audience {audience}: {}",
            status.error.as_deref().unwrap_or("no reason was given")
        ));
    }
    // A server that does not know audiences leaves them out: it has not compared them.
    let audiences = status.audiences.unwrap_or_default();
    if !audiences.iter().any(|named| named == audience) {
        return refused(format!("the token is not for the audience {audience}"));
    }
    let name = status
        .user
        .and_then(|user| user.username)
        .unwrap_or_default();
    if name != user {
        return refused(format!(
            "the token belongs to {name:?}, agents are {user:?}"
        ));
    }
    Ok(name)
}

impl TokenVerifier for TokenReviewer {
    fn verify<'a>(
        &'a self,
        token: &'a SecretText,
    ) -> BoxFuture<'a, Result<String, AuthenticationError>> {
        self.review(token).boxed()
    }
}

/// Whom a client certificate must name. All that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificatePolicy {
    /// The common name.
    pub common_name: Option<String>,
    /// One of the organizations.
    pub organization: Option<String>,
}

impl CertificatePolicy {
    /// Whether a policy names anybody; one that does not would let everybody in whom the authority knows.
    pub const fn names_somebody(&self) -> bool {
        self.common_name.is_some() || self.organization.is_some()
    }

    /// Says whom the certificate names, if that is somebody who is let in.
    pub fn judge(&self, certificate: &PeerCertificate) -> Result<String, AuthenticationError> {
        let common_name = self.common_name.as_deref();
        let organization = self.organization.as_deref();
        let named = common_name.is_none_or(|name| name == certificate.common_name)
            && organization.is_none_or(|name| certificate.organizations.iter().any(|o| o == name));
        if named && self.names_somebody() {
            return Ok(certificate.common_name.clone());
        }
        Err(AuthenticationError::Refused(format!(
            "the certificate names {:?} of {:?}, which is not who is let in",
            certificate.common_name, certificate.organizations
        )))
    }
}

/// Decides who may be an agent.
#[derive(Clone, Default)]
pub struct Authenticator {
    /// Agents with a certificate; none lets nobody in by a certificate.
    pub certificates: Option<CertificatePolicy>,
    /// Agents with a token; none lets nobody in by a token.
    pub tokens: Option<Arc<dyn TokenVerifier>>,
}

impl Authenticator {
    /// Says who it is. A certificate counts more than a token.
    pub async fn authenticate(
        &self,
        certificate: Option<&PeerCertificate>,
        token: Option<&SecretText>,
    ) -> Result<String, AuthenticationError> {
        match (&self.certificates, certificate, &self.tokens, token) {
            (Some(policy), Some(certificate), ..) => policy.judge(certificate),
            (_, _, Some(verifier), Some(token)) => verifier.verify(token).await,
            _ => Err(AuthenticationError::Refused(
                "neither a certificate nor a token that could be judged was shown".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;

    const AGENT: &str = "system:serviceaccount:kube-system:butler-tunnel-agent";

    fn status(authenticated: bool, audience: Option<&str>, user: &str) -> TokenReviewStatus {
        TokenReviewStatus {
            authenticated: Some(authenticated),
            audiences: audience.map(|audience| vec![audience.to_owned()]),
            user: Some(UserInfo {
                username: Some(user.to_owned()),
                ..UserInfo::default()
            }),
            error: None,
        }
    }

    #[test]
    fn only_the_agents_own_token_for_the_tunnel_is_accepted() {
        let judged = |status| judge(status, "butler-tunnel", AGENT);
        assert_eq!(
            judged(status(true, Some("butler-tunnel"), AGENT)).unwrap(),
            AGENT
        );
        let other = "system:serviceaccount:default:default";
        for refused in [
            status(false, Some("butler-tunnel"), AGENT),
            status(true, Some("https://kubernetes.default.svc"), AGENT),
            status(true, None, AGENT),
            status(true, Some("butler-tunnel"), other),
            TokenReviewStatus::default(),
        ] {
            let error = judged(refused).expect_err("refused");
            assert!(matches!(error, AuthenticationError::Refused(_)), "{error}");
        }
    }

    fn certificate(common_name: &str, organization: &str) -> PeerCertificate {
        PeerCertificate {
            common_name: common_name.to_owned(),
            organizations: vec![organization.to_owned()],
            not_after: Timestamp::MAX,
        }
    }

    #[tokio::test]
    async fn a_certificate_of_the_right_authority_for_somebody_else_is_refused() {
        let authenticator = Authenticator {
            certificates: Some(CertificatePolicy {
                common_name: Some("agent".to_owned()),
                organization: Some("agents".to_owned()),
            }),
            tokens: None,
        };
        let known = certificate("agent", "agents");
        let judged = authenticator.authenticate(Some(&known), None).await;
        assert_eq!(judged.unwrap(), "agent");
        for other in [
            certificate("agent", "nodes"),
            certificate("kubelet", "agents"),
        ] {
            assert!(
                authenticator
                    .authenticate(Some(&other), None)
                    .await
                    .is_err()
            );
        }
        assert!(authenticator.authenticate(None, None).await.is_err());
    }

    #[test]
    fn a_policy_that_names_nobody_lets_nobody_in() {
        let policy = CertificatePolicy::default();
        assert!(policy.judge(&certificate("anybody", "anywhere")).is_err());
    }

    #[tokio::test]
    async fn without_a_verifier_no_token_is_good() {
        let token = SecretText::new("anything");
        let judged = Authenticator::default()
            .authenticate(None, Some(&token))
            .await;
        assert!(judged.is_err());
    }
}
