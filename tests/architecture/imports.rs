//! Which file of src needs which other: every path of a file, resolved to the file that defines what it names.

use std::collections::{BTreeMap, BTreeSet};

/// A module's path below src: `["compare", "model"]`; empty for src/lib.rs.
type Module = Vec<String>;

/// The files of all crates, by module.
#[derive(Default)]
pub(super) struct Sources {
    files: BTreeMap<Module, Source>,
}

struct Source {
    /// Its name below src.
    name: String,
    /// Its code without comments and `use` declarations.
    code: String,
    /// Local name, path, and whether it is re-exported. A glob has the name `*`.
    imports: Vec<(String, Vec<String>, bool)>,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The leaves of the tree of a `use` declaration: local name and path.
fn leaves(tree: &str, before: &[String], found: &mut Vec<(String, Vec<String>)>) {
    let mut path = before.to_vec();
    let mut rest = tree.trim();
    loop {
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut item = String::new();
            for c in list.trim_end().trim_end_matches('}').chars().chain([',']) {
                depth += i32::from(c == '{') - i32::from(c == '}');
                if c == ',' && depth == 0 {
                    // A list whose last item is one ends with two braces.
                    let closed = item.matches('{').count() - item.matches('}').count();
                    leaves(&(item.clone() + &"}".repeat(closed)), &path, found);
                    item.clear();
                } else {
                    item.push(c);
                }
            }
            return;
        }
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let after = after.trim_start();
        if let Some(next) = after.strip_prefix("::") {
            path.push(word.to_owned());
            rest = next.trim_start();
            continue;
        }
        match (word, after.strip_prefix("as ")) {
            ("self", alias) => {
                let name = path.last().cloned().unwrap_or_default();
                found.push((alias.map_or(name, |alias| alias.trim().to_owned()), path));
            }
            ("", _) if after == "*" => found.push(("*".to_owned(), path)),
            ("", _) => {}
            (word, alias) => {
                path.push(word.to_owned());
                found.push((alias.unwrap_or(word).trim().to_owned(), path));
            }
        }
        return;
    }
}

/// Paths of two words or more in code: `super::measure::as_f64`.
fn paths(code: &str) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut path: Vec<String> = Vec::new();
    let mut rest = code;
    while let Some(start) = rest.find(is_word) {
        let word = &rest[start..];
        let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
        path.push(word[..end].to_owned());
        rest = &word[end..];
        match rest.strip_prefix("::") {
            Some(next) if next.starts_with(is_word) => rest = next,
            _ if path.len() > 1 => drop(found.insert(std::mem::take(&mut path))),
            _ => path.clear(),
        }
    }
    found
}

impl Sources {
    /// `files`: names below src, and their product code.
    pub(super) fn new(files: impl Iterator<Item = (String, String)>) -> Self {
        let mut sources = Self::default();
        for (name, text) in files {
            let mut module: Module = name.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if ["mod", "lib"].contains(&module.last().map_or("", String::as_str)) {
                module.pop();
            }
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let lines = lines.map(|line| line.split(" // ").next().unwrap_or_default());
            let mut source = Source { name, code: String::new(), imports: Vec::new() };
            let mut declaration = String::new();
            for line in lines {
                let words = line.trim_start();
                let visible = words.starts_with("pub");
                let item = if visible { words.split_once(' ').map_or("", |(_, item)| item) } else { words };
                if !declaration.is_empty() || item.starts_with("use ") {
                    declaration.push_str(words);
                    if words.ends_with(';') {
                        let (before, tree) = declaration.split_once("use ").unwrap_or_default();
                        let mut found = Vec::new();
                        leaves(tree.trim_end_matches(';'), &[], &mut found);
                        let shown = before.starts_with("pub");
                        source.imports.extend(found.into_iter().map(|(name, path)| (name, path, shown)));
                        declaration.clear();
                    }
                } else {
                    // A module that is declared is not used yet.
                    let declares = item.starts_with("mod ") && item.ends_with(';');
                    source.code.push_str(if declares { "" } else { line });
                    source.code.push('\n');
                }
            }
            sources.files.insert(module, source);
        }
        sources
    }

    /// The module whose file defines what `path` names in `module`; `None` if that is a module, or not of this crate.
    fn defined(&self, module: &[String], path: &[String]) -> Option<Module> {
        self.place(module, path, 0).filter(|(_, is_item)| *is_item).map(|(found, _)| found)
    }

    /// The module that `path` names in `module`, or whose file defines the item that it names. A name that a module only
    /// re-exports is of the file that it comes from.
    fn place(&self, module: &[String], path: &[String], depth: usize) -> Option<(Module, bool)> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            // Crates name each other as their own modules.
            "crate" if rest.first().is_some_and(|name| self.files.contains_key(&vec![name.clone()])) => Vec::new(),
            "crate" => module.first().cloned().into_iter().collect(),
            "self" => module.to_vec(),
            "super" => module.split_last()?.1.to_vec(),
            name => {
                let child = [module, &[name.to_owned()]].concat();
                let imported = self.files.get(module)?.imports.iter().find(|(local, ..)| local == name);
                match imported {
                    _ if self.files.contains_key(&child) => child,
                    Some((_, path, _)) if depth < 16 && path.first() != Some(first) => {
                        let full = [path, rest].concat();
                        return self.place(module, &full, depth + 1);
                    }
                    _ => return None,
                }
            }
        };
        while let Some((word, after)) = rest.split_first() {
            let child = [at.clone(), vec![word.clone()]].concat();
            if word == "super" {
                at.pop();
            } else if self.files.contains_key(&child) {
                at = child;
            } else {
                let source = self.files.get(&at)?;
                let found = source.imports.iter().find(|(local, ..)| local == word);
                let globs = source.imports.iter().filter(|(local, ..)| local == "*");
                let defines = |module: &Module| {
                    let code = &self.files[module].code;
                    ["struct", "enum", "trait", "type", "fn", "const", "static"]
                        .iter()
                        .any(|kind| code.contains(&format!("{kind} {word}")))
                };
                let glob = || globs.filter_map(|(_, path, _)| Some(self.place(&at, path, depth + 1)?.0)).find(defines);
                return match found {
                    Some((_, path, _)) if depth < 16 => self.place(&at, path, depth + 1),
                    _ => Some((glob().unwrap_or(at), true)),
                };
            }
            rest = after;
        }
        Some((at, false))
    }

    /// For each file, the files that it needs, and the names that it needs of them. What it only re-exports, it does not need.
    pub(super) fn needed(&self) -> Needed<'_> {
        let mut needed = Needed::new();
        for (module, source) in &self.files {
            let has = |name: &str| source.code.split(|c| !is_word(c)).any(|word| word == name);
            let used = source.imports.iter().filter(|(name, _, shown)| !shown || has(name));
            let imports = used.map(|(_, path, _)| path.clone());
            let of_file = needed.entry(&source.name).or_default();
            for path in imports.chain(paths(&source.code)) {
                let Some(other) = self.defined(module, &path).filter(|other| other != module) else { continue };
                let name = path.last().cloned().unwrap_or_default();
                of_file.entry(&self.files[&other].name).or_default().insert(name);
            }
        }
        needed
    }
}

/// By file, then by a file that it needs: names.
pub(super) type Needed<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<String>>>;

/// The files that need each other, directly or not: each a list of at least two.
pub(super) fn cycles<'a>(needed: &Needed<'a>) -> Vec<Vec<&'a str>> {
    let reach = |from: &'a str| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut next = vec![from];
        while let Some(file) = next.pop() {
            next.extend(needed.get(file).into_iter().flatten().map(|(file, _)| *file).filter(|file| seen.insert(file)));
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = needed.keys().map(|file| (*file, reach(file))).collect();
    let mut found: Vec<Vec<&str>> = Vec::new();
    for (file, others) in &reached {
        let together: Vec<&str> = others.iter().copied().filter(|other| reached[other].contains(file)).collect();
        if together.len() > 1 && !found.contains(&together) {
            found.push(together);
        }
    }
    found
}
