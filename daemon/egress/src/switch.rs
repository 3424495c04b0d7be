//! WebSocket on a connection that may carry any protocol: the request is judged as any other, and what
//! follows the host's agreement is carried as it is.

use crate::{http::Driver, relay::copy, session::ConnectionRecord};
use hyper::{
    HeaderMap, Request, Version,
    body::Incoming,
    header::{CONNECTION, HeaderValue, UPGRADE},
    upgrade::{OnUpgrade, on},
};
use hyper_util::rt::TokioIo;
use std::{
    io,
    sync::{Mutex, PoisonError},
};

/// The only protocol that may follow HTTP. Others, such as HTTP/2, have requests of their own.
const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// The place for the connection that a request has switched.
#[derive(Debug, Default)]
pub(crate) struct Switch(Mutex<Option<Switched>>);

impl Switch {
    pub(crate) fn begin(&self, switched: Switched) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(switched);
    }

    pub(crate) fn take(&self) -> Option<Switched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A connection whose ends speak another protocol from now on.
pub(crate) struct Switched {
    pub(crate) program: OnUpgrade,
    pub(crate) host: OnUpgrade,
    /// Moves the bytes of the host until it hands the connection out.
    pub(crate) driver: Option<Driver>,
    pub(crate) record: ConnectionRecord,
}

impl std::fmt::Debug for Switched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switched").field("record", &self.record).finish_non_exhaustive()
    }
}

impl Switched {
    /// Carries the connection to its end.
    pub(crate) async fn carry(self) {
        let Self { program, host, driver, mut record } = self;
        let driving = async {
            if let Some(driver) = driver {
                // If it failed, the host's end says so.
                drop(driver.await);
            }
        };
        let carrying = async {
            let ends = tokio::try_join!(program, host).map_err(io::Error::other)?;
            copy(&mut TokioIo::new(ends.0), &mut TokioIo::new(ends.1)).await
        };
        let ((), carried) = tokio::join!(driving, carrying);
        record.end(carried.err().map(|error| error.to_string()));
    }
}

/// Returns the program's end of a connection that a request wants to switch to WebSocket.
pub(crate) fn wanted(request: &mut Request<Incoming>) -> Option<OnUpgrade> {
    let mut protocols = request.headers().get_all(UPGRADE).iter();
    let is_websocket =
        protocols.next().is_some_and(|wanted| wanted.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let is_wanted =
        is_websocket && protocols.next().is_none() && request.version() == Version::HTTP_11;
    is_wanted.then(|| on(request))
}

/// Writes the headers by which both ends agree.
pub(crate) fn write_agreement(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, WEBSOCKET);
}
