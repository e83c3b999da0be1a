//! Cases about load balancers.

use butler_api::butler::load_balancer_request::LoadBalancerTarget;
use futures::FutureExt as _;

use super::{
    Case, Subject,
    bench::{Bench, Trouble, must},
};
use crate::provider::Provider as _;

pub(super) fn cases<S: Subject>() -> Vec<(&'static str, Case<S>)> {
    vec![
        ("load_balancer_has_an_endpoint_without_targets", |bench| {
            without_targets(bench).boxed()
        }),
        ("load_balancer_is_made_once", |bench| once(bench).boxed()),
        ("targets_follow_the_order", |bench| targets(bench).boxed()),
        ("load_balancer_is_found_after_a_restart", |bench| {
            after_a_restart(bench).boxed()
        }),
        ("deleted_load_balancer_is_gone", |bench| {
            deleted(bench).boxed()
        }),
        ("delete_of_no_load_balancer_is_well", |bench| {
            delete_nothing(bench).boxed()
        }),
    ]
}

fn has_load_balancers<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    if bench.capabilities().load_balancers {
        Ok(())
    } else {
        let why = "the provider has no load balancers".to_owned();
        Err(Trouble::Skipped(why))
    }
}

async fn made<S: Subject>(bench: &Bench<S>, expected: usize) -> Result<(), Trouble> {
    let found = bench.news().await.load_balancers;
    must(found.len() == expected, || {
        format!("there should be {expected} new load balancers and there are {found:?}")
    })
}

async fn without_targets<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    has_load_balancers(bench)?;
    let order = bench.load_balancer_order(Vec::new());
    let seen = bench.ensure(&order).await?;
    must(seen.endpoint.is_some(), || "it has no endpoint".to_owned())?;
    must(seen.registered_targets == 0, || {
        format!("it has {} targets", seen.registered_targets)
    })?;
    if let Some(address) = order.address {
        let endpoint = seen.endpoint;
        must(endpoint.as_deref() == Some(&address.to_string()), || {
            format!("{address} was ordered, not {endpoint:?}")
        })?;
    }
    Ok(())
}

async fn once<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    has_load_balancers(bench)?;
    let order = bench.load_balancer_order(Vec::new());
    let first = bench.ensure(&order).await?;
    let second = bench.ensure(&order).await?;
    must(first == second, || {
        format!("it changed from {first:?} to {second:?}")
    })?;
    made(bench, 1).await
}

/// Two machines to stand behind a load balancer.
async fn two_targets<S: Subject>(bench: &Bench<S>) -> Result<Vec<LoadBalancerTarget>, Trouble> {
    let mut targets = Vec::new();
    for _ in 0..2 {
        let order = bench.order();
        let machine = bench.make(&order).await?;
        targets.push(LoadBalancerTarget {
            ip: machine.addresses.first().map(ToString::to_string),
            instance_id: Some(machine.provider_id),
            instance_name: Some(order.identity.machine_name),
        });
    }
    Ok(targets)
}

async fn targets<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    has_load_balancers(bench)?;
    let machines = two_targets(bench).await?;
    let mut order = bench.load_balancer_order(Vec::new());
    let endpoint = bench.ensure(&order).await?.endpoint;
    for wanted in [&machines[..1], &machines[..], &machines[1..], &[]] {
        order.targets = wanted.to_vec();
        let unlike = bench
            .provider
            .observe_load_balancer(&bench.access, &order)
            .await?;
        must(unlike.is_some_and(|seen| !seen.in_step), || {
            "other targets are ordered, and it is said to be in step".to_owned()
        })?;
        let seen = bench.ensure(&order).await?;
        must(
            usize::try_from(seen.registered_targets) == Ok(wanted.len()),
            || {
                format!(
                    "{} targets were ordered, and {} are registered",
                    wanted.len(),
                    seen.registered_targets
                )
            },
        )?;
        must(seen.endpoint == endpoint, || {
            format!(
                "its endpoint changed from {endpoint:?} to {:?}",
                seen.endpoint
            )
        })?;
    }
    Ok(())
}

async fn after_a_restart<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    has_load_balancers(bench)?;
    let order = bench.load_balancer_order(Vec::new());
    let before = bench.ensure(&order).await?;
    let anew = bench.subject.start().await;
    let seen = anew.observe_load_balancer(&bench.access, &order).await?;
    must(seen.as_ref() == Some(&before), || {
        format!("a new process sees {seen:?} where the old one saw {before:?}")
    })
}

async fn deleted<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    has_load_balancers(bench)?;
    let order = bench.load_balancer_order(Vec::new());
    bench.ensure(&order).await?;
    for _ in 0..2 {
        bench.delete_load_balancer(&order.identity).await?;
    }
    let seen = bench
        .provider
        .observe_load_balancer(&bench.access, &order)
        .await?;
    must(seen.is_none(), || format!("it is still seen: {seen:?}"))?;
    made(bench, 0).await
}

async fn delete_nothing<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    has_load_balancers(bench)?;
    let order = bench.load_balancer_order(Vec::new());
    bench.delete_load_balancer(&order.identity).await
}
