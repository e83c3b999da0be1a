//! A rule about the source that neither the compiler nor the definitions can show.

use std::path::Path;

/// kube puts what an enum says about itself in the place of what an optional field of that enum says, so that
/// `kubectl explain` would not tell what the field is for. An enum must therefore say nothing to the schema.
#[test]
fn no_enum_speaks_over_its_field() {
    let mut found = Vec::new();
    visit(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    assert!(found.is_empty(), "{found:#?}");
}

fn visit(directory: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).expect("directory of the source") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            visit(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("source can be read");
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if !line.starts_with("pub enum ") {
                continue;
            }
            let attributes: String = lines[..at]
                .iter()
                .rev()
                .take_while(|line| !line.is_empty())
                .copied()
                .collect();
            if attributes.contains("JsonSchema") && !attributes.contains("description = \"\"") {
                found.push(format!("{}: {line}", path.display()));
            }
        }
    }
}
