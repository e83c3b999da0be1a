//! The way to what no cache of this process holds: other clusters, and kinds of infrastructure that are known by name alone.
//!
//! [`Elsewhere`] is the port, [`OtherPlaces`] what stands behind it in a running process.

mod lookouts;
mod places;

use std::{collections::BTreeSet, sync::Arc};

use butler_runtime::{
    api_server::ApiServer,
    object::{Kind, ObjectKey},
};
use futures::future::BoxFuture;

pub use places::OtherPlaces;

/// A kubeconfig in a Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubeconfigSource {
    /// The Secret.
    pub secret: ObjectKey,
    /// The entry that holds it.
    pub entry: String,
}

/// An object that no cache holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The cluster it is in; the management cluster if absent.
    pub cluster: Option<KubeconfigSource>,
    /// Its kind.
    pub kind: Kind,
    /// Its key.
    pub key: ObjectKey,
}

/// The way to a cluster: its API server, or in a sentence why there is none and what to do.
pub type Way = Result<Arc<dyn ApiServer>, String>;

/// A way to what no cache holds.
pub trait Elsewhere: Send + Sync + 'static {
    /// The API server of the cluster that a kubeconfig leads to. `version` is that of the Secret, if it is there; `home` is
    /// where it is read, which is done once for each version.
    fn reach<'a>(
        &'a self,
        kubeconfig: &'a KubeconfigSource,
        version: Option<&'a str>,
        home: &'a dyn ApiServer,
    ) -> BoxFuture<'a, Way>;

    /// From now on, a change of these objects, and of no others, wakes the control plane with this UID. Said before they are
    /// read, so that no change is missed; of another cluster, it holds from when the cluster is reached.
    fn look_out(&self, uid: &str, places: &BTreeSet<Place>);
}

/// Nothing is elsewhere: for tests, and for a process without a way to other clusters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Elsewhere for Nowhere {
    fn reach<'a>(
        &'a self,
        _: &'a KubeconfigSource,
        _: Option<&'a str>,
        _: &'a dyn ApiServer,
    ) -> BoxFuture<'a, Way> {
        Box::pin(async { Err("this process has no way to other clusters".to_owned()) })
    }

    fn look_out(&self, _: &str, _: &BTreeSet<Place>) {}
}
