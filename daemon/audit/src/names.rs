//! Names that indicate a secret: of variables, options, headers and JSON keys. Pure: no I/O.

/// Words that indicate a secret, alone or as a part of a name (`DB_PASSWORD`, `apiToken`).
const WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "secrets",
    "token",
    "apikey",
    "credential",
    "credentials",
    "authorization",
    "auth",
    "cookie",
    "bearer",
];

/// Pairs of words that indicate a secret (`api_key`).
const PAIRS: &[(&str, &str)] = &[
    ("api", "key"),
    ("access", "key"),
    ("private", "key"),
    ("secret", "key"),
    ("encryption", "key"),
    ("signing", "key"),
    ("account", "key"),
];

/// Most characters of a name that are examined.
pub(crate) const NAME: usize = 64;

/// Returns `true` if a name indicates a secret.
pub(crate) fn names_a_secret(name: &str) -> bool {
    let words = words(name);
    let telling = |word: &String| WORDS.contains(&word.as_str()) || word.ends_with("password");
    words.iter().any(telling)
        || words.len() > 1 && words.last().is_some_and(|word| word == "pass")
        || words.windows(2).any(|pair| PAIRS.contains(&(pair[0].as_str(), pair[1].as_str())))
}

/// Splits a name into words in lower case: `dbPassword`, `DB_PASSWORD` and `db-password` give the
/// same.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before = '_';
    for c in name.chars().take(NAME) {
        let camel = before.is_ascii_lowercase() && c.is_ascii_uppercase();
        if !c.is_ascii_alphanumeric() || camel {
            words.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.push(word);
    words
}

/// Returns `true` if the variable is a shell's working directory. Its name looks like that of a
/// secret.
pub(crate) fn names_a_directory(name: &str, value: &str) -> bool {
    matches!(name, "PWD" | "OLDPWD") && value.starts_with('/')
}
