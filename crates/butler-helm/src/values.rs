//! Values of a chart, some of which nobody may see.

use std::fmt;

use serde_json::{Map, Value};

/// What stands in a text where a secret was.
const HIDDEN: &str = "(hidden)";

/// The values of a release. Those that are secret are kept apart, so that they can be kept out of what people see.
#[derive(Clone, Default, PartialEq)]
pub struct Values {
    plain: Value,
    secret: Value,
}

impl Values {
    /// The chart's own values.
    pub fn none() -> Self {
        Self::default()
    }

    /// The same values with secret ones laid over them, object by object. `Debug` and errors show none of their texts.
    #[must_use]
    pub fn with_secret(mut self, secret: Value) -> Self {
        overlay(&mut self.secret, secret);
        self
    }

    /// All values as helm reads them; JSON is YAML.
    pub(crate) fn document(&self) -> String {
        let mut all = self.plain.clone();
        overlay(&mut all, self.secret.clone());
        if all.is_null() {
            all = Value::Object(Map::new());
        }
        all.to_string()
    }

    /// A text of helm's without what is secret: helm quotes values that it does not like.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let mut secrets = Vec::new();
        collect(&self.secret, &mut secrets);
        // The longest first: one may be part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.iter().fold(text.to_owned(), |text, secret| {
            text.replace(secret.as_str(), HIDDEN)
        })
    }
}

impl From<Value> for Values {
    fn from(plain: Value) -> Self {
        Self {
            plain,
            secret: Value::Null,
        }
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = if self.secret.is_null() {
            "none"
        } else {
            HIDDEN
        };
        formatter
            .debug_struct("Values")
            .field("plain", &self.plain)
            .field("secret", &secret)
            .finish()
    }
}

fn overlay(under: &mut Value, over: Value) {
    match (under, over) {
        (_, Value::Null) => {}
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                overlay(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// Every text and number, as it would stand in a message; in messages with quotes, an escaped text too.
fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => into.push(number.to_string()),
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => {
            into.push(text.clone());
            let quoted = Value::String(text.clone()).to_string();
            into.push(quoted.trim_matches('"').to_owned());
            // Helm repeats single lines of what it cannot read.
            into.extend(
                text.lines()
                    .map(str::trim)
                    .filter(|line| line.len() > 3)
                    .map(str::to_owned),
            );
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, into)),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn values() -> Values {
        let plain = json!({ "user": "admin", "store": { "size": 1 } });
        let secret = json!({ "store": { "password": "hunter\"2", "key": "line one\nline two" } });
        Values::from(plain).with_secret(secret)
    }

    #[test]
    fn helm_gets_plain_and_secret_values_in_one_document() {
        let document: Value = serde_json::from_str(&values().document()).unwrap();
        let store = json!({ "size": 1, "password": "hunter\"2", "key": "line one\nline two" });
        assert_eq!(document, json!({ "user": "admin", "store": store }));
        assert_eq!(Values::none().document(), "{}");
    }

    #[test]
    fn secrets_are_hidden_in_words_and_debug() {
        let values = values();
        let words =
            r#"at '/store/password': 'hunter"2' is bad, "hunter\"2" too; near "line two" of admin"#;
        let expected =
            r#"at '/store/password': '(hidden)' is bad, "(hidden)" too; near "(hidden)" of admin"#;
        assert_eq!(values.scrub(words), expected);
        assert!(!format!("{values:?}").contains("hunter"));
    }

    #[test]
    fn a_secret_may_be_part_of_another() {
        let values = Values::none().with_secret(json!(["abc", "abcdef"]));
        assert_eq!(values.scrub("'abcdef'"), "'(hidden)'");
    }
}
