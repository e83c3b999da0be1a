//! Sets of fields, as server-side apply keeps them for each manager, and the algebra of merging by them.

use std::collections::BTreeMap;

use butler_runtime::object::Kind;
use serde_json::{Map, Value, json};

use super::schema::{Shape, shape_of_list, shape_of_object};

/// A set of fields. The names of nested ones are those of `FieldsV1`: `f:` a member, `k:` an item by key, `v:` by value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    member: bool,
    nested: BTreeMap<String, Self>,
}

impl FieldSet {
    fn leaf() -> Self {
        Self {
            member: true,
            nested: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.nested.values().all(Self::is_empty)
    }

    pub(super) fn union(mut self, other: &Self) -> Self {
        self.member |= other.member;
        for (name, theirs) in &other.nested {
            let ours = self.nested.remove(name).unwrap_or_default();
            self.nested.insert(name.clone(), ours.union(theirs));
        }
        self
    }

    pub(super) fn difference(&self, other: &Self) -> Self {
        let nested = self.nested.iter().map(|(name, ours)| {
            let left = other
                .nested
                .get(name)
                .map_or_else(|| ours.clone(), |theirs| ours.difference(theirs));
            (name.clone(), left)
        });
        Self {
            member: self.member && !other.member,
            nested: nested.filter(|(_, left)| !left.is_empty()).collect(),
        }
    }

    /// With every field that contains one of the set. An object is kept while anything in it is somebody's.
    pub(super) fn with_parents(&self) -> Self {
        let nested = self
            .nested
            .iter()
            .filter(|(_, set)| !set.is_empty())
            .map(|(name, set)| {
                let mut set = set.with_parents();
                set.member = true;
                (name.clone(), set)
            });
        Self {
            member: self.member,
            nested: nested.collect(),
        }
    }

    /// As `FieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let nested = self
            .nested
            .iter()
            .map(|(name, set)| (name.clone(), set.to_json()));
        let mut object: Map<String, Value> = nested.collect();
        if self.member && !object.is_empty() {
            object.insert(".".to_owned(), json!({}));
        }
        Value::Object(object)
    }

    fn nest(&mut self, name: String, set: Self) {
        if !set.is_empty() {
            self.nested.insert(name, set);
        }
    }
}

/// A place in an object of a kind, which decides how values there merge.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    kind: &'a Kind,
    path: Vec<String>,
}

impl<'a> Place<'a> {
    pub(super) fn root(kind: &'a Kind) -> Self {
        Self {
            kind,
            path: Vec::new(),
        }
    }

    fn member(&self, name: &str) -> Self {
        let mut inner = self.clone();
        inner.path.push(name.to_owned());
        inner
    }

    fn shape(&self, value: &Value) -> Shape {
        match value {
            Value::Object(_) => shape_of_object(self.kind, &self.path),
            Value::Array(_) => shape_of_list(self.kind, &self.path),
            _ => Shape::Atomic,
        }
    }

    /// The parts of a value that merge one by one; `None` if it is one value.
    fn parts<'v>(&self, value: &'v Value) -> Option<Vec<(String, Self, &'v Value)>> {
        match (value, self.shape(value)) {
            (Value::Object(object), Shape::Granular) => {
                let members = object.iter();
                Some(
                    members
                        .map(|(name, value)| (format!("f:{name}"), self.member(name), value))
                        .collect(),
                )
            }
            (Value::Array(items), shape @ (Shape::Keyed(_) | Shape::Set)) => {
                let items = items.iter();
                Some(
                    items
                        .map(|item| (item_name(item, shape), self.clone(), item))
                        .collect(),
                )
            }
            _ => None,
        }
    }
}

/// The `FieldsV1` name of a list's item.
fn item_name(item: &Value, shape: Shape) -> String {
    let Shape::Keyed(keys) = shape else {
        return format!("v:{item}");
    };
    let members = keys.iter().filter_map(|key| {
        let value = item.get(key.name).cloned();
        let value = value.or_else(|| key.default.map(Value::from))?;
        Some((key.name.to_owned(), value))
    });
    // Sorted, because that is how the API server writes the key.
    let members: BTreeMap<String, Value> = members.collect();
    format!("k:{}", json!(members))
}

fn is_item(name: &str) -> bool {
    !name.starts_with("f:")
}

/// All fields of a value.
pub(super) fn fields_of(value: &Value, place: &Place<'_>) -> FieldSet {
    let Some(parts) = place.parts(value) else {
        return FieldSet::leaf();
    };
    if parts.is_empty() && value.is_object() {
        return FieldSet::leaf();
    }
    let mut set = FieldSet::default();
    for (name, inner, part) in parts {
        let mut fields = fields_of(part, &inner);
        fields.member |= is_item(&name);
        set.nest(name, fields);
    }
    set
}

/// The fields of `after` that `before` does not have, or has otherwise.
pub(super) fn changed(before: Option<&Value>, after: &Value, place: &Place<'_>) -> FieldSet {
    let Some(before) = before else {
        return fields_of(after, place);
    };
    let (Some(old), Some(new)) = (place.parts(before), place.parts(after)) else {
        return if before == after {
            FieldSet::default()
        } else {
            fields_of(after, place)
        };
    };
    let mut set = FieldSet::default();
    for (name, inner, part) in new {
        let was = old
            .iter()
            .find(|(other, ..)| *other == name)
            .map(|(_, _, value)| *value);
        let mut fields = changed(was, part, &inner);
        fields.member |= is_item(&name) && was.is_none();
        set.nest(name, fields);
    }
    set
}

/// Lays `config` over `live`.
pub(super) fn merged(live: Option<&Value>, config: &Value, place: &Place<'_>) -> Value {
    let Some(live) = live else {
        return config.clone();
    };
    let (Some(ours), Some(theirs)) = (place.parts(live), place.parts(config)) else {
        return config.clone();
    };
    if let (Value::Object(live), Value::Object(config)) = (live, config) {
        let mut object = live.clone();
        for (name, value) in config {
            object.insert(
                name.clone(),
                merged(live.get(name), value, &place.member(name)),
            );
        }
        return Value::Object(object);
    }
    Value::Array(merged_items(&ours, &theirs))
}

type Parts<'a, 'v> = [(String, Place<'a>, &'v Value)];

/// Merges the items of two lists: the applied one decides the order of its items, the others keep their place before or
/// after the shared ones.
fn merged_items(live: &Parts<'_, '_>, config: &Parts<'_, '_>) -> Vec<Value> {
    let find =
        |parts: &Parts<'_, '_>, name: &str| parts.iter().position(|(other, ..)| other == name);
    let mut items = Vec::new();
    let (mut left, mut right) = (live, config);
    loop {
        let next_shared = right.iter().find(|(name, ..)| find(live, name).is_some());
        match (left.split_first(), right.split_first()) {
            (Some(((name, _, value), rest)), _) if find(config, name).is_none() => {
                items.push((*value).clone());
                left = rest;
            }
            (Some(((name, ..), rest)), _) if next_shared.is_none_or(|(next, ..)| next != name) => {
                left = rest;
            }
            (_, Some(((name, inner, value), rest))) => {
                let known = find(live, name).and_then(|index| live.get(index));
                items.push(merged(known.map(|(_, _, value)| *value), value, inner));
                right = rest;
                left = match left.split_first() {
                    Some(((other, ..), after)) if other == name => after,
                    _ => left,
                };
            }
            (Some((_, rest)), None) => left = rest,
            (None, None) => return items,
        }
    }
}

/// Takes fields out of a value.
pub(super) fn without(value: &Value, fields: &FieldSet, place: &Place<'_>) -> Value {
    let Some(parts) = place.parts(value) else {
        return value.clone();
    };
    let kept = parts.into_iter().filter_map(|(name, inner, part)| {
        let Some(fields) = fields.nested.get(&name) else {
            return Some((name, part.clone()));
        };
        (!fields.member).then(|| {
            let part = without(part, fields, &inner);
            (name, part)
        })
    });
    if value.is_object() {
        let members =
            kept.map(|(name, part)| (name.strip_prefix("f:").unwrap_or(&name).to_owned(), part));
        Value::Object(members.collect())
    } else {
        Value::Array(kept.map(|(_, part)| part).collect())
    }
}
