//! A package of a registry, and the command line that starts it.

use serde::Deserialize;
use servanda_vault::is_variable;

use super::{RegistryInput, RegistryInputValue, RegistryOffer, own, variable_name};

/// An author's description of a package.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RegistryPackage {
    #[serde(alias = "registryName")]
    registry_type: String,
    registry_base_url: String,
    #[serde(alias = "name")]
    identifier: String,
    version: String,
    #[serde(rename = "fileSha256")]
    file_sha256: String,
    runtime_hint: String,
    runtime_arguments: Vec<RegistryInput>,
    #[serde(rename = "packageArguments")]
    own_arguments: Vec<RegistryInput>,
    environment_variables: Vec<RegistryInput>,
    transport: PackageTransport,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PackageTransport {
    r#type: String,
}

impl RegistryPackage {
    /// Its name in a note.
    pub(super) fn shown(&self) -> String {
        format!("{} {}", self.registry_type, self.identifier)
    }

    /// The upstream for this package, or the reason why there is none.
    pub(super) fn offer(&self, server: &str) -> Result<RegistryOffer, String> {
        if self.registry_type == "mcpb" {
            return Err(self.how_to_download());
        }
        if !matches!(self.transport.r#type.as_str(), "" | "stdio") {
            let transport = &self.transport.r#type;
            return Err(format!("it speaks {transport} at a port of its own; start it, and list its `url` instead"));
        }
        let mut offer = RegistryOffer::default();
        self.set_variables(&mut offer)?;
        let runtime = arguments(server, &self.runtime_arguments, &mut offer)?;
        let own_arguments = arguments(server, &self.own_arguments, &mut offer)?;
        let (command, args) = self.command_line(runtime, own_arguments, &mut offer)?;
        offer.notes.push(format!("`{server}` is started as: {command} {}", args.join(" ")));
        offer.upstream.command = Some(command);
        offer.upstream.args = args;
        Ok(offer)
    }

    /// A hint for bundles: a bundle is a file, and we download none.
    fn how_to_download(&self) -> String {
        let (url, sha256) = (&self.identifier, &self.file_sha256);
        let check = if sha256.is_empty() { String::new() } else { format!(" --sha256 {sha256}") };
        format!("it is a bundle: download {url}, then `servanda init --from FILE{check}`")
    }

    fn set_variables(&self, offer: &mut RegistryOffer) -> Result<(), String> {
        let mut passed = Vec::new();
        for input in &self.environment_variables {
            let name = &input.name;
            if !is_variable(name) {
                return Err(format!("`{name}` cannot be the name of a variable"));
            }
            let value = match input.resolved()? {
                RegistryInputValue::Fixed(value) => offer.fill(name, &value, &input.variables)?,
                RegistryInputValue::Proposed(value) if value.contains('}') => value,
                RegistryInputValue::Proposed(value) => format!("${{{name}:-{value}}}"),
                RegistryInputValue::Missing => offer.ask(name, input),
                RegistryInputValue::Optional => {
                    passed.push(name.clone());
                    continue;
                }
            };
            offer.upstream.env.insert(name.clone(), value);
        }
        if !passed.is_empty() {
            offer.notes.push(format!("passed on if set: {}", passed.join(", ")));
        }
        offer.upstream.env_pass = passed;
        Ok(())
    }

    fn command_line(
        &self,
        runtime: Vec<String>,
        own_arguments: Vec<String>,
        offer: &mut RegistryOffer,
    ) -> Result<(String, Vec<String>), String> {
        let package = self.package()?;
        let hint = |known: &[&str], usual: &str| {
            let known = known.iter().find(|known| **known == self.runtime_hint);
            known.map_or(usual, |known| *known).to_owned()
        };
        let has = |flags: &[&str]| runtime.iter().any(|argument| flags.contains(&argument.as_str()));
        let unless = |flags: &[&str], words: &[&str]| {
            if has(flags) { Vec::new() } else { words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>() }
        };
        let (command, before, package) = match self.registry_type.as_str() {
            "npm" => {
                let command = hint(&["npx", "bunx"], "npx");
                let yes = if command == "npx" { unless(&["-y", "--yes"], &["-y"]) } else { Vec::new() };
                (command, yes, vec![package])
            }
            "pypi" => match hint(&["uvx", "uv"], "uvx").as_str() {
                "uv" => ("uv".to_owned(), unless(&["run", "tool"], &["tool", "run"]), vec![package]),
                _ => ("uvx".to_owned(), Vec::new(), vec![package]),
            },
            "oci" | "docker" => {
                let mut before = unless(&["run"], &["run"]);
                before.extend(unless(&["-i", "--interactive", "-it"], &["-i"]));
                before.extend(unless(&["--rm"], &["--rm"]));
                // A container gets only the variables that are passed to it by name.
                let variables = offer.upstream.env.keys().chain(&offer.upstream.env_pass);
                before.extend(variables.flat_map(|name| ["-e".to_owned(), name.clone()]));
                (hint(&["docker", "podman"], "docker"), before, vec![package])
            }
            "nuget" => {
                let mut package = vec![package];
                package.extend(unless(&["--yes", "-y"], &["--yes"]));
                if !own_arguments.is_empty() {
                    package.push("--".to_owned());
                }
                ("dnx".to_owned(), Vec::new(), package)
            }
            "go" => ("go".to_owned(), vec!["run".to_owned()], vec![package]),
            "cargo" => {
                let version = &self.version;
                offer.notes.push(format!("install it first: cargo install {} --version {version}", self.identifier));
                (self.identifier.clone(), Vec::new(), Vec::new())
            }
            other => return Err(format!("packages of `{other}` are not known here")),
        };
        let args = [before, runtime, package, own_arguments].concat();
        Ok((command, args))
    }

    /// The package in the syntax of its runtime.
    fn package(&self) -> Result<String, String> {
        let (identifier, version) = (own(&self.identifier)?, own(&self.version)?);
        let strange =
            |text: &str| text.starts_with('-') || text.contains(|c: char| c.is_whitespace() || c.is_control());
        if identifier.is_empty() || strange(identifier) || strange(version) {
            return Err("its identifier or version could be taken for something else".to_owned());
        }
        if !matches!(self.registry_type.as_str(), "oci" | "docker") {
            return Ok(if version.is_empty() { identifier.to_owned() } else { format!("{identifier}@{version}") });
        }
        let registry = self.registry_base_url.trim_start_matches("https://").trim_end_matches('/');
        let elsewhere = !matches!(registry, "" | "docker.io") && !identifier.starts_with(registry);
        let image = if elsewhere { format!("{registry}/{identifier}") } else { identifier.to_owned() };
        // The identifier may already contain a tag or digest.
        let tagged = image.contains('@') || image.rsplit('/').next().is_some_and(|last| last.contains(':'));
        Ok(if tagged || version.is_empty() { image } else { format!("{image}:{version}") })
    }
}

/// Adds arguments: fixed, proposed, or to be given by the user.
fn arguments(server: &str, inputs: &[RegistryInput], offer: &mut RegistryOffer) -> Result<Vec<String>, String> {
    let mut arguments = Vec::new();
    for input in inputs {
        let named = input.kind == "named";
        // A flag may have no value.
        let bare = named && input.variables.is_empty() && input.value_hint.is_empty();
        let variable = variable_name(&format!("{server}_{}", input.label()));
        let value = match input.resolved()? {
            RegistryInputValue::Fixed(value) => Some(offer.fill(server, &value, &input.variables)?),
            RegistryInputValue::Proposed(value) => Some(value),
            RegistryInputValue::Missing if bare && input.description.is_empty() => None,
            RegistryInputValue::Missing => Some(offer.ask(&variable, input)),
            RegistryInputValue::Optional => {
                let label = input.label();
                offer.notes.push(format!("`{label}` is optional and was not given; `args` can have it"));
                continue;
            }
        };
        if named {
            arguments.push(own(&input.name)?.to_owned());
        }
        arguments.extend(value);
    }
    Ok(arguments)
}
