//! Converts arguments to Cedar values, directly from their canonical bytes and guided by their types. Members that no policy
//! looks at are skipped, not built.

use std::{collections::BTreeMap, fmt};

use cedar_policy::RestrictedExpression;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::{
    context_needs::CombinedNeeds,
    types::{ArgumentType, Attribute},
};

/// Decimal digits that Cedar's numbers have.
const FRACTION_DIGITS_MAX: usize = 4;

/// The arguments that policies look at. The error says what does not fit, and never quotes a value.
pub(crate) fn read(
    bytes: &[u8],
    members: &BTreeMap<String, Attribute>,
    needs: &CombinedNeeds<'_>,
) -> Result<RestrictedExpression, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = RecordSeed { members, needs: Some(needs) }.deserialize(&mut deserializer);
    value.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| error.to_string())
}

struct RecordSeed<'a> {
    members: &'a BTreeMap<String, Attribute>,
    /// The wanted members; `None` means all.
    needs: Option<&'a CombinedNeeds<'a>>,
}

/// Reads a value of a type; `None` for an allowed `null`.
struct ValueSeed<'a> {
    kind: &'a ArgumentType,
    nullable: bool,
}

impl RecordSeed<'_> {
    fn wanted(&self, name: &str) -> Option<&Attribute> {
        self.members.get(name).filter(|_| self.needs.is_none_or(|needs| needs.argument(name)))
    }
}

impl<'de> DeserializeSeed<'de> for RecordSeed<'_> {
    type Value = RestrictedExpression;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RecordSeed<'_> {
    type Value = RestrictedExpression;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut fields: Vec<(String, RestrictedExpression)> = Vec::new();
        while let Some(name) = access.next_key::<std::borrow::Cow<'de, str>>()? {
            let Some(attribute) = self.wanted(&name) else {
                let looked_at = self.needs.is_some_and(|needs| needs.argument(&name));
                let there = access.next_value::<Option<IgnoredAny>>()?.is_some();
                // Only a tool that accepts undeclared members has one.
                if looked_at && there {
                    return Err(A::Error::custom(
                        "a member that its contract does not declare, which a policy cannot see",
                    ));
                }
                continue;
            };
            let seed = ValueSeed { kind: &attribute.kind, nullable: attribute.nullable };
            if let Some(value) = access.next_value_seed(seed)? {
                fields.push((name.into_owned(), value));
            }
        }
        let there = |name: &str| fields.iter().any(|(there, _)| there == name);
        let absent = self
            .members
            .iter()
            .any(|(name, attribute)| attribute.required && self.wanted(name).is_some() && !there(name));
        if absent {
            return Err(A::Error::custom("a required member, and it is absent"));
        }
        RestrictedExpression::new_record(fields).map_err(|_| A::Error::custom("a member is there twice"))
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Option<RestrictedExpression>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Option<RestrictedExpression>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.kind {
            ArgumentType::Text => "a string",
            ArgumentType::Long => "an integer of 64 bits",
            ArgumentType::Bool => "true or false",
            ArgumentType::Decimal => "a number",
            ArgumentType::Set(_) => "an array",
            ArgumentType::Record(_) => "an object",
        })
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        if self.nullable { Ok(None) } else { Err(E::custom("null where a value is required")) }
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
        match self.kind {
            ArgumentType::Bool => Ok(Some(RestrictedExpression::new_bool(value))),
            _ => Err(self.mismatch()),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        match self.kind {
            ArgumentType::Long => Ok(Some(RestrictedExpression::new_long(value))),
            ArgumentType::Decimal => decimal(&format!("{value}.0")),
            _ => Err(self.mismatch()),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(E::custom("a number too large for a policy to hold")),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        match self.kind {
            // Never in scientific notation: Rust writes no exponents, only the shortest text that means this number.
            ArgumentType::Decimal if value.fract() == 0.0 => decimal(&format!("{value}.0")),
            ArgumentType::Decimal => decimal(&value.to_string()),
            _ => Err(self.mismatch()),
        }
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Self::Value, E> {
        match self.kind {
            ArgumentType::Text => Ok(Some(RestrictedExpression::new_string(value.to_owned()))),
            _ => Err(self.mismatch()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let ArgumentType::Set(kind) = self.kind else { return Err(self.mismatch()) };
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(ValueSeed { kind, nullable: false })? {
            items.extend(item);
        }
        Ok(Some(RestrictedExpression::new_set(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<Self::Value, A::Error> {
        let ArgumentType::Record(members) = self.kind else { return Err(self.mismatch()) };
        RecordSeed { members, needs: None }.visit_map(access).map(Some)
    }
}

impl ValueSeed<'_> {
    /// Serde's own message would quote the value.
    fn mismatch<E: serde::de::Error>(&self) -> E {
        E::custom(format_args!("a value that is not {}", ExpectedArgument(self)))
    }
}

struct ExpectedArgument<'a, 'b>(&'a ValueSeed<'b>);

impl fmt::Display for ExpectedArgument<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(formatter)
    }
}

/// A number that would have to be rounded is refused: `100.00004` is more than 100.
fn decimal<E: serde::de::Error>(text: &str) -> Result<Option<RestrictedExpression>, E> {
    let fraction = text.split_once('.').map_or(usize::MAX, |(_, fraction)| fraction.len());
    if fraction > FRACTION_DIGITS_MAX {
        return Err(E::custom("a number with more than four decimals, which a policy cannot compare exactly"));
    }
    Ok(Some(RestrictedExpression::new_decimal(text)))
}
