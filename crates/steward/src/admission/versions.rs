//! Whether a control plane may become another version.

use butler_api::version::rules::{self, VersionRefusal};

/// Why a version is refused, if it is: both what runs and what was `asked` for last must be able to become it. What was asked for
/// and cannot be reached itself does not count: who sets it right must be able to.
pub(super) fn refusal(
    wanted: &str,
    asked: Option<&str>,
    running: Option<&str>,
) -> Option<VersionRefusal> {
    let running = running.filter(|version| !version.is_empty());
    let asked = asked.filter(|asked| rules::check(running, asked).is_ok());
    let steps = [asked, running.or(asked)];
    steps
        .into_iter()
        .find_map(|from| rules::check(from, wanted).err())
}
