//! JSON patches (RFC 6902) of configuration documents.

use butler_api::steward::kubernetes::{JsonPatch, JsonPatchOperation};
use json_patch::{Patch, patch_unsafe};
use serde_json::{Value, json};
use thiserror::Error;

/// Which patch cannot be applied, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("patch {position} of the {document}, at {path:?}: {problem}")]
pub struct PatchError {
    /// The kind of the document that was patched.
    pub document: &'static str,
    /// Which patch of the list, counted from one.
    pub position: usize,
    /// Where it was to change something.
    pub path: String,
    /// Why it could not, and what to do.
    pub problem: String,
}

/// Applies patches in order. A patch that cannot be applied fails all of them.
pub(crate) fn patched(
    document: &'static str,
    mut value: Value,
    patches: &[JsonPatch],
) -> Result<Value, PatchError> {
    let identity = |value: &Value| (value.get("apiVersion").cloned(), value.get("kind").cloned());
    let before = identity(&value);
    for (index, patch) in patches.iter().enumerate() {
        let failed = |problem: String| PatchError {
            document,
            position: index + 1,
            path: patch.path.clone(),
            problem,
        };
        let operation = operation(patch).map_err(failed)?;
        // On its own copy: there is nothing to undo.
        patch_unsafe(&mut value, &operation.0)
            .map_err(|error| failed(in_words(patch.op, &error.kind.to_string())))?;
        if identity(&value) != before {
            return Err(failed(
                "apiVersion and kind must stay what they are".to_owned(),
            ));
        }
    }
    Ok(value)
}

fn operation(patch: &JsonPatch) -> Result<Patch, String> {
    let mut step = json!({ "op": patch.op, "path": patch.path });
    match patch.op {
        JsonPatchOperation::Add | JsonPatchOperation::Replace | JsonPatchOperation::Test => {
            step["value"] = patch.value.clone().unwrap_or(Value::Null);
        }
        JsonPatchOperation::Move | JsonPatchOperation::Copy => {
            step["from"] = patch.from.clone().ok_or("move and copy need from")?.into();
        }
        JsonPatchOperation::Remove => {}
    }
    serde_json::from_value(json!([step]))
        .map_err(|_| "write a JSON pointer, such as /maxPods or /conntrack/maxPerCore".to_owned())
}

fn in_words(operation: JsonPatchOperation, problem: &str) -> String {
    match operation {
        JsonPatchOperation::Replace => {
            format!("{problem}; replace needs a member that is there, use add for others")
        }
        _ => problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn document() -> Value {
        json!({ "apiVersion": "v1", "kind": "Thing", "size": 1, "list": ["a"] })
    }

    fn patches(steps: Value) -> Vec<JsonPatch> {
        serde_json::from_value(steps).unwrap()
    }

    #[test]
    fn every_operation_takes_effect() {
        let patches = patches(json!([
            { "op": "test", "path": "/size", "value": 1 },
            { "op": "replace", "path": "/size", "value": 2 },
            { "op": "copy", "from": "/size", "path": "/copied" },
            { "op": "move", "from": "/list", "path": "/moved" },
            { "op": "add", "path": "/moved/-", "value": "b" },
            { "op": "add", "path": "/nothing" },
            { "op": "remove", "path": "/size" },
        ]));
        assert_eq!(
            patched("Thing", document(), &patches).unwrap(),
            json!({ "apiVersion": "v1", "kind": "Thing", "copied": 2, "moved": ["a", "b"], "nothing": null })
        );
    }

    #[test]
    fn a_patch_that_does_not_fit_says_which_and_what_to_do() {
        let error = patched(
            "Thing",
            document(),
            &patches(json!([
                { "op": "remove", "path": "/size" },
                { "op": "replace", "path": "/maxPods", "value": 5 },
            ])),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "patch 2 of the Thing, at \"/maxPods\": path is invalid; replace needs a member that is there, use add for others"
        );
    }

    #[test]
    fn the_document_stays_what_it_is() {
        for step in [
            json!({ "op": "replace", "path": "/kind", "value": "Other" }),
            json!({ "op": "replace", "path": "", "value": [] }),
            json!({ "op": "remove", "path": "/apiVersion" }),
        ] {
            assert!(patched("Thing", document(), &patches(json!([step]))).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_patch_panics(path in "(/?[a-z0-9~/-]{0,8}){0,3}", from in "(/[a-z0-9~-]{0,8}){0,3}", which in 0_usize..6) {
            use JsonPatchOperation as Operation;
            let op = [Operation::Add, Operation::Remove, Operation::Replace, Operation::Move, Operation::Copy, Operation::Test][which];
            let patch = JsonPatch { op, path, from: Some(from), value: None };
            let _ = patched("Thing", document(), &[patch.clone(), patch]);
        }
    }
}
