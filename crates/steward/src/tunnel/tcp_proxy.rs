//! The proxy through which pods of a tenant reach their API server: whether it can be had, and where it leads to.

use butler_api::{
    net::HostPort,
    steward::{
        addons::{HostAlias, TcpProxy as Wish},
        tenant_control_plane::TenantControlPlane,
    },
};
use butler_runtime::object::Manifest;
use butler_tunnel::manifests::{ProxyTarget, TcpProxySpec, tcp_proxy_objects};
use k8s_openapi::api::core::v1 as core;

use super::{Tunnel, dialled, has_a_name_of_its_own};
use crate::{
    addresses::{addresses, public_host},
    projections::ServiceFacts,
    settings::Settings,
};

/// Why a control plane cannot have the proxy that it asks for. Without one the API server itself says where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TcpProxyRefusal {
    /// Nothing to run.
    #[error(
        "there is no image for it; name one that holds butler in spec.addons.tcpProxy.image, or have the operator set --tunnel-image"
    )]
    NoImage,
    /// It cannot connect there.
    #[error("internalEndpoint: {0}")]
    InternalEndpoint(String),
    /// Connections to the API server are told apart by names that pods do not use.
    #[error(
        "an Ingress or Gateway knows the API server by its public name alone, which pods do not ask for; set \
         spec.addons.tcpProxy.internalEndpoint to a host:port where the API server answers by itself, or have Butler's own \
         tunnel lead there: spec.addons.konnectivity without images and versions, and --tunnel-image of the operator"
    )]
    OnlyByName,
}

/// Where the proxy leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    /// To where everybody reaches the API server.
    Endpoint,
    /// To where the user says.
    Internal(HostPort),
    /// Through our own tunnel.
    Tunnel,
}

/// The proxy of a control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpProxy<'a> {
    wish: &'a Wish,
    image: &'a str,
    way: Way,
}

impl<'a> TcpProxy<'a> {
    /// The proxy of a control plane that asks for one, or why it cannot have it.
    pub fn of(
        control_plane: &'a TenantControlPlane,
        settings: &'a Settings,
    ) -> Option<Result<Self, TcpProxyRefusal>> {
        let wish = control_plane.spec.addons.tcp_proxy.as_ref()?;
        let named = |image: &'a Option<String>| image.as_deref().filter(|image| !image.is_empty());
        let image = named(&wish.image).or_else(|| named(&settings.tunnel_image));
        Some(match (image, way(control_plane, wish, settings)) {
            (None, _) => Err(TcpProxyRefusal::NoImage),
            (Some(image), way) => way.map(|way| Self { wish, image, way }),
        })
    }

    /// Whether the Service `kubernetes` of the tenant is the proxy's to look after.
    pub fn is_there(control_plane: &TenantControlPlane, settings: &Settings) -> bool {
        matches!(TcpProxy::of(control_plane, settings), Some(Ok(_)))
    }

    /// Whether the tunnel's server must lead the proxy on to the API server.
    pub fn leads_through_tunnel(control_plane: &TenantControlPlane, settings: &Settings) -> bool {
        let proxy = TcpProxy::of(control_plane, settings).and_then(Result::ok);
        proxy.is_some_and(|proxy| proxy.way == Way::Tunnel)
    }

    fn target(
        &self,
        control_plane: &TenantControlPlane,
        service: Option<&ServiceFacts>,
    ) -> Option<ProxyTarget> {
        let there = match &self.way {
            Way::Endpoint => addresses(control_plane, service).endpoint?,
            Way::Internal(there) => there.clone(),
            Way::Tunnel => {
                let tunnel = control_plane.spec.addons.konnectivity.as_ref()?;
                dialled(control_plane, service, tunnel)?
            }
        };
        let there = there.to_string().parse().ok()?;
        Some(match self.way {
            Way::Tunnel => ProxyTarget::ThroughTunnel(there),
            Way::Endpoint | Way::Internal(_) => ProxyTarget::Direct(there),
        })
    }
}

fn way(
    control_plane: &TenantControlPlane,
    wish: &Wish,
    settings: &Settings,
) -> Result<Way, TcpProxyRefusal> {
    let internal = wish.internal_endpoint.as_deref();
    if let Some(internal) = internal.filter(|text| !text.is_empty()) {
        let there = internal.parse();
        return there
            .map(Way::Internal)
            .map_err(|error: <HostPort as std::str::FromStr>::Err| {
                TcpProxyRefusal::InternalEndpoint(error.to_string())
            });
    }
    if public_host(control_plane).is_none() {
        return Ok(Way::Endpoint);
    }
    match Tunnel::of(control_plane, settings) {
        Some(Tunnel::Butler { .. }) if has_a_name_of_its_own(control_plane) => Ok(Way::Tunnel),
        _ => Err(TcpProxyRefusal::OnlyByName),
    }
}

/// The objects of the proxy inside of the tenant; none if there is none, or its address is not known yet.
pub fn tcp_proxy_in_tenant(
    control_plane: &TenantControlPlane,
    service: Option<&ServiceFacts>,
    settings: &Settings,
) -> Vec<Manifest> {
    let proxy = TcpProxy::of(control_plane, settings).and_then(Result::ok);
    let spec = proxy.and_then(|proxy| {
        Some(TcpProxySpec {
            image: proxy.image.to_owned(),
            target: proxy.target(control_plane, service)?,
            host_aliases: proxy.wish.host_aliases.iter().map(alias).collect(),
            resources: proxy.wish.resources.clone().map(Into::into),
        })
    });
    let Some(objects) = spec.as_ref().map(tcp_proxy_objects) else {
        return Vec::new();
    };
    vec![
        Manifest::of(&objects.service_account),
        Manifest::of(&objects.cluster_role),
        Manifest::of(&objects.cluster_role_binding),
        Manifest::of(&objects.service),
        Manifest::of(&objects.deployment),
    ]
}

fn alias(alias: &HostAlias) -> core::HostAlias {
    core::HostAlias {
        ip: alias.ip.clone(),
        hostnames: Some(alias.hostnames.clone()),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{control_plane_with, service_at};

    fn ours() -> Settings {
        Settings {
            tunnel_image: Some("example.com/butler:v1".to_owned()),
            ..Settings::default()
        }
    }

    /// A control plane behind this host name, else a load balancer.
    fn wishing(host: Option<&str>, addons: Value) -> TenantControlPlane {
        let mut spec = json!({});
        spec["addons"] = addons;
        if let Some(host) = host {
            spec["controlPlane"] = json!({
                "service": { "serviceType": "ClusterIP" },
                "ingress": { "hostname": host },
            });
        }
        control_plane_with(spec)
    }

    fn deployment(control_plane: &TenantControlPlane, settings: &Settings) -> Value {
        let service = service_at("192.0.2.4");
        let objects = tcp_proxy_in_tenant(control_plane, Some(&service), settings);
        let last = objects.last();
        last.map_or(Value::Null, |object| object.body.clone())
    }

    fn arguments(control_plane: &TenantControlPlane, settings: &Settings) -> Vec<String> {
        let deployment = deployment(control_plane, settings);
        let arguments = deployment
            .pointer("/spec/template/spec/containers/0/args")
            .and_then(Value::as_array);
        let arguments = arguments.into_iter().flatten();
        let texts = arguments.filter_map(|argument| argument.as_str().map(str::to_owned));
        texts.collect()
    }

    #[test]
    fn behind_a_load_balancer_the_proxy_leads_to_where_everybody_connects() {
        let plain = wishing(None, json!({ "tcpProxy": {} }));
        assert_eq!(
            arguments(&plain, &ours()),
            [
                "tcp-proxy",
                "--target=192.0.2.4:6443",
                "--listen-address=:6443",
                "--service=kube-system/steward-tcp-proxy",
            ]
        );
        assert!(!TcpProxy::leads_through_tunnel(&plain, &ours()));
    }

    #[test]
    fn behind_an_ingress_the_proxy_leads_through_our_own_tunnel() {
        let hidden = wishing(
            Some("shop.k8s.example.com"),
            json!({ "konnectivity": {}, "tcpProxy": {} }),
        );
        let arguments = arguments(&hidden, &ours());
        let has = |argument: &str| arguments.iter().any(|given| given == argument);
        assert!(
            has("--target=shop.konnectivity.example.com:443"),
            "{arguments:?}"
        );
        assert!(has("--through-tunnel"), "{arguments:?}");
        assert!(TcpProxy::leads_through_tunnel(&hidden, &ours()));
    }

    #[test]
    fn everything_a_user_may_say_of_the_proxy_has_its_place() {
        let told = wishing(
            Some("shop.k8s.example.com"),
            json!({ "tcpProxy": {
                "image": "mirror.example.com/butler:v2",
                "internalEndpoint": "10.1.2.3:7443",
                "resources": { "limits": { "memory": "64Mi" } },
                "hostAliases": [{ "ip": "10.1.2.3", "hostnames": ["api.internal"] }],
            } }),
        );
        // Nobody needs the operator's image where the user names one.
        let settings = Settings::default();
        let deployment = deployment(&told, &settings);
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(container["image"], "mirror.example.com/butler:v2");
        assert_eq!(
            container["resources"],
            json!({ "limits": { "memory": "64Mi" } })
        );
        assert_eq!(
            pod["hostAliases"],
            json!([{ "ip": "10.1.2.3", "hostnames": ["api.internal"] }])
        );
        let arguments = arguments(&told, &settings);
        assert_eq!(arguments[1], "--target=10.1.2.3:7443");
        assert!(!TcpProxy::leads_through_tunnel(&told, &ours()));
    }

    #[test]
    fn a_proxy_that_cannot_be_had_leaves_the_tenant_as_it_is_and_says_what_to_do() {
        let by_name = Some("shop.k8s.example.com");
        let tunnel_and_proxy = || json!({ "konnectivity": {}, "tcpProxy": {} });
        let refused = |control_plane: &TenantControlPlane, settings: &Settings| {
            assert!(!TcpProxy::is_there(control_plane, settings));
            let objects = tcp_proxy_in_tenant(control_plane, None, settings);
            assert_eq!(objects.len(), 0);
            TcpProxy::of(control_plane, settings).unwrap().unwrap_err()
        };
        let plain = wishing(None, json!({ "tcpProxy": {} }));
        assert_eq!(
            refused(&plain, &Settings::default()),
            TcpProxyRefusal::NoImage
        );
        let nonsense = wishing(
            None,
            json!({ "tcpProxy": { "internalEndpoint": "10.1.2.3" } }),
        );
        assert_snapshot!(refused(&nonsense, &ours()), @r#"internalEndpoint: endpoint "10.1.2.3" is not valid: write a host and a port, for example api.example.com:6443"#);
        for (host, addons) in [
            (by_name, json!({ "tcpProxy": {} })),
            (
                by_name,
                json!({ "konnectivity": { "server": { "port": 8132, "version": "v0.34.0" } }, "tcpProxy": {} }),
            ),
            // An Ingress cannot tell the two apart.
            (Some("shop.example.com"), tunnel_and_proxy()),
        ] {
            assert_eq!(
                refused(&wishing(host, addons), &ours()),
                TcpProxyRefusal::OnlyByName
            );
        }
        assert!(TcpProxy::is_there(
            &wishing(by_name, tunnel_and_proxy()),
            &ours()
        ));
    }
}
