//! Flags that users add to ours.
//!
//! They are written for konnectivity as often as for us, and a process that is given a flag it does not know ends at once: then
//! nobody reaches into the tenant any more. So only what the process understands is passed.

use crate::command::is_understood;

/// A command line, and what could not stand in it.
pub(super) struct Merged {
    /// The arguments of `butler`.
    pub(super) line: Vec<String>,
    /// What was left out.
    pub(super) refused: Vec<String>,
}

/// Adds what users want to our arguments, as far as the process begins with both. A flag that is given already is not
/// understood a second time; so ours stay what they are.
pub(super) fn with_extra(managed: Vec<String>, extra: &[String]) -> Merged {
    // Flags may need each other.
    let line: Vec<String> = managed.iter().chain(extra).cloned().collect();
    if extra.is_empty() || is_understood(&line) {
        let refused = Vec::new();
        return Merged { line, refused };
    }
    let mut merged = Merged {
        line: managed,
        refused: extra.to_vec(),
    };
    // One may need another that is written after it: then the next round takes it.
    loop {
        let before = merged.refused.len();
        let line = &mut merged.line;
        merged.refused.retain(|argument| {
            line.push(argument.clone());
            let is_refused = !is_understood(line);
            if is_refused {
                line.pop();
            }
            is_refused
        });
        if merged.refused.is_empty() || merged.refused.len() == before {
            return merged;
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn texts(arguments: &[&str]) -> Vec<String> {
        let texts = arguments.iter().map(|&argument| argument.to_owned());
        texts.collect()
    }

    fn agent(extra: &[&str]) -> (Vec<String>, Vec<String>) {
        let ours = texts(&[
            "tunnel",
            "agent",
            "--server=192.0.2.1:8132",
            "--ca-file=ca",
            "--token-file=t",
        ]);
        let count = ours.len();
        let mut merged = with_extra(ours, &texts(extra));
        (merged.line.split_off(count), merged.refused)
    }

    #[test]
    fn flags_of_konnectivity_do_not_reach_a_process_that_would_end_by_them() {
        let theirs = ["--v=8", "--keepalive-time=30s", "--sync-interval", "5s"];
        assert_eq!(agent(&theirs), (Vec::new(), texts(&theirs)));
    }

    #[test]
    fn our_own_flags_pass_unless_we_have_given_them_or_they_make_no_agent() {
        let (passed, refused) = agent(&[
            "--dial-timeout=3s",
            "--allow-destination=127.0.0.0/8",
            "--allow-destination=169.254.20.10/32",
            "--server=elsewhere:1",
            "--max-streams=many",
            "--discovery-interval=0s",
            "--help",
        ]);
        assert_eq!(
            passed,
            [
                "--dial-timeout=3s",
                "--allow-destination=127.0.0.0/8",
                "--allow-destination=169.254.20.10/32",
            ]
        );
        assert_eq!(
            refused,
            [
                "--server=elsewhere:1",
                "--max-streams=many",
                "--discovery-interval=0s",
                "--help"
            ]
        );
    }

    #[test]
    fn flags_that_need_each_other_pass_together() {
        let ours = texts(&[
            "tunnel",
            "server",
            "--socket=s",
            "--cert-file=c",
            "--key-file=k",
            "--kubeconfig=k",
        ]);
        let theirs = texts(&[
            "--agent-client-common-name=agent",
            "--agent-client-ca-file=ca",
        ]);
        assert_eq!(with_extra(ours, &theirs).refused, [""; 0]);
    }
}
