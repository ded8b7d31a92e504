//! Policies: their text, their quorums, and what they trust.

use servanda_audit::{
    LogPolicy, LogProof, VerifierKey,
    note::{NoteFault, SignatureKind, SignedNote},
    policy::{LogPolicyFault, LogPolicyLineFault, UntrustedCheckpoint},
    proof::{LogProofFault, ParseLogProofError},
    tile::CHECKPOINT_PATH,
};

use super::{
    logs::{TestLog, leaf, signer},
    notes::TestWitness,
};

fn witness(number: u8) -> TestWitness {
    let kinds = [SignatureKind::Ed25519Cosignature, SignatureKind::MlDsa44Cosignature];
    TestWitness::new(&format!("witness.example/{number}"), kinds[usize::from(number % 2)], 100 + number)
}

fn keys(count: u8) -> Vec<VerifierKey> {
    (0..count).map(|number| witness(number).key()).collect()
}

/// The specification's example: two of X, one of Y, and both groups.
fn example() -> String {
    let keys = keys(6);
    let mut policy =
        format!("# the example\n\n\t log {}  https://log.example/ \n", signer(super::logs::ORIGIN, 1).verifier());
    for (name, key) in ["X1", "X2", "X3", "Y1", "Y2", "Y3"].into_iter().zip(&keys) {
        policy += &["witness ", name, " ", &key.to_string(), "\n"].concat();
    }
    policy += "group X-witnesses 2 X1 X2 X3\ngroup Y-witnesses any Y1 Y2 Y3\n";
    policy + "group X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n"
}

/// A log whose checkpoint these witnesses cosigned.
fn cosigned(witnesses: &[u8]) -> TestLog {
    let mut log = TestLog::of(300);
    let mut note = SignedNote::from_bytes(&log.files[CHECKPOINT_PATH]).unwrap();
    let text = note.text().to_owned();
    for number in witnesses {
        note.add(witness(*number).cosign(&text, 1_700_000_000));
    }
    log.files.insert(CHECKPOINT_PATH.to_owned(), note.to_string().into_bytes());
    log
}

#[test]
fn a_quorum_is_what_its_groups_say() {
    let policy: LogPolicy = example().parse().unwrap();
    assert_eq!(policy.logs().next().unwrap().1, Some("https://log.example/"));
    assert_eq!(policy.witnesses().count(), 6);
    // Every subset of the six witnesses.
    for subset in 0_u8..64 {
        let members: Vec<u8> = (0..6).filter(|number| subset & (1 << number) != 0).collect();
        let of_x = members.iter().filter(|number| **number < 3).count();
        let expected = of_x >= 2 && members.len() > of_x;
        let trusted = policy.trust(&cosigned(&members).files[CHECKPOINT_PATH]);
        match trusted {
            Ok(trusted) => assert!(expected && trusted.endorsements().len() == members.len() + 1, "{members:?}"),
            Err(fault) => {
                assert!(!expected, "{members:?}");
                assert_eq!(fault, UntrustedCheckpoint::NoQuorum { cosigned: members.len() });
            }
        }
    }
}

#[test]
fn a_witness_alone_is_not_a_log_and_a_false_cosignature_spoils_the_note() {
    let policy: LogPolicy = example().parse().unwrap();
    let log = cosigned(&[0, 1, 3]);
    let mut unsigned = SignedNote::new(log.checkpoint().to_string()).unwrap();
    for number in [0, 1, 3] {
        unsigned.add(witness(number).cosign(&log.checkpoint().to_string(), 5));
    }
    assert_eq!(policy.trust(unsigned.to_string().as_bytes()), Err(NoteFault::Unsigned.into()));
    let mut spoiled = SignedNote::from_bytes(&log.files[CHECKPOINT_PATH]).unwrap();
    spoiled.add(witness(4).cosign(&log.checkpoint().to_string().replace("300", "301"), 5));
    let refused = policy.trust(spoiled.to_string().as_bytes());
    assert!(matches!(refused, Err(UntrustedCheckpoint::Note(NoteFault::FalseSignature { .. }))), "{refused:?}");
}

#[test]
fn without_a_quorum_and_without_logs() {
    let log = cosigned(&[]);
    let none: LogPolicy = format!("log {}\nquorum none\n", log.signer.verifier()).parse().unwrap();
    assert_eq!(none, LogPolicy::of_log(log.signer.verifier().clone()));
    none.trust(&log.files[CHECKPOINT_PATH]).unwrap();
    let nobody: LogPolicy = "quorum none\n".parse().unwrap();
    let refused = nobody.trust(&log.files[CHECKPOINT_PATH]);
    assert!(matches!(refused, Err(UntrustedCheckpoint::OtherLog { .. })), "{refused:?}");
    let one: LogPolicy =
        format!("log {}\nwitness w {}\nquorum w\n", log.signer.verifier(), keys(1)[0]).parse().unwrap();
    assert_eq!(one.trust(&log.files[CHECKPOINT_PATH]), Err(UntrustedCheckpoint::NoQuorum { cosigned: 0 }));
    one.trust(&cosigned(&[0]).files[CHECKPOINT_PATH]).unwrap();
}

#[test]
fn policies_that_are_refused_say_where() {
    use LogPolicyLineFault as Fault;
    let keys = keys(3);
    let (a, b) = (format!("witness a {}\n", keys[0]), format!("witness b {}\n", keys[1]));
    let log = signer("example.org/log", 1).verifier().clone();
    let same_key = VerifierKey::new("other".parse().unwrap(), keys[0].kind(), keys[0].public_key().to_vec()).unwrap();
    let end = "quorum none\n";
    let taken = |name: &str| Fault::NameTaken(name.to_owned());
    let unknown = |name: &str| Fault::NameUnknown(name.to_owned());
    let twice = |name: &str| Fault::MemberTwice(name.to_owned());
    let cases: Vec<(String, usize, Fault)> = vec![
        (format!("{a}quorum a"), 2, Fault::CutOff),
        (format!("quorum none\r\n{a}"), 1, Fault::Characters),
        (format!("quorum \x7f\n{a}"), 1, Fault::Characters),
        (format!("witnes a {}\n{end}", keys[0]), 1, Fault::Keyword),
        (format!("log\n{end}"), 1, Fault::Items("log <key> [<url>]")),
        (format!("log {log} u v\n{end}"), 1, Fault::Items("log <key> [<url>]")),
        (format!("witness {}\n{end}", keys[0]), 1, Fault::Items("witness <name> <key> [<url>]")),
        (format!("{a}group g all\n{end}"), 2, Fault::Items("group <name> all|any|<number> <name>...")),
        ("quorum a b\n".to_owned(), 1, Fault::Items("quorum <name>")),
        (format!("witness a {log}\n{end}"), 1, Fault::NotAWitnessKey),
        (format!("log {log}\nlog {log}\n{end}"), 2, Fault::DuplicateKey),
        (format!("{a}witness b {same_key}\n{end}"), 2, Fault::DuplicateKey),
        (format!("{a}witness a {}\n{end}", keys[1]), 2, taken("a")),
        (format!("witness none {}\n{end}", keys[1]), 1, taken("none")),
        (format!("{a}group a all a\n{end}"), 2, taken("a")),
        (format!("{a}group none all a\n{end}"), 2, taken("none")),
        (format!("{a}group g all g\n{end}"), 2, unknown("g")),
        (format!("group g all a\n{a}{end}"), 1, unknown("a")),
        (format!("{a}group g any none\n{end}"), 2, unknown("none")),
        (format!("{a}group g any a a\n{end}"), 2, twice("a")),
        (format!("{a}{b}group g any a\ngroup h 2 b a\n{end}"), 4, twice("a")),
        (format!("{a}group g 0 a\n{end}"), 2, Fault::Enough { members: 1 }),
        (format!("{a}group g 2 a\n{end}"), 2, Fault::Enough { members: 1 }),
        (format!("{a}group g 01 a\n{end}"), 2, Fault::Enough { members: 1 }),
        (format!("{a}group g most a\n{end}"), 2, Fault::Enough { members: 1 }),
        (format!("quorum a\n{a}"), 1, unknown("a")),
        (format!("{a}quorum a\n{end}"), 3, Fault::SecondQuorum),
    ];
    for (policy, line, fault) in cases {
        assert_eq!(policy.parse::<LogPolicy>(), Err(LogPolicyFault::Line { line, fault }), "{policy}");
    }
    assert_eq!(a.parse::<LogPolicy>(), Err(LogPolicyFault::NoQuorum));
    assert_eq!("".parse::<LogPolicy>(), Err(LogPolicyFault::NoQuorum));
    assert_eq!("#".repeat(1024 * 1024 + 1).parse::<LogPolicy>(), Err(LogPolicyFault::TooLarge));
    let lines: Vec<String> = (0..65).map(|seed| format!("log {}\n", signer("l", seed).verifier())).collect();
    let too_many = LogPolicyFault::Line { line: 65, fault: Fault::TooMany { what: "logs", max: 64 } };
    assert_eq!((lines.concat() + end).parse::<LogPolicy>(), Err(too_many));
    // Names are octets.
    LogPolicy::from_bytes(&[b"witness \xff ", keys[0].to_string().as_bytes(), b"\nquorum \xff\n"].concat()).unwrap();
}

#[test]
fn proofs_are_read_as_they_are_written_and_prove_only_what_they_say() {
    let policy: LogPolicy = example().parse().unwrap();
    let log = cosigned(&[0, 1, 3]);
    let checkpoint = SignedNote::from_bytes(&log.files[CHECKPOINT_PATH]).unwrap();
    let tree = log.checkpoint();
    let mut tiles = servanda_audit::TrustedTiles::open(&log.files, tree.size(), tree.root()).unwrap();
    let proof = LogProof::make(&mut tiles, 299, checkpoint).unwrap();
    let text = proof.to_string();
    assert_eq!(text.parse::<LogProof>().unwrap(), proof);
    proof.verify(&leaf(299), &policy).unwrap();
    assert!(LogProof::make(&mut tiles, 300, proof.checkpoint.clone()).is_err());
    for index in [0, 298, 300, u64::MAX] {
        let other = LogProof { index, ..proof.clone() };
        assert!(matches!(other.verify(&leaf(299), &policy), Err(LogProofFault::Path { .. })), "{index}");
    }
    let alone = LogProof {
        checkpoint: SignedNote::from_bytes(&TestLog::of(300).files[CHECKPOINT_PATH]).unwrap(),
        ..proof.clone()
    };
    let refused = alone.verify(&leaf(299), &policy).unwrap_err();
    assert_eq!(refused, UntrustedCheckpoint::NoQuorum { cosigned: 0 }.into());
    // `extra` is not authenticated, and says so by changing nothing.
    let extra = LogProof { extra: b"anything".to_vec(), ..proof.clone() };
    extra.to_string().parse::<LogProof>().unwrap().verify(&leaf(299), &policy).unwrap();
    let hash = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    for (from, to, fault) in [
        ("@v1", "@v2", ParseLogProofError::FirstLine),
        ("index 299", "index 0299", ParseLogProofError::Index),
        ("index 299", "index", ParseLogProofError::Index),
        ("index 299", "extra\nindex 299", ParseLogProofError::Index),
        ("index 299", "extra \nindex 299", ParseLogProofError::Extra),
        ("index 299", "extra AA\nindex 299", ParseLogProofError::Extra),
        ("index 299", "extra AA==", ParseLogProofError::Index),
        ("index 299", "index 299\nAA==", ParseLogProofError::Path),
        ("index 299", &format!("index 299{}", format!("\n{hash}").repeat(66)), ParseLogProofError::TooLarge),
        ("\u{2014} ", "- ", ParseLogProofError::Checkpoint),
        ("\n\n", "\n", ParseLogProofError::Path),
    ] {
        let wrong = text.replace(from, to);
        assert_ne!(wrong, text);
        assert_eq!(wrong.parse::<LogProof>(), Err(fault), "{to}");
    }
}
