//! The URL of a page that `web_fetch` gets: read once, to the host that is asked about and dialled.

use crate::name::read_host;
use palisade_egress_protocol::{
    fetch::{MAX_URL, PageFailure},
    host::{Host, Target},
};
use url::Url;

/// The URL of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageUrl {
    url: Url,
    pub(crate) target: Target,
}

impl PageUrl {
    /// Reads the URL of a call.
    ///
    /// # Errors
    /// If it is none of a page.
    pub(crate) fn parse(text: &str) -> Result<Self, PageFailure> {
        let url = Url::parse(text).map_err(|error| {
            failure(&format!(
                "it is not a URL ({error}); give one such as https://docs.example/page"
            ))
        })?;
        Self::check(url).map_err(|why| failure(&why))
    }

    /// Returns the URL that a redirect leads to.
    ///
    /// # Errors
    /// If it is none of a page, or less protected than this one.
    pub(crate) fn follow(&self, location: &str) -> Result<Self, PageFailure> {
        let refused = |why: &str| {
            PageFailure::Url(format!(
                "{} redirects to a URL that is not followed: {why}",
                self.target
            ))
        };
        let next = self.url.join(location).map_err(|error| refused(&error.to_string()))?;
        let next = Self::check(next).map_err(|why| refused(&why))?;
        if self.is_tls() && !next.is_tls() {
            return Err(refused("it leads from https to http"));
        }
        Ok(next)
    }

    fn check(mut url: Url) -> Result<Self, String> {
        let default = match url.scheme() {
            "https" => 443,
            "http" => 80,
            other => return Err(format!("its scheme is {other:?}, not http or https")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it has a user name or a password, and none is sent".to_owned());
        }
        let host = read_host(url.host_str().unwrap_or_default().as_bytes());
        let host = host.map_err(|error| error.to_string())?;
        let port = url.port().unwrap_or(default);
        if port == 0 {
            return Err("its port is 0".to_owned());
        }
        url.set_fragment(None);
        if url.as_str().len() > MAX_URL {
            return Err(format!("it has more than {MAX_URL} bytes"));
        }
        Ok(Self { url, target: Target { host, port } })
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub(crate) const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the path and the query, as a request has them.
    pub(crate) fn path_and_query(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }

    /// Returns the `Host` header. The scheme's own port is left out.
    pub(crate) fn host_header(&self) -> String {
        match (self.url.port(), &self.target.host) {
            (Some(_), _) => self.target.to_string(),
            (None, Host::Address(address)) if address.is_ipv6() => format!("[{address}]"),
            (None, host) => host.to_string(),
        }
    }
}

fn failure(why: &str) -> PageFailure {
    PageFailure::Url(why.to_owned())
}

#[cfg(test)]
#[path = "page_url_tests.rs"]
mod tests;
