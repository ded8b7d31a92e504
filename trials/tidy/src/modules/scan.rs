//! One module's tokens, read once: which names it declares and imports, which modules it has, and which paths it contains.
//! Items that are compiled for tests only are left out.
//!
//! `names` decides what a path means.

use super::{
    module::{Import, Module, ModulePath, Reference},
    test_code::{end_of_item, says_test},
    tokens::{Kind, Token, end_of_group, tokens},
};

/// A `mod` declaration.
pub(super) struct Child {
    pub(super) name: String,
    pub(super) visible_in: ModulePath,
    /// The tokens between its braces, if it is inline.
    pub(super) body: Option<(usize, usize)>,
    /// What `#[path]` says.
    pub(super) file: Option<String>,
}

/// Reads the names and paths of `module` from its tokens, and returns the modules that it declares.
pub(super) fn scan(module: &mut Module, tokens: &[Token]) -> Vec<Child> {
    let mut scan = Scan { module, tokens, position: 0, block: 0, depth: 0, children: Vec::new() };
    scan.run();
    scan.children
}

/// Goes through the tokens of one module once.
struct Scan<'a> {
    module: &'a mut Module,
    tokens: &'a [Token],
    position: usize,
    block: usize,
    /// How many brackets of any kind are open.
    depth: usize,
    children: Vec<Child>,
}

/// Keywords that declare an item whose name follows.
const DECLARATIONS: [&str; 9] = ["struct", "enum", "union", "trait", "type", "const", "static", "fn", "macro_rules"];
/// Words that begin no path.
const KEYWORDS: [&str; 37] = [
    "as", "async", "await", "break", "const", "continue", "dyn", "else", "enum", "extern", "false", "fn", "for", "if",
    "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "static", "struct", "trait",
    "true", "type", "union", "unsafe", "use", "where", "while", "yield", "Self",
];

impl Scan<'_> {
    fn run(&mut self) {
        let mut visible_in = self.module.path.clone();
        let mut given_file = None;
        while let Some(token) = self.tokens.get(self.position) {
            match &token.kind {
                Kind::Sign('#') if self.attribute_opens().is_some() => {
                    given_file = self.attributes().or(given_file);
                    continue;
                }
                Kind::Sign('{') => self.open_block(),
                Kind::Sign('(' | '[') => self.depth += 1,
                Kind::Sign(')' | ']') => self.depth = self.depth.saturating_sub(1),
                Kind::Sign('}') => self.close_block(),
                Kind::Word(word) => match word.as_str() {
                    "pub" => {
                        visible_in = self.visibility();
                        continue;
                    }
                    "use" if self.begins_item() => {
                        self.import(&visible_in);
                        visible_in.clone_from(&self.module.path);
                        continue;
                    }
                    "mod" if self.depth == 0 && self.word_at(1).is_some() => {
                        let visible_in = std::mem::replace(&mut visible_in, self.module.path.clone());
                        self.child(visible_in, given_file.take());
                        continue;
                    }
                    "macro_rules" if self.sign_at(1, '!') => {
                        self.macro_rules();
                        continue;
                    }
                    "const"
                        if self.word_at(1).is_some_and(|word| ["fn", "async", "unsafe", "extern"].contains(&word)) => {}
                    "async" | "unsafe" | "extern" => {}
                    keyword if DECLARATIONS.contains(&keyword) => {
                        let visible_in = std::mem::replace(&mut visible_in, self.module.path.clone());
                        self.declaration(visible_in);
                        continue;
                    }
                    _ => {
                        visible_in.clone_from(&self.module.path);
                        self.reference();
                        continue;
                    }
                },
                _ => {}
            }
            self.position += 1;
        }
    }

    fn word_at(&self, ahead: usize) -> Option<&str> {
        self.tokens.get(self.position + ahead)?.word()
    }

    fn sign_at(&self, ahead: usize, sign: char) -> bool {
        self.tokens.get(self.position + ahead).is_some_and(|token| token.is(sign))
    }

    fn open_block(&mut self) {
        self.module.blocks.push(self.block);
        self.block = self.module.blocks.len() - 1;
        self.depth += 1;
    }

    fn close_block(&mut self) {
        self.block = self.module.blocks[self.block];
        self.depth = self.depth.saturating_sub(1);
    }

    /// `use` also begins precise capturing: `impl Trait + use<'a>`.
    fn begins_item(&self) -> bool {
        !self.sign_at(1, '<')
    }

    /// The position of the `[` of an attribute.
    fn attribute_opens(&self) -> Option<usize> {
        let ahead = if self.sign_at(1, '!') { 2 } else { 1 };
        self.sign_at(ahead, '[').then_some(self.position + ahead)
    }

    /// Reads consecutive attributes. The item after them is skipped if one says that it is a test; otherwise the file that
    /// `#[path]` names is returned.
    fn attributes(&mut self) -> Option<String> {
        let (mut is_test, mut given_file) = (false, None);
        while self.sign_at(0, '#')
            && let Some(open) = self.attribute_opens()
        {
            let end = end_of_group(self.tokens, open);
            let inside = &self.tokens[open + 1..end - 1];
            is_test |= says_test(inside);
            if let [name, equals, Token { kind: Kind::Text(file), .. }] = inside
                && name.word() == Some("path")
                && equals.is('=')
            {
                given_file = Some(file.clone());
            }
            if !is_test {
                self.attribute_paths(open + 1, end - 1);
            }
            self.position = end;
        }
        if is_test {
            self.position = end_of_item(self.tokens, self.position);
            return None;
        }
        given_file
    }

    /// Paths in an attribute, and those in the texts by which serde and schemars name functions and types.
    fn attribute_paths(&mut self, start: usize, end: usize) {
        self.position = start;
        let names_paths = self.word_at(0).is_some_and(|word| ["serde", "schemars"].contains(&word));
        while self.position < end {
            if let Some(Token { kind: Kind::Text(text), line }) = self.tokens.get(self.position)
                && names_paths
                && self.tokens[self.position - 1].is('=')
                && self.tokens[self.position - 2].word().is_some_and(|key| PATH_KEYS.contains(&key))
            {
                let mut inner = tokens(text);
                for token in &mut inner {
                    token.line = *line;
                }
                self.text_paths(&inner);
            }
            match self.word_at(0) {
                Some(_) => self.reference(),
                None => self.position += 1,
            }
        }
    }

    fn text_paths(&mut self, text: &[Token]) {
        let (block, depth) = (self.block, self.depth);
        Scan { module: self.module, tokens: text, position: 0, block, depth, children: Vec::new() }.run();
    }

    /// Reads `pub`, `pub(crate)`, `pub(super)` or `pub(in path)`, and returns which modules see the item.
    fn visibility(&mut self) -> ModulePath {
        self.position += 1;
        let own = &self.module.path;
        let parent = own[..own.len().saturating_sub(1)].to_vec();
        let restricted = self.sign_at(0, '(') && (self.sign_at(2, ')') || self.word_at(1) == Some("in"));
        let visible_in = match self.word_at(1).filter(|_| restricted) {
            Some("super") => parent,
            Some("self") => own.clone(),
            Some("in") => {
                let end = end_of_group(self.tokens, self.position);
                let words: Vec<&str> = self.tokens[self.position..end].iter().filter_map(Token::word).collect();
                let climbs = words.iter().filter(|word| **word == "super").count();
                match words.get(1) {
                    Some(&"crate") => words[2..].iter().map(|word| (*word).to_owned()).collect(),
                    _ => own[..own.len().saturating_sub(climbs)].to_vec(),
                }
            }
            Some("crate") => Vec::new(),
            // A tuple field: `struct Pair(pub (First, Second))`.
            Some(_) | None => return Vec::new(),
        };
        self.position = end_of_group(self.tokens, self.position);
        visible_in
    }

    fn import(&mut self, visible_in: &ModulePath) {
        let line = self.tokens[self.position].line;
        let start = self.position + 1;
        let length = self.tokens[start..].iter().position(|token| token.is(';')).unwrap_or(0);
        let mut leaves = Vec::new();
        use_tree(&self.tokens[start..start + length], &[], &mut leaves);
        for (name, path, leaf_line) in leaves {
            let line = leaf_line.unwrap_or(line);
            let visible_in = visible_in.clone();
            self.module.imports.push(Import { name, path, visible_in, block: self.block, line });
        }
        self.position = start + length + 1;
    }

    fn child(&mut self, visible_in: ModulePath, file: Option<String>) {
        let name = self.word_at(1).unwrap_or_default().to_owned();
        let open = self.position + 2;
        let body = self.sign_at(2, '{').then(|| (open + 1, end_of_group(self.tokens, open) - 1));
        self.position = body.map_or(open + 1, |(_, end)| end + 1);
        self.children.push(Child { name, visible_in, body, file });
    }

    fn declaration(&mut self, visible_in: ModulePath) {
        // Neither `fn(Argument)` nor the `const N: usize` of a generic item declares a name of the module.
        let before = self.position.checked_sub(1).and_then(|position| self.tokens.get(position));
        let is_parameter = before.is_some_and(|token| token.is('<') || token.is(','));
        if let Some(name) = self.word_at(1).filter(|word| !KEYWORDS.contains(word)) {
            let name = name.to_owned();
            if self.depth == 0 && !is_parameter {
                self.module.items.insert(name, visible_in);
            }
            self.position += 1;
        }
        self.position += 1;
    }

    /// A macro's body is code of the module that calls it, except for the paths that begin at the crate's root.
    fn macro_rules(&mut self) {
        let name = self.word_at(2).unwrap_or_default().to_owned();
        let open = self.position + 3;
        let end = end_of_group(self.tokens, open);
        let (before, block) = (self.module.references.len(), self.block);
        self.position = open;
        while self.position < end {
            match self.word_at(0) {
                Some(_) => self.reference(),
                None => self.position += 1,
            }
        }
        let inside = self.module.references.split_off(before);
        let from_root = |reference: &Reference| reference.path.first().is_some_and(|word| word == "crate");
        let (absolute, relative): (Vec<_>, Vec<_>) = inside.into_iter().partition(from_root);
        self.module.references.extend(absolute);
        self.module.macros.insert(name.clone(), relative);
        self.module.items.insert(name, Vec::new());
        self.block = block;
    }

    /// Reads a path and notes it, unless it is a field, a method, a keyword or the rest of a longer path.
    fn reference(&mut self) {
        let start = self.position;
        let line = self.tokens[start].line;
        let mut path = vec![self.word_at(0).unwrap_or_default().to_owned()];
        self.position += 1;
        while self.tokens.get(self.position).is_some_and(|token| token.kind == Kind::Separator)
            && let Some(word) = self.word_at(1)
        {
            path.push(word.to_owned());
            self.position += 2;
        }
        let behind = |back: usize| start.checked_sub(back).and_then(|position| self.tokens.get(position));
        let behind_is = |back: usize, sign: char| behind(back).is_some_and(|token| token.is(sign));
        let is_field = behind_is(1, '.') && !behind_is(2, '.');
        let is_rest = behind(1).is_some_and(|token| token.kind == Kind::Separator);
        let is_fragment = behind_is(1, '$') && path[0] != "crate";
        let is_macro = self.sign_at(0, '!') && !self.sign_at(1, '=');
        let is_local = path.len() == 1 && !self.may_be_imported(&path[0], is_macro);
        if !(is_field || is_rest || is_fragment || is_local || KEYWORDS.contains(&path[0].as_str())) {
            self.module.references.push(Reference { path, block: self.block, line, is_macro });
        }
    }

    /// Whether one word may be an item that a glob brings in: a type, a constant, a function that is called. Other
    /// words are variables, fields and arguments.
    fn may_be_imported(&self, word: &str, is_macro: bool) -> bool {
        is_macro || word.starts_with(char::is_uppercase) || self.sign_at(0, '(')
    }
}

/// Keys of serde and schemars whose texts are paths.
const PATH_KEYS: [&str; 11] = [
    "with",
    "default",
    "serialize_with",
    "deserialize_with",
    "skip_serializing_if",
    "from",
    "into",
    "try_from",
    "remote",
    "getter",
    "schema_with",
];

type Leaf = (Option<String>, Vec<String>, Option<usize>);

/// The leaves of a use tree: `a::{b, c as d, e::*, self}`.
fn use_tree(tokens: &[Token], prefix: &[String], leaves: &mut Vec<Leaf>) {
    let mut path = prefix.to_vec();
    let mut position = 0;
    if tokens.first().is_some_and(|token| token.kind == Kind::Separator) && prefix.is_empty() {
        // `::name` is another crate.
        return;
    }
    let line = tokens.first().map(|token| token.line);
    while let Some(token) = tokens.get(position) {
        match &token.kind {
            Kind::Word(word) if word == "as" => {
                let name = tokens.get(position + 1).and_then(Token::word).unwrap_or("_").to_owned();
                leaves.push((Some(name), path, line));
                return;
            }
            Kind::Word(word) if word == "self" && !path.is_empty() => {}
            Kind::Word(word) => path.push(word.clone()),
            Kind::Sign('*') => {
                leaves.push((None, path, line));
                return;
            }
            Kind::Sign('{') => {
                let end = end_of_group(tokens, position);
                for branch in branches(&tokens[position + 1..end - 1]) {
                    use_tree(branch, &path, leaves);
                }
                return;
            }
            _ => {}
        }
        position += 1;
    }
    leaves.push((path.last().cloned(), path, line));
}

/// The parts between the commas of a use tree's braces.
fn branches(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_usize;
    let parts = tokens.split(|token| {
        match token.kind {
            Kind::Sign('{') => depth += 1,
            Kind::Sign('}') => depth -= 1,
            _ => {}
        }
        depth == 0 && token.is(',')
    });
    parts.filter(|part| !part.is_empty()).collect()
}
