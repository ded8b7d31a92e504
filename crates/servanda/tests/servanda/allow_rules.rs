//! `servanda connect --allow`: the client's own rule that lets the tools of the gateway pass, written on request and undone.

use serde_json::Value;

use crate::world::World;

/// A client's rule is written on request only, shown in the difference, and taken out again byte for byte.
#[test]
fn a_rule_that_lets_the_tools_pass_is_written_on_request_and_undone() {
    let settings = "{\n  \"permissions\": {\n    \"allow\": [\"Bash(ls)\"], // mine\n    \"deny\": []\n  }\n}\n";
    for (before, scope) in
        [(None, "project"), (Some(settings), "project"), (None, "user"), (Some("{\"model\":\"opus\"}"), "user")]
    {
        let world = World::company([]);
        let file = if scope == "user" { ".claude/settings.json" } else { ".claude/settings.local.json" };
        if let Some(text) = before {
            world.write(file, text);
        }
        let connect = ["connect", "claude-code", "--scope", scope];
        world.run(&[&connect[..], &["--yes"]].concat()).ended(0);
        assert_eq!(world.has(file), before.is_some(), "without --allow nothing is written");
        let dry = world.run(&[&connect[..], &["--allow", "--dry-run"]].concat()).ended(0);
        assert!(dry.stdout.contains("mcp__servanda") && dry.stdout.contains(file), "{}", dry.stdout);
        assert_eq!(world.has(file), before.is_some());
        let ran = world.run(&[&connect[..], &["--allow", "--yes"]].concat()).ended(0);
        assert!(ran.stdout.contains('+') && ran.stderr.contains(&format!("wrote {file}")), "{}", ran.everything());
        let written = world.read(file);
        let value: Value = serde_json::from_str(&written.replace(" // mine", "")).unwrap();
        let rules: Vec<&str> =
            value["permissions"]["allow"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(rules.last(), Some(&"mcp__servanda"), "{written}");
        assert_eq!(written.contains("// mine"), before == Some(settings), "{written}");
        let again = world.run(&[&connect[..], &["--allow", "--yes"]].concat()).ended(0);
        assert!(again.stderr.contains("is connected already") && world.read(file) == written, "{}", again.everything());
        let undone = world.run(&["disconnect", "claude-code", "--yes"]).ended(0);
        assert!(undone.stdout.contains("mcp__servanda"), "{}", undone.everything());
        assert_eq!(world.has(file).then(|| world.read(file)).as_deref(), before);
        assert_eq!(world.has(".claude"), before.is_some(), "a folder that was made is removed");
    }
}

/// Settings that were edited since keep the edits and lose the rule alone.
#[test]
fn settings_that_were_edited_since_lose_only_the_rule() {
    let world = World::company([]);
    world.run(&["connect", "claude-code", "--allow", "--yes"]).ended(0);
    let edited = "{\n  \"permissions\": { \"allow\": [\"Read\", \"mcp__servanda\", \"Bash(ls)\"] }\n}\n";
    world.write(".claude/settings.local.json", edited);
    let ran = world.run(&["disconnect", "claude-code", "--yes"]).ended(0);
    assert!(ran.stderr.contains("the rule was taken out of"), "{}", ran.everything());
    let expected = "{\n  \"permissions\": { \"allow\": [\"Read\", \"Bash(ls)\"] }\n}\n";
    assert_eq!(world.read(".claude/settings.local.json"), expected);
    assert!(!world.has(".mcp.json"));
}

/// Where the rule is a field of the entry, it comes and goes with the entry.
#[test]
fn a_rule_in_the_entry_comes_and_goes_with_it() {
    let table = [
        ("codex", ".codex/config.toml", "default_tools_approval_mode = \"approve\""),
        ("gemini-cli", ".gemini/settings.json", "\"trust\": true"),
    ];
    for (client, file, rule) in table {
        let world = World::company([]);
        let text = if client == "codex" { "model = \"x\"\n" } else { "{\n  \"theme\": \"x\"\n}\n" };
        world.write(file, text);
        world.run(&["connect", client, "--yes"]).ended(0);
        assert!(!world.read(file).contains(rule), "{client}");
        let ran = world.run(&["connect", client, "--allow", "--yes"]).ended(0);
        assert!(
            ran.stdout.contains(&format!("+{}{rule}", if client == "codex" { "" } else { "      " })),
            "{}",
            ran.stdout
        );
        assert_eq!(world.read(file).matches(rule).count(), 1, "{}", world.read(file));
        world.run(&["connect", client, "--yes"]).ended(0);
        assert!(world.read(file).contains(rule), "what is there stays");
        world.run(&["disconnect", client, "--yes"]).ended(0);
        assert_eq!(world.read(file), text, "{client}");
    }
}

/// A client without a documented rule is connected, and the user is told that it keeps asking.
#[test]
fn a_client_without_a_rule_is_told_of() {
    for (client, why) in [
        ("vscode", "no rule for one server is documented"),
        ("windsurf", "no rule for one server is documented"),
        ("claude-desktop", "no rule for one server is documented"),
        ("cursor", "mcpAllowlist"),
        ("zed", "for one tool each"),
    ] {
        let world = World::company([]);
        let plain = world.run(&["connect", client, "--dry-run"]).ended(0);
        let ran = world.run(&["connect", client, "--allow", "--dry-run"]).ended(0);
        assert!(ran.stderr.contains("keeps asking before each tool") && ran.stderr.contains(why), "{}", ran.stderr);
        assert_eq!(ran.stdout, plain.stdout, "{client}");
    }
    let world = World::company([]);
    let named = world.run(&["connect", "claude-code", "--allow", "--name", "a__b", "--yes"]).ended(0);
    assert!(named.stderr.contains("cannot have the name `a__b`") && !world.has(".claude"), "{}", named.stderr);
    let unknown = world.run(&["connect", "--file", "other.json", "--allow", "--yes"]).ended(0);
    assert!(unknown.stderr.contains("which client reads this file is not known"), "{}", unknown.stderr);
}

/// On a terminal the question comes before the change; only a yes writes the rule.
#[test]
fn a_person_is_asked_whether_the_tools_may_pass() {
    for (typed, expected) in [("n\ny\n", false), ("\ny\n", false), ("y\ny\n", true)] {
        let world = World::company([]);
        let ran = world.run_on_terminal(&["connect", "claude-code"], typed).ended(0);
        assert!(
            ran.stderr.contains("without asking you each time (`mcp__servanda` in `permissions.allow`)"),
            "{}",
            ran.stderr
        );
        assert_eq!(world.has(".claude/settings.local.json"), expected, "{typed:?}: {}", ran.everything());
    }
    let world = World::company([]);
    let zed = world.run_on_terminal(&["connect", "zed"], "y\n").ended(0);
    assert!(!zed.stderr.contains("without asking you each time"), "a client without a rule is not asked about");
}

/// A record that a repository brings along cannot have other files edited.
#[test]
fn a_forged_record_of_a_rule_is_not_believed() {
    let world = World::company([]);
    // The folder is there already, so that nothing but the file itself gives the record away.
    world.write(".claude/keep", "");
    world.run(&["connect", "claude-code", "--allow", "--yes"]).ended(0);
    let record = world.read(".servanda/connections.json");
    world.write("notes.json", "{\"permissions\":{\"allow\":[\"mcp__servanda\"]}}");
    let settings = world.path(".claude/settings.local.json").display().to_string();
    world.write(
        ".servanda/connections.json",
        &record.replace(&settings, &world.path("notes.json").display().to_string()),
    );
    let ran = world.run(&["disconnect", "claude-code", "--yes"]).ended(2);
    assert!(ran.stderr.contains("it names `notes.json`, which is no file of claude-code"), "{}", ran.stderr);
    assert!(world.read("notes.json").contains("mcp__servanda") && world.has(".claude/settings.local.json"));
}
