use butler_runtime::admission::{
    Defaulting, Denial, Operation, Review, Validate, Verdict, Warning, Webhooks,
};
use butler_testkit::ApiServer;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::time::timeout;

use crate::http::PATIENCE;
use crate::running::Running;

/// Wants a budget to allow something, and fills in one when there is none.
struct Budgets;

impl Validate<PodDisruptionBudget> for Budgets {
    const OPERATIONS: &'static [Operation] =
        &[Operation::Create, Operation::Update, Operation::Delete];

    fn validate(&self, review: &Review<'_, PodDisruptionBudget>) -> Verdict {
        let spec = review.object.spec.clone().unwrap_or_default();
        let refuse = |field, rule| Err(vec![Denial::new(field, rule)]);
        if review.operation == Operation::Delete && review.object.metadata.annotations.is_some() {
            return refuse("metadata.annotations", "an annotated budget is kept");
        }
        match (spec.max_unavailable, review.old) {
            (Some(IntOrString::Int(0)), _) => refuse("spec.maxUnavailable", "must be at least 1"),
            (_, Some(old)) if old.spec != review.object.spec => refuse("spec", "cannot be changed"),
            _ => Ok(vec![Warning::new(format!(
                "{} was let through",
                review.user
            ))]),
        }
    }
}

impl Defaulting<PodDisruptionBudget> for Budgets {
    fn default(&self, budget: &mut PodDisruptionBudget) {
        let spec = budget.spec.get_or_insert_default();
        if spec.min_available.is_none() && spec.max_unavailable.is_none() {
            spec.max_unavailable = Some(IntOrString::Int(1));
        }
    }
}

fn budget(name: &str, max_unavailable: Option<i32>) -> PodDisruptionBudget {
    let max_unavailable = max_unavailable.map(|number| json!({"maxUnavailable": number}));
    let spec = max_unavailable.unwrap_or_else(|| json!({}));
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a budget")
}

/// The API server may call a new webhook a moment later than it accepted the registration.
async fn until_called(budgets: &Api<PodDisruptionBudget>) {
    let called = async {
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        while budgets
            .create(&parameters, &budget("probe", Some(0)))
            .await
            .is_ok()
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, called)
        .await
        .expect("the webhook is called");
}

#[tokio::test]
async fn the_api_server_asks_us_before_it_stores_an_object() {
    const COMPONENT: &str = "butler-budgets";
    let server = ApiServer::shared().await;
    let namespace = server.namespace("admission").await;
    let budgets: Api<PodDisruptionBudget> = namespace.api(server.client());
    let webhooks = Webhooks::new()
        .validating::<PodDisruptionBudget, _>(Budgets)
        .defaulting::<PodDisruptionBudget, _>(Budgets);
    let mut running = Running::start(server, &namespace, COMPONENT, webhooks).await;
    running.leaf_after(None).await;
    assert_eq!(
        running.checks.report(),
        (true, "[+]admission ok\nready\n".to_owned())
    );
    until_called(&budgets).await;

    let refused = budgets
        .create(&PostParams::default(), &budget("strict", Some(0)))
        .await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("refused, not {refused:?}")
    };
    assert_eq!(
        status.message,
        "admission webhook \"vpoddisruptionbudget.kb.io\" denied the request: \
         spec.maxUnavailable: must be at least 1"
    );
    assert_eq!(status.code, 422);

    let stored = budgets
        .create(&PostParams::default(), &budget("lazy", None))
        .await;
    let spec = stored.expect("allowed").spec.expect("has a spec");
    assert_eq!(
        spec.max_unavailable,
        Some(IntOrString::Int(1)),
        "the default was filled in"
    );

    let path = format!(
        "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
        namespace.name()
    );
    let body = serde_json::to_vec(&budget("warned", Some(2))).expect("is JSON");
    let request = axum::http::Request::post(path).header("content-type", "application/json");
    let request = request
        .body(kube::client::Body::from(body))
        .expect("a request");
    let answer = server.client().send(request).await.expect("an answer");
    let warning = answer
        .headers()
        .get("warning")
        .expect("a warning")
        .to_str()
        .expect("text");
    assert!(warning.contains("was let through"), "{warning}");

    let change = json!({"spec": {"maxUnavailable": 5}});
    let changed = budgets
        .patch("lazy", &PatchParams::default(), &Patch::Merge(&change))
        .await;
    let error = changed.expect_err("must not be changed").to_string();
    assert!(error.contains("spec: cannot be changed"), "{error}");

    let annotate = json!({"metadata": {"annotations": {"keep": "me"}}});
    let annotated = budgets
        .patch("lazy", &PatchParams::default(), &Patch::Merge(&annotate))
        .await;
    annotated.expect("allowed");
    let deleted = budgets.delete("lazy", &DeleteParams::default()).await;
    let error = deleted.expect_err("is kept").to_string();
    assert!(
        error.contains("metadata.annotations: an annotated budget is kept"),
        "{error}"
    );
    running.stop(server, COMPONENT).await;
}
