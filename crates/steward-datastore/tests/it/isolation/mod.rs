//! No tenant of an etcd reaches anything of another: a property, tried on a real server with random neighbours and random
//! requests. The neighbours come by two stores that lead to the one etcd and know nothing of each other.

mod attacks;

use std::cell::Cell;

use butler_proto::etcd::kv_client::KvClient;
use butler_proto::etcd::lease_client::LeaseClient;
use butler_proto::etcd::{KeyValue, LeaseGrantRequest, PutRequest, RangeRequest};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use steward_datastore::{AnyStore, KeyRange, Schema, Store as _, Tenant};
use tonic::transport::Channel;

use self::attacks::{attack_lease, attack_server, judge, read_forms, write_forms};
use crate::servers::etcd::Etcd;
use crate::servers::{established, named, renamed};

/// Worlds that are tried.
const WORLDS: u32 = 16;
/// Requests that are tried in each world, each in all its forms.
const PROBES: usize = 24;

/// Tenants with names that are near each other, and ranges of keys that somebody asks for.
#[derive(Clone, Debug)]
struct World {
    /// With whom of those before each shares the name of its user, if with anybody.
    schemas: Vec<(String, Option<Index>)>,
    probes: Vec<Probe>,
}

/// A range of keys, told by the tenants it lies near.
#[derive(Clone, Debug)]
struct Probe {
    attacker: Index,
    from: Anchor,
    to: Option<Anchor>,
}

/// A key near a tenant's range.
#[derive(Clone, Debug)]
struct Anchor {
    near: Index,
    place: Place,
    rest: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Place {
    Start,
    End,
    /// The range's first key without its last bytes.
    Before(usize),
    /// What means "from the very first key" as a start and "to the very last" as an end.
    Edge,
}

impl Anchor {
    fn key(&self, tenants: &[Member]) -> Vec<u8> {
        let range = KeyRange::of(&self.near.get(tenants).tenant.schema);
        let mut key = match self.place {
            Place::Start => range.start().to_vec(),
            Place::End => range.end().to_vec(),
            Place::Before(bytes) => {
                let keep = range.start().len().saturating_sub(bytes).max(1);
                range.start()[..keep].to_vec()
            }
            Place::Edge => return vec![0],
        };
        key.extend(&self.rest);
        key
    }
}

fn world() -> impl Strategy<Value = World> {
    let schema = "[ab]([ab0_.-]{0,2})(/[ab]{1,2}){0,1}";
    let namesake = proptest::option::weighted(0.2, any::<Index>());
    (
        proptest::collection::vec((schema, namesake), 3..7),
        proptest::collection::vec(probe(), PROBES),
    )
        .prop_map(|(mut schemas, probes)| {
            // Whose keys begin where those of the first end; so there are two in every world.
            let neighbour = format!("{}0", schemas[0].0);
            schemas.insert(1, (neighbour, None));
            World { schemas, probes }
        })
}

fn probe() -> impl Strategy<Value = Probe> {
    (any::<Index>(), anchor(), proptest::option::of(anchor()))
        .prop_map(|(attacker, from, to)| Probe { attacker, from, to })
}

fn anchor() -> impl Strategy<Value = Anchor> {
    let place = prop_oneof![
        4 => Just(Place::Start),
        2 => Just(Place::End),
        1 => (1_usize..5).prop_map(Place::Before),
        1 => Just(Place::Edge),
    ];
    let rest = prop_oneof![
        2 => Just(Vec::new()),
        2 => Just(b"secret".to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 1..3),
    ];
    (any::<Index>(), place, rest).prop_map(|(near, place, rest)| Anchor { near, place, rest })
}

/// A tenant, its connection and its lease.
struct Member {
    tenant: Tenant,
    channel: Channel,
    lease: i64,
}

/// Whether all keys of a request are the tenant's own, said in other words than the code under test has for it: all of them
/// begin with `/<schema>/`. An end of one zero byte is the end of all keys.
fn is_own(schema: &Schema, key: &[u8], range_end: &[u8]) -> bool {
    let prefix = format!("/{schema}/").into_bytes();
    let right_behind = format!("/{schema}0").into_bytes();
    key.starts_with(&prefix)
        && (range_end.is_empty() || range_end.starts_with(&prefix) || range_end == right_behind)
}

#[test]
fn no_tenant_reaches_the_keys_or_leases_of_another() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let etcd = runtime.block_on(Etcd::start());
    let mut runner = TestRunner::new(Config {
        cases: WORLDS,
        max_shrink_iters: 200,
        ..Config::default()
    });
    let crossings = Cell::new(0);
    runner
        .run(&world(), |world| {
            let crossed = runtime.block_on(try_world(&etcd, &world))?;
            crossings.set(crossings.get() + crossed);
            Ok(())
        })
        .unwrap();
    let most = usize::try_from(WORLDS).unwrap() * PROBES;
    assert!(
        crossings.get() * 4 > most,
        "only {} of {most} requests were for the keys of others",
        crossings.get()
    );
}

/// Tries one world; says how many requests were for the keys of others.
async fn try_world(etcd: &Etcd, world: &World) -> Result<usize, TestCaseError> {
    let stores = [etcd.store(), renamed(etcd.connection_as("root"))];
    let members = admit(etcd, &stores, &world.schemas).await;
    assert!(members.len() > 1, "nobody is alone: {:?}", world.schemas);
    let before = everything(etcd).await;
    let outcome = attack_all(&members, world).await;
    let after = everything(etcd).await;
    for member in &members {
        stores[0]
            .drop_tenant(&established(&member.tenant))
            .await
            .unwrap();
    }
    assert_eq!(
        everything(etcd).await,
        [],
        "nothing is left of dropped tenants"
    );
    let crossings = outcome?;
    prop_assert_eq!(before, after);
    Ok(crossings)
}

/// Makes those tenants that may have their names. Each has a key of its own, one with its lease, and one of an awkward name.
async fn admit(
    etcd: &Etcd,
    stores: &[AnyStore; 2],
    schemas: &[(String, Option<Index>)],
) -> Vec<Member> {
    let mut users: Vec<String> = Vec::new();
    let mut members = Vec::new();
    for (number, (schema, namesake)) in schemas.iter().enumerate() {
        let user = match namesake {
            Some(namesake) if number > 0 => namesake.get(&users).clone(),
            _ => format!("user{number}"),
        };
        let tenant = named(schema, &user);
        users.push(user);
        match stores[number % 2].ensure_tenant(&tenant).await {
            Ok(()) => members.push(tenant),
            Err(error) => assert_eq!(error.reason(), "DataStoreNameTaken", "{error}"),
        }
    }
    let mut admitted = Vec::new();
    for tenant in members {
        let channel = etcd.channel_as(tenant.user.as_str()).await;
        let lease = LeaseClient::new(channel.clone())
            .lease_grant(LeaseGrantRequest { ttl: 3600, id: 0 })
            .await
            .unwrap()
            .into_inner()
            .id;
        let start = KeyRange::of(&tenant.schema).start().to_vec();
        for (name, lease) in [("secret", 0), ("leased", lease), ("\u{ff}", 0)] {
            let request = PutRequest {
                key: [start.as_slice(), name.as_bytes()].concat(),
                value: tenant.user.as_str().into(),
                lease,
            };
            KvClient::new(channel.clone()).put(request).await.unwrap();
        }
        admitted.push(Member {
            tenant,
            channel,
            lease,
        });
    }
    admitted
}

/// All keys of the store.
async fn everything(etcd: &Etcd) -> Vec<KeyValue> {
    let request = RangeRequest {
        key: vec![0],
        range_end: vec![0],
        ..RangeRequest::default()
    };
    KvClient::new(etcd.channel_as("root").await)
        .range(request)
        .await
        .unwrap()
        .into_inner()
        .kvs
}

/// Whether a request is for keys that somebody else has.
fn crosses(attacker: &Member, members: &[Member], key: &[u8], range_end: &[u8]) -> bool {
    let others = members
        .iter()
        .filter(|member| member.tenant.user != attacker.tenant.user);
    let mut ranges = others.map(|member| KeyRange::of(&member.tenant.schema));
    ranges.any(|range| match range_end {
        [] => range.start() <= key && key < range.end(),
        [0] => key < range.end(),
        end => key < range.end() && end > range.start(),
    })
}

/// Tries everything; says how many requests were for the keys of others.
async fn attack_all(members: &[Member], world: &World) -> Result<usize, TestCaseError> {
    let mut crossings = 0;
    for probe in &world.probes {
        let attacker = probe.attacker.get(members);
        let key = probe.from.key(members);
        let range_end = probe
            .to
            .as_ref()
            .map(|to| to.key(members))
            .unwrap_or_default();
        // etcd takes a range that ends before it begins as a mistake, whoever asks.
        if !range_end.is_empty() && range_end != [0] && range_end <= key {
            continue;
        }
        let own = is_own(&attacker.tenant.schema, &key, &range_end);
        crossings += usize::from(crosses(attacker, members, &key, &range_end));
        for (form, answer) in read_forms(attacker, &key, &range_end).await {
            judge(form, attacker, &key, &range_end, own, &answer)?;
        }
        // What is the attacker's own to write is left as it is: only others' keys are written here.
        if !own {
            for (form, answer) in write_forms(attacker, &key, &range_end).await {
                judge(form, attacker, &key, &range_end, false, &answer)?;
            }
        }
        for victim in members {
            if victim.tenant.user != attacker.tenant.user {
                attack_lease(attacker, victim).await?;
            }
        }
    }
    for attacker in members {
        attack_server(attacker, members).await?;
    }
    Ok(crossings)
}
