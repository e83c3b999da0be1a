//! Nothing that the tables of fields list is missing from our definitions, except what `DEVIATIONS` says and explains.

mod compare;
mod deviations;
mod flatten;
mod table;

use butler_api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use self::compare::{Problem, What, compare};
use self::deviations::DEVIATIONS;
use self::table::{Kind, parse};

const TABLES: [&str; 2] = [
    include_str!("../../tables/api-fields.tsv"),
    include_str!("../../tables/steward-fields.tsv"),
];

fn tables() -> Vec<Kind> {
    TABLES.into_iter().flat_map(parse).collect()
}

fn definition(kind: &str) -> CustomResourceDefinition {
    crds::all()
        .into_iter()
        .find(|definition| definition.spec.names.kind == kind)
        .expect(kind)
}

#[test]
fn every_kind_of_the_tables_is_defined() {
    let defined: Vec<_> = crds::all()
        .into_iter()
        .map(|crd| crd.spec.names.kind)
        .collect();
    let missing: Vec<_> = tables()
        .into_iter()
        .map(|kind| kind.name)
        .filter(|name| !defined.contains(name))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_field_of_the_tables_is_accepted() {
    let definitions = crds::all();
    let problems: Vec<Problem> = tables()
        .iter()
        .filter_map(|kind| {
            let found = definitions
                .iter()
                .find(|crd| crd.spec.names.kind == kind.name)?;
            Some(compare(kind, found))
        })
        .flatten()
        .filter(|problem| !DEVIATIONS.iter().any(|deviation| deviation.covers(problem)))
        .collect();
    let report: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert!(
        report.is_empty(),
        "{} differences:\n{}",
        report.len(),
        report.join("\n")
    );
}

#[test]
fn every_deviation_is_real_and_has_a_reason() {
    let definitions = crds::all();
    let tables = tables();
    for deviation in DEVIATIONS {
        assert!(!deviation.reason.is_empty(), "{deviation:?}");
        let kind = tables
            .iter()
            .find(|kind| kind.name == deviation.kind)
            .expect(deviation.kind);
        let found = definitions
            .iter()
            .find(|crd| crd.spec.names.kind == deviation.kind)
            .expect(deviation.kind);
        assert!(
            compare(kind, found)
                .iter()
                .any(|problem| deviation.covers(problem)),
            "nothing deviates any more, remove the entry: {deviation:?}"
        );
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
    let team = tables
        .iter()
        .find(|kind| kind.name == "Team")
        .expect("Team");
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
    let tables = tables();
    let team = tables
        .iter()
        .find(|kind| kind.name == "Team")
        .expect("Team");
    let mut broken = definition("Team");
    let schema = broken.spec.versions[0].schema.as_mut().expect("schema");
    let schema = schema.open_api_v3_schema.as_mut().expect("schema");
    let spec = schema
        .properties
        .as_mut()
        .expect("fields")
        .get_mut("spec")
        .expect("spec");
    spec.properties
        .as_mut()
        .expect("fields")
        .remove("displayName");
    assert_sees(&compare(team, &broken), "spec.displayName", What::Missing);
}

#[test]
fn the_checker_sees_a_narrower_field() {
    let tables = tables();
    let pool = tables
        .iter()
        .find(|kind| kind.name == "ProviderConfig")
        .expect("ProviderConfig");
    let mut broken = definition("ProviderConfig");
    let schema = broken.spec.versions[0].schema.as_mut().expect("schema");
    let schema = schema.open_api_v3_schema.as_mut().expect("schema");
    let spec = schema
        .properties
        .as_mut()
        .expect("fields")
        .get_mut("spec")
        .expect("spec");
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
    let problems = compare(pool, &broken);
    assert_sees(&problems, "spec.network", What::Required);
    assert_sees(&problems, "spec.provider", What::Enum);
    assert_sees(&problems, "spec.aws", What::Type);
}

#[test]
fn the_checker_sees_what_kubectl_would_miss() {
    let tables = tables();
    let user = tables
        .iter()
        .find(|kind| kind.name == "User")
        .expect("User");
    let mut broken = definition("User");
    broken.spec.names.short_names = None;
    broken.spec.scope = "Namespaced".to_owned();
    let version = &mut broken.spec.versions[0];
    version.subresources = None;
    version
        .additional_printer_columns
        .as_mut()
        .expect("columns")
        .pop();
    let problems = compare(user, &broken);
    for path in ["short names", "scope", "subresources", "print columns"] {
        assert_sees(&problems, path, What::Names);
    }
}

fn assert_sees(problems: &[Problem], path: &str, what: What) {
    assert!(
        problems
            .iter()
            .any(|problem| problem.path == path && problem.what == what),
        "{path} {what:?} not among {problems:?}"
    );
}
