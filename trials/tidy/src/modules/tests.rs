//! The rules of the module graph on planted crates: what counts as a reference, and what does not.

use std::{collections::BTreeMap, path::Path};

use super::graph::Graph;

/// A crate of two files `a.rs` and `b.rs`, and `c.rs` that is empty.
fn two(first: &str, second: &str) -> Graph {
    planted(&[
        ("src/lib.rs", "mod a; mod b; mod c;"),
        ("src/a.rs", first),
        ("src/b.rs", second),
        ("src/c.rs", "pub struct Leaf;"),
    ])
}

fn planted(files: &[(&str, &str)]) -> Graph {
    let files: BTreeMap<&Path, &str> = files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
    Graph::read("planted", Path::new("src/lib.rs"), &|path| files.get(path).map(|text| (*text).to_owned()))
}

/// `a` refers to `b` by a plain `use`; the test must see that this code in `b` refers to `a`.
#[track_caller]
fn closes_the_circle(second: &str) {
    let cycles = two("use crate::b::Second;\npub struct First; pub fn first() {}", second).cycles();
    assert!(matches!(&*cycles, [cycle] if cycle.starts_with("planted: a, b\n")), "{second}: {cycles:?}");
}

#[track_caller]
fn makes_no_circle(second: &str) {
    let cycles = two("use crate::b::Second;\npub struct First; pub fn first() {}", second).cycles();
    assert!(cycles.is_empty(), "{second}: {cycles:?}");
}

#[test]
fn imports_of_every_form_are_seen() {
    closes_the_circle("use crate::a::First;");
    closes_the_circle("use super::a::First;");
    closes_the_circle("use crate::a;");
    closes_the_circle("use crate::a as other;");
    closes_the_circle("use crate::a::First as Other;");
    closes_the_circle("use crate::a::{self};");
    closes_the_circle("use crate::{c::Leaf, a::{First as _}};");
    closes_the_circle("use {crate::{c::{Leaf}, a::*}};");
    closes_the_circle("pub(crate) use super::{c, a::First};");
    closes_the_circle("fn inner() { use crate::a::first; first() }");
    closes_the_circle("use self::super::a::First;");
}

#[test]
fn paths_in_code_are_seen() {
    closes_the_circle("fn inner() { crate::a::first() }");
    closes_the_circle("fn inner() -> Vec<super::a::First> { Vec::new() }");
    closes_the_circle("fn inner() { let all = [0; 3]; for one in 0..super::a::COUNT {} }");
    closes_the_circle("fn inner() { First { x: 1, ..crate::a::DEFAULT } }");
    closes_the_circle("impl crate::a::First {}");
    closes_the_circle("fn inner(first: &'a str) { assert_eq!(first.len(), crate::a::first(), \"text\"); }");
    closes_the_circle("#[serde(default = \"crate::a::first\")] struct Second;");
    closes_the_circle("#[arg(value_parser = crate::a::first)] struct Second;");
    closes_the_circle("use crate::c as a_leaf; use super as up; fn inner() { up::a::first() }");
}

#[test]
fn what_is_only_said_is_not_seen() {
    makes_no_circle(
        "// use crate::a::First;\n/* /* nested */ crate::a::first() */\n/// [`crate::a::First`]\nfn inner() {}",
    );
    makes_no_circle("const TEXT: &str = \"crate::a::first()\";");
    makes_no_circle(
        "const TEXT: &str = r#\"a \" crate::a::first()\"#; const BYTES: &[u8] = b\"\\\" crate::a::first()\";",
    );
    makes_no_circle("const QUOTE: char = '\"'; const LAST: char = '\\''; fn inner<'a>() -> &'a str { \"crate::a\" }");
    makes_no_circle("#[doc = \"crate::a::first\"] fn inner() {}");
    makes_no_circle("pub(in crate::b) fn inner() {}");
    makes_no_circle("fn a() {} fn inner(a: First) { a.first(); value.a::<u8>() }");
    makes_no_circle("use ::a::First; use other::a;");
    makes_no_circle("use crate::c::Leaf; use super::c; use self::Second as Another; pub struct Second;");
}

#[test]
fn tests_do_not_count() {
    makes_no_circle("#[cfg(test)] mod tests { use crate::a::First; }");
    makes_no_circle("#[cfg(test)]\nmod tests;");
    makes_no_circle("#[cfg(test)] use crate::{a::First, c}; fn inner() {}");
    makes_no_circle("#[cfg(all(test, feature = \"x\"))] pub(crate) fn inner() { crate::a::first() } fn other() {}");
    makes_no_circle("#[test] #[expect(lint)] fn inner() { crate::a::first() }");
    makes_no_circle("#[cfg(test)] const fn inner() { crate::a::first() }");
    makes_no_circle("struct Second { #[cfg(test)] first: Map<u8, crate::a::First>, other: u8 }");
    closes_the_circle("#[cfg(test)] const ONE: Leaf = Leaf {}; fn inner() { crate::a::first() }");
    closes_the_circle("#[cfg(not(test))] fn inner() { crate::a::first() }");
    closes_the_circle("#[cfg(any(test, feature = \"x\"))] fn inner() { crate::a::first() }");
    closes_the_circle("struct Second { #[cfg(test)] other: u8, first: crate::a::First }");
    let whole = [
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "use crate::b::Second;"),
        ("src/b.rs", "#![cfg(test)]\nuse crate::a::First;"),
    ];
    assert_eq!(planted(&whole).lines(), "planted::a\n");
}

#[test]
fn a_name_stands_for_the_module_that_defines_it() {
    let line_of_b = |second: &str| {
        let graph = planted(&[
            ("src/lib.rs", "mod a; mod b; mod c; pub use a::First; use c::*;"),
            ("src/a.rs", "pub struct First;"),
            ("src/b.rs", second),
            ("src/c.rs", "pub use crate::a::First as Renamed; pub use serde_json::Value;"),
        ]);
        graph.lines().lines().nth(1).unwrap_or_default().to_owned()
    };
    for second in [
        "use crate::First;",
        "fn inner() { super::First::new() }",
        "use crate::c::Renamed;",
        "use crate::Renamed;",
        "use crate::*; fn inner() -> First { First }",
        "use super::*; fn inner() { Renamed::new() }",
    ] {
        assert_eq!(line_of_b(second), "planted::b -> a", "{second}");
    }
    assert_eq!(line_of_b("use crate::*; fn inner(first: Value) -> Other { first.first() }"), "planted::b");
    assert_eq!(line_of_b("use crate::c::Value;"), "planted::b -> c");
}

#[test]
fn a_glob_brings_what_it_may_see() {
    let line_of_b = |third| {
        let second = "use crate::c::*; fn inner(first: First) {}";
        let graph = planted(&[
            ("src/lib.rs", "mod a; mod b; mod c;"),
            ("src/a.rs", "pub struct First;"),
            ("src/b.rs", second),
            ("src/c.rs", third),
        ]);
        graph.lines().lines().nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(line_of_b("use crate::a::First;"), "planted::b -> c");
    assert_eq!(line_of_b("pub struct Other; use crate::a::First;"), "planted::b -> c");
    assert_eq!(line_of_b("pub(super) use crate::a::First;"), "planted::b -> a, c");
    assert_eq!(line_of_b("pub use crate::a::*;"), "planted::b -> a, c");
}

#[test]
fn a_module_stands_for_what_is_below_it() {
    let deep = planted(&[
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "pub mod inner;"),
        ("src/a/inner.rs", "pub mod most; use super::super::b;"),
        ("src/a/inner/most.rs", "pub struct First;"),
        ("src/b/mod.rs", "mod inner { mod most { use super::super::super::a::inner::most::First; } }"),
    ]);
    let cycles = deep.cycles();
    assert!(matches!(&*cycles, [cycle] if cycle.contains("src/b/mod.rs:1: super::super::super::a")), "{cycles:?}");
    let nested = planted(&[
        ("src/lib.rs", "mod a;"),
        ("src/a/mod.rs", "mod one; mod two; pub use one::One; pub struct Own;"),
        ("src/a/one.rs", "use super::{Own, two::Two}; pub struct One;"),
        ("src/a/two.rs", "use super::One; pub struct Two;"),
    ]);
    assert!(matches!(&*nested.cycles(), [cycle] if cycle.starts_with("planted::a: one, two\n")));
}

#[test]
fn parents_and_children_may_use_each_other() {
    let family = planted(&[
        ("src/lib.rs", "mod a; pub struct Own;"),
        ("src/a.rs", "mod inner; pub use inner::Inner; pub struct First(pub (crate::Own, u8));"),
        ("src/a/inner.rs", "use super::First; use crate::{Own, a}; pub struct Inner;"),
    ]);
    assert!(family.cycles().is_empty());
    assert_eq!(family.lines(), "planted::a\nplanted::a::inner\n");
}

#[test]
fn files_are_found_where_the_compiler_finds_them() {
    let moved = planted(&[
        ("src/lib.rs", "#[path = \"elsewhere/first.rs\"] mod a; mod b { mod c; #[path = \"d_file.rs\"] mod d; }"),
        ("src/elsewhere/first.rs", "mod inner;"),
        ("src/elsewhere/inner.rs", "use crate::b::X;"),
        ("src/b/c.rs", "use super::d;"),
        ("src/b/d_file.rs", "use crate::a;"),
    ]);
    assert_eq!(
        moved.lines(),
        "planted::a -> b\nplanted::a::inner\nplanted::b -> a\nplanted::b::c -> d\nplanted::b::d\n"
    );
}

#[test]
fn a_macro_brings_what_its_body_names() {
    let body = "macro_rules! first { ($x:ident) => { $x(crate::c::Leaf, super::d::deep()) }; } pub(crate) use first;";
    let called = planted(&[
        ("src/lib.rs", "mod a; mod b; mod c; mod d;"),
        ("src/a.rs", body),
        ("src/b.rs", "use crate::a::first; fn inner() { first!(inner) }"),
        ("src/c.rs", "pub struct Leaf;"),
        ("src/d.rs", "pub fn deep() {}"),
    ]);
    assert_eq!(called.lines(), "planted::a -> c\nplanted::b -> a, d\nplanted::c\nplanted::d\n");
    let textual = planted(&[
        ("src/lib.rs", "#[macro_use] mod a; mod b;"),
        ("src/a.rs", "macro_rules! first { () => {}; }"),
        ("src/b.rs", "first!();"),
    ]);
    assert_eq!(textual.lines(), "planted::a\nplanted::b -> a\n");
}

#[test]
fn a_cycle_is_told_with_the_lines_that_make_it() {
    let told = two("use crate::b::Second;", "\nfn inner() {\n    crate::a::first();\n}\n").cycles();
    let expected =
        "planted: a, b\n  a -> b\n    src/a.rs:1: crate::b::Second\n  b -> a\n    src/b.rs:3: crate::a::first\n";
    assert_eq!(told, [expected]);
}
