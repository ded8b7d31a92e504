//! A folder for every test, in which the built binary runs as a real process.
//!
//! Every wait is bounded by [`PATIENCE`], which no test comes near unless something is wrong. When a world is dropped, no process that was
//! started in it may still run.

use std::{
    fs,
    io::{Read, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    contract::Contract,
    sightings::{self, saw},
};

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_servanda");
/// How long a test waits for what must happen; generous, because the machine may be busy with something else.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How often a test looks again.
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// A folder with a configuration.
pub(crate) struct World {
    folder: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::Builder::new().prefix("servanda-test-").tempdir().unwrap() }
    }

    /// The sample company behind the gateway, misbehaving tools included, with these contracts.
    pub(crate) fn company(contracts: impl IntoIterator<Item = Contract>) -> Self {
        let world = Self::empty();
        world.configure(&json!({ "company": world.sample(&["--misbehave"]) }));
        for contract in contracts {
            world.add(&contract);
        }
        world
    }

    /// The sample company as an upstream whose books outlive a restart.
    pub(crate) fn sample(&self, more: &[&str]) -> Value {
        self.sample_with("books.db", more)
    }

    /// The same with books of that name.
    pub(crate) fn sample_with(&self, books: &str, more: &[&str]) -> Value {
        let books = self.path(books).display().to_string();
        let mut args = vec!["sample", "--database", &books];
        args.extend(more);
        json!({ "command": BINARY, "args": args })
    }

    /// Writes a configuration with these upstreams, in which every caller waits for the end of its call.
    pub(crate) fn configure(&self, upstreams: &Value) {
        let long_work = json!({ "wait_ms_max": null });
        self.configure_with(&json!({ "servanda": 1, "upstreams": upstreams, "long_work": long_work }));
    }

    /// The same world, where a caller of long work waits this long and then gets a handle.
    pub(crate) fn waiting_ms(self, wait_ms_max: u64) -> Self {
        self.change_config(|config| config["long_work"] = json!({ "wait_ms_max": wait_ms_max }));
        self
    }

    /// Writes a whole configuration. It is JSON, which is YAML, on separate lines, so that an error's place does not depend on the binary's
    /// path. Critical changes are allowed, unless it has budgets, and grave tools need no approval, unless it says something about approvals.
    pub(crate) fn configure_with(&self, config: &Value) {
        let mut config = config.clone();
        if config.get("budgets").is_none() {
            let critical = json!({ "dimension": "critical", "amount": 100_000, "per": "tenant", "period": "total" });
            config["budgets"] = json!([critical]);
        }
        if config.get("approvals").is_none() {
            config["approvals"] = json!({ "by_class": false, "wait_ms_max": 0 });
        }
        self.write("servanda.yaml", &format!("{config:#}"));
        fs::create_dir_all(self.path("contracts")).unwrap();
    }

    /// Changes the configuration.
    pub(crate) fn change_config(&self, change: impl FnOnce(&mut Value)) {
        let mut config: Value = serde_json::from_str(&self.read("servanda.yaml")).unwrap();
        change(&mut config);
        self.configure_with(&config);
    }

    /// The same world, where tools need no pins and there is no warning about that.
    pub(crate) fn unpinned(self) -> Self {
        self.change_config(|config| config["pins"] = json!({ "missing": "ignore" }));
        self
    }

    /// Adds a contract.
    pub(crate) fn add(&self, contract: &Contract) {
        self.write(&format!("contracts/{}.json", contract.file_stem()), &contract.to_string());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let file = self.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// A file that only its owner may read.
    pub(crate) fn write_private(&self, name: &str, text: &str) {
        self.write(name, text);
        fs::set_permissions(self.path(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        let there = self.path(name).exists();
        saw("a file is there", there);
        there
    }

    /// The binary in this folder, without variables of the tester's environment that could change what it does.
    #[expect(clippy::disallowed_methods, reason = "a black-box test starts the binary as its users do")]
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(args).current_dir(self.folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.folder.path());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        run(self.command(args), "")
    }

    /// Runs a command with something on its stdin.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        run(self.command(args), input)
    }

    /// Runs a command with variables in its environment.
    pub(crate) fn run_with_env(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        let mut command = self.command(args);
        command.envs(env.iter().copied());
        run(command, "")
    }

    /// Calls a tool from the command line.
    pub(crate) fn call(&self, tool: &str, arguments: &str) -> Ran {
        self.run(&["call", tool, arguments])
    }

    /// The number of effects, read directly from the sample company's books.
    pub(crate) fn effects(&self) -> i64 {
        let books = rusqlite::Connection::open(self.path("books.db")).unwrap();
        // On a busy machine the gateway is ready before its server has created them.
        until("the company's books", || books.query_row("select count(*) from effects", [], |row| row.get(0)).ok())
    }

    /// The values of the notes whose keys begin with `key`, read directly from the ledger's file.
    pub(crate) fn notes(&self, key: &str) -> Vec<String> {
        let ledger = rusqlite::Connection::open(self.path(".servanda/ledger.db")).unwrap();
        let mut found = ledger.prepare("select value from notes where key like ?1 || '%' order by key").unwrap();
        let notes: Vec<String> = found.query_map([key], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
        saw("notes in the ledger", notes.join("\n"));
        notes
    }

    /// Text with a fixed replacement for what differs from run to run.
    pub(crate) fn steady(&self, text: &str) -> String {
        let folder = self.folder.path().display().to_string();
        text.replace(&folder, "[FOLDER]").replace(BINARY, "[SERVANDA]")
    }

    /// The processes started in this world that are still running.
    pub(crate) fn processes(&self) -> Vec<(Pid, String)> {
        let mark = self.folder.path().display().to_string();
        let running = fs::read_dir("/proc").unwrap().filter_map(|entry| process(&entry.ok()?.path()));
        let running: Vec<_> = running.filter(|(_, command_line)| command_line.contains(&mark)).collect();
        saw("processes", format!("{running:#?}"));
        running
    }

    /// Waits until no process started in this world is running.
    pub(crate) fn assert_nothing_left(&self) {
        let started = Instant::now();
        while let Some(left) = self.processes().first() {
            assert!(started.elapsed() < PATIENCE, "still running: {left:?}");
            thread::sleep(POLL);
        }
    }
}

/// The variable with which every test verifies the log of its gateways at its end, as in `make unit`.
const VERIFY_LOGS: &str = "SERVANDA_VERIFY_LOGS";

impl World {
    /// Fails the test if the log of this folder's ledger is there and does not hold.
    fn assert_log_holds(&self) {
        let key = self.run(&["audit", "key"]);
        if key.code == Some(0) && self.run(&["audit", "copy", "verified-log"]).code == Some(0) {
            let verified = self.run(&["audit", "verify", "verified-log", "--key", key.stdout.trim()]);
            if verified.code != Some(0) {
                let first = std::fs::read_dir(self.path("verified-log/tile/entries/000.p"));
                let bundle = first.unwrap().flatten().next().map(|file| std::fs::read(file.path()).unwrap());
                panic!("{}\n{}", verified.stderr, String::from_utf8_lossy(&bundle.unwrap_or_default()));
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.assert_nothing_left();
            if std::env::var_os(VERIFY_LOGS).is_some() {
                self.assert_log_holds();
            }
        }
        for (pid, _) in self.processes() {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Ran {
    /// Fails the test unless the command ended with this exit code.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// What a program reading stdout gets: JSON and nothing else.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}:\n{}\n{}", self.stdout, self.stderr))
    }

    /// The id of the call that stderr names.
    #[track_caller]
    pub(crate) fn call_id(&self) -> String {
        let start = self.stderr.find("call_").unwrap_or_else(|| panic!("no call is named:\n{}", self.stderr));
        self.stderr[start..]
            .chars()
            .take_while(|character| character.is_ascii_alphanumeric() || *character == '_')
            .collect()
    }

    /// Everything that was printed.
    pub(crate) fn everything(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Asks again until there is an answer; fails with what the last look saw.
#[track_caller]
pub(crate) fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    until_within(PATIENCE, what, ask)
}

/// The same with its own time limit.
#[track_caller]
pub(crate) fn until_within<T>(patience: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        sightings::look_again();
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < patience, "waited in vain for {what}; last seen:\n{}", sightings::shown());
        thread::sleep(POLL);
    }
}

/// Reads a stream to its end on its own thread, so that a full pipe does not block the process.
pub(crate) fn read_aside(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a failure is still worth showing.
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8(bytes).expect("output is UTF-8")
    })
}

/// Waits for the end of a child, and kills it if it does not end.
pub(crate) fn wait_for(child: &mut Child) -> Option<i32> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the process did not end");
        }
        thread::sleep(POLL);
    }
}

pub(crate) fn run(mut command: Command, input: &str) -> Ran {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = read_aside(child.stdout.take().unwrap());
    let stderr = read_aside(child.stderr.take().unwrap());
    let mut stdin = child.stdin.take().unwrap();
    // A command that does not read its stdin has closed it; that is no error.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let code = wait_for(&mut child);
    let ran = Ran { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() };
    saw("a command ended with", format!("{:?}\n{}", ran.code, ran.everything()));
    ran
}

/// A running process with its command line; none for one that has ended.
fn process(folder: &Path) -> Option<(Pid, String)> {
    let number: i32 = folder.file_name()?.to_str()?.parse().ok()?;
    let command_line = fs::read(folder.join("cmdline")).ok()?;
    Some((Pid::from_raw(number)?, String::from_utf8_lossy(&command_line).replace('\0', " ")))
}
