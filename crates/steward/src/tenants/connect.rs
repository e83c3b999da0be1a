//! What must be known of a tenant, and the way to its API server: from the caches, and one Secret.

use butler_api::{
    conditions::reasons,
    keys::{annotations, secret_keys},
    net::HostPort,
    steward::tenant_control_plane::TenantControlPlane,
};
use butler_runtime::{
    api_server::ApiServer,
    failure::{Class, Failure},
    object::ObjectKey,
    reconciler::Context,
    remote::{RemoteCluster, RemoteClusters, RemoteKey, RemoteKubeconfig},
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use steward_tenant::{FactsError, TenantFacts};

use crate::{
    addresses::addresses,
    names::{Names, SecretRole},
    projections::ServiceFacts,
    secrets::{Content, KeptSecret, Seen, secret_kind},
    settings::Settings,
    tenant_control_plane::{cached, is_frozen, serving_version, version_to_run},
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
    /// The kubeconfig for this way, of the administrator whom an annotation of the control plane chooses. Without one, that whose
    /// rights nobody in the tenant can take.
    fn kubeconfig_key(self, chosen: Option<&str>) -> &str {
        match (self, chosen) {
            (Self::Service, None | Some(secret_keys::SUPER_ADMIN_CONF)) => {
                secret_keys::SUPER_ADMIN_SVC
            }
            (Self::Endpoint, None | Some(secret_keys::SUPER_ADMIN_SVC)) => {
                secret_keys::SUPER_ADMIN_CONF
            }
            (Self::Service, Some(secret_keys::ADMIN_CONF)) => secret_keys::ADMIN_SVC,
            (Self::Endpoint, Some(secret_keys::ADMIN_SVC)) => secret_keys::ADMIN_CONF,
            // Whoever put it there knows where it leads.
            (_, Some(own)) => own,
        }
    }
}

/// The key that the control plane chooses among the administrators' kubeconfigs, if it does.
pub(crate) fn chosen_kubeconfig(control_plane: &TenantControlPlane) -> Option<&str> {
    let annotations = control_plane.annotations();
    let chosen = annotations.get(annotations::STEWARD_KUBECONFIG_SECRET_KEY);
    chosen.map(String::as_str).filter(|key| !key.is_empty())
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
    let authority = &authority.certificate_pem;
    facts_of(
        control_plane,
        service.as_ref(),
        endpoint,
        authority,
        settings,
    )
    .map_err(|error| Failure::terminal(reasons::VALIDATION_FAILED, error.to_string()))
}

/// The same, from what is known of the management cluster. Pure.
pub(crate) fn facts_of(
    control_plane: &TenantControlPlane,
    service: Option<&ServiceFacts>,
    endpoint: HostPort,
    authority_pem: &str,
    settings: &Settings,
) -> Result<TenantFacts, FactsError> {
    let facts = TenantFacts::of(control_plane, endpoint, authority_pem)?;
    let version = version_to_run(control_plane).map_or(facts.version, |(version, _)| version);
    Ok(TenantFacts {
        tunnel: tunnel::objects_in_tenant(control_plane, service, &version, settings),
        tcp_proxy: tunnel::tcp_proxy_in_tenant(control_plane, service, settings),
        serving_version: serving_version(control_plane, &version),
        version,
        frozen: is_frozen(control_plane),
        ..facts
    })
}

/// The tenant's API server. The client is made once for each content of the kubeconfigs' Secret.
pub(super) async fn connect(
    remotes: &RemoteClusters,
    control_plane: &TenantControlPlane,
    access: TenantAccess,
    context: &Context,
) -> Result<RemoteCluster, Failure> {
    let names = &Names::of(control_plane);
    let key = names.secret(SecretRole::AdminKubeconfig);
    let secret = seen(names, SecretRole::AdminKubeconfig, context)?;
    let chosen = chosen_kubeconfig(control_plane);
    let entry = access.kubeconfig_key(chosen);
    if let (Some(_), Content::Kubeconfigs(found)) = (chosen, &secret.value.content)
        && !found.contains_key(entry)
    {
        let there: Vec<_> = found.keys().map(String::as_str).collect();
        let message = format!(
            "the annotation {} wants {entry} of the Secret {key}, which has {}; choose one of these, or remove the annotation",
            annotations::STEWARD_KUBECONFIG_SECRET_KEY,
            there.join(", ")
        );
        return Err(Failure::terminal(reasons::VALIDATION_FAILED, message));
    }
    let version = format!("{} {entry}", secret.value.checksum);
    let load = || kubeconfig(context.api(), &key, entry);
    let cluster = remotes.get(&remote_key(names), &version, load).await;
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
    entry: &str,
) -> Result<RemoteKubeconfig, Failure> {
    let body = api.get(&secret_kind(), key).await?;
    let secret: Option<Secret> = body.and_then(|body| serde_json::from_value(body).ok());
    let data = secret.and_then(|secret| secret.data).unwrap_or_default();
    let kubeconfig = data.get(entry);
    let kubeconfig = kubeconfig.ok_or_else(|| gone(&format!("{entry} of the Secret {key}")))?;
    Ok(RemoteKubeconfig::from(kubeconfig.0.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::control_plane;

    #[test]
    fn a_control_plane_chooses_as_whom_its_tenant_is_entered_and_not_by_which_way() {
        let mut control_plane = control_plane("LoadBalancer");
        assert_eq!(chosen_kubeconfig(&control_plane), None);
        let annotation = annotations::STEWARD_KUBECONFIG_SECRET_KEY.to_owned();
        let key = "admin.conf".to_owned();
        control_plane.annotations_mut().insert(annotation, key);
        assert_eq!(chosen_kubeconfig(&control_plane), Some("admin.conf"));
        let (service, endpoint) = (TenantAccess::Service, TenantAccess::Endpoint);
        let told = |access: TenantAccess| {
            let keys = [None, Some("admin.conf"), Some("admin.svc"), Some("robot")];
            keys.map(|key| access.kubeconfig_key(key).to_owned())
        };
        assert_eq!(
            told(service),
            ["super-admin.svc", "admin.svc", "admin.svc", "robot"]
        );
        assert_eq!(
            told(endpoint),
            ["super-admin.conf", "admin.conf", "admin.conf", "robot"]
        );
    }
}
