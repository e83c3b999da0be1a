//! Manifests with a mistake are refused, in words that name the field and the rule.

mod addresses;
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
        addresses::REFUSALS,
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
