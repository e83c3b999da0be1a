//! The few words of jinja that bootstrap data uses: `{{ ds.meta_data.KEY }}`.
//!
//! Owns: filling in variables, and refusing by name what else the language has. This is not a template engine, so that
//! nothing in user data is ever computed.

use super::{Error, MetaData};

const PREFIX: &str = "ds.meta_data.";

/// Fills in the variables. `first_line` is the number that the first line has in the words of an error.
pub(super) fn render(
    template: &str,
    meta_data: &MetaData,
    first_line: usize,
) -> Result<String, Error> {
    let mut rendered = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = next_mark(rest) {
        let (before, marked) = rest.split_at(at);
        rendered.push_str(before);
        let consumed = template.len() - marked.len();
        let line = first_line + newlines(&template[..consumed]);
        let refuse = |rule| Err(Error::Template { line, rule });
        if marked.starts_with("{%") {
            return refuse(
                "statements ({% … %}) are not understood, only variables of ds.meta_data",
            );
        }
        if marked.starts_with("{#") {
            return refuse(
                "\"{#\" begins a comment in a template, which is not understood; write the shell's ${#name} in another way",
            );
        }
        let Some(end) = marked.find("}}") else {
            return refuse("\"{{\" has no \"}}\"");
        };
        let expression = marked.get(2..end).unwrap_or_default().trim();
        rendered.push_str(value_of(expression, meta_data, line)?);
        rest = marked.get(end + 2..).unwrap_or_default();
    }
    rendered.push_str(rest);
    Ok(rendered)
}

/// Where the next thing begins that is not plain text.
fn next_mark(text: &str) -> Option<usize> {
    ["{{", "{%", "{#"]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min()
}

fn value_of<'data>(
    expression: &str,
    meta_data: &'data MetaData,
    line: usize,
) -> Result<&'data str, Error> {
    expression
        .strip_prefix(PREFIX)
        .and_then(|key| meta_data.get(key))
        .ok_or_else(|| Error::UnknownVariable {
            line,
            variable: expression.to_owned(),
            known: meta_data.keys(),
        })
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn worker() -> MetaData {
        MetaData::new("i-7", "worker-7").with("region", "cellar")
    }

    #[test]
    fn variables_are_filled_in_with_and_without_spaces() {
        let text = "a: '{{ ds.meta_data.local_hostname }}'\nb: {{ds.meta_data.instance_id}}/{{  ds.meta_data.region  }}\n";
        assert_eq!(
            render(text, &worker(), 1).unwrap(),
            "a: 'worker-7'\nb: i-7/cellar\n"
        );
    }

    #[test]
    fn text_without_marks_stays_as_it_is() {
        let text = "json: '{\"a\": {\"b\": 1} }'\nshell: ${HOME} }} {\n";
        assert_eq!(render(text, &worker(), 1).unwrap(), text);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        for (text, words) in [
            (
                "a\n{{ ds.meta_data.zone }}",
                "line 3 of user data: the variable \"ds.meta_data.zone\" is not known; ds.meta_data has instance_id, local_hostname, region",
            ),
            (
                "{{ v1.local_hostname }}",
                "line 2 of user data: the variable \"v1.local_hostname\" is not known; ds.meta_data has instance_id, local_hostname, region",
            ),
            (
                "{{ ds.meta_data.region | upper }}",
                "line 2 of user data: the variable \"ds.meta_data.region | upper\" is not known; ds.meta_data has instance_id, local_hostname, region",
            ),
            (
                "\n\n{% if x %}",
                "line 4 of user data: statements ({% … %}) are not understood, only variables of ds.meta_data",
            ),
            (
                "{{ ds.meta_data.region",
                "line 2 of user data: \"{{\" has no \"}}\"",
            ),
            (
                "echo ${#PATH}",
                "line 2 of user data: \"{#\" begins a comment in a template, which is not understood; write the shell's ${#name} in another way",
            ),
        ] {
            assert_eq!(render(text, &worker(), 2).unwrap_err().to_string(), words);
        }
    }
}
