//! Another version of Kubernetes, while users go on and while nobody is awake.

use serde_json::json;

use super::{NAMESPACE, NEW, OLD, load::Load, tenant::Tenant};
use crate::kit::{Installation, eventually, note};

/// So many requests make a load that is worth its name.
const MANY: u64 = 200;

pub(super) fn under_load(installation: &Installation) {
    let tenant = Tenant::shop(installation);
    let load = Load::start(tenant.kubeconfig());
    eventually("users are at work", || is_busy(&load, MANY));
    let before = tenant.pods().unwrap();

    // What must not be is refused at the door, and nothing happens.
    let back = installation.kubectl(&[
        "patch",
        "tenantcontrolplane",
        "--namespace",
        NAMESPACE,
        tenant.name,
        "--type",
        "merge",
        "--patch",
        &version("1.34.4").to_string(),
    ]);
    let words = back.expect_err("a step back is refused");
    assert!(words.contains("1.34.4"), "{words}");

    tenant.change(&version(NEW));
    // Until the last of the old pods is gone: its end is what users could notice.
    eventually("all pods have the new version", || {
        tenant.reached("Ready", NEW, 2)
    });
    let now = tenant.pods().unwrap();
    assert!(
        before.iter().all(|pod| !now.contains(pod)),
        "{before:?} and {now:?}"
    );
    let so_far = load.answered();
    eventually("users go on", || is_busy(&load, so_far + MANY));
    let report = load.finish();
    note(&format!(
        "{} requests, {} of them sent on by an API server that ended; versions: {:?}",
        report.answered, report.sent_on, report.versions
    ));
    assert!(
        report.failures.is_empty(),
        "{} of {} requests failed:\n{}",
        report.failures.len(),
        report.answered,
        report.failures.join("\n")
    );
    let versions: Vec<&str> = report.versions.iter().map(String::as_str).collect();
    assert_eq!(versions, [format!("v{OLD}"), format!("v{NEW}")]);
    assert_eq!(tenant.version().unwrap(), format!("v{NEW}"));
}

/// Whether so many requests were answered.
fn is_busy(load: &Load, count: u64) -> Result<(), String> {
    let answered = load.answered();
    if answered >= count {
        Ok(())
    } else {
        Err(format!("{answered} requests were answered"))
    }
}

pub(super) fn asleep(installation: &Installation) {
    let tenant = Tenant::new(installation, "nap");
    installation.apply(&format!(
        "
apiVersion: steward.butlerlabs.dev/v1alpha1
kind: TenantControlPlane
metadata: {{ name: nap, namespace: {NAMESPACE} }}
spec:
  controlPlane:
    deployment: {{ replicas: 1 }}
    service: {{ serviceType: LoadBalancer }}
  kubernetes: {{ version: v{OLD}, kubelet: {{}} }}
"
    ));
    eventually("the control plane is Ready", || {
        tenant.reached("Ready", OLD, 1)
    });
    tenant.fetch_kubeconfig();
    eventually("the API server takes an object", || {
        tenant.kubectl(&["create", "configmap", "dream", "--from-literal=of=sheep"])
    });
    let scale = |replicas: &str| {
        let scaled = installation.kubectl(&[
            "scale",
            "tenantcontrolplane",
            "--namespace",
            NAMESPACE,
            tenant.name,
            "--replicas",
            replicas,
        ]);
        scaled.unwrap();
    };
    scale("0");
    eventually("the control plane sleeps", || {
        tenant.reached("Sleeping", OLD, 0)
    });
    tenant.change(&version(NEW));
    scale("1");
    eventually("the control plane is awake", || {
        tenant.reached("Ready", NEW, 1)
    });
    let awake = eventually("an answer of the API server", || tenant.version());
    assert_eq!(awake, format!("v{NEW}"));
    let dream = tenant.get(&["configmap", "dream"]).unwrap();
    assert_eq!(dream["data"]["of"], "sheep");
    tenant.delete();
}

fn version(version: &str) -> serde_json::Value {
    json!({ "spec": { "kubernetes": { "version": format!("v{version}") } } })
}
