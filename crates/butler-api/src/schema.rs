//! Schema fragments that derives cannot say.
//!
//! Used with `#[schemars(schema_with = "crate::schema::…")]` where a field has no Rust type of its own, or where the
//! same rule must hold wherever a value of that sort is written.

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
                "message": "must have a prefix of at least /1",
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

/// The rule that two address fields of one object run forwards and are of one family. IPv6 order cannot be said in the
/// rule language; whoever parses the range checks it.
pub fn range_rules(start: &str, end: &str) -> [kube::core::Rule; 2] {
    let number = |field: &str| {
        format!(
            "[self.{field}.split('.')].map(o, int(o[0]) * 16777216 + int(o[1]) * 65536 + int(o[2]) * 256 + int(o[3]))[0]"
        )
    };
    let both = format!("isIP(self.{start}) && isIP(self.{end})");
    let present = format!("!has(self.{start}) || !has(self.{end})");
    [
        kube::core::Rule::new(format!(
            "{present} || !({both}) || ip(self.{start}).family() == ip(self.{end}).family()"
        ))
        .message(format!("{start} and {end} must both be IPv4 or both be IPv6").as_str()),
        kube::core::Rule::new(format!(
            "{present} || !({both}) || ip(self.{start}).family() != 4 || ip(self.{end}).family() != 4 || {} <= {}",
            number(start),
            number(end),
        ))
        .message(format!("{start} must not come after {end}").as_str()),
    ]
}
