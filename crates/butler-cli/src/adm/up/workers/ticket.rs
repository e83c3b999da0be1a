//! What lets a machine join: a bootstrap token, and user data that uses it.

use std::collections::BTreeMap;

use butler_api::{butler::provider_config::Provider, name::MachineName, provider_id};
use butler_pki::public_key_digest;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams},
};
use rand::distr::{Alphanumeric, SampleString as _};

use crate::adm::{
    apply::FIELD_MANAGER,
    error::Error,
    kubeadm::{self, API_SERVER_PORT, NodePlan, Ticket},
    up::{
        Run,
        platform::{self, NAMESPACE},
    },
};

/// How long a worker may take from its making to its joining.
const TOKEN_HOURS: i64 = 1;

/// What stands for a machine's own identity in user data that is written before the machine is known.
const INSTANCE: &str = "{{ ds.meta_data.instance_id }}";

/// Lets machines join for a while.
pub(super) async fn ticket(run: &Run, client: &Client) -> anyhow::Result<Ticket> {
    let kubeconfig = kube::config::Kubeconfig::read_from(run.places.kubeconfig())?;
    let cluster = kubeconfig
        .clusters
        .first()
        .and_then(|cluster| cluster.cluster.clone())
        .unwrap_or_default();
    let authority = cluster.certificate_authority_data.unwrap_or_default();
    let authority = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, authority)?;
    let (id, secret) = (random(6), random(16));
    let expiration = Timestamp::now() + SignedDuration::from_hours(TOKEN_HOURS);
    let fields = [
        ("token-id", id.clone()),
        ("token-secret", secret.clone()),
        (
            "expiration",
            expiration.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        ),
        ("usage-bootstrap-authentication", "true".to_owned()),
        ("usage-bootstrap-signing", "true".to_owned()),
        (
            "auth-extra-groups",
            "system:bootstrappers:kubeadm:default-node-token".to_owned(),
        ),
        (
            "description",
            "Workers of the management cluster.".to_owned(),
        ),
    ];
    let name = format!("bootstrap-token-{id}");
    write_secret(
        client,
        "kube-system",
        &name,
        "bootstrap.kubernetes.io/token",
        fields.map(|(key, value)| (key, value.into_bytes())),
    )
    .await?;
    Ok(Ticket {
        server: format!("{}:{API_SERVER_PORT}", run.installation.first_address()),
        token: format!("{id}.{secret}"),
        authority: public_key_digest(&String::from_utf8_lossy(&authority))?,
    })
}

/// Letters and digits as bootstrap tokens have them.
fn random(length: usize) -> String {
    Alphanumeric
        .sample_string(&mut rand::rng(), length)
        .to_ascii_lowercase()
}

/// Writes the user data of a worker.
pub(super) async fn tell(
    client: &Client,
    name: &MachineName,
    ticket: &Ticket,
) -> anyhow::Result<()> {
    let node = NodePlan {
        name: name.clone(),
        address: None,
        provider_id: provider_id::of_instance(Provider::Local, INSTANCE),
    };
    let user_data = kubeadm::joining_machine(ticket, &node)?;
    let secret = platform::user_data_secret(name);
    write_secret(client, NAMESPACE, &secret, "Opaque", [("value", user_data)]).await
}

async fn write_secret<const FIELDS: usize>(
    client: &Client,
    namespace: &str,
    name: &str,
    kind: &str,
    fields: [(&str, Vec<u8>); FIELDS],
) -> anyhow::Result<()> {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some(kind.to_owned()),
        data: Some(
            fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), ByteString(value)))
                .collect::<BTreeMap<_, _>>(),
        ),
        ..Secret::default()
    };
    Api::<Secret>::namespaced(client.clone(), namespace)
        .patch(
            name,
            &PatchParams::apply(FIELD_MANAGER).force(),
            &Patch::Apply(&secret),
        )
        .await
        .map_err(Error::api(format!("write Secret {namespace}/{name}")))?;
    Ok(())
}
