//! What the operator lets people do: the roles of the console, and who has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a person may do. Every role includes looking at what belongs to the person's tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PersonRole {
    /// Looks.
    Viewer,
    /// Decides about tickets.
    Approver,
    /// Settles effects, releases tools, revokes grants.
    Operator,
    /// Sees sensitive arguments, and everything that an operator does.
    Admin,
    /// Decides in an emergency, beside another person, without being in the responsible groups.
    BreakGlass,
}

/// A person or a group that has a role: `acme/ada`, or `group:acme/finance`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum RoleMember {
    /// One person of a tenant.
    Person {
        /// The tenant.
        tenant: String,
        /// The person.
        name: String,
    },
    /// Every member of a tenant's group.
    Group {
        /// The tenant.
        tenant: String,
        /// The group.
        name: String,
    },
}

/// Text that names no person and no group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no person and no group: write `tenant/person` or `group:tenant/name`")]
pub struct RoleMemberFault(String);

/// Who has which role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoleAssignments(BTreeMap<PersonRole, BTreeSet<RoleMember>>);

impl PersonRole {
    /// Every role.
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Approver, Self::Operator, Self::Admin, Self::BreakGlass];

    /// The word in files and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Approver => "approver",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::BreakGlass => "break_glass",
        }
    }
}

impl RoleMember {
    /// The tenant.
    pub fn tenant(&self) -> &str {
        match self {
            Self::Person { tenant, .. } | Self::Group { tenant, .. } => tenant,
        }
    }
}

impl RoleAssignments {
    /// Gives a role to members.
    #[must_use]
    pub fn with(mut self, role: PersonRole, members: impl IntoIterator<Item = RoleMember>) -> Self {
        self.0.entry(role).or_default().extend(members);
        self
    }

    /// The roles of a person.
    pub fn of(&self, tenant: &str, principal: &str, groups: &BTreeSet<String>) -> BTreeSet<PersonRole> {
        let is_member = |member: &RoleMember| match member {
            RoleMember::Person { tenant: of, name } => of == tenant && name == principal,
            RoleMember::Group { tenant: of, name } => of == tenant && groups.contains(name),
        };
        self.0.iter().filter(|(_, members)| members.iter().any(is_member)).map(|(role, _)| *role).collect()
    }

    /// The members that have a role.
    pub fn members(&self, role: PersonRole) -> impl Iterator<Item = &RoleMember> {
        self.0.get(&role).into_iter().flatten()
    }

    /// How many people of a tenant are known to have a role by name. None if a group has it, whose members are not known here.
    pub fn people_count(&self, role: PersonRole, tenant: &str) -> Option<usize> {
        let mut count = 0;
        for member in self.members(role) {
            match member {
                RoleMember::Group { tenant: of, .. } if of == tenant => return None,
                RoleMember::Person { tenant: of, .. } if of == tenant => count += 1,
                _ => {}
            }
        }
        Some(count)
    }
}

impl fmt::Display for RoleMember {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person { tenant, name } => write!(formatter, "{tenant}/{name}"),
            Self::Group { tenant, name } => write!(formatter, "group:{tenant}/{name}"),
        }
    }
}

impl From<RoleMember> for String {
    fn from(member: RoleMember) -> Self {
        member.to_string()
    }
}

impl TryFrom<String> for RoleMember {
    type Error = RoleMemberFault;

    fn try_from(text: String) -> Result<Self, RoleMemberFault> {
        let (is_group, name) = text.strip_prefix("group:").map_or((false, text.as_str()), |name| (true, name));
        let parts = name.split_once('/').filter(|(tenant, name)| !tenant.is_empty() && !name.is_empty());
        let Some((tenant, name)) = parts else { return Err(RoleMemberFault(text)) };
        let (tenant, name) = (tenant.to_owned(), name.to_owned());
        Ok(if is_group { Self::Group { tenant, name } } else { Self::Person { tenant, name } })
    }
}
