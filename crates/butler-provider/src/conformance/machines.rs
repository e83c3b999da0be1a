//! Cases about machines.

use futures::{FutureExt as _, future::join_all};

use super::{
    Case, Subject,
    bench::{Bench, Trouble, must},
};
use crate::{
    error::{ErrorClass, ProviderError},
    order::MachineIdentity,
    provider::{AddressSource, Provider as _},
};

pub(super) fn cases<S: Subject>() -> Vec<(&'static str, Case<S>)> {
    vec![
        ("create_again_makes_nothing_new", |bench| {
            create_again(bench).boxed()
        }),
        ("two_creates_at_once_make_one", |bench| {
            two_at_once(bench).boxed()
        }),
        ("machine_is_found_after_a_restart", |bench| {
            after_a_restart(bench).boxed()
        }),
        ("machine_has_the_size_ordered", |bench| sizes(bench).boxed()),
        ("machine_has_the_address_ordered", |bench| {
            address(bench).boxed()
        }),
        ("user_data_reaches_the_machine", |bench| {
            user_data(bench).boxed()
        }),
        ("user_data_reaches_a_machine_made_without", |bench| {
            user_data_later(bench).boxed()
        }),
        ("too_large_a_machine_is_refused", |bench| {
            too_large(bench).boxed()
        }),
        ("wrong_credentials_are_refused", |bench| {
            wrong_credentials(bench).boxed()
        }),
        ("deleted_machine_is_gone", |bench| deleted(bench).boxed()),
        ("delete_twice_is_well", |bench| delete_twice(bench).boxed()),
        ("delete_of_what_never_was_is_well", |bench| {
            delete_nothing(bench).boxed()
        }),
        ("create_after_delete_makes_nothing", |bench| {
            late_create(bench).boxed()
        }),
        ("machine_that_is_there_is_adopted", |bench| {
            adoption(bench).boxed()
        }),
        ("twenty_machines_at_once_and_none_left", |bench| {
            twenty(bench).boxed()
        }),
    ]
}

async fn create_again<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    let order = bench.order();
    let first = bench.make(&order).await?;
    let second = bench.make(&order).await?;
    must(first.provider_id == second.provider_id, || {
        format!(
            "its identity changed from {} to {}",
            first.provider_id, second.provider_id
        )
    })?;
    bench.machines_made(1).await
}

async fn two_at_once<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    let order = bench.order();
    let other = bench.subject.start().await;
    let (first, second) = futures::join!(
        bench.provider.create_machine(&bench.access, &order),
        other.create_machine(&bench.access, &order),
    );
    // One of them may be told to come again.
    for outcome in [first, second] {
        match outcome {
            Err(error) if error.class != ErrorClass::Retry => return Err(error.into()),
            _ => {}
        }
    }
    bench.make(&order).await?;
    bench.machines_made(1).await
}

async fn after_a_restart<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    let order = bench.order();
    let before = bench.make(&order).await?;
    let anew = bench.subject.start().await;
    let seen = anew.observe_machine(&bench.access, &order.identity).await?;
    must(seen.as_ref() == Some(&before), || {
        format!("a new process sees {seen:?} where the old one saw {before:?}")
    })
}

async fn sizes<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    for size in bench.subject.sizes() {
        let order = bench.order_of(size);
        bench.make(&order).await?;
        let name = &order.identity.machine_name;
        let found = bench.news().await.machines;
        let found = found.iter().find(|machine| machine.name == *name);
        let is = found.map(|machine| (machine.cpu, machine.memory_mib));
        must(is == Some((size.cpu, size.memory_mib)), || {
            format!("{size:?} was ordered, and processors and memory are {is:?}")
        })?;
    }
    Ok(())
}

async fn address<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    if bench.capabilities().addresses == AddressSource::Infrastructure {
        let why = "the infrastructure gives out addresses".to_owned();
        return Err(Trouble::Skipped(why));
    }
    let order = bench.order();
    let machine = bench.make(&order).await?;
    must(machine.addresses.first().copied() == order.address, || {
        format!(
            "{:?} was ordered, not {:?}",
            order.address, machine.addresses
        )
    })
}

/// Waits for the trace of user data.
async fn traced<S: Subject>(bench: &Bench<S>, identity: &MachineIdentity) -> Result<(), Trouble> {
    let begin = std::time::Instant::now();
    let patience = std::time::Duration::from_secs(20);
    while !bench.subject.has_trace(identity).await {
        let seen = bench
            .provider
            .observe_machine(&bench.access, identity)
            .await?;
        let handed = seen.is_some_and(|machine| machine.has_user_data);
        must(handed && begin.elapsed() < patience, || {
            format!("it is not in the machine; handed over: {handed}")
        })?;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let seen = bench
        .provider
        .observe_machine(&bench.access, identity)
        .await?;
    must(seen.is_some_and(|machine| machine.has_user_data), || {
        "it is in the machine, and the provider does not say so".to_owned()
    })
}

async fn user_data<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    let mut order = bench.order();
    order.user_data = Some(bench.subject.user_data());
    bench.make(&order).await?;
    traced(bench, &order.identity).await
}

async fn user_data_later<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    if !bench.capabilities().user_data_later {
        let why = "the provider takes user data with the order alone".to_owned();
        return Err(Trouble::Skipped(why));
    }
    let order = bench.order();
    let machine = bench.make(&order).await?;
    must(!machine.has_user_data, || {
        "it was made without, and the provider says that it has some".to_owned()
    })?;
    let user_data = bench.subject.user_data();
    for _ in 0..2 {
        bench
            .provider
            .deliver_user_data(&bench.access, &order.identity, &user_data)
            .await?;
    }
    traced(bench, &order.identity).await
}

async fn too_large<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    let order = bench.order_of(bench.subject.too_large());
    let made = bench.provider.create_machine(&bench.access, &order).await;
    let class = made.as_ref().err().map(|error| error.class);
    must(
        matches!(class, Some(ErrorClass::Quota | ErrorClass::Terminal)),
        || format!("it should be refused as Quota or Terminal: {made:?}"),
    )?;
    let words = made.err().map(|error| error.message);
    must(words.is_some_and(|words| words.contains(' ')), || {
        "the refusal has no words for people".to_owned()
    })?;
    bench.machines_made(0).await
}

async fn wrong_credentials<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    let Some(refused) = bench.subject.refused_access() else {
        let why = "the provider needs no credentials".to_owned();
        return Err(Trouble::Skipped(why));
    };
    let order = bench.order();
    let is_refused = |outcome: &Result<(), ProviderError>| {
        let class = outcome.as_ref().err().map(|error| error.class);
        must(class == Some(ErrorClass::Credentials), || {
            format!("it should be refused as Credentials: {outcome:?}")
        })
    };
    is_refused(&bench.provider.validate(&refused).await)?;
    is_refused(&bench.provider.create_machine(&refused, &order).await)?;
    bench.provider.validate(&bench.access).await?;
    bench.machines_made(0).await
}

async fn deleted<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    let order = bench.order();
    bench.make(&order).await?;
    bench.delete(&order.identity).await?;
    let seen = bench
        .provider
        .observe_machine(&bench.access, &order.identity)
        .await?;
    must(seen.is_none(), || format!("it is still seen: {seen:?}"))?;
    bench.machines_made(0).await
}

async fn delete_twice<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    let order = bench.order();
    bench.make(&order).await?;
    bench.delete(&order.identity).await?;
    bench.delete(&order.identity).await
}

async fn delete_nothing<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    let (identity, _) = bench.identity();
    bench.delete(&identity).await
}

async fn late_create<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    for made_first in [true, false] {
        let order = bench.order();
        if made_first {
            bench.make(&order).await?;
        }
        bench.delete(&order.identity).await?;
        // It was sent before the deletion and arrives after it. What is answered does not matter.
        let _ = bench.provider.create_machine(&bench.access, &order).await;
        bench.machines_made(0).await?;
    }
    Ok(())
}

async fn adoption<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    let mut order = bench.order();
    let identity = &mut order.identity;
    let planted = bench
        .subject
        .plant(&identity.machine_name, order.address)
        .await;
    let Some(id) = planted else {
        let why = "machines are made by the provider alone here".to_owned();
        return Err(Trouble::Skipped(why));
    };
    identity.adopts = Some(id);
    bench.make(&order).await?;
    bench.machines_made(1).await?;
    bench.delete(&order.identity).await?;
    bench.machines_made(0).await?;

    let mut order = bench.order();
    order.identity.adopts = Some("00000000-0000-4000-8000-000000000000".to_owned());
    let made = bench.provider.create_machine(&bench.access, &order).await;
    must(made.is_err(), || {
        "what is to be adopted is not there, and the provider is content".to_owned()
    })?;
    bench.machines_made(0).await
}

async fn twenty<S: Subject>(bench: &Bench<S>) -> Result<(), Trouble> {
    let orders: Vec<_> = (0..20).map(|_| bench.order()).collect();
    for made in join_all(orders.iter().map(|order| bench.make(order))).await {
        made?;
    }
    bench.machines_made(20).await?;
    let deletions = orders.iter().map(|order| bench.delete(&order.identity));
    for deleted in join_all(deletions).await {
        deleted?;
    }
    bench.machines_made(0).await
}
