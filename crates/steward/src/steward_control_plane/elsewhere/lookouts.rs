//! Who waits for which objects, and the watches that follow from it: one for each kind of a cluster, as long as somebody waits.

use std::collections::{BTreeMap, BTreeSet};

use butler_runtime::object::{Kind, ObjectKey};
use tokio::task::AbortHandle;

use super::{KubeconfigSource, Place};

/// What one watch is about. In another cluster we may be allowed to look into one namespace alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Post {
    pub(super) cluster: Option<KubeconfigSource>,
    pub(super) kind: Kind,
    pub(super) namespace: Option<String>,
}

impl Post {
    /// The post from which an object is seen.
    pub(super) fn of(place: &Place) -> Self {
        let namespace = place.key.namespace.clone();
        Self {
            cluster: place.cluster.clone(),
            kind: place.kind.clone(),
            namespace: namespace.filter(|_| place.cluster.is_some()),
        }
    }
}

/// A running watch; it ends when this goes.
pub(super) struct Watch {
    /// The kubeconfig it was begun with.
    pub(super) version: String,
    pub(super) task: AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Who waits for what.
#[derive(Default)]
pub(super) struct Lookouts {
    waiting: BTreeMap<String, BTreeSet<Place>>,
    watches: BTreeMap<Post, Watch>,
}

impl Lookouts {
    /// Notes that somebody waits for these objects alone, and ends the watches that nobody needs any more.
    pub(super) fn wait(&mut self, uid: &str, places: &BTreeSet<Place>) {
        if places.is_empty() {
            self.waiting.remove(uid);
        } else {
            self.waiting.insert(uid.to_owned(), places.clone());
        }
        let needed: BTreeSet<_> = self.waiting.values().flatten().map(Post::of).collect();
        self.watches.retain(|post, _| needed.contains(post));
    }

    /// What somebody waits for in a cluster.
    pub(super) fn awaited_in(&self, cluster: &KubeconfigSource) -> BTreeSet<Place> {
        let places = self.waiting.values().flatten();
        places
            .filter(|place| place.cluster.as_ref() == Some(cluster))
            .cloned()
            .collect()
    }

    /// Whether a post is watched with this version of its kubeconfig.
    pub(super) fn is_watched(&self, post: &Post, version: &str) -> bool {
        let watch = self.watches.get(post);
        watch.is_some_and(|watch| watch.version == version)
    }

    /// Notes a watch; one that was there ends.
    pub(super) fn watch(&mut self, post: Post, watch: Watch) {
        self.watches.insert(post, watch);
    }

    /// Who waits for an object that a post sees; for any of them, if none is named.
    pub(super) fn interested(&self, post: &Post, key: Option<&ObjectKey>) -> Vec<String> {
        let concerns =
            |place: &Place| Post::of(place) == *post && key.is_none_or(|key| *key == place.key);
        let waiting = self.waiting.iter();
        waiting
            .filter(|(_, places)| places.iter().any(concerns))
            .map(|(uid, _)| uid.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use butler_api::steward::tenant_control_plane::TenantControlPlane;

    use super::*;

    fn place(cluster: Option<&str>, namespace: &str, name: &str) -> Place {
        Place {
            cluster: cluster.map(|secret| KubeconfigSource {
                secret: ObjectKey::namespaced("payments", secret),
                entry: "kubeconfig".to_owned(),
            }),
            kind: Kind::of::<TenantControlPlane>(),
            key: ObjectKey::namespaced(namespace, name),
        }
    }

    #[test]
    fn a_change_wakes_those_alone_who_wait_for_it() {
        let mut lookouts = Lookouts::default();
        let shop = place(None, "payments", "shop");
        let bank = place(None, "finance", "bank");
        lookouts.wait("1", &[shop.clone()].into());
        lookouts.wait("2", &[bank.clone()].into());
        let post = Post::of(&shop);
        assert_eq!(post, Post::of(&bank), "one watch for all namespaces");
        assert_eq!(lookouts.interested(&post, Some(&shop.key)), ["1"]);
        assert_eq!(lookouts.interested(&post, None), ["1", "2"]);
    }

    #[test]
    fn another_cluster_is_watched_namespace_by_namespace() {
        let mut lookouts = Lookouts::default();
        let shop = place(Some("east"), "hosted", "shop");
        lookouts.wait("1", &[shop.clone()].into());
        let cluster = shop.cluster.as_ref().unwrap();
        assert_eq!(lookouts.awaited_in(cluster), BTreeSet::from([shop.clone()]));
        assert_eq!(Post::of(&shop).namespace.as_deref(), Some("hosted"));
        let west = place(Some("west"), "hosted", "shop");
        assert!(lookouts.interested(&Post::of(&west), None).is_empty());
    }

    #[tokio::test]
    async fn a_watch_ends_with_the_last_who_needs_it() {
        let mut lookouts = Lookouts::default();
        let shop = place(Some("east"), "hosted", "shop");
        let places = [shop.clone()].into();
        lookouts.wait("1", &places);
        lookouts.wait("2", &places);
        let task = butler_runtime::task::spawn("lookout", std::future::pending::<()>());
        let watch = Watch {
            version: "7".to_owned(),
            task: task.abort_handle(),
        };
        lookouts.watch(Post::of(&shop), watch);
        lookouts.wait("1", &BTreeSet::new());
        assert!(lookouts.is_watched(&Post::of(&shop), "7"));
        assert!(
            !lookouts.is_watched(&Post::of(&shop), "8"),
            "a new kubeconfig"
        );
        lookouts.wait("2", &BTreeSet::new());
        assert!(task.await.unwrap_err().is_cancelled());
    }
}
