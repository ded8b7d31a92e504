//! How a gateway stops: in time even if something hangs, and with every process that its servers started, whether it was asked to stop or
//! killed.

use std::{fs, process::Stdio, time::Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    contract::{changes, reads},
    streams::call_aside,
    world::{PATIENCE, World, until, wait_for},
};

/// Before it serves, this server starts a child, a child that ignores requests to stop, and a daemon: a process in its own session whose
/// parent has ended. All of them write down their process ids. The server also ignores the end of its input.
const FAMILY: &str = r#"
pids=$1; shift
echo $$ >> "$pids"
sleep 1000 &
echo $! >> "$pids"
sh -c 'trap "" TERM HUP INT; echo $$ >> "$1"; while :; do sleep 1; done' deaf "$pids" &
(setsid sh -c 'trap "" TERM HUP INT; echo $$ >> "$1"; while :; do sleep 1; done' daemon "$pids" &)
"#;
const STAY: &str = "\nwhile :; do sleep 1; done\n";
const FAMILY_SIZE: usize = 4;

/// An upstream with such a family that serves this tool.
fn family(world: &World, tool: &str) -> Value {
    let mut stub = world.stub(&[tool], Some(&json!({ "content": [{ "type": "text", "text": "done" }] })));
    let args = stub["args"].as_array_mut().unwrap();
    let serve = args[1].as_str().unwrap();
    args[1] = json!(format!("{FAMILY}{serve}{STAY}"));
    args.insert(3, json!(world.path("pids")));
    stub
}

/// The process ids of the family, once all of them are written.
fn members(world: &World) -> Vec<i32> {
    until("the server's family to be there", || {
        let text = fs::read_to_string(world.path("pids")).unwrap_or_default();
        let pids: Vec<i32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
        (pids.len() >= FAMILY_SIZE).then_some(pids)
    })
}

/// The `/proc` status of a running process; none if it is gone, or has ended and is only not reaped yet.
fn runs(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = stat.rsplit_once(") ")?.1;
    (!state.starts_with('Z')).then(|| stat.clone())
}

#[track_caller]
fn assert_gone(pids: &[i32]) {
    let started = Instant::now();
    loop {
        let left: Vec<String> = pids.iter().filter_map(|pid| runs(*pid)).collect();
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "still running: {left:#?}");
        std::thread::sleep(crate::world::POLL);
    }
}

fn world_with_family() -> World {
    let world = World::empty();
    world.configure(&json!({ "company": family(&world, "look") }));
    world.add(&reads("look"));
    world.unpinned()
}

#[test]
fn a_server_and_everything_it_started_end_with_the_gateway() {
    for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
        let world = world_with_family();
        let mut gateway = world.serve();
        gateway.legacy().call("company__look", json!({})).success();
        let pids = members(&world);
        gateway.signal(signal);
        let ended = gateway.wait();
        assert_eq!(ended, (signal != Signal::KILL).then_some(0), "{signal:?}: {}", gateway.said());
        assert_gone(&pids);
    }
}

/// Every command that starts a server, not only `serve`.
#[test]
fn a_killed_command_leaves_no_server_behind() {
    let table: [&[&str]; 4] =
        [&["stdio"], &["tools"], &["doctor"], &["init", "--yes", "--from", "client.json", "--force"]];
    std::thread::scope(|scope| {
        for args in table {
            scope.spawn(move || {
                let world = World::empty();
                let server = family(&world, "look");
                world.write("client.json", &json!({ "mcpServers": { "company": server } }).to_string());
                // It starts its family and never answers.
                let mute = server["args"][1].as_str().unwrap().replace("printf '{", ": '{");
                let mut server = server.clone();
                server["args"][1] = json!(mute);
                world.configure(&json!({ "company": server }));
                world.add(&reads("look"));
                let mut command = world.command(args);
                let mut child =
                    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                let pids = members(&world);
                kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
                assert_eq!(wait_for(&mut child), None, "{args:?}");
                assert_gone(&pids);
            });
        }
    });
}

/// If the supervisor is killed, its server ends, and the gateway starts another. If the gateway is killed as well, as by `killall`, the
/// server still ends although it ignores requests: the kernel kills it.
#[test]
fn a_server_ends_with_its_supervisor() {
    let world = World::empty();
    let mut server = world.stub(&["look"], Some(&json!({ "content": [{ "type": "text", "text": "done" }] })));
    let serve = server["args"][1].as_str().unwrap();
    let introduce = "trap '' TERM HUP INT; echo $$ >> \"$1\"; shift";
    server["args"][1] = json!(format!("{introduce}\n{serve}{STAY}"));
    server["args"].as_array_mut().unwrap().insert(3, json!(world.path("pids")));
    world.configure(&json!({ "company": server }));
    world.add(&reads("look"));
    let world = world.unpinned();
    let gateway = world.serve();
    let serving = |server: usize| {
        gateway.legacy().call("company__look", json!({})).success();
        let text = world.read("pids");
        let pid: i32 = text.lines().nth(server).unwrap().parse().unwrap();
        let stat = runs(pid).unwrap();
        let supervisor = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
        (pid, Pid::from_raw(supervisor).unwrap())
    };
    let (first, supervisor) = serving(0);
    kill_process(supervisor, Signal::KILL).unwrap();
    assert_gone(&[first]);
    let (second, supervisor) = serving(1);
    gateway.kill();
    kill_process(supervisor, Signal::KILL).unwrap();
    assert_gone(&[second]);
}

/// The store hangs, a call has an answer that cannot be recorded, and the server does not stop. The gateway still stops in time and reports
/// what is not settled, and the effect stays recorded as it was.
#[test]
fn the_whole_end_keeps_to_its_time_with_the_store_away() {
    const DRAIN_MS_MAX: u64 = 3_000;
    let world = World::empty();
    let done = json!({ "content": [{ "type": "text", "text": "done" }] });
    let mut stubborn = world.stub_until(&["change_it"], &done, "answer");
    let script = stubborn["args"][1].as_str().unwrap();
    stubborn["args"][1] = json!(format!("trap '' TERM\n{script}{STAY}"));
    world.configure(&json!({ "company": stubborn }));
    world.change_config(|config| config["limits"] = json!({ "drain_ms_max": DRAIN_MS_MAX }));
    world.add(&changes("change_it"));
    let world = world.unpinned();
    let mut gateway = world.serve();
    let waiting = call_aside(&gateway.legacy(), 1, "company__change_it", json!({}));
    world.stub_heard("tools/call");
    let store = rusqlite::Connection::open(world.ledger()).unwrap();
    store.busy_timeout(PATIENCE).unwrap();
    store.execute_batch("begin immediate").unwrap();
    world.write("answer", "");

    let asked = Instant::now();
    gateway.terminate();
    assert_eq!(gateway.wait(), Some(1), "{}", gateway.said());
    // Twice its time, for a busy machine. Without a common limit it takes five times as long.
    assert!(asked.elapsed().as_millis() < 2 * u128::from(DRAIN_MS_MAX), "{:?}: {}", asked.elapsed(), gateway.said());
    let said = gateway.said();
    assert!(said.contains("1 call was not settled and may have happened"), "{said}");
    assert!(said.contains("these calls are not settled") && said.contains("eff_"), "{said}");
    assert!(said.contains("the ledger was not closed in time"), "{said}");
    world.assert_nothing_left();
    store.execute_batch("rollback").unwrap();
    world.record_of("company__change_it", "dispatching");
    // Its connection ended with the gateway.
    let _ = waiting.join();
}

#[test]
fn how_long_the_end_takes_can_be_said_on_the_command_line() {
    let world = World::company([changes("misbehave_hang")]).unpinned();
    let mut gateway = world.serve_with(&["--drain-ms-max", "1500"], &[]);
    let waiting = call_aside(&gateway.legacy(), 1, "company__misbehave_hang", json!({}));
    world.record_of("company__misbehave_hang", "dispatching");
    gateway.terminate();
    assert_eq!(gateway.wait(), Some(0), "{}", gateway.said());
    assert!(gateway.said().contains("up to 1.5 s in all"), "{}", gateway.said());
    let _ = waiting.join();
    world.record_of("company__misbehave_hang", "unknown");

    let refused = world.run(&["serve", "--drain-ms-max", "10"]).ended(2);
    assert!(refused.stderr.contains("--drain-ms-max"), "{}", refused.stderr);
    world.change_config(|config| config["limits"] = json!({ "drain_ms_max": 10 }));
    let refused = world.run(&["check"]).ended(2);
    assert!(
        refused.stderr.contains("limits.drain_ms_max") && refused.stderr.contains("at least 500"),
        "{}",
        refused.stderr
    );
}

/// An unused session ends by itself, with its own connection to a server and its stored state.
#[test]
fn an_idle_session_ends_by_itself_with_its_server() {
    let world = World::empty();
    world.configure(&json!({ "company": world.stub(&["look"], Some(&json!({ "content": [] }))) }));
    world.change_config(|config| config["limits"] = json!({ "session_idle_ms_max": 1_000 }));
    world.add(&reads("look"));
    let world = world.unpinned();
    let gateway = world.serve();
    let shares = gateway.legacy();
    shares.call("company__look", json!({})).success();
    let alone = gateway.able(&json!({ "elicitation": {} }));
    alone.call("company__look", json!({})).success();
    // The gateway, and two servers with their supervisors; or fewer, if this took longer than a session may be idle.
    until("the idle session's server to end", || (world.processes().len() == 3).then_some(()));
    until("what is written down of sessions to be erased", || (world.session_notes() == 0).then_some(()));
    let question = alone.question(1, "tools/list", json!({}));
    assert_eq!(alone.exchange(&question).status, 404, "the session is gone");
}
