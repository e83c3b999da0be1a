//! What is shown of clusters. Functions of what was read, and of the time.

use std::fmt::Write as _;

use butler_api::butler::tenant_cluster::{TenantCluster, TenantClusterPhase};
use butler_controller::tenant_cluster::why::{Turn, Waiting};
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::output::{age::age, table::table};

const NOTHING: &str = "-";

/// The clusters of one namespace.
pub(super) fn table_of_one(clusters: &[TenantCluster], now: Timestamp) -> String {
    let rows = clusters.iter().map(|cluster| columns(cluster, now));
    table(
        ["NAME", "PHASE", "VERSION", "WORKERS", "ENDPOINT", "AGE"],
        rows,
    )
}

/// The clusters of all namespaces.
pub(super) fn table_of_all(clusters: &[TenantCluster], now: Timestamp) -> String {
    let rows = clusters.iter().map(|cluster| {
        let [name, phase, version, workers, endpoint, age] = columns(cluster, now);
        let namespace = cluster.namespace().unwrap_or_default();
        [namespace, name, phase, version, workers, endpoint, age]
    });
    let titles = [
        "NAMESPACE",
        "NAME",
        "PHASE",
        "VERSION",
        "WORKERS",
        "ENDPOINT",
        "AGE",
    ];
    table(titles, rows)
}

/// Clusters with where they run.
pub(super) fn wide_table(clusters: &[TenantCluster], now: Timestamp) -> String {
    let rows = clusters.iter().map(|cluster| {
        let [name, phase, version, workers, endpoint, age] = columns(cluster, now);
        let namespace = cluster.namespace().unwrap_or_default();
        let status = cluster.status.as_ref();
        let place = status.and_then(|status| status.tenant_namespace.clone());
        [
            namespace,
            name,
            phase,
            version,
            workers,
            endpoint,
            provider(cluster),
            place.unwrap_or_else(|| NOTHING.to_owned()),
            age,
        ]
    });
    let titles = [
        "NAMESPACE",
        "NAME",
        "PHASE",
        "VERSION",
        "WORKERS",
        "ENDPOINT",
        "PROVIDER",
        "TENANT NAMESPACE",
        "AGE",
    ];
    table(titles, rows)
}

/// What is said when there is nothing to list.
pub(super) fn none(namespace: &str, everywhere: bool) -> String {
    let place = if everywhere {
        "on this platform".to_owned()
    } else {
        format!("in the namespace {namespace}")
    };
    format!("There are no clusters {place}. \"butlerctl cluster create NAME\" creates one.\n")
}

fn columns(cluster: &TenantCluster, now: Timestamp) -> [String; 6] {
    [
        cluster.name_any(),
        phase(cluster),
        version(cluster),
        workers(cluster),
        endpoint(cluster),
        since_creation(cluster, now),
    ]
}

/// The word for where a cluster is in its life.
pub(super) fn phase(cluster: &TenantCluster) -> String {
    let phase = cluster.status.as_ref().and_then(|status| status.phase);
    // Who deletes it knows before its controller says so.
    if cluster.metadata.deletion_timestamp.is_some() {
        return format!("{:?}", TenantClusterPhase::Deleting);
    }
    phase.map_or_else(|| NOTHING.to_owned(), |phase| format!("{phase:?}"))
}

/// The version, and where it is going.
fn version(cluster: &TenantCluster) -> String {
    let wished = &cluster.spec.kubernetes_version;
    let wished = format!("v{}", wished.trim_start_matches('v'));
    let status = cluster.status.as_ref();
    let versions = status.and_then(|status| status.versions.as_ref());
    let oldest = versions.and_then(|versions| {
        let workers = versions.oldest_worker.as_ref();
        workers.or(versions.control_plane.as_ref())
    });
    match oldest {
        Some(oldest) if *oldest != wished => format!("{oldest} -> {wished}"),
        _ => wished,
    }
}

fn workers(cluster: &TenantCluster) -> String {
    let status = cluster.status.clone().unwrap_or_default();
    let pools = cluster.spec.node_pools.iter().map(|pool| pool.replicas);
    let wished = cluster.spec.workers.replicas + pools.sum::<i32>();
    let desired = status.worker_nodes_desired.unwrap_or(wished);
    let ready = status.worker_nodes_ready.unwrap_or_default();
    format!("{ready}/{desired}")
}

fn endpoint(cluster: &TenantCluster) -> String {
    let status = cluster.status.as_ref();
    let endpoint = status.and_then(|status| status.control_plane_endpoint.clone());
    endpoint.unwrap_or_else(|| NOTHING.to_owned())
}

fn provider(cluster: &TenantCluster) -> String {
    let status = cluster.status.as_ref();
    let settled = status.and_then(|status| status.provider_config_ref.as_ref());
    let provider = settled.or(cluster.spec.provider_config_ref.as_ref());
    provider.map_or_else(|| NOTHING.to_owned(), |provider| provider.name.clone())
}

fn since_creation(cluster: &TenantCluster, now: Timestamp) -> String {
    let created = cluster.creation_timestamp();
    created.map_or_else(|| NOTHING.to_owned(), |created| age(created.0, now))
}

/// Everything about one cluster that people ask for.
pub(super) fn details(cluster: &TenantCluster, now: Timestamp) -> String {
    let status = cluster.status.clone().unwrap_or_default();
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
    let mut facts = vec![
        ("Name", cluster.name_any()),
        ("Namespace", or_nothing(cluster.namespace())),
        ("Phase", phase(cluster)),
        ("Version", version(cluster)),
        ("Workers", format!("{} ready", workers(cluster))),
        ("Endpoint", endpoint(cluster)),
        ("Provider", provider(cluster)),
        (
            "Tenant namespace",
            or_nothing(status.tenant_namespace.clone()),
        ),
        ("Age", since_creation(cluster, now)),
    ];
    if let Some(team) = &cluster.spec.team_ref {
        facts.insert(2, ("Team", team.name.clone()));
    }
    let mut text = String::new();
    for (title, fact) in facts {
        let title = format!("{title}:");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{title:<18}{fact}");
    }
    if status.node_pools.len() > 1 {
        let rows = status.node_pools.iter().map(|pool| {
            let version = pool.version.clone();
            let ready = format!("{}/{}", pool.ready, pool.desired);
            [pool.name.clone(), ready, or_nothing(version)]
        });
        text += "\n";
        text += &table(["POOL", "READY", "VERSION"], rows);
    }
    if !status.conditions.is_empty() {
        let rows = status.conditions.iter().map(|condition| {
            let since = age(condition.last_transition_time.0, now);
            [
                condition.type_.clone(),
                condition.status.clone(),
                since,
                condition.reason.clone(),
                condition.message.clone(),
            ]
        });
        let titles = ["CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"];
        text += "\n";
        text += &table(titles, rows);
    }
    text
}

/// The same, with how long each stage took on the way to the first time that the cluster was ready.
pub(super) fn more_details(cluster: &TenantCluster, now: Timestamp) -> String {
    let mut text = details(cluster, now);
    let stages = cluster.status.iter().flat_map(|status| &status.stages);
    let mut rows = stages
        .map(|stage| {
            let began = stage.started_at.0;
            let took = match &stage.finished_at {
                Some(finished) => age(began, finished.0),
                None => format!("{} so far", age(began, now)),
            };
            [format!("{:?}", stage.name), took]
        })
        .peekable();
    if rows.peek().is_some() {
        text += "\n";
        text += &table(["STAGE", "TOOK"], rows);
    }
    text
}

/// What a cluster waits for.
pub(super) fn why(cluster: &TenantCluster, waits: &[Waiting], now: Timestamp) -> String {
    let name = cluster.name_any();
    let phase = phase(cluster);
    if waits.is_empty() {
        let unseen = cluster
            .status
            .as_ref()
            .is_none_or(|status| status.phase.is_none());
        return if unseen {
            format!("{name} is new: nobody has looked at it yet. Is butler-controller running?\n")
        } else {
            format!("{name} is {phase} and waits for nothing.\n")
        };
    }
    let mut text = format!("{name} is {phase} and waits for:\n");
    for waiting in waits {
        let since = waiting
            .since
            .map(|since| format!(", for {}", age(since, now)));
        let since = since.unwrap_or_default();
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "\n  {} ({}{since})", waiting.what, waiting.reason);
        if !waiting.why.is_empty() {
            let _ = writeln!(text, "    {}", waiting.why);
        }
        if let Some(what_to_do) = &waiting.what_to_do {
            let _ = writeln!(text, "    What to do: {what_to_do}");
        } else if waiting.turn == Turn::Person {
            text += "    It does not go on by itself.\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::ctl::cluster::{
        testing::{cluster, deleting, new, now, upgrading, waiting_for_workers},
        waits::waits,
    };

    #[test]
    fn clusters_are_listed_with_what_people_look_for() {
        let all = [
            cluster("True"),
            new(),
            upgrading(),
            waiting_for_workers(),
            deleting(),
        ];
        assert_snapshot!(table_of_one(&all, now()));
        assert_snapshot!(table_of_all(&all[..2], now()));
        assert_snapshot!(none("butler-tenants", false), @r#"There are no clusters in the namespace butler-tenants. "butlerctl cluster create NAME" creates one."#);
    }

    #[test]
    fn one_cluster_is_shown_with_its_conditions() {
        assert_snapshot!(details(&cluster("True"), now()));
        assert_snapshot!(details(&waiting_for_workers(), now()));
    }

    #[test]
    fn who_wants_to_know_more_is_told_where_it_runs_and_how_long_it_took() {
        let mut demo = waiting_for_workers();
        let stages = serde_json::json!([
            { "name": "ControlPlane", "startedAt": "2026-03-01T11:52:00Z", "finishedAt": "2026-03-01T11:52:40Z" },
            { "name": "Workers", "startedAt": "2026-03-01T11:52:40Z" },
        ]);
        demo.status.as_mut().unwrap().stages = serde_json::from_value(stages).unwrap();
        let text = more_details(&demo, now());
        let stages = text.rsplit("\n\n").next().unwrap();
        assert_snapshot!(stages, @r"
        STAGE          TOOK
        ControlPlane   40s
        Workers        7m so far
        ");
        assert_snapshot!(wide_table(&[cluster("True"), new()], now()), @r"
        NAMESPACE        NAME   PHASE   VERSION   WORKERS   ENDPOINT          PROVIDER   TENANT NAMESPACE   AGE
        butler-tenants   demo   Ready   v1.36.3   2/2       172.30.8.4:6443   local      demo-1a2b3c4d      8m
        butler-tenants   demo   -       v1.36.3   0/2       -                 -          -                  8m
        ");
    }

    #[test]
    fn why_says_what_is_waited_for_and_since_when() {
        let why = |cluster: &TenantCluster| why(cluster, &waits(cluster), now());
        assert_snapshot!(why(&waiting_for_workers()));
        assert_snapshot!(why(&deleting()));
        assert_snapshot!(why(&cluster("True")), @"demo is Ready and waits for nothing.");
        assert_snapshot!(why(&new()), @"demo is new: nobody has looked at it yet. Is butler-controller running?");
    }
}
