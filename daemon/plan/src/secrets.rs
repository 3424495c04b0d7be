//! Names that usually hold a project's secrets, with the copies that editors and people leave of
//! them. Profiles hide them by `$SECRETS`.

/// Plain names, which are hidden also when they appear while a command runs. Each costs a whiteout
/// for every command, so they are few.
const NAMES: [&str; 9] =
    [".env", ".env.local", ".env.swp", ".env~", "#.env#", ".ssh", ".aws", ".gnupg", ".netrc"];

/// Endings of files with keys or passwords.
const ENDINGS: [&str; 11] = [
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".kdbx",
    ".pgpass",
    ".pypirc",
    ".netrc",
    "id_rsa",
    "id_ecdsa",
    "id_ed25519",
];

/// Endings that vim, emacs, nano, patch and people give to copies.
const COPIES: [&str; 8] = ["~", "#", ".swp", ".swo", ".bak", ".old", ".orig", ".save"];

/// Variables with passwords in other files than those of [`NAMES`], but not the templates that list their
/// names.
const VARIABLES: [&str; 5] =
    [".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist"];

/// Endings of sources and pages, which are not hidden whatever their names say.
const SOURCES: [&str; 28] = [
    "[ch]", "cc", "cpp", "cs", "css", "ex", "exs", "go", "hpp", "html", "java", "js", "jsx", "kt",
    "lua", "md", "mjs", "php", "proto", "py", "pyi", "rb", "rs", "rst", "scala", "svelte", "swift",
    "ts",
];

/// More of them, and what compilers make from sources.
const MORE_SOURCES: [&str; 7] = ["tsx", "vue", "zig", "pyc", "class", "[ado]", "map"];

/// Endings of files that hold data, also in a directory whose name says credentials.
const DATA: [&str; 6] = ["json", "yaml", "yml", "toml", "ini", "txt"];

/// Returns the patterns for `fs.hide`. Exceptions come after the patterns that they restrict.
#[must_use]
pub fn secret_patterns() -> Vec<String> {
    let owned = |text: &&str| (*text).to_owned();
    let mut patterns: Vec<String> = NAMES.iter().chain(&VARIABLES).map(owned).collect();
    patterns.push("#.env.*#".to_owned());
    for ending in ENDINGS {
        patterns.push(format!("*{ending}"));
        patterns.extend(COPIES.iter().map(|copy| format!("*{ending}{copy}")));
    }
    patterns.push("*credentials*".to_owned());
    patterns.push("!*credentials*/".to_owned());
    let sources = SOURCES.iter().chain(&MORE_SOURCES);
    patterns.extend(sources.map(|ending| format!("!*credentials*.{ending}")));
    patterns.push("!**/target/**/*credentials*".to_owned());
    patterns.extend(DATA.iter().map(|ending| format!("**/*credentials*/*.{ending}")));
    // Files of installed packages are public.
    patterns.extend(["!**/node_modules/**", "!**/site-packages/**"].iter().map(owned));
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Kind, Matcher, NameList};

    #[test]
    fn copies_of_secrets_are_meant_and_files_with_similar_names_are_not() {
        let matcher = Matcher::new(&[NameList(secret_patterns())]).unwrap();
        for (path, is_meant) in [
            (".env", true),
            ("a/b/.env.production", true),
            (".env~", true),
            ("#.env#", true),
            (".env.swp", true),
            (".env.bak", true),
            ("a/#.env.local#", true),
            ("tls/server.key", true),
            ("tls/.server.key.swp", true),
            ("tls/server.key~", true),
            ("tls/#server.pem#", true),
            ("tls/server.pem.orig", true),
            (".netrc.save", true),
            (".ssh/config", true),
            ("aws-credentials.json", true),
            ("credentials/prod.yaml", true),
            (".env.example", false),
            (".envrc", false),
            (".ssh2/known_hosts", false),
            ("deploy/id_ed25519.pub", false),
            ("src/key.rs", false),
            ("src/query.key.ts", false),
            ("src/monkey~", false),
            ("src/credentials.rs", false),
            ("src/credentials/mod.rs", false),
            ("target/debug/build/credentials-1/out", false),
            ("node_modules/x/test.key.bak", false),
        ] {
            let found = matcher.covers(path.as_bytes(), Kind::Other).is_some();
            assert_eq!(found, is_meant, "{path}");
        }
    }
}
