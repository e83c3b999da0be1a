//! Definitions of kinds that other projects serve: the fields that they know of what we write there, and what they demand.
//!
//! In our own words, after the definitions of Cluster API's providers for Nutanix (v1beta1) and `KubeVirt` (v1alpha1) and of Kamaji's
//! control plane provider (v1alpha1). A field that they have and we never write is left out; what they take unseen is left open
//! here, too.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";

/// The definitions.
pub(super) fn all() -> Vec<CustomResourceDefinition> {
    let found = [
        definition(
            INFRASTRUCTURE,
            "v1beta1",
            "NutanixCluster",
            &nutanix_cluster(),
        ),
        definition(
            INFRASTRUCTURE,
            "v1beta1",
            "NutanixMachineTemplate",
            &template(&nutanix_machine()),
        ),
        definition(
            INFRASTRUCTURE,
            "v1alpha1",
            "KubevirtCluster",
            &kubevirt_cluster(),
        ),
        definition(
            INFRASTRUCTURE,
            "v1alpha1",
            "KubevirtMachineTemplate",
            &template(&kubevirt_machine()),
        ),
        definition(
            CONTROL_PLANE,
            "v1alpha1",
            "KamajiControlPlane",
            &kamaji_control_plane(),
        ),
    ];
    let found = found.into_iter();
    found
        .map(|body| serde_json::from_value(body).unwrap())
        .collect()
}

fn definition(group: &str, version: &str, kind: &str, spec: &Value) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let schema = object(json!({ "spec": spec }), &[]);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": singular },
            "versions": [{
                "name": version, "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

/// An object with these fields and no others.
fn object(fields: Value, required: &[&str]) -> Value {
    let mut found = json!({ "type": "object" });
    found["properties"] = fields;
    if !required.is_empty() {
        found["required"] = json!(required);
    }
    found
}

/// An object that may have any fields.
fn anything() -> Value {
    json!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn named() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

fn one_of(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

fn number() -> Value {
    json!({ "type": "integer", "format": "int32" })
}

fn positive() -> Value {
    json!({ "type": "integer", "format": "int32", "minimum": 1 })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn map(values: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": values })
}

fn quantity() -> Value {
    json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": true,
    })
}

fn resources() -> Value {
    let amounts = map(&quantity());
    object(json!({ "requests": amounts, "limits": amounts }), &[])
}

/// What machines are made from.
fn template(machine: &Value) -> Value {
    let metadata = object(
        json!({ "labels": map(&text()), "annotations": map(&text()) }),
        &[],
    );
    let template = object(json!({ "metadata": metadata, "spec": machine }), &["spec"]);
    object(json!({ "template": template }), &["template"])
}

fn endpoint() -> Value {
    object(
        json!({ "host": text(), "port": number() }),
        &["host", "port"],
    )
}

fn nutanix_cluster() -> Value {
    let credentials = object(
        json!({ "kind": one_of(&["Secret"]), "name": named(), "namespace": text() }),
        &["kind", "name"],
    );
    let authorities = object(
        json!({ "kind": one_of(&["String", "ConfigMap"]), "data": text(), "name": text(), "namespace": text() }),
        &["kind"],
    );
    let prism = object(
        json!({
            "address": { "type": "string", "maxLength": 256 },
            "port": { "type": "integer", "format": "int32", "minimum": 1, "maximum": 65535, "default": 9440 },
            "insecure": { "type": "boolean", "default": false },
            "credentialRef": credentials,
            "additionalTrustBundle": authorities,
        }),
        &["address", "port"],
    );
    object(
        json!({ "controlPlaneEndpoint": endpoint(), "prismCentral": prism }),
        &[],
    )
}

fn nutanix_machine() -> Value {
    let identifier = object(
        json!({ "type": one_of(&["uuid", "name"]), "uuid": text(), "name": text() }),
        &["type"],
    );
    let lookup = object(json!({ "baseOS": named(), "format": text() }), &["baseOS"]);
    let mut subnets = list(&identifier);
    subnets["maxItems"] = json!(32);
    let mut machine = object(
        json!({
            "bootType": one_of(&["legacy", "uefi"]),
            "vcpuSockets": positive(),
            "vcpusPerSocket": positive(),
            "memorySize": quantity(),
            "systemDiskSize": quantity(),
            "image": identifier,
            "imageLookup": lookup,
            "cluster": identifier,
            "subnet": subnets,
            "project": identifier,
            "providerID": text(),
        }),
        &[
            "memorySize",
            "systemDiskSize",
            "vcpuSockets",
            "vcpusPerSocket",
        ],
    );
    machine["x-kubernetes-validations"] = json!([{
        "rule": "has(self.image) != has(self.imageLookup)",
        "message": "one of image and imageLookup must be there",
    }]);
    machine
}

/// A reference as it was usual in the first years of Kubernetes.
fn reference() -> Value {
    let fields = [
        "apiVersion",
        "kind",
        "name",
        "namespace",
        "uid",
        "fieldPath",
        "resourceVersion",
    ];
    let fields = fields.map(|field| (field.to_owned(), text()));
    object(Value::Object(fields.into_iter().collect()), &[])
}

fn kubevirt_cluster() -> Value {
    let service = object(
        json!({ "metadata": anything(), "spec": object(json!({ "type": text() }), &[]) }),
        &[],
    );
    object(
        json!({
            "controlPlaneEndpoint": endpoint(),
            "controlPlaneServiceTemplate": service,
            "infraClusterSecretRef": reference(),
        }),
        &[],
    )
}

fn kubevirt_machine() -> Value {
    let mut strategy = one_of(&["none", "ssh"]);
    strategy["default"] = json!("ssh");
    let machine = object(
        json!({ "metadata": anything(), "spec": virtual_machine() }),
        &[],
    );
    object(
        json!({
            "infraClusterSecretRef": reference(),
            "providerID": text(),
            "virtualMachineTemplate": machine,
            "virtualMachineBootstrapCheck": object(json!({ "checkStrategy": strategy }), &[]),
        }),
        &[],
    )
}

/// A machine of `KubeVirt`.
fn virtual_machine() -> Value {
    let disk = object(
        json!({ "name": text(), "disk": object(json!({ "bus": text() }), &[]), "bootOrder": number() }),
        &["name"],
    );
    let interface = object(
        json!({ "name": text(), "model": text(), "bridge": object(json!({}), &[]), "masquerade": object(json!({}), &[]) }),
        &["name"],
    );
    let domain = object(
        json!({
            "cpu": object(json!({ "cores": number(), "sockets": number(), "threads": number() }), &[]),
            "machine": object(json!({ "type": text() }), &[]),
            "memory": object(json!({ "guest": quantity() }), &[]),
            "resources": resources(),
            "devices": object(json!({ "disks": list(&disk), "interfaces": list(&interface) }), &[]),
        }),
        &["devices"],
    );
    let network = object(
        json!({
            "name": text(),
            "multus": object(json!({ "networkName": text(), "default": flag() }), &["networkName"]),
            "pod": object(json!({}), &[]),
        }),
        &["name"],
    );
    let volume = object(
        json!({ "name": text(), "dataVolume": object(json!({ "name": text() }), &["name"]) }),
        &["name"],
    );
    let instance = object(
        json!({ "domain": domain, "networks": list(&network), "volumes": list(&volume) }),
        &["domain"],
    );
    let pod = object(json!({ "metadata": anything(), "spec": instance }), &[]);
    object(
        json!({
            "runStrategy": text(),
            "running": flag(),
            "dataVolumeTemplates": list(&data_volume()),
            "template": pod,
        }),
        &["template"],
    )
}

/// A disk, as `KubeVirt`'s importer of data makes it.
fn data_volume() -> Value {
    let claim = object(
        json!({
            "accessModes": list(&text()),
            "volumeMode": text(),
            "storageClassName": text(),
            "volumeName": text(),
            "resources": resources(),
        }),
        &[],
    );
    let source = object(json!({ "blank": object(json!({}), &[]) }), &[]);
    let spec = object(
        json!({ "source": source, "pvc": claim, "storage": claim }),
        &[],
    );
    object(
        json!({ "apiVersion": text(), "kind": text(), "metadata": anything(), "spec": spec }),
        &["spec"],
    )
}

fn kamaji_control_plane() -> Value {
    let image = json!({ "imageRepository": text(), "imageTag": text() });
    let mut dns = image.clone();
    dns["dnsServiceIPs"] = list(&text());
    let tunnel = object(
        json!({
            "port": number(), "version": text(), "image": text(), "resources": resources(), "extraArgs": list(&text()),
        }),
        &["port"],
    );
    let addons = object(
        json!({
            "coreDNS": object(dns, &[]),
            "kubeProxy": object(image, &[]),
            "konnectivity": object(json!({ "server": tunnel }), &[]),
        }),
        &[],
    );
    let mut address_types = list(&one_of(&[
        "Hostname",
        "InternalIP",
        "ExternalIP",
        "InternalDNS",
        "ExternalDNS",
    ]));
    address_types["minItems"] = json!(1);
    let kubelet = object(
        json!({ "cgroupfs": one_of(&["systemd", "cgroupfs"]), "preferredAddressTypes": address_types }),
        &[],
    );
    let ingress = object(
        json!({
            "className": text(), "hostname": named(), "extraLabels": map(&text()), "extraAnnotations": map(&text()),
        }),
        &["hostname"],
    );
    let network = object(
        json!({
            "ingress": ingress,
            "serviceType": one_of(&["ClusterIP", "NodePort", "LoadBalancer"]),
            "serviceAddress": text(),
            "serviceLabels": map(&text()),
            "serviceAnnotations": map(&text()),
            "certSANs": list(&text()),
        }),
        &[],
    );
    let component = object(
        json!({ "resources": resources(), "extraArgs": list(&text()), "containerImageName": named() }),
        &[],
    );
    object(
        json!({
            "version": text(),
            "replicas": number(),
            "dataStoreName": text(),
            "dataStoreSchema": text(),
            "registry": text(),
            "addons": addons,
            "kubelet": kubelet,
            "network": network,
            "apiServer": component,
            "controllerManager": component,
            "scheduler": component,
            "controlPlaneEndpoint": endpoint(),
        }),
        &["version"],
    )
}
