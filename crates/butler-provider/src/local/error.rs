//! What errors of the host mean to whoever wrote the request.

use std::{error::Error as _, io};

use butler_api::conditions::reasons;
use butler_host::{host::Error, machine::SpecError};

use crate::error::{ErrorClass, ProviderError};

/// The class and the words of an error of the host.
pub(super) fn understood(error: &Error) -> ProviderError {
    let (class, reason) = match error {
        Error::Spec(SpecError::TooLarge { .. }) => (ErrorClass::Quota, reasons::QUOTA_EXCEEDED),
        Error::File { source, .. } if is_full(source) => {
            (ErrorClass::Quota, reasons::QUOTA_EXCEEDED)
        }
        Error::Spec(_) | Error::UserData { .. } => {
            (ErrorClass::Terminal, reasons::VALIDATION_FAILED)
        }
        Error::AnotherMachine { .. } => (ErrorClass::Retry, reasons::NAME_TAKEN),
        Error::NotRoot
        | Error::Missing(_)
        | Error::StateDirectory { .. }
        | Error::OtherNetwork { .. } => (ErrorClass::Terminal, reasons::INVALID_CONFIGURATION),
        Error::Differs { .. } => (ErrorClass::Terminal, reasons::PROVIDER_ERROR),
        _ => (ErrorClass::Retry, reasons::PROVIDER_ERROR),
    };
    ProviderError::new(class, reason, words(error))
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// All that an error says, down to its cause.
fn words(error: &Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_larger_than_the_host_is_a_matter_of_room() {
        let error = Error::Spec(SpecError::TooLarge {
            name: "worker".parse().unwrap(),
            asked: 4000,
            available: 2000,
            unit: "millicores",
        });
        let error = understood(&error);
        assert_eq!(error.class, ErrorClass::Quota);
        assert_eq!(
            error.message,
            "machine worker asks for 4000 millicores and this host has 2000; ask for less"
        );
    }

    #[test]
    fn a_full_disk_is_a_matter_of_room_and_a_slow_one_of_time() {
        let file = |kind: io::ErrorKind| Error::File {
            doing: "write",
            path: "/var/lib/butler".into(),
            source: kind.into(),
        };
        let class = |kind| understood(&file(kind)).class;
        assert_eq!(class(io::ErrorKind::StorageFull), ErrorClass::Quota);
        assert_eq!(class(io::ErrorKind::TimedOut), ErrorClass::Retry);
    }
}
