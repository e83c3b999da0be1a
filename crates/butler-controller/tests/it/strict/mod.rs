//! The objects of whole tenant clusters, as the golden files have them, on a real API server that refuses every field it does
//! not know: of kinds of our own, of Cluster API's own definitions, and of what other projects define.

mod definitions;

use std::{fs, path::Path};

use butler_runtime::object::Kind;
use butler_testkit::{ApiServer, Options};
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{cluster_api::manager, platform::create, scene::namespace};

/// The golden files of what tenant clusters are made of.
const GOLDEN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/tenant_cluster/build/snapshots"
);

/// Kinds that other projects define.
const FOREIGN: [&str; 5] = [
    "KamajiControlPlane",
    "KubevirtCluster",
    "KubevirtMachineTemplate",
    "NutanixCluster",
    "NutanixMachineTemplate",
];

/// Kinds that Cluster API itself defines.
const OF_CLUSTER_API: [&str; 5] = [
    "Cluster",
    "KubeadmConfigTemplate",
    "KubeadmControlPlane",
    "MachineDeployment",
    "MachineHealthCheck",
];

/// The objects of a golden file.
struct Golden {
    name: String,
    objects: Vec<Value>,
}

/// All golden files with whole objects.
fn golden_files() -> Vec<Golden> {
    let mut files: Vec<_> = fs::read_dir(GOLDEN)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "snap")
        })
        .collect();
    files.sort();
    files.iter().map(|path| golden(path)).collect()
}

fn golden(path: &Path) -> Golden {
    let text = fs::read_to_string(path).unwrap();
    // Before the content stands where it comes from.
    let content = text.splitn(3, "---\n").last().unwrap();
    let content: Value = serde_saphyr::from_str(content).unwrap();
    let objects = match content {
        Value::Array(objects) => objects,
        object => vec![object],
    };
    for object in &objects {
        assert!(object["kind"].is_string(), "{}: {object}", path.display());
    }
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    Golden { name, objects }
}

fn kind_of(object: &Value) -> Kind {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap();
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        namespaced: object["metadata"]["namespace"].is_string(),
    }
}

/// Applies an object as the engine does, and says why if that is refused.
async fn apply(client: &Client, object: &Value) -> Result<(), String> {
    let kind = kind_of(object);
    let resource = kind.api_resource();
    let name = object["metadata"]["name"].as_str().unwrap();
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let parameters = PatchParams::apply("butler-controller").validation_strict();
    let applied = api.patch(name, &parameters, &Patch::Apply(object)).await;
    applied.map(|_| ()).map_err(|error| error.to_string())
}

/// Applies what the golden files have of these kinds, each file in a namespace of its own. Tells which kinds were among it, and
/// what was refused.
async fn apply_all(client: &Client, kinds: &[&str]) -> (Vec<String>, Vec<String>) {
    let namespaces = Api::<Namespace>::all(client.clone());
    let (mut seen, mut refused) = (Vec::new(), Vec::new());
    for (number, file) in golden_files().into_iter().enumerate() {
        let place = format!("golden-{number}");
        create(&namespaces, namespace(&place)).await;
        for mut object in file.objects {
            let kind = object["kind"].as_str().unwrap().to_owned();
            if !kinds.contains(&kind.as_str()) {
                continue;
            }
            if object["metadata"]["namespace"].is_string() {
                object["metadata"]["namespace"] = place.clone().into();
            }
            if let Err(error) = apply(client, &object).await {
                refused.push(format!("{} in {}: {error}", kind, file.name));
            }
            seen.push(kind);
        }
    }
    seen.sort();
    seen.dedup();
    (seen, refused)
}

/// The first object of a kind in the golden files.
fn first(kind: &str) -> Value {
    let files = golden_files().into_iter();
    let mut objects = files.flat_map(|file| file.objects);
    objects.find(|object| object["kind"] == kind).unwrap()
}

async fn start(more: Vec<CustomResourceDefinition>) -> ApiServer {
    let mut options = Options::default();
    options.custom_resources.extend(more);
    ApiServer::start(options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_projects_know_every_field_that_is_written_for_them() {
    let server = start(definitions::all()).await;
    let client = server.client_as("butler-controller");
    let (seen, refused) = apply_all(&client, &FOREIGN).await;
    assert_eq!(refused, Vec::<String>::new());
    assert_eq!(seen, FOREIGN, "every kind is in a golden file");

    // The same with a field misspelt, or a word that is not theirs.
    let namespaces = Api::<Namespace>::all(client.clone());
    create(&namespaces, namespace("misspelt")).await;
    let machine = "/spec/template/spec";
    let instance = "/spec/template/spec/virtualMachineTemplate/spec/template/spec";
    for (kind, place, field, value) in [
        ("KamajiControlPlane", "/spec", "dataStore", json!("default")),
        ("KamajiControlPlane", "/spec/network", "gateway", json!({})),
        ("KubevirtCluster", "/spec", "infraClusterSecret", json!({})),
        (
            "KubevirtMachineTemplate",
            machine,
            "bootstrapCheck",
            json!({}),
        ),
        ("KubevirtMachineTemplate", instance, "nics", json!([])),
        (
            "NutanixCluster",
            "/spec/prismCentral",
            "host",
            json!("prism"),
        ),
        ("NutanixMachineTemplate", machine, "vcpus", json!(4)),
        ("NutanixMachineTemplate", machine, "bootType", json!("bios")),
    ] {
        let mut wrong = first(kind);
        wrong["metadata"]["namespace"] = json!("misspelt");
        wrong.pointer_mut(place).unwrap()[field] = value;
        let refusal = apply(&client, &wrong).await.unwrap_err();
        assert!(refusal.contains(field), "{kind} {place}/{field}: {refusal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_of_our_own_know_every_field_that_is_written_for_them() {
    let server = start(Vec::new()).await;
    let client = server.client_as("butler-controller");
    let ours = [
        "ButlerCluster",
        "ButlerMachineTemplate",
        "LoadBalancerRequest",
        "Namespace",
        "Role",
        "RoleBinding",
        "StewardControlPlane",
    ];
    let (seen, refused) = apply_all(&client, &ours).await;
    assert_eq!(refused, Vec::<String>::new());
    assert_eq!(seen, ours);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_cluster_api_knows_every_field_that_is_written_for_it() {
    let server = start(manager::definitions(&manager::manifests().await)).await;
    let client = server.client_as("butler-controller");
    let (seen, refused) = apply_all(&client, &OF_CLUSTER_API).await;
    assert_eq!(refused, Vec::<String>::new());
    assert_eq!(seen, OF_CLUSTER_API);

    let mut wrong = first("MachineDeployment");
    wrong["spec"]["strategy"] = json!({ "type": "RollingUpdate" });
    wrong["metadata"]["namespace"] = json!("golden-0");
    let refusal = apply(&client, &wrong).await.unwrap_err();
    assert!(refusal.contains("strategy"), "{refusal}");
}

#[test]
fn every_system_of_machines_is_in_a_golden_file() {
    let files = golden_files().into_iter();
    let objects: Vec<_> = files.flat_map(|file| file.objects).collect();
    let steps = objects
        .iter()
        .filter(|object| object["kind"] == "KubeadmConfigTemplate");
    let steps: Vec<_> = steps.map(Value::to_string).collect();
    for (system, mark) in [
        ("rocky", "yum.repos.d"),
        ("flatcar", "ignition"),
        ("flatcar of our own providers", "/etc/hostname"),
        ("kairos", "the image must have kubeadm"),
        ("bottlerocket", "cluster-dns"),
        ("local", "containerd.sock"),
    ] {
        assert!(steps.iter().any(|text| text.contains(mark)), "{system}");
    }
    let mut formats: Vec<_> = objects
        .iter()
        .filter(|object| object["kind"] == "ButlerMachineTemplate")
        .filter_map(|object| object["spec"]["template"]["spec"]["userDataFormat"].as_str())
        .collect();
    formats.sort_unstable();
    formats.dedup();
    assert_eq!(formats, ["bottlerocket", "ignition"]);
}
