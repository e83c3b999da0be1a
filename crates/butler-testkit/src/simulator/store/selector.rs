//! Label selectors: existence and equality, as far as controllers use them.

use serde_json::Value;

/// Whether an object's labels match a selector such as `a,b=c,!d,e!=f`.
pub(in crate::simulator) fn matches(selector: Option<&str>, object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels");
    let label = |name: &str| {
        labels
            .and_then(|labels| labels.get(name.trim()))
            .and_then(Value::as_str)
    };
    let terms = selector
        .into_iter()
        .flat_map(|selector| selector.split(','));
    terms
        .map(str::trim)
        .filter(|term| !term.is_empty())
        .all(|term| {
            if let Some((name, value)) = term.split_once("!=") {
                label(name) != Some(value.trim())
            } else if let Some((name, value)) = term.split_once('=') {
                label(name) == Some(value.trim_start_matches('=').trim())
            } else if let Some(name) = term.strip_prefix('!') {
                label(name).is_none()
            } else {
                label(term).is_some()
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_know_existence_and_equality() {
        let object = json!({ "metadata": { "labels": { "team": "red", "zone": "a" } } });
        for selector in [
            "team",
            "team=red",
            "team==red",
            "!missing",
            "team!=blue",
            "team=red,zone",
        ] {
            assert!(matches(Some(selector), &object), "{selector}");
        }
        for selector in [
            "missing",
            "team=blue",
            "!team",
            "team!=red",
            "team=red,missing",
        ] {
            assert!(!matches(Some(selector), &object), "{selector}");
        }
        assert!(matches(None, &object));
    }
}
