//! The page about a server that a person sees before the server is started or asked: everything that decides which code runs, in full.
//! Hidden characters are spelled out in shell syntax. A question to a person shows all values, because a shell can run the value of any
//! variable, whatever its name is. Output that may be kept leaves out values that look like secrets, and says how to see them.

use std::collections::BTreeSet;

use servanda_clients::likely_secrets::is_secret;
use servanda_config::{
    UpstreamConfig,
    expansion::{ExpansionError, VariableReference, references, replace},
};
use servanda_import::ImportedSecrets;

use crate::{
    screen::{count, spelled_out},
    shell_word::quoted,
};

/// Variables that can make a program run other code, by the beginnings of their names.
const RUN_OTHER_CODE: [&str; 34] = [
    "PATH",
    "LD_",
    "DYLD_",
    "NODE_",
    "PYTHON",
    "PERL",
    "RUBY",
    "GEM_",
    "BUNDLE_",
    "BASH",
    "ENV",
    "GIT_",
    "JAVA_",
    "_JAVA",
    "JDK_",
    "CLASSPATH",
    "NPM_",
    "YARN_",
    "PNPM_",
    "BUN_",
    "DENO_",
    "UV_",
    "PIP_",
    "DOTNET_",
    "CORECLR_",
    "LUA_",
    "DOCKER_",
    "SHELL",
    "PS4",
    "PROMPT_COMMAND",
    "EDITOR",
    "PAGER",
    "TAR_",
    "SSH_",
];
/// Endings of the names of variables that always hold secrets.
const SECRET_ENDS: [&str; 4] = ["TOKEN", "PASSWORD", "SECRET", "AUTH"];
/// A shorter argument may be a word that the program knows.
const SECRET_ARGUMENT_CHARS_MIN: usize = 12;

/// Which values of the file are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownValues {
    /// All of them: a person is asked to agree to them.
    All,
    /// Those that do not look like secrets: the output may be kept.
    ButSecrets,
}

/// The lines about one server: how it is reached, and below that everything that goes with it.
pub(crate) fn lines(config: &UpstreamConfig, held: &ImportedSecrets, values: ShownValues) -> Vec<String> {
    let mut page = ServerPage { held, values, lines: Vec::new(), named: BTreeSet::new(), left_out: Vec::new() };
    match &config.command {
        Some(command) => page.command(command, config),
        None => page.address(config),
    }
    page.ended(config.command.is_some())
}

struct ServerPage<'a> {
    held: &'a ImportedSecrets,
    values: ShownValues,
    lines: Vec<String>,
    /// Environment variables that are read.
    named: BTreeSet<String>,
    left_out: Vec<String>,
}

impl ServerPage<'_> {
    fn command(&mut self, command: &str, config: &UpstreamConfig) {
        let words = [command].into_iter().chain(config.args.iter().map(String::as_str));
        let words: Vec<String> = words.map(|word| quoted(&self.text(word, is_secret_argument))).collect();
        self.lines.push(words.join(" "));
        if let Some(folder) = &config.cwd {
            self.lines.push(format!("in the folder {}", quoted(&folder.to_string_lossy())));
        }
        for (name, value) in &config.env {
            let value = self.text(value, |value| !runs_other_code(name) && is_token(value) && is_secret(name, value));
            self.lines.push(format!("with {}={}", spelled_out(name), quoted(&value)));
        }
        self.named.extend(config.env_pass.iter().cloned());
    }

    fn address(&mut self, config: &UpstreamConfig) {
        let url = self.text(config.url.as_deref().unwrap_or_default(), is_token);
        self.lines.push(spelled_out(&url));
        for (name, value) in &config.headers {
            let value = self.text(value, is_token);
            self.lines.push(format!("with the header {}: {}", spelled_out(name), spelled_out(&value)));
        }
    }

    /// A text with references replaced by the file's own values, except secrets that are to be left out. Environment variables stay
    /// references.
    fn text(&mut self, text: &str, is_secret: impl Fn(&str) -> bool) -> String {
        let whole = replace::<ExpansionError>(text, |inside| {
            let name = VariableReference::parse(inside).name;
            let kept = format!("${{{inside}}}");
            Ok(match self.held.value(name) {
                Some(value) if self.values == ShownValues::ButSecrets && is_secret(value) => {
                    let length = count(value.chars().count(), "character");
                    self.left_out.push(format!("${{{name}}} stands for {length}"));
                    kept
                }
                Some(value) => value.to_owned(),
                None => {
                    self.named.insert(name.to_owned());
                    kept
                }
            })
        });
        // A text with an unclosed brace is used unchanged, so it is shown unchanged.
        whole.unwrap_or_else(|_| {
            self.named.extend(references(text).iter().map(|reference| reference.name.to_owned()));
            text.to_owned()
        })
    }

    fn ended(mut self, is_started: bool) -> Vec<String> {
        if !self.named.is_empty() {
            let names: Vec<String> = self.named.iter().map(|name| spelled_out(name)).collect();
            let verb = if is_started { "gets" } else { "is sent" };
            self.lines.push(format!("{verb} these variables of your environment: {}", names.join(", ")));
        }
        for left_out in self.left_out {
            self.lines.push(format!(
                "{left_out} of the file that look like a secret; read them there, or run `servanda init` on a terminal, which shows them"
            ));
        }
        self.lines
    }
}

fn runs_other_code(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    RUN_OTHER_CODE.iter().any(|start| name.starts_with(start)) && !SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether a value has only characters of tokens, so that no program can hide in it.
fn is_token(value: &str) -> bool {
    value.chars().all(|character| character.is_ascii_alphanumeric() || "-_.~+/=:".contains(character))
}

/// The same for an argument, which a program may take for a file or a keyword.
fn is_secret_argument(value: &str) -> bool {
    let has = |is: fn(&char) -> bool| value.chars().any(|character| is(&character));
    is_token(value)
        && !value.contains('/')
        && value.len() >= SECRET_ARGUMENT_CHARS_MIN
        && has(char::is_ascii_digit)
        && has(char::is_ascii_alphabetic)
        && !std::path::Path::new(value).exists()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{ShownValues, lines};
    use crate::shell_word::quoted;
    use servanda_config::UpstreamConfig;
    use servanda_import::{ImportedSecrets, extract_secrets};

    fn shown(config: UpstreamConfig) -> Vec<String> {
        shown_with(config, ShownValues::ButSecrets)
    }

    fn shown_with(mut config: UpstreamConfig, values: ShownValues) -> Vec<String> {
        let mut held = ImportedSecrets::default();
        extract_secrets("s", &mut config, &mut held);
        lines(&config, &held, values)
    }

    fn command(args: &[&str], env: &[(&str, &str)]) -> UpstreamConfig {
        UpstreamConfig {
            command: Some("sh".to_owned()),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
            ..UpstreamConfig::default()
        }
    }

    #[test]
    fn nothing_that_runs_is_left_out() {
        let long = "x".repeat(5_000);
        let args = ["-c", "# docs\ntouch W", &long, "GITHUB_TOKEN=abc;touch W", "--token", "evil.js"];
        let text = shown(command(&args, &[])).join("\n");
        for part in ["$'# docs\\ntouch W'", &long, "touch W", "evil.js"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let env = [
            ("PATH", "/tmp/evil:/bin"),
            ("LD_PRELOAD", "ghp_0123456789abcdef/evil.so"),
            ("NODE_OPTIONS", "--require /tmp/evil.js"),
            ("GIT_CONFIG_KEY_0", "core.sshCommand"),
            ("npm_config_key", "evil"),
            ("BASH_ENV", "/tmp/evil\nx"),
            ("SOME_SECRET", "$(touch W)"),
        ];
        let mut config = command(&[], &env);
        config.cwd = Some("/tmp/evil cwd".into());
        let text = shown(config).join("\n");
        for (name, value) in env {
            assert!(text.contains(&format!("with {name}={}", quoted(value))), "{name}: {text}");
        }
        assert!(text.contains("in the folder '/tmp/evil cwd'"), "{text}");
    }

    /// A shell can run the value of any variable, and a program can take any argument for a file, so the question shows all values.
    #[test]
    fn a_question_shows_what_looks_like_a_secret() {
        let code = "dG91Y2ggL3RtcC9XCg";
        let cases = [
            (command(&["-c", "echo $API_KEY|base64 -d|sh"], &[("API_KEY", code)]), format!("with API_KEY={code}")),
            (command(&["-c", "$1", "x", "--token=0123456789abcdef"], &[]), "--token=0123456789abcdef".to_owned()),
            (command(&["ghp_0123456789abcdefghij"], &[]), "sh ghp_0123456789abcdefghij".to_owned()),
            (command(&["https://me:hunter2abc99@h/p.tgz"], &[]), "https://me:hunter2abc99@h/p.tgz".to_owned()),
            (command(&[], &[("A_TOKEN", "${A_TOKEN:-hunter2}")]), "with A_TOKEN=hunter2".to_owned()),
        ];
        for (config, expected) in cases {
            let text = shown_with(config, ShownValues::All).join("\n");
            assert!(text.contains(&expected) && !text.contains("stands for"), "{expected}: {text}");
        }
        let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer hunter2\u{202e}".to_owned())]);
        let config = UpstreamConfig { url: Some("http://h/".to_owned()), headers, ..UpstreamConfig::default() };
        let expected = ["http://h/", "with the header Authorization: Bearer hunter2<U+202E>"];
        assert_eq!(shown_with(config, ShownValues::All), expected);
    }

    #[test]
    fn secrets_and_variables_are_named_and_not_shown() {
        let env = [("API_TOKEN", "t0psecret"), ("NODE_AUTH_TOKEN", "abc123"), ("MODE", "${MODE:-x}"), ("A", "${HOME}")];
        let text = shown(command(&["--api-key", "0123456789abcdef"], &env)).join("\n");
        assert!(
            !text.contains("t0psecret") && !text.contains("abc123") && !text.contains("0123456789abcdef"),
            "{text}"
        );
        assert!(text.contains("${API_TOKEN} stands for 9 characters of the file that look like a secret"), "{text}");
        assert!(text.contains("or run `servanda init` on a terminal"), "{text}");
        assert!(text.contains("with MODE='${MODE:-x}'") || text.contains("with MODE=${MODE:-x}"), "{text}");
        assert!(text.contains("gets these variables of your environment: HOME, MODE"), "{text}");
        let config = UpstreamConfig {
            url: Some("http://x/${MY_GITHUB_TOKEN}?a\u{202e}".to_owned()),
            headers: BTreeMap::from([("X-A".to_owned(), "Bearer ${OTHER}".to_owned())]),
            ..UpstreamConfig::default()
        };
        let expected = [
            "http://x/${MY_GITHUB_TOKEN}?a<U+202E>",
            "with the header X-A: Bearer ${OTHER}",
            "is sent these variables of your environment: MY_GITHUB_TOKEN, OTHER",
        ];
        assert_eq!(shown(config), expected);
    }
}
