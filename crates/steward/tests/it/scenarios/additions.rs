//! What people add to the pods of a control plane is there, and goes again without a trace. Nothing of it runs here: it is
//! about what a real API server keeps of the Deployment.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, PodTemplateSpec},
};
use serde_json::{Value, json};

use super::{World, on_loopback};
use crate::{
    etcd::free_port,
    kubelet::{container, pod},
};

/// Nobody.
const NOBODY: i64 = 65_534;
/// What Steward runs itself.
const OURS: [&str; 3] = [
    "kube-apiserver",
    "kube-scheduler",
    "kube-controller-manager",
];

fn template(deployment: &Deployment) -> PodTemplateSpec {
    deployment.spec.clone().unwrap().template
}

fn names(containers: Option<&Vec<Container>>) -> Vec<&str> {
    let containers = containers.into_iter().flatten();
    containers
        .map(|container| container.name.as_str())
        .collect()
}

/// Everything that can be added.
fn additions() -> Value {
    json!({
        "additionalInitContainers": [{ "name": "wait", "image": "example.com/wait:1" }],
        "additionalContainers": [{
            "name": "audit", "image": "example.com/audit:1",
            "volumeMounts": [{ "name": "logs", "mountPath": "/logs" }],
        }],
        "additionalVolumes": [{ "name": "logs", "emptyDir": {} }],
        "additionalVolumeMounts": {
            "apiServer": [{ "name": "logs", "mountPath": "/var/log/audit" }],
            "scheduler": [{ "name": "logs", "mountPath": "/var/log/scheduler" }],
        },
        "podAdditionalMetadata": {
            "labels": { "example.com/team": "payments" },
            "annotations": { "example.com/reason": "audit" },
        },
        "serviceAccountName": "auditor",
    })
}

/// The same keys, with nothing in them.
fn nothing() -> Value {
    let mut nothing = additions();
    for value in nothing.as_object_mut().unwrap().values_mut() {
        *value = Value::Null;
    }
    nothing
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_user_adds_to_the_pods_is_there_and_goes_again() {
    let world = World::start().await;
    let mut parts = on_loopback(free_port());
    parts["controlPlane"]["deployment"]["replicas"] = 0.into();
    world.ask("shop", parts).await;
    let what = "has its containers";
    let plain = world.rolled_out("shop", what, |_| true).await;
    assert_eq!(names(Some(&pod(&plain).containers)), OURS);

    // No container of ours may do more than it must.
    let security = pod(&plain).security_context.unwrap();
    assert_eq!(security.fs_group, Some(NOBODY));
    assert_eq!(security.seccomp_profile.unwrap().type_, "RuntimeDefault");
    for name in OURS {
        let pod = pod(&plain);
        let security = container(&pod, name).security_context.clone().unwrap();
        let dropped = security.capabilities.unwrap().drop;
        assert_eq!(dropped, Some(vec!["ALL".to_owned()]), "{name}");
        assert_eq!(security.allow_privilege_escalation, Some(false), "{name}");
        assert_eq!(security.read_only_root_filesystem, Some(true), "{name}");
        assert_eq!(security.run_as_non_root, Some(true), "{name}");
        assert_eq!(security.run_as_user, Some(NOBODY), "{name}");
        assert_eq!(security.run_as_group, Some(NOBODY), "{name}");
    }

    // Somebody adds all that can be added.
    let spec = |deployment: Value| json!({ "controlPlane": { "deployment": deployment } });
    world.edit("shop", &spec(additions())).await;
    let full = world
        .rolled_out("shop", "has more", |found| {
            pod(found).containers.len() > OURS.len()
        })
        .await;
    let (found, template) = (pod(&full), template(&full));
    assert_eq!(names(found.init_containers.as_ref()), ["wait"]);
    let all = names(Some(&found.containers));
    assert!(all.contains(&"audit") && all.len() == OURS.len() + 1);
    let volumes = found.volumes.as_ref().unwrap();
    assert!(volumes.iter().any(|volume| volume.name == "logs"));
    for (name, path) in [
        ("kube-apiserver", "/var/log/audit"),
        ("kube-scheduler", "/var/log/scheduler"),
        ("audit", "/logs"),
    ] {
        let mounts = container(&found, name).volume_mounts.clone().unwrap();
        let mut mounts = mounts.iter().filter(|mount| mount.name == "logs");
        assert_eq!(mounts.next().unwrap().mount_path, path);
    }
    let metadata = template.metadata.unwrap();
    assert_eq!(metadata.labels.unwrap()["example.com/team"], "payments");
    assert_eq!(metadata.annotations.unwrap()["example.com/reason"], "audit");
    assert_eq!(found.service_account_name.as_deref(), Some("auditor"));

    // And takes it away again: the pods are what they were.
    world.edit("shop", &spec(nothing())).await;
    let again = world
        .rolled_out("shop", "has less", |found| {
            pod(found).containers.len() == OURS.len()
        })
        .await;
    pretty_assertions::assert_eq!(
        json!(again.spec.unwrap().template),
        json!(plain.spec.unwrap().template)
    );
}
