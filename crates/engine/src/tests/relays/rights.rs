//! What a credential may read and list among resources and prompts.

use servanda_authority::{
    Rights,
    rights::{ResourcePatterns, Scopes, ToolPatterns},
};
use servanda_contract::{time::Clock as _, tool::SideEffectClass};

use super::*;
use crate::{
    SystemClock,
    testing::{everything, requester_with},
};

/// A requester with a key that has these rights.
fn with_rights(rights: Rights) -> Requester {
    let capabilities = modern().capabilities;
    Requester { era: Era::Modern, capabilities, ..requester_with("local", "ada", rights, SystemClock.now()) }
}

fn listed(page: &Value, items: &str, name: &str) -> Vec<String> {
    page[items].as_array().unwrap().iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

/// A credential's limits, what is listed to it, and which of some requests are answered.
#[tokio::test]
async fn what_is_read_and_listed_is_what_a_credential_is_for() {
    const A: &str = "servanda://a-lib/lib://a";
    const LAST: &str = "servanda://e-last/last://x";
    let limited = |pattern: &str| Rights { resources: ResourcePatterns::read(&[pattern]).unwrap(), ..everything() };
    let tools = |pattern: &str| Rights { tools: ToolPatterns::read(&[pattern]).unwrap(), ..everything() };
    let only_reads = Rights { ceiling: SideEffectClass::ReadOnly, scopes: Scopes::none(), ..everything() };
    let (both, lib, last): (&[&str], &[&str], &[&str]) = (&[A, LAST], &[A], &[LAST]);
    // rights; resources that are listed; whether the library's template is known; whether its prompts are
    let table = [
        ("everything", everything(), both, true, true),
        ("only reads, no scopes", only_reads, both, true, true),
        ("one server's resources", limited("servanda://a-lib/*"), lib, true, false),
        ("one scheme of it", limited("servanda://a-lib/lib://*"), lib, true, false),
        ("one resource", limited(A), lib, false, false),
        ("another's", limited("servanda://e-last/*"), last, false, false),
        ("what calls touch", limited("invoice/*"), &[], false, false),
        ("one server's tools", tools("a-lib.*"), lib, true, true),
        ("one tool of it", tools("a-lib.echo"), lib, true, true),
        ("another's tool", tools("e-last.echo"), last, false, false),
        ("a tool that is not there", tools("a-lib.other"), &[], false, false),
    ];
    for (name, rights, resources, template, prompt) in table {
        let (harness, library) = libraries();
        let requester = with_rights(rights);
        let all_of = async |subject| complete(ask_for(&harness, &requester, subject, json!({})).await);
        assert_eq!(listed(&all_of(InquirySubject::Resources).await, "resources", "uri"), resources, "{name}");
        let templates = listed(&all_of(InquirySubject::ResourceTemplates).await, "resourceTemplates", "uriTemplate");
        assert_eq!(templates.contains(&"servanda://a-lib/lib://{id}".to_owned()), template, "{name}");
        let prompts = listed(&all_of(InquirySubject::Prompts).await, "prompts", "name");
        assert_eq!(prompts.contains(&"a-lib__greet".to_owned()), prompt, "{name}");
        let heard = library.heard().len();
        let reference = |reference: Value| json!({"ref": reference, "argument": {"name": "id", "value": ""}});
        for (subject, params, answered) in [
            (InquirySubject::Resource, json!({"uri": A}), resources.contains(&A)),
            (
                InquirySubject::Completion,
                reference(json!({"type": "ref/resource", "uri": "servanda://a-lib/lib://{id}"})),
                template,
            ),
            (InquirySubject::Completion, reference(json!({"type": "ref/prompt", "name": "a-lib__greet"})), prompt),
            (InquirySubject::Prompt, json!({"name": "a-lib__greet"}), prompt),
        ] {
            let answer = ask_for(&harness, &requester, subject, params.clone()).await;
            assert_eq!(answer.is_ok(), answered, "{name}: {params} {answer:?}");
        }
        assert_eq!(harness.engine.watch(&requester, A).await.is_ok(), resources.contains(&A), "{name}");
        let asked = library.heard().len() > heard;
        assert_eq!(asked, template || prompt || resources.contains(&A), "{name}: nothing is passed on that may not");
    }
}
