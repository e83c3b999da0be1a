//! Caches: what controllers remember of the objects they read.
//!
//! A cache is a *projection*: it keeps what plans read, not whole objects, and of `managedFields` a hash. The same stores are
//! fed by watches on a real API server ([`crate::watch`]) and by the simulator, which delays events to make them stale.

use std::{
    any::{Any, TypeId, type_name},
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use butler_api::keys::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    api_server::Part,
    fields::{IntentHash, ManagedHash, managed_hashes},
    object::{Kind, ObjectKey, text},
};

/// How much of an object is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// Everything.
    Objects,
    /// `metadata` alone: for Secrets, and for what is only counted.
    Metadata,
}

/// What is remembered of the objects of one kind.
pub trait Projection: Sized + Send + Sync + 'static {
    /// How much is fetched.
    const FETCH: Fetch = Fetch::Objects;
    /// Which objects are fetched; all if absent.
    const LABELS: Option<&'static str> = None;
    /// The name of the only object that is fetched; all if absent.
    const NAME: Option<&'static str> = None;
    /// Whether the cluster may not serve the kind, such as Cluster API's before it is installed. While it does not, the cache
    /// is empty and in sync, and the kind is looked for again; a kind that is not optional is waited for.
    const OPTIONAL: bool = false;

    /// The kind.
    fn kind() -> Kind;

    /// Takes what is needed out of an object. An error makes the object *malformed*; the others are not affected.
    fn project(object: Value) -> Result<Self, serde_json::Error>;
}

/// A kind of object that can be cached whole.
pub trait Cacheable:
    Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static
{
}
impl<K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static>
    Cacheable for K
{
}

/// The whole object, but for `managedFields`.
#[derive(Clone, Debug)]
pub struct Whole<K>(pub K);

impl<K: Cacheable> Projection for Whole<K> {
    fn kind() -> Kind {
        Kind::of::<K>()
    }

    fn project(mut object: Value) -> Result<Self, serde_json::Error> {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        serde_path_to_error::deserialize(object)
            .map(Self)
            .map_err(with_path)
    }
}

/// The same error with the field it is about.
fn with_path(error: serde_path_to_error::Error<serde_json::Error>) -> serde_json::Error {
    let path = error.path().to_string();
    let error = error.into_inner();
    // At the root, the path is a mere dot.
    if path == "." {
        error
    } else {
        serde_json::Error::custom(format!("{path}: {error}"))
    }
}

/// The metadata of any object of a kind.
#[derive(Clone, Debug)]
pub struct Metadata<K> {
    /// Without `managedFields`.
    pub metadata: ObjectMeta,
    kind: PhantomData<fn() -> K>,
}

impl<K: Cacheable> Projection for Metadata<K> {
    const FETCH: Fetch = Fetch::Metadata;

    fn kind() -> Kind {
        Kind::of::<K>()
    }

    fn project(mut object: Value) -> Result<Self, serde_json::Error> {
        let mut metadata: ObjectMeta = serde_json::from_value(object["metadata"].take())?;
        metadata.managed_fields = None;
        Ok(Self {
            metadata,
            kind: PhantomData,
        })
    }
}

/// That an object which some controller of ours applied exists, and nothing more.
#[derive(Clone, Debug)]
pub struct Owned<K>(PhantomData<fn() -> K>);

impl<K: Cacheable> Projection for Owned<K> {
    const FETCH: Fetch = Fetch::Objects;
    const LABELS: Option<&'static str> = Some(labels::OWNER_UID);

    fn kind() -> Kind {
        Kind::of::<K>()
    }

    fn project(_: Value) -> Result<Self, serde_json::Error> {
        Ok(Self(PhantomData))
    }
}

/// What the engine itself needs to know of every cached object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its key.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// Its version as cached.
    pub resource_version: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// UID of the object it was applied for.
    pub owner: Option<String>,
    managed: Vec<ManagedHash>,
}

impl Facts {
    /// What is known of an object from its body.
    pub fn of(object: &Value) -> Self {
        Self {
            key: ObjectKey::in_body(object),
            uid: text(object, "/metadata/uid").unwrap_or_default().to_owned(),
            resource_version: text(object, "/metadata/resourceVersion")
                .unwrap_or_default()
                .to_owned(),
            deleting: text(object, "/metadata/deletionTimestamp").is_some(),
            owner: object
                .pointer("/metadata/labels")
                .and_then(|labels| labels.get(labels::OWNER_UID))
                .and_then(Value::as_str)
                .map(str::to_owned),
            managed: managed_hashes(object),
        }
    }

    /// The hash of what a manager applied to a part, if it did.
    pub fn applied(&self, manager: &str, part: Part) -> Option<IntentHash> {
        self.managed
            .iter()
            .find(|entry| entry.part == part && entry.manager == manager)
            .map(|entry| entry.hash)
    }
}

/// A cached object.
#[derive(Clone, Debug)]
pub struct Cached<P> {
    /// What the engine needs.
    pub facts: Facts,
    /// What the controller needs.
    pub value: P,
}

/// An object that does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What is known of it all the same.
    pub facts: Facts,
    /// Where and why it does not fit.
    pub error: String,
    /// Its status as it stands.
    pub status: Value,
}

/// A change of a cache.
#[derive(Debug)]
pub struct Change<P> {
    /// Which object.
    pub key: ObjectKey,
    /// What was cached before.
    pub before: Option<Arc<Cached<P>>>,
    /// What is cached now.
    pub after: Option<Arc<Cached<P>>>,
}

impl<P> Change<P> {
    /// The object before and after, as far as there is one.
    pub fn sides(&self) -> impl Iterator<Item = &Cached<P>> {
        self.before.iter().chain(&self.after).map(AsRef::as_ref)
    }
}

/// News from a watch.
#[derive(Clone, Debug)]
pub enum Delta {
    /// An object was added or changed.
    Upsert(Value),
    /// An object is gone; the body is its last state.
    Delete(Value),
    /// All objects that exist: the watch began, or began anew.
    Reset(Vec<Value>),
    /// The same when the objects themselves came one by one before: what is not among these keys is gone.
    Complete(BTreeSet<ObjectKey>),
}

type Listener<P> = Box<dyn Fn(&Change<P>) + Send + Sync>;

/// The cached objects of one kind.
pub struct Store<P> {
    contents: RwLock<Contents<P>>,
    listeners: RwLock<Vec<Listener<P>>>,
    synced: watch::Sender<bool>,
    may_be_absent: AtomicBool,
}

struct Contents<P> {
    objects: BTreeMap<ObjectKey, Arc<Cached<P>>>,
    malformed: BTreeMap<ObjectKey, Malformed>,
    by_uid: BTreeMap<String, ObjectKey>,
    by_owner: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// The newest version any event has carried.
    newest: u64,
}

impl<P> Default for Contents<P> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            malformed: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            newest: 0,
        }
    }
}

impl<P> Default for Store<P> {
    fn default() -> Self {
        Self {
            contents: RwLock::default(),
            listeners: RwLock::default(),
            synced: watch::Sender::new(false),
            may_be_absent: AtomicBool::new(false),
        }
    }
}

// A panic while holding one of these locks leaves the maps whole, so a poisoned lock is still good.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}
fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl<P: Projection> Store<P> {
    /// The object of a key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Cached<P>>> {
        read(&self.contents).objects.get(key).cloned()
    }

    /// All objects, in the order of their keys.
    pub fn list(&self) -> Vec<Arc<Cached<P>>> {
        read(&self.contents).objects.values().cloned().collect()
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.keys_where(|_| true)
    }

    /// The keys of the objects that `matches`.
    pub fn keys_where(&self, matches: impl Fn(&Cached<P>) -> bool) -> Vec<ObjectKey> {
        let contents = read(&self.contents);
        let matching = contents
            .objects
            .iter()
            .filter(|(_, cached)| matches(cached));
        matching.map(|(key, _)| key.clone()).collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        read(&self.contents).objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key of the object with a UID.
    pub fn key_of(&self, uid: &str) -> Option<ObjectKey> {
        read(&self.contents).by_uid.get(uid).cloned()
    }

    /// Why the object of a key does not fit its type, if it does not.
    pub fn malformed(&self, key: &ObjectKey) -> Option<Malformed> {
        read(&self.contents).malformed.get(key).cloned()
    }

    /// From now on the cluster may not serve the kind, as if the projection had said so.
    pub(crate) fn may_be_absent(&self) {
        self.may_be_absent.store(true, Ordering::Relaxed);
    }

    /// Calls back on every change.
    pub fn listen(&self, listener: impl Fn(&Change<P>) + Send + Sync + 'static) {
        write(&self.listeners).push(Box::new(listener));
    }

    fn put(&self, body: Value) -> Option<Change<P>> {
        let facts = Facts::of(&body);
        let key = facts.key.clone();
        let status = body.get("status").cloned().unwrap_or_default();
        let projected = P::project(body);
        let mut contents = write(&self.contents);
        contents.saw(&facts.resource_version);
        if contents.version(&key) == Some(facts.resource_version.as_str()) {
            return None;
        }
        let before = contents.remove(&key);
        let after = match projected {
            Ok(value) => {
                let cached = Arc::new(Cached { facts, value });
                contents.insert(Arc::clone(&cached));
                Some(cached)
            }
            Err(error) => {
                let error = error.to_string();
                contents.malformed.insert(
                    key.clone(),
                    Malformed {
                        facts,
                        error,
                        status,
                    },
                );
                None
            }
        };
        Some(Change { key, before, after })
    }

    fn take(&self, key: ObjectKey, version: Option<&str>) -> Option<Change<P>> {
        let mut contents = write(&self.contents);
        if let Some(version) = version {
            contents.saw(version);
        }
        let known = contents.version(&key).is_some();
        let before = contents.remove(&key);
        known.then_some(Change {
            key,
            before,
            after: None,
        })
    }

    fn keep_only(&self, present: &BTreeSet<ObjectKey>) -> Vec<Change<P>> {
        let gone: Vec<_> = {
            let contents = read(&self.contents);
            let known = contents.objects.keys().chain(contents.malformed.keys());
            known
                .filter(|key| !present.contains(*key))
                .cloned()
                .collect()
        };
        gone.into_iter()
            .filter_map(|key| self.take(key, None))
            .collect()
    }
}

impl<P> Contents<P> {
    fn saw(&mut self, resource_version: &str) {
        self.newest = self.newest.max(revision(resource_version));
    }

    fn version(&self, key: &ObjectKey) -> Option<&str> {
        let facts = self.objects.get(key).map(|cached| &cached.facts);
        let facts = facts.or_else(|| self.malformed.get(key).map(|malformed| &malformed.facts));
        facts.map(|facts| facts.resource_version.as_str())
    }

    fn insert(&mut self, cached: Arc<Cached<P>>) {
        let facts = &cached.facts;
        self.by_uid.insert(facts.uid.clone(), facts.key.clone());
        if let Some(owner) = &facts.owner {
            self.by_owner
                .entry(owner.clone())
                .or_default()
                .insert(facts.key.clone());
        }
        self.objects.insert(facts.key.clone(), cached);
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Cached<P>>> {
        self.malformed.remove(key);
        let cached = self.objects.remove(key)?;
        self.by_uid.remove(&cached.facts.uid);
        if let Some(owner) = &cached.facts.owner
            && let Some(keys) = self.by_owner.get_mut(owner)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_owner.remove(owner);
            }
        }
        Some(cached)
    }
}

/// Resource versions of one API server grow; an unreadable one counts as the oldest.
pub(crate) fn revision(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}

/// A store whose projection is not known: what watches, the engine and readiness need of it.
pub trait AnyStore: Send + Sync {
    /// The kind.
    fn kind(&self) -> Kind;
    /// How much is fetched.
    fn fetch(&self) -> Fetch;
    /// Which objects are fetched.
    fn labels(&self) -> Option<&'static str>;
    /// The name of the only object that is fetched.
    fn name(&self) -> Option<&'static str>;
    /// Whether the cluster may not serve the kind.
    fn is_optional(&self) -> bool;
    /// Takes in news and tells the listeners.
    fn ingest(&self, delta: Delta);
    /// Becomes true with the first complete list.
    fn synced(&self) -> watch::Receiver<bool>;
    /// The newest version any event has carried.
    fn newest(&self) -> u64;
    /// What is known of an object.
    fn facts(&self, key: &ObjectKey) -> Option<Facts>;
    /// What is known of the objects applied for an owner.
    fn owned_by(&self, owner: &str) -> Vec<Facts>;
    /// For getting the typed store back.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<P: Projection> AnyStore for Store<P> {
    fn kind(&self) -> Kind {
        P::kind()
    }

    fn fetch(&self) -> Fetch {
        P::FETCH
    }

    fn labels(&self) -> Option<&'static str> {
        P::LABELS
    }

    fn name(&self) -> Option<&'static str> {
        P::NAME
    }

    fn is_optional(&self) -> bool {
        P::OPTIONAL || self.may_be_absent.load(Ordering::Relaxed)
    }

    fn ingest(&self, delta: Delta) {
        let complete = matches!(delta, Delta::Reset(_) | Delta::Complete(_));
        let changes = match delta {
            Delta::Upsert(body) => self.put(body).into_iter().collect(),
            Delta::Delete(body) => {
                let version = text(&body, "/metadata/resourceVersion");
                self.take(ObjectKey::in_body(&body), version)
                    .into_iter()
                    .collect()
            }
            Delta::Reset(bodies) => {
                let mut changes = self.keep_only(&bodies.iter().map(ObjectKey::in_body).collect());
                changes.extend(bodies.into_iter().filter_map(|body| self.put(body)));
                changes
            }
            Delta::Complete(present) => self.keep_only(&present),
        };
        if complete {
            self.synced.send_replace(true);
        }
        for change in &changes {
            for listener in read(&self.listeners).iter() {
                listener(change);
            }
        }
    }

    fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    fn newest(&self) -> u64 {
        read(&self.contents).newest
    }

    fn facts(&self, key: &ObjectKey) -> Option<Facts> {
        let contents = read(&self.contents);
        let cached = contents.objects.get(key).map(|cached| cached.facts.clone());
        cached.or_else(|| {
            contents
                .malformed
                .get(key)
                .map(|malformed| malformed.facts.clone())
        })
    }

    fn owned_by(&self, owner: &str) -> Vec<Facts> {
        let contents = read(&self.contents);
        let keys = contents.by_owner.get(owner).into_iter().flatten();
        keys.filter_map(|key| contents.objects.get(key))
            .map(|cached| cached.facts.clone())
            .collect()
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Tells projections apart: by name first, so that their order does not depend on the build.
type ProjectionId = (&'static str, TypeId);

/// All caches of a process: one store, and so one watch, per projection, however many controllers read it.
#[derive(Default)]
pub struct Caches {
    stores: RwLock<BTreeMap<ProjectionId, Arc<dyn AnyStore>>>,
}

impl Caches {
    /// The store of a projection, made at the first call.
    pub fn store<P: Projection>(&self) -> Arc<Store<P>> {
        let mut stores = write(&self.stores);
        let store = stores
            .entry((type_name::<P>(), TypeId::of::<P>()))
            .or_insert_with(|| Arc::new(Store::<P>::default()));
        // The key is the projection's own type, so the downcast holds.
        Arc::clone(store).into_any().downcast().unwrap_or_default()
    }

    /// Every store.
    pub fn all(&self) -> Vec<Arc<dyn AnyStore>> {
        read(&self.stores).values().map(Arc::clone).collect()
    }
}
