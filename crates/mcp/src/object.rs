//! JSON objects kept raw: the members of one level in their order, each value as the bytes that arrived. For reading a
//! few members and passing the rest on unchanged.

use std::{borrow::Cow, collections::HashSet};

use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::envelope::to_json;

/// How many names are compared one by one; for more names a set is kept, because comparing very many pairwise would
/// take too long.
const COMPARED_MAX: usize = 32;

/// The members of an object. A duplicate name is refused: two readers would read two different objects.
#[derive(Debug, Clone, Default)]
pub struct RawObject<'a> {
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> RawObject<'a> {
    /// The value of a member.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.members.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
    }

    /// All members in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.members.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    /// Without these members.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.members.retain(|(name, _)| !names.contains(&name.as_ref()));
        self
    }

    /// Without the members whose names begin with `prefix`.
    #[must_use]
    pub fn without_prefix(mut self, prefix: &str) -> Self {
        self.members.retain(|(name, _)| !name.starts_with(prefix));
        self
    }

    /// With its members in order of their names.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.members.sort_by(|(one, _), (other, _)| one.cmp(other));
        self
    }

    /// Appends `"name":value` of every member to `json`, each followed by a comma.
    pub fn write_members(&self, json: &mut String) {
        for (name, value) in self.iter() {
            json.push_str(&to_json(name));
            json.push(':');
            json.push_str(value.get());
            json.push(',');
        }
    }

    /// The object as JSON.
    pub fn to_json(&self) -> String {
        self.to_json_with(|_, _| None)
    }

    /// The object as JSON, with the values that `other` returns in place of the original ones. They must be JSON.
    pub fn to_json_with(&self, mut other: impl FnMut(&str, &'a RawValue) -> Option<String>) -> String {
        let mut json = String::from("{");
        for (name, value) in self.iter() {
            json.push_str(&to_json(name));
            json.push(':');
            match other(name, value) {
                Some(other) => json.push_str(&other),
                None => json.push_str(value.get()),
            }
            json.push(',');
        }
        if json.ends_with(',') {
            json.pop();
        }
        json.push('}');
        json
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawObjectVisitor;
        impl<'de> Visitor<'de> for RawObjectVisitor {
            type Value = RawObject<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::with_capacity(8);
                let mut names: HashSet<Cow<'de, str>> = HashSet::new();
                while let Some((RawMemberName(name), value)) = map.next_entry::<RawMemberName<'de>, &'de RawValue>()? {
                    if members.len() == COMPARED_MAX {
                        names.extend(members.iter().map(|(other, _)| other.clone()));
                    }
                    let twice = if members.len() < COMPARED_MAX {
                        members.iter().any(|(other, _)| *other == name)
                    } else {
                        !names.insert(name.clone())
                    };
                    if twice {
                        return Err(serde::de::Error::custom("a member appears twice"));
                    }
                    members.push((name, value));
                }
                Ok(RawObject { members })
            }
        }
        deserializer.deserialize_map(RawObjectVisitor)
    }
}

/// A name, borrowed if possible: `Cow` alone always copies.
#[derive(Deserialize)]
struct RawMemberName<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::RawObject;

    #[test]
    fn members_keep_their_bytes_and_order() {
        let text = r#"{"b": {"x":1.0,"x":2} ,"a\n":[ 1 ],"c":1e400}"#;
        let object: RawObject<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(object.to_json(), r#"{"b":{"x":1.0,"x":2},"a\n":[ 1 ],"c":1e400}"#);
        assert_eq!(object.get("a\n").unwrap().get(), "[ 1 ]");
        assert_eq!(
            object.to_json_with(|name, _| (name == "b").then(|| "7".to_owned())),
            r#"{"b":7,"a\n":[ 1 ],"c":1e400}"#
        );
        assert_eq!(object.without(&["b", "c"]).to_json(), r#"{"a\n":[ 1 ]}"#);
        assert_eq!(serde_json::from_str::<RawObject<'_>>("{}").unwrap().to_json(), "{}");
    }

    #[test]
    fn a_name_twice_is_refused_whatever_its_spelling() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#, "[]", "7"] {
            assert!(serde_json::from_str::<RawObject<'_>>(text).is_err(), "{text}");
        }
    }

    /// Objects with that many members, and one name repeated at the end.
    #[test]
    fn a_name_twice_is_found_among_many() {
        for count in [1, 31, 32, 33, 34, 1000] {
            let members: Vec<String> = (0..count).map(|number| format!(r#""{number}":0"#)).collect();
            let object = |last: usize| format!(r#"{{{},"{last}":1}}"#, members.join(","));
            assert!(serde_json::from_str::<RawObject<'_>>(&object(count)).is_ok(), "{count}");
            for again in [0, count / 2, count - 1] {
                assert!(serde_json::from_str::<RawObject<'_>>(&object(again)).is_err(), "{again} of {count}");
            }
        }
    }

    /// It would take minutes if every name were compared with every other.
    #[test]
    fn very_many_members_are_read() {
        let members: Vec<String> = (0..300_000).map(|number| format!(r#""{number}":0"#)).collect();
        let text = format!("{{{}}}", members.join(","));
        assert_eq!(serde_json::from_str::<RawObject<'_>>(&text).unwrap().iter().count(), 300_000);
    }
}
