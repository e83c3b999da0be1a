//! Reads the tables of fields.

use std::collections::BTreeMap;

/// One kind of a table.
#[derive(Debug, Default)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) api_version: String,
    pub(super) scope: String,
    pub(super) plural: String,
    pub(super) short_names: Vec<String>,
    pub(super) categories: Vec<String>,
    pub(super) subresources: Vec<String>,
    pub(super) columns: Vec<Column>,
    pub(super) fields: BTreeMap<String, Field>,
}

/// A column `kubectl get` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) wide: bool,
}

/// What a table, or one of our definitions, says of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) kind: String,
    pub(super) required: bool,
    pub(super) values: Vec<String>,
    pub(super) default: Option<String>,
    /// How a list is merged: `map:name`.
    pub(super) list: Option<String>,
    /// Minimum, maximum, lengths, pattern and format, by name.
    pub(super) bounds: BTreeMap<String, String>,
}

/// Names of constraints in the third column.
const CONSTRAINTS: [&str; 13] = [
    "enum",
    "default",
    "list",
    "cel",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "format",
    "maxProperties",
];

/// Reads one table.
pub(super) fn parse(text: &str) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(header) = line.strip_prefix("## ") {
            kinds.push(parse_header(header));
            continue;
        }
        let kind = kinds.last_mut().expect("a header comes first");
        if let Some(columns) = line.strip_prefix("print columns: ") {
            kind.columns = columns.split("; ").map(parse_column).collect();
        } else {
            let mut cells = line.split('\t');
            let path = cells.next().expect("path");
            let kind_of_field = cells.next().expect("type");
            let field = parse_field(kind_of_field, cells.next().unwrap_or_default());
            assert!(
                kind.fields.insert(path.to_owned(), field).is_none(),
                "{path} is listed twice"
            );
        }
    }
    kinds
}

fn parse_header(header: &str) -> Kind {
    let (name, rest) = header.split_once(" (").expect(header);
    let mut kind = Kind {
        name: name.to_owned(),
        ..Kind::default()
    };
    let rest = rest.strip_suffix(')').expect(header);
    let list = |text: &str| -> Vec<String> {
        text.split(',')
            .filter(|item| *item != "-")
            .map(str::to_owned)
            .collect()
    };
    for part in rest.split(", ") {
        match part.split_once(' ') {
            Some(("plural", plural)) => plural.clone_into(&mut kind.plural),
            Some(("short", names)) => kind.short_names = list(names),
            Some(("categories", names)) => kind.categories = list(names),
            Some(("subresources", names)) => kind.subresources = list(names),
            None if part.contains('/') => part.clone_into(&mut kind.api_version),
            None => part.clone_into(&mut kind.scope),
            Some(_) => panic!("unknown part of a header: {part}"),
        }
    }
    kind
}

fn parse_column(text: &str) -> Column {
    let (name, path) = text.split_once('=').expect(text);
    let (path, wide) = match path.strip_suffix("(wide)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    Column {
        name: name.to_owned(),
        path: path.to_owned(),
        wide,
    }
}

fn parse_field(kind: &str, constraints: &str) -> Field {
    let mut field = Field {
        kind: kind.trim_end_matches('*').to_owned(),
        required: kind.ends_with('*'),
        ..Field::default()
    };
    for (name, value) in split_constraints(constraints) {
        match name {
            "enum" => {
                field.values = value
                    .trim_matches(['[', ']'])
                    .split(", ")
                    .map(|item| item.trim_matches('\'').to_owned())
                    .collect();
            }
            "default" => field.default = Some(default_as_json(&field.kind, value)),
            "list" => field.list = Some(value.to_owned()),
            // Rules are compared by meaning, in the tests of the kinds.
            "cel" => {}
            _ => {
                field.bounds.insert(name.to_owned(), value.to_owned());
            }
        }
    }
    field
}

/// Cuts `a=1 b=x y c=2` at the names we know.
fn split_constraints(text: &str) -> Vec<(&str, &str)> {
    let mut starts: Vec<(usize, &str)> = CONSTRAINTS
        .iter()
        .flat_map(|name| {
            text.match_indices(*name).filter_map(move |(at, _)| {
                let begins = at == 0 || text[..at].ends_with(' ');
                (begins && text[at + name.len()..].starts_with('=')).then_some((at, *name))
            })
        })
        .collect();
    starts.sort_unstable();
    starts
        .iter()
        .enumerate()
        .map(|(index, (at, name))| {
            let end = starts.get(index + 1).map_or(text.len(), |(next, _)| *next);
            (*name, text[at + name.len() + 1..end].trim_end())
        })
        .collect()
}

/// A default of the table, which is written as Python writes values, as JSON.
fn default_as_json(kind: &str, text: &str) -> String {
    let value = match text {
        "True" => "true".to_owned(),
        "False" => "false".to_owned(),
        _ if kind == "string" => format!("{text:?}"),
        _ => text
            .replace('\'', "\"")
            .replace("True", "true")
            .replace("False", "false"),
    };
    // A quantity such as `100Gi` is text without quotes.
    let json = serde_json::from_str(&value).unwrap_or_else(|_| serde_json::json!(text));
    json.to_string()
}
