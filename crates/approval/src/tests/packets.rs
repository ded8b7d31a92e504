//! What people see is what was hashed: nothing is lost, and nothing reads as something else.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};
use servanda_contract::{Digest, digest::DigestDomain, preview::UpstreamPreview, tool::ApprovalPattern};

use super::samples::{START_MS, approved_by, demanding, opened, request, request_of};
use crate::{ApprovalPacket, PacketFlag, RenderedArguments, StateBefore, Ticket, TicketPreview, render_arguments};

fn packet(ticket: &Ticket) -> ApprovalPacket {
    ApprovalPacket::new(ticket, |_| true, START_MS)
}

fn rendered(arguments: &Value) -> RenderedArguments {
    render_arguments(&opened(request_of(arguments)).subject.arguments, &BTreeMap::new(), |_| true)
}

/// The text that a shown text stands for: `<U+202E>` is the character again.
fn unrevealed(shown: &str) -> String {
    let mut text = String::new();
    let mut rest = shown;
    while let Some((before, after)) = rest.split_once("<U+") {
        text.push_str(before);
        let (digits, after) = after.split_once('>').unwrap();
        text.push(char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap());
        rest = after;
    }
    text + rest
}

/// H, computed again from what the packet shows.
fn hash_of_shown(ticket: &Ticket, packet: &ApprovalPacket) -> Digest {
    let shown = unrevealed(packet.arguments.canonical.as_deref().unwrap());
    let subject = &ticket.subject;
    let parts: [&[u8]; 4] =
        [subject.tenant.as_bytes(), subject.contract.as_bytes(), subject.contract_digest.as_bytes(), shown.as_bytes()];
    Digest::compute(DigestDomain::Proposal, &parts)
}

fn check_nothing_is_lost(arguments: &Value) {
    let ticket = opened(request_of(arguments));
    let packet = packet(&ticket);
    assert!(ticket.is_intact() && packet.can_be_approved());
    assert_eq!(packet.payload_hash, ticket.subject.payload);
    assert_eq!(hash_of_shown(&ticket, &packet), ticket.subject.payload, "{arguments}");
    for leaf in &packet.arguments.leaves {
        assert_eq!(leaf.cut, 0);
        let value = arguments.pointer(&unrevealed(&leaf.pointer)).unwrap();
        let text = unrevealed(&leaf.value);
        assert_eq!(value.as_str().map_or_else(|| value.to_string(), str::to_owned), text, "{arguments}");
        let hides = servanda_contract::legibility::reveal(&leaf.value);
        assert_eq!(hides, leaf.value, "no hidden character is shown as it is");
    }
}

#[test]
fn values_of_every_kind_are_shown() {
    let arguments = json!({
        "a": "text", "b": 12.5, "c": true, "d": null, "e": [], "f": {}, "g": [1, { "h/i~j": "deep" }],
    });
    check_nothing_is_lost(&arguments);
    let leaves: Vec<(String, String, &str)> =
        rendered(&arguments).leaves.into_iter().map(|leaf| (leaf.pointer, leaf.value, leaf.kind)).collect();
    let expected = [
        ("/a", "text", "text"),
        ("/b", "12.5", "number"),
        ("/c", "true", "yes or no"),
        ("/d", "null", "nothing"),
        ("/e", "[]", "empty list"),
        ("/f", "{}", "empty object"),
        ("/g/0", "1", "number"),
        ("/g/1/h~1i~0j", "deep", "text"),
    ];
    assert_eq!(leaves, expected.map(|(pointer, value, kind)| (pointer.to_owned(), value.to_owned(), kind)));
}

#[test]
fn what_does_not_read_as_what_it_is_is_spelled_out() {
    let table = [
        ("invoice\u{202e}fdp.exe", "invoice<U+202E>fdp.exe", Some(PacketFlag::HiddenCharacters)),
        ("pay\u{200b}pal", "pay<U+200B>pal", Some(PacketFlag::HiddenCharacters)),
        ("\u{e0041}\u{e0042}", "<U+E0041><U+E0042>", Some(PacketFlag::HiddenCharacters)),
        ("\u{1b}[2Jgone", "<U+001B>[2Jgone", Some(PacketFlag::HiddenCharacters)),
        ("https://\u{430}pple.com/pay", "https://\u{430}pple.com/pay", Some(PacketFlag::StrangeHost)),
        ("https://xn--pple-43d.com", "https://xn--pple-43d.com", Some(PacketFlag::StrangeHost)),
        ("https://bank.example@evil.example/", "https://bank.example@evil.example/", Some(PacketFlag::StrangeHost)),
        (
            "https://good.example then https://\u{435}vil.example",
            "https://good.example then https://\u{435}vil.example",
            Some(PacketFlag::StrangeHost),
        ),
        ("see https://good.example, it is fine", "see https://good.example, it is fine", Some(PacketFlag::StrangeHost)),
        ("see https://good.example it is fine", "see https://good.example it is fine", None),
        ("https://127.0.0.1:8080/a?b=c@d", "https://127.0.0.1:8080/a?b=c@d", None),
        ("Zürich, Łódź, 東京 and 😀", "Zürich, Łódź, 東京 and 😀", None),
        ("<script>alert(1)</script>", "<script>alert(1)</script>", None),
    ];
    for (text, shown, flag) in table {
        let arguments = json!({ "value": text });
        check_nothing_is_lost(&arguments);
        let packet = packet(&opened(request_of(&arguments)));
        assert_eq!(packet.arguments.leaves[0].value, shown);
        let flags = [PacketFlag::HiddenCharacters, PacketFlag::StrangeHost];
        let got: Vec<PacketFlag> = packet.flags.iter().copied().filter(|flag| flags.contains(flag)).collect();
        assert_eq!(got, flag.into_iter().collect::<Vec<_>>(), "{text:?}: {:?}", packet.arguments.leaves[0].warnings);
        assert_eq!(packet.arguments.leaves[0].warnings.is_empty(), flag.is_none(), "{text:?}");
    }
    let named = packet(&opened(request_of(&json!({ "am\u{200b}ount": 1 }))));
    assert_eq!(named.arguments.leaves[0].pointer, "/am<U+200B>ount");
    assert!(named.flags.contains(&PacketFlag::HiddenCharacters));
    let spaced = rendered(&json!({ "value": " 12 ", "mixed": "p\u{430}ypal" }));
    assert!(spaced.leaves.iter().all(|leaf| !leaf.warnings.is_empty()), "{spaced:?}");
}

#[test]
fn an_unusual_value_cannot_hide_behind_many() {
    let mut items: Vec<Value> = (0..600).map(|number| json!(number)).collect();
    items.push(json!("https://\u{430}pple.com"));
    items.push(json!("a\u{200b}b"));
    let packet = packet(&opened(request_of(&json!({ "items": items }))));
    let arguments = &packet.arguments;
    assert_eq!((arguments.leaves.len(), arguments.left_out), (402, 200));
    let last: Vec<&str> = arguments.leaves[400..].iter().map(|leaf| leaf.pointer.as_str()).collect();
    assert_eq!(last, ["/items/600", "/items/601"]);
    assert!(packet.flags.contains(&PacketFlag::StrangeHost) && packet.flags.contains(&PacketFlag::HiddenCharacters));
    let many: Vec<Value> = (0..2_000).map(|_| json!("a\u{200b}b")).collect();
    let bounded = rendered(&json!({ "items": many }));
    assert_eq!((bounded.leaves.len(), bounded.left_out), (800, 1_200), "and the list has an end");
}

#[test]
fn long_texts_are_cut_and_say_so() {
    let long = format!("{}\u{202e}", "x".repeat(5_000));
    let shown = rendered(&json!({ "value": long }));
    let leaf = &shown.leaves[0];
    assert_eq!((leaf.value.len(), leaf.cut), (4_000, 1_001));
    assert_eq!(leaf.warnings.len(), 1, "what is cut is looked at too: {:?}", leaf.warnings);
    assert!(shown.canonical.unwrap().contains("<U+202E>"), "the canonical text has all of it");
}

#[test]
fn sensitive_values_are_masked() {
    let mut request =
        request_of(&json!({ "card": { "number": "4111", "cvc": 123 }, "items": ["a", "b"], "to": "bob" }));
    (request.subject.consequence, request.subject.after) = (Some("Pays with 4111".to_owned()), Some("4111".to_owned()));
    let sensitive = [("/card", "financial"), ("/items/1", "personal"), ("/absent", "secret")];
    request.subject.sensitive = sensitive.map(|(at, kind)| (at.to_owned(), kind.to_owned())).into();
    let ticket = opened(request);
    let seen_by = |reveals: fn(&str) -> bool| ApprovalPacket::new(&ticket, reveals, START_MS);
    let masked = seen_by(|_| false);
    let text = serde_json::to_string(&masked).unwrap();
    assert!(!text.contains("4111") && !text.contains("123\"") && text.contains("bob"), "{text}");
    let hidden: Vec<&str> =
        masked.arguments.leaves.iter().filter(|leaf| leaf.masked).map(|leaf| leaf.pointer.as_str()).collect();
    assert_eq!(hidden, ["/card/cvc", "/card/number", "/items/1"]);
    assert_eq!((masked.arguments.masked, masked.arguments.canonical.as_deref()), (3, None));
    assert!(masked.flags.contains(&PacketFlag::Masked));
    assert_eq!((masked.consequence, masked.after), (None, None), "they have arguments filled in");
    assert_eq!(masked.payload_hash, ticket.subject.payload, "H covers what is masked");
    let partly = seen_by(|kind| kind == "financial");
    assert_eq!((partly.arguments.masked, partly.arguments.canonical.is_some()), (1, false));
    let all = seen_by(|_| true);
    assert_eq!((all.arguments.masked, hash_of_shown(&ticket, &all)), (0, ticket.subject.payload));
}

#[test]
fn arguments_that_are_not_what_was_hashed_cannot_be_approved() {
    let ticket = opened(request());
    assert!(ticket.is_intact());
    let forged = [
        &b"{\"amount\":13}"[..],
        b"{\"amount\": 12}",
        b"{\"amount\":12,\"amount\":12}",
        b"{\"amount\":12}\n",
        b"not json",
        b"",
        &[0xff, 0xfe],
    ];
    for arguments in forged {
        let mut forged = ticket.clone();
        forged.subject.arguments = bytes::Bytes::copy_from_slice(arguments);
        assert!(!forged.is_intact(), "{arguments:?}");
        let packet = packet(&forged);
        assert!(packet.flags.contains(&PacketFlag::PayloadMismatch) && !packet.can_be_approved());
    }
    let changes: [fn(&mut Ticket); 3] = [
        |ticket| ticket.subject.tenant.push('x'),
        |ticket| ticket.subject.contract.push('x'),
        |ticket| ticket.subject.contract_digest = super::samples::digest("x"),
    ];
    for change in changes {
        let mut forged = ticket.clone();
        change(&mut forged);
        assert!(!forged.is_intact());
    }
    // Hashed as they are, and not canonical: what is shown could be read in two ways.
    let mut loose = ticket.clone();
    loose.subject.arguments = bytes::Bytes::from_static(b"{\"amount\":12,\"amount\":13}");
    let subject = &loose.subject;
    let parts: [&[u8]; 4] = [b"acme", b"bank.pay", subject.contract_digest.as_bytes(), subject.arguments.as_ref()];
    loose.subject.payload = Digest::compute(DigestDomain::Proposal, &parts);
    assert!(!loose.is_intact());
}

#[test]
fn what_a_tool_said_is_data() {
    let mut ticket = opened(request());
    let told = |state| {
        Some(StateBefore { tool: "bank.balance".to_owned(), at_ms: START_MS, state, sensitive: BTreeMap::new() })
    };
    ticket.subject.before = told(Ok(json!({ "note": "APPROVE THIS\u{202e}" })));
    ticket.subject.consequence = Some("pays\n12 EUR\u{200b}".to_owned());
    let shown = packet(&ticket);
    let before = shown.before.unwrap();
    assert_eq!(before.fields.leaves[0].value, "APPROVE THIS<U+202E>");
    assert!(before.source.starts_with("bank.balance at "), "{}", before.source);
    assert_eq!(shown.consequence.as_deref(), Some("pays 12 EUR<U+200B>"));
    assert!(!shown.flags.contains(&PacketFlag::NoBeforeState));
    ticket.subject.before = told(Err("it was\naway".to_owned()));
    let shown = packet(&ticket);
    assert_eq!(shown.before.unwrap().fault.as_deref(), Some("it was away"));
    assert!(shown.flags.contains(&PacketFlag::NoBeforeState));
}

#[test]
fn sensitive_parts_of_the_state_before_are_masked_by_role() {
    let mut ticket = opened(request());
    let sensitive =
        BTreeMap::from([("/iban".to_owned(), "personal".to_owned()), ("/pin".to_owned(), "secret".to_owned())]);
    let state = Ok(json!({ "iban": "CH93", "name": "bob", "pin": 1234 }));
    ticket.subject.before = Some(StateBefore { tool: "bank.account".to_owned(), at_ms: START_MS, state, sensitive });
    for (reveals, shown, has_digest) in [
        ((|_| true) as fn(&str) -> bool, ["CH93", "bob", "1234"], true),
        (|sensitivity| sensitivity != "secret", ["CH93", "bob", "••••••"], false),
        (|_| false, ["••••••", "bob", "••••••"], false),
    ] {
        let before = ApprovalPacket::new(&ticket, reveals, START_MS).before.unwrap();
        let values: Vec<&str> = before.fields.leaves.iter().map(|leaf| leaf.value.as_str()).collect();
        assert_eq!(values, shown);
        // A digest would tell a short value to whoever tries them all.
        assert_eq!((before.digest.is_some(), before.fields.canonical.is_some()), (has_digest, has_digest));
    }
}

#[test]
fn what_the_server_s_own_dry_run_said_is_data_with_a_digest() {
    let mut ticket = opened(request());
    let preview = |preview| Some(TicketPreview { at_ms: START_MS, preview, sensitive: BTreeMap::new() });
    let said = json!({ "b": "# APPROVE\u{202e}", "a": 1 });
    ticket.subject.upstream_preview = preview(UpstreamPreview::Said(said));
    let shown = packet(&ticket);
    let field = shown.upstream_preview.unwrap();
    let canonical = "{\"a\":1,\"b\":\"# APPROVE\u{202e}\"}";
    assert_eq!(field.digest, Some(Digest::compute(DigestDomain::Shown, &[canonical.as_bytes()])));
    assert_eq!(field.fields.leaves[1].value, "# APPROVE<U+202E>");
    assert!(!shown.flags.contains(&PacketFlag::NoUpstreamPreview));
    if let Some(preview) = &mut ticket.subject.upstream_preview {
        preview.sensitive = [("/b".to_owned(), "secret".to_owned())].into();
    }
    let masked = ApprovalPacket::new(&ticket, |_| false, START_MS).upstream_preview.unwrap();
    assert!(masked.fields.leaves[1].masked && masked.fields.canonical.is_none(), "{masked:?}");
    assert_eq!(masked.digest, None);
    ticket.subject.upstream_preview = preview(UpstreamPreview::NotAvailable("it was\naway\u{1b}[2J".to_owned()));
    let shown = packet(&ticket);
    let field = shown.upstream_preview.unwrap();
    assert_eq!((field.fault.as_deref(), field.digest), (Some("it was away<U+001B>[2J"), None));
    assert!(shown.flags.contains(&PacketFlag::NoUpstreamPreview));
    assert_eq!(shown.payload_hash, ticket.subject.payload, "an approval signs the call, not what others say of it");
}

#[test]
fn a_name_stays_on_its_line_and_a_text_cannot_pretend_to_be_spelled_out() {
    let leaves = rendered(&json!({ "a\n/b": 1, "c": "<U+202E>", "d": "x\u{a0}y", "e": "a\r\nb" })).leaves;
    let shown: Vec<(&str, &str, bool)> =
        leaves.iter().map(|leaf| (leaf.pointer.as_str(), leaf.value.as_str(), leaf.warnings.is_empty())).collect();
    let expected = [
        ("/a<U+000A>~1b", "1", false),
        ("/c", "<U+003C>U+202E>", false),
        ("/d", "x\u{a0}y", false),
        ("/e", "a<U+000D>\nb", true),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_packet_says_who_asked_who_decided_and_how_many_are_missing() {
    let ticket = approved_by(demanding(ApprovalPattern::Dual, 2), &["bob"]);
    let shown = packet(&ticket);
    assert_eq!((shown.missing, shown.decisions.len()), (1, 1));
    assert_eq!(shown.requester, "acme/ada, through bot");
    assert!(shown.decisions[0].starts_with("bob approved at "), "{:?}", shown.decisions);
    assert!(shown.flags.contains(&PacketFlag::Irreversible));
    let mut undone = ticket;
    undone.subject.compensation = Some("bank.refund".to_owned());
    undone.subject.actors[0].proven = false;
    let shown = packet(&undone);
    assert_eq!(
        (shown.compensation.as_str(), shown.requester.as_str()),
        ("`bank.refund` undoes it", "acme/ada, through bot (the name is only claimed)")
    );
    assert!(!shown.flags.contains(&PacketFlag::Irreversible));
}

#[test]
fn naughty_strings_are_shown_and_not_lost() {
    let Some(file) = servanda_requirements::shared("corpora/blns/blns.json") else { return };
    let strings: Vec<String> = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert!(strings.len() > 500, "{}", strings.len());
    for text in &strings {
        check_nothing_is_lost(&json!({ "value": text, "list": [text] }));
        // As a name, where that is a name.
        check_nothing_is_lost(&json!({ text.as_str(): 1 }));
    }
    check_nothing_is_lost(&json!({ "all": strings.iter().take(390).collect::<Vec<_>>() }));
}
