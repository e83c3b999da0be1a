//! Finds every difference between a table and a definition that a user could meet.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::flatten::flatten;
use super::table::{Column, Field, Kind};

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The field does not exist.
    Missing,
    /// The field has another type.
    Type,
    /// The field is required here and optional there, or the other way round.
    Required,
    /// A value is not accepted, or a free text has become a closed set.
    Enum,
    /// The default is another one.
    Default,
    /// Minimum, maximum, length, pattern or format.
    Bounds,
    /// The list is merged in another way.
    List,
    /// Names, scope, subresources or columns.
    Names,
}

/// One difference.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) kind: String,
    pub(super) path: String,
    pub(super) what: What,
    pub(super) detail: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} {} {:?}: {}",
            self.kind, self.path, self.what, self.detail
        )
    }
}

/// Every difference, in the order of the table.
pub(super) fn compare(table: &Kind, definition: &CustomResourceDefinition) -> Vec<Problem> {
    let ours = flatten(definition);
    let mut found = names(table, definition, &ours);
    for (path, wanted) in &table.fields {
        match ours.get(path) {
            None => found.push((path.clone(), What::Missing, "no such field".to_owned())),
            Some(field) => {
                for (what, detail) in differences(table, path, wanted, field) {
                    found.push((path.clone(), what, detail));
                }
            }
        }
    }
    found
        .into_iter()
        .map(|(path, what, detail)| Problem {
            kind: table.name.clone(),
            path,
            what,
            detail,
        })
        .collect()
}

fn differences(table: &Kind, path: &str, wanted: &Field, ours: &Field) -> Vec<(What, String)> {
    let mut found = Vec::new();
    // The tables cut off where a Kubernetes type begins; what they do not look into may be left open.
    let is_leaf = !table.fields.keys().any(|other| {
        other
            .strip_prefix(path)
            .is_some_and(|rest| rest.starts_with(['.', '[', '{']))
    });
    let opened = is_leaf && wanted.kind == "object" && ours.kind == "object+unknown";
    if wanted.kind != ours.kind && !opened {
        found.push((What::Type, format!("{} became {}", wanted.kind, ours.kind)));
    }
    // The types need a spec; where nothing in it is required the API server fills in an empty one.
    if wanted.required != ours.required && path != "spec" {
        found.push((
            What::Required,
            format!("{} became {}", wanted.required, ours.required),
        ));
    }
    let lost: Vec<_> = wanted
        .values
        .iter()
        .filter(|value| !ours.values.contains(value))
        .collect();
    if wanted.values.is_empty() != ours.values.is_empty() || !lost.is_empty() {
        found.push((
            What::Enum,
            format!("{:?} became {:?}", wanted.values, ours.values),
        ));
    }
    // An empty object as default of a whole spec changes nothing.
    if wanted.default != ours.default && !(path == "spec" && ours.default.as_deref() == Some("{}"))
    {
        found.push((
            What::Default,
            format!("{:?} became {:?}", wanted.default, ours.default),
        ));
    }
    // A list that says nothing is merged as a whole, which is what `atomic` says.
    let merged = |list: &Option<String>| list.clone().unwrap_or_else(|| "atomic".to_owned());
    if merged(&wanted.list) != merged(&ours.list) {
        found.push((
            What::List,
            format!("{:?} became {:?}", wanted.list, ours.list),
        ));
    }
    if wanted.bounds != ours.bounds {
        found.push((
            What::Bounds,
            format!("{:?} became {:?}", wanted.bounds, ours.bounds),
        ));
    }
    found
}

fn names(
    table: &Kind,
    definition: &CustomResourceDefinition,
    fields: &BTreeMap<String, Field>,
) -> Vec<(String, What, String)> {
    let spec = &definition.spec;
    let version = &spec.versions[0];
    let mut found = Vec::new();
    let mut same = |what: &str, equal: bool, detail: String| {
        if !equal {
            found.push((what.to_owned(), What::Names, detail));
        }
    };
    let api_version = format!("{}/{}", spec.group, version.name);
    same(
        "apiVersion",
        table.api_version == api_version,
        api_version.clone(),
    );
    same("scope", table.scope == spec.scope, spec.scope.clone());
    same(
        "plural",
        table.plural == spec.names.plural,
        spec.names.plural.clone(),
    );
    let short_names = spec.names.short_names.clone().unwrap_or_default();
    same(
        "short names",
        table.short_names == short_names,
        format!("{short_names:?}"),
    );
    let categories = spec.names.categories.clone().unwrap_or_default();
    let has_categories = table
        .categories
        .iter()
        .all(|name| categories.contains(name));
    same("categories", has_categories, format!("{categories:?}"));
    let mut subresources = Vec::new();
    if let Some(existing) = &version.subresources {
        subresources.extend(existing.scale.as_ref().map(|_| "scale"));
        subresources.extend(existing.status.as_ref().map(|_| "status"));
    }
    let has_subresources = table
        .subresources
        .iter()
        .all(|name| subresources.contains(&name.as_str()));
    same(
        "subresources",
        has_subresources,
        format!("{subresources:?}"),
    );

    let columns = version
        .additional_printer_columns
        .clone()
        .unwrap_or_default();
    let printed: Vec<Column> = columns
        .iter()
        .map(|column| Column {
            name: column.name.clone(),
            path: column.json_path.clone(),
            wide: column.priority.unwrap_or_default() > 0,
        })
        .collect();
    same(
        "print columns",
        table.columns == printed,
        format!("{printed:?}"),
    );
    for column in &columns {
        let wanted = column_type(&column.json_path, fields);
        same(
            "print columns",
            wanted.is_none_or(|wanted| wanted == column.type_),
            format!(
                "{} is printed as {}, its field is a {wanted:?}",
                column.name, column.type_
            ),
        );
    }
    found
}

/// How a column of this path must be printed; `None` where the path leaves the fields we know.
fn column_type<'a>(path: &str, fields: &'a BTreeMap<String, Field>) -> Option<&'a str> {
    if path == ".metadata.creationTimestamp" {
        return Some("date");
    }
    let field = fields.get(path.trim_start_matches('.'))?;
    match field.kind.as_str() {
        "string"
            if field
                .bounds
                .get("format")
                .is_some_and(|format| format == "date-time") =>
        {
            Some("date")
        }
        "int-or-string" => Some("string"),
        kind => Some(kind),
    }
}
