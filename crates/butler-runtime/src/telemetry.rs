//! Owns the logs of a process: structured, to standard error, text for people at a terminal and
//! JSON for machines.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The environment variable that chooses the format, `text` or `json`.
pub const FORMAT_VARIABLE: &str = "BUTLER_LOG_FORMAT";
/// The environment variable that chooses what is logged, such as `info,butler_runtime=debug`.
pub const FILTER_VARIABLE: &str = "BUTLER_LOG";

const DEFAULT_FILTER: &str = "info";

/// Logs cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The format is neither text nor JSON.
    #[error("{FORMAT_VARIABLE} is {value:?}; it must be \"text\" or \"json\"")]
    Format {
        /// What the variable holds.
        value: String,
    },
    /// The filter cannot be understood.
    #[error(
        "{FILTER_VARIABLE} is {value:?}, which is not a log filter; \
         write a level or directives such as \"info,butler_runtime=debug\""
    )]
    Filter {
        /// What the variable holds.
        value: String,
        /// Why it is not a filter.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// Logs were set up before.
    #[error("logs were already set up in this process; set them up once, in main")]
    AlreadySet(#[source] tracing_subscriber::util::TryInitError),
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text {
        /// Whether colours are used.
        color: bool,
    },
    /// One JSON object in each line.
    Json,
}

/// What is logged and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// How a line looks.
    pub format: LogFormat,
    /// The directives that choose what is logged.
    pub filter: String,
}

impl LogSettings {
    /// The settings for a process whose standard error is, or is not, a terminal.
    ///
    /// `variable` looks up an environment variable.
    pub fn choose(
        terminal: bool,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TelemetryError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        // https://no-color.org: any value that is not empty turns colours off.
        let color = terminal && set("NO_COLOR").is_none();
        let format = match set(FORMAT_VARIABLE).as_deref() {
            Some("text") => LogFormat::Text { color },
            Some("json") => LogFormat::Json,
            Some(other) => {
                return Err(TelemetryError::Format {
                    value: other.to_owned(),
                });
            }
            None if terminal => LogFormat::Text { color },
            None => LogFormat::Json,
        };
        let filter = set(FILTER_VARIABLE).unwrap_or_else(|| DEFAULT_FILTER.to_owned());
        Ok(Self { format, filter })
    }

    /// The settings for this process.
    pub fn from_environment() -> Result<Self, TelemetryError> {
        Self::choose(std::io::stderr().is_terminal(), |name| {
            std::env::var(name).ok()
        })
    }
}

/// Sets up the logs of this process; the second call is an error.
pub fn init(settings: &LogSettings) -> Result<(), TelemetryError> {
    let filter = EnvFilter::try_new(&settings.filter).map_err(|source| TelemetryError::Filter {
        value: settings.filter.clone(),
        source,
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match settings.format {
        LogFormat::Text { color } => lines
            .with_ansi(color)
            .with_target(false)
            .finish()
            .try_init(),
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init(),
    }
    .map_err(TelemetryError::AlreadySet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(terminal: bool, variables: &[(&str, &str)]) -> Result<LogSettings, TelemetryError> {
        LogSettings::choose(terminal, |name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn people_read_text_and_machines_read_json() {
        let person = choose(true, &[]).expect("valid");
        assert_eq!(person.format, LogFormat::Text { color: true });
        assert_eq!(person.filter, "info");
        assert_eq!(choose(false, &[]).expect("valid").format, LogFormat::Json);
    }

    #[test]
    fn the_environment_overrides_the_terminal() {
        let variables = [
            (FORMAT_VARIABLE, "json"),
            (FILTER_VARIABLE, "warn,butler=debug"),
        ];
        let settings = choose(true, &variables).expect("valid");
        assert_eq!(settings.format, LogFormat::Json);
        assert_eq!(settings.filter, "warn,butler=debug");
        let text = choose(false, &[(FORMAT_VARIABLE, "text")]).expect("valid");
        assert_eq!(text.format, LogFormat::Text { color: false });
        let plain = choose(true, &[("NO_COLOR", "1")]).expect("valid");
        assert_eq!(plain.format, LogFormat::Text { color: false });
    }

    #[test]
    fn an_unknown_format_names_the_variable_and_the_choices() {
        let error = choose(true, &[(FORMAT_VARIABLE, "xml")]).expect_err("xml is no format");
        assert_eq!(
            error.to_string(),
            "BUTLER_LOG_FORMAT is \"xml\"; it must be \"text\" or \"json\""
        );
    }

    #[test]
    fn setting_up_logs_twice_is_an_error_and_not_a_panic() {
        let settings = LogSettings {
            format: LogFormat::Text { color: false },
            filter: "info".to_owned(),
        };
        init(&settings).expect("the first call sets up the logs");
        assert!(matches!(
            init(&settings),
            Err(TelemetryError::AlreadySet(_))
        ));
        let broken = LogSettings {
            filter: "info,=x=".to_owned(),
            ..settings
        };
        assert!(matches!(init(&broken), Err(TelemetryError::Filter { .. })));
    }
}
