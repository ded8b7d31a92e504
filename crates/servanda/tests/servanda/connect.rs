//! `servanda connect` and `servanda disconnect`: a client's file before, in between and after; the user sees every change before it is
//! made.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use serde_json::{Value, json};

use crate::{
    snapshot::Page,
    world::{BINARY, Ran, World},
};

/// A gateway with one server, which a client's file lists too, with a secret.
fn shop() -> World {
    let world = World::empty();
    let mut company = world.sample(&[]);
    company["env"] = json!({ "API_TOKEN": "t0p" });
    world.write(".mcp.json", &format!("{:#}\n", json!({ "mcpServers": { "company": company } })));
    world.run(&["init", "--yes"]).ended(0);
    world
}

/// The names of the files in the folder that are backups.
fn backups(world: &World) -> Vec<String> {
    let names = fs::read_dir(world.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.contains(".servanda-backup-")).collect();
    names.sort();
    names
}

pub(crate) fn servers(world: &World, file: &str) -> Value {
    serde_json::from_str::<Value>(&world.read(file)).unwrap()["mcpServers"].clone()
}

#[test]
fn what_a_person_sees() {
    let world = World::empty();
    let mut page = Page::new(&world);
    page.head("before anything is configured");
    // An empty `PATH`, so that clients on the tester's machine are not found.
    let nothing_installed = [("PATH", "/nonexistent")];
    page.show("connect", &world.run_with_env(&["connect"], &nothing_installed).ended(0));
    page.run(&["connect", "claude-code"]).ended(2);
    page.run(&["disconnect"]).ended(0);
    let world = shop();
    let before = world.read(".mcp.json");
    let mut page_after = Page::new(&world);
    page_after.head("no terminal to ask on");
    page_after.run(&["connect", "claude-code"]).ended(2);
    page_after.head("only to look");
    page_after.run(&["connect", "claude-code", "--dry-run"]).ended(0);
    assert_eq!(world.read(".mcp.json"), before);
    assert!(backups(&world).is_empty() && !world.has(".servanda"), "nothing was changed");
    page_after.head("yes, and the gateway takes the others' place");
    page_after.run(&["connect", "claude-code", "--replace", "--yes"]).ended(0);
    page_after.head("again");
    page_after.run(&["connect", "claude-code", "--replace", "--yes"]).ended(0);
    fs::create_dir(world.path(".cursor")).unwrap();
    page_after.show("connect", &world.run_with_env(&["connect"], &nothing_installed).ended(0));
    page_after.head("undone");
    page_after.run(&["disconnect", "claude-code"]).ended(2);
    page_after.run(&["disconnect", "claude-code", "--yes"]).ended(0);
    page_after.run(&["disconnect", "claude-code", "--yes"]).ended(0);
    page.compare("connect_before");
    page_after.compare("connect");
    assert_eq!(world.read(".mcp.json"), before);
    assert!(backups(&world).is_empty(), "the file is its own backup again");
}

/// Real files of each client: after connect and disconnect, each is restored byte for byte.
#[test]
fn every_file_comes_back_byte_for_byte() {
    let files = [
        ("claude-code", ".mcp.json", "{\"mcpServers\":{}}"),
        ("claude-code", ".mcp.json", "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {\"command\": \"x\"}\r\n\t}\r\n}"),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", "{\n    \"globalShortcut\": \"\"\n}\n"),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", ""),
        (
            "vscode",
            ".vscode/mcp.json",
            "{\n  // ours\n  \"servers\": {\n    \"a\": { \"type\": \"stdio\", \"command\": \"x\", }, /* why */\n  },\n  \"inputs\": [],\n}\n",
        ),
        ("cursor", ".cursor/mcp.json", "{ \"mcpServers\": { \"a\": { \"url\": \"http://a/\" } } }\n\n"),
        ("windsurf", ".codeium/windsurf/mcp_config.json", "{}"),
        ("zed", ".config/zed/settings.json", "// Zed\n{\n  \"theme\": \"One Dark\", // nice\n}\n"),
        ("gemini-cli", ".gemini/settings.json", "{\"theme\":\"x\",\"mcpServers\":{\"a\":{\"httpUrl\":\"http://a/\"}}}"),
        ("codex", ".codex/config.toml", "# mine\nmodel = \"x\"\n\n[mcp_servers.docs]\ncommand = \"npx\" # why\n"),
        ("codex", ".codex/config.toml", ""),
    ];
    for (client, file, text) in files {
        for more in [&["--stdio"][..], &["--http"]] {
            if client == "claude-desktop" && more == ["--http"] {
                continue;
            }
            let world = World::company([]);
            world.write(file, text);
            fs::set_permissions(world.path(file), fs::Permissions::from_mode(0o600)).unwrap();
            let connect = [&["connect", client, "--yes"], more].concat();
            let ran = world.run(&connect).ended(0);
            assert!(ran.stdout.starts_with("--- "), "{client}: {}", ran.stdout);
            let connected = world.read(file);
            assert_ne!(connected, text, "{client}");
            for comment in ["// ours", "/* why */", "// Zed", "// nice", "# mine", "# why"] {
                assert_eq!(connected.contains(comment), text.contains(comment), "{client}: {connected}");
            }
            let again = world.run(&connect).ended(0);
            assert!(
                again.stderr.contains("is connected already") && again.stdout.is_empty(),
                "{client}: {}",
                again.everything()
            );
            assert_eq!(world.read(file), connected, "{client}");
            world.run(&["disconnect", client, "--yes"]).ended(0);
            assert_eq!(world.read(file), text, "{client}");
            let mode = fs::metadata(world.path(file)).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{client}");
            assert!(world.run(&["disconnect", client, "--yes"]).ended(0).stderr.contains("is not connected"));
        }
    }
}

/// A file that `connect` created is removed again, with its folders.
#[test]
fn what_was_made_is_removed() {
    let world = World::company([]);
    world.run(&["connect", "cursor", "--yes"]).ended(0);
    let written = world.read(".cursor/mcp.json");
    assert!(written.starts_with("{\n  \"mcpServers\": {\n    \"servanda\": {\n      \"command\": "), "{written}");
    world.run(&["disconnect", "--yes"]).ended(0);
    assert!(!world.has(".cursor"));
    // The user's own file of this client is elsewhere.
    world.run(&["connect", "gemini-cli", "--scope", "user", "--yes"]).ended(0);
    assert!(world.has(".gemini/settings.json"), "the world's folder is also its home");
    let ran = world.run(&["connect", "zed", "--scope", "project", "--yes"]).ended(2);
    assert!(
        ran.stderr.contains("no file of that scope") && ran.stderr.contains("hint: --scope user"),
        "{}",
        ran.stderr
    );
}

/// A person's later edits stay; the changes by `connect` are undone.
#[test]
fn a_file_that_was_edited_since_keeps_the_edits() {
    let world = shop();
    let before = world.read(".mcp.json");
    world.run(&["connect", "claude-code", "--replace", "--yes"]).ended(0);
    let edited = world.read(".mcp.json").replacen("{\n", "{\n  // theirs, since\n  \"other\": true,\n", 1);
    world.write(".mcp.json", &edited);
    let ran = world.run(&["disconnect", "claude-code", "--yes"]).ended(0);
    assert!(ran.stderr.contains("changed since it was connected"), "{}", ran.stderr);
    let after = world.read(".mcp.json");
    assert!(after.contains("// theirs, since\n  \"other\": true"), "{after}");
    let company = before.split_once("\"company\": ").unwrap().1.split_once("\n  }").unwrap().0;
    assert!(after.contains(&format!("\"company\": {company}")), "it is back as it was written:\n{after}");
    assert!(!after.contains("servanda.yaml"), "the gateway is gone:\n{after}");
    // Both versions are kept: the one before connecting, and the one before disconnecting.
    let kept: Vec<_> = backups(&world).iter().map(|name| world.read(name)).collect();
    assert_eq!(kept, [before, edited]);
}

/// A file that cannot be parsed is left alone until it can be.
#[test]
fn a_file_that_was_broken_since_is_left_alone() {
    let world = shop();
    world.run(&["connect", "claude-code", "--yes"]).ended(0);
    let connected = world.read(".mcp.json");
    world.write(".mcp.json", &connected[..connected.len() - 3]);
    let ran = world.run(&["disconnect", "--yes"]).ended(2);
    assert!(ran.stderr.contains("`.mcp.json`: line ") && ran.stderr.contains("nothing was changed"), "{}", ran.stderr);
    assert_eq!(world.read(".mcp.json"), connected[..connected.len() - 3]);
    world.write(".mcp.json", &connected);
    world.run(&["disconnect", "--yes"]).ended(0);
    // A deleted file needs no undo.
    world.run(&["connect", "claude-code", "--yes"]).ended(0);
    fs::remove_file(world.path(".mcp.json")).unwrap();
    assert!(world.run(&["disconnect", "--yes"]).ended(0).stderr.contains("is not there any more"));
    assert!(world.run(&["disconnect", "--yes"]).ended(0).stderr.contains("no client is connected"));
}

/// A second connect keeps the record of the first state of the file; a person's edits in between are not undone either.
#[test]
fn connecting_twice_can_be_undone_once() {
    for edit in [false, true] {
        let world = shop();
        let before = world.read(".mcp.json");
        world.run(&["connect", "claude-code", "--yes"]).ended(0);
        if edit {
            world.write(".mcp.json", &format!("{}\n", world.read(".mcp.json")));
        }
        world.run(&["connect", "claude-code", "--http", "--replace", "--yes"]).ended(0);
        assert_eq!(
            servers(&world, ".mcp.json"),
            json!({ "servanda": { "type": "http", "url": "http://127.0.0.1:7332/mcp" } })
        );
        world.run(&["disconnect", "--yes"]).ended(0);
        let after = world.read(".mcp.json");
        assert_eq!(after == before, !edit, "{after}");
        let meaning = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(meaning(&after), meaning(&before));
    }
}

/// The entry works: a client that starts it as written gets the tools, with the secret it had before.
#[test]
fn the_entry_starts_the_gateway() {
    let world = shop();
    assert!(!world.read("servanda.yaml").contains("t0p"));
    world.run(&["connect", "claude-code", "--replace", "--yes"]).ended(0);
    let entry = servers(&world, ".mcp.json")["servanda"].clone();
    assert_eq!(entry["env"], json!({ "API_TOKEN": "t0p" }), "the secret stays where it was");
    let args: Vec<_> = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    assert_eq!(entry["command"], BINARY);
    let mut command = world.command(&args);
    command.env("API_TOKEN", entry["env"]["API_TOKEN"].as_str().unwrap()).current_dir("/");
    let mut pipe = world.pipe(command);
    pipe.shake_hands();
    let listed = pipe.ask(&crate::pipe::legacy(1, "tools/list", json!({})));
    assert!(listed.raw.contains("company__get_invoice"), "{}", listed.raw);
    drop(pipe);
    // Without it the gateway does not start, and says why.
    let ran = world.run(&args).ended(2);
    assert!(ran.stderr.contains("`API_TOKEN` is not set"), "{}", ran.stderr);
}

#[test]
fn replacing_takes_out_only_what_is_behind_the_gateway() {
    let world = shop();
    let mut client: Value = serde_json::from_str(&world.read(".mcp.json")).unwrap();
    client["mcpServers"]["new one"] = json!({ "command": "x" });
    client["mcpServers"]["old"] = json!({ "type": "sse", "url": "http://127.0.0.1:1/sse" });
    world.write(".mcp.json", &client.to_string());
    let before = world.read(".mcp.json");
    let ran = world.run(&["connect", "claude-code", "--replace", "--yes"]).ended(2);
    assert!(ran.stderr.contains("`new one` would be lost"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: run `servanda init --from .mcp.json` first"), "{}", ran.stderr);
    assert_eq!(world.read(".mcp.json"), before);
    client["mcpServers"].as_object_mut().unwrap().remove("new one");
    world.write(".mcp.json", &client.to_string());
    let ran = world.run(&["connect", "claude-code", "--replace", "--yes"]).ended(0);
    assert!(ran.stderr.contains("`old` stays, and the agent keeps reaching it directly"), "{}", ran.stderr);
    let names: Vec<_> = servers(&world, ".mcp.json").as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["old", "servanda"]);
}

/// VS Code keeps asking for its inputs, and passes them to the gateway.
#[test]
fn inputs_of_the_client_stay_its_inputs() {
    let world = World::empty();
    let mut company = world.sample(&[]);
    company["env"] = json!({ "API_KEY": "${input:key}", "REGION": "${input:region}" });
    let inputs = json!([
        { "type": "promptString", "id": "key", "password": true },
        { "type": "pickString", "id": "region", "options": ["eu"], "default": "eu" },
    ]);
    world.write(".vscode/mcp.json", &json!({ "servers": { "company": company }, "inputs": inputs }).to_string());
    world.run(&["init", "--yes", "--from", ".vscode/mcp.json"]).ended(0);
    world.run(&["connect", "vscode", "--replace", "--yes"]).ended(0);
    let connected: Value = serde_json::from_str(&world.read(".vscode/mcp.json")).unwrap();
    assert_eq!(connected["servers"]["servanda"]["env"], json!({ "KEY": "${input:key}" }));
    assert_eq!(connected["inputs"], inputs);
}

/// On a terminal the user is asked, and only a yes counts as one.
#[test]
fn a_person_is_asked() {
    let world = shop();
    let before = world.read(".mcp.json");
    // The first question is whether the tools may pass without one of the client.
    for typed in ["n\nn\n", "n\n\n", "n\nyellow\n"] {
        let ran = world.run_on_terminal(&["connect", "claude-code"], typed).ended(1);
        assert!(ran.stderr.contains("write this to .mcp.json? [y/N]"), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("nothing was changed") && ran.stdout.contains("+    \"servanda\""),
            "{}",
            ran.everything()
        );
        assert_eq!(world.read(".mcp.json"), before);
    }
    let ran = world.run_on_terminal(&["connect", "claude-code"], "n\ny\n").ended(0);
    assert!(ran.stderr.contains("wrote .mcp.json"), "{}", ran.stderr);
    world.run_on_terminal(&["disconnect", "claude-code"], "no\n").ended(1);
    assert_ne!(world.read(".mcp.json"), before);
    world.run_on_terminal(&["disconnect", "claude-code"], "yes\n").ended(0);
    assert_eq!(world.read(".mcp.json"), before);
}

/// A link is followed and stays a link; the backup is beside the link.
#[test]
fn links_lead_to_the_file() {
    let world = shop();
    fs::create_dir(world.path("dotfiles")).unwrap();
    fs::rename(world.path(".mcp.json"), world.path("dotfiles/mcp.json")).unwrap();
    symlink("dotfiles/mcp.json", world.path(".mcp.json")).unwrap();
    let before = world.read("dotfiles/mcp.json");
    world.run(&["connect", "claude-code", "--yes"]).ended(0);
    assert!(fs::symlink_metadata(world.path(".mcp.json")).unwrap().is_symlink());
    assert!(world.read("dotfiles/mcp.json").contains("servanda.yaml"));
    assert_eq!(backups(&world).len(), 1);
    world.run(&["disconnect", "--yes"]).ended(0);
    assert_eq!(world.read("dotfiles/mcp.json"), before);
    assert_eq!(fs::read_dir(world.path("dotfiles")).unwrap().count(), 1, "nothing is left there");
}

/// A change that cannot be made is reported with its reason, and the file stays as it is.
#[test]
fn what_cannot_be_done_changes_nothing() {
    let world = World::company([]);
    let mut page = Page::new(&world);
    let cases: [(&str, &str, &[&str]); 6] = [
        (
            "not JSON",
            "{\n  \"mcpServers\": {\n    \"a\": {}\n    \"b\": {}\n  }\n}",
            &["connect", "claude-code", "--yes"],
        ),
        ("not a list of servers", "{ \"mcpServers\": [] }", &["connect", "claude-code", "--yes"]),
        ("twice", "{ \"mcpServers\": {}, \"mcpServers\": {} }", &["connect", "claude-code", "--yes"]),
        (
            "another of that name",
            "{ \"mcpServers\": { \"servanda\": { \"command\": \"x\" } } }",
            &["connect", "claude-code", "--yes"],
        ),
        ("a name that not every client takes", "{}", &["connect", "claude-code", "--name", "my gateway", "--yes"]),
        ("commands only", "{}", &["connect", "claude-desktop", "--http", "--file", ".mcp.json", "--yes"]),
    ];
    for (heading, text, args) in cases {
        world.write(".mcp.json", text);
        page.head(heading);
        page.run(args).ended(2);
        assert_eq!(world.read(".mcp.json"), text, "{heading}");
    }
    page.head("no client is meant");
    page.run(&["connect", "--yes"]).ended(2);
    page.head("no such client");
    page.run(&["connect", "claude"]).ended(2);
    page.head("a link that leads nowhere");
    symlink("nowhere", world.path("lost.json")).unwrap();
    page.run(&["connect", "--file", "lost.json", "--yes"]).ended(2);
    page.head("read-only");
    world.write("locked.json", "{}");
    fs::set_permissions(world.path("locked.json"), fs::Permissions::from_mode(0o444)).unwrap();
    page.run(&["connect", "--file", "locked.json", "--yes"]).ended(2);
    assert_eq!(world.read(".servanda/connections.json").matches("locked").count(), 0, "nothing was connected");
    fs::remove_dir_all(world.path(".servanda")).unwrap();
    page.head("another address every time");
    world.configure_with(&json!({ "servanda": 1, "listen": "127.0.0.1:0", "upstreams": {} }));
    page.run(&["connect", "cursor", "--http", "--yes"]).ended(2);
    page.head("mixed line ends in TOML");
    world.write(".codex/config.toml", "a = 1\r\nb = 2\n");
    page.run(&["connect", "codex", "--yes"]).ended(2);
    page.compare("connect_errors");
    assert!(backups(&world).is_empty() && !world.has(".servanda"));
}

/// A file of an unknown client, in any notation.
#[test]
fn any_other_file_can_be_named() {
    let world = World::company([]);
    world.write("a.json", "{ \"servers\": {} }");
    world.run(&["connect", "--file", "a.json", "--name", "gate", "--http", "--yes"]).ended(0);
    assert_eq!(
        world.read("a.json"),
        "{ \"servers\": {\"gate\": {\"type\": \"http\", \"url\": \"http://127.0.0.1:7332/mcp\"}} }"
    );
    world.run(&["connect", "--file", "b/c.json", "--yes"]).ended(0);
    let rows = world.run(&["connect", "--json"]).ended(0).json();
    let named: Vec<_> = rows.as_array().unwrap().iter().filter(|row| row["client"] == "(--file)").collect();
    assert_eq!(named.len(), 2, "{rows}");
    let ran = world.run(&["disconnect", "--yes"]).ended(2);
    assert!(ran.stderr.contains("several clients are connected: a.json, b/c.json"), "{}", ran.stderr);
    world.run(&["disconnect", "--file", "a.json", "--yes"]).ended(0);
    assert_eq!(world.read("a.json"), "{ \"servers\": {} }");
    // Only the record says that this file was connected, and a repository can contain a forged record.
    let ran = world.run(&["disconnect", "--yes"]).ended(2);
    assert!(ran.stderr.contains("b/c.json`; if you did not connect it"), "{}", ran.stderr);
    world.run(&["disconnect", "--file", "b/c.json", "--yes"]).ended(0);
    assert!(!world.has("b"));
}

#[test]
fn programs_read_json() {
    let world = shop();
    let shown = world.run(&["connect", "claude-code", "--dry-run", "--json"]).ended(0).json();
    assert_eq!((&shown["changed"], &shown["door"], &shown["backup"]), (&json!(false), &json!("stdio"), &Value::Null));
    assert!(shown["diff"].as_str().unwrap().contains("+    \"servanda\": {"), "{shown}");
    let refused = world.run(&["connect", "claude-code", "--json"]).ended(2);
    assert!(refused.stderr.contains("\"exit_code\":2") && refused.stdout.is_empty(), "{}", refused.everything());
    let done = world.run(&["connect", "claude-code", "--replace", "--yes", "--json"]).ended(0).json();
    assert_eq!((&done["changed"], &done["taken_out"]), (&json!(true), &json!(["company"])));
    assert!(world.has(done["backup"].as_str().unwrap().rsplit('/').next().unwrap()));
    let undone = world.run(&["disconnect", "--yes", "--json"]).ended(0).json();
    assert_eq!(undone["changed"], true);
    assert_eq!(world.run(&["disconnect", "--json"]).ended(0).json()["changed"], false);
}

/// The record contains no secret and only its owner may read it; an unreadable record stops the command.
#[test]
fn the_record_is_private_and_checked() {
    let world = shop();
    world.run(&["connect", "claude-code", "--replace", "--yes"]).ended(0);
    let record = world.read(".servanda/connections.json");
    assert!(!record.contains("t0p"), "{record}");
    let mode = fs::metadata(world.path(".servanda/connections.json")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    for broken in ["{", &record.replace("\"version\": 1", "\"version\": 2")] {
        world.write(".servanda/connections.json", broken);
        let connected = world.read(".mcp.json");
        let ran = world.run(&["disconnect", "--yes"]).ended(2);
        assert!(
            ran.stderr.contains("is not a valid record") && ran.stderr.contains("*.servanda-backup-*"),
            "{}",
            ran.stderr
        );
        assert_eq!(world.read(".mcp.json"), connected);
    }
    // A changed backup is not used: only our entry is removed.
    world.write(".servanda/connections.json", &record);
    let (connected, backup) = (world.read(".mcp.json"), backups(&world).remove(0));
    let kept = world.read(&backup);
    world.write(&backup, &kept.replace("t0p", "0ther"));
    let shown = world.run(&["disconnect", "--dry-run"]).ended(0);
    assert!(shown.stderr.contains("only the gateway's entry is undone"), "{}", shown.stderr);
    assert_eq!(world.read(".mcp.json"), connected);
    world.write(&backup, &kept);
    // Without its backup the file cannot be restored byte for byte, and the removed server not at all: the message says so.
    for backup in backups(&world) {
        fs::remove_file(world.path(&backup)).unwrap();
    }
    let ran: Ran = world.run(&["disconnect", "--yes"]).ended(0);
    assert!(ran.stderr.contains("`company` could not be put back"), "{}", ran.stderr);
    assert_eq!(servers(&world, ".mcp.json"), json!({}));
}

/// Printed secrets are masked, because output may end up anywhere; written secrets are unchanged.
#[test]
fn secrets_are_masked_where_they_are_shown_only() {
    let world = shop();
    let others = json!({
        "mcpServers": {
            "other": { "command": "x", "args": ["--api-key", "hunter2"], "env": { "MY_PAT": "hunter2" } },
            "far": { "url": "https://me:hunter2@h/mcp?key=hunter2", "headers": { "Authorization": "Bearer hunter2" } },
        }
    });
    let before = format!("{others:#}\n");
    world.write("client.json", &before);
    let connect = ["connect", "--file", "client.json", "--dry-run"];
    let disconnect = ["disconnect", "--file", "client.json"];
    let mut shown =
        vec![world.run(&connect).ended(0), world.run(&["--json", connect[0], connect[1], connect[2], connect[3]])];
    shown.push(world.run(&["connect", "--file", "client.json", "--yes"]).ended(0));
    let after = servers(&world, "client.json");
    for name in ["other", "far"] {
        assert_eq!(after[name], others["mcpServers"][name], "what is written is not masked");
    }
    shown.push(world.run(&[disconnect[0], disconnect[1], disconnect[2], "--dry-run"]).ended(0));
    shown.push(world.run(&[disconnect[0], disconnect[1], disconnect[2], "--yes"]).ended(0));
    assert_eq!(world.read("client.json"), before);
    for ran in shown {
        assert!(!ran.everything().contains("hunter2"), "{ran:#?}");
        assert!(ran.stdout.contains("servanda"), "the change itself is shown: {ran:#?}");
    }
}
