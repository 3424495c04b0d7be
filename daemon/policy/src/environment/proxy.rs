//! The variables that make programs use the proxy of a session with `net.mode = "domains"`. Pure: no
//! I/O.

/// The proxy. `http://` in all of them: libraries that lack an extra refuse `socks5://` outright.
const PROXY: &str = "http://127.0.0.1:61080";

/// Hosts for which programs use no proxy: the session's own loopback.
const DIRECT: &str = "localhost,127.0.0.1,::1";

/// Each variable with its value.
pub(super) const VARIABLES: [(&str, &str); 13] = [
    ("HTTP_PROXY", PROXY),
    ("HTTPS_PROXY", PROXY),
    ("ALL_PROXY", PROXY),
    ("NO_PROXY", DIRECT),
    // curl reads only this one in lower case, and programs differ about the others.
    ("http_proxy", PROXY),
    ("https_proxy", PROXY),
    ("all_proxy", PROXY),
    ("no_proxy", DIRECT),
    // Node's own `fetch` ignores the variables without this.
    ("NODE_USE_ENV_PROXY", "1"),
    ("npm_config_proxy", PROXY),
    ("npm_config_https_proxy", PROXY),
    ("PIP_PROXY", PROXY),
    ("CARGO_HTTP_PROXY", PROXY),
];

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::egress::PROXY_PORT;

    #[test]
    fn the_proxy_is_where_the_egress_room_listens() {
        assert_eq!(PROXY, format!("http://127.0.0.1:{PROXY_PORT}"));
        let mut names: Vec<_> = VARIABLES.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), VARIABLES.len());
    }
}
