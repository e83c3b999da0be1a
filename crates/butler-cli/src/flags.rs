//! How values of flags are read.

use std::time::Duration;

/// A time: `90`, `90s`, `20m`, `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.trim_end_matches(char::is_alphabetic).len());
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("write it like 90s, 20m or 1h".to_owned()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "write it like 90s, 20m or 1h".to_owned())?;
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("20m"), Ok(Duration::from_mins(20)));
        assert_eq!(duration("1h"), Ok(Duration::from_hours(1)));
        assert!(duration("soon").is_err() && duration("5d").is_err() && duration("").is_err());
    }
}
