//! What a controller is: it observes, plans and performs effects. Everything else is the engine's.

use std::{
    fmt::{self, Debug},
    future::Future,
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::Timestamp;
use kube::{Resource, core::object::HasStatus};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    api_server::ApiServer,
    cache::{AnyStore, Cacheable, Cached, Caches, Owned, Projection, Store, Whole},
    engine::Verdict,
    failure::Failure,
    object::ObjectKey,
    plan::Plan,
};

/// What an object must be to be reconciled: a custom resource with a status.
pub trait Reconcilable:
    Cacheable + Resource<DynamicType = ()> + HasStatus + Serialize + DeserializeOwned + Clone + Debug
{
}
impl<K> Reconcilable for K where
    K: Cacheable
        + Resource<DynamicType = ()>
        + HasStatus
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug
{
}

/// A controller.
pub trait Reconciler: Send + Sync + 'static {
    /// Short name, in lower case: the field manager is `<component>/<name>`, and metrics and logs use it.
    const NAME: &'static str;
    /// Held on the object while there is something to tear down; `None` if deletion needs nothing from us.
    const FINALIZER: Option<&'static str> = None;
    /// Whether what is reconciled is another project's: the cluster may not serve the kind, and its objects are only looked at.
    /// There is no finalizer then, no status, and no word in it; what fails is told as an event.
    const FOREIGN: bool = false;

    /// What is reconciled.
    type Object: Reconcilable;
    /// What is shown.
    type Status: Serialize + Clone + Debug + PartialEq + Send + Sync;
    /// All that the plan depends on beside the object and the time.
    type World: Send + Sync;
    /// What server-side apply cannot do. Holds no secrets: plans are printed.
    type Effect: Serialize + Clone + Debug + PartialEq + Send + Sync;

    /// Whether an object is this controller's, asked before anything is written to it. Sees caches alone.
    fn claim(&self, object: &Self::Object, context: &Context) -> Claim {
        let _ = (object, context);
        Claim::Ours
    }

    /// Declares what is watched, and which of our objects a change concerns.
    fn sources(&self, sources: &mut Sources<'_, Self::Object>);

    /// Whether somebody paused the object by other means than Butler's own annotation, and if so, how to go on. Answered
    /// from caches alone; a paused object is left alone, its deletion included.
    fn paused(&self, _object: &Self::Object, _context: &Context) -> Option<String> {
        None
    }

    /// What is done for an object that is paused, so that others leave alone what belongs to it. Planned from caches alone, in
    /// every pass while it is paused: nothing, once it is done. To take it back when the object goes on is for
    /// [`plan`](Self::plan).
    fn rest(&self, object: &Self::Object, context: &Context) -> Vec<Self::Effect> {
        let _ = (object, context);
        Vec::new()
    }

    /// Reads the world. Caches cost nothing; API reads only where no cache can hold the answer.
    fn observe(
        &self,
        object: &Self::Object,
        context: &Context,
    ) -> impl Future<Output = Result<Self::World, Failure>> + Send;

    /// Decides. Pure: no client, no clock, no randomness; bad input is a status with a reason.
    fn plan(
        &self,
        object: &Self::Object,
        world: &Self::World,
        now: Timestamp,
    ) -> Plan<Self::Status, Self::Effect>;

    /// Whether an effect changes something outside of this process. One that does not, such as the start of a task, is due after
    /// every restart, and no reason to tell what was told before.
    fn leaves_a_mark(&self, effect: &Self::Effect) -> bool {
        let _ = effect;
        true
    }

    /// What must have gone well in the same pass before an effect is carried out.
    fn needs(&self, effect: &Self::Effect) -> Needs {
        let _ = effect;
        Needs::EarlierEffects
    }

    /// A pass over an object ended, well or not, and what becomes of the object is this: for numbers about single objects.
    fn passed(&self, key: &ObjectKey, verdict: Verdict, took: Duration) {
        let _ = (key, verdict, took);
    }

    /// Performs one effect, idempotently, keyed by the object's UID.
    fn perform(
        &self,
        object: &Self::Object,
        effect: &Self::Effect,
        context: &Context,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// What an effect builds upon, of all that the same plan does before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it is right whatever else failed.
    Nothing,
    /// The effects before it.
    EarlierEffects,
    /// All objects that are applied, and the effects before it.
    Everything,
}

/// Whose an object is, where several controllers share a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This controller's.
    Ours,
    /// That cannot be told yet: it is observed and its status may say so, but the finalizer is not put on it.
    Unclear,
    /// Another controller's: nothing is written, not even that it is paused.
    Foreign,
}

/// Wakes a controller for one of its objects when something outside of Kubernetes changed. It rings nowhere before the controller
/// is set up.
pub struct Bell<K: Reconcilable>(Arc<OnceLock<(Objects<K>, Enqueue)>>);

impl<K: Reconcilable> Bell<K> {
    /// Asks for a pass over the object with a UID; no such object, no pass.
    pub fn ring(&self, uid: &str) {
        if let Some((objects, enqueue)) = self.0.get()
            && let Some(key) = objects.key_of(uid)
        {
            enqueue(key);
        }
    }
}

impl<K: Reconcilable> Default for Bell<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Reconcilable> Clone for Bell<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Reconcilable> Debug for Bell<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Bell").finish_non_exhaustive()
    }
}

/// An effect that cannot be planned: for controllers whose whole work is applying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum NoEffect {}

/// What `observe` and `perform` may reach.
#[derive(Clone)]
pub struct Context {
    api: Arc<dyn ApiServer>,
    caches: Arc<Caches>,
}

impl Context {
    pub(crate) fn new(api: Arc<dyn ApiServer>, caches: Arc<Caches>) -> Self {
        Self { api, caches }
    }

    /// The API server. What is written through it is waited for in the caches before the next pass. What is applied or merged
    /// into the reconciled object itself is refused as a conflict if somebody changed it since the pass began.
    pub fn api(&self) -> &dyn ApiServer {
        self.api.as_ref()
    }

    /// All caches that [`Reconciler::sources`] declared.
    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    /// A cache that [`Reconciler::sources`] declared.
    pub fn cache<P: Projection>(&self) -> Arc<Store<P>> {
        self.caches.store()
    }
}

/// The cache of the objects a controller reconciles.
pub type Objects<K> = Arc<Store<Whole<K>>>;

/// Called with the key of an object that deserves a pass.
pub type Enqueue = Arc<dyn Fn(ObjectKey) + Send + Sync>;

/// Where a controller declares what it watches.
pub struct Sources<'a, K: Reconcilable> {
    caches: &'a Caches,
    objects: Objects<K>,
    enqueue: Enqueue,
    owned: Vec<Arc<dyn AnyStore>>,
    watched: Vec<Arc<dyn AnyStore>>,
}

/// The cache of a controller's objects, the caches of what it owns, and all caches it reads.
pub(crate) type Watched<K> = (Objects<K>, Vec<Arc<dyn AnyStore>>, Vec<Arc<dyn AnyStore>>);

impl<'a, K: Reconcilable> Sources<'a, K> {
    pub(crate) fn new(caches: &'a Caches, enqueue: Enqueue) -> Self {
        let objects = caches.store::<Whole<K>>();
        let changed = Arc::clone(&enqueue);
        objects.listen(move |change| changed(change.key.clone()));
        let itself: Arc<dyn AnyStore> = Arc::<Store<Whole<K>>>::clone(&objects);
        Self {
            caches,
            objects,
            enqueue,
            owned: Vec::new(),
            watched: vec![itself],
        }
    }

    pub(crate) fn into_parts(self) -> Watched<K> {
        (self.objects, self.owned, self.watched)
    }

    /// The bell wakes this controller. A bell that is heard already stays with whom it is heard by.
    pub fn hears(&mut self, bell: &Bell<K>) {
        let _ = bell
            .0
            .set((Arc::clone(&self.objects), Arc::clone(&self.enqueue)));
    }

    /// Objects of this kind are applied and pruned by this controller; plans read nothing of them.
    pub fn owns<C: Cacheable>(&mut self) {
        self.owns_as::<Owned<C>>();
    }

    /// Objects of this kind are applied and pruned by this controller, and plans read this of them. The projection must
    /// cover every object that carries our owner label.
    pub fn owns_as<P: Projection>(&mut self) {
        let store = self.caches.store::<P>();
        let objects = Arc::clone(&self.objects);
        let enqueue = Arc::clone(&self.enqueue);
        store.listen(move |change| {
            let owners = change
                .sides()
                .filter_map(|cached| cached.facts.owner.as_deref());
            owners
                .filter_map(|uid| objects.key_of(uid))
                .for_each(|key| enqueue(key));
        });
        let store: Arc<dyn AnyStore> = store;
        self.owned.push(Arc::clone(&store));
        self.watched.push(store);
    }

    /// Plans read this; `concerns` tells which of our objects a changed one matters to.
    pub fn reads<P: Projection>(
        &mut self,
        concerns: impl Fn(&Cached<P>, &Store<Whole<K>>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) {
        let objects = Arc::clone(&self.objects);
        let enqueue = Arc::clone(&self.enqueue);
        let store = self.caches.store::<P>();
        store.listen(move |change| {
            change
                .sides()
                .flat_map(|cached| concerns(cached, &objects))
                .for_each(|key| enqueue(key));
        });
        self.watched.push(store);
    }
}
