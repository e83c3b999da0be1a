//! Follows a cluster until it is ready, or gone, and shows how far it is.
//!
//! Owns: how conditions become steps. Everything is told by a watch; nothing is asked for again and again.

use std::{pin::pin, time::Duration};

use butler_api::{
    butler::tenant_cluster::{TenantCluster, TenantClusterPhase},
    conditions::{reasons, types},
};
use futures::{Stream, StreamExt as _};
use kube::runtime::{
    WatchStreamExt as _,
    watcher::{self, watch_object},
};

use super::{
    hold,
    waits::{refused, waits},
};
use crate::{
    ctl::{error::Error, platform::Platform},
    output::progress::{Outcome, Progress, Running},
};

/// The steps on the way to a cluster, and the conditions that hold at the end of each.
const STEPS: [(&str, &[&str]); 5] = [
    (
        "Limits, access and addresses",
        &[
            types::PROVIDER_ACCESS_GRANTED,
            types::QUOTA_SATISFIED,
            types::NETWORK_READY,
            types::IMAGE_READY,
        ],
    ),
    ("Infrastructure", &[types::INFRASTRUCTURE_READY]),
    ("Control plane", &[types::CONTROL_PLANE_READY]),
    ("Workers", &[types::WORKERS_READY]),
    ("Addons", &[types::ADDONS_READY]),
];

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// A new cluster becomes ready, step by step.
    Birth,
    /// A cluster gets another size.
    Size,
    /// A cluster gets another version.
    Version,
    /// A cluster goes.
    End,
}

/// How far a cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Position {
    /// So many steps are done, and this is what it waits for now.
    Under { done: usize, detail: String },
    /// It is there.
    Arrived,
    /// A person must act: how it is meanwhile, and why.
    Stuck(&'static str, String),
}

/// What is said of a cluster that has become something else than what was asked for.
const NOT_AS_ASKED: &str = "is not as asked for";

fn position(cluster: &TenantCluster, goal: Goal) -> Position {
    let waits = waits(cluster);
    let mut details = waits.iter().map(|wait| {
        if wait.why.is_empty() {
            format!("{}: {}", wait.what, wait.reason)
        } else {
            wait.message()
        }
    });
    let detail = details.next().unwrap_or_default();
    let status = cluster.status.clone().unwrap_or_default();
    let seen = status.observed_generation >= cluster.metadata.generation;
    let held = match goal {
        Goal::End => hold::from_going(cluster).map(|why| ("is not destroyed", why)),
        Goal::Birth => hold::from_changing(cluster).map(|why| ("is not made", why)),
        Goal::Size | Goal::Version => {
            hold::from_changing(cluster).map(|why| ("is not changed", why))
        }
    };
    if let Some((how, why)) = held {
        return Position::Stuck(how, why);
    }
    let mut refused = refused(cluster);
    match status.phase {
        _ if goal == Goal::End => Position::Under { done: 0, detail },
        Some(TenantClusterPhase::Failed) if seen => Position::Stuck("failed", detail),
        Some(TenantClusterPhase::Ready) if seen => match refused.next() {
            Some(refusal) => Position::Stuck(NOT_AS_ASKED, refusal.message.clone()),
            None => Position::Arrived,
        },
        _ => {
            // Whatever else is going on in the cluster, nobody works towards this version.
            let mut refused = refused.filter(|refusal| refusal.reason == reasons::VERSION_SKEW);
            if let Some(refusal) = refused.next()
                && seen
                && goal == Goal::Version
            {
                return Position::Stuck(NOT_AS_ASKED, refusal.message.clone());
            }
            let holds = |types: &[&str]| {
                let conditions = status.conditions.iter();
                let own: Vec<_> = conditions
                    .filter(|condition| types.contains(&condition.type_.as_str()))
                    .collect();
                !own.is_empty() && own.iter().all(|condition| condition.status == "True")
            };
            // A later step that is done had need of those before it. A change is one step, and not done before all of it is.
            let done = STEPS.iter().rposition(|(_, types)| holds(types));
            let done = done.filter(|_| goal == Goal::Birth);
            let done = done.map_or(0, |last| last + 1);
            Position::Under { done, detail }
        }
    }
}

/// What is shown while a cluster is followed.
struct Lines {
    progress: Progress,
    title: String,
    goal: Goal,
    done: usize,
    running: Option<Running>,
}

impl Lines {
    fn new(progress: Progress, title: String, goal: Goal) -> Self {
        let mut lines = Self {
            progress,
            title,
            goal,
            done: 0,
            running: None,
        };
        lines.begin();
        lines
    }

    fn begin(&mut self) {
        let step = STEPS.get(self.done).map(|(title, _)| *title);
        let title = match self.goal {
            Goal::Birth => step,
            Goal::Size | Goal::Version | Goal::End => {
                Some(self.title.as_str()).filter(|_| self.done == 0)
            }
        };
        self.running = title.map(|title| self.progress.begin(title));
    }

    /// Shows that so many steps are done.
    fn advance(&mut self, done: usize) {
        while self.done < done {
            if let Some(running) = self.running.take() {
                running.end(Outcome::Done);
            }
            self.done += 1;
            self.begin();
        }
    }

    fn detail(&self, detail: &str) {
        if let Some(running) = self.running.as_ref().filter(|_| !detail.is_empty()) {
            running.detail(detail);
        }
    }

    fn finish(mut self) {
        match self.goal {
            Goal::Birth => self.advance(STEPS.len()),
            Goal::Size | Goal::Version | Goal::End => self.advance(1),
        }
    }
}

/// Follows a cluster to its goal. Gives the cluster as it is then, if it still is.
pub(super) async fn follow(
    platform: &Platform,
    name: &str,
    goal: Goal,
    title: String,
    patience: Duration,
) -> Result<Option<TenantCluster>, Error> {
    let events = watch_object(platform.clusters(), name).default_backoff();
    let lines = Lines::new(Progress::on_stderr(platform.verbose), title.clone(), goal);
    let mut last = String::new();
    let following = walk(events, name, lines, &mut last);
    match Box::pin(tokio::time::timeout(patience, following)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::Patience {
            what: title,
            call: platform.call(name),
            patience,
            last: if last.is_empty() {
                last
            } else {
                format!("It said last: {last}")
            },
        }),
    }
}

async fn walk(
    events: impl Stream<Item = Result<Option<TenantCluster>, watcher::Error>>,
    name: &str,
    mut lines: Lines,
    last: &mut String,
) -> Result<Option<TenantCluster>, Error> {
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Some(cluster)) => match position(&cluster, lines.goal) {
                Position::Under { done, detail } => {
                    lines.advance(done.min(STEPS.len() - 1));
                    if *last != detail {
                        lines.detail(&detail);
                        *last = detail;
                    }
                }
                Position::Arrived => {
                    lines.finish();
                    return Ok(Some(cluster));
                }
                Position::Stuck(how, why) => {
                    let name = name.to_owned();
                    return Err(Error::Stuck { name, how, why });
                }
            },
            Ok(None) if lines.goal == Goal::End => {
                lines.finish();
                return Ok(None);
            }
            Ok(None) => {
                let name = name.to_owned();
                return Err(Error::Gone { name });
            }
            Err(error) => {
                *last = format!("the platform does not answer: {error}");
                lines.detail(last);
            }
        }
    }
    let name = name.to_owned();
    Err(Error::Gone { name })
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ctl::cluster::testing::{
        cluster, deleting, failed, new, observed, protected, refused, upgrading,
        waiting_for_workers,
    };

    fn under(done: usize, detail: &str) -> Position {
        let detail = detail.to_owned();
        Position::Under { done, detail }
    }

    #[test]
    fn a_new_cluster_goes_step_by_step() {
        assert_eq!(position(&new(), Goal::Birth), under(0, ""));
        let workers = "1 of 2 workers are ready, and demo-workers-x7k2p is being made";
        let waiting = position(&waiting_for_workers(), Goal::Birth);
        assert_eq!(waiting, under(3, workers));
        assert_eq!(position(&cluster("True"), Goal::Birth), Position::Arrived);
    }

    #[test]
    fn what_only_a_person_can_mend_is_not_waited_for() {
        let message =
            "the ProviderConfig butler-system/nowhere does not exist; create it, or name another";
        assert_eq!(
            position(&failed(), Goal::Birth),
            Position::Stuck("failed", message.to_owned())
        );
    }

    #[test]
    fn a_wish_that_was_refused_is_no_success_though_the_cluster_is_ready() {
        let stuck = |words: &str| Position::Stuck(NOT_AS_ASKED, words.to_owned());
        let skew = "cannot go from v1.34.2 to v1.36.3 in one step";
        let mut held = refused("RollingOut", "False", "VersionSkew", skew);
        assert_eq!(position(&held, Goal::Version), stuck(skew));
        // A worker that is being replaced at the same time changes nothing for the version; the size is waited for.
        let status = held.status.as_mut().unwrap();
        status.phase = Some(TenantClusterPhase::Updating);
        assert_eq!(position(&held, Goal::Version), stuck(skew));
        assert_eq!(position(&held, Goal::Size), under(0, skew));
        let quota = "the Team payments may have 3 workers";
        let degraded = refused("Ready", "True", "ReconcileDegraded", quota);
        assert_eq!(position(&degraded, Goal::Size), stuck(quota));
    }

    #[test]
    fn a_refusal_of_an_older_wish_ends_nothing() {
        let mut changed = refused("RollingOut", "False", "VersionSkew", "not in one step");
        changed.metadata.generation = Some(3);
        assert_eq!(
            position(&changed, Goal::Version),
            under(0, "not in one step")
        );
    }

    #[test]
    fn what_the_platform_leaves_alone_is_not_waited_for() {
        let how = |cluster: TenantCluster, goal| match position(&cluster, goal) {
            Position::Stuck(how, _) => how,
            other => panic!("{other:?}"),
        };
        assert_eq!(how(observed(new()), Goal::Birth), "is not made");
        let ready = || observed(cluster("True"));
        assert_eq!(how(ready(), Goal::Size), "is not changed");
        assert_eq!(how(observed(deleting()), Goal::End), "is not destroyed");
        assert_eq!(how(protected(deleting()), Goal::End), "is not destroyed");
    }

    #[test]
    fn a_status_that_speaks_of_an_older_wish_ends_nothing() {
        let mut changed = cluster("True");
        changed.metadata.generation = Some(3);
        assert_ne!(position(&changed, Goal::Size), Position::Arrived);
        assert_ne!(position(&upgrading(), Goal::Version), Position::Arrived);
    }

    async fn walked(goal: Goal, events: Vec<Option<TenantCluster>>) -> Result<bool, String> {
        let events = stream::iter(events.into_iter().map(Ok));
        let lines = Lines::new(Progress::on_stderr(false), "demo goes".to_owned(), goal);
        let outcome = walk(events, "demo", lines, &mut String::new()).await;
        outcome
            .map(|cluster| cluster.is_some())
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_cluster_is_followed_to_its_goal() {
        let birth = vec![
            Some(new()),
            Some(waiting_for_workers()),
            Some(cluster("True")),
        ];
        assert_eq!(walked(Goal::Birth, birth).await, Ok(true));
        let end = vec![Some(deleting()), None];
        assert_eq!(walked(Goal::End, end).await, Ok(false));
        let lost = walked(Goal::Birth, vec![Some(new()), None]).await;
        assert_eq!(lost, Err("demo was deleted meanwhile".to_owned()));
        let stuck = walked(Goal::Birth, vec![Some(failed())]).await.unwrap_err();
        assert!(
            stuck.starts_with("demo failed: the ProviderConfig"),
            "{stuck}"
        );
    }
}
