//! Cluster API's own manifests, made ready for a cluster without cert-manager.
//!
//! Owns: what is changed in them and why. Must not: read or write anything; keys stay outside, only the public certificate of
//! the authority comes in.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

/// Where the images of a release are published; the manifests in its source name the latest build of the main branch.
const RELEASED_IMAGES: &str = "registry.k8s.io/cluster-api";
/// Tells cert-manager to fill in its authority.
const INJECTION: &str = "cert-manager.io/inject-ca-from";

/// Settings that differ from Cluster API's defaults.
const SETTINGS: [(&str, &str); 4] = [
    // Tenant clusters may be made from classes.
    ("CLUSTER_TOPOLOGY", "true"),
    // Taints of a node pool follow without a new machine.
    ("EXP_MACHINE_TAINT_PROPAGATION", "true"),
    // What Flatcar reads at its first boot.
    ("EXP_KUBEADM_BOOTSTRAP_FORMAT_IGNITION", "true"),
    // With it, a machine waits seconds for its bootstrap data for no reason.
    ("EXP_RECONCILER_RATE_LIMITING", "false"),
];

/// A certificate that the webhooks of one manager need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServingCertificate {
    /// Where its Secret belongs.
    pub(crate) namespace: String,
    /// Name of the Secret.
    pub(crate) secret: String,
    /// Under which names the manager is reached.
    pub(crate) dns_names: Vec<String>,
}

/// What becomes of Cluster API's manifests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rendered {
    /// To be applied, in an order that works.
    pub(crate) objects: Vec<Value>,
    /// To be issued before the managers can start.
    pub(crate) certificates: Vec<ServingCertificate>,
}

/// Makes the manifests ready. `version` is without v; `authority` is the certificate that issues the webhooks' certificates.
pub(crate) fn render(manifests: Vec<Value>, version: &str, authority_pem: &str) -> Rendered {
    let settings = BTreeMap::from(SETTINGS);
    let bundle = STANDARD.encode(authority_pem);
    let (asked, mut objects): (Vec<Value>, Vec<Value>) = manifests
        .into_iter()
        .filter(|manifest| text(manifest, "/kind") != "Issuer")
        .partition(|manifest| text(manifest, "/kind") == "Certificate");
    let mut certificates: Vec<ServingCertificate> = asked.iter().map(serving_certificate).collect();
    certificates.sort_by(|left, right| left.namespace.cmp(&right.namespace));
    for object in &mut objects {
        substitute(object, &settings);
        release(object, version);
        trust(object, &bundle);
    }
    objects.sort_by_key(|object| rank(text(object, "/kind")));
    Rendered {
        objects,
        certificates,
    }
}

/// Namespaces and definitions come first; what the API server calls comes last, when those who answer are known.
fn rank(kind: &str) -> usize {
    match kind {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "Deployment" => 3,
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => 4,
        _ => 2,
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn serving_certificate(certificate: &Value) -> ServingCertificate {
    let names = certificate
        .pointer("/spec/dnsNames")
        .and_then(Value::as_array);
    ServingCertificate {
        namespace: text(certificate, "/metadata/namespace").to_owned(),
        secret: text(certificate, "/spec/secretName").to_owned(),
        dns_names: names
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(ToOwned::to_owned))
            .collect(),
    }
}

/// Replaces `${NAME:=default}` by the setting or the default.
fn substitute(value: &mut Value, settings: &BTreeMap<&str, &str>) {
    match value {
        Value::String(line) if line.contains("${") => *line = substituted(line, settings),
        Value::Array(items) => items.iter_mut().for_each(|item| substitute(item, settings)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| substitute(field, settings)),
        _ => {}
    }
}

fn substituted(line: &str, settings: &BTreeMap<&str, &str>) -> String {
    let mut result = String::new();
    let mut rest = line;
    while let Some((before, variable)) = rest.split_once("${") {
        result.push_str(before);
        let Some((variable, after)) = variable.split_once('}') else {
            result.push_str("${");
            rest = variable;
            continue;
        };
        let (name, default) = variable.split_once(":=").unwrap_or((variable, ""));
        result.push_str(settings.get(name).copied().unwrap_or(default));
        rest = after;
    }
    result.push_str(rest);
    result
}

/// Names the released images, and lets them be where they already are.
fn release(object: &mut Value, version: &str) {
    let containers = object.pointer_mut("/spec/template/spec/containers");
    for container in containers
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let image = text(container, "/image");
        let name = image.rsplit('/').next().unwrap_or_default();
        let name = name.split(':').next().unwrap_or_default();
        container["image"] = format!("{RELEASED_IMAGES}/{name}:v{version}").into();
        container["imagePullPolicy"] = "IfNotPresent".into();
    }
}

/// Tells the API server whom to believe that it talks to the webhooks.
fn trust(object: &mut Value, bundle: &str) {
    if let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(INJECTION);
    }
    let set = |client: &mut Map<String, Value>| {
        client.insert("caBundle".to_owned(), bundle.into());
    };
    let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    webhooks
        .into_iter()
        .flatten()
        .filter_map(|webhook| webhook.get_mut("clientConfig")?.as_object_mut())
        .for_each(set);
    let conversion = object.pointer_mut("/spec/conversion/webhook/clientConfig");
    conversion.and_then(Value::as_object_mut).map(set);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifests() -> Vec<Value> {
        vec![
            json!({
                "kind": "ValidatingWebhookConfiguration",
                "metadata": { "name": "capi", "annotations": { "cert-manager.io/inject-ca-from": "a/b", "kept": "yes" } },
                "webhooks": [{ "name": "one", "clientConfig": { "service": { "name": "s" } } }],
            }),
            json!({
                "kind": "Deployment",
                "metadata": { "name": "capi-controller-manager" },
                "spec": { "template": { "spec": { "containers": [{
                    "image": "gcr.io/staging/cluster-api-controller:main",
                    "imagePullPolicy": "Always",
                    "args": ["--gates=A=${CLUSTER_TOPOLOGY:=false},B=${OTHER:=true}", "--address=${ADDRESS:=:8443}", "100% ${ open"],
                }] } } },
            }),
            json!({ "kind": "Issuer", "metadata": { "name": "self" } }),
            json!({
                "kind": "Certificate",
                "metadata": { "namespace": "capi-system" },
                "spec": { "secretName": "capi-webhook-service-cert", "dnsNames": ["s.capi-system.svc"] },
            }),
            json!({
                "kind": "CustomResourceDefinition",
                "spec": { "conversion": { "webhook": { "clientConfig": { "service": { "name": "s" } } } } },
            }),
            json!({ "kind": "ServiceAccount" }),
            json!({ "kind": "Namespace" }),
        ]
    }

    #[test]
    fn manifests_are_made_ready_for_a_cluster_without_cert_manager() {
        let rendered = render(manifests(), "1.14.2", "authority");
        assert_eq!(
            rendered.certificates,
            [ServingCertificate {
                namespace: "capi-system".to_owned(),
                secret: "capi-webhook-service-cert".to_owned(),
                dns_names: vec!["s.capi-system.svc".to_owned()],
            }]
        );
        insta::assert_json_snapshot!(rendered.objects);
    }
}
