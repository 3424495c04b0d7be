//! The variables by which programs find the proxy of a session in mode `domains`. Programs that know
//! none of them connect to synthetic addresses. Pure: no I/O.

/// The proxy. SOCKS would do too, but some programs refuse to start if they can not speak it.
const PROXY: &str = "http://127.0.0.1:61080";

/// The hosts that are reached without the proxy: the session's own loopback.
const DIRECT: &str = "localhost,127.0.0.1,::1";

/// The variables and their values.
pub(super) const VARIABLES: [(&str, &str); 17] = [
    ("ALL_PROXY", PROXY),
    // cargo and pip take these from their own configuration first, too.
    ("CARGO_HTTP_PROXY", PROXY),
    // So does git. No profile and no call can set these.
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "http.proxy"),
    ("GIT_CONFIG_VALUE_0", PROXY),
    ("HTTPS_PROXY", PROXY),
    ("HTTP_PROXY", PROXY),
    // Node.js ignores the others without it.
    ("NODE_USE_ENV_PROXY", "1"),
    ("NO_PROXY", DIRECT),
    ("PIP_PROXY", PROXY),
    ("all_proxy", PROXY),
    ("http_proxy", PROXY),
    ("https_proxy", PROXY),
    ("no_proxy", DIRECT),
    // npm takes these from its own configuration first.
    ("npm_config_https_proxy", PROXY),
    ("npm_config_noproxy", DIRECT),
    ("npm_config_proxy", PROXY),
];

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::listeners::PROXY_PORT;

    #[test]
    fn the_proxy_is_where_the_session_has_its_listener() {
        assert_eq!(PROXY, format!("http://127.0.0.1:{PROXY_PORT}"));
    }
}
