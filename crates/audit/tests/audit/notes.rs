//! Notes, keys and checkpoints: what is read, what is refused, and which signatures count.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, ML_DSA_44_SIGNING, PqdsaKeyPair};
use servanda_audit::{
    Checkpoint, KeyName, SignedNote, TreeHash, VerifierKey,
    checkpoint::CheckpointFault,
    note::{KeyNameFault, NoteFault, NoteSignature, NoteSigningFault, SIGNATURES_MAX, SignatureKind, VerifierKeyFault},
};

use super::logs::signer;

const TEXT: &str = "example.org/log\n5\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n";

fn key(text: &str) -> Result<VerifierKey, VerifierKeyFault> {
    text.parse()
}

/// A witness, as the specification describes its signatures.
pub(crate) enum TestWitness {
    Ed25519(KeyName, Ed25519KeyPair),
    MlDsa44(KeyName, PqdsaKeyPair),
}

impl TestWitness {
    pub(crate) fn new(name: &str, kind: SignatureKind, seed: u8) -> Self {
        let name = name.parse().unwrap();
        match kind {
            SignatureKind::MlDsa44Cosignature => {
                Self::MlDsa44(name, PqdsaKeyPair::from_seed(&ML_DSA_44_SIGNING, &[seed; 32]).unwrap())
            }
            _ => Self::Ed25519(name, Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()),
        }
    }

    pub(crate) fn key(&self) -> VerifierKey {
        let (name, kind, public_key) = match self {
            Self::Ed25519(name, pair) => (name, SignatureKind::Ed25519Cosignature, pair.public_key().as_ref()),
            Self::MlDsa44(name, pair) => (name, SignatureKind::MlDsa44Cosignature, pair.public_key().as_ref()),
        };
        VerifierKey::new(name.clone(), kind, public_key.to_vec()).unwrap()
    }

    pub(crate) fn cosign(&self, text: &str, time_s: u64) -> NoteSignature {
        let time = time_s.to_be_bytes();
        let signature = match self {
            Self::Ed25519(_, pair) => {
                pair.sign(format!("cosignature/v1\ntime {time_s}\n{text}").as_bytes()).as_ref().to_vec()
            }
            Self::MlDsa44(name, pair) => {
                let lines: Vec<&str> = text.lines().collect();
                let length = |text: &str| [u8::try_from(text.len()).unwrap()];
                let size: u64 = lines[1].parse().unwrap();
                let root: TreeHash = lines[2].parse().unwrap();
                let message = [
                    b"subtree/v1\n\0",
                    &length(name.as_str())[..],
                    name.as_str().as_bytes(),
                    &time,
                    &length(lines[0]),
                    lines[0].as_bytes(),
                    &[0; 8],
                    &size.to_be_bytes(),
                    root.as_bytes(),
                ]
                .concat();
                let mut signature = vec![0; ML_DSA_44_SIGNING.signature_len()];
                pair.sign(&message, &mut signature).unwrap();
                signature
            }
        };
        let key = self.key();
        NoteSignature { name: key.name().clone(), id: key.id(), bytes: [&time[..], &signature].concat() }
    }
}

/// The example of the specification, which others signed.
#[test]
fn the_specifications_example_verifies() {
    let example = key("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k").unwrap();
    let note = "This is an example message.\n\n\u{2014} example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";
    let read: SignedNote = note.parse().unwrap();
    assert_eq!(read.to_string(), note);
    assert_eq!(read.verify(&[&example]).unwrap()[0].key, example);
    let changed: SignedNote = note.replace("message.", "massage.").parse().unwrap();
    assert!(matches!(changed.verify(&[&example]), Err(NoteFault::FalseSignature { .. })));
}

#[test]
fn keys_are_what_their_text_says() {
    let signer = signer("example.org/log", 1);
    let text = signer.verifier().to_string();
    assert_eq!(key(&text).unwrap(), *signer.verifier());
    let (name, rest) = text.split_once('+').unwrap();
    let (id, encoded) = rest.split_once('+').unwrap();
    let other_kind = |byte: &str| format!("{name}+{id}+{byte}{}", &encoded[2..]);
    assert!(matches!(key(&format!("other+{id}+{encoded}")), Err(VerifierKeyFault::OtherId(_))));
    assert!(matches!(key(&format!("{name}+00000000+{encoded}")), Err(VerifierKeyFault::OtherId(_))));
    assert!(matches!(key(&format!("{name}+{}+{encoded}", id.to_uppercase())), Err(VerifierKeyFault::OtherId(_))));
    assert!(matches!(key(&other_kind("Ag")), Err(VerifierKeyFault::Kind(2))));
    assert!(matches!(key(&other_kind("Bg")), Err(VerifierKeyFault::Length { kind: 6, expected: 1312, bytes: 32 })));
    for wrong in ["", "a", "a+b", "+00000000+AQ==", &format!("a b+{id}+{encoded}"), &format!("{name}+{id}+{encoded}=")]
    {
        assert_eq!(key(wrong), Err(VerifierKeyFault::Form), "{wrong}");
    }
    assert!(format!("{signer:?}").contains("example.org/log") && !format!("{signer:?}").contains("pair"));
}

#[test]
fn names_of_keys() {
    let long = "n".repeat(255);
    for name in ["a", "example.org/log", "oid/1.2.3", "\u{fc}", &long] {
        assert_eq!(name.parse::<KeyName>().unwrap().as_str(), name);
    }
    for name in ["", "a b", "a\u{a0}b", "a\u{2003}b", "a+b", "a\nb", "a\u{1}b", &format!("{long}n")] {
        assert!(name.parse::<KeyName>().is_err(), "{name:?}");
    }
    let _: Result<KeyName, KeyNameFault> = "a".parse();
}

#[test]
fn notes_that_are_not_notes() {
    let signer = signer("example.org/log", 1);
    let note = signer.sign(TEXT.to_owned()).unwrap().to_string();
    let refused = |note: &str| SignedNote::from_bytes(note.as_bytes()).unwrap_err();
    let line = note.lines().last().unwrap().to_owned();
    assert_eq!(refused(""), NoteFault::Form);
    assert_eq!(refused(TEXT), NoteFault::Form);
    assert_eq!(refused(&format!("{TEXT}\n")), NoteFault::Form);
    assert_eq!(refused(note.trim_end()), NoteFault::Form, "the last line does not end");
    assert_eq!(refused(&format!("{note}\n")), NoteFault::Form);
    assert_eq!(refused(&note.replace("\n5\n", "\n5\t\n")), NoteFault::Characters);
    assert_eq!(refused(&note.replace("\n5\n", "\r\n5\n")), NoteFault::Characters);
    assert_eq!(SignedNote::from_bytes(b"a\xff\n\n").unwrap_err(), NoteFault::Characters);
    for wrong in [
        "- example.org/log AAAAAAA=",
        "\u{2014} example.org/log",
        "\u{2014}  AAAAAAA=",
        "\u{2014} a AAAAAAA",
        "\u{2014} a AAAAAA==",
        "\u{2014} a b AAAAAAA=",
    ] {
        assert_eq!(refused(&format!("{TEXT}\n{line}\n{wrong}\n")), NoteFault::SignatureLine { line: 2 }, "{wrong}");
    }
    let lines = |count: usize| format!("{TEXT}\n{}", format!("{line}\n").repeat(count));
    assert_eq!(
        SignedNote::from_bytes(lines(SIGNATURES_MAX).as_bytes()).unwrap().verify(&[signer.verifier()]).unwrap().len(),
        1
    );
    assert_eq!(refused(&lines(SIGNATURES_MAX + 1)), NoteFault::TooLarge);
    assert_eq!(refused(&format!("{}\n{note}", "x".repeat(256 * 1024))), NoteFault::TooLarge);
    for text in ["", "no end", "tab\there\n", "\r\n"] {
        assert_eq!(signer.sign(text.to_owned()).unwrap_err(), NoteSigningFault::Text);
    }
}

#[test]
fn unknown_signatures_are_ignored_and_false_ones_of_known_keys_are_not() {
    let (known, other) = (signer("example.org/log", 1), signer("example.org/other", 2));
    let mut note = known.sign(TEXT.to_owned()).unwrap();
    let stranger = other.sign(TEXT.to_owned()).unwrap().signatures()[0].clone();
    note.add(NoteSignature { bytes: vec![1], ..stranger.clone() });
    assert_eq!(note.verify(&[known.verifier()]).unwrap().len(), 1);
    // The same name with another id, and the same id under another name, are other keys.
    let (name, id) = (known.verifier().name().clone(), known.verifier().id());
    note.add(NoteSignature { name, ..stranger.clone() });
    note.add(NoteSignature { id, ..stranger.clone() });
    assert_eq!(note.verify(&[known.verifier()]).unwrap().len(), 1);
    assert!(matches!(note.verify(&[known.verifier(), other.verifier()]), Err(NoteFault::FalseSignature { .. })));
    assert_eq!(note.verify(&[signer("example.org/third", 3).verifier()]), Err(NoteFault::Unsigned));
    let same_name = signer("example.org/log", 3);
    assert!(matches!(note.verify(&[same_name.verifier()]), Err(NoteFault::ForeignKey { .. })));
    assert!(matches!(note.verify(&[known.verifier(), known.verifier()]), Err(NoteFault::AmbiguousKeys(_))));
    assert_eq!(note.verify(&[]), Err(NoteFault::Unsigned));
}

#[test]
fn cosignatures_cover_time_name_and_tree() {
    for kind in [SignatureKind::Ed25519Cosignature, SignatureKind::MlDsa44Cosignature] {
        let witness = TestWitness::new("witness.example/w", kind, 4);
        let key = witness.key();
        let verify = |text: &str, signature: &NoteSignature| {
            let mut note = SignedNote::new(text.to_owned()).unwrap();
            note.add(signature.clone());
            note.verify(&[&key]).map(|found| found[0].time_s)
        };
        let signature = witness.cosign(TEXT, 1_700_000_000);
        assert_eq!(verify(TEXT, &signature), Ok(Some(1_700_000_000)), "{kind:?}");
        assert_eq!(verify(TEXT, &witness.cosign(TEXT, 0)), Ok(Some(0)), "{kind:?}");
        assert!(verify(&TEXT.replace("\n5\n", "\n6\n"), &signature).is_err(), "{kind:?}: another size");
        assert!(verify(&TEXT.replace("log", "lag"), &signature).is_err(), "{kind:?}: another origin");
        assert!(verify(&TEXT.replace("47DE", "47DF"), &signature).is_err(), "{kind:?}: another root");
        for byte in [7, 8, 71] {
            let mut wrong = signature.clone();
            wrong.bytes[byte] ^= 1;
            assert!(verify(TEXT, &wrong).is_err(), "{kind:?}: byte {byte}");
        }
        let short = NoteSignature { bytes: signature.bytes[..7].to_vec(), ..signature.clone() };
        assert!(verify(TEXT, &short).is_err(), "{kind:?}: no time");
        assert!(verify(TEXT, &witness.cosign(TEXT, 1 << 63)).is_err(), "{kind:?}: a time that may not be");
        let extended = format!("{TEXT}an extension\n");
        assert_eq!(verify(&extended, &signature).is_ok(), kind == SignatureKind::MlDsa44Cosignature, "{kind:?}");
    }
    // Text that is not a checkpoint cannot be cosigned, even by a true signature.
    let witness = TestWitness::new("witness.example/w", SignatureKind::Ed25519Cosignature, 4);
    let mut note = SignedNote::new("no checkpoint\n".to_owned()).unwrap();
    note.add(witness.cosign("no checkpoint\n", 5));
    assert!(note.verify(&[&witness.key()]).is_err());
}

#[test]
fn checkpoints() {
    let read: Checkpoint = TEXT.parse().unwrap();
    assert_eq!((read.origin(), read.size(), read.root()), ("example.org/log", 5, TreeHash::of_empty_tree()));
    assert_eq!(read.to_string(), TEXT);
    let extended = format!("{TEXT}one\ntwo\n");
    let read: Checkpoint = extended.parse().unwrap();
    assert_eq!((read.extensions(), read.to_string()), (&["one".to_owned(), "two".to_owned()][..], extended));
    let refused = |text: String| text.parse::<Checkpoint>().unwrap_err();
    for size in ["", "05", "-5", "+5", "5 ", "0x5", "18446744073709551616", "00"] {
        assert_eq!(refused(TEXT.replace("\n5\n", &format!("\n{size}\n"))), CheckpointFault::Size, "{size}");
    }
    for root in
        ["", "47DE", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV="]
    {
        assert_eq!(refused(format!("a\n5\n{root}\n")), CheckpointFault::Root, "{root}");
    }
    assert_eq!(refused("a\n5\n".to_owned()), CheckpointFault::Lines);
    assert_eq!(refused(TEXT.trim_end().to_owned()), CheckpointFault::Lines);
    assert_eq!(refused(format!("\n{TEXT}")), CheckpointFault::Size);
    assert_eq!(refused(TEXT.replace("example.org/log", "")), CheckpointFault::Origin);
    assert_eq!(refused(TEXT.replace("example.org/log", &"o".repeat(256))), CheckpointFault::Origin);
    assert_eq!(refused(format!("{TEXT}\n")), CheckpointFault::Extensions);
    assert_eq!(refused(format!("{TEXT}{}", "x\n".repeat(17))), CheckpointFault::Extensions);
    assert_eq!(refused(format!("{TEXT}{}\n", "x".repeat(1025))), CheckpointFault::Extensions);
    assert!(Checkpoint::new("two\nlines", 0, TreeHash::of_empty_tree()).is_err());
}
