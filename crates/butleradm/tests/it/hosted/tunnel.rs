//! What an API server does by connections into its tenant: it has no way there but the reverse tunnel.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use butler_pki::{Authority, LeafRequest, Usage, Validity};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::tenant::{Tenant, condition};
use crate::{
    kit::{Installation, eventually, kubectl},
    network::ECHO_IMAGE,
};

/// The Service of the pod that guards, and its name in the certificate.
const GUARD: &str = "guard";
const GUARD_HOST: &str = "guard.default.svc";
/// As the tests' program has it.
const FORBIDDEN: &str = "story.example/forbidden";
const API: &str = "/apis/story.example/v1";

/// How long the certificates of the story are good for.
const LIFE: SignedDuration = SignedDuration::from_hours(24);

pub(super) fn hands(installation: &Installation) {
    let tenant = Tenant::shop(installation);
    let logs = eventually("logs of a pod", || {
        tenant.kubectl(&["logs", "deployment/echo"])
    });
    assert!(logs.contains("serves on port 8080"), "{logs}");
    let said = eventually("a command in a pod", || {
        tenant.kubectl(&[
            "exec",
            "deployment/echo",
            "--",
            crate::network::ECHO,
            "fetch",
            "127.0.0.1:8080",
        ])
    });
    assert!(said.starts_with("echo-"), "{said}");
    let forward = Forward::open(&tenant, "service/echo", "80");
    let answer = eventually("an answer through the forwarded port", || forward.fetch());
    assert!(answer.starts_with("echo-"), "{answer}");
}

/// A port of this host that leads into a tenant, as long as this lives.
struct Forward {
    child: Child,
    place: String,
    /// Held open: kubectl ends when nobody listens to what it says.
    _output: BufReader<ChildStdout>,
}

impl Forward {
    fn open(tenant: &Tenant<'_>, target: &str, port: &str) -> Self {
        let mut child = tenant
            .installation
            .command(kubectl())
            .arg("--kubeconfig")
            .arg(tenant.kubeconfig())
            .args(["port-forward", target, &format!(":{port}")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        // "Forwarding from 127.0.0.1:40031 -> 8080"
        let place = line.split(' ').find(|word| word.starts_with("127.0.0.1:"));
        let place = place.map(ToOwned::to_owned);
        let forward = Self {
            child,
            place: place.unwrap_or_default(),
            _output: output,
        };
        assert!(
            !forward.place.is_empty(),
            "kubectl forwards nothing: {line}"
        );
        forward
    }

    fn fetch(&self) -> Result<String, String> {
        let output = Command::new(env!("CARGO_BIN_EXE_butleradm-test-echo"))
            .args(["fetch", &self.place])
            .output()
            .unwrap();
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && !answer.is_empty() {
            Ok(answer)
        } else {
            Err(format!(
                "{answer}{}",
                String::from_utf8_lossy(&output.stderr)
            ))
        }
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(super) fn webhook(installation: &Installation) {
    let tenant = Tenant::shop(installation);
    let authority = guard(&tenant);
    tenant.apply(
        &json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": GUARD },
            "webhooks": [{
                "name": "guard.story.example",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 10,
                "clientConfig": {
                    "service": { "namespace": "default", "name": GUARD, "path": "/admit", "port": 443 },
                    "caBundle": STANDARD.encode(&authority),
                },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "default" } },
                "rules": [{
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }],
            }],
        })
        .to_string(),
    );
    // The API server hears of its new webhook a moment later: until then everything is let in.
    eventually("what is forbidden is refused", || {
        match create(&tenant, "smuggled", &json!({ FORBIDDEN: "yes" })) {
            Err(words) if words.contains("the guard lets nothing forbidden in") => Ok(()),
            other => Err(format!("{other:?}\n{}", looks(&tenant))),
        }
    });
    // And only that: every answer comes through the tunnel, none is a failure that counts as a refusal.
    for number in 0..20 {
        let name = format!("honest-{number}");
        if let Err(words) = create(&tenant, &name, &json!({})) {
            panic!("{name}: {words}\n{}", looks(&tenant));
        }
    }
    let logs = tenant.kubectl(&["logs", "deployment/guard"]).unwrap();
    assert!(logs.contains("POST /admit"), "{logs}");
}

pub(super) fn aggregated(installation: &Installation) {
    let tenant = Tenant::shop(installation);
    let authority = tenant
        .get(&["validatingwebhookconfiguration", GUARD])
        .unwrap();
    let authority = &authority["webhooks"][0]["clientConfig"]["caBundle"];
    tenant.apply(
        &json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": { "name": "v1.story.example" },
            "spec": {
                "group": "story.example",
                "version": "v1",
                "service": { "namespace": "default", "name": GUARD, "port": 443 },
                "caBundle": authority,
                "groupPriorityMinimum": 1000,
                "versionPriority": 10,
            },
        })
        .to_string(),
    );
    eventually("the API is available", || {
        let service = tenant.get(&["apiservice", "v1.story.example"])?;
        let available = condition(&service["status"], "Available");
        if available["status"] == "True" {
            Ok(())
        } else {
            Err(format!("{available}\n{}", looks(&tenant)))
        }
    });
    let answer = eventually("an answer of the API", || {
        tenant.kubectl(&["get", "--raw", &format!("{API}/greetings/guard")])
    });
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["kind"], "Greeting", "{answer}");
    let pod = answer["pod"].as_str().unwrap_or_default();
    assert!(pod.starts_with("guard-"), "{answer}");
    // It is one API among all others.
    let resources = eventually("the API is listed", || {
        let resources = tenant.kubectl(&["api-resources", "--api-group", "story.example"])?;
        if resources.contains("greetings") {
            Ok(resources)
        } else {
            Err(resources)
        }
    });
    assert!(resources.contains("Greeting"), "{resources}");
    // Chapters to come move pods about: who guards would be missed.
    tenant
        .kubectl(&[
            "delete",
            "validatingwebhookconfiguration/guard",
            "apiservice/v1.story.example",
        ])
        .unwrap();
}

/// A pod that answers the API server over TLS, and a Service in front of it. Gives the authority of its certificate.
fn guard(tenant: &Tenant<'_>) -> String {
    let validity = Validity::starting(Timestamp::now(), LIFE);
    let authority = Authority::new("guard", validity).unwrap();
    let leaf = authority
        .issue(&LeafRequest {
            common_name: GUARD_HOST.to_owned(),
            dns_names: vec![GUARD_HOST.to_owned()],
            ..LeafRequest::new(Usage::Server, validity)
        })
        .unwrap();
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "guard-tls" },
        "type": "kubernetes.io/tls",
        "stringData": { "tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem.expose() },
    });
    tenant.apply(&secret.to_string());
    tenant.apply(&format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{ name: {GUARD} }}
spec:
  selector: {{ matchLabels: {{ app: {GUARD} }} }}
  template:
    metadata: {{ labels: {{ app: {GUARD} }} }}
    spec:
      containers:
        - name: {GUARD}
          image: {ECHO_IMAGE}
          args: [guard, "8443", /tls]
          readinessProbe: {{ tcpSocket: {{ port: 8443 }} }}
          volumeMounts: [{{ name: tls, mountPath: /tls, readOnly: true }}]
      volumes: [{{ name: tls, secret: {{ secretName: guard-tls }} }}]
---
apiVersion: v1
kind: Service
metadata: {{ name: {GUARD} }}
spec:
  selector: {{ app: {GUARD} }}
  ports: [{{ port: 443, targetPort: 8443 }}]
"#
    ));
    tenant.rolled_out("default", "deployment/guard");
    authority.certificate_pem().to_owned()
}

/// Asks for an object, and has it thrown away: the webhook is asked all the same.
fn create(tenant: &Tenant<'_>, name: &str, labels: &Value) -> Result<String, String> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "default", "labels": labels },
    });
    let arguments = ["create", "--dry-run=server", "-f", "-"];
    tenant.kubectl_with(&arguments, &object.to_string())
}

/// What the pod that guards has heard, and who carries connections to it.
fn looks(tenant: &Tenant<'_>) -> String {
    let guard = tenant.kubectl(&["logs", "deployment/guard", "--tail", "5"]);
    let agents = tenant.kubectl(&[
        "logs",
        "--namespace",
        "kube-system",
        "daemonset/butler-tunnel-agent",
        "--tail",
        "10",
    ]);
    format!("guard: {guard:?}\nagent: {agents:?}")
}
