//! Schema fragments that derives cannot say, and rules that more than one kind has.
//!
//! Fragments are used with `#[schemars(schema_with = "crate::schema::…")]` where a field has no Rust type of its own, or
//! where the same must hold wherever a value of that sort is written; rules with `#[x_kube(validation = …)]`.

use kube::core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::net::{ADDRESS_LENGTH, CIDR_LENGTH};

/// An object whose keys the API server keeps without knowing them: Helm values, provider extras.
pub fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// Any JSON value at all, kept as it is.
pub fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Standard Kubernetes conditions, merged by type so that several writers may each own theirs.
pub fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item =
        generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>();
    json_schema!({
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// An IPv4 or IPv6 block in CIDR notation whose address has no bits beyond the prefix; everything (`/0`) is refused.
pub fn cidr(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": CIDR_LENGTH,
        "x-kubernetes-validations": [
            {
                "rule": "isCIDR(self)",
                "message": "must be a block in CIDR notation, for example 10.40.0.0/16 or fd00::/64",
            },
            {
                "rule": "!isCIDR(self) || cidr(self) == cidr(self).masked()",
                "message": "must not have address bits beyond the prefix, for example 10.40.0.0/16 and not 10.40.1.7/16",
            },
            {
                "rule": "!isCIDR(self) || cidr(self).prefixLength() > 0",
                "message": "must not be the whole address space: give a network such as 10.40.0.0/16",
            },
        ],
    })
}

/// One IPv4 or IPv6 address.
pub fn address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": ADDRESS_LENGTH,
        "x-kubernetes-validations": [{
            "rule": "isIP(self)",
            "message": "must be an IPv4 or IPv6 address, for example 10.40.1.100 or fd00::10",
        }],
    })
}

/// A list of IPv4 or IPv6 addresses.
pub fn addresses(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 64, "items": address(generator) })
}

/// A length of time with units from nanoseconds to hours, such as `90s`, `10m` or `1h30m`; or `0`.
pub(crate) const DURATION_PATTERN: &str = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$";

/// A word that is passed to a program: no blanks, and no leading dash, which would make it an option.
pub(crate) const ARGUMENT_PATTERN: &str = r"^[^-\s]\S*$";

/// Rules that two address fields of one object run forwards and are of one family. IPv6 order cannot be said in the
/// rule language; whoever parses the range checks it.
pub fn range_rules(start: &str, end: &str) -> [Rule; 2] {
    let both = format!(
        "!has(self.{start}) || !has(self.{end}) || !isIP(self.{start}) || !isIP(self.{end})"
    );
    [
        rule(
            format!("{both} || ip(self.{start}).family() == ip(self.{end}).family()"),
            &format!("{start} and {end} must both be IPv4 or both be IPv6"),
        ),
        rule(
            format!(
                "{both} || ip(self.{start}).family() != 4 || ip(self.{end}).family() != 4 || {} <= {}",
                ipv4_number(&format!("self.{start}")),
                ipv4_number(&format!("self.{end}")),
            ),
            &format!("{start} must not come after {end}"),
        ),
    ]
}

/// The number that the octets of an IPv4 address make: the rule language knows addresses but not their order.
pub(crate) fn ipv4_number(address: &str) -> String {
    format!(
        "[{address}.split('.')].map(o, int(o[0]) * 16777216 + int(o[1]) * 65536 + int(o[2]) * 256 + int(o[3]))[0]"
    )
}

/// The rule that a field is a block in CIDR notation.
pub(crate) fn cidr_rule(field: &str, example: &str) -> Rule {
    rule(
        "isCIDR(self)",
        &format!("{field} must be a CIDR block such as {example}"),
    )
}

/// Rules that two blocks of one object are of one family and share no address.
pub(crate) fn separate_blocks_rules(one: &str, other: &str) -> [Rule; 2] {
    let unreadable = format!("!isCIDR(self.{one}) || !isCIDR(self.{other})");
    let same_family = format!("cidr(self.{one}).ip().family() == cidr(self.{other}).ip().family()");
    [
        rule(
            format!("{unreadable} || {same_family}"),
            &format!("{one} and {other} must both be IPv4 or both be IPv6; give both"),
        ),
        rule(
            format!(
                "{unreadable} || !({same_family}) || !(cidr(self.{one}).containsCIDR(cidr(self.{other})) \
                 || cidr(self.{other}).containsCIDR(cidr(self.{one})))"
            ),
            &format!("{one} and {other} must not overlap"),
        ),
    ]
}

/// The rule that a quantity is not below a minimum. It also catches `memory: 16`, which means sixteen bytes. The text is made once:
/// the API server counts every use of it as if it were as long as a request may be, and refuses rules that cost too much.
pub(crate) fn at_least_rule(field: &str, minimum: &str, example: &str) -> Rule {
    rule(
        format!(
            "[string(self)].all(text, !isQuantity(text) || quantity(text).compareTo(quantity('{minimum}')) >= 0)"
        ),
        &format!("{field} must be at least {minimum}; write the unit, such as {example}"),
    )
}

/// The rule that a quantity is a number of processors.
pub(crate) fn processors_rule() -> Rule {
    rule(
        "!isQuantity(string(self)) || (quantity(string(self)).isInteger() \
         && quantity(string(self)).asInteger() >= 1 && quantity(string(self)).asInteger() <= 128)",
        "cpu must be a whole number from 1 to 128",
    )
}

fn rule(expression: impl Into<String>, message: &str) -> Rule {
    Rule::new(expression.into()).message(message)
}
