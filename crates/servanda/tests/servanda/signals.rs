//! Commands that are told to stop while they wait: they end, and so do the servers that they started.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{
    contract::{changes, reads},
    world::{World, read_aside, until, wait_for},
};

/// A server that never answers and ignores the end of its input.
const DEAF: &str = "echo started > \"$1\"; while :; do sleep 1; done";

/// Starts a command, waits until its server has left a trace, tells the command to stop.
#[track_caller]
fn stop(world: &World, args: &[&str], signal: Signal, started: impl FnMut() -> Option<()>) -> String {
    let mut command = world.command(args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = read_aside(child.stderr.take().unwrap());
    until("the server to be started", started);
    kill_process(Pid::from_child(&child), signal).unwrap();
    assert_eq!(wait_for(&mut child), Some(1), "{args:?}");
    assert_eq!(world.processes(), [], "{args:?} left something behind");
    let said = stderr.join().unwrap();
    assert!(!said.contains("may still be running"), "{args:?}: {said}");
    said
}

fn deaf() -> World {
    let world = World::empty();
    let server = json!({ "command": "sh", "args": ["-c", DEAF, "deaf", world.path("trace")] });
    world.configure(&json!({ "company": server }));
    world.write("client.json", &json!({ "mcpServers": { "company": server } }).to_string());
    world.add(&reads("tool"));
    world
}

#[test]
fn commands_that_are_stopped_leave_no_server_behind() {
    let table: [(&[&str], Signal); 5] = [
        (&["tools"], Signal::INT),
        (&["doctor"], Signal::TERM),
        (&["init", "--yes", "--from", "client.json"], Signal::HUP),
        (&["call", "company__tool"], Signal::INT),
        (&["call", "company__tool"], Signal::HUP),
    ];
    std::thread::scope(|scope| {
        for (args, signal) in table {
            scope.spawn(move || {
                let world = deaf();
                let said = stop(&world, args, signal, || world.has("trace").then_some(()));
                assert!(said.contains("error: stopped\n"), "{args:?}: {said}");
            });
        }
    });
}

/// A change that was sent when the command is stopped is recorded with an unknown outcome.
#[test]
fn a_call_that_is_stopped_is_on_record() {
    let world = World::empty();
    world.configure(&json!({ "company": world.stub(&["change_it"], None) }));
    world.add(&changes("change_it"));
    let heard = || std::fs::read_to_string(world.path("heard")).ok()?.contains("tools/call").then_some(());
    let said = stop(&world, &["call", "company__change_it"], Signal::TERM, heard);
    assert!(said.contains("error: stopped\nhint: `servanda explain --last`"), "{said}");
    assert_eq!(world.record_of("company__change_it", "unknown")["refusal"]["effect"], "unknown");
}

/// A command that waits for stdin can be stopped.
#[test]
fn a_command_that_waits_for_stdin_can_be_stopped() {
    let world = deaf();
    let mut child = world.command(&["call", "company__tool", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let listens = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        (u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << 14) != 0).then_some(())
    };
    until("the command to listen for signals", listens);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(wait_for(&mut child), Some(1));
    assert!(!world.has("trace"));
}
