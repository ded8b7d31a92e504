//! No secret comes back in any known form, and nothing else is changed.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use proptest::prelude::*;

use super::*;

fn scrubber(secrets: &[&str]) -> Scrubber {
    let secrets: Vec<Secret> = secrets.iter().map(|secret| Secret::from((*secret).to_owned())).collect();
    Scrubber::new(&secrets).unwrap()
}

#[test]
fn t25_secrets_go_in_every_form() {
    let secret = "tök/en \"1\"&x";
    let clean = scrubber(&[secret]);
    let json = serde_json::to_string(secret).unwrap();
    let json = json.trim_matches('"').to_owned();
    let table = [
        secret.to_owned(),
        json.clone(),
        json.replace('/', "\\/"),
        "t\\u00f6k/en \\\"1\\\"\\u0026x".to_owned(),
        "t\\u00F6k/en \\\"1\\\"\\u0026x".to_owned(),
        json.replace('\\', "\\\\").replace('"', "\\\""),
        "t%C3%B6k%2Fen%20%221%22%26x".to_owned(),
        "t%c3%b6k%2fen+%221%22%26x".to_owned(),
        "t%C3%B6k/en+%221%22&x".to_owned(),
        "\\u0074\\u00F6\\u006b\\/en \\u0022\\u0031\\u0022&x".to_owned(),
        "%74%C3%b6k%2Fen%20%221%22%26%78".to_owned(),
        "t%C3%B6k\\u002fen+%221%22&x".to_owned(),
        servanda_contract::digest::hex(secret.as_bytes()),
        servanda_contract::digest::hex(secret.as_bytes()).to_uppercase(),
    ];
    for form in table {
        let text = format!("before {form} after");
        assert_eq!(clean.scrub_text(&text), "before [redacted] after", "{form}");
    }
}

/// The forms in which attackers echoed secrets.
#[test]
fn t25_secrets_go_in_the_forms_of_attackers() {
    let secret = "Tok-3n/S3cret=Value";
    let clean = scrubber(&[secret]);
    let hex = servanda_contract::digest::hex(secret.as_bytes());
    let pairs: Vec<String> = hex.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).into_owned()).collect();
    let once = STANDARD.encode(format!("a:{secret}:b"));
    let wrapped = |text: &str, end: &str| {
        text.as_bytes().chunks(8).map(|line| String::from_utf8_lossy(line).into_owned()).collect::<Vec<_>>().join(end)
    };
    let each = |form: &dyn Fn(u8) -> String| secret.bytes().map(form).collect::<Vec<_>>().concat();
    let entities = each(&|byte| format!("&#{byte};"));
    let hex_entities = each(&|byte| format!("&#x{byte:02X};"));
    let percent = each(&|byte| format!("%25{byte:02x}"));
    let table = [
        secret.to_uppercase(),
        secret.to_lowercase(),
        entities,
        hex_entities,
        secret.replace('/', "&sol;").replace('=', "&equals;"),
        percent,
        "Tok-3n%252FS3cret%253DValue".to_owned(),
        pairs.join(":"),
        pairs.join(" "),
        pairs.join("-"),
        pairs.iter().map(|pair| format!("0x{pair}")).collect::<Vec<_>>().join(", "),
        pairs.iter().map(|pair| format!("\\x{pair}")).collect::<Vec<_>>().concat(),
        wrapped(&hex, "\n"),
        wrapped(&once, "\n"),
        wrapped(&once, "\r\n"),
        wrapped(&once, "\\n"),
        wrapped(&once, "\n    "),
        wrapped(&once, "\\n\t"),
        wrapped(&once, "\r\n  "),
        wrapped(&once, " "),
        wrapped(&hex, " "),
        hex.as_bytes().chunks(4).map(|pair| String::from_utf8_lossy(pair).into_owned()).collect::<Vec<_>>().join(" "),
        hex.as_bytes().chunks(4).map(|pair| String::from_utf8_lossy(pair).into_owned()).collect::<Vec<_>>().join(":"),
        hex.as_bytes().chunks(4).map(|pair| String::from_utf8_lossy(pair).into_owned()).collect::<Vec<_>>().join("\\n"),
        pairs.iter().map(|pair| format!("\\\\x{pair}")).collect::<Vec<_>>().concat(),
        each(&|byte| format!("&amp;#{byte};")),
        secret.replace('/', "&amp;sol;").replace('=', "&amp;#61;"),
        each(&|byte| format!("%26%23{byte}%3B")),
        secret.replace('/', "%26sol%3B").replace('=', "%26%2361%3b"),
        each(&|byte| format!("&#{byte}")),
        each(&|byte| format!("&#x{byte:x}")),
        each(&|byte| format!("&#{byte} ")),
        STANDARD.encode(&once),
        STANDARD.encode(format!("Basic {once}")),
        URL_SAFE_NO_PAD.encode(URL_SAFE_NO_PAD.encode(secret)),
    ];
    for form in table {
        let text = format!("before {form} after");
        let scrubbed = clean.scrub_text(&text);
        assert!(scrubbed.contains(REDACTED), "{form}");
        let left = scrubbed.replace(REDACTED, "").len() - "before  after".len();
        // The rest of the form surrounds the secret, or is a few bits of the secret's ends.
        assert!(left * 2 <= form.len(), "{form}: {scrubbed}");
    }
    for harmless in
        ["tok 3n s3cret value", "aa:bb:cc:dd:ee:ff", "&amp;&lt; &#65; %2541", "a\nb\nc", "T o k-3n/S3c ret=Value"]
    {
        assert_eq!(clean.scrub_text(harmless), harmless);
    }
}

#[test]
fn t25_basic_credentials_are_found_inside_their_base64() {
    let clean = scrubber(&["s3cret-passw0rd"]);
    for user in ["", "a:", "al:", "ali:", "alice:"] {
        let header = STANDARD.encode(format!("{user}s3cret-passw0rd"));
        let text = clean.scrub_text(&header).into_owned();
        assert!(text.contains(REDACTED), "{user}");
        let rest = text.replace(REDACTED, "");
        assert!(rest.len() <= user.len() * 4 / 3 + 5, "{user}: {rest} is left");
    }
}

#[test]
fn t25_secrets_are_found_across_windows_and_characters_beyond_the_plane() {
    let secret = "\u{1f511}key\"42";
    let clean = scrubber(&[secret]);
    let escaped = "\\ud83d\\uDD11key\\\"42";
    for form in [secret, escaped] {
        for before in [WINDOW_BYTES - 20, WINDOW_BYTES - 7, WINDOW_BYTES, 2 * WINDOW_BYTES - 9] {
            // Backslashes before it: a window that begins among them must not lose count.
            let text = format!("{}{form}{}", "\\\\".repeat(before / 2), "y".repeat(10));
            let scrubbed = clean.scrub_text(&text);
            assert!(scrubbed.ends_with("[redacted]yyyyyyyyyy"), "{form} at {before}");
            assert_eq!(scrubbed.len(), before / 2 * 2 + 20, "nothing else is touched");
        }
    }
    for odd in ["", "x", "xy", "xyz"] {
        let text = format!("{odd}{}{escaped}", "\\\\".repeat(WINDOW_BYTES / 2 + 50_000));
        assert!(clean.scrub_text(&text).ends_with("[redacted]"), "{odd}");
    }
    assert_eq!(
        clean.scrub_text("\\ud83d\\u0041 \\ud83d \\u12 \\x %4 %zz %"),
        "\\ud83d\\u0041 \\ud83d \\u12 \\x %4 %zz %"
    );
}

#[test]
fn what_overlaps_goes_as_a_whole() {
    let clean = scrubber(&["abcdef", "defghi", "fghijklm", "abcdefabcdef"]);
    let table = [
        ("x abcdefghijklm y", "x [redacted] y"),
        ("abcdefabcdef", "[redacted]"),
        ("abcdefdefghi.", "[redacted]."),
        ("abcde fghij", "abcde fghij"),
        ("", ""),
    ];
    for (text, expected) in table {
        assert_eq!(clean.scrub_text(text), expected);
    }
    assert!(matches!(clean.scrub(b"nothing here"), Cow::Borrowed(_)), "untouched text is not copied");
    assert_eq!(scrubber(&[]).scrub_text("abcdef"), "abcdef");
}

#[test]
fn secrets_that_cannot_be_kept_out_are_refused_when_they_are_configured() {
    let of = |secrets: Vec<Vec<u8>>| {
        let secrets: Vec<Secret> = secrets.into_iter().map(Secret::new).collect();
        Scrubber::new(&secrets).unwrap_err()
    };
    assert_eq!(of(vec![b"long enough".to_vec(), b"short".to_vec()]), ScrubberError::TooShort { index: 1 });
    assert_eq!(of(vec![Vec::new()]), ScrubberError::TooShort { index: 0 });
    assert_eq!(of(vec![vec![7; SECRET_BYTES_MAX + 1]]), ScrubberError::TooLong { index: 0 });
    assert_eq!(of(vec![vec![7; 8]; SECRETS_MAX + 1]), ScrubberError::TooMany);
    assert_eq!(of(vec![vec![7; SECRET_BYTES_MAX]; 17]), ScrubberError::TooMuch);
    assert!(Scrubber::new(&[Secret::new([0xff; 6])]).is_ok(), "a secret need not be text");
}

/// Written independently of the implementation, with other libraries if there are some.
fn forms_of_an_echo(secret: &str, before: &str, after: &str) -> Vec<String> {
    let around = format!("{before}{secret}{after}");
    let plain_json = serde_json::to_string(&around).unwrap();
    vec![
        around.clone(),
        serde_json::to_string(&plain_json).unwrap(),
        plain_json,
        form_urlencoded::byte_serialize(around.as_bytes()).collect(),
        STANDARD.encode(&around),
        URL_SAFE_NO_PAD.encode(&around),
    ]
}

/// Whether the secret can be read from the text, in the text's own form.
fn can_be_read(form: usize, text: &str, secret: &str) -> bool {
    let unquoted = |text: &str| serde_json::from_str::<String>(text).unwrap_or_default();
    match form {
        0 => text.contains(secret),
        1 => unquoted(&unquoted(text)).contains(secret),
        2 => unquoted(text).contains(secret),
        3 => {
            form_urlencoded::parse(text.as_bytes()).any(|(name, value)| name.contains(secret) || value.contains(secret))
        }
        _ => {
            // An attacker would try any characters in the place of the placeholder.
            let text = text.replace(REDACTED, "");
            (0..4).any(|skip| {
                let tail: String = text.chars().skip(skip).filter(|character| *character != '=').collect();
                let tail = &tail[..tail.len() / 4 * 4];
                [STANDARD.decode(tail), base64::engine::general_purpose::URL_SAFE.decode(tail)]
                    .into_iter()
                    .flatten()
                    .any(|bytes| String::from_utf8_lossy(&bytes).contains(secret))
            })
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn t25_no_secret_can_be_read_back(
        secrets in prop::collection::vec("[a-zA-Z0-9 /+&\"'\\\\<é☃\n%=:._~-]{6,24}", 1..4),
        before in "[a-z :\"/]{0,7}",
        after in "[a-z,}\"]{0,7}",
    ) {
        let clean = scrubber(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
        for secret in &secrets {
            for (form, text) in forms_of_an_echo(secret, &before, &after).into_iter().enumerate() {
                let scrubbed = clean.scrub_text(&text);
                prop_assert!(scrubbed.contains(REDACTED), "form {}: {}", form, text);
                prop_assert!(!can_be_read(form, &scrubbed, secret), "form {}: {}", form, scrubbed);
            }
        }
    }

    #[test]
    fn what_is_no_secret_stays(text in "[a-m \"{}:,]{0,200}") {
        let clean = scrubber(&["XYZXYZ-secret-1", "nopqrstuv"]);
        prop_assert!(matches!(clean.scrub_text(&text), Cow::Borrowed(_)));
    }
}

#[test]
fn t25_json_stays_json_and_keeps_the_bytes_of_everything_else() {
    let clean = scrubber(&["se\"cret/42", "1234567890", "a\":\"bcd", "nabcdef"]);
    let table = [
        (r#"{"n" : 1234567890, "x":1.0}"#, r#"{"n" : "[redacted]", "x":1.0}"#),
        (r#"{"n" : 1.0, "big": 99999999999999999999999}"#, r#"{"n" : 1.0, "big": 99999999999999999999999}"#),
        (r#"["\u0073e\"cret\/42",{"x 1234567890":null}]"#, r#"["[redacted]",{"x [redacted]":null}]"#),
        (r#"{"t":"c2UiY3JldC80Mg==","u":"\\n"}"#, r#"{"t":"[redacted]g==","u":"\\n"}"#),
        // Across the border of two tokens: both are replaced.
        (r#"{"a":"bcd","c":1}"#, r#"{"[redacted]":"[redacted]","c":1}"#),
        // Only in the raw text, not in its decoded form.
        (r#"{"a":"x\nabcdef","c":"y 1234567890"}"#, r#"{"a":"[redacted]","c":"[redacted]"}"#),
        ("not json: 1234567890", "not json: [redacted]"),
        (r#"{"n": 1234567890"#, r#"{"n": [redacted]"#),
    ];
    for (json, expected) in table {
        let found = clean.scrub_json(json.as_bytes());
        assert_eq!(String::from_utf8_lossy(&found), expected, "{json}");
    }
}

#[test]
fn t25_what_begins_with_a_stem_goes_as_a_whole_in_every_form() {
    let stem = "eyJ0eXAiOiJzZXJ2YW5kYS1jYWxsIn0.";
    let value = format!("{stem}eyJzdWIiOiJhbmEifQ.c2ln-bmF_dHVyZQ");
    let clean =
        Scrubber::with_stems(&[Secret::from("other-secret".to_owned())], &[Secret::from(stem.to_owned())]).unwrap();
    let hex = servanda_contract::digest::hex(value.as_bytes());
    for form in
        [value.clone(), format!("Bearer {value}"), hex, STANDARD.encode(&value), STANDARD.encode(format!("x:{value}"))]
    {
        let json = serde_json::json!({"said": form, "other": "other-secret", "kept": "eyJ0eXAiOiJKV1QifQ"}).to_string();
        let found = String::from_utf8(clean.scrub_json(json.as_bytes()).into_owned()).unwrap();
        let said: serde_json::Value = serde_json::from_str(&found).unwrap();
        let rest = said["said"].as_str().unwrap().replace(REDACTED, "");
        assert!(rest.len() <= "Bearer ".len(), "{rest} is left of {form}");
        assert_eq!((&said["other"], &said["kept"]), (&"[redacted]".into(), &"eyJ0eXAiOiJKV1QifQ".into()));
    }
}

proptest! {
    #[test]
    fn t25_scrubbed_json_is_json_without_the_secret(
        secret in "[ -~]{6,12}",
        before in "[ -~]{0,8}",
        after in "[ -~]{0,8}",
        twice in any::<bool>(),
    ) {
        let clean = scrubber(&[&secret]);
        let inner = serde_json::json!({"k": format!("{before}{secret}{after}"), format!("{secret}{after}"): [1, before]}).to_string();
        let json = if twice { serde_json::Value::from(inner).to_string() } else { inner };
        let found = clean.scrub_json(json.as_bytes()).into_owned();
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&found).is_ok());
        prop_assert!(clean.spans(&found).is_empty());
    }
}

#[test]
fn a_few_long_tokens_take_little_memory() {
    let token = |number: u8| Secret::new([&[number; 6], "e30".repeat(700).as_bytes()].concat());
    let tokens: Vec<Secret> = (b'0'..b'5').map(token).collect();
    let bytes: usize = tokens.iter().map(|token| token.expose().len()).sum();
    let memory_bytes = Scrubber::new(&tokens).unwrap().memory_bytes();
    assert!(memory_bytes < 200 * bytes, "{memory_bytes} for {bytes}");
}
