//! The house rules that the compiler does not check: which crate may use which, how long a file may be, and that
//! ARCHITECTURE.md and docs/modules.md name only what exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each crate and the crates of this workspace that it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("auth", &["base"]),
    ("fulltext", &["base"]),
    ("types", &["base", "fulltext"]),
    ("syntax", &["base"]),
    ("storage", &["base"]),
    ("wire", &["base"]),
    ("spill", &["base", "types", "storage"]),
    ("catalog", &["base", "fulltext", "types", "storage", "spill"]),
    ("bind", &["base", "types", "syntax", "catalog"]),
    ("plan", &["base", "fulltext", "types", "storage", "catalog", "bind"]),
    ("exec", &["base", "fulltext", "types", "storage", "spill", "catalog", "bind", "plan"]),
    (
        "context",
        &["base", "auth", "fulltext", "types", "syntax", "storage", "spill", "catalog", "bind", "plan", "exec"],
    ),
    ("ddl", &["base", "auth", "fulltext", "types", "syntax", "storage", "catalog", "bind", "plan", "exec", "context"]),
    (
        "sql",
        &[
            "base", "auth", "fulltext", "types", "syntax", "storage", "spill", "catalog", "bind", "plan", "exec",
            "context", "ddl",
        ],
    ),
    ("plpgsql", &["base", "types", "syntax", "context", "sql"]),
    // The lab is the one exception to arrows down: the program has `lab` and `top` as commands, and the console its client.
    ("server", &["base", "auth", "types", "syntax", "storage", "context", "sql", "plpgsql", "wire", "lab"]),
    // These two see a server from outside.
    ("lab", &["base"]),
    ("sim", &["base", "lab"]),
    // This one replaces what is below a server, and drives its sessions without one.
    ("simulation", &["base", "lab", "sim", "storage", "context", "sql", "plpgsql"]),
];

/// The modules of a crate in their order: each may use those before it.
const MODULES: &[(&str, &[&str])] = &[(
    "context",
    &[
        "client",
        "settings",
        "log",
        "notify",
        "exports",
        "logged_changes",
        "authentication",
        "cluster",
        "privileges",
        "host",
        "session_context",
    ],
)];

/// Crates whose threads, locks and clocks a simulation takes over.
const SIMULATED: &[&str] = &[
    "storage", "spill", "catalog", "bind", "plan", "exec", "context", "ddl", "sql", "plpgsql", "types", "fulltext",
    "server", "auth",
];
/// What they take from `kilndb_base::sync` and `kilndb_base::env` instead.
const NOT_SIMULATED: &[&str] = &[
    "std::sync::atomic",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::sync::Barrier",
    "std::sync::Once",
    "std::sync::LazyLock",
    "std::sync::mpsc",
    "std::sync::{",
    "std::thread",
    "thread::spawn",
    "thread_local!",
    "Instant::now",
    "SystemTime::now",
    "std::hint::spin_loop",
    "std::collections::HashMap::",
    "std::collections::HashSet::",
    "foldhash::",
];
/// Files that go around it: each with its reason.
const AROUND_SIMULATION: &[(&str, &str)] = &[
    ("server/src/allocator.rs", "an allocator must not be interrupted"),
    ("server/src/apart.rs", "asks how many cores there are"),
    ("server/src/code_pages.rs", "runs before there are threads"),
    ("server/src/crash.rs", "a crash is planted in a thread"),
    ("server/src/folder.rs", "waits for other processes"),
    ("server/src/listen.rs", "the accept loops' log lines are paced by the machine's clock"),
    ("server/src/supervisor.rs", "another process than the engine"),
    ("server/src/serve.rs", "asks how many cores there are"),
    ("exec/src/lockrows.rs", "a hasher without a seed"),
    ("sql/src/session/temporary_instance.rs", "only tests have it: it asks whether one has failed"),
    ("types/src/numeric/grouped/long/measure.rs", "measures by hand"),
];

/// Of files that people write.
const LINES_MAX: usize = 1000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn crates() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("crates")).expect("the folder crates");
    entries
        .flatten()
        .filter(|e| e.path().join("Cargo.toml").is_file())
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if entry.file_name() != "target" {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Names of this workspace's crates in a manifest's sections of dependencies (those for tests aside).
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut section = String::new();
    let mut names = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_string();
        }
        let in_table = section.strip_prefix("dependencies.");
        let name = match in_table {
            Some(name) => name,
            None if section.ends_with("dependencies") && section != "dev-dependencies" => {
                line.split(['=', '.', ' ']).next().unwrap_or_default()
            }
            None => continue,
        };
        if let Some(name) = name.strip_prefix("kilndb-") {
            names.insert(name.to_string());
        }
    }
    names
}

#[test]
fn no_crate_imports_upward() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut wrong = Vec::new();
    for name in crates() {
        let manifest = read(&root().join("crates").join(&name).join("Cargo.toml"));
        let Some(may) = allowed.get(name.as_str()) else {
            wrong.push(format!("crate {name} has no place in the table of layers"));
            continue;
        };
        for used in dependencies(&manifest) {
            if !may.contains(&used.as_str()) {
                wrong.push(format!("{name} must not use {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_module_uses_one_after_it() {
    let mut wrong = Vec::new();
    for (name, order) in MODULES {
        let source = root().join("crates").join(name).join("src");
        for (at, module) in order.iter().enumerate() {
            let mut files = Vec::new();
            rust_files(&source.join(module), &mut files);
            files.extend(Some(source.join(format!("{module}.rs"))).filter(|file| file.is_file()));
            assert!(!files.is_empty(), "{name} has no module {module}");
            for path in files {
                let text = read(&path);
                let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                let used = code.flat_map(|line| line.split("crate::").skip(1));
                let used =
                    used.map(|rest| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or(""));
                let later = &order[at + 1..];
                wrong.extend(
                    used.filter(|other| later.contains(other)).map(|other| format!("{} uses {other}", path.display())),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn dependencies_are_found_in_a_manifest() {
    let manifest = "[package]\nname = \"kilndb-x\"\n[dependencies]\nkilndb-base.workspace = true\nkilndb-sql = { path = \"\" }\n\
        libc = \"1\"\n[dev-dependencies]\nkilndb-lab.workspace = true\n[dependencies.kilndb-wire]\npath = \"\"\n";
    let names: Vec<String> = dependencies(manifest).into_iter().collect();
    assert_eq!(names, ["base", "sql", "wire"]);
}

#[test]
fn no_file_is_too_long() {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    assert!(!files.is_empty());
    let long: Vec<String> = files
        .iter()
        .map(|path| (path, read(path)))
        .filter(|(_, text)| !text.lines().next().is_some_and(|first| first.contains(" Written by scripts/")))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| format!("{}: {lines} lines", path.display()))
        .collect();
    assert!(long.is_empty(), "over {LINES_MAX} lines:\n{}", long.join("\n"));
}

/// A file's text without its unit tests, which come last.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

#[test]
fn nothing_goes_around_the_simulation() {
    let mut wrong = Vec::new();
    let folder = root().join("crates");
    for name in SIMULATED {
        let mut files = Vec::new();
        rust_files(&folder.join(name).join("src"), &mut files);
        for path in files {
            let relative = path.strip_prefix(&folder).expect("a file of a crate").display().to_string();
            let is_test = relative.ends_with("tests.rs") || relative.contains("/stops/");
            if is_test || AROUND_SIMULATION.iter().any(|(file, _)| *file == relative) {
                continue;
            }
            let text = read(&path);
            let used = NOT_SIMULATED.iter().filter(|word| {
                // Of std::sync's lists those that name nothing but counted pointers are harmless.
                without_tests(&text)
                    .lines()
                    .any(|line| line.contains(**word) && !line.contains("std::sync::{Arc, Weak}"))
            });
            wrong.extend(used.map(|word| format!("{relative} uses {word}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unused: Vec<_> = AROUND_SIMULATION.iter().filter(|(file, _)| !folder.join(file).is_file()).collect();
    assert!(unused.is_empty(), "these exceptions are of no file: {unused:?}");
}

/// `crate::path::Symbol` or `crates/…` between backticks.
fn symbols(text: &str) -> Vec<String> {
    let crates: BTreeSet<String> = crates().into_iter().collect();
    let mut in_block = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        for word in line.split('`').skip(1).step_by(2) {
            let first = word.split("::").next().unwrap_or_default();
            if word.starts_with("crates/")
                || word.starts_with("docs/")
                || (word.contains("::") && crates.contains(first))
            {
                found.push(word.to_string());
            }
        }
    }
    found
}

/// Follows modules as far as there are files for them, then looks for the definition in that file (or below that
/// folder), and for a method's definition in the same place.
fn exists(symbol: &str) -> bool {
    if symbol.starts_with("crates/") || symbol.starts_with("docs/") {
        return root().join(symbol).exists();
    }
    let mut parts = symbol.split("::");
    let Some(name) = parts.next() else { return false };
    let mut place = root().join("crates").join(name).join("src");
    let mut rest: Vec<&str> = parts.collect();
    while let Some(&module) = rest.first() {
        if place.join(module).is_dir() {
            place = place.join(module);
        } else if place.join(format!("{module}.rs")).is_file() {
            place = place.join(format!("{module}.rs"));
            rest.remove(0);
            break;
        } else {
            break;
        }
        rest.remove(0);
    }
    let mut files = Vec::new();
    if place.is_dir() {
        rust_files(&place, &mut files)
    } else {
        files.push(place)
    }
    let text: String = files.iter().map(|f| read(f)).collect();
    rest.iter().all(|item| defines(&text, item.trim_end_matches("()")))
}

/// Whether `text` defines an item, a variant or a field of that name.
fn defines(text: &str, name: &str) -> bool {
    text.lines().map(str::trim_start).any(|line| {
        let Some(at) = line.find(name) else { return false };
        let after = line[at + name.len()..].chars().next();
        if after.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            return false;
        }
        let before = line[..at].trim_end();
        let keyword = before.rsplit([' ', ')']).next().unwrap_or_default();
        let variant = before.is_empty() && matches!(after, None | Some(',' | '(' | ' '));
        variant || matches!(keyword, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "mod" | "use")
    })
}

#[test]
fn architecture_and_modules_name_what_exists() {
    for page in ["ARCHITECTURE.md", "docs/modules.md"] {
        let symbols = symbols(&read(&root().join(page)));
        assert!(symbols.len() > 20, "{page} names only {} symbols", symbols.len());
        let missing: Vec<&String> = symbols.iter().filter(|s| !exists(s)).collect();
        assert!(missing.is_empty(), "{page} names what is not there: {missing:?}");
    }
}

#[test]
fn a_symbol_that_does_not_exist_is_noticed() {
    assert!(exists("lab::client::Client::connect"));
    assert!(!exists("lab::client::Client::no_such_method"));
    assert!(!exists("lab::client::NoSuchType"));
    assert!(!exists("crates/nosuch"));
}

// ---- the modules of storage

/// Storage's modules from the lowest layer to the highest: a module uses those of its own layer and of lower ones. A
/// file belongs to the longest path that it begins with.
const STORAGE_LAYERS: &[(&str, &[&str])] = &[
    (
        "plain things",
        &[
            "crc",
            "changed_rows",
            "entry_changes",
            "hot_rows",
            "page",
            "reserve",
            "sync_switch",
            "space",
            "method::registry",
        ],
    ),
    (
        "formats",
        &[
            "undo::entries",
            "undo::many",
            "undo::record",
            "heap::page",
            "btree::node",
            "wal::frame",
            "wal::tag",
            "wal::record",
        ],
    ),
    ("words of the interface, settings, counters", &["api", "tuning", "stats", "commit_times", "accesses", "trace"]),
    ("the log", &["wal"]),
    ("pages in memory", &["buffer", "image"]),
    ("what transactions leave and wait for", &["undo", "locks", "btree::dead_prefix"]),
    ("states", &["txn::table", "txn::purge_queue", "txn::unended", "btree::sweep_queue", "btree::shrink_queue"]),
    ("what all share: each of these knows the others", &["core", "directory", "ssi"]),
    ("transactions", &["txn", "ssi::hooks", "locks::owner", "places"]),
    ("rows", &["heap", "txn::visibility", "ahead", "cell", "report"]),
    ("what an index method is", &["method"]),
    ("index methods", &["btree", "inverted", "hash"]),
    ("taking back, cleaning up", &["txn::rollback", "txn::purge", "undo::compact", "method::dispatch"]),
    ("checkpoints and recovery", &["control", "image::taking", "checkpoint", "restore", "recovery"]),
    ("the engine", &["cleaner", "engine", "figures"]),
    ("who uses an engine, or looks at what it leaves", &["private", "check", "inspect"]),
];
/// Files of storage that know each other.
const STORAGE_CIRCLE: &[&str] = &["core", "directory", "ssi", "ssi::locks", "ssi::ranges"];
/// What is compiled for tests alone, and the list of modules.
const NO_STORAGE_MODULES: &[&str] = &[
    "lib",
    "heap::passing_tests",
    "heap::settled_tests",
    "stops",
    "stops::tests",
    "ssi::tests",
    "recovery::tests",
    "undo::tests",
    "btree::merge::tests",
    "btree::settle_many::tests",
    "wal::fuzz",
    "wal::tests",
];

/// The files of storage as module paths, and what each uses of the others.
fn storage_uses() -> BTreeMap<String, BTreeSet<String>> {
    let source = root().join("crates/storage/src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let path_of = |file: &Path| {
        let name = file.strip_prefix(&source).unwrap_or(file).with_extension("");
        let name = name.to_string_lossy().replace('/', "::");
        name.strip_suffix("::mod").map(str::to_string).unwrap_or(name)
    };
    let texts: BTreeMap<String, String> = files.iter().map(|file| (path_of(file), read(file))).collect();
    let modules = texts.iter().filter(|(module, _)| !NO_STORAGE_MODULES.contains(&module.as_str()));
    let used = |(module, text): (&String, &String)| {
        let paths = paths_used(module, &code_of(text));
        let found = paths.iter().filter_map(|path| longest_prefix(path, |prefix| texts.contains_key(prefix)));
        (module.clone(), found.filter(|other| other != module).collect())
    };
    modules.map(used).collect()
}
/// Without comments, and without what is compiled for tests alone.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let without_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let mut lines = without_tests.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            lines.next();
            continue;
        }
        code += line.split("//").next().unwrap_or("");
        code.push('\n');
    }
    code.replace("pub(crate)", "pub").replace("pub(super)", "pub")
}
/// Paths from the crate's root that begin with `crate` or `super`.
fn paths_used(module: &str, code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let is_word = code[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || "_:$".contains(c));
            if is_word {
                continue;
            }
            let mut own: Vec<&str> = if root == "super::" { module.split("::").collect() } else { Vec::new() };
            let mut rest = &code[at..];
            while let Some(after) = rest.strip_prefix("super::") {
                own.pop();
                rest = after;
            }
            let rest = rest.strip_prefix("crate::").unwrap_or(rest);
            let end = rest.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c))).unwrap_or(rest.len());
            let (path, group) = rest.split_at(end);
            own.extend(path.trim_end_matches("::").split("::").filter(|word| !word.is_empty()));
            paths.push(own.join("::"));
            if let Some(list) = group.strip_prefix('{').and_then(|list| list.split('}').next()) {
                paths.extend(list.split(',').map(|one| format!("{}::{}", own.join("::"), one.trim())));
            }
        }
    }
    paths
}
/// The longest beginning of a path that is of some kind.
fn longest_prefix(path: &str, is_one: impl Fn(&str) -> bool) -> Option<String> {
    let words: Vec<&str> = path.split("::").collect();
    (1..=words.len()).rev().map(|count| words[..count].join("::")).find(|prefix| is_one(prefix))
}
fn storage_layer(module: &str) -> Option<usize> {
    let layer_of = |path: &str| STORAGE_LAYERS.iter().position(|(_, modules)| modules.contains(&path));
    longest_prefix(module, |prefix| layer_of(prefix).is_some()).and_then(|path| layer_of(&path))
}

#[test]
fn no_module_of_storage_uses_a_higher_one() {
    let mut wrong = Vec::new();
    for (module, used) in storage_uses() {
        let Some(layer) = storage_layer(&module) else {
            wrong.push(format!("{module} is in no layer"));
            continue;
        };
        let higher = used.iter().filter(|other| storage_layer(other).is_some_and(|of_other| of_other > layer));
        wrong.extend(higher.map(|other| format!("{module} uses {other}, which is above it")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_files_of_storage_use_each_other_in_a_circle() {
    let mut uses = storage_uses();
    for (module, used) in &mut uses {
        used.retain(|other| !STORAGE_CIRCLE.contains(&module.as_str()) || !STORAGE_CIRCLE.contains(&other.as_str()));
    }
    // What uses nothing that is left is in no circle.
    loop {
        let ends: Vec<String> = uses.iter().filter(|(_, used)| used.is_empty()).map(|(m, _)| m.clone()).collect();
        if ends.is_empty() {
            break;
        }
        uses.retain(|module, _| !ends.contains(module));
        let left: BTreeSet<String> = uses.keys().cloned().collect();
        uses.values_mut().for_each(|used| used.retain(|other| left.contains(other)));
    }
    assert!(uses.is_empty(), "circles, and what uses them: {uses:#?}");
}

#[test]
fn uses_are_found_in_code() {
    let code = code_of(
        "use crate::a::{b, c::D};\n// crate::e\npub(super) fn f(x: super::g::H) {}\n#[cfg(test)]\nuse crate::i;\n",
    );
    let found: BTreeSet<String> = paths_used("top::own", &code).into_iter().collect();
    let expected = ["a", "a::b", "a::c::D", "top::g::H"];
    assert_eq!(found, expected.map(str::to_string).into());
}
