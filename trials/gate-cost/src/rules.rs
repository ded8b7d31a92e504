//! What gates 7 and 8 judge by: somebody's credential, and as many policies as are wanted.

use std::{fmt::Write as _, sync::Arc};

use servanda_authority::AuthenticatedCaller;
use servanda_engine::Authorities;
use servanda_gates::{CompiledContract, Mandate};
use servanda_policy::{
    BuiltInPermits, Policies, PolicyLimits, PolicySource, Principal, ShadowPolicies, ToolFacts, Vocabulary,
};

/// A caller and the policies in force.
pub(crate) struct Rules {
    authorities: Authorities,
    authenticated: AuthenticatedCaller,
    principal: Arc<Principal>,
}

impl Rules {
    /// So many policies beside those that are built in.
    pub(crate) fn of(contract: &CompiledContract, count: usize, write: fn(usize) -> String) -> Self {
        let authorities = Authorities::new(policies(contract, count, write), "local");
        let authenticated = AuthenticatedCaller::local();
        let principal = authorities.principal(&authenticated).expect("a caller that policies can speak of");
        Self { authorities, authenticated, principal }
    }

    /// The same with a hundred others that are tried out.
    pub(crate) fn shadowed(self, contract: &CompiledContract) -> Self {
        let shadow = ShadowPolicies::new(policies(contract, 100, Self::about_tools));
        Self { authorities: self.authorities.with_shadow(shadow), ..self }
    }

    pub(crate) fn mandate(&self) -> Mandate<'_> {
        self.authorities.mandate(&self.authenticated, &self.principal)
    }

    /// Finds the caller's principal again, as every call does.
    #[cfg(test)]
    pub(crate) fn find_principal(&self) -> Arc<Principal> {
        self.authorities.principal(&self.authenticated).expect("found before")
    }

    /// One of twenty is about the tool, the others about others that come and go.
    pub(crate) fn about_tools(number: usize) -> String {
        let tool =
            if number.is_multiple_of(20) { "company.read_query".to_owned() } else { format!("other.tool_{number}") };
        let rule = format!("forbid (principal, action, resource == Tool::\"{tool}\")");
        format!(
            "@id(\"p{number}\") @may_never_apply(\"it comes and goes\") {rule} when {{ principal.id == \"u{number}\" }};"
        )
    }

    /// Every one is about every tool.
    pub(crate) fn about_all(number: usize) -> String {
        format!("@id(\"p{number}\") forbid (principal, action, resource) when {{ principal.id == \"u{number}\" }};")
    }

    /// One looks at an argument, the others are about other tools.
    pub(crate) fn about_arguments(number: usize) -> String {
        match number {
            0 => "@id(\"p0\") forbid (principal, action == Action::\"call:company.read_query\", resource) \
                  when { context.args.query == \"DROP\" };"
                .to_owned(),
            number => Self::about_tools(20 * number + 1),
        }
    }
}

fn policies(contract: &CompiledContract, count: usize, write: fn(usize) -> String) -> Policies {
    let vocabulary = Vocabulary::from_tools([ToolFacts::from(contract.contract())]).expect("one tool");
    let mut text = String::new();
    for number in 0..count {
        writeln!(text, "{}", write(number)).expect("a text takes everything");
    }
    let sources = [PolicySource { name: "cost.cedar", text: &text }];
    let loaded = Policies::load(Arc::new(vocabulary), &sources, BuiltInPermits::On, &PolicyLimits::default());
    loaded.unwrap_or_else(|failure| panic!("{failure}"))
}
