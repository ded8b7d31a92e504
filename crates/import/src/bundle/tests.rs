//! Bundles as their authors make them, and hostile bundles that try to leave their folder or to fill the disk.

use std::{
    fs,
    io::{Cursor, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use serde_json::{Value, json};
use zip::{ZipWriter, write::SimpleFileOptions};

use super::{
    Manifest, ManifestSettings,
    unpack::{UnpackLimits, inside, within},
};
use crate::{ImportSource, read, tests::lines};

type Writer = ZipWriter<Cursor<Vec<u8>>>;

/// A zip with these files.
fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        writer.start_file(*name, SimpleFileOptions::default().unix_permissions(0o644)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn manifest() -> Value {
    json!({
        "manifest_version": "0.3", "name": "hello", "version": "1.2.0", "description": "x", "author": { "name": "A" },
        "server": { "type": "node", "entry_point": "server/index.js",
            "mcp_config": { "command": "node", "args": ["${__dirname}/server/index.js"], "env": {} } },
    })
}

fn bundle(manifest: &Value) -> Vec<u8> {
    zip_of(&[("manifest.json", manifest.to_string().as_bytes()), ("server/index.js", b"// server\n")])
}

/// Imports a bundle; returns lines, or the reason for a failure.
fn import(folder: &Path, bytes: &[u8], sha256: Option<&str>, anew: bool) -> Result<Vec<String>, String> {
    let file = folder.join("given.mcpb");
    fs::write(&file, bytes).unwrap();
    let source = ImportSource { file: &file, folder, listen: "127.0.0.1:7332", sha256, anew };
    let imported = read(&source).map_err(|failure| failure.to_string());
    imported.map(|mut imported| {
        imported.unpacked.take().into_iter().for_each(crate::UnpackedBundle::keep);
        lines(&mut imported, folder)
    })
}

/// A bundle that no person agreed to is removed, and the folder that was in its place is restored.
#[test]
fn a_bundle_that_is_not_kept_goes_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("given.mcpb");
    fs::write(&file, bundle(&manifest())).unwrap();
    let source =
        ImportSource { file: &file, folder: folder.path(), listen: "127.0.0.1:7332", sha256: None, anew: true };
    drop(read(&source).unwrap());
    assert!(!folder.path().join(".servanda").exists());
    import(folder.path(), &bundle(&manifest()), None, false).unwrap();
    let unpacked = folder.path().join(".servanda/bundles/hello-1.2.0");
    let mark = fs::read(unpacked.with_extension("0.sha256")).unwrap();
    fs::write(
        &file,
        zip_of(&[("manifest.json", manifest().to_string().as_bytes()), ("server/index.js", b"// other\n")]),
    )
    .unwrap();
    drop(read(&source).unwrap());
    assert_eq!(fs::read(unpacked.join("server/index.js")).unwrap(), b"// server\n");
    assert_eq!(fs::read(unpacked.with_extension("0.sha256")).unwrap(), mark);
    assert_eq!(fs::read_dir(folder.path().join(".servanda/bundles")).unwrap().count(), 2);
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    servanda_contract::digest::hex(&sha2::Sha256::digest(bytes))
}

#[test]
fn a_bundle_is_unpacked_and_started_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = bundle(&manifest());
    let found = import(folder.path(), &bytes, None, false).unwrap();
    let dir = "~~/.servanda/bundles/hello-1.2.0";
    assert_eq!(found[0], format!("hello: node {dir}/server/index.js | in .servanda/bundles/hello-1.2.0"));
    assert_eq!(found[1], format!("note: the bundle was unpacked in {dir}"));
    assert_eq!(found[2], format!("note: its SHA-256 is {}; compare it with what its author published", sha256(&bytes)));
    let unpacked = folder.path().join(".servanda/bundles/hello-1.2.0");
    assert_eq!(fs::read(unpacked.join("server/index.js")).unwrap(), b"// server\n");

    // The same bundle again changes nothing, and files that the server wrote stay.
    fs::write(unpacked.join("state"), "x").unwrap();
    let again = import(folder.path(), &bytes, Some(&sha256(&bytes).to_uppercase()), false).unwrap();
    assert_eq!(again[1..], [format!("note: the bundle was unpacked before in {dir}")]);
    assert!(unpacked.join("state").exists());

    // Another bundle of the same name and version gets its own folder.
    let other = zip_of(&[("manifest.json", manifest().to_string().as_bytes()), ("server/index.js", b"// other\n")]);
    let error = import(folder.path(), &other, None, false).unwrap_err();
    assert!(error.contains("exists and belongs to another bundle"), "{error}");
    assert_eq!(fs::read(unpacked.join("server/index.js")).unwrap(), b"// server\n");
    import(folder.path(), &other, None, true).unwrap();
    assert_eq!(fs::read(unpacked.join("server/index.js")).unwrap(), b"// other\n");
    assert!(folder.path().join(".servanda/bundles/hello-1.2.0.bak/state").exists());
}

#[test]
fn a_wrong_digest_unpacks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = bundle(&manifest());
    let error = import(folder.path(), &bytes, Some(&"0".repeat(64)), false).unwrap_err();
    assert!(error.contains("is not the expected file") && error.contains(&sha256(&bytes)), "{error}");
    assert!(!folder.path().join(".servanda").exists());
}

#[test]
fn a_manifest_is_no_larger_than_it_has_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let large = format!("{}{}", manifest(), " ".repeat(1 << 20));
    let error = import(folder.path(), &zip_of(&[("manifest.json", large.as_bytes())]), None, false).unwrap_err();
    assert!(error.contains("manifest.json is larger than 1048576 bytes"), "{error}");
}

#[test]
fn a_signature_behind_the_zip_is_not_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = bundle(&manifest());
    bytes.extend(b"MCPB_SIG_V1\x04\0\0\0abcdMCPB_SIG_END");
    let found = import(folder.path(), &bytes, None, false).unwrap();
    assert!(found.contains(&"note: its signature was not checked".to_owned()), "{found:?}");
}

#[test]
fn an_unpacked_bundle_is_taken_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("b")).unwrap();
    let file = folder.path().join("b/manifest.json");
    fs::write(&file, manifest().to_string()).unwrap();
    let source =
        ImportSource { file: &file, folder: folder.path(), listen: "127.0.0.1:7332", sha256: None, anew: false };
    assert_eq!(lines(&mut read(&source).unwrap(), folder.path()), ["hello: node ~~/b/server/index.js | in ~~/b"]);
    assert!(!folder.path().join(".servanda").exists());
}

/// Turns a manifest's `server` and `user_config` into the line for the folder `/b`.
fn started(server: Value, user_config: Value) -> Result<Vec<String>, String> {
    let mut document = manifest();
    document["server"] = server;
    document["user_config"] = user_config;
    let manifest = Manifest::read(&document).map_err(|error| error.to_string())?;
    let mut settings = ManifestSettings::new(&manifest, Path::new("/b"));
    let upstream = manifest.upstream(&mut settings).map_err(|error| error.to_string())?;
    let mut imported = crate::ImportResult { notes: settings.notes, asked: settings.asked, ..Default::default() };
    imported.take("hello", upstream);
    Ok(lines(&mut imported, Path::new("/")))
}

#[test]
fn settings_are_defaults_references_or_nothing() {
    let server = json!({ "type": "node", "entry_point": "i.js", "mcp_config": {
        "command": "node",
        "args": ["${__dirname}${/}i.js", "${user_config.folders}", "${user_config.extra}", "--max=${user_config.max}", "--extra=${user_config.extra}", "${user_config.where}", "${DOWNLOADS}"],
        "env": { "API_KEY": "${user_config.key}", "FLAG": "${user_config.flag}", "OPEN": "${user_config.open}", "MIXED": "a${user_config.open}b", "P": "${HOME}/p" },
        "platform_overrides": { "win32": { "command": "node.exe" }, "linux": {}, "darwin": {} },
    } });
    let user_config = json!({
        "folders": { "type": "directory", "title": "Folders", "multiple": true, "required": true, "default": ["${HOME}/Desktop", "${DOCUMENTS}"] },
        "extra": { "type": "string", "title": "Extra" },
        "max": { "type": "number", "title": "Max", "default": 10 },
        "where": { "type": "directory", "title": "Where", "required": true, "default": [] },
        "key": { "type": "string", "title": "API key", "sensitive": true, "required": true },
        "flag": { "type": "boolean", "title": "Flag", "default": false },
        "open": { "type": "string", "title": "Open" },
    });
    let found = started(server, user_config).unwrap();
    assert_eq!(
        found,
        [
            "hello: node /b/i.js ${HOME}/Desktop ${HOME}/Documents --max=10 ${HELLO_WHERE} ${HOME}/Downloads \
         | env API_KEY=${HELLO_KEY} | env FLAG=false | env MIXED=ab | env P=${HOME}/p | pass OPEN",
            "note: `${user_config.extra}` is optional and was not given; `args` can have it",
            "note: `--extra=${user_config.extra}` is optional and was not given; `args` can have it",
            "note: passed on if set: OPEN",
            "note: set HELLO_KEY (API key) before `servanda serve`: `hello` needs it",
            "note: set HELLO_WHERE (Where) before `servanda serve`: `hello` needs it",
        ],
        "\n{}",
        found.join("\n")
    );
}

#[test]
fn kinds_of_servers_and_platforms() {
    let override_here = json!({ "command": "a", "args": ["x"], "platform_overrides": { "linux": { "command": "b" }, "darwin": { "command": "b" } } });
    let cases = [
        (json!({ "type": "uv", "entry_point": "src/server.py" }), "uv run --directory /b /b/src/server.py"),
        (json!({ "type": "node", "entry_point": "i.js" }), "node /b/i.js"),
        (json!({ "type": "python", "entry_point": "m.py" }), "python3 /b/m.py"),
        (
            json!({ "type": "binary", "entry_point": "bin/s", "mcp_config": { "command": "${__dirname}/bin/s" } }),
            "/b/bin/s",
        ),
        (json!({ "type": "node", "entry_point": "i.js", "mcp_config": override_here }), "b x"),
    ];
    for (server, expected) in cases {
        assert_eq!(started(server, json!({})).unwrap()[0], format!("hello: {expected}"));
    }
    let mut document = manifest();
    document["manifest_version"] = json!("9.9");
    assert!(Manifest::read(&document).unwrap_err().to_string().contains("9.9"));
    let mut document = manifest();
    document["compatibility"] = json!({ "platforms": ["win32"] });
    assert!(Manifest::read(&document).unwrap_err().to_string().contains("it is for win32"));
    let mut document = manifest();
    document.as_object_mut().unwrap().remove("manifest_version");
    document["dxt_version"] = json!("0.1");
    Manifest::read(&document).unwrap();
}

/// Only the format's own variables are filled in; any other would read the user's environment.
#[test]
fn a_manifest_does_not_reach_into_the_environment() {
    for config in [
        json!({ "command": "${SHELL}" }),
        json!({ "command": "node", "args": ["--token=${GITHUB_TOKEN}"] }),
        json!({ "command": "node", "args": ["${user_config.unknown}"] }),
        json!({ "command": "node", "env": { "A": "${AWS_SECRET_ACCESS_KEY:-x}" } }),
        json!({ "command": "node", "env": { "A": "${user_config.evil}" } }),
        json!({ "command": "node", "env": { "A": "${open" } }),
    ] {
        let server = json!({ "type": "node", "entry_point": "i.js", "mcp_config": config });
        let evil = json!({ "evil": { "type": "string", "title": "x", "default": "${AWS_SECRET_ACCESS_KEY}" } });
        assert!(started(server, evil).is_err(), "{config}");
    }
}

#[test]
fn names_that_lead_out_are_refused() {
    for name in ["a", "a/b", "a/", "a b/c.d", "..a", "a..", ".hidden/x"] {
        assert!(inside(name).is_ok(), "{name}");
    }
    let (deep, long) = ("a/".repeat(65), "a".repeat(256));
    for name in [
        "",
        "/",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/..",
        ".",
        "./a",
        "a//b",
        "a\\..\\b",
        "C:/x",
        "a\0b",
        "a\nb",
        &deep,
        &long,
    ] {
        assert!(inside(name).is_err(), "{name:?}");
    }
}

/// A zip with one hostile entry among good ones: nothing of it stays, and nothing is written elsewhere.
#[test]
fn hostile_bundles_leave_nothing_behind() {
    let text = manifest().to_string();
    let hostile = |add: &dyn Fn(&mut Writer)| {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer.start_file("manifest.json", SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        add(&mut writer);
        writer.finish().unwrap().into_inner()
    };
    let file = |name: &'static str| {
        hostile(&move |writer| {
            writer.start_file(name, SimpleFileOptions::default()).unwrap();
            writer.write_all(b"x").unwrap();
        })
    };
    let link = hostile(&|writer| writer.add_symlink("server", "/tmp", SimpleFileOptions::default()).unwrap());
    // First a link, then a file through the link.
    let through = hostile(&|writer| {
        writer.add_symlink("out", "..", SimpleFileOptions::default()).unwrap();
        writer.start_file("out/escaped", SimpleFileOptions::default()).unwrap();
    });
    // The same name twice is ambiguous. The writer refuses to make such a zip, so a byte is changed afterwards.
    let twice = replaced(&file("manifest.jsom"), b"manifest.jsom", b"manifest.json");
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("up", file("../escaped"), "leads out of the bundle"),
        ("absolute", file("/tmp/servanda-escaped"), "leads out of the bundle"),
        ("backslash", replaced(&file("..|escaped"), b"..|escaped", b"..\\escaped"), "character"),
        ("link", link, "link or a device"),
        ("through a link", through, "link or a device"),
        ("twice", twice, "the same name"),
        ("cut off", file("x").split_at(60).0.to_vec(), ""),
    ];
    for (what, bytes, reason) in cases {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("inner");
        fs::create_dir(&folder).unwrap();
        let target = folder.join("target");
        let error = within(&bytes, (&folder, &folder), &target, UnpackLimits::default()).expect_err(what);
        assert!(error.to_string().contains(reason), "{what}: {error}");
        assert!(!outer.path().join("escaped").exists() && !folder.join("escaped").exists(), "{what}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{what} left something behind");
    }
    assert!(!Path::new("/tmp/servanda-escaped").exists());
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let places: Vec<_> =
        bytes.windows(from.len()).enumerate().filter(|(_, window)| *window == from).map(|(at, _)| at).collect();
    assert_eq!(places.len(), 2, "once before the file, once in the directory");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

#[test]
fn a_bomb_is_stopped_by_what_comes_out_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let zeros = vec![0_u8; 1 << 20];
    let bytes = zip_of(&[("a", &zeros), ("b", &zeros), ("c", &zeros)]);
    assert!(bytes.len() < 16_384, "it is small as long as it is packed");
    let bounds = UnpackLimits { entries_max: 10, unpacked_bytes_max: 2 << 20 };
    let error = within(&bytes, (folder.path(), folder.path()), &folder.path().join("t"), bounds).unwrap_err();
    assert!(error.to_string().contains("unpacks to more than 2097152 bytes"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let exactly = UnpackLimits { entries_max: 3, unpacked_bytes_max: 3 << 20 };
    within(&bytes, (folder.path(), folder.path()), &folder.path().join("t"), exactly).unwrap();
    // The sizes that a zip claims are not trusted: here they are set to one byte.
    let lying = {
        let mut bytes = bytes.clone();
        let size = u32::try_from(zeros.len()).unwrap().to_le_bytes();
        let places: Vec<_> =
            bytes.windows(4).enumerate().filter(|(_, window)| *window == size).map(|(at, _)| at).collect();
        for at in places {
            bytes[at..at + 4].copy_from_slice(&1_u32.to_le_bytes());
        }
        bytes
    };
    let error = within(&lying, (folder.path(), folder.path()), &folder.path().join("u"), bounds).unwrap_err();
    assert!(!folder.path().join("u").exists(), "{error}");
    // No more of one file is written than there is room for, however long it is.
    let long = folder.path().join("long");
    let written = super::unpack::write(&mut std::io::repeat(0).take(1 << 20), &long, false, 10).unwrap();
    assert_eq!((written, fs::metadata(&long).unwrap().len()), (11, 11));
    let many: Vec<_> = (0..11).map(|number| format!("f{number}")).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let error = within(&zip_of(&many), (folder.path(), folder.path()), &folder.path().join("v"), bounds).unwrap_err();
    assert!(error.to_string().contains("more than 10 files"), "{error}");
}

#[test]
fn programs_stay_programs_and_gain_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mode) in [("run", 0o4755), ("text", 0o666)] {
        writer.start_file(name, SimpleFileOptions::default().unix_permissions(mode)).unwrap();
    }
    writer.add_directory("empty/", SimpleFileOptions::default()).unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    let target = folder.path().join("t");
    within(&bytes, (folder.path(), folder.path()), &target, UnpackLimits::default()).unwrap();
    let mode = |name: &str| fs::metadata(target.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("run") & 0o7111, 0o111, "it can be started, and as nobody else");
    assert_eq!(mode("text") & 0o7133, 0, "it cannot be started, nor written by others");
    assert!(target.join("empty").is_dir());
    // A program inside the bundle is made executable; one outside is left alone.
    let outside = folder.path().join("outside");
    fs::write(&outside, "").unwrap();
    super::unpack::make_executable(&target.join("text"), &target).unwrap();
    super::unpack::make_executable(&target.join("../outside"), &target).unwrap();
    assert_eq!(mode("text") & 0o111, 0o111);
    assert_eq!(fs::metadata(&outside).unwrap().permissions().mode() & 0o111, 0);
}
