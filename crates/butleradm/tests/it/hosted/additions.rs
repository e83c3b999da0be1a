//! What the owner of a control plane adds to its pods runs there: labels and annotations, an account, containers and a volume,
//! each as the user it was given. The rest of the story is told with all of it.

use serde_json::{Value, json};

use super::{NAMESPACE, tenant::Tenant};
use crate::kit::{Installation, eventually};

/// What was added: a container that runs first, and one that runs beside.
const FIRST: &str = "reader";
const BESIDE: &str = "companion";
/// The container that reads the policy for its own work.
const API_SERVER: &str = "kube-apiserver";
/// What a line of an audit log has.
const AUDITED: &str = r#""apiVersion":"audit.k8s.io/v1","level":"Metadata""#;

pub(super) fn run(installation: &Installation) {
    let tenant = Tenant::shop(installation);
    let selector = tenant.selector();
    let pods = ["pods", "--namespace", NAMESPACE, "--selector", &selector];
    let pods = installation.get(&pods);
    let pods = pods["items"].as_array().unwrap();
    assert_eq!(pods.len(), 2);
    for pod in pods {
        assert_has_what_was_added(pod);
        assert_may_do_no_more_than_it_must(pod);
        assert_works(installation, pod["metadata"]["name"].as_str().unwrap());
    }
}

fn assert_has_what_was_added(pod: &Value) {
    let metadata = &pod["metadata"];
    assert_eq!(metadata["labels"]["story.example/team"], "payments");
    assert_eq!(metadata["annotations"]["story.example/reason"], "audit");
    assert_eq!(pod["spec"]["serviceAccountName"], "shop-auditor");
    let status = &pod["status"];
    let first = named(&status["initContainerStatuses"], FIRST);
    assert_eq!(first["state"]["terminated"]["exitCode"], 0, "{first}");
    for name in [API_SERVER, BESIDE] {
        let container = named(&status["containerStatuses"], name);
        assert_eq!(container["ready"], true, "{container}");
        let running = &container["state"]["running"];
        assert!(running.is_object(), "{container}");
    }
}

fn assert_may_do_no_more_than_it_must(pod: &Value) {
    let spec = &pod["spec"];
    let whole = &spec["securityContext"];
    assert_eq!(whole["seccompProfile"]["type"], "RuntimeDefault", "{whole}");
    for container in spec["containers"].as_array().unwrap() {
        let allowed = &container["securityContext"];
        assert_eq!(allowed["runAsNonRoot"], true, "{container}");
        assert_eq!(allowed["allowPrivilegeEscalation"], false, "{container}");
        assert_eq!(allowed["readOnlyRootFilesystem"], true, "{container}");
        assert_eq!(
            allowed["capabilities"]["drop"],
            json!(["ALL"]),
            "{container}"
        );
    }
}

/// The volume holds what it should, also for the API server; and the user is the one that was asked for, without powers.
fn assert_works(installation: &Installation, pod: &str) {
    let logs = |container: &str| {
        installation.kubectl(&["logs", "--namespace", NAMESPACE, pod, "-c", container])
    };
    let read = logs(FIRST).unwrap();
    for words in [
        "kind: Policy",
        "Uid:\t4711\t",
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert!(read.contains(words), "{words:?} is not in\n{read}");
    }
    eventually("the API server says who asked for namespaces", || {
        let said = logs(API_SERVER)?;
        if said.contains(AUDITED) {
            Ok(())
        } else {
            Err(said.lines().rev().take(5).collect())
        }
    });
}

/// The one of this name; null if there is none.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list
        .as_array()
        .and_then(|all| all.iter().find(|one| one["name"] == name));
    found.unwrap_or(&Value::Null)
}
