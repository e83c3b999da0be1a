//! Tells of machines that came, ended or went without having been asked. Whoever starts or ends here is seen at once; what
//! another process does to the machines is found by a look now and then.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use butler_api::name::MachineName;
use butler_host::host::{Machine, MachineState, MachineWatch};
use futures::{StreamExt as _, stream::BoxStream};
use tokio::sync::watch;

use super::Hands;
use crate::provider::Changed;

/// How soon it is noticed what another process did.
const LOOK: Duration = Duration::from_secs(10);

/// What is remembered of a machine: its id and its life.
type Lives = BTreeMap<String, Option<u32>>;

struct Watch {
    endings: MachineWatch,
    starts: watch::Receiver<BTreeMap<MachineName, u32>>,
    hands: Arc<Hands>,
    lives: Option<Lives>,
    news: VecDeque<Changed>,
}

pub(super) fn changes(hands: Arc<Hands>) -> BoxStream<'static, Changed> {
    let watch = Watch {
        endings: hands.host.watch_machines(),
        starts: hands.host.starts(),
        hands,
        lives: None,
        news: VecDeque::new(),
    };
    futures::stream::unfold(watch, |mut watch| async move {
        loop {
            if let Some(changed) = watch.news.pop_front() {
                return Some((changed, watch));
            }
            watch.look().await;
            if watch.news.is_empty() {
                watch.until_something_may_have_changed().await;
            }
        }
    })
    .boxed()
}

impl Watch {
    async fn until_something_may_have_changed(&mut self) {
        let looked = async {
            match self.endings.next().await {
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "could not watch the machines of this host");
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            () = looked => {}
            _ = self.starts.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }

    async fn look(&mut self) {
        let machines = match self.hands.host.list().await {
            Ok(machines) => machines,
            Err(error) => {
                tracing::warn!(%error, "could not look at the machines of this host");
                return;
            }
        };
        let now: Lives = machines.iter().filter_map(life).collect();
        let Some(before) = self.lives.replace(now.clone()) else {
            // What was before is seen by the first pass over each request.
            return;
        };
        let changed = differences(&before, &now);
        if changed.is_empty() {
            return;
        }
        let adopted = self.hands.memory().adopted.clone();
        let uid = |id: String| adopted.get(&id).cloned().unwrap_or(id);
        self.news
            .extend(changed.into_iter().map(|id| Changed::Machine(uid(id))));
        let load_balancers = self.hands.load_balancers();
        self.news
            .extend(load_balancers.into_iter().map(Changed::LoadBalancer));
    }
}

fn life(machine: &Machine) -> Option<(String, Option<u32>)> {
    let id = machine.spec.as_ref()?.id.to_string();
    let pid = match machine.state {
        MachineState::Running { pid } => Some(pid),
        MachineState::Stopped | MachineState::Broken { .. } => None,
    };
    Some((id, pid))
}

/// The ids of machines that are not what they were.
fn differences(before: &Lives, now: &Lives) -> Vec<String> {
    let gone = before.keys().filter(|id| !now.contains_key(*id));
    let other = now.iter().filter(|(id, pid)| before.get(*id) != Some(*pid));
    gone.chain(other.map(|(id, _)| id)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_come_end_and_go_are_told_apart_from_those_that_stay() {
        let lives = |lives: &[(&str, Option<u32>)]| -> Lives {
            let lives = lives.iter();
            lives.map(|(id, pid)| ((*id).to_owned(), *pid)).collect()
        };
        let before = lives(&[("stays", Some(1)), ("ends", Some(2)), ("goes", Some(3))]);
        let now = lives(&[("stays", Some(1)), ("ends", None), ("comes", Some(4))]);
        assert_eq!(differences(&before, &now), ["goes", "comes", "ends"]);
        assert!(differences(&now, &now).is_empty());
    }
}
