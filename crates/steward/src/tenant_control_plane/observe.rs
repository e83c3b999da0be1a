//! What the plan for a control plane depends on. All from caches, but for what a `DataStore` refers to, which is read once for
//! each version of it.

use std::collections::BTreeMap;

use butler_api::steward::{data_store::DataStore, tenant_control_plane::TenantControlPlane};
use butler_runtime::{
    cache::{Projection, Whole},
    failure::Failure,
    object::ObjectKey,
    reconciler::Context,
};
use kube::ResourceExt;

use super::{
    TenantControlPlaneReconciler,
    part::{
        chosen_store, has_precedence, other_store, overrides_of, own_stores, second_store,
        touches_in,
    },
};
use crate::{
    foreign_routes::{
        InV1, InV1Alpha2, InV1Alpha3, InVersion, RouteFacts, TLS_ROUTE_DEFINITION,
        TRAEFIK_DEFINITION, TlsRoute, TlsRouteDefinition, TlsRouteVersion, TraefikDefinition,
    },
    move_port::ErrandState,
    names::{Names, SecretRole},
    projections::{DeploymentFacts, IngressFacts, ServiceFacts},
    secrets::{KeptSecret, Seen},
    settings::Settings,
    store::StoreFacts,
    tenant_port::TenantState,
};

/// A data store as a control plane sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreView {
    /// Neither the control plane nor the operator names one.
    #[default]
    Unnamed,
    /// There is none of that name.
    Missing(String),
    /// What it refers to cannot be followed.
    Broken {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// It can be used.
    Known(StoreFacts),
}

/// The world around a control plane.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Its Secrets.
    pub secrets: BTreeMap<SecretRole, Seen>,
    /// Its Service.
    pub service: Option<ServiceFacts>,
    /// Its pods.
    pub deployment: Option<DeploymentFacts>,
    /// Its Ingress.
    pub ingress: Option<IngressFacts>,
    /// The version in which the cluster serves routes of the Gateway API, if it does.
    pub tls_routes: Option<TlsRouteVersion>,
    /// Whether the cluster serves routes of Traefik.
    pub has_traefik_routes: bool,
    /// Its route of the Gateway API.
    pub route: Option<RouteFacts>,
    /// The route of its reverse tunnel.
    pub konnectivity_route: Option<RouteFacts>,
    /// Its data store.
    pub store: StoreView,
    /// The stores of single resources.
    pub overrides: Vec<(String, StoreView)>,
    /// For each store of which another control plane has, or had first, what this one wants: that control plane.
    pub rivals: BTreeMap<String, ObjectKey>,
    /// The store that its state moves to or from, or shall move to.
    pub other_store: StoreView,
    /// The control plane that has what this one wants of that store.
    pub other_rival: Option<ObjectKey>,
    /// What is done for it in stores, beside all passes.
    pub errand: Option<ErrandState>,
    /// The inside of its tenant; unknown if there is no way there.
    pub tenant: Option<TenantState>,
}

pub(super) async fn observe(
    control_plane: &TenantControlPlane,
    reconciler: &TenantControlPlaneReconciler,
    context: &Context,
) -> Result<World, Failure> {
    let names = Names::of(control_plane);
    let settings = &reconciler.settings;
    let secrets = context.cache::<KeptSecret>();
    let seen = |role| Some((role, secrets.get(&names.secret(role))?));
    let store = match chosen_store(control_plane, settings) {
        Some(name) => view(&name, reconciler, context).await?,
        None => StoreView::Unnamed,
    };
    let mut overrides = Vec::new();
    for wish in overrides_of(control_plane) {
        let view = view(&wish.data_store, reconciler, context).await?;
        overrides.push((wish.resource.clone(), view));
    }
    let other_store = match other_store(control_plane) {
        Some(name) => view(name, reconciler, context).await?,
        None => StoreView::Unnamed,
    };
    let tenants = reconciler.ports.tenants.as_ref();
    let tls_routes = tls_routes(context);
    let route = |name: &str| tls_routes.and_then(|version| route(context, &names, name, version));
    Ok(World {
        secrets: SecretRole::ALL.into_iter().filter_map(seen).collect(),
        service: cached(context, &names),
        deployment: cached(context, &names),
        ingress: cached(context, &names),
        tls_routes,
        has_traefik_routes: has_traefik_routes(context),
        route: route(names.name()),
        konnectivity_route: route(&names.konnectivity_route()),
        store,
        overrides,
        rivals: rivals(control_plane, settings, context),
        other_store,
        other_rival: other_rival(control_plane, settings, context),
        errand: reconciler.ports.moves.state(names.uid()),
        tenant: tenants.map(|tenants| tenants.state(names.uid())),
    })
}

/// The control planes that have, or had first, what this one wants of its stores.
fn rivals(
    control_plane: &TenantControlPlane,
    settings: &Settings,
    context: &Context,
) -> BTreeMap<String, ObjectKey> {
    let stores = own_stores(control_plane, settings).into_iter();
    let rivals = stores.filter_map(|store| {
        let rival = find_other(control_plane, context, |other| {
            touches_in(&store, control_plane, other, settings)
                && has_precedence(&store, other, control_plane, settings)
        });
        Some((store, rival?))
    });
    rivals.collect()
}

/// The control plane that stands in the way of a move. Before it began, everybody does who has something there.
fn other_rival(
    control_plane: &TenantControlPlane,
    settings: &Settings,
    context: &Context,
) -> Option<ObjectKey> {
    let store = other_store(control_plane)?;
    let has_begun = second_store(control_plane).is_some();
    find_other(control_plane, context, |other| {
        touches_in(store, control_plane, other, settings)
            && (!has_begun || has_precedence(store, other, control_plane, settings))
    })
}

fn find_other(
    control_plane: &TenantControlPlane,
    context: &Context,
    is_meant: impl Fn(&TenantControlPlane) -> bool,
) -> Option<ObjectKey> {
    let all = context.cache::<Whole<TenantControlPlane>>().list();
    let mut others = all.iter().map(|found| &found.value.0);
    let found = others.find(|other| other.uid() != control_plane.uid() && is_meant(other))?;
    Some(ObjectKey::of(found))
}

/// The version in which the cluster serves routes of the Gateway API.
fn tls_routes(context: &Context) -> Option<TlsRouteVersion> {
    let definition = ObjectKey::cluster(TLS_ROUTE_DEFINITION);
    let found = context.cache::<TlsRouteDefinition>().get(&definition)?;
    found.value.version
}

fn has_traefik_routes(context: &Context) -> bool {
    let definition = ObjectKey::cluster(TRAEFIK_DEFINITION);
    let found = context.cache::<TraefikDefinition>().get(&definition);
    found.is_some_and(|found| found.value.is_served)
}

/// What is remembered of a route, in the version that is used.
fn route(
    context: &Context,
    names: &Names,
    name: &str,
    version: TlsRouteVersion,
) -> Option<RouteFacts> {
    fn facts<V: InVersion>(context: &Context, names: &Names, name: &str) -> Option<RouteFacts> {
        let found = cached_at::<TlsRoute<V>>(context, names, name)?;
        Some(found.facts)
    }
    match version {
        TlsRouteVersion::V1 => facts::<InV1>(context, names, name),
        TlsRouteVersion::V1Alpha3 => facts::<InV1Alpha3>(context, names, name),
        TlsRouteVersion::V1Alpha2 => facts::<InV1Alpha2>(context, names, name),
    }
}

/// What is remembered of the object that has the control plane's own name and is its.
pub(crate) fn cached<P: Projection + Clone>(context: &Context, names: &Names) -> Option<P> {
    cached_at(context, names, names.name())
}

/// The same of the object of another name in the control plane's namespace.
fn cached_at<P: Projection + Clone>(context: &Context, names: &Names, name: &str) -> Option<P> {
    let key = ObjectKey::namespaced(names.namespace(), name);
    let found = context.cache::<P>().get(&key)?;
    // One of the same name that another control plane left behind is about to go.
    (found.facts.owner.as_deref() == Some(names.uid())).then(|| found.value.clone())
}

async fn view(
    name: &str,
    reconciler: &TenantControlPlaneReconciler,
    context: &Context,
) -> Result<StoreView, Failure> {
    let found = context
        .cache::<Whole<DataStore>>()
        .get(&ObjectKey::cluster(name));
    let Some(store) = found else {
        reconciler.resolver.forget(name);
        return Ok(StoreView::Missing(name.to_owned()));
    };
    let facts = reconciler.resolver.facts(&store.value.0, context).await?;
    Ok(facts.map_or_else(
        |problem| StoreView::Broken {
            name: name.to_owned(),
            problem,
        },
        StoreView::Known,
    ))
}
