//! The binary: reads the command line, runs the command, ends with its exit code.

mod cli;
mod commands;
mod configuration;
mod contracts;
mod credentials;
mod failure;
mod policies;
mod screen;
mod shell_word;
mod stopping;
mod wiring;

use std::{process::ExitCode, time::Duration};

use clap::Parser as _;
use rustix::process::{Resource, Rlimit, setrlimit};
use servanda_config::DRAIN_MS_MAX;
use servanda_files as files;

use crate::{
    cli::{Cli, Command},
    failure::CommandFailure,
    screen::{Screen, log::LogStart},
    stopping::Stop,
};

/// A call asks for memory about 130 times, some of it in pieces above a kilobyte, for which the system's allocator has no fast path.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long servers may take to stop when a command is stopped: enough for two requests and a kill.
const ENDING_MAX: Duration = Duration::from_secs(6);
const ENDING_POLL: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    // First of all: this program is also the supervisor of stdio servers, which needs nothing of what follows.
    if let Some(ended) = servanda_upstream::supervisor::run_if_supervisor(std::env::args_os()) {
        return ended;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => return screen::tell_usage(&usage),
    };
    let screen = Screen { json: cli.json };
    screen::log::start(LogStart {
        level: level(cli.verbose, &cli.command),
        is_asked_for: cli.verbose > 0,
        prints_calls: prints_calls(&cli.command),
    });
    forbid_core_files();
    let ended = if is_for_people(&cli.command) && servanda_upstream::supervisor::is_below_server() {
        Err(CommandFailure::refused("this command is for people, and it was started by a server of a gateway")
            .hint("run it on a terminal of your own"))
    } else {
        run(&cli, screen)
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            screen.failure(&failure);
            failure.exit_code()
        }
    }
}

fn run(cli: &Cli, screen: Screen) -> Result<(), CommandFailure> {
    // Commands that need no async runtime get none.
    match &cli.command {
        Command::Schema(args) => return commands::schema::run(args, screen),
        Command::Contract(args) => return commands::contract::run(&cli.config, args, screen),
        Command::Review(args) => return commands::review::run(&cli.config, args, screen),
        Command::Sample(args) => return commands::sample::run(args),
        Command::Disconnect(args) => return commands::disconnect::run(&cli.config, args, screen),
        Command::Secret(args) => return commands::secret::run(&cli.config, args, screen),
        Command::Remove(args) => return commands::remove::run(&cli.config, args, screen),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        match &cli.command {
            Command::Init(args) => until_stopped(commands::init::run(&cli.config, args, screen)).await,
            Command::Check(args) => until_stopped(commands::check::run(&cli.config, args, screen)).await,
            Command::Serve(args) => Box::pin(commands::serve::run(&cli.config, args, screen)).await,
            Command::Stdio => commands::stdio::run(&cli.config, screen).await,
            Command::Tools(args) => until_stopped(commands::tools::run(&cli.config, args, screen)).await,
            Command::Diff(args) => until_stopped(commands::diff::run(&cli.config, args, screen)).await,
            Command::Pin(args) => until_stopped(commands::pin::run(&cli.config, args, screen)).await,
            Command::Pins(args) => until_stopped(commands::pins::run(&cli.config, args, screen)).await,
            Command::Call(args) => Box::pin(commands::call::run(&cli.config, args, screen)).await,
            Command::Effects(args) => until_stopped(commands::effects::run(&cli.config, args, screen)).await,
            Command::Budgets(args) => until_stopped(commands::budgets::run(&cli.config, args, screen)).await,
            Command::Quarantine(args) => until_stopped(commands::quarantine::run(&cli.config, args, screen)).await,
            Command::Approvals(args) => until_stopped(commands::approvals::run(&cli.config, args, screen)).await,
            Command::Grants(args) => until_stopped(commands::grants::run(&cli.config, args, screen)).await,
            Command::Audit(args) => until_stopped(commands::audit::run(&cli.config, args, screen)).await,
            Command::Callbacks(args) => until_stopped(commands::callbacks::run(&cli.config, args, screen)).await,
            Command::Keys(args) => until_stopped(commands::keys::run(&cli.config, args, screen)).await,
            Command::Passkeys(args) => until_stopped(commands::passkeys::run(&cli.config, args, screen)).await,
            Command::Delegate(args) => until_stopped(commands::delegate::run(&cli.config, args, screen)).await,
            Command::Revoke(args) => until_stopped(commands::revoke::run(&cli.config, args, screen)).await,
            Command::Policy(args) => until_stopped(commands::policy::run(&cli.config, args, screen)).await,
            Command::Identity(args) => until_stopped(commands::identity::run(&cli.config, args, screen)).await,
            Command::Ledger(args) => until_stopped(commands::ledger::run(&cli.config, args, screen)).await,
            Command::Migrate(args) => until_stopped(commands::migrate::run(&cli.config, args, screen)).await,
            Command::Login(args) => until_stopped(commands::login::login(&cli.config, args, screen)).await,
            Command::Logout(args) => until_stopped(commands::login::logout(&cli.config, args, screen)).await,
            Command::Logins => until_stopped(commands::login::list(&cli.config, screen)).await,
            Command::Doctor(args) => until_stopped(commands::doctor::run(&cli.config, args, screen)).await,
            Command::Demo(args) => Box::pin(commands::demo::run(args, screen)).await,
            Command::Connect(args) => commands::connect::run(&cli.config, args, screen).await,
            Command::Calls(args) => commands::calls::run(&cli.config, args, screen).await,
            Command::Explain(args) => until_stopped(commands::explain::run(&cli.config, args, screen)).await,
            Command::Schema(_)
            | Command::Contract(_)
            | Command::Review(_)
            | Command::Sample(_)
            | Command::Disconnect(_)
            | Command::Remove(_)
            | Command::Secret(_) => Ok(()),
        }
    });
    // A read of stdin cannot be interrupted; everything that must end has ended.
    runtime.shutdown_background();
    outcome
}

/// Runs a command that only asks upstreams, until it is told to stop. Dropping the command drops its upstreams, whose tasks then stop the
/// servers. These tasks are awaited, so that no server is left behind.
async fn until_stopped(command: impl Future<Output = Result<(), CommandFailure>>) -> Result<(), CommandFailure> {
    let stop = Stop::on_signals(DRAIN_MS_MAX)?;
    tokio::select! {
        outcome = command => return outcome,
        () = stop.requested.cancelled() => {}
    }
    let tasks = tokio::runtime::Handle::current().metrics();
    let over = async {
        // One task stays: it waits for the second signal.
        while tasks.num_alive_tasks() > 1 {
            tokio::time::sleep(ENDING_POLL).await;
        }
    };
    let ended = tokio::select! {
        ended = tokio::time::timeout(ENDING_MAX, over) => ended.is_ok(),
        () = stop.hurry.cancelled() => false,
    };
    if !ended {
        tracing::error!("a server may still be running");
    }
    Err(CommandFailure::failed("stopped"))
}

/// Whether a command decides what only people decide, or makes what decides for them. A server behind a gateway has the gateway's user and
/// files, and could run it (T31).
fn is_for_people(command: &Command) -> bool {
    match command {
        Command::Keys(_)
        | Command::Passkeys(_)
        | Command::Delegate(_)
        | Command::Revoke(_)
        | Command::Approvals(_)
        | Command::Grants(_)
        | Command::Quarantine(_)
        | Command::Effects(_)
        | Command::Review(_)
        | Command::Pin(_)
        | Command::Ledger(_)
        | Command::Secret(_)
        | Command::Login(_)
        | Command::Logout(_) => true,
        Command::Init(_)
        | Command::Remove(_)
        | Command::Check(_)
        | Command::Contract(_)
        | Command::Serve(_)
        | Command::Stdio
        | Command::Connect(_)
        | Command::Disconnect(_)
        | Command::Tools(_)
        | Command::Diff(_)
        | Command::Pins(_)
        | Command::Call(_)
        | Command::Calls(_)
        | Command::Explain(_)
        | Command::Migrate(_)
        | Command::Audit(_)
        | Command::Budgets(_)
        | Command::Policy(_)
        | Command::Identity(_)
        | Command::Callbacks(_)
        | Command::Logins
        | Command::Schema(_)
        | Command::Doctor(_)
        | Command::Demo(_)
        | Command::Sample(_) => false,
    }
}

/// Forbids core files, because memory holds secrets: ours and, in the servers we start, theirs.
fn forbid_core_files() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "a crash may leave a core file with secrets in it; hint: run it with `ulimit -c 0`");
    }
}

/// Whether the log has one line per call.
fn prints_calls(command: &Command) -> bool {
    matches!(command, Command::Serve(args) if args.calls.are_printed())
}

/// The level of the log. A running gateway logs warnings; another command reports by itself and logs only errors.
fn level(verbose: u8, command: &Command) -> &'static str {
    match verbose {
        0 if matches!(command, Command::Serve(_) | Command::Stdio) => "warn",
        0 => "error",
        1 => "info",
        _ => "debug",
    }
}
