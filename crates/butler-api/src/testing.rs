//! What the tests of the kinds share: reading the manifests in `examples/`, and looking into definitions.

use std::collections::BTreeMap;
use std::sync::Mutex;

use kube::CustomResourceExt;
use pretty_assertions::assert_eq;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a manifest into its kind and fails if anything the user wrote is lost or changed on the way back.
/// Values the user left out may have been filled in by defaults.
pub(crate) fn read<K>(manifest: &str) -> K
where
    K: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug,
{
    let written: Value = serde_saphyr::from_str(manifest).expect("the manifest is YAML");
    let object: K = serde_saphyr::from_str(manifest).expect("the manifest is of its kind");
    let back = serde_json::to_value(&object).expect("the object has a JSON form");
    assert_kept("", &written, &back);
    assert_eq!(
        serde_json::from_value::<K>(back).expect("our own JSON can be read"),
        object
    );
    object
}

/// CRDs by name: making one takes a good part of a second without optimisation, and tests look at many fields.
static DEFINITIONS: Mutex<BTreeMap<&'static str, Value>> = Mutex::new(BTreeMap::new());

/// The value at a path of a kind's CRD: `spec/names/kind`, `spec/versions/0/subresources/scale`.
pub(crate) fn crd_part<K: CustomResourceExt>(path: &str) -> Value {
    let mut definitions = DEFINITIONS.lock().expect("no test panics while holding it");
    definitions
        .entry(K::crd_name())
        .or_insert_with(|| serde_json::to_value(K::crd()).expect("a CRD has a JSON form"))
        .pointer(&format!("/{path}"))
        .cloned()
        .unwrap_or_default()
}

/// The schema of a field, by its dotted path below the object: `spec.driver`; `[]` steps into items.
pub(crate) fn field<K: CustomResourceExt>(path: &str) -> Value {
    let pointer = path.split('.').fold(
        "spec/versions/0/schema/openAPIV3Schema".to_owned(),
        |pointer, step| {
            let (name, items) = step
                .strip_suffix("[]")
                .map_or((step, ""), |name| (name, "/items"));
            format!("{pointer}/properties/{name}{items}")
        },
    );
    crd_part::<K>(&pointer)
}

/// Titles of the columns `kubectl get` shows.
pub(crate) fn columns<K: CustomResourceExt>() -> Vec<String> {
    crd_part::<K>("spec/versions/0/additionalPrinterColumns")
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|column| column["name"].as_str().map(str::to_owned))
        .collect()
}

fn assert_kept(path: &str, written: &Value, back: &Value) {
    match (written, back) {
        (Value::Object(written), Value::Object(back)) => {
            for (key, value) in written {
                let path = format!("{path}/{key}");
                let kept = back.get(key);
                assert!(kept.is_some(), "{path} was lost");
                assert_kept(&path, value, kept.unwrap_or(&Value::Null));
            }
        }
        (Value::Array(written), Value::Array(back)) => {
            assert_eq!(written.len(), back.len(), "{path} changed its length");
            for (index, (value, kept)) in written.iter().zip(back).enumerate() {
                assert_kept(&format!("{path}/{index}"), value, kept);
            }
        }
        _ => assert_eq!(written, back, "{path} changed"),
    }
}
