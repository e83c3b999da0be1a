//! Kubeconfigs as documents: what is taken out of one, and what is put into another. Fields that we do not know are kept.

use serde_json::{Map, Value, json};

/// What proves who a user is: the fields of an entry of `users`.
pub(super) type Credentials = Map<String, Value>;

/// A kubeconfig of one cluster, whose entries are called after it. Without credentials those of the source are used.
pub(super) fn named(
    source: &Value,
    cluster: &str,
    user: &str,
    credentials: Option<Credentials>,
) -> Result<Value, String> {
    let current = source["current-context"].as_str().unwrap_or_default();
    let context = entry(source, "contexts", current, "context")?;
    let name = |field: &str| context[field].as_str().unwrap_or_default().to_owned();
    let server = entry(source, "clusters", &name("cluster"), "cluster")?;
    let own = match credentials {
        Some(credentials) => Value::Object(credentials),
        None => entry(source, "users", &name("user"), "user")?.clone(),
    };
    let user = format!("{cluster}-{user}");
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": cluster, "cluster": server }],
        "users": [{ "name": user, "user": own }],
        "contexts": [{ "name": cluster, "context": { "cluster": cluster, "user": user } }],
        "current-context": cluster,
    }))
}

/// The content of the entry of a name.
fn entry<'a>(file: &'a Value, list: &str, name: &str, field: &str) -> Result<&'a Value, String> {
    let entries = file[list].as_array().into_iter().flatten();
    let mut own = entries.filter(|entry| entry["name"] == name);
    let found = own.next().and_then(|entry| entry.get(field));
    found.ok_or_else(|| format!("it has no entry {name:?} in {list}"))
}

/// A file with the entries of another put in. Says whether some of these names were there.
pub(super) fn merged(mut into: Value, from: &Value, use_it: bool) -> Result<(Value, bool), String> {
    if into.is_null() {
        into = json!({ "apiVersion": "v1", "kind": "Config" });
    }
    let Some(file) = into.as_object_mut() else {
        return Err("it is not a kubeconfig".to_owned());
    };
    let mut replaced = false;
    for list in ["clusters", "users", "contexts"] {
        let place = file.entry(list).or_insert(Value::Null);
        if place.is_null() {
            *place = json!([]);
        }
        let Some(entries) = place.as_array_mut() else {
            return Err(format!("{list} is not a list"));
        };
        for new in from[list].as_array().into_iter().flatten() {
            let before = entries.len();
            entries.retain(|old| old["name"] != new["name"]);
            replaced |= entries.len() < before;
            entries.push(new.clone());
        }
    }
    let has_context = file
        .get("current-context")
        .and_then(Value::as_str)
        .is_some_and(|context| !context.is_empty());
    if use_it || !has_context {
        file.insert(
            "current-context".to_owned(),
            from["current-context"].clone(),
        );
    }
    Ok((into, replaced))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn administrator() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "kubernetes-admin@demo",
            "clusters": [{ "name": "demo", "cluster": { "server": "https://172.30.8.4:6443", "certificate-authority-data": "Q0E=" } }],
            "users": [{ "name": "kubernetes-admin", "user": { "client-key-data": "S0VZ" } }],
            "contexts": [{ "name": "kubernetes-admin@demo", "context": { "cluster": "demo", "user": "kubernetes-admin" } }],
        })
    }

    #[test]
    fn entries_are_called_after_the_cluster() {
        let made = named(&administrator(), "shop", "admin", None).unwrap();
        assert_eq!(made["current-context"], "shop");
        assert_eq!(
            made["users"][0],
            json!({ "name": "shop-admin", "user": { "client-key-data": "S0VZ" } })
        );
        assert_eq!(
            made["clusters"][0]["cluster"]["server"],
            "https://172.30.8.4:6443"
        );
    }

    #[test]
    fn a_users_kubeconfig_has_nothing_of_the_administrators() {
        let token = Map::from_iter([("token".to_owned(), json!("t"))]);
        let made = named(&administrator(), "shop", "jane", Some(token)).unwrap();
        assert!(!made.to_string().contains("S0VZ"));
        assert_eq!(made["contexts"][0]["context"]["user"], "shop-jane");
    }

    #[test]
    fn what_is_in_a_file_stays_and_the_same_names_are_replaced() {
        let made = named(&administrator(), "shop", "admin", None).unwrap();
        let before = json!({
            "preferences": { "colors": true }, "current-context": "other",
            "clusters": [{ "name": "other", "cluster": { "proxy-url": "http://proxy" } }, { "name": "shop", "cluster": {} }],
            "users": null,
        });
        let (after, replaced) = merged(before, &made, false).unwrap();
        assert!(replaced);
        assert_eq!(after["preferences"]["colors"], true);
        assert_eq!(after["current-context"], "other");
        assert_eq!(after["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(after["clusters"][0]["cluster"]["proxy-url"], "http://proxy");
        let (again, _) = merged(after.clone(), &made, false).unwrap();
        assert_eq!(again, after, "a second time changes nothing");
        let (fresh, replaced) = merged(Value::Null, &made, false).unwrap();
        assert_eq!(
            (fresh["current-context"].as_str(), replaced),
            (Some("shop"), false)
        );
        assert!(merged(json!("text"), &made, true).is_err());
    }

    #[test]
    fn a_kubeconfig_without_a_current_context_is_told_apart() {
        let problem = named(&json!({}), "shop", "admin", None).unwrap_err();
        assert_eq!(problem, "it has no entry \"\" in contexts");
    }
}
