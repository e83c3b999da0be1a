//! Manifests with a mistake are refused, in words that name the field and the rule.

mod clusters;
mod hosted;
mod machines;
mod platform;

use butler_testkit::ApiServer;

use crate::manifests::Manifest;

/// What was done wrong, the kind, the manifest below `kind`, and what the answer must say.
type Refusal = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

#[tokio::test]
async fn mistakes_are_refused_in_words_that_name_field_and_rule() {
    let client = ApiServer::shared().await.client();
    let mut wrong = Vec::new();
    let refusals = [
        platform::REFUSALS,
        clusters::REFUSALS,
        machines::REFUSALS,
        hosted::REFUSALS,
    ];
    for (mistake, kind, body, fragments) in refusals.into_iter().flatten() {
        let mistake = format!("{kind}, {mistake}");
        match Manifest::of_kind(kind, body).create(&client, true).await {
            Ok(_) => wrong.push(format!("{mistake}: accepted")),
            Err(kube::Error::Api(status)) => {
                for fragment in *fragments {
                    if !status.message.contains(fragment) {
                        wrong.push(format!(
                            "{mistake}: no {fragment:?} in {:?}",
                            status.message
                        ));
                    }
                }
            }
            Err(error) => wrong.push(format!("{mistake}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_pool_can_be_widened_but_not_moved() {
    let server = ApiServer::shared().await;
    let client = server.client();
    let namespace = server.namespace("pool").await;
    let pool = |cidr: &str| {
        let name = namespace.name();
        Manifest::of_kind(
            "NetworkPool",
            &format!("metadata: {{name: rack-1, namespace: {name}}}\nspec: {{cidr: {cidr}}}"),
        )
    };
    pool("10.40.0.0/16")
        .create(&client, false)
        .await
        .expect("created");
    pool("10.0.0.0/8").replace(&client).await.expect("widened");
    let refusal = pool("10.40.0.0/16")
        .replace(&client)
        .await
        .expect_err("narrowed");
    assert!(
        refusal.to_string().contains("cidr can be widened"),
        "{refusal}"
    );
}
