//! Pause: while a tenant cluster is paused Cluster API rests as well, and it goes on when the tenant cluster does.
//!
//! Both are decided purely. `spec.paused` of the Cluster is said under a field manager of its own. So the objects of `build`, which
//! say nothing of it, never take it back, and a pause that somebody else has set on the Cluster outlives ours.
//!
//! Must not: touch a Cluster of somebody else, nor anything of a cluster that is only looked at.

use butler_api::{
    butler::tenant_cluster::{ManagementMode, TenantCluster},
    cluster_api::cluster::Cluster,
    keys::{annotations, values},
};
use butler_runtime::{
    api_server::Part,
    cache::Cached,
    failure::Failure,
    object::{Kind, Manifest, ObjectKey},
    reconciler::Context,
};
use kube::ResourceExt;
use serde_json::json;

use super::{Effect, mode, related::Related, tenant_namespace};
use crate::{cluster_api::ClusterFacts, run::COMPONENT};

fn key_of(cluster: &TenantCluster) -> ObjectKey {
    ObjectKey::namespaced(tenant_namespace(cluster), cluster.name_any())
}

/// What has Cluster API rest with a tenant cluster that is paused; nothing once it does. `found` is the Cluster, if there is one.
pub(super) fn rest(
    cluster: &TenantCluster,
    found: Option<&Cached<ClusterFacts>>,
) -> Option<Effect> {
    let found = found.filter(|found| found.facts.owner == cluster.uid())?;
    let facts = &found.value;
    let rests = facts.rests_with_its_tenant && facts.paused.is_some();
    let is_ours = mode(cluster) != ManagementMode::Observe;
    (is_ours && !rests).then(|| Effect::Pause {
        key: key_of(cluster),
        uid: found.facts.uid.clone(),
    })
}

/// What has Cluster API go on with a tenant cluster that is not paused any more. It comes before anything is deleted: Cluster API
/// removes nothing that is paused.
pub(super) fn go_on(cluster: &TenantCluster, related: &Related) -> Option<Effect> {
    let found = related.cluster.as_ref()?;
    let is_ours = mode(cluster) != ManagementMode::Observe;
    (is_ours && found.facts.rests_with_its_tenant).then(|| Effect::GoOn {
        key: key_of(cluster),
        uid: found.uid.clone(),
    })
}

/// The Cluster of a paused tenant cluster, from the caches.
pub(super) fn look(cluster: &TenantCluster, context: &Context) -> Option<Effect> {
    let found = context.cache::<ClusterFacts>().get(&key_of(cluster));
    rest(cluster, found.as_deref())
}

/// Says of that very Cluster that it rests with its tenant, or takes back whatever was said of that.
pub(super) async fn perform(
    key: &ObjectKey,
    uid: &str,
    rests: bool,
    context: &Context,
) -> Result<(), Failure> {
    let mut body = json!({
        "metadata": { "name": key.name, "namespace": key.namespace, "uid": uid },
    });
    if rests {
        body["metadata"]["annotations"] = json!({ annotations::PAUSED: values::TRUE });
        body["spec"] = json!({ "paused": true });
    }
    let Manifest { kind, body, .. } = Manifest::new(Kind::of::<Cluster>(), body);
    let manager = format!("{COMPONENT}/tenantcluster/pause");
    let api = context.api();
    let applied = api.apply(&kind, key, Part::Object, &manager, body).await;
    applied.map(drop).map_err(Failure::from)
}

#[cfg(test)]
mod tests {
    use butler_api::keys::labels;
    use butler_runtime::cache::{Facts, Projection};
    use pretty_assertions::assert_eq;
    use serde_json::Value;

    use super::*;
    use crate::{
        tenant_cluster::{
            plan,
            scene::{UID, deleted, lines, ready, shop, world},
        },
        testing::at,
    };

    /// The Cluster of `shop`, made for an owner, with these parts.
    fn seen(owner: &str, annotations: &Value, spec: &Value) -> Cached<ClusterFacts> {
        let body = json!({
            "metadata": {
                "name": "shop", "namespace": "shop-0a1b2c3d", "uid": "uid of Cluster",
                "labels": { labels::OWNER_UID: owner }, "annotations": annotations,
            },
            "spec": spec,
        });
        Cached {
            facts: Facts::of(&body),
            value: ClusterFacts::project(body).unwrap(),
        }
    }

    fn by_butler() -> Value {
        json!({ annotations::PAUSED: "true" })
    }

    fn pause() -> Effect {
        Effect::Pause {
            key: ObjectKey::namespaced("shop-0a1b2c3d", "shop"),
            uid: "uid of Cluster".to_owned(),
        }
    }

    #[test]
    fn a_paused_cluster_has_cluster_api_rest_until_it_does() {
        let shop = shop(&json!({}));
        let running = seen(UID, &json!({}), &json!({}));
        assert_eq!(rest(&shop, Some(&running)), Some(pause()));
        let resting = seen(UID, &by_butler(), &json!({ "paused": true }));
        assert_eq!(rest(&shop, Some(&resting)), None);
        assert_eq!(rest(&shop, None), None, "nothing is made to be paused");
    }

    #[test]
    fn a_pause_that_somebody_takes_from_the_cluster_alone_is_set_again() {
        let meddled = seen(UID, &by_butler(), &json!({ "paused": false }));
        assert_eq!(rest(&shop(&json!({})), Some(&meddled)), Some(pause()));
    }

    #[test]
    fn a_pause_of_somebody_else_is_not_enough_since_it_may_end_before_ours() {
        let theirs = seen(UID, &json!({}), &json!({ "paused": true }));
        assert_eq!(rest(&shop(&json!({})), Some(&theirs)), Some(pause()));
    }

    #[test]
    fn a_cluster_of_somebody_else_and_one_that_is_only_looked_at_are_not_touched() {
        let foreign = seen("another", &json!({}), &json!({}));
        assert_eq!(rest(&shop(&json!({})), Some(&foreign)), None);
        let observed = shop(&json!({ "managementPolicy": { "mode": "Observe" } }));
        let running = seen(UID, &json!({}), &json!({}));
        assert_eq!(rest(&observed, Some(&running)), None);
        let mut related = ready();
        related.cluster.as_mut().unwrap().facts = resting();
        assert_eq!(go_on(&observed, &related), None);
    }

    fn resting() -> ClusterFacts {
        ClusterFacts {
            infrastructure_provisioned: true,
            ..seen(UID, &by_butler(), &json!({ "paused": true })).value
        }
    }

    /// The lines of a plan that say what is done, rather than what is said.
    fn deeds(plan: &str) -> String {
        let lines = plan.lines();
        let deeds: Vec<_> = lines
            .filter(|line| {
                let deeds = ["go on", "remove", "apply Cluster "];
                deeds.iter().any(|deed| line.starts_with(deed))
            })
            .collect();
        deeds.join("\n")
    }

    #[test]
    fn when_it_goes_on_so_does_cluster_api_with_what_changed_meanwhile() {
        let mut related = ready();
        related.cluster.as_mut().unwrap().facts = resting();
        let plan = plan::plan(&shop(&json!({})), &world(related), at(60));
        insta::assert_snapshot!(deeds(&lines(&plan)), @r"
        apply Cluster shop-0a1b2c3d/shop
        go on Cluster shop-0a1b2c3d/shop (uid of Cluster)
        ");
        let cluster = plan.apply.iter();
        let mut cluster = cluster.filter(|manifest| manifest.kind.kind == "Cluster");
        let cluster = cluster.next().unwrap();
        assert_eq!(cluster.body.pointer("/spec/paused"), None);
        let refused = shop(&json!({ "kubernetesVersion": "none" }));
        let mut related = ready();
        related.cluster.as_mut().unwrap().facts = resting();
        let plan = plan::plan(&refused, &world(related), at(60));
        insta::assert_snapshot!(deeds(&lines(&plan)), @"go on Cluster shop-0a1b2c3d/shop (uid of Cluster)");
    }

    #[test]
    fn one_that_was_deleted_meanwhile_goes_on_first_so_that_its_machines_can_go() {
        let mut related = ready();
        related.cluster.as_mut().unwrap().facts = resting();
        let plan = plan::plan(&deleted(shop(&json!({}))), &world(related), at(660));
        insta::assert_snapshot!(deeds(&lines(&plan)), @r"
        go on Cluster shop-0a1b2c3d/shop (uid of Cluster)
        remove MachineDeployment shop-0a1b2c3d/shop-workers (uid of MachineDeployment)
        ");
    }

    #[test]
    fn a_pause_that_somebody_else_set_holds_the_end_and_is_named() {
        let mut related = ready();
        related.cluster.as_mut().unwrap().facts = ClusterFacts {
            infrastructure_provisioned: true,
            ..seen(UID, &json!({}), &json!({ "paused": true })).value
        };
        let plan = plan::plan(&deleted(shop(&json!({}))), &world(related), at(660));
        let deleting = crate::tenant_cluster::scene::condition(&plan, "Deleting");
        insta::assert_snapshot!(deleting, @"True Deleting: Cluster API leaves the Cluster alone, since somebody paused it: set spec.paused of the Cluster shop-0a1b2c3d/shop to false to go on, since 1970-01-01T00:10:00Z");
    }
}
