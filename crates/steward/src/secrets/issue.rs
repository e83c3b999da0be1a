//! Makes what was ordered. Keys come into being here and go straight into their Secret.

use std::collections::{BTreeMap, btree_map::Entry};

use butler_api::{
    conditions::reasons,
    keys::{annotations, secret_keys},
};
use butler_pki::{
    Authority, Error, Kubeconfig, Leaf, LeafRequest, SecretText, ServiceAccountKey, Usage, Validity,
};
use butler_runtime::{
    api_server::ApiServer,
    failure::{Class, Failure},
};
use futures::future::{BoxFuture, join_all};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::core::v1::Secret};

use super::{
    content::{self, Data},
    order::{KubeconfigWish, LeafWish, Order, Recipe, authority_of},
    rotation::{NEXT_VOUCHED, Request, Step, VOUCHED, certificates},
    write::{secret_kind, write_secret, write_with_notes},
};
use crate::names::{Names, SecretRole};

/// How long a certificate lives.
pub(crate) const LEAF_LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How long an authority lives.
const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(3650 * 24);

/// Where keys come from that take long to make.
pub trait Keys: Send + Sync + 'static {
    /// A new key pair of service account tokens.
    fn service_account(&self) -> BoxFuture<'_, Result<ServiceAccountKey, Error>>;
}

/// Keys made on threads that serve nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeysOnThreads;

impl Keys for KeysOnThreads {
    fn service_account(&self) -> BoxFuture<'_, Result<ServiceAccountKey, Error>> {
        Box::pin(async {
            let made = tokio::task::spawn_blocking(ServiceAccountKey::generate).await;
            // The thread ends early only if it panicked: let the pass do so too, which is told as a defect.
            made.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()))
        })
    }
}

/// Makes what was ordered at a time: first what others are made from, then all others at once.
pub async fn issue(
    names: &Names,
    orders: &[Order],
    at: Timestamp,
    keys: &dyn Keys,
    api: &dyn ApiServer,
) -> Result<(), Failure> {
    let (roots, others): (Vec<_>, Vec<_>) = orders.iter().partition(|order| order.recipe.is_root());
    let made = roots.into_iter().map(|order| async move {
        if let Recipe::Rotate(step) = order.recipe {
            return rotate(names, order, step, at, api).await;
        }
        let data = root(&order.recipe, at, keys)
            .await
            .map_err(|error| failed(names, order, &error))?;
        write_secret(api, names, order.role, &order.guard, &data, at).await
    });
    all_of(join_all(made).await)?;
    let mut authorities = BTreeMap::new();
    for order in &others {
        let issuer = issuer_of(&order.recipe);
        if let Entry::Vacant(place) = authorities.entry(issuer) {
            place.insert(load(names, issuer, api).await?);
        }
    }
    let authorities = &authorities;
    let made = others.into_iter().map(|order| async move {
        let authority = authorities.get(&issuer_of(&order.recipe));
        let authority = authority.ok_or_else(|| stale(names, issuer_of(&order.recipe)))?;
        let data = issued(&order.recipe, names, authority, at)
            .map_err(|error| failed(names, order, &error))?;
        write_secret(api, names, order.role, &order.guard, &data, at).await
    });
    all_of(join_all(made).await)
}

/// The first failure, after all were tried.
fn all_of(results: Vec<Result<(), Failure>>) -> Result<(), Failure> {
    results.into_iter().collect()
}

fn issuer_of(recipe: &Recipe) -> SecretRole {
    match recipe {
        Recipe::Leaf { issuer, .. } => *issuer,
        Recipe::Authority { .. }
        | Recipe::Rotate(_)
        | Recipe::ServiceAccountKey
        | Recipe::Kubeconfigs { .. } => SecretRole::Authority,
    }
}

fn failed(names: &Names, order: &Order, error: &Error) -> Failure {
    let key = names.secret(order.role);
    Failure::retry(
        error.reason(),
        format!("could not make the Secret {key}: {error}"),
    )
}

fn stale(names: &Names, role: SecretRole) -> Failure {
    Failure {
        class: Class::Stale,
        reason: reasons::ISSUING,
        message: format!("the Secret {} is not as it was", names.secret(role)),
    }
}

async fn root(recipe: &Recipe, at: Timestamp, keys: &dyn Keys) -> Result<Data, Error> {
    match recipe {
        Recipe::Authority { common_name, file } => {
            let authority = Authority::new(common_name, Validity::starting(at, AUTHORITY_LIFE))?;
            let certificate = authority.certificate_pem();
            let mut data = files(file, certificate, authority.key_pem());
            if *file == "ca" {
                // The names under which Cluster API looks for the same.
                data.extend(files("tls", certificate, authority.key_pem()));
            }
            Ok(data)
        }
        Recipe::ServiceAccountKey => {
            let key = keys.service_account().await?;
            Ok(Data::from([
                ("sa.pub".to_owned(), bytes(&key.public_pem)),
                ("sa.key".to_owned(), bytes(key.private_pem.expose())),
            ]))
        }
        Recipe::Rotate(_) | Recipe::Leaf { .. } | Recipe::Kubeconfigs { .. } => Ok(Data::new()),
    }
}

/// Goes a step further in the replacement of an authority.
async fn rotate(
    names: &Names,
    order: &Order,
    step: Step,
    at: Timestamp,
    api: &dyn ApiServer,
) -> Result<(), Failure> {
    let found = api.get(&secret_kind(), &names.secret(order.role)).await?;
    let secret: Option<Secret> = found.and_then(|body| serde_json::from_value(body).ok());
    let secret = secret.unwrap_or_default();
    let mut data = secret.data.unwrap_or_default();
    let gone = || stale(names, order.role);
    let (common_name, file) = authority_of(order.role).ok_or_else(gone)?;
    let (bundle, key) = (format!("{file}.crt"), format!("{file}.key"));
    let trusted = certificates(&content::text(&data, &bundle).ok_or_else(gone)?);
    let (signing, old) = trusted.split_first().ok_or_else(gone)?;
    // Nodes trust the cluster's authority alone, and Cluster API looks for it under names of its own.
    let is_the_clusters = order.role == SecretRole::Authority;
    match step {
        Step::Introduce => {
            let validity = Validity::starting(at, AUTHORITY_LIFE);
            let next = Authority::new(common_name, validity)
                .map_err(|error| failed(names, order, &error))?;
            data.insert(
                bundle,
                bytes(&format!(
                    "{signing}{}{}",
                    next.certificate_pem(),
                    old.concat()
                )),
            );
            data.extend(files("next", next.certificate_pem(), next.key_pem()));
            if is_the_clusters {
                let key = SecretText::new(content::text(&data, &key).ok_or_else(gone)?);
                let vouched = Authority::from_pem(signing, &key)
                    .and_then(|old| old.vouch_for(&next, validity))
                    .map_err(|error| failed(names, order, &error))?;
                data.insert(NEXT_VOUCHED.to_owned(), bytes(&vouched));
            }
        }
        Step::Promote => {
            let next = ["next.crt", "next.key"].map(|key| content::text(&data, key));
            let [Some(certificate), Some(key)] = next else {
                return Err(gone());
            };
            let key = SecretText::new(key);
            let others = trusted
                .iter()
                .filter(|other| other.trim() != certificate.trim());
            let others: String = others.cloned().collect();
            data.extend(files(file, &format!("{certificate}{others}"), &key));
            data.remove("next.crt");
            data.remove("next.key");
            if is_the_clusters {
                data.extend(files("tls", &certificate, &key));
                // Nodes that joined before know the old one as long as they live, also after it is retired.
                // Those before it were vouched for likewise: one link after the other leads to what a node trusts.
                let links = [NEXT_VOUCHED, VOUCHED].map(|key| content::text(&data, key));
                let links: String = links.into_iter().flatten().collect();
                data.remove(NEXT_VOUCHED);
                data.insert(VOUCHED.to_owned(), bytes(&links));
            }
        }
        Step::Retire => {
            data.insert(bundle, bytes(signing));
        }
        Step::Remember => {}
    }
    let (heard, begun) = (
        (annotations::STEWARD_ROTATE, at),
        (annotations::STEWARD_SIGNING_SINCE, at),
    );
    let asked = secret.metadata.annotations.unwrap_or_default();
    let asked = asked.get(annotations::STEWARD_ROTATE);
    let is_asked = asked.and_then(|asked| Request::of(asked)) == Some(Request::Replace);
    let notes: &[_] = match step {
        Step::Promote => &[heard, begun],
        // Who asks for a new one has not got it by that.
        Step::Retire if is_asked => &[],
        Step::Introduce | Step::Retire => &[heard],
        Step::Remember => &[begun],
    };
    write_with_notes(api, names, order.role, &order.guard, &data, notes).await
}

fn issued(
    recipe: &Recipe,
    names: &Names,
    authority: &Trusted,
    at: Timestamp,
) -> Result<Data, Error> {
    match recipe {
        Recipe::Leaf { file, leaf, .. } => {
            let leaf = authority.signer.issue(&request(leaf, at))?;
            let chain = format!("{}{}", leaf.certificate_pem, authority.vouched_pem);
            Ok(files(file, &chain, &leaf.key_pem))
        }
        Recipe::Kubeconfigs { wishes } => kubeconfigs(wishes, names.name(), authority, at),
        Recipe::Authority { .. } | Recipe::Rotate(_) | Recipe::ServiceAccountKey => Ok(Data::new()),
    }
}

fn request(wish: &LeafWish, at: Timestamp) -> LeafRequest {
    let usage = if wish.serves.is_some() {
        Usage::Server
    } else {
        Usage::Client
    };
    let names = wish.serves.clone().unwrap_or_default();
    LeafRequest {
        common_name: wish.common_name.clone(),
        organizations: wish.organizations.clone(),
        dns_names: names.dns_names.into_iter().collect(),
        ip_addresses: names.ip_addresses.into_iter().collect(),
        ..LeafRequest::new(usage, Validity::starting(at, LEAF_LIFE))
    }
}

/// An authority that signs, and all that are to be trusted beside it while it takes another's place.
pub(crate) struct Trusted {
    /// Signs.
    pub(crate) signer: Authority,
    /// What clients trust.
    pub(crate) bundle_pem: String,
    /// The signer as the one before it vouches for it; empty if there was none.
    pub(crate) vouched_pem: String,
}

/// Reads the authority in a control plane's Secret.
pub(crate) async fn load(
    names: &Names,
    role: SecretRole,
    api: &dyn ApiServer,
) -> Result<Trusted, Failure> {
    let key = names.secret(role);
    let found = api.get(&secret_kind(), &key).await?;
    let secret: Option<Secret> = found.and_then(|body| serde_json::from_value(body).ok());
    let data = secret.and_then(|secret| secret.data).unwrap_or_default();
    let (_, file) = authority_of(role).ok_or_else(|| stale(names, role))?;
    let (certificate, private) = (
        content::text(&data, &format!("{file}.crt")),
        content::text(&data, &format!("{file}.key")),
    );
    let (Some(certificate), Some(private)) = (certificate, private) else {
        return Err(stale(names, role));
    };
    let signer = Authority::from_pem(&certificate, &SecretText::new(private)).map_err(|error| {
        let message = format!("cannot use the authority in the Secret {key}: {error}");
        Failure::terminal(reasons::AUTHORITY_INVALID, message)
    })?;
    Ok(Trusted {
        signer,
        bundle_pem: certificate,
        vouched_pem: content::text(&data, VOUCHED).unwrap_or_default(),
    })
}

fn kubeconfigs(
    wishes: &[KubeconfigWish],
    cluster: &str,
    authority: &Trusted,
    at: Timestamp,
) -> Result<Data, Error> {
    let mut data = Data::new();
    for wish in wishes {
        let leaf = client_of(wish, authority, at, LEAF_LIFE)?;
        for (key, server) in &wish.servers {
            let text = render(cluster, &wish.user, server, authority, &leaf)?;
            data.insert(key.clone(), bytes(text.expose()));
        }
    }
    Ok(data)
}

/// The client certificate of a user.
pub(crate) fn client_of(
    wish: &KubeconfigWish,
    authority: &Trusted,
    at: Timestamp,
    life: SignedDuration,
) -> Result<Leaf, Error> {
    authority.signer.issue(&LeafRequest {
        common_name: wish.user.clone(),
        organizations: wish.groups.clone(),
        ..LeafRequest::new(Usage::Client, Validity::starting(at, life))
    })
}

/// A kubeconfig of one user for one server.
pub(crate) fn render(
    cluster: &str,
    user: &str,
    server: &str,
    authority: &Trusted,
    client: &Leaf,
) -> Result<SecretText, Error> {
    let kubeconfig = Kubeconfig {
        cluster,
        user,
        server,
        authority_pem: &authority.bundle_pem,
        client,
    };
    kubeconfig.render()
}

/// A certificate and its key, under the names that the pods mount.
pub(crate) fn files(file: &str, certificate: &str, key: &SecretText) -> Data {
    Data::from([
        (format!("{file}.crt"), bytes(certificate)),
        (format!("{file}.key"), bytes(key.expose())),
    ])
}

/// A text as a Secret holds it.
pub(crate) fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

/// Fills in the second name of what somebody brought under one name alone.
pub(crate) fn completed(role: SecretRole, data: &Data) -> Data {
    let same = [
        ("ca.crt", secret_keys::TLS_CERTIFICATE),
        ("ca.key", secret_keys::TLS_KEY),
    ];
    let mut missing = Data::new();
    for (one, other) in same.into_iter().filter(|_| role == SecretRole::Authority) {
        match (data.get(one), data.get(other)) {
            (Some(value), None) => missing.insert(other.to_owned(), value.clone()),
            (None, Some(value)) => missing.insert(one.to_owned(), value.clone()),
            _ => None,
        };
    }
    missing
}
