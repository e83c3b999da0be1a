//! What must be known of a tenant, and the way to its API server: from the caches, and one Secret.

use butler_api::{
    conditions::reasons, keys::secret_keys, steward::tenant_control_plane::TenantControlPlane,
};
use butler_runtime::{
    api_server::ApiServer,
    failure::{Class, Failure},
    object::ObjectKey,
    reconciler::Context,
    remote::{RemoteCluster, RemoteClusters, RemoteKey, RemoteKubeconfig},
};
use k8s_openapi::api::core::v1::Secret;
use steward_tenant::TenantFacts;

use crate::{
    addresses::addresses,
    names::{Names, SecretRole},
    projections::ServiceFacts,
    secrets::{Content, KeptSecret, Seen, secret_kind},
    settings::Settings,
    tenant_control_plane::{cached, is_frozen, version_to_run},
    tunnel,
};

/// By which address this process reaches the API servers of tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TenantAccess {
    /// By their Services, as pods of the management cluster can.
    Service,
    /// By the address that everybody uses.
    Endpoint,
}

impl TenantAccess {
    /// The administrator's kubeconfig for this way. Nobody in the tenant can take this administrator's rights.
    const fn kubeconfig_key(self) -> &'static str {
        match self {
            Self::Service => secret_keys::SUPER_ADMIN_SVC,
            Self::Endpoint => secret_keys::SUPER_ADMIN_CONF,
        }
    }
}

pub(super) fn remote_key(names: &Names) -> RemoteKey {
    RemoteKey {
        namespace: names.namespace().to_owned(),
        name: names.name().to_owned(),
    }
}

/// Something that the plan has seen is no longer there: the watch brings what follows from that.
fn gone(what: &str) -> Failure {
    Failure {
        class: Class::Stale,
        reason: reasons::WAITING_FOR_DEPENDENCIES,
        message: format!("{what} is gone"),
    }
}

fn seen(names: &Names, role: SecretRole, context: &Context) -> Result<Seen, Failure> {
    let key = names.secret(role);
    let seen = context.cache::<KeptSecret>().get(&key);
    seen.ok_or_else(|| gone(&format!("the Secret {key}")))
}

/// What the inside of a tenant depends on.
pub(super) fn facts(
    control_plane: &TenantControlPlane,
    names: &Names,
    settings: &Settings,
    context: &Context,
) -> Result<TenantFacts, Failure> {
    let service: Option<ServiceFacts> = cached(context, names);
    let endpoint = addresses(control_plane, service.as_ref()).endpoint;
    let endpoint = endpoint.ok_or_else(|| gone("the address of the API server"))?;
    let authority = seen(names, SecretRole::Authority, context)?;
    let Content::Pair(Ok(authority)) = &authority.value.content else {
        return Err(gone("the authority of the tenant"));
    };
    let facts = TenantFacts::of(control_plane, endpoint, &authority.certificate_pem)
        .map_err(|error| Failure::terminal(reasons::VALIDATION_FAILED, error.to_string()))?;
    let version = version_to_run(control_plane).map_or(facts.version, |(version, _)| version);
    Ok(TenantFacts {
        tunnel: tunnel::objects_in_tenant(control_plane, service.as_ref(), &version, settings),
        version,
        frozen: is_frozen(control_plane),
        ..facts
    })
}

/// The tenant's API server. The client is made once for each content of the kubeconfigs' Secret.
pub(super) async fn connect(
    remotes: &RemoteClusters,
    names: &Names,
    access: TenantAccess,
    context: &Context,
) -> Result<RemoteCluster, Failure> {
    let key = names.secret(SecretRole::AdminKubeconfig);
    let secret = seen(names, SecretRole::AdminKubeconfig, context)?;
    let load = || kubeconfig(context.api(), &key, access);
    let cluster = remotes
        .get(&remote_key(names), &secret.value.checksum, load)
        .await;
    cluster.map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!(
            "{error}{}; delete the Secret {key} to have it made anew",
            cause.unwrap_or_default()
        );
        Failure::retry(reasons::CREDENTIALS_INVALID, message)
    })
}

async fn kubeconfig(
    api: &dyn ApiServer,
    key: &ObjectKey,
    access: TenantAccess,
) -> Result<RemoteKubeconfig, Failure> {
    let body = api.get(&secret_kind(), key).await?;
    let secret: Option<Secret> = body.and_then(|body| serde_json::from_value(body).ok());
    let data = secret.and_then(|secret| secret.data).unwrap_or_default();
    let kubeconfig = data.get(access.kubeconfig_key());
    let kubeconfig = kubeconfig
        .ok_or_else(|| gone(&format!("{} of the Secret {key}", access.kubeconfig_key())))?;
    Ok(RemoteKubeconfig::from(kubeconfig.0.clone()))
}
