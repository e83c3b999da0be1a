//! Amounts of CPU, memory and storage as Kubernetes writes them.
//!
//! Owns: what a user writes ([`Quantity`]) and the exact number it stands for ([`Amount`]).
//!
//! Must not: compare texts to compare amounts. `1Gi` and `1024Mi` are the same; only [`Amount`] has an order.

mod amount;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::amount::{Amount, QuantityError};

/// The pattern the API server accepts for a quantity.
pub const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// An amount as the user wrote it: `500m`, `4`, `16Gi`. It is written back in the same form: a number stays a number.
///
/// Equality is of the text, and the number `4` has the text `4`. For "the same amount" or "more than" use
/// [`Quantity::amount`].
#[derive(Clone)]
pub struct Quantity(Written);

#[derive(Clone)]
enum Written {
    Number(i64),
    Text(String),
}

impl Quantity {
    /// Keeps the text as it is; whether it is a quantity is found out when its amount is asked for.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Written::Text(text.into()))
    }

    /// The text, or the digits of the number.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.0 {
            Written::Number(number) => Cow::Owned(number.to_string()),
            Written::Text(text) => Cow::Borrowed(text),
        }
    }

    /// The number the text stands for.
    pub fn amount(&self) -> Result<Amount, QuantityError> {
        self.text().parse()
    }

    /// The text the API server would keep: `1000m` becomes `1`, `0.5Gi` becomes `512Mi`.
    ///
    /// A binary amount that is no multiple of 1024 loses its suffix and counts as a decimal one from then on, so the form
    /// settles only when it is taken a second time: `438.476Ki`, `449000`, `449k`.
    pub fn canonical(&self) -> Result<Self, QuantityError> {
        let (amount, format) = amount::parse(&self.text())?;
        Ok(Self::new(amount.format(format)))
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::new(String::new())
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Quantity {}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Checks that the text is a quantity and keeps it as it is.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        amount::parse(text).map(|_| Self::new(text))
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Quantity")
            .field(&self.text())
            .finish()
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text())
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Written::Number(number) => serializer.serialize_i64(*number),
            Written::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum NumberOrText {
            Number(i64),
            Text(String),
        }
        Ok(Self(match NumberOrText::deserialize(deserializer)? {
            NumberOrText::Number(number) => Written::Number(number),
            NumberOrText::Text(text) => Written::Text(text),
        }))
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_forms_are_those_of_the_api_server() {
        for (written, kept) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("0.5Gi", "512Mi"),
            ("1024Mi", "1Gi"),
            ("1536", "1536"),
            ("1.5Ki", "1536"),
            ("0.1Ki", "102400m"),
            ("438.476Ki", "449000"),
            ("1000000", "1M"),
            ("1e3", "1e3"),
            ("12E5", "1200e3"),
            ("+4", "4"),
            (".5Gi", "512Mi"),
            ("5.", "5"),
            ("0", "0"),
            ("0Gi", "0"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-2000m", "-2"),
        ] {
            let canonical = Quantity::new(written).canonical().expect(written);
            assert_eq!(canonical.text(), kept, "{written}");
        }
    }

    #[test]
    fn a_number_stays_a_number_and_a_text_a_text() {
        for written in [json!(4), json!("4"), json!("16Gi")] {
            let quantity: Quantity = serde_json::from_value(written.clone()).expect("quantity");
            assert_eq!(serde_json::to_value(&quantity).expect("value"), written);
        }
    }

    #[test]
    fn four_is_four_however_it_is_written() {
        let number: Quantity = serde_json::from_value(json!(4)).expect("number");
        assert_eq!(number, Quantity::new("4"));
        assert_eq!(number.amount().expect("amount"), Amount::from_units(4));
        assert_ne!(Quantity::new("1Gi"), Quantity::new("1024Mi"));
        assert!("4x".parse::<Quantity>().is_err());
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_the_same_amount_and_settles(
            text in r"[+-]?([0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9])?",
        ) {
            let quantity = Quantity::new(text);
            let canonical = quantity.canonical().unwrap();
            let settled = canonical.canonical().unwrap();
            prop_assert_eq!(&settled.canonical().unwrap(), &settled);
            prop_assert_eq!(canonical.amount().unwrap(), settled.amount().unwrap());
            // Binary forms above 1Ki are whole numbers, so they may be rounded up by less than one.
            let (before, after) = (quantity.amount().unwrap(), canonical.amount().unwrap());
            prop_assert_eq!(before.units(), after.units());
            if before == Amount::from_units(i64::try_from(before.units()).unwrap_or_default()) {
                prop_assert_eq!(before, after);
            }
        }
    }
}
