//! Every recipe of docs/recipes.md: its blocks are pasted into a fresh folder and its calls are made, as a reader would do it.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::world::{BINARY, Ran, World, read_aside, wait_for};

const PAGE: &str = include_str!("../../../../docs/recipes.md");
/// The section that every recipe begins with.
const START: &str = "Start";

/// A part of the page: its title and its fenced blocks.
struct Section {
    title: &'static str,
    blocks: Vec<Block>,
}

/// A fenced block: the text after the fence, and the content.
struct Block {
    kind: &'static str,
    file: &'static str,
    text: String,
}

/// What a line of a console block promises.
#[derive(Debug, PartialEq, Eq)]
enum Promise<'a> {
    /// The command succeeds.
    Works,
    /// The call succeeds.
    Allowed,
    /// The call is refused at this gate.
    RefusedAt(&'a str),
}

fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut open: Option<Block> = None;
    for line in PAGE.lines() {
        if let Some(mut block) = open.take() {
            if line == "```" {
                sections.last_mut().expect("blocks stand below a title").blocks.push(block);
            } else {
                block.text += line;
                block.text += "\n";
                open = Some(block);
            }
        } else if let Some(info) = line.strip_prefix("```") {
            let (kind, file) = info.split_once(' ').unwrap_or((info, ""));
            open = Some(Block { kind, file, text: String::new() });
        } else if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title, blocks: Vec::new() });
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    sections
}

/// Pastes a block where it says: as a file, or as members of the configuration that replace existing ones.
fn paste(world: &World, block: &Block) {
    match (block.kind, block.file) {
        ("console", "") => {}
        (_, "servanda.yaml") => {
            let name = block.text.split(':').next().unwrap();
            let mut inside = false;
            let kept: String = world
                .read("servanda.yaml")
                .split_inclusive('\n')
                .filter(|line| {
                    if !line.starts_with([' ', '-', '\n']) {
                        inside = line.starts_with(&format!("{name}:"));
                    }
                    !inside
                })
                .collect();
            world.write("servanda.yaml", &format!("{kept}{}", block.text));
        }
        (_, file) => {
            assert!(!file.is_empty(), "a block says where it goes: {}", block.text);
            world.write(file, &block.text);
        }
    }
}

/// Runs a line as a shell does, with the binary under test as `servanda`.
#[expect(clippy::disallowed_methods, reason = "the page's lines are a person's, and a person has a shell")]
fn shell(world: &World, line: &str) -> Ran {
    let folder = Path::new(BINARY).parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let mut child = Command::new("sh")
        .args(["-c", line])
        .current_dir(world.path("."))
        .env_clear()
        .envs([("PATH", path), ("HOME", world.path(".").display().to_string())])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (stdout, stderr) = (read_aside(child.stdout.take().unwrap()), read_aside(child.stderr.take().unwrap()));
    let code = wait_for(&mut child);
    Ran { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

fn promised(line: &str) -> (&str, Promise<'_>) {
    let (command, promise) = line.rsplit_once('#').unwrap_or_else(|| panic!("a line promises something: {line}"));
    let promise = match promise.trim() {
        "works" => Promise::Works,
        "allowed" => Promise::Allowed,
        other => Promise::RefusedAt(other.strip_prefix("refused at ").unwrap_or_else(|| panic!("{line}"))),
    };
    (command.trim(), promise)
}

/// Runs the section's commands; returns the gates that refused, or the output of a command that broke its promise.
fn follow(world: &World, section: &Section) -> Result<Vec<String>, String> {
    section.blocks.iter().for_each(|block| paste(world, block));
    let mut refused_at = Vec::new();
    let consoles = section.blocks.iter().filter(|block| block.kind == "console");
    for line in consoles.flat_map(|block| block.text.lines()) {
        let (command, promise) = promised(line.strip_prefix("$ ").unwrap_or_else(|| panic!("{line}")));
        let ran = shell(world, command);
        let told = format!("{}: {command}\n{}", section.title, ran.everything());
        let kept = match promise {
            Promise::Works | Promise::Allowed => ran.code == Some(0),
            Promise::RefusedAt(gate) => {
                refused_at.push(gate.to_owned());
                ran.code == Some(3) && ran.stderr.contains(&format!("refused at {gate}"))
            }
        };
        if !kept {
            return Err(format!("exit code {:?}; {told}", ran.code));
        }
    }
    Ok(refused_at)
}

/// Tries a recipe. Budgets renew at the full hour and at midnight, so a recipe that fails while the hour changes is tried once more.
fn try_recipe(title: &str) {
    let hour = hour_now();
    if let Err(broken) = attempt(title) {
        assert_ne!(hour_now(), hour, "{broken}");
        attempt(title).unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "a budget's hour is the calendar's, which the test has to know")]
fn hour_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3_600
}

/// The start of the page, then one recipe, in a folder of its own, because rules add up.
fn attempt(title: &str) -> Result<(), String> {
    let sections = sections();
    let find = |wanted: &str| sections.iter().find(|section| section.title == wanted);
    let world = World::empty();
    follow(&world, find(START).unwrap())?;
    let recipe = find(title).unwrap_or_else(|| panic!("there is no recipe `{title}`"));
    let refused_at = follow(&world, recipe)?;
    // The list of calls shows the refusals that the page promises.
    for gate in refused_at {
        let listed = world.run(&["calls", "--json", "--gate", &gate, "--outcome", "refused"]).ended(0).json();
        assert!(!listed.as_array().unwrap().is_empty(), "{title}: {gate}");
    }
    fs::remove_dir_all(world.path(".servanda")).unwrap();
    Ok(())
}

macro_rules! recipes {
    ($($name:ident: $title:literal,)+) => {
        const TRIED: &[&str] = &[$($title),+];
        $(
            #[test]
            fn $name() {
                try_recipe($title);
            }
        )+
    };
}

recipes! {
    reads_are_free: "Reads are free, the rest is a list",
    writes_need_approval: "Writes need approval",
    two_people_approve: "Two people approve large payments",
    a_trusted_agent: "A trusted agent writes without approval",
    no_deletes: "No deletes",
    five_mails_a_day: "Five mails a day",
    this_agent_only_reads_github: "This agent only reads GitHub",
    three_changes_an_hour: "Three changes an hour while an agent is new",
    no_payment_above: "No payment above 100",
    nobody_outside_a_tenant: "Nobody outside a tenant",
    office_hours: "Changes in office hours only",
    shadow_first: "Shadow first",
}

#[test]
fn every_recipe_is_tried() {
    let found: Vec<&str> = sections().iter().map(|section| section.title).filter(|title| *title != START).collect();
    assert_eq!(found, TRIED);
}
