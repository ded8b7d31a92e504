//! The demo's folder: a real configuration, contracts, ledger and company books, which can be inspected from another terminal while the
//! demo is running. Only this folder is removed at the end.

use std::{
    collections::BTreeMap,
    fs::DirBuilder,
    io::ErrorKind,
    net::SocketAddr,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use servanda_config::{BudgetConfig, Config, NameStyle, TaskConfig, UpstreamConfig};
use servanda_contract::{expectation::BehaviourPattern, tool::Mutability};
use servanda_sample::CONTRACTS;

use super::tour::TRIAGE;
use crate::failure::CommandFailure;

/// The upstream the contracts are bound to.
const UPSTREAM: &str = "company";
/// The configuration, under the name `--config` has by default.
const FILE_NAME: &str = "servanda.yaml";
/// The one policy of the demo.
const POLICY: &str = r#"@id("mail-to-customers")
@reason("mail goes to customers only")
forbid (principal, action == Action::"call:company.send_mail", resource)
unless { context.args.to like "*.example" };
"#;
/// How many folders of killed demos with the same process id are skipped.
const LEFT_OVER_MAX: u32 = 100;

/// The folder. It is removed on drop.
#[derive(Debug)]
pub(super) struct DemoFolder(PathBuf);

impl DemoFolder {
    /// Makes the folder and everything in it.
    pub(super) fn make(listen: SocketAddr) -> Result<Self, CommandFailure> {
        let folder = Self::claim()?;
        let wrote = folder.write(listen);
        wrote.map_err(|error| CommandFailure::failed(format!("cannot write in `{}`: {error}", folder.0.display())))?;
        Ok(folder)
    }

    /// The configuration.
    pub(super) fn config_file(&self) -> PathBuf {
        self.0.join(FILE_NAME)
    }

    /// Creates a folder under an unused name. Creating fails if the name exists, so the folder is never another user's.
    fn claim() -> Result<Self, CommandFailure> {
        let base = std::env::temp_dir();
        let process = std::process::id();
        for number in 1..=LEFT_OVER_MAX {
            let again = if number == 1 { String::new() } else { format!("-{number}") };
            let path = base.join(format!("servanda-demo-{process}{again}"));
            // For this user only, because the ledger and the books are private.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(CommandFailure::failed(format!("cannot make `{}`: {error}", path.display()))),
            }
        }
        Err(CommandFailure::failed(format!("`{}` is full of folders of earlier demos", base.display()))
            .hint(format!("remove {}", base.join(format!("servanda-demo-{process}*")).display())))
    }

    fn write(&self, listen: SocketAddr) -> std::io::Result<()> {
        let config = config(&std::env::current_exe()?, listen)?;
        let text = config.to_document().map_err(std::io::Error::other)?;
        let head = "# The configuration of `servanda demo`. It is removed when the demo ends.\n";
        std::fs::write(self.config_file(), format!("{head}{text}"))?;
        std::fs::create_dir_all(self.0.join("policies"))?;
        std::fs::write(self.0.join("policies/mail.cedar"), POLICY)?;
        let contracts = self.0.join(&config.contracts).join(UPSTREAM);
        std::fs::create_dir_all(&contracts)?;
        CONTRACTS.iter().try_for_each(|(file, text)| std::fs::write(contracts.join(file), text))
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        // A failure cannot be reported here; a folder left in the temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The upstream is this same program, so that the demo needs only the binary.
fn config(program: &Path, listen: SocketAddr) -> std::io::Result<Config> {
    let program = program.to_str().ok_or_else(|| std::io::Error::other("the program's own path is not UTF-8"))?;
    let company = UpstreamConfig {
        command: Some(program.to_owned()),
        args: ["sample", "--misbehave", "--database", "company.db"].map(str::to_owned).to_vec(),
        ..UpstreamConfig::default()
    };
    let upstreams = BTreeMap::from([(UPSTREAM.to_owned(), company)]);
    let reads = BehaviourPattern { mutability: Some(Mutability::Pure), ..BehaviourPattern::default() };
    let tasks = BTreeMap::from([(TRIAGE.to_owned(), TaskConfig { allow: vec![reads] })]);
    let mut config = Config { listen: listen.to_string(), names: NameStyle::Bare, tasks, ..Config::new(upstreams) };
    config.budgets.extend(BudgetConfig::default_for_sent_mail());
    // Only the payment waits for a person, as its contract says; the tour does not wait.
    (config.approvals.by_class, config.approvals.wait_ms_max) = (false, 0);
    Ok(config)
}
