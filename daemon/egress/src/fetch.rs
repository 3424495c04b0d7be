//! Pages for the tool `web_fetch`, which the room gets itself: the broker is asked about each host,
//! also about those that redirects lead to, and a connection is made as for a program. Only `GET`, with
//! no cookie, credential or referrer.

use crate::{
    authority::HostTrust,
    http,
    link::{Link, Place},
    page_content::{Body, ContentType, render},
    page_url::PageUrl,
    session::{ConnectionRecord, Open, OpenError, Session},
};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    HeaderMap, Request, Response, StatusCode, Version,
    body::{Bytes, Incoming},
    header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, LOCATION},
    header::{HeaderName, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use palisade_egress_protocol::{
    EgressReply, Tunnel, WebRequest,
    fetch::{FetchedPage, MAX_PAGE, PAGE_PIECE, PageFailure, PageRequest},
    host::Host,
};
use palisade_plan::launcher::SessionNumber;
use std::{error::Error, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};

/// Most redirects that are followed.
const MAX_REDIRECTS: u8 = 10;

/// The headers of every request, besides `Host`. The body is asked for as it is, so that nothing is
/// decompressed.
const HEADERS: [(HeaderName, &str); 4] = [
    (USER_AGENT, concat!("palisade-web-fetch/", env!("CARGO_PKG_VERSION"))),
    (ACCEPT, "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5"),
    (ACCEPT_ENCODING, "identity"),
    (CONNECTION, "close"),
];

/// A page that is being got for a call.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) session: Arc<Session>,
    pub(crate) trust: Arc<HostTrust>,
    pub(crate) link: Link,
    /// The places of pages that the room gets at once.
    pub(crate) places: Arc<Semaphore>,
    /// The numbers of the session and of the fetch.
    pub(crate) number: (SessionNumber, u64),
    pub(crate) request: PageRequest,
}

/// A host's answer, read as far as it is wanted.
#[derive(Debug)]
struct PageAnswer {
    status: StatusCode,
    headers: HeaderMap,
    body: Body,
}

impl Fetch {
    /// Gets the page, and reports it or why there is none.
    pub(crate) async fn run(self) {
        let Ok(_turn) = self.places.acquire().await else { return };
        let Some(place) = self.session.connection_place().await else { return };
        let (session, fetch) = self.number;
        let fetched = self.fetch(&place).await;
        let result = fetched.map(|(page, content)| {
            for piece in content.chunks(PAGE_PIECE) {
                let piece = piece.to_vec();
                self.link.send(EgressReply::Page { session, fetch, piece }, Some(place.clone()));
            }
            page
        });
        self.link.send(EgressReply::Fetched { session, fetch, result }, Some(place));
    }

    async fn fetch(&self, place: &Place) -> Result<(FetchedPage, Vec<u8>), PageFailure> {
        let mut url = PageUrl::parse(&self.request.url)?;
        let number = self.session.next_question();
        for redirects in 0..=MAX_REDIRECTS {
            let answer = self.get(number, &url, place).await?;
            match redirect(&answer) {
                Some(location) => url = url.follow(&location)?,
                None => return self.page(url, redirects, answer).await,
            }
        }
        Err(PageFailure::Network(format!("it redirects more than {MAX_REDIRECTS} times")))
    }

    /// Asks for one URL.
    async fn get(
        &self,
        number: u64,
        url: &PageUrl,
        place: &Place,
    ) -> Result<PageAnswer, PageFailure> {
        if let Some(why) = self.session.refuse_url(&url.target, url.url().as_str(), place) {
            return Err(PageFailure::Denied(why));
        }
        let path = url.url().path().to_owned();
        let request = WebRequest { method: "GET".to_owned(), path };
        let asked = self.session.ask_fetch(number, url.target.clone(), request, place).await;
        let mut permit = asked.map_err(not_opened)?;
        // Only TLS may be sent to an inspected host; without it, it is not dialled.
        if permit.tunnel == Tunnel::Inspected && url.is_tls() {
            permit.tunnel = Tunnel::Checked;
        }
        let Open { destination, mut record, .. } = permit.dial().await.map_err(not_opened)?;
        if let (true, Host::Name(name)) = (url.is_tls(), &url.target.host) {
            record.server_name = Some(name.clone());
        }
        let limits = self.session.limits;
        let exchanged = async {
            match url.is_tls() {
                false => self.exchange(destination, url).await,
                true => {
                    let destination = (destination, Version::HTTP_11);
                    let secured = self.trust.connect(&url.target, destination, &limits).await;
                    let secured = secured.map(|(stream, _)| stream);
                    self.exchange(secured.map_err(PageFailure::Network)?, url).await
                }
            }
        };
        let late = || format!("{} did not send the page within {:?}", url.target, limits.page);
        let answered = timeout(limits.page, exchanged).await;
        let answered = answered.unwrap_or_else(|_| Err(PageFailure::Network(late())));
        end(&mut record, &answered);
        answered
    }

    async fn exchange<D>(&self, destination: D, url: &PageUrl) -> Result<PageAnswer, PageFailure>
    where
        D: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let failed = |error: hyper::Error| {
            let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            PageFailure::Network(format!(
                "{} did not answer the request: {error}{source}",
                url.target
            ))
        };
        let mut request = Request::get(url.path_and_query()).header(HOST, url.host_header());
        for (name, value) in HEADERS {
            request = request.header(name, value);
        }
        let unsendable = |error: hyper::http::Error| PageFailure::Url(error.to_string());
        let request = request.body(Empty::<Bytes>::new()).map_err(unsendable)?;
        let (mut sender, connection) =
            http::host_settings().handshake(TokioIo::new(destination)).await.map_err(failed)?;
        // It ends with this value.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let response = sender.send_request(request).await.map_err(failed)?;
        self.read(response).await.map_err(failed)
    }

    /// Reads an answer's body, as far as it is wanted.
    async fn read(&self, response: Response<Incoming>) -> hyper::Result<PageAnswer> {
        let (head, mut incoming) = response.into_parts();
        let (status, headers) = (head.status, head.headers);
        let mut body = Body { bytes: Vec::new(), is_cut: false };
        if status.is_redirection() {
            return Ok(PageAnswer { status, headers, body });
        }
        while let Some(frame) = incoming.frame().await {
            let frame = frame?;
            let data: &[u8] = frame.data_ref().map_or(&[], |data| data);
            let room = self.most() - body.bytes.len();
            body.bytes.extend_from_slice(data.get(..room.min(data.len())).unwrap_or_default());
            if data.len() > room {
                body.is_cut = true;
                break;
            }
        }
        Ok(PageAnswer { status, headers, body })
    }

    fn most(&self) -> usize {
        usize::try_from(self.request.max_bytes.min(MAX_PAGE)).unwrap_or(usize::MAX)
    }

    async fn page(
        &self,
        url: PageUrl,
        redirects: u8,
        answer: PageAnswer,
    ) -> Result<(FetchedPage, Vec<u8>), PageFailure> {
        let header =
            |name: HeaderName| answer.headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(encoding) = header(CONTENT_ENCODING).filter(|text| *text != "identity") {
            let target = &url.target;
            let why = format!("{target} sent the page as {encoding:?}, which it was asked not to");
            return Err(PageFailure::Network(why));
        }
        let kind = ContentType::parse(header(CONTENT_TYPE).unwrap_or_default());
        let body_bytes = answer.body.bytes.len() as u64;
        let (format, most, media_type) =
            (self.request.format, self.most(), kind.media_type.clone());
        let of = url.url().clone();
        // Beside the room's only thread, which carries all connections.
        let rendering = move || render(answer.body, &kind, format, (&of, most));
        let rendered = tokio::task::spawn_blocking(rendering).await;
        let rendered = rendered
            .map_err(|error| PageFailure::Network(format!("it could not be read: {error}")))??;
        let page = FetchedPage {
            url: url.url().to_string(),
            redirects,
            status: answer.status.as_u16(),
            media_type,
            content: rendered.kind,
            body_bytes,
            is_cut: rendered.is_cut,
        };
        Ok((page, rendered.bytes))
    }
}

/// Returns where an answer redirects to.
fn redirect(answer: &PageAnswer) -> Option<String> {
    let codes = [301, 302, 303, 307, 308];
    let location = answer.headers.get(LOCATION).filter(|_| codes.contains(&answer.status.as_u16()));
    location.map(|location| String::from_utf8_lossy(location.as_bytes()).into_owned())
}

fn not_opened(error: OpenError) -> PageFailure {
    use crate::dial::DialError::{Address, Connect, Lookup, NoAddress};
    let text = error.to_string();
    match error {
        OpenError::Denied(_) | OpenError::Dial(Address(..)) => PageFailure::Denied(text),
        OpenError::Dial(Lookup(..) | NoAddress(_) | Connect(..)) => PageFailure::Network(text),
    }
}

fn end(record: &mut ConnectionRecord, answered: &Result<PageAnswer, PageFailure>) {
    record.end(match answered {
        Ok(_) | Err(PageFailure::TooLarge) => None,
        Err(PageFailure::Url(why) | PageFailure::Denied(why) | PageFailure::Network(why)) => {
            Some(why.clone())
        }
    });
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
