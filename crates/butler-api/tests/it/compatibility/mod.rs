//! Nothing that the tables of fields list is missing from our definitions, except what `DEVIATIONS` says and explains.

mod compare;
mod deviations;
mod flatten;
mod table;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};

use self::compare::{Problem, What, compare};
use self::table::{Kind, parse};
use crate::{DEFINITIONS, definition};

const TABLES: [&str; 2] = [
    include_str!("../../tables/api-fields.tsv"),
    include_str!("../../tables/steward-fields.tsv"),
];

fn tables() -> Vec<Kind> {
    TABLES.into_iter().flat_map(parse).collect()
}

fn table(kind: &str) -> Kind {
    tables()
        .into_iter()
        .find(|table| table.name == kind)
        .unwrap_or_else(|| panic!("no table of the kind {kind}"))
}

#[test]
fn every_kind_of_the_tables_is_defined() {
    let missing: Vec<_> = tables()
        .into_iter()
        .map(|kind| kind.name)
        .filter(|name| {
            !DEFINITIONS
                .iter()
                .any(|defined| defined.spec.names.kind == *name)
        })
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_field_of_the_tables_is_accepted() {
    let report: Vec<String> = tables()
        .iter()
        .flat_map(|kind| compare(kind, definition(&kind.name)))
        .filter(|problem| !deviations::all().any(|deviation| deviation.covers(problem)))
        .map(|problem| problem.to_string())
        .collect();
    assert!(
        report.is_empty(),
        "{} differences:\n{}",
        report.len(),
        report.join("\n")
    );
}

#[test]
fn every_deviation_is_real_and_has_a_reason() {
    for deviation in deviations::all() {
        assert!(!deviation.reason.is_empty(), "{deviation:?}");
        let problems = compare(&table(deviation.kind), definition(deviation.kind));
        for path in deviation.paths {
            let real = problems
                .iter()
                .any(|problem| deviation.covers(problem) && problem.path == *path);
            assert!(
                real,
                "{} {path} {:?} deviates no more, remove the entry",
                deviation.kind, deviation.what
            );
        }
    }
}

#[test]
fn the_tables_are_read_whole() {
    let tables = tables();
    assert_eq!(tables.len(), 20);
    let rows: usize = tables.iter().map(|kind| kind.fields.len()).sum();
    let lines = TABLES
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| line.starts_with("spec") || line.starts_with("status"))
        .count();
    assert_eq!(rows, lines);
    let team = table("Team");
    assert_eq!(
        (team.scope.as_str(), team.plural.as_str()),
        ("Cluster", "teams")
    );
    assert_eq!(team.subresources, ["status"]);
    assert!(team.categories.is_empty());
    assert_eq!(
        team.fields["spec.access.users[].role"].values,
        ["admin", "operator", "viewer"]
    );
}

#[test]
fn the_checker_sees_a_missing_field() {
    let team = table("Team");
    let mut broken = definition("Team").clone();
    let spec = spec_of(&mut broken);
    spec.properties
        .as_mut()
        .expect("fields")
        .remove("displayName");
    assert_sees(&compare(&team, &broken), "spec.displayName", What::Missing);
}

#[test]
fn the_checker_sees_a_narrower_field() {
    let pool = table("ProviderConfig");
    let mut broken = definition("ProviderConfig").clone();
    let spec = spec_of(&mut broken);
    spec.required
        .as_mut()
        .expect("required")
        .push("network".to_owned());
    let fields = spec.properties.as_mut().expect("fields");
    fields
        .get_mut("provider")
        .expect("provider")
        .enum_
        .as_mut()
        .expect("enum")
        .remove(0);
    fields.get_mut("aws").expect("aws").type_ = Some("string".to_owned());
    let problems = compare(&pool, &broken);
    assert_sees(&problems, "spec.network", What::Required);
    assert_sees(&problems, "spec.provider", What::Enum);
    assert_sees(&problems, "spec.aws", What::Type);
}

#[test]
fn the_checker_sees_what_kubectl_would_miss() {
    let user = table("User");
    let mut broken = definition("User").clone();
    broken.spec.names.short_names = None;
    broken.spec.scope = "Namespaced".to_owned();
    let version = &mut broken.spec.versions[0];
    version.subresources = None;
    version
        .additional_printer_columns
        .as_mut()
        .expect("columns")
        .pop();
    let problems = compare(&user, &broken);
    for path in ["short names", "scope", "subresources", "print columns"] {
        assert_sees(&problems, path, What::Names);
    }
}

/// The schema of a definition's spec.
fn spec_of(definition: &mut CustomResourceDefinition) -> &mut JSONSchemaProps {
    let schema = definition.spec.versions[0].schema.as_mut();
    let fields = schema
        .and_then(|schema| schema.open_api_v3_schema.as_mut())
        .and_then(|schema| schema.properties.as_mut());
    fields
        .and_then(|fields| fields.get_mut("spec"))
        .expect("a schema with a spec")
}

fn assert_sees(problems: &[Problem], path: &str, what: What) {
    assert!(
        problems
            .iter()
            .any(|problem| problem.path == path && problem.what == what),
        "{path} {what:?} not among {problems:?}"
    );
}
