//! `butlerctl cluster scale`.

use butler_api::{
    butler::tenant_cluster::{TenantCluster, WORKERS_POOL},
    name::ClusterName,
};
use clap::Args;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{
    Patience,
    follow::{Goal, follow},
    hold,
};
use crate::ctl::{error::Error, platform::Platform};

/// Flags of `butlerctl cluster scale`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of the cluster
    name: ClusterName,
    /// How many workers there shall be
    #[arg(long, short, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(0..))]
    workers: i32,
    /// The pool whose workers are meant
    #[arg(long, value_name = "NAME", default_value = WORKERS_POOL)]
    pool: String,
    #[command(flatten)]
    patience: Patience,
}

/// What is to be written, if anything. Guarded where a whole list is written.
fn patch(cluster: &TenantCluster, pool: &str, workers: i32) -> Result<Option<Value>, Error> {
    if pool == WORKERS_POOL {
        let differs = cluster.spec.workers.replicas != workers;
        return Ok(differs.then(|| json!({ "spec": { "workers": { "replicas": workers } } })));
    }
    let mut pools = cluster.spec.node_pools.clone();
    let Some(own) = pools.iter_mut().find(|found| found.name == pool) else {
        let names: Vec<_> = std::iter::once(WORKERS_POOL)
            .chain(pools.iter().map(|pool| pool.name.as_str()))
            .collect();
        return Err(Error::Usage(format!(
            "{} has no pool {pool}; it has {}",
            cluster.name_any(),
            names.join(", ")
        )));
    };
    if own.replicas == workers {
        return Ok(None);
    }
    own.replicas = workers;
    Ok(Some(json!({
        "metadata": { "resourceVersion": cluster.resource_version() },
        "spec": { "nodePools": pools },
    })))
}

/// Changes the number of workers, and waits for it.
pub(super) async fn scale(arguments: &Arguments, platform: &Platform) -> anyhow::Result<String> {
    let Arguments {
        name,
        workers,
        pool,
        patience,
    } = arguments;
    let name = name.as_str();
    let cluster = platform.cluster(name).await?;
    if let Some(why) = hold::from_changing(&cluster) {
        let (name, how) = (name.to_owned(), "is not scaled");
        return Err(Error::Stuck { name, how, why }.into());
    }
    let size = size(*workers, pool);
    let Some(patch) = patch(&cluster, pool, *workers)? else {
        return Ok(format!("{name} is to have {size} already.\n"));
    };
    platform.change(name, patch, "scale").await?;
    let Some(patience) = patience.time() else {
        return Ok(format!("{name} gets {size}.\n"));
    };
    let title = format!("Scaling {name} to {size}");
    Box::pin(follow(platform, name, Goal::Size, title, patience)).await?;
    Ok(format!("{name} has {size}.\n"))
}

/// So many workers of a pool, as one says it.
fn size(workers: i32, pool: &str) -> String {
    let count = match workers {
        1 => "1 worker".to_owned(),
        count => format!("{count} workers"),
    };
    if pool == WORKERS_POOL {
        count
    } else {
        format!("{count} in the pool {pool}")
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ctl::cluster::testing::cluster;

    #[test]
    fn the_plain_workers_and_those_of_a_pool_are_scaled() {
        let mut demo = cluster("True");
        let pools = json!([{ "name": "large", "replicas": 1 }, { "name": "small", "replicas": 1 }]);
        demo.spec.node_pools = serde_json::from_value(pools).unwrap();
        demo.metadata.resource_version = Some("7".to_owned());
        assert_eq!(patch(&demo, WORKERS_POOL, 2).unwrap(), None, "it is so");
        let plain = patch(&demo, WORKERS_POOL, 0).unwrap().unwrap();
        assert_eq!(plain, json!({ "spec": { "workers": { "replicas": 0 } } }));
        let large = patch(&demo, "large", 4).unwrap().unwrap();
        assert_eq!(large["metadata"]["resourceVersion"], "7");
        assert_eq!(large["spec"]["nodePools"][0]["replicas"], 4);
        assert_eq!(large["spec"]["nodePools"][1]["replicas"], 1);
        let unknown = patch(&demo, "huge", 1).unwrap_err().to_string();
        assert_eq!(
            unknown,
            "demo has no pool huge; it has workers, large, small"
        );
    }
}
