//! The page of policies: what is in force and what is on trial, as text; when calls need an approval; who has which role. It only reads.

mod approval_defaults;

use askama::Template;
use http::StatusCode;
use servanda_approval::{ApprovalSettings, PersonRole};
use servanda_contract::legibility;
use servanda_doors::http::PageRequest;
use servanda_engine::oversight::{PolicyEntry, PolicyOverview};

use self::approval_defaults::ApprovalDefaultsRow;
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    reply::ConsoleReply,
    view::PageFrame,
};

/// The most policies of a kind on the page.
const PAGE_POLICIES: usize = 500;

/// One policy on the page.
struct PolicyView {
    id: String,
    place: String,
    style: &'static str,
    words: &'static str,
    annotations: Vec<(String, String)>,
    text: String,
}

/// A group of policies.
struct PolicyGroup {
    title: &'static str,
    hint: &'static str,
    policies: Vec<PolicyView>,
    left_out: usize,
    empty: &'static str,
    is_open: bool,
}

#[derive(Template)]
#[template(path = "policies.html")]
struct PoliciesPage {
    frame: PageFrame,
    environment: String,
    is_production: bool,
    status: String,
    trial: &'static str,
    hidden: usize,
    groups: Vec<PolicyGroup>,
    by_class: bool,
    defaults: Vec<ApprovalDefaultsRow>,
    roles: Vec<(&'static str, String)>,
    is_single_user: bool,
}

/// Shows the policies.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let report = context.engine.oversight().policies(&viewer.signed_in.person).ok_or(PageFault::NoRole)?;
    let settings = viewer.settings();
    let page = PoliciesPage {
        environment: legibility::one_line(&report.environment),
        is_production: settings.is_production,
        status: status(&report),
        trial: if report.on_trial.is_some() {
            "Policies are on trial beside those in force. They decide nothing; every call records what they would have decided."
        } else {
            "No policies are on trial."
        },
        hidden: report.hidden,
        groups: groups(&report),
        by_class: settings.by_class,
        defaults: approval_defaults::rows(settings),
        roles: roles(settings, &viewer),
        is_single_user: settings.is_single_user,
        frame: PageFrame::of("Policies", &viewer.signed_in),
    };
    Ok(ConsoleReply::page(StatusCode::OK, &page))
}

/// What the loaded policies are: a gateway never loads a set with a mistake.
fn status(report: &PolicyOverview) -> String {
    let written = report.in_force.iter().filter(|policy| !policy.is_built_in).count();
    let built_in = report.in_force.len() - written;
    let noun = if written == 1 { "policy" } else { "policies" };
    format!(
        "{written} {noun} of the operator and {built_in} built-in ones are in force. All were checked against the contracts that are loaded; a \
         file with a mistake is not loaded at all, and “servanda check” says what is wrong with it."
    )
}

fn groups(report: &PolicyOverview) -> Vec<PolicyGroup> {
    let (built_in, written): (Vec<_>, Vec<_>) = report.in_force.iter().partition(|policy| policy.is_built_in);
    let mut groups = vec![PolicyGroup::new(
        "In force",
        "Written by the operator.",
        &written,
        "The operator has written none. Write one in the folder that “policy” names in servanda.yaml; “servanda policy schema” prints what it \
         can say, and “servanda policy what-if” shows what it would change.",
        true,
    )];
    if let Some(on_trial) = &report.on_trial {
        let on_trial: Vec<_> = on_trial.iter().filter(|policy| !policy.is_built_in).collect();
        groups.push(PolicyGroup::new("On trial", "They decide nothing.", &on_trial, "None was written.", true));
    }
    groups.push(PolicyGroup::new("Built in", "They come with Servanda.", &built_in, "None are in force.", false));
    groups
}

impl PolicyGroup {
    fn new(
        title: &'static str,
        hint: &'static str,
        entries: &[&PolicyEntry],
        empty: &'static str,
        is_open: bool,
    ) -> Self {
        let left_out = entries.len().saturating_sub(PAGE_POLICIES);
        let policies = entries.iter().take(PAGE_POLICIES).map(|entry| PolicyView::new(entry)).collect();
        Self { title, hint, policies, left_out, empty, is_open }
    }
}

impl PolicyView {
    fn new(policy: &PolicyEntry) -> Self {
        let line = |text: &str| legibility::one_line(text);
        let (style, words) = if policy.is_forbid { ("bad", "forbids") } else { ("good", "permits") };
        let annotations = policy.annotations.iter().filter(|(name, _)| name != "id");
        Self {
            id: line(&policy.id),
            place: line(&policy.place),
            style,
            words,
            annotations: annotations.map(|(name, value)| (line(name), line(value))).collect(),
            text: legibility::reveal(policy.text.trim()).into_owned(),
        }
    }
}

/// The members of each role, as far as they are of the person's tenant.
fn roles(settings: &ApprovalSettings, viewer: &ConsoleViewer) -> Vec<(&'static str, String)> {
    let members = |role: PersonRole| {
        let own = settings.roles.members(role).filter(|member| member.tenant() == viewer.tenant());
        let names: Vec<String> = own.map(|member| legibility::one_line(&member.to_string())).collect();
        if names.is_empty() { "nobody of your tenant".to_owned() } else { names.join(", ") }
    };
    PersonRole::ALL.into_iter().map(|role| (role.word(), members(role))).collect()
}
