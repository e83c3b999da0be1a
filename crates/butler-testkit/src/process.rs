//! Processes by their number, as `/proc` shows them.

use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The first pause between two looks at something that cannot be watched.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Whether a process runs; one that has ended and was not yet waited for by its parent does not.
pub fn is_running(process_id: u32) -> bool {
    let stat = PathBuf::from(format!("/proc/{process_id}/stat"));
    // "pid (name) state …": the name may hold anything, so the state is what follows the last parenthesis.
    fs::read_to_string(stat).is_ok_and(|stat| {
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        !matches!(state, None | Some('Z' | 'X'))
    })
}

/// Waits until none of the processes runs; false if some still run after `timeout`.
pub async fn eventually_ended(process_ids: &[u32], timeout: Duration) -> bool {
    until(timeout, async || {
        (!process_ids.iter().copied().any(is_running)).then_some(())
    })
    .await
    .is_some()
}

/// Waits until there is nothing at `path`; false if there still is something after `timeout`.
pub async fn eventually_removed(path: &std::path::Path, timeout: Duration) -> bool {
    until(timeout, async || (!path.exists()).then_some(()))
        .await
        .is_some()
}

/// Looks again and again, with growing pauses, until `look` finds something or the time is over. For things outside of
/// Kubernetes that cannot be watched; objects are waited for by [`crate::eventually`].
pub async fn until<T, Look, Answer>(timeout: Duration, mut look: Look) -> Option<T>
where
    Look: FnMut() -> Answer,
    Answer: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + timeout;
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(found) = look().await {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
