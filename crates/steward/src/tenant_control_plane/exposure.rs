//! The ways into a control plane that others route: Ingress, Traefik, Gateway. What the cluster cannot take yet is held back, and
//! holds nothing else up.

use butler_runtime::{object::Manifest, plan::Prune};

use super::look::Look;
use crate::{build, foreign_routes::TlsRouteVersion};

impl Look<'_> {
    /// The routes to the control plane, as far as the cluster serves their kinds.
    pub(super) fn ways_in(&self) -> Vec<Manifest> {
        let (control_plane, names) = (self.control_plane, &self.names);
        let traefik = build::traefik(control_plane, names);
        let mut all: Vec<_> = build::ingress(control_plane, names).into_iter().collect();
        all.extend(traefik.filter(|_| self.world.has_traefik_routes));
        all.extend(self.routes(self.world.tls_routes));
        all
    }

    fn routes(&self, version: Option<TlsRouteVersion>) -> Vec<Manifest> {
        version.map_or_else(Vec::new, |version| {
            build::routes(self.control_plane, &self.names, version)
        })
    }

    /// What is not wished for any more goes. A route is one object however many versions show it: it must not go because it is
    /// listed in one of them alone.
    pub(super) fn prune(&self) -> Prune {
        let used = self.world.tls_routes;
        let others = TlsRouteVersion::ALL.map(Some);
        let others = others.into_iter().filter(|version| *version != used);
        let shown = others.flat_map(|version| self.routes(version));
        let shown: Vec<_> = shown.map(|route| (route.kind, route.key)).collect();
        if shown.is_empty() {
            Prune::Unlisted
        } else {
            Prune::UnlistedBut(shown)
        }
    }

    /// What must be installed before the control plane is reached as it is asked for.
    pub(super) fn missing_definition(&self) -> Option<String> {
        let (control_plane, names) = (self.control_plane, &self.names);
        if !self.world.has_traefik_routes && build::traefik(control_plane, names).is_some() {
            let message = "the cluster does not serve IngressRouteTCP of traefik.io/v1alpha1, so that nothing leads to the API server; install the definitions of Traefik v2.10 or newer, or choose another controllerType";
            return Some(message.to_owned());
        }
        let is_wished = !self.routes(Some(TlsRouteVersion::V1)).is_empty();
        (is_wished && self.world.tls_routes.is_none()).then(|| {
            "the cluster does not serve TLSRoute of gateway.networking.k8s.io, so that nothing leads to the API server; install the definitions of the Gateway API, v1.5 or newer, or the experimental ones of an older release".to_owned()
        })
    }
}
