//! Other clusters and unknown kinds as they are: real clients, and watches that ring a bell.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use butler_api::{cluster_api::steward_control_plane::StewardControlPlane, conditions::reasons};
use butler_runtime::{
    api_server::ApiServer,
    client::Component,
    failure::Failure,
    kube_api_server::KubeApiServer,
    metrics::Metrics,
    object::ObjectKey,
    reconciler::Bell,
    remote::{
        HealthSettings, RemoteCluster, RemoteClusters, RemoteKey, RemoteKubeconfig, RemoteSettings,
    },
    task,
};
use futures::{StreamExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{DynamicObject, PartialObjectMeta},
    runtime::{
        WatchStreamExt as _,
        watcher::{Config, Event, watcher},
    },
};

use super::{
    Elsewhere, KubeconfigSource, Place, Way,
    lookouts::{Lookouts, Post, Watch},
};
use crate::secrets::secret_kind;

/// How often another cluster is asked whether it is well. Nothing waits for the answer.
const HEALTH_PERIOD: Duration = Duration::from_mins(5);
/// The version of the way to the management cluster: it never changes.
const HOME: &str = "";

/// Other clusters and unknown kinds. Dropping it ends all watches.
pub struct OtherPlaces {
    home: Client,
    remotes: RemoteClusters,
    shared: Arc<Shared>,
}

struct Shared {
    bell: Bell<StewardControlPlane>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lookouts: Lookouts,
    /// Clusters as they were reached last, so that what is there can be removed even if the kubeconfig is gone by then.
    reached: BTreeMap<KubeconfigSource, Reached>,
}

#[derive(Clone)]
struct Reached {
    version: String,
    cluster: RemoteCluster,
}

impl OtherPlaces {
    /// No other place yet. `bell` is rung when something changes in one.
    pub fn new(
        home: Client,
        component: Component,
        metrics: Metrics,
        bell: Bell<StewardControlPlane>,
    ) -> Self {
        let settings = RemoteSettings {
            health: HealthSettings {
                interval: HEALTH_PERIOD,
                ..HealthSettings::default()
            },
            ..RemoteSettings::default()
        };
        Self {
            home,
            remotes: RemoteClusters::new(component, settings, metrics),
            shared: Arc::new(Shared {
                bell,
                state: Mutex::default(),
            }),
        }
    }

    async fn connect(
        &self,
        kubeconfig: &KubeconfigSource,
        version: Option<&str>,
        home: &dyn ApiServer,
    ) -> Way {
        let known = self.shared.state().reached.get(kubeconfig).cloned();
        let known_version = known.as_ref().map(|known| known.version.as_str());
        let Some(version) = version.or(known_version) else {
            return Err(format!(
                "the Secret {} with the kubeconfig does not exist; create it",
                kubeconfig.secret
            ));
        };
        let load = || load(kubeconfig, home);
        let key = remote_key(kubeconfig);
        let cluster = self.remotes.get(&key, version, load).await;
        let cluster = cluster.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            format!(
                "{error}{}; correct the key {} of the Secret {}",
                cause.unwrap_or_default(),
                kubeconfig.entry,
                kubeconfig.secret
            )
        })?;
        let api = KubeApiServer::new(cluster.client());
        let reached = Reached {
            version: version.to_owned(),
            cluster,
        };
        let mut state = self.shared.state();
        state.reached.insert(kubeconfig.clone(), reached);
        let awaited = state.lookouts.awaited_in(kubeconfig);
        self.begin(&mut state, &awaited);
        Ok(Arc::new(api))
    }

    /// Begins the watches that are needed and not there.
    fn begin(&self, state: &mut State, places: &BTreeSet<Place>) {
        for post in places.iter().map(Post::of).collect::<BTreeSet<_>>() {
            let (client, version) = match &post.cluster {
                None => (self.home.clone(), HOME.to_owned()),
                Some(cluster) => match state.reached.get(cluster) {
                    Some(reached) => (reached.cluster.client(), reached.version.clone()),
                    // Nobody has been there yet; the watch begins when somebody goes there.
                    None => continue,
                },
            };
            if state.lookouts.is_watched(&post, &version) {
                continue;
            }
            let watching = watch(client, post.clone(), Arc::downgrade(&self.shared));
            let task = task::spawn("lookout", watching).abort_handle();
            state.lookouts.watch(post, Watch { version, task });
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, post: &Post, key: Option<&ObjectKey>) {
        let interested = self.state().lookouts.interested(post, key);
        for uid in interested {
            self.bell.ring(&uid);
        }
    }
}

fn remote_key(kubeconfig: &KubeconfigSource) -> RemoteKey {
    RemoteKey {
        namespace: kubeconfig.secret.namespace.clone().unwrap_or_default(),
        name: format!("{}/{}", kubeconfig.secret.name, kubeconfig.entry),
    }
}

async fn load(
    kubeconfig: &KubeconfigSource,
    home: &dyn ApiServer,
) -> Result<RemoteKubeconfig, Failure> {
    let body = home.get(&secret_kind(), &kubeconfig.secret).await?;
    let secret: Option<Secret> = body.and_then(|body| serde_json::from_value(body).ok());
    let mut data = secret.and_then(|secret| secret.data).unwrap_or_default();
    let missing = || Failure::terminal(reasons::FAILED, "it has no such key, or does not exist");
    let text = data.remove(&kubeconfig.entry).ok_or_else(missing)?;
    Ok(RemoteKubeconfig::from(text.0))
}

/// Rings for every change that somebody waits for, until nobody listens any more.
async fn watch(client: Client, post: Post, shared: Weak<Shared>) {
    let resource = post.kind.api_resource();
    let api: Api<PartialObjectMeta<DynamicObject>> = match &post.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let mut events = pin!(watcher(api, Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        match event {
            Ok(Event::Apply(object) | Event::Delete(object)) => {
                shared.ring(&post, Some(&ObjectKey::of(&object)));
            }
            // What changed while nobody watched, nobody knows.
            Ok(Event::InitDone) => shared.ring(&post, None),
            Ok(Event::Init | Event::InitApply(_)) => {}
            Err(error) => {
                tracing::warn!(kind = %post.kind, %error, "the watch failed and is started again");
            }
        }
    }
}

impl Elsewhere for OtherPlaces {
    fn reach<'a>(
        &'a self,
        kubeconfig: &'a KubeconfigSource,
        version: Option<&'a str>,
        home: &'a dyn ApiServer,
    ) -> BoxFuture<'a, Way> {
        Box::pin(self.connect(kubeconfig, version, home))
    }

    fn look_out(&self, uid: &str, places: &BTreeSet<Place>) {
        let mut state = self.shared.state();
        let State { lookouts, reached } = &mut *state;
        lookouts.wait(uid, places);
        reached.retain(|kubeconfig, _| {
            let is_needed = !lookouts.awaited_in(kubeconfig).is_empty();
            if !is_needed {
                self.remotes.remove(&remote_key(kubeconfig));
            }
            is_needed
        });
        self.begin(&mut state, places);
    }
}
