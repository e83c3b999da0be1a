//! How the API server finds the reverse tunnel.

use butler_api::steward::tenant_control_plane::TenantControlPlane;
use butler_runtime::object::{Kind, Manifest};
use butler_tunnel::manifests::{EgressTransport, egress_selector_configuration, names};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::{names::Names, settings::Settings, tunnel::Tunnel};

/// The key of the configuration, and the name of its file.
pub(super) const FILE: &str = "egress-selector-configuration.yaml";
/// The socket between the API server and konnectivity.
pub(super) const KONNECTIVITY_SOCKET: &str = "/run/konnectivity/konnectivity-server.socket";

/// The API server's egress configuration, if connections into the tenant go through a tunnel.
pub fn egress_configuration(
    control_plane: &TenantControlPlane,
    names: &Names,
    settings: &Settings,
) -> Option<Manifest> {
    let text = match Tunnel::of(control_plane, settings)? {
        Tunnel::Konnectivity(_) => konnectivity(),
        Tunnel::Butler { .. } => egress_selector_configuration(&EgressTransport::Socket {
            path: names::SOCKET.to_owned(),
        }),
    };
    let name = names.egress_configuration();
    let body = json!({
        "metadata": names.metadata(&name, "konnectivity-egress-selector-configuration", None),
        "data": { FILE: text },
    });
    Some(Manifest::new(Kind::of::<ConfigMap>(), body))
}

fn konnectivity() -> String {
    format!(
        "apiVersion: apiserver.k8s.io/v1beta1\n\
         kind: EgressSelectorConfiguration\n\
         egressSelections:\n\
         - name: cluster\n\
         \x20 connection:\n\
         \x20   proxyProtocol: GRPC\n\
         \x20   transport:\n\
         \x20     uds:\n\
         \x20       udsName: {KONNECTIVITY_SOCKET}\n"
    )
}
