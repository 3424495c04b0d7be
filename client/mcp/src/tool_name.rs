//! The names of servers' tools, as rules, approval requests, the audit log and models know them.

use sha2::{Digest as _, Sha256};

/// The maximum length of a name that models' APIs take is 64, and clients put `mcp__palisade__`
/// before it.
const MAX_OFFERED: usize = 64 - "mcp__palisade__".len();

/// The length of the digest that tells names apart, in digits.
const DIGEST: usize = 8;

/// Returns the name under which models are offered a tool: that for rules, if it is short enough.
pub(crate) fn offered(server: &str, tool: &str) -> String {
    let name = of_tool(server, tool);
    if name.len() <= MAX_OFFERED { name } else { told_apart(server, tool) }
}

/// Returns a name that no other tool of the server has, because it ends in a digest of the tool's
/// own name.
pub(crate) fn told_apart(server: &str, tool: &str) -> String {
    let digest = palisade_text::hex(&Sha256::digest(tool));
    // A name for rules has ASCII characters only.
    let start: String = of_tool(server, tool).chars().take(MAX_OFFERED - DIGEST - 1).collect();
    format!("{start}-{}", digest.get(..DIGEST).unwrap_or_default())
}

/// Returns the name of a tool of a server. Rules can name exactly this, whatever the tool is offered
/// as.
pub(crate) fn of_tool(server: &str, tool: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let tool: String = tool.chars().map(plain).collect();
    format!("{}_{tool}", of_list(server))
}

/// Returns the name of a server's whole list of tools. The part after `mcp_` has no `_`.
pub(crate) fn of_list(server: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let server: String = server.chars().map(plain).collect();
    format!("mcp_{server}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offered_name_is_short_and_always_the_same() {
        assert_eq!(offered("git", "log"), "mcp_git_log");
        let long = "x".repeat(128);
        let names = [offered("git", &long), offered("git", &format!("{long}y"))];
        assert!(names.iter().all(|name| name.len() == MAX_OFFERED), "{names:?}");
        assert_ne!(names[0], names[1]);
        assert_eq!(names[0], offered("git", &long));
        assert_ne!(told_apart("s", "a.b"), told_apart("s", "a_b"));
        assert!(told_apart("s", "a.b").starts_with("mcp_s_a_b-"));
    }

    #[test]
    fn a_name_says_which_server_a_tool_belongs_to() {
        assert_eq!(of_tool("git", "log"), "mcp_git_log");
        assert_eq!(of_tool("git-2", "notes/read.all"), "mcp_git-2_notes_read_all");
        assert_eq!(of_tool("a_b.c", "log"), "mcp_a-b-c_log");
        assert_eq!(of_list("git"), "mcp_git");
    }
}
