use super::*;
use crate::{
    Limits,
    address::AddressRules,
    credential::SessionCredentials,
    dial::WayOut,
    link::{self, Link},
    session::SessionTerms,
    testing::*,
};
use palisade_egress_protocol::{EgressBudget, EgressReply, EgressVerdict, Tunnel};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::net::Ipv4Addr;
use tokio::{io::AsyncWriteExt as _, net::TcpListener, sync::Semaphore};

/// A session whose only name is `allowed.test`, at 198.18.0.1, and which is told the verdict.
struct DirectWorld {
    session: Arc<Session>,
    resolver: Arc<FakeResolver>,
    link: Link,
    verdict: EgressVerdict,
}

impl DirectWorld {
    fn new(verdict: Option<EgressVerdict>) -> (Self, std::os::fd::OwnedFd) {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, theirs) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
        let (link, mut end) = link::open(theirs).unwrap();
        // Messages are sent while the link is read.
        tokio::spawn(async move { end.receive().await.map(drop) });
        let resolver = Arc::new(FakeResolver::default());
        resolver.set("allowed.test", &[&["127.0.0.1"]]);
        let budget = EgressBudget { connections: 8, upload_bytes: 1 << 20 };
        let rules = AddressRules { named: vec![range("127.0.0.0", 8)], ..AddressRules::default() };
        let credentials = SessionCredentials::default();
        let terms = SessionTerms { number: SESSION, budget, rules, inspection: None, credentials };
        let limits = Limits::default();
        let way_out = WayOut { resolver: resolver.clone(), proxy: None, limits };
        let session = Session::new(terms, Vec::new(), link.clone(), way_out);
        session.synthetic().address_of(&name("allowed.test")).unwrap();
        (Self { session, resolver, link, verdict: verdict.unwrap() }, ours)
    }

    /// Connects as a program to an address, and answers the question about it.
    async fn connect(&self, address: [u8; 4], port: u16) -> TcpStream {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let accepted = listener.accept().await.unwrap().0;
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let (session, address) = (self.session.clone(), Ipv4Addr::from(address).into());
        tokio::spawn(serve_at(session, accepted, address, port, Arc::new(place)));
        client
    }

    /// Answers the next question, whose number is known.
    async fn answer(&self, broker: &palisade_channel::Datagrams) -> Target {
        loop {
            match broker.receive::<EgressReply>() {
                Ok(Some((EgressReply::Question { session, question, target, asked, .. }, _))) => {
                    assert_eq!(asked, Asked::Direct);
                    self.link.answer(session, question, self.verdict.clone());
                    return target;
                }
                Ok(Some(_)) => {}
                Err(palisade_channel::ChannelError::Receive(rustix::io::Errno::AGAIN)) => {
                    tokio::task::yield_now().await;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn broker(socket: std::os::fd::OwnedFd) -> palisade_channel::Datagrams {
    rustix::io::ioctl_fionbio(&socket, true).unwrap();
    palisade_channel::Datagrams::new(socket)
}

#[tokio::test]
async fn the_address_tells_the_name_and_a_hello_must_be_for_it() {
    let (world, socket) = DirectWorld::new(allow(Tunnel::Checked));
    let broker = broker(socket);
    let outside = Outside::new().await;
    for (hello, passes) in [("allowed.test", true), ("denied.test", false)] {
        let mut client = world.connect([198, 18, 0, 1], outside.port).await;
        let hello = client_hello(Some(hello));
        client.write_all(&hello).await.unwrap();
        client.shutdown().await.unwrap();
        let target = soon(world.answer(&broker)).await;
        assert_eq!(target.to_string(), format!("allowed.test:{}", outside.port));
        if passes {
            assert_eq!(read_all(&mut outside.accept().await).await, hello);
        } else {
            assert_eq!(read_all(&mut client).await, [21, 3, 3, 0, 2, 2, 49]);
            outside.assert_silent().await;
        }
    }
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_where_any_protocol_is_allowed() {
    let (world, socket) = DirectWorld::new(allow(Tunnel::Any));
    let broker = broker(socket);
    let outside = Outside::new().await;
    let mut client = world.connect([198, 18, 0, 1], outside.port).await;
    soon(world.answer(&broker)).await;
    let mut server = outside.accept().await;
    server.write_all(b"SSH-2.0-server\r\n").await.unwrap();
    assert_eq!(read_until(&mut client, b"\r\n").await, b"SSH-2.0-server\r\n");
    client.write_all(b"SSH-2.0-client\r\n").await.unwrap();
    assert_eq!(read_until(&mut server, b"\r\n").await, b"SSH-2.0-client\r\n");
}

#[tokio::test]
async fn port_80_takes_requests_for_the_name_and_makes_no_connection_before_one() {
    let (world, socket) = DirectWorld::new(allow(Tunnel::Checked));
    let broker = broker(socket);
    let mut client = world.connect([198, 18, 0, 1], 80).await;
    soon(world.answer(&broker)).await;
    let request = b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n";
    let answer = exchange(&mut client, request).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(
        answer.contains("the request is for denied.test:80, the connection for allowed.test:80")
    );
    assert_eq!(world.resolver.asked(), [""; 0]);
    // The name is looked up for a request to it. It leads where nothing may go: a server of this
    // host's port 80 is none of the test's.
    world.resolver.set("allowed.test", &[&["10.0.0.1"]]);
    let mut client = world.connect([198, 18, 0, 1], 80).await;
    soon(world.answer(&broker)).await;
    let request = b"GET / HTTP/1.1\r\nHost: Allowed.Test\r\nConnection: close\r\n\r\n";
    let answer = exchange(&mut client, request).await;
    assert!(answer.contains("10.0.0.1 is not on the public internet"), "{answer}");
    assert_eq!(world.resolver.asked(), ["allowed.test"]);
}

#[tokio::test]
async fn a_denial_is_told_in_the_programs_protocol() {
    let (world, socket) = DirectWorld::new(deny());
    let broker = broker(socket);
    let mut client = world.connect([198, 18, 0, 1], 80).await;
    soon(world.answer(&broker)).await;
    let answer = exchange(&mut client, b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(answer.ends_with("palisade: it is not on the list\n"), "{answer}");
    let mut client = world.connect([198, 18, 0, 1], 443).await;
    soon(world.answer(&broker)).await;
    client.write_all(&client_hello(Some("allowed.test"))).await.unwrap();
    assert_eq!(read_all(&mut client).await, [21, 3, 3, 0, 2, 2, 49]);
    assert_eq!(world.resolver.asked(), [""; 0]);
}

#[tokio::test]
async fn an_address_that_stands_for_no_name_is_refused_without_a_question() {
    let (world, socket) = DirectWorld::new(allow(Tunnel::Any));
    let broker = broker(socket);
    for address in [[198, 18, 0, 2], [198, 18, 0, 0], [127, 0, 0, 1]] {
        let mut client = world.connect(address, 443).await;
        assert_eq!(read_all(&mut client).await, b"");
        let message = soon(async {
            loop {
                match broker.receive::<EgressReply>() {
                    Err(_) => tokio::task::yield_now().await,
                    Ok(message) => return message.unwrap().0,
                }
            }
        });
        let EgressReply::Refused { target: Some(target), .. } = message.await else { panic!() };
        assert_eq!(target.to_string(), format!("{}:443", Ipv4Addr::from(address)));
    }
}
