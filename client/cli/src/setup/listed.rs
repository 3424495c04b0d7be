//! An agent's own list of its servers, and what it says about Palisade's.

/// The name under which the configurations know the server.
const SERVER: &str = "palisade";

/// The words by which an agent says that a server can be used.
const USABLE: [&str; 3] = ["connected", "enabled", "ready"];

/// The words that turn one of these into its opposite.
const NOT: [&str; 2] = ["not", "never"];

/// The marks that agents put before a server that can not be used.
const BAD: [char; 5] = ['✗', '✘', '×', '⚠', '⏸'];

/// The state of the server according to an agent's list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListedServer<'a> {
    /// No line begins with the server's name.
    Absent,
    /// The agent does not say that it can use the server.
    Unusable(&'a str),
    Usable(&'a str),
}

/// Finds the server in a list. `words` are those of the server's command, which many lists repeat:
/// they say nothing about the server's state.
pub(super) fn find<'a>(list: &'a str, words: &[&str]) -> ListedServer<'a> {
    let named = list.lines().find_map(|line| Some((line, state(line, words)?)));
    match named {
        None => ListedServer::Absent,
        Some((line, state)) if is_usable(&state) => ListedServer::Usable(line.trim()),
        Some((line, _)) => ListedServer::Unusable(line.trim()),
    }
}

/// Returns what a line says besides the server's name and command; `None` if it is not the server's.
fn state(line: &str, words: &[&str]) -> Option<String> {
    let line = without_escapes(line);
    // Some lists have marks before the name.
    let start = line.find(|c: char| c.is_alphanumeric() || "/._-\"'".contains(c))?;
    let (marks, named) = line.split_at(start);
    let rest = named.strip_prefix(SERVER)?;
    if !rest.is_empty() && !rest.starts_with([':', ' ', '\t']) {
        return None;
    }
    let mut longest: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
    longest.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let rest = longest.iter().fold(rest.to_owned(), |rest, word| rest.replace(word, ""));
    Some(format!("{marks}{rest}"))
}

fn is_usable(state: &str) -> bool {
    let state = state.to_lowercase();
    let mut words = state.split(|c: char| !c.is_alphanumeric());
    let is_said = words.clone().any(|word| USABLE.contains(&word));
    is_said && !words.any(|word| NOT.contains(&word)) && !state.contains(BAD)
}

/// Returns a line without the sequences that paint it.
fn without_escapes(line: &str) -> String {
    let mut pieces = line.split('\u{1b}');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let parameters = piece.strip_prefix('[').unwrap_or_default();
        let end = parameters.find(|c: char| c.is_ascii_alphabetic());
        plain.push_str(end.and_then(|end| parameters.get(end + 1..)).unwrap_or(piece));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 4] = ["/x/palisade", "mcp", "--workspace", "/w/not connected"];

    #[test]
    fn each_agents_way_to_say_it_is_understood() {
        for line in [
            "palisade: /x/palisade mcp --workspace /w/not connected - ✓ Connected",
            "palisade  /x/palisade  mcp --workspace /w/not connected  -  -  enabled  Unsupported",
            "✓ palisade: /x/palisade mcp (stdio) - Connected",
            "\u{1b}[32m✓\u{1b}[0m palisade: /x/palisade mcp (stdio) - Connected",
            "●  ✓ palisade \u{1b}[90mconnected",
            "palisade: ready",
        ] {
            let list = format!("Servers of /home/palisade:\nother: x - ✗ Failed\n\n{line}\n");
            assert_eq!(find(&list, &WORDS), ListedServer::Usable(line), "{line}");
        }
    }

    #[test]
    fn a_server_that_is_dead_or_unnamed_is_not_usable() {
        for line in [
            "palisade: /x/palisade mcp - ✗ Failed to connect",
            "✗ palisade: /x/palisade mcp (stdio) - Disconnected",
            "○ palisade: /x/palisade mcp (stdio) - Disabled",
            "palisade: /x/palisade mcp - ⏸ Pending approval",
            "palisade: /w/not connected",
            "palisade: not ready",
            "palisade",
        ] {
            assert_eq!(find(line, &WORDS), ListedServer::Unusable(line), "{line}");
        }
        for list in [
            "No MCP servers configured in /src/palisade\n",
            "/src/palisade: connected\n",
            "palisade-old: x - ✓ Connected\n",
            "other: /x/palisade mcp - ✓ Connected\n",
            "",
        ] {
            assert_eq!(find(list, &WORDS), ListedServer::Absent, "{list}");
        }
    }
}
