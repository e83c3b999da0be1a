//! Flags of the program that Steward takes the place of, so that its manifests go on working. Those that still mean something
//! are read like any other; of the others it is said why they do nothing.

use std::time::Duration;

use jiff::SignedDuration;

use crate::settings::CERTIFICATE_DEADLINE;

/// A certificate that is made anew earlier than after half of its life would leave no room between two renewals.
const LONGEST_DEADLINE: SignedDuration = SignedDuration::from_hours(24 * 365 / 2);

/// The subcommand by which the older program was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Subcommand {
    /// Runs the controllers, as `butler steward` does without it.
    Manager,
    /// Made kubeconfigs for others, which the controllers do now.
    KubeconfigGenerator,
}

/// Flags of the older program that do nothing here.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct OlderFlags {
    /// The older program's subcommand, which may be left out
    #[arg(value_enum, hide = true)]
    pub subcommand: Option<Subcommand>,
    /// No image is needed to move a control plane to another data store
    #[arg(long, value_name = "IMAGE", hide = true)]
    pub migrate_image: Option<String>,
    /// No file is written
    #[arg(long, value_name = "DIRECTORY", hide = true)]
    pub tmp_directory: Option<String>,
    /// Nothing is listed anew
    #[arg(long, value_name = "DURATION", hide = true)]
    pub cache_resync_period: Option<String>,
    /// No Job runs under Steward's account
    #[arg(long, value_name = "NAME", hide = true)]
    pub serviceaccount_name: Option<String>,
    /// The webhooks' authority is Steward's own
    #[arg(long, value_name = "FILE", hide = true)]
    pub webhook_ca_path: Option<String>,
    /// Logs are chosen by environment variables
    #[command(flatten)]
    pub logs: LogFlags,
}

/// Flags by which the older program was told how to log, with and without a value where they had both forms.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct LogFlags {
    /// An environment variable chooses the format
    #[arg(long, value_name = "BOOL", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub zap_devel: Option<String>,
    /// An environment variable chooses the format
    #[arg(long, value_name = "ENCODER", hide = true)]
    pub zap_encoder: Option<String>,
    /// An environment variable chooses what is logged
    #[arg(long, value_name = "LEVEL", hide = true)]
    pub zap_log_level: Option<String>,
    /// There are no stack traces
    #[arg(long, value_name = "LEVEL", hide = true)]
    pub zap_stacktrace_level: Option<String>,
    /// There is one format of times
    #[arg(long, value_name = "ENCODING", hide = true)]
    pub zap_time_encoding: Option<String>,
}

impl OlderFlags {
    /// The flags that were given and do nothing, each with the reason.
    pub fn without_meaning(&self) -> Vec<(&'static str, &'static str)> {
        let all = [
            (
                &self.migrate_image,
                "--migrate-image",
                "state moves between data stores within this process: there is no Job, and so no image for it",
            ),
            (
                &self.tmp_directory,
                "--tmp-directory",
                "keys and certificates are made in memory and go straight into their Secrets: nothing is written to a disk",
            ),
            (
                &self.cache_resync_period,
                "--cache-resync-period",
                "every change is watched, and what has no watch is looked at when it is due: nothing is listed anew",
            ),
            (
                &self.serviceaccount_name,
                "--serviceaccount-name",
                "no Job is started under this account: state moves between data stores within this process",
            ),
            (
                &self.webhook_ca_path,
                "--webhook-ca-path",
                "Steward makes and renews the authority of its webhooks by itself, and tenants refuse writes by a policy of their own",
            ),
        ];
        let all = all.into_iter().chain(self.logs.all());
        let given = all.filter(|(value, ..)| value.is_some());
        given.map(|(_, flag, why)| (flag, why)).collect()
    }

    /// Says of each flag that does nothing why, and what has become of the subcommand.
    pub fn explain(&self) {
        if self.subcommand == Some(Subcommand::KubeconfigGenerator) {
            tracing::warn!(
                "kubeconfigs for others are made by every Steward: this process is one more of its replicas; remove its Deployment"
            );
        }
        for (flag, why) in self.without_meaning() {
            tracing::info!(flag, why, "this flag has no meaning here; leave it out");
        }
    }
}

impl LogFlags {
    /// Each flag, and why it does nothing.
    fn all(&self) -> [(&Option<String>, &'static str, &'static str); 5] {
        const FORMAT: &str =
            "the environment variable BUTLER_LOG_FORMAT chooses the format of logs, text or json";
        [
            (&self.zap_devel, "--zap-devel", FORMAT),
            (&self.zap_encoder, "--zap-encoder", FORMAT),
            (
                &self.zap_log_level,
                "--zap-log-level",
                "the environment variable BUTLER_LOG chooses what is logged, such as debug",
            ),
            (
                &self.zap_stacktrace_level,
                "--zap-stacktrace-level",
                "errors are told with their causes, and without stack traces",
            ),
            (
                &self.zap_time_encoding,
                "--zap-time-encoding",
                "times are written in one format, RFC 3339",
            ),
        ]
    }
}

/// Reads how long before its end a certificate is made anew at the latest.
pub(crate) fn certificate_deadline(text: &str) -> Result<SignedDuration, String> {
    let deadline: SignedDuration = text
        .parse()
        .map_err(|_| format!("{text:?} is no duration; write one such as 24h"))?;
    if (CERTIFICATE_DEADLINE..=LONGEST_DEADLINE).contains(&deadline) {
        Ok(deadline)
    } else {
        Err(format!(
            "choose at least {}h, and at most {}h: certificates live for a year, and must not be made anew all the time",
            CERTIFICATE_DEADLINE.as_hours(),
            LONGEST_DEADLINE.as_hours()
        ))
    }
}

/// Reads how long a pass may take.
pub(crate) fn pass_deadline(text: &str) -> Result<Duration, String> {
    let deadline: Option<SignedDuration> = text.parse().ok();
    let deadline = deadline.filter(SignedDuration::is_positive);
    deadline
        .and_then(|deadline| deadline.try_into().ok())
        .ok_or_else(|| {
            format!("{text:?} is no duration longer than nothing; write one such as 30s")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_read_as_the_older_program_wrote_them() {
        assert_eq!(certificate_deadline("24h0m0s"), Ok(CERTIFICATE_DEADLINE));
        assert_eq!(
            certificate_deadline("2160h"),
            Ok(SignedDuration::from_hours(2160))
        );
        assert_eq!(pass_deadline("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(pass_deadline("1m30s"), Ok(Duration::from_secs(90)));
        let told: Vec<_> = ["1h", "9000h", "soon"]
            .into_iter()
            .filter_map(|text| certificate_deadline(text).err())
            .chain(pass_deadline("0s").err())
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        choose at least 24h, and at most 4380h: certificates live for a year, and must not be made anew all the time
        choose at least 24h, and at most 4380h: certificates live for a year, and must not be made anew all the time
        "soon" is no duration; write one such as 24h
        "0s" is no duration longer than nothing; write one such as 30s
        "#);
    }
}
