//! The names of servers' tools, as rules, approval requests, the audit log and models know them.

/// Returns the name of a tool of a server. Rules can name exactly this.
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
    fn a_name_says_which_server_a_tool_belongs_to() {
        assert_eq!(of_tool("git", "log"), "mcp_git_log");
        assert_eq!(of_tool("git-2", "notes/read.all"), "mcp_git-2_notes_read_all");
        assert_eq!(of_tool("a_b.c", "log"), "mcp_a-b-c_log");
        assert_eq!(of_list("git"), "mcp_git");
    }
}
