//! A private PostgreSQL: created for the run, on loopback, stopped like by a crash, then deleted.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{process::Command, time::timeout};

const PATIENCE: Duration = Duration::from_mins(1);

const STANDBY_LOOKS_MAX: u32 = 200;

/// A cluster.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    /// The user it runs as: PostgreSQL does not run as root.
    user: Option<User>,
}

/// A user that is not root, by its numbers.
#[derive(Debug, Clone)]
struct User {
    uid: String,
    gid: String,
}

impl Postgres {
    /// Makes a cluster and starts it.
    pub async fn start(folder: &Path) -> Result<Self, String> {
        let bin = find().ok_or("no PostgreSQL was found; hint: apt-get install postgresql")?;
        let user = rustix::process::geteuid().is_root().then(unprivileged).transpose()?;
        let port = servanda_requirements::unused_port();
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let postgres = Self { bin, folder: folder.to_owned(), port, user };
        if let Some(user) = &postgres.user {
            run(Command::new("chown").arg(&user.uid).arg(folder)).await?;
        }
        let data = folder.join("data").display().to_string();
        let init = ["-D", &data, "-U", "servanda", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"];
        run(postgres.command("initdb").args(init)).await?;
        postgres.up(None).await?;
        Ok(postgres)
    }

    /// Starts it, with a moved clock if one is given.
    pub async fn up(&self, clock: Option<&str>) -> Result<(), String> {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} -c max_connections=500 \
             -c shared_buffers=64MB -c synchronous_commit=on -c fsync=on",
            self.port,
            self.folder.display()
        );
        let log = self.folder.join("log").display().to_string();
        let mut command = self.command("env");
        if let Some(clock) = clock {
            // Set by `env`, because another user cannot use what the library sets up as root.
            let library = crate::gateway::faketime().ok_or("libfaketime is not installed")?;
            command.arg(format!("LD_PRELOAD={}", library.display())).arg(format!("FAKETIME={clock}"));
            command.args(["FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"]);
        }
        command.arg(self.bin.join("pg_ctl"));
        let data = self.data();
        run(command.args(["-D", &data, "-l", &log, "-w", "-t", "50", "-o", &options, "start"])).await
    }

    /// Stops it as a crash would.
    pub async fn crash(&self) -> Result<(), String> {
        let data = self.data();
        run(self.command("pg_ctl").args(["-D", &data, "-m", "immediate", "-w", "-t", "50", "stop"])).await
    }

    /// Stops all of its processes without ending them: connections stay open, and nothing answers.
    pub fn freeze(&self) -> Result<(), String> {
        self.signal_all(Signal::STOP)
    }

    /// Resumes them.
    pub fn thaw(&self) -> Result<(), String> {
        self.signal_all(Signal::CONT)
    }

    fn signal_all(&self, signal: Signal) -> Result<(), String> {
        let noted =
            fs::read_to_string(Path::new(&self.data()).join("postmaster.pid")).map_err(|error| error.to_string())?;
        let number = noted.lines().next().and_then(|line| line.trim().parse::<i32>().ok());
        let server = number.and_then(Pid::from_raw).ok_or("postmaster.pid has no process id")?;
        // The server first, so that it starts no further processes.
        for process in std::iter::once(server).chain(children(server)) {
            // One of them may have ended by itself.
            let _ = kill_process(process, signal);
        }
        Ok(())
    }

    /// An empty database.
    pub async fn database(&self, name: &str) -> Result<String, String> {
        self.sql("postgres", &format!("create database {name}")).await?;
        Ok(format!("postgres://servanda@127.0.0.1:{}/{name}", self.port))
    }

    pub async fn sql(&self, database: &str, statement: &str) -> Result<(), String> {
        let port = self.port.to_string();
        let args = ["-h", "127.0.0.1", "-p", &port, "-U", "servanda", "-d", database, "-qXc", statement];
        run(self.command("psql").args(args)).await
    }

    /// A standby that follows asynchronously, so that a failover can lose commits.
    pub async fn standby(&self, folder: &Path) -> Result<Self, String> {
        let port = servanda_requirements::unused_port();
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        if let Some(user) = &self.user {
            run(Command::new("chown").arg(&user.uid).arg(folder)).await?;
        }
        let standby = Self { bin: self.bin.clone(), folder: folder.to_owned(), port, user: self.user.clone() };
        let (data, from) = (standby.data(), self.port.to_string());
        let copy = ["-h", "127.0.0.1", "-p", &from, "-U", "servanda", "-D", &data, "-R", "-X", "stream", "--no-sync"];
        run(standby.command("pg_basebackup").args(copy).args(["-c", "fast"])).await?;
        standby.up(None).await?;
        for _ in 0..STANDBY_LOOKS_MAX {
            // Fails as long as no standby follows.
            if self.sql("postgres", "select 1 / count(*) from pg_stat_replication").await.is_ok() {
                return Ok(standby);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the standby does not follow".to_owned())
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    fn command(&self, program: &str) -> Command {
        let program = if program == "env" { PathBuf::from(program) } else { self.bin.join(program) };
        let mut command = match &self.user {
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", &user.uid, "--regid", &user.gid, "--clear-groups", "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.current_dir(&self.folder);
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.data();
        // A stopped server cannot end.
        let _ = self.thaw();
        let mut command = self.command("pg_ctl").into_std();
        // Best effort: the server may already be down.
        let _ = command.args(["-D", &data, "-m", "immediate", "-w", "-t", "20", "stop"]).output();
    }
}

/// The processes that a process started.
fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().to_string();
    let child = |process: fs::DirEntry| {
        let number = process.file_name().to_str()?.parse::<i32>().ok()?;
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        // After the name, which may have any character but is in parentheses: the state, then the parent.
        let (_, rest) = stat.rsplit_once(')')?;
        (rest.split_whitespace().nth(1)? == parent).then(|| Pid::from_raw(number)).flatten()
    };
    fs::read_dir("/proc").map(|all| all.filter_map(Result::ok).filter_map(child).collect()).unwrap_or_default()
}

/// The folder of a PostgreSQL's programs.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.filter_map(Result::ok).map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    debian.sort();
    let folders = debian.into_iter().rev().chain(std::env::split_paths(&path));
    folders.into_iter().find(|folder| folder.join("pg_ctl").exists() && folder.join("initdb").exists())
}

/// A user that PostgreSQL can run as.
fn unprivileged() -> Result<User, String> {
    let known = fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
    let find = |name: &&str| {
        let mut fields = known.lines().find(|line| line.starts_with(&format!("{name}:")))?.split(':').skip(2);
        Some(User { uid: fields.next()?.to_owned(), gid: fields.next()?.to_owned() })
    };
    ["postgres", "nobody"].iter().find_map(find).ok_or_else(|| "there is no user to run PostgreSQL as".to_owned())
}

async fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{:?}", command.as_std());
    // `pg_ctl start` leaves a server behind that would keep a pipe open for ever.
    let ran =
        timeout(PATIENCE, command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).status());
    match ran.await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("{shown}: {status}")),
        Ok(Err(error)) => Err(format!("{shown}: {error}")),
        Err(_) => Err(format!("{shown} does not end")),
    }
}
