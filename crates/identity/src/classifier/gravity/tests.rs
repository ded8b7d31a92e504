use serde_json::json;

use super::Gravity;
use crate::classifier::{ClassifierOptions, Descriptor, classify};

/// A name, a description, arguments, and how grave it is.
type Case = (&'static str, &'static str, &'static [&'static str], Gravity);

#[test]
fn what_is_done_and_to_what_decide() {
    use Gravity::{Critical, Minor, Ordinary, Outside, Temporary};
    let cases: [Case; 34] = [
        ("power-off-droplet", "Power off a droplet.", &["id"], Outside),
        ("power-cycle-droplet", "Power cycle a droplet by its id.", &["id"], Outside),
        ("reboot_server", "Reboot a server.", &["id"], Outside),
        ("merge_pull_request", "Merge a pull request.", &["number"], Outside),
        ("push_files", "Push files in one commit.", &["files", "branch"], Outside),
        ("deploy_site", "Deploy the site.", &["id"], Critical),
        ("grant_role", "Grant a role to a user.", &["user", "role"], Critical),
        ("add_user_to_group", "Add a user to a group.", &["user", "group"], Critical),
        ("add_member_to_card", "Add a member to a card.", &["card"], Ordinary),
        ("create_api_key", "Create an API key.", &["name"], Critical),
        ("press_key", "Press a key on the page.", &["key"], Ordinary),
        ("set_root_password", "Set the root password.", &["password"], Critical),
        ("disable_firewall", "Disable the firewall of a host.", &["host"], Critical),
        ("place_order", "Place an order in the market.", &["symbol", "quantity"], Critical),
        ("create_refund", "Refund a payment.", &["payment"], Critical),
        ("delete_database", "Delete a database.", &["id"], Critical),
        ("delete_comment", "Delete a comment.", &["id"], Outside),
        ("unstar_repository", "Unstar a repository.", &["repo"], Minor),
        ("restore_database", "Restore the database from a backup.", &["backup"], Critical),
        ("run_command", "Run a command.", &["command"], Critical),
        ("api_request", "Send any request.", &["method", "path"], Critical),
        ("run_workflow", "Run a workflow.", &["id"], Outside),
        ("send_email", "Send an email.", &["to"], Outside),
        ("draft_email", "Draft an email.", &["to"], Minor),
        ("create_webhook", "Create a webhook.", &["url"], Outside),
        ("create_issue", "Create an issue.", &["title"], Ordinary),
        ("update_page", "Update a page of the wiki.", &["id"], Ordinary),
        ("add_label", "Add a label.", &["name"], Minor),
        ("mark_as_read", "Mark a notification as read.", &["id"], Minor),
        ("browser_hover", "Hover over an element of the page.", &["element"], Temporary),
        ("browser_resize", "Resize the browser window.", &["width"], Temporary),
        ("set_active_board", "Set the active board for future operations.", &["id"], Temporary),
        ("connect_database", "Connect to a database.", &["url"], Temporary),
        ("rollback_release", "Roll back to an earlier version.", &["id"], Critical),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(name, description, arguments, expected)| {
            let properties: serde_json::Map<_, _> =
                arguments.iter().map(|argument| ((*argument).to_owned(), json!({ "type": "string" }))).collect();
            let descriptor: Descriptor = serde_json::from_value(json!({
                "name": name, "description": description,
                "inputSchema": { "type": "object", "properties": properties, "required": arguments },
            }))
            .unwrap();
            let found = classify(&descriptor, ClassifierOptions::default()).gravity;
            (found.0 != *expected).then(|| format!("{name}: {found:?}, not {expected:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Switches are named by two words; each word alone says nothing, and the tools used to be classified as reads.
#[test]
fn power_switches_are_changes() {
    for (name, description) in [
        ("power-off-droplet", "Power off a droplet"),
        ("power-cycle-droplet", "Power cycle a droplet"),
        ("power-on-droplet", "Power on a droplet"),
        ("turn_off_light", "Turn off a light"),
    ] {
        let descriptor: Descriptor =
            serde_json::from_value(json!({ "name": name, "description": description })).unwrap();
        assert_eq!(
            classify(&descriptor, ClassifierOptions::default()).behaviour.mutability.word(),
            "MUTATES",
            "{name}"
        );
    }
}
