//! The two questions to the API server: whose token is this, and may they read. Both write nothing.
//!
//! The answer to the first repeats the token. It is read here, and not by kube's client, which logs what it cannot read.

use std::time::Duration;

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{
    Client, Resource,
    core::{Request, params::PostParams, request},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{PATH, Verdict};

/// Why nobody knows whether a reader may.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    /// The API server takes too long.
    #[error("the API server has not answered within {0:?}")]
    Late(Duration),
    /// It does not answer, or not us.
    #[error("the API server has not answered: {0}")]
    Failed(#[from] kube::Error),
    /// The question cannot be put.
    #[error("the question cannot be put: {0}")]
    Question(#[from] request::Error),
    /// What it answers is no review. Without the reason, which may quote the answer.
    #[error("the API server has answered with something else than a {0}")]
    Unintelligible(&'static str),
}

/// Asks whose token this is, and whether they may read.
pub(super) async fn review(client: &Client, token: &str) -> Result<Verdict, Unanswered> {
    let Some(owner) = owner_of(client, token).await? else {
        return Ok(Verdict::Unknown);
    };
    Ok(if may_read(client, owner).await? {
        Verdict::Allowed
    } else {
        Verdict::Forbidden
    })
}

async fn owner_of(client: &Client, token: &str) -> Result<Option<UserInfo>, Unanswered> {
    let question = TokenReview {
        spec: TokenReviewSpec {
            token: Some(token.to_owned()),
            ..TokenReviewSpec::default()
        },
        ..TokenReview::default()
    };
    let answer = ask(client, &question, "TokenReview").await?;
    let status = answer.status.unwrap_or_default();
    let is_known = status.authenticated == Some(true);
    Ok(is_known.then(|| status.user.unwrap_or_default()))
}

async fn may_read(client: &Client, owner: UserInfo) -> Result<bool, Unanswered> {
    let question = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: owner.username,
            uid: owner.uid,
            groups: owner.groups,
            extra: owner.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(PATH.to_owned()),
                verb: Some("get".to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = ask(client, &question, "SubjectAccessReview").await?;
    let status = answer.status.unwrap_or_default();
    Ok(status.allowed && status.denied != Some(true))
}

async fn ask<R>(client: &Client, question: &R, name: &'static str) -> Result<R, Unanswered>
where
    R: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let unintelligible = |_| Unanswered::Unintelligible(name);
    let body = serde_json::to_vec(question).map_err(unintelligible)?;
    let request = Request::new(R::url_path(&(), None));
    let request = request.create(&PostParams::default(), body)?;
    let answer = client.request_text(request).await?;
    serde_json::from_str(&answer).map_err(unintelligible)
}
