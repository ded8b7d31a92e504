//! Types that values are converted to. A user-defined type runs user-defined functions; only PostgreSQL has such types.

use sqlparser::ast::{ArrayElemTypeDef, DataType, ObjectName, ObjectNamePart};

use crate::effects::SqlDialect;

/// Whether a type is the engine's own, so that converting to it calls no user-defined function.
pub(super) fn is_engines_own(dialect: SqlDialect, kind: &DataType) -> bool {
    let has_types_of_users = matches!(dialect, SqlDialect::Postgres | SqlDialect::Generic);
    match kind {
        // A type's modifiers are numbers; the parser takes anything, and writes strings without their quotes.
        DataType::Custom(name, modifiers) => {
            let are_numbers = modifiers.iter().all(|one| one.bytes().all(|byte| byte.is_ascii_digit()));
            are_numbers && (!has_types_of_users || is_own_type(name))
        }
        DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _)) => is_engines_own(dialect, inner),
        DataType::Array(_)
        | DataType::Enum(..)
        | DataType::Set(_)
        | DataType::Map(..)
        | DataType::Tuple(_)
        | DataType::Nested(_)
        | DataType::Struct(..)
        | DataType::Union(_)
        | DataType::NamedTable { .. }
        | DataType::Table(_)
        | DataType::Trigger
        | DataType::Unspecified
        | DataType::AnyType => false,
        _ => !has_types_of_users || is_type_of_postgres(kind),
    }
}

/// Whether PostgreSQL has the type. The parser knows names (`datetime`, `string`) that PostgreSQL does not; there they are user-defined.
fn is_type_of_postgres(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Character(_)
            | DataType::Char(_)
            | DataType::CharacterVarying(_)
            | DataType::CharVarying(_)
            | DataType::Varchar(_)
            | DataType::Uuid
            | DataType::Numeric(_)
            | DataType::Decimal(_)
            | DataType::Dec(_)
            | DataType::Float(_)
            | DataType::Int2(_)
            | DataType::SmallInt(_)
            | DataType::Int(_)
            | DataType::Int4(_)
            | DataType::Int8(_)
            | DataType::Integer(_)
            | DataType::BigInt(_)
            | DataType::Float4
            | DataType::Float8
            | DataType::Real
            | DataType::DoublePrecision
            | DataType::Bool
            | DataType::Boolean
            | DataType::Date
            | DataType::Time(..)
            | DataType::Timestamp(..)
            | DataType::Interval { .. }
            | DataType::JSON
            | DataType::JSONB
            | DataType::Regclass
            | DataType::Text
            | DataType::Bytea
            | DataType::Bit(_)
            | DataType::BitVarying(_)
            | DataType::VarBit(_)
            | DataType::GeometricType(_)
            | DataType::TsVector
            | DataType::TsQuery
    )
}

/// Whether a type that the parser has no word for is PostgreSQL's own. Any other one is user-defined, with user-defined functions.
fn is_own_type(name: &ObjectName) -> bool {
    const OWN: &str = " oid xid xid8 cid tid name regclass regtype regproc regprocedure regnamespace regrole regoper regoperator regconfig \
        regdictionary regcollation inet cidr macaddr macaddr8 money int2 int4 int8 float4 float8 bool bpchar text varchar timestamptz timetz \
        jsonpath xml pg_lsn int4range int8range numrange tsrange tstzrange daterange int4multirange int8multirange nummultirange box point \
        line lseg path polygon circle bit varbit bytea uuid interval date time timestamp numeric json jsonb tsvector tsquery any ";
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(last)] if last.quote_style.is_some() => last.value == "char",
        [ObjectNamePart::Identifier(last)] => OWN.split(' ').any(|known| last.value.eq_ignore_ascii_case(known)),
        _ => false,
    }
}
