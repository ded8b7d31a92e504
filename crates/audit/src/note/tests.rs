use serde::Deserialize;
use servanda_requirements::shared;

use super::*;

#[derive(Deserialize)]
struct Ed25519Vector {
    number: u32,
    key: String,
    sig: String,
    msg: String,
    flags: Option<Vec<String>>,
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// CCTV's edge cases. The rule is RFC 8032's, without the cofactor: no point in a second encoding, no residue of low order. Points of low
/// order as such are accepted; nobody trusts such a key.
#[test]
fn one_rule_for_edge_cases_of_ed25519() {
    let Some(file) = shared("corpora/CCTV-ed25519/ed25519/ed25519vectors.json") else { return };
    let vectors: Vec<Ed25519Vector> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for vector in vectors {
        let name: KeyName = "example.org/log".parse().unwrap();
        let key = VerifierKey::new(name, SignatureKind::Ed25519, unhex(&vector.key)).unwrap();
        let verified = key.check(vector.msg.as_bytes(), &unhex(&vector.sig));
        let flags = vector.flags.unwrap_or_default();
        let refusing = ["low_order_residue", "non_canonical_A", "non_canonical_R"];
        let is_refused = flags.iter().any(|flag| refusing.contains(&flag.as_str()));
        assert_eq!(verified, !is_refused, "vector {}: {flags:?}", vector.number);
        *(if verified { &mut accepted } else { &mut refused }) += 1;
    }
    assert_eq!(accepted + refused, 914);
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
}
