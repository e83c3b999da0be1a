//! kubeadm is asked what it would write into the same cluster. Every difference is a line in a reviewed record.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use butler_assets::Component;
use serde_json::{Value, json};
use steward_tenant::desired;
use tokio::process::Command;

use crate::scene::{facts, program};

/// Kind, and key.
type Objects = BTreeMap<(String, String), Value>;

const INIT_CONFIGURATION: &str = "\
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: { advertiseAddress: 10.40.0.200, bindPort: 6443 }
nodeRegistration: { name: node, criSocket: 'unix:///run/containerd/containerd.sock' }
bootstrapTokens: [{ token: abcdef.0123456789abcdef, groups: ['system:bootstrappers:kubeadm:default-node-token'] }]
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
clusterName: blue
controlPlaneEndpoint: 10.40.0.200:6443
networking: { serviceSubnet: 10.96.0.0/16, podSubnet: 10.244.0.0/16, dnsDomain: cluster.local }
";

#[tokio::test]
async fn what_differs_from_kubeadm_is_meant() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("init.yaml");
    std::fs::write(&configuration, INIT_CONFIGURATION).unwrap();
    let output = Command::new(program(Component::Kubeadm).await)
        .args([
            "init",
            "--dry-run",
            "--ignore-preflight-errors=all",
            "--config",
        ])
        .arg(&configuration)
        .env("KUBEADM_INIT_DRYRUN_DIR", directory.path())
        .output()
        .await
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let theirs = printed_objects(&printed);

    let ours: Objects = desired(&facts())
        .objects
        .iter()
        .map(|object| entry(object.manifest.body.clone()))
        .collect();
    insta::assert_snapshot!(differences(&theirs, &ours));
}

/// The objects that kubeadm says it would create.
fn printed_objects(printed: &str) -> Objects {
    let creations = printed
        .split("[dryrun] Would perform action CREATE")
        .skip(1);
    creations
        .filter_map(|text| text.split_once("Attached object:\n"))
        .map(|(_, text)| text.split("\n\n[").next().unwrap_or(text))
        .map(|text| entry(serde_saphyr::from_str(text).unwrap()))
        .collect()
}

fn entry(mut object: Value) -> ((String, String), Value) {
    for pointer in ["/metadata/labels", "/metadata/annotations"] {
        if let Some(Value::Object(members)) = object.pointer_mut(pointer) {
            members.retain(|name, _| !name.starts_with("steward.butlerlabs.dev/"));
        }
    }
    object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    metadata.retain(|_, member| *member != json!({}));
    // What the API server fills in, and we spell out.
    for subject in object["subjects"].as_array_mut().into_iter().flatten() {
        subject.as_object_mut().unwrap().remove("apiGroup");
    }
    // Documents within documents are compared by what they mean.
    if let Some(Value::Object(data)) = object.get_mut("data") {
        for (name, value) in data
            .iter_mut()
            .filter(|(name, _)| !name.starts_with("jws-"))
        {
            let text = value.as_str().unwrap_or_default().to_owned();
            *value = if name == "Corefile" || name.starts_with("none.") {
                text.lines().map(str::trim).collect()
            } else {
                serde_saphyr::from_str(&text).unwrap()
            };
        }
    }
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("-")
            .to_owned()
    };
    let key = format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"));
    ((text("/kind"), key), object)
}

fn differences(theirs: &Objects, ours: &Objects) -> String {
    let mut report = String::new();
    let all: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    for id in all {
        let (kind, key) = id;
        match (theirs.get(id), ours.get(id)) {
            (Some(_), None) => writeln!(report, "{kind} {key}: kubeadm's alone").unwrap(),
            (None, Some(_)) => writeln!(report, "{kind} {key}: ours alone").unwrap(),
            (Some(theirs), Some(ours)) => {
                let (theirs, ours) = (leaves(theirs), leaves(ours));
                let lines: Vec<String> = theirs
                    .difference(&ours)
                    .map(|leaf| format!("  kubeadm  {leaf}"))
                    .chain(
                        ours.difference(&theirs)
                            .map(|leaf| format!("  ours     {leaf}")),
                    )
                    .collect();
                if !lines.is_empty() {
                    writeln!(report, "{kind} {key}:\n{}", lines.join("\n")).unwrap();
                }
            }
            (None, None) => {}
        }
    }
    report
}

/// Every value with its path; members of lists go by their name, if they have one.
fn leaves(value: &Value) -> BTreeSet<String> {
    let mut leaves = BTreeSet::new();
    gather("", value, &mut leaves);
    leaves
}

fn gather(path: &str, value: &Value, leaves: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                gather(&format!("{path}.{name}"), member, leaves);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                let name = item.get("name").and_then(Value::as_str);
                let name = name.map_or_else(|| index.to_string(), str::to_owned);
                gather(&format!("{path}[{name}]"), item, leaves);
            }
        }
        leaf if *leaf == json!({})
            && path == ".spec.template.spec.containers[kube-proxy].resources" => {}
        leaf => {
            let text = leaf.to_string();
            // Certificates and times are another's in each run.
            let volatile =
                path.ends_with("certificate-authority-data") || path.ends_with("expiration");
            leaves.insert(format!("{path} = {}", if volatile { "…" } else { &text }));
        }
    }
}
