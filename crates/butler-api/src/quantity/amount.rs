//! The exact number a quantity stands for.
//!
//! Owns: reading and writing the notation, with the same rounding and the same canonical form as the API server.

use std::iter::Sum;
use std::ops::Add;
use std::str::FromStr;

use thiserror::Error;

use super::Quantity;

const NANOS: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;
/// Ten to this power still fits the largest amount; a larger exponent cannot.
const LARGEST_EXPONENT: i32 = 29;

/// Says which text is no quantity, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("quantity {value:?} is not valid: {rule}")]
pub struct QuantityError {
    /// The text.
    pub value: String,
    /// The rule it breaks.
    pub rule: &'static str,
}

/// How a quantity was written, and so how its canonical form is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Powers of 1024: `Ki`, `Mi` …
    Binary,
    /// Powers of 1000: `m`, `k`, `M` …
    Decimal,
    /// Powers of ten: `1e3`.
    Exponent,
}

const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Each suffix with its power of ten.
const DECIMAL_SUFFIXES: [(&str, i32); 9] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// An exact amount, to the billionth; what is finer is rounded away from zero, as the API server does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i128);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// A whole number: cores, bytes, pieces.
    pub fn from_units(units: i64) -> Self {
        Self(i128::from(units) * NANOS)
    }

    /// A number of thousandths.
    pub fn from_millis(millis: i64) -> Self {
        Self(i128::from(millis) * NANOS_PER_MILLI)
    }

    /// In thousandths, rounded up: millicores.
    pub fn millis(self) -> i128 {
        round_up(self.0, NANOS_PER_MILLI)
    }

    /// In whole units, rounded up: bytes, cores.
    pub fn units(self) -> i128 {
        round_up(self.0, NANOS)
    }

    /// The amount in bytes, rounded up.
    pub fn bytes(self) -> i128 {
        self.units()
    }

    /// The sum, or `None` if it is too large.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The amount so many times, or `None` if it is too large.
    pub fn checked_times(self, factor: u32) -> Option<Self> {
        self.0.checked_mul(i128::from(factor)).map(Self)
    }

    /// The text for an amount of bytes: `16Gi`.
    pub fn to_binary(self) -> Quantity {
        Quantity::new(self.format(Format::Binary))
    }

    /// The text for an amount of anything else: `1500m`.
    pub fn to_decimal(self) -> Quantity {
        Quantity::new(self.format(Format::Decimal))
    }

    pub(super) fn format(self, format: Format) -> String {
        let (mut number, mut exponent) = (self.0, -9);
        match format {
            Format::Binary if self.0.abs() >= 1024 * NANOS => {
                let mut whole = round_up(self.0, NANOS);
                let mut suffix = "";
                for next in BINARY_SUFFIXES {
                    if whole % 1024 != 0 {
                        break;
                    }
                    whole /= 1024;
                    suffix = next;
                }
                return format!("{whole}{suffix}");
            }
            _ if number == 0 => return "0".to_owned(),
            Format::Binary | Format::Decimal => {
                while number % 1000 == 0 && exponent < 18 {
                    number /= 1000;
                    exponent += 3;
                }
            }
            Format::Exponent => {
                while number % 1000 == 0 {
                    number /= 1000;
                    exponent += 3;
                }
                return if exponent == 0 {
                    number.to_string()
                } else {
                    format!("{number}e{exponent}")
                };
            }
        }
        let suffix = DECIMAL_SUFFIXES
            .iter()
            .find_map(|(suffix, power)| (*power == exponent).then_some(*suffix))
            .unwrap_or_default();
        format!("{number}{suffix}")
    }
}

impl Add for Amount {
    type Output = Self;

    /// Adds; a sum too large to hold stays at the largest amount, so that a limit is never passed by wrapping.
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Amount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(|(amount, _)| amount)
    }
}

/// Divides away from zero.
fn round_up(number: i128, by: i128) -> i128 {
    let whole = number / by;
    if number % by == 0 {
        whole
    } else {
        whole + number.signum()
    }
}

/// The number a text stands for, and how it was written.
pub(super) fn parse(text: &str) -> Result<(Amount, Format), QuantityError> {
    let refuse = |rule| QuantityError {
        value: text.to_owned(),
        rule,
    };
    let malformed =
        || refuse("write a number with an optional suffix, for example 500m, 4, 16Gi or 1.5T");
    let too_large = || refuse("the amount is too large to count with");

    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let suffix_at = unsigned
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(unsigned.len());
    let (digits, suffix) = unsigned.split_at(suffix_at);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(malformed());
    }

    let (format, power, multiplier) = if suffix.is_empty() {
        (Format::Decimal, 0, 1)
    } else if let Some(step) = BINARY_SUFFIXES.iter().position(|known| *known == suffix) {
        let multiplier = (0..=step).fold(1_i128, |product, _| product * 1024);
        (Format::Binary, 0, multiplier)
    } else if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(known, _)| *known == suffix) {
        (Format::Decimal, *power, 1)
    } else if let Some(exponent) = suffix.strip_prefix(['e', 'E']) {
        (
            Format::Exponent,
            exponent.parse::<i32>().map_err(|_| malformed())?,
            1,
        )
    } else {
        return Err(malformed());
    };

    // Trailing zeros of the fraction and leading zeros of the whole say nothing and would only overflow.
    let fraction = fraction.trim_end_matches('0');
    let significant = format!("{}{fraction}", whole.trim_start_matches('0'));
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Ok((Amount::ZERO, format));
    }
    let mantissa = significant.parse::<i128>().map_err(|_| too_large())?;
    let mantissa = mantissa.checked_mul(multiplier).ok_or_else(too_large)?;
    let fraction_digits = i32::try_from(fraction.len()).map_err(|_| too_large())?;
    // The mantissa counts units of ten to this power, seen in nanos.
    let shift = power.saturating_sub(fraction_digits).saturating_add(9);
    let nanos = if shift >= 0 {
        if shift > LARGEST_EXPONENT + 9 {
            return Err(too_large());
        }
        mantissa
            .checked_mul(10_i128.pow(shift.unsigned_abs()))
            .ok_or_else(too_large)?
    } else {
        match 10_i128.checked_pow(shift.unsigned_abs()) {
            Some(divisor) => round_up(mantissa, divisor),
            None => 1,
        }
    };
    Ok((Amount(if negative { -nanos } else { nanos }), format))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(text: &str) -> Amount {
        text.parse().expect(text)
    }

    #[test]
    fn amounts_are_compared_as_numbers() {
        assert_eq!(amount("1Gi"), amount("1024Mi"));
        assert_eq!(amount("0.5"), amount("500m"));
        assert_eq!(amount("1e3"), amount("1k"));
        assert!(amount("900Mi") < amount("1Gi"));
        assert!(amount("1G") < amount("1Gi"));
        assert!(amount("-1") < Amount::ZERO);
    }

    #[test]
    fn cores_and_bytes_are_read_exactly() {
        assert_eq!(amount("250m").millis(), 250);
        assert_eq!(amount("2.5").millis(), 2500);
        assert_eq!(amount("1500u").millis(), 2);
        assert_eq!(amount("16Gi").bytes(), 17_179_869_184);
        assert_eq!(amount("8Ei").bytes(), 9_223_372_036_854_775_808);
        assert_eq!(amount("1.5Ki").bytes(), 1536);
    }

    #[test]
    fn what_is_no_quantity_is_refused_in_words() {
        for text in [
            "", "Gi", ".", "1.2.3", "4 Gi", "1ki", "1KiB", "--1", "1e", "1e1.5", "ten",
        ] {
            let error = text.parse::<Amount>().expect_err(text);
            assert!(error.to_string().contains("for example 500m"), "{error}");
        }
        for text in [
            "1e40",
            "99999999999999999999999999999999999999999",
            "1e2147483647",
        ] {
            let error = text.parse::<Amount>().expect_err(text);
            assert!(error.to_string().contains("too large"), "{error}");
        }
    }

    #[test]
    fn sums_stay_exact_and_never_wrap() {
        let total: Amount = ["500m", "1", "1500m"].into_iter().map(amount).sum();
        assert_eq!(total, Amount::from_units(3));
        assert_eq!(total.to_decimal().text(), "3");
        assert_eq!(
            amount("16Gi")
                .checked_times(3)
                .expect("fits")
                .to_binary()
                .text(),
            "48Gi"
        );
        assert_eq!(Amount(i128::MAX) + Amount(1), Amount(i128::MAX));
        assert_eq!(Amount(i128::MAX).checked_add(Amount(1)), None);
    }

    proptest! {
        #[test]
        fn millis_survive_being_written_and_read(millis in any::<i64>()) {
            let amount = Amount::from_millis(millis);
            prop_assert_eq!(amount.to_decimal().amount().unwrap(), amount);
            prop_assert_eq!(amount.millis(), i128::from(millis));
        }

        #[test]
        fn no_text_makes_parsing_panic(text in any::<String>()) {
            let _ = text.parse::<Amount>();
        }
    }
}
