//! Declaring a namespace: its members get it, and lose their earlier one. Also the one shape that no namespace may have.

use super::{ExplicitNamespace, IdentityError, ToolAddress, ToolIdentity, ToolKind};

/// A valid namespace declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceDeclaration {
    name: ExplicitNamespace,
    description: String,
}

impl NamespaceDeclaration {
    /// A namespace with that name and description, without the blanks around them.
    pub fn new(name: &str, description: &str) -> Result<Self, IdentityError> {
        let name = ExplicitNamespace::new(trimmed(name)).ok_or(IdentityError::EmptyNamespaceName)?;
        let description = trimmed(description);
        if description.is_empty() {
            return Err(IdentityError::EmptyNamespaceDescription);
        }
        Ok(Self { name, description: description.to_owned() })
    }

    /// The name.
    pub fn name(&self) -> &ExplicitNamespace {
        &self.name
    }

    /// The description.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The same tools in this namespace. Their names stay as they are.
    pub fn attach(&self, tools: &[ToolIdentity]) -> Result<Vec<ToolIdentity>, IdentityError> {
        if tools.iter().any(|tool| tool.kind != ToolKind::Function) {
            return Err(IdentityError::NotAFunctionTool);
        }
        let put = |tool: &ToolIdentity| {
            let tool = ToolIdentity { namespace: Some(self.name.clone()), ..tool.clone() };
            tool.address().map_or(Ok(()), |address| check_shape(&address)).map(|()| tool)
        };
        tools.iter().map(put).collect()
    }
}

/// Refuses a namespace that equals the name.
pub fn check_shape(address: &ToolAddress) -> Result<(), IdentityError> {
    if address.is_reserved() {
        Err(IdentityError::ReservedSyntheticNamespace(address.qualified_name()))
    } else {
        Ok(())
    }
}

/// Without blanks at both ends. The separators U+001C to U+001F count as blanks: they are as invisible as the others.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character))
}
