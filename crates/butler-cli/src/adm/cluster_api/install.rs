//! Installs Cluster API: certificates first, then everything, then its managers are waited for.

use std::{collections::BTreeMap, time::Duration};

use butler_pki::{
    Authority, Leaf, LeafRequest, LifeFraction, SecretText, Usage, Validity, inspect, renewal_due,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Secret},
    },
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::render::{ServingCertificate, render};
use crate::{
    adm::{
        apply::{FIELD_MANAGER, apply, available, is_available},
        error::Error,
    },
    output::progress::Running,
};

/// The managers, by namespace and name.
pub(crate) const DEPLOYMENTS: [(&str, &str); 3] = [
    ("capi-system", "capi-controller-manager"),
    (
        "capi-kubeadm-bootstrap-system",
        "capi-kubeadm-bootstrap-controller-manager",
    ),
    (
        "capi-kubeadm-control-plane-system",
        "capi-kubeadm-control-plane-controller-manager",
    ),
];

/// From when on a certificate is replaced.
const HALF: LifeFraction = match LifeFraction::new(1, 2) {
    Some(half) => half,
    None => LifeFraction::TWO_THIRDS,
};
/// Where the authority of the webhooks' certificates is kept.
const AUTHORITY_NAMESPACE: &str = "capi-system";
const AUTHORITY_SECRET: &str = "capi-webhook-authority";
const AUTHORITY_YEARS: i64 = 10;
const LEAF_YEARS: i64 = 2;
/// Says what is installed.
const SIGN: &str = "butler-cluster-api";
const SIGN_VERSION: &str = "version";
/// When the certificates are to be looked at again.
const SIGN_RENEW: &str = "renewCertificatesAfter";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Whether the whole of this version is installed and its certificates are good for a while: the sign is written last.
pub(crate) async fn is_installed(client: &Client, version: &str) -> Result<bool, Error> {
    let sign = Api::<ConfigMap>::namespaced(client.clone(), AUTHORITY_NAMESPACE)
        .get_opt(SIGN)
        .await
        .map_err(Error::api("read what is installed of Cluster API"))?;
    let data = sign.and_then(|sign| sign.data).unwrap_or_default();
    let good = data
        .get(SIGN_RENEW)
        .and_then(|time| time.parse::<Timestamp>().ok())
        .is_some_and(|time| Timestamp::now() < time);
    if data.get(SIGN_VERSION).map(String::as_str) != Some(version) || !good {
        return Ok(false);
    }
    for (namespace, name) in DEPLOYMENTS {
        let found = Api::<Deployment>::namespaced(client.clone(), namespace)
            .get_opt(name)
            .await
            .map_err(Error::api(format!("read Deployment {namespace}/{name}")))?;
        if !found.is_some_and(|found| is_available(&found) && runs(&found, version)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn runs(deployment: &Deployment, version: &str) -> bool {
    let pod = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let image = pod.and_then(|pod| pod.containers.first()?.image.clone());
    image.is_some_and(|image| image.ends_with(&format!(":v{version}")))
}

/// Installs, or brings to the wished state what is there.
pub(crate) async fn install(
    client: &Client,
    manifests: Vec<Value>,
    version: &str,
    patience: Duration,
    step: &Running,
) -> anyhow::Result<()> {
    apply(client, &namespaces()).await?;
    let authority = authority(client).await?;
    let rendered = render(manifests, version, authority.certificate_pem());
    for certificate in &rendered.certificates {
        serving_certificate(client, &authority, certificate).await?;
    }
    step.detail("objects");
    apply(client, &rendered.objects).await?;
    for (namespace, name) in DEPLOYMENTS {
        step.detail(name);
        Box::pin(available(client, namespace, name, patience)).await?;
    }
    // Half of the life of a certificate, so that it is renewed long before it ends.
    let renew = Timestamp::now() + years(LEAF_YEARS) / 2;
    apply(
        client,
        &[json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": SIGN, "namespace": AUTHORITY_NAMESPACE },
            "data": { SIGN_VERSION: version, SIGN_RENEW: renew.to_string() },
        })],
    )
    .await?;
    Ok(())
}

/// Everything that an installation applies, with certificates of an authority of its own, in an order that works. Holds
/// private keys.
pub(crate) fn documents(manifests: Vec<Value>, version: &str) -> anyhow::Result<Vec<Value>> {
    let authority = new_authority()?;
    let rendered = render(manifests, version, authority.certificate_pem());
    let mut documents = namespaces();
    for wanted in &rendered.certificates {
        let leaf = issue(&authority, wanted, Timestamp::now())?;
        let mut secret = tls_secret(&wanted.secret, &leaf.certificate_pem, &leaf.key_pem);
        secret.metadata.namespace = Some(wanted.namespace.clone());
        documents.push(serde_json::to_value(secret)?);
    }
    documents.extend(rendered.objects);
    Ok(documents)
}

fn namespaces() -> Vec<Value> {
    DEPLOYMENTS
        .map(|(namespace, _)| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }))
        .to_vec()
}

fn new_authority() -> anyhow::Result<Authority> {
    let validity = Validity::starting(Timestamp::now(), years(AUTHORITY_YEARS));
    Ok(Authority::new(AUTHORITY_SECRET, validity)?)
}

fn issue(
    authority: &Authority,
    wanted: &ServingCertificate,
    now: Timestamp,
) -> anyhow::Result<Leaf> {
    Ok(authority.issue(&LeafRequest {
        common_name: wanted.secret.clone(),
        dns_names: wanted.dns_names.clone(),
        ..LeafRequest::new(Usage::Server, Validity::starting(now, years(LEAF_YEARS)))
    })?)
}

/// The authority in the cluster, made if it is missing.
async fn authority(client: &Client) -> anyhow::Result<Authority> {
    let secrets = Api::<Secret>::namespaced(client.clone(), AUTHORITY_NAMESPACE);
    let found = secrets
        .get_opt(AUTHORITY_SECRET)
        .await
        .map_err(Error::api("read the authority of Cluster API's webhooks"))?;
    if let Some(found) = found
        && let (Some(certificate), Some(key)) = (part(&found, CERTIFICATE), part(&found, KEY))
    {
        return Ok(Authority::from_pem(&certificate, &SecretText::new(key))?);
    }
    let made = new_authority()?;
    write(
        client,
        AUTHORITY_NAMESPACE,
        AUTHORITY_SECRET,
        made.certificate_pem(),
        made.key_pem(),
    )
    .await?;
    Ok(made)
}

/// Issues a certificate that is missing, ends soon or is another authority's.
async fn serving_certificate(
    client: &Client,
    authority: &Authority,
    wanted: &ServingCertificate,
) -> anyhow::Result<()> {
    let secrets = Api::<Secret>::namespaced(client.clone(), &wanted.namespace);
    let found = secrets
        .get_opt(&wanted.secret)
        .await
        .map_err(Error::api(format!("read Secret {}", wanted.secret)))?;
    let now = Timestamp::now();
    if let Some(certificate) = found.as_ref().and_then(|found| part(found, CERTIFICATE))
        && butler_pki::is_issued_by(&certificate, authority.certificate_pem()).unwrap_or(false)
        && inspect(&certificate).is_ok_and(|facts| !renewal_due(&facts, now, HALF))
    {
        return Ok(());
    }
    let leaf = issue(authority, wanted, now)?;
    write(
        client,
        &wanted.namespace,
        &wanted.secret,
        &leaf.certificate_pem,
        &leaf.key_pem,
    )
    .await
}

fn years(number: i64) -> SignedDuration {
    SignedDuration::from_hours(number * 365 * 24)
}

fn part(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    String::from_utf8(bytes.0.clone()).ok()
}

async fn write(
    client: &Client,
    namespace: &str,
    name: &str,
    certificate: &str,
    key: &SecretText,
) -> anyhow::Result<()> {
    let secret = tls_secret(name, certificate, key);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    Api::<Secret>::namespaced(client.clone(), namespace)
        .patch(&secret.name_any(), &parameters, &Patch::Apply(&secret))
        .await
        .map_err(Error::api(format!("write Secret {namespace}/{name}")))?;
    Ok(())
}

fn tls_secret(name: &str, certificate: &str, key: &SecretText) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(BTreeMap::from([
            (
                CERTIFICATE.to_owned(),
                ByteString(certificate.as_bytes().to_vec()),
            ),
            (KEY.to_owned(), ByteString(key.expose().as_bytes().to_vec())),
        ])),
        ..Secret::default()
    }
}
