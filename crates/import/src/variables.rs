//! Translates the variables that editors fill in (`${workspaceFolder}`, `${env:NAME}`, `${input:id}`) into our notation: a path if it is
//! known, otherwise a reference to the environment. The user is not asked for anything.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value;
use servanda_clients::likely_secrets::variable_name;
use servanda_config::expansion::{ExpansionError, VariableReference, replace};
use servanda_vault::is_variable;

/// Folders for an editor's files about the folder around them.
const FOLDERS: [&str; 7] = [".vscode", ".cursor", ".gemini", ".codex", ".zed", ".windsurf", ".claude"];

/// What an editor would know.
#[derive(Debug, Clone, Default)]
pub(crate) struct EditorContext {
    /// The folder that is open in it.
    workspace: PathBuf,
    /// The inputs that it would ask for, by id.
    inputs: BTreeMap<String, EditorInput>,
}

/// An input that an editor would ask for.
#[derive(Debug, Clone, Default)]
struct EditorInput {
    description: Option<String>,
    default: Option<String>,
    /// Whether a command of the editor computes the value.
    computed: bool,
}

/// Why a variable of an editor has no meaning here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditorVariableError {
    /// Only the editor knows its value.
    #[error("`${{{0}}}` is known to the client only")]
    ClientOnly(String),
    /// A command of the editor computes the input.
    #[error("a command of the editor gives `${{input:{0}}}`")]
    Computed(String),
    /// The reference is malformed.
    #[error(transparent)]
    Expansion(#[from] ExpansionError),
}

impl EditorContext {
    /// The context for a file. A file in an editor's own folder is about the folder around that.
    pub(crate) fn for_file(file: &Path, inputs: Option<&Value>) -> Self {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let folder = file.parent().unwrap_or(Path::new("/"));
        let of_editor = folder.file_name().is_some_and(|name| FOLDERS.iter().any(|known| name == *known));
        let workspace = folder.parent().filter(|_| of_editor).unwrap_or(folder).to_owned();
        let inputs = inputs.and_then(Value::as_array).into_iter().flatten().filter_map(input).collect();
        Self { workspace, inputs }
    }

    /// The folder that is open.
    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Translates a text of the client's file; the error names what only the editor can know.
    pub(crate) fn translate(&self, text: &str) -> Result<String, EditorVariableError> {
        replace(text, |inside| self.one(inside))
    }

    /// The inputs that a text refers to: the variable to set instead, and the input's description.
    pub(crate) fn asked_in(&self, text: &str) -> Vec<(String, String)> {
        let ids = text.split("${input:").skip(1).filter_map(|rest| rest.split_once('}'));
        let open = ids.filter_map(|(id, _)| {
            let input = self.inputs.get(id).cloned().unwrap_or_default();
            let words = input.description.unwrap_or_else(|| id.to_owned());
            input.default.is_none().then(|| (variable_name(id), words))
        });
        open.collect()
    }

    fn one(&self, inside: &str) -> Result<String, EditorVariableError> {
        let workspace = || self.workspace.display().to_string();
        if let Some(id) = inside.strip_prefix("input:") {
            return self.input(id);
        }
        if let Some(name) = inside.strip_prefix("env:") {
            return Ok(format!("${{{name}}}"));
        }
        match inside {
            "workspaceFolder" | "workspaceRoot" | "cwd" => Ok(workspace()),
            "workspaceFolderBasename" => {
                Ok(self.workspace.file_name().unwrap_or_default().to_string_lossy().into_owned())
            }
            "userHome" => Ok("${HOME}".to_owned()),
            "pathSeparator" | "/" => Ok("/".to_owned()),
            _ if is_variable(VariableReference::parse(inside).name) => Ok(format!("${{{inside}}}")),
            _ => Err(EditorVariableError::ClientOnly(inside.to_owned())),
        }
    }

    fn input(&self, id: &str) -> Result<String, EditorVariableError> {
        let input = self.inputs.get(id);
        if input.is_some_and(|input| input.computed) {
            return Err(EditorVariableError::Computed(id.to_owned()));
        }
        let name = variable_name(id);
        Ok(match input.and_then(|input| input.default.as_deref()) {
            Some(default) => format!("${{{name}:-{default}}}"),
            None => format!("${{{name}}}"),
        })
    }
}

/// An input that the editor's file declares.
fn input(input: &Value) -> Option<(String, EditorInput)> {
    let text = |field: &str| input.get(field).and_then(Value::as_str).map(str::to_owned);
    let hidden = input.get("password").and_then(Value::as_bool).unwrap_or_default();
    // A password's default would be a secret in our file, and a default with a brace could not be written as a reference.
    let default = text("default").filter(|default| !hidden && !default.is_empty() && !default.contains('}'));
    let computed = input.get("type").and_then(Value::as_str) == Some("command");
    Some((text("id")?, EditorInput { description: text("description"), default, computed }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::EditorContext;

    #[test]
    fn editors_variables_become_paths_and_references() {
        let inputs = json!([
            { "type": "promptString", "id": "api-key", "description": "The key", "password": true, "default": "oops" },
            { "type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu" },
            { "type": "command", "id": "computed", "command": "x.y" },
        ]);
        let editor = EditorContext::for_file(Path::new("/w/shop/.vscode/mcp.json"), Some(&inputs));
        let cases = [
            ("no variable, $HOME", Ok("no variable, $HOME")),
            ("${workspaceFolder}/a:${userHome}", Ok("/w/shop/a:${HOME}")),
            ("${workspaceFolderBasename}${/}${pathSeparator}", Ok("shop//")),
            ("Bearer ${env:TOKEN}", Ok("Bearer ${TOKEN}")),
            ("${TOKEN} ${TOKEN:-x y}", Ok("${TOKEN} ${TOKEN:-x y}")),
            ("${input:api-key}", Ok("${API_KEY}")),
            ("${input:region}", Ok("${REGION:-eu}")),
            ("${input:unknown one}", Ok("${UNKNOWN_ONE}")),
            ("${input:computed}", Err("a command of the editor gives")),
            ("${command:pick}", Err("`${command:pick}` is known to the client only")),
            ("${file}${config:a.b}", Err("`${config:a.b}`")),
            ("a ${open", Err("without its `}`")),
        ];
        for (text, expected) in cases {
            match (editor.translate(text), expected) {
                (Ok(translated), Ok(wanted)) => assert_eq!(translated, wanted),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
        let asked = editor.asked_in("${input:api-key} ${input:region} ${input:x}");
        let asked: Vec<_> = asked.iter().map(|(name, words)| (name.as_str(), words.as_str())).collect();
        assert_eq!(asked, [("API_KEY", "The key"), ("X", "x")]);
        assert_eq!(EditorContext::for_file(Path::new("/w/shop/mcp.json"), None).workspace(), Path::new("/w/shop"));
    }
}
