//! Pages: from the call to the room and back.

use super::*;
use palisade_egress_protocol::{
    WebRequest,
    fetch::{FetchedPage, PageContent, PageFailure, PageFormat, PageRequest},
};

fn wanted() -> PageRequest {
    let url = "https://docs.example/a".to_owned();
    PageRequest { url, format: PageFormat::Markdown, max_bytes: 10 }
}

fn page() -> FetchedPage {
    FetchedPage {
        url: "https://docs.example/a".to_owned(),
        redirects: 0,
        status: 200,
        media_type: "text/html".to_owned(),
        content: PageContent::Text,
        body_bytes: 9,
        is_cut: false,
    }
}

/// Waits for the request for a page.
async fn heard(room: &PlayedRoom) -> u64 {
    let (request, _) = room.hear().await;
    let EgressRequest::Fetch { session: 7, fetch, request } = request else {
        panic!("{request:?}")
    };
    assert_eq!(request, wanted());
    fetch
}

fn piece(fetch: u64, text: &str) -> EgressReply {
    EgressReply::Page { session: 7, fetch, piece: text.as_bytes().to_vec() }
}

#[tokio::test]
async fn a_page_is_decided_about_by_net_fetch_and_comes_in_pieces() {
    let mut stage = stage("fetch = [\"docs.example\"]");
    let room = stage.open().await;
    let play = async {
        let fetch = heard(&room).await;
        let request = WebRequest { method: "GET".to_owned(), path: "/a".to_owned() };
        for (question, host) in [(1, "docs.example"), (2, "other.example")] {
            let (target, request) = (target(host), Some(request.clone()));
            let (session, connection, asked) = (7, question, Asked::Fetch);
            let asking =
                EgressReply::Question { session, question, connection, target, asked, request };
            room.say(&asking).await;
        }
        let (first, second) = (room.hear().await.0, room.hear().await.0);
        let said = format!("{first:?} {second:?}");
        assert!(said.contains("net.fetch \\\"docs.example\\\""), "{said}");
        assert!(said.contains("add \\\"other.example\\\" to net.fetch"), "{said}");
        room.say(&piece(fetch, "12345")).await;
        // One that nobody waits for.
        room.say(&piece(fetch + 1, "x")).await;
        room.say(&piece(fetch, "67890")).await;
        room.say(&EgressReply::Fetched { session: 7, fetch, result: Ok(page()) }).await;
        let fetch = heard(&room).await;
        let result = Err(PageFailure::TooLarge);
        room.say(&EgressReply::Fetched { session: 7, fetch, result }).await;
    };
    let call = async {
        let first = stage.rooms.fetch_for(UID, 7, wanted()).await.unwrap();
        (first, stage.rooms.fetch_for(UID, 7, wanted()).await.unwrap())
    };
    let ((first, second), ()) = tokio::join!(call, play);
    assert_eq!(first, Ok((page(), b"1234567890".to_vec())));
    assert_eq!(second, Err(PageFailure::TooLarge));
    let denials = stage.refused.since(0);
    assert!(denials[0].remedy.contains("\"other.example\" to net.fetch"), "{denials:?}");
    let denied = stage.connections();
    assert_eq!((denied.len(), denied[0].asked.as_str()), (1, "web_fetch"), "{denied:?}");
    let unknown = stage.rooms.fetch_for(UID, 8, wanted()).await;
    assert!(matches!(unknown, Err(NetworkError::Gone(_))), "{unknown:?}");
}

#[tokio::test]
async fn a_call_that_stops_waiting_ends_the_fetch_in_the_room() {
    let mut stage = stage("fetch = [\"docs.example\"]");
    let room = stage.open().await;
    let fetch = tokio::select! {
        fetched = stage.rooms.fetch_for(UID, 7, wanted()) => panic!("{fetched:?}"),
        fetch = heard(&room) => fetch,
    };
    let (request, _) = room.hear().await;
    assert_eq!(request, EgressRequest::EndFetch { session: 7, fetch });
    // What crosses it is ignored.
    room.say(&piece(fetch, &"x".repeat(100))).await;
    room.say(&EgressReply::Fetched { session: 7, fetch, result: Ok(page()) }).await;
    room.ask(1, "docs.example", Asked::Connect).await;
    assert!(matches!(room.answer(1).await, EgressVerdict::Deny { .. }), "a program may not");
}

#[tokio::test]
async fn a_room_that_dies_or_sends_too_much_has_no_page() {
    let mut stage = stage("fetch = [\"docs.example\"]");
    let room = stage.open().await;
    let play = async {
        let fetch = heard(&room).await;
        room.say(&piece(fetch, "12345678901")).await;
        room.closed().await;
    };
    let (fetched, ()) = tokio::join!(stage.rooms.fetch_for(UID, 7, wanted()), play);
    assert!(matches!(fetched, Err(NetworkError::Gone(_))), "{fetched:?}");
    assert_eq!(stage.rooms.totals().died, 1);
    // While there is no room, there is no page either.
    let none = stage.rooms.fetch_for(UID, 7, wanted()).await;
    assert!(matches!(none, Err(NetworkError::Gone(_))), "{none:?}");
}
