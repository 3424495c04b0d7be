use crate::testing::*;
use palisade_egress_protocol::{Asked, EgressReply, MAX_SYNTHETIC, Tunnel};
use std::net::{IpAddr, Ipv4Addr};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
};

const A: u16 = 1;
const NAME_ERROR: u8 = 3;

fn query(name: &str, kind: u16) -> Vec<u8> {
    let mut message = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    message
}

/// The code and the address of an answer.
fn read(answer: &[u8]) -> (u8, Option<Ipv4Addr>) {
    assert_eq!(answer[..2], [7, 7]);
    let address = (answer[7] == 1).then(|| {
        let end: [u8; 4] = answer[answer.len() - 4..].try_into().unwrap();
        Ipv4Addr::from(end)
    });
    (answer[3] & 15, address)
}

async fn client(world: &World) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    socket.connect(world.names_udp).await.unwrap();
    socket
}

async fn ask(client: &UdpSocket, message: &[u8]) -> Vec<u8> {
    client.send(message).await.unwrap();
    let mut answer = vec![0; 600];
    let length = soon(client.recv(&mut answer)).await.unwrap();
    answer.truncate(length);
    answer
}

#[tokio::test]
async fn an_allowed_name_gets_an_address_and_no_other_name_exists() {
    let mut world = World::new(Conditions::default()).await;
    assert!(matches!(world.reply().await, EgressReply::Welcome { .. }));
    let client = client(&world).await;
    let first = Some(Ipv4Addr::new(198, 18, 0, 1));
    assert_eq!(read(&ask(&client, &query("allowed.test", A)).await), (0, first));
    let question = world.reply().await;
    let EgressReply::Question { target, asked: Asked::Lookup, .. } = &question else {
        panic!("{question:?}");
    };
    assert_eq!((target.host.to_string().as_str(), target.port), ("allowed.test", 0));
    assert_eq!(read(&ask(&client, &query("ALLOWED.Test", A)).await), (0, first), "the same name");
    let second = Some(Ipv4Addr::new(198, 18, 0, 2));
    assert_eq!(read(&ask(&client, &query("other.allowed.test", A)).await), (0, second));
    // AAAA, HTTPS, SVCB, TXT, PTR and MX.
    for kind in [28, 65, 64, 16, 12, 15] {
        assert_eq!(read(&ask(&client, &query("allowed.test", kind)).await), (0, None), "{kind}");
    }
    for name in ["denied.test", "secret-data.denied.test", "127.1", "evil\0.allowed.test", "a%b"] {
        assert_eq!(read(&ask(&client, &query(name, A)).await), (NAME_ERROR, None), "{name:?}");
    }
    for name in ["localhost", "x.localhost"] {
        let loopback = (0, Some(Ipv4Addr::LOCALHOST));
        assert_eq!(read(&ask(&client, &query(name, A)).await), loopback);
    }
    assert_eq!(world.resolver.asked(), [""; 0], "nothing is ever looked up for a query");
    // Broken ones have an answer; answers and rests of messages have none.
    let mut broken = query("allowed.test", A);
    broken[5] = 9;
    assert_eq!(read(&ask(&client, &broken).await).0, 1);
    let mut answer = query("allowed.test", A);
    answer[2] |= 0x80;
    client.send(&answer).await.unwrap();
    client.send(&[7; 5]).await.unwrap();
    client.send(&[]).await.unwrap();
    assert_eq!(read(&ask(&client, &query("allowed.test", A)).await), (0, first), "control");
}

#[tokio::test]
async fn queries_over_tcp_are_answered_one_after_another() {
    let world = World::new(Conditions::default()).await;
    let mut client = TcpStream::connect(world.names_tcp).await.unwrap();
    for (name, code) in [("allowed.test", 0), ("denied.test", NAME_ERROR), ("allowed.test", 0)] {
        let message = query(name, A);
        let length = u16::try_from(message.len()).unwrap().to_be_bytes();
        client.write_all(&[&length, message.as_slice()].concat()).await.unwrap();
        let length = soon(client.read_u16()).await.unwrap();
        let mut answer = vec![0; usize::from(length)];
        soon(client.read_exact(&mut answer)).await.unwrap();
        assert_eq!(read(&answer).0, code);
    }
    // A message longer than any query ends the connection.
    client.write_all(&[0xff, 0xff]).await.unwrap();
    assert_eq!(read_all(&mut client).await, b"");
}

#[tokio::test]
async fn a_session_has_a_bounded_number_of_names() {
    let rule: Rule = Box::new(|_, _| allow(Tunnel::Checked));
    let world = World::new(Conditions { rule, ..Conditions::default() }).await;
    let client = client(&world).await;
    for number in 0..MAX_SYNTHETIC {
        let answer = ask(&client, &query(&format!("n{number}.test"), A)).await;
        let (code, Some(address)) = read(&answer) else { panic!("{number}") };
        assert_eq!(code, 0);
        assert!(!crate::address::is_global(IpAddr::V4(address)));
    }
    let failure = 2;
    assert_eq!(read(&ask(&client, &query("one-more.test", A)).await), (failure, None));
    let first = Some(Ipv4Addr::new(198, 18, 0, 1));
    assert_eq!(read(&ask(&client, &query("n0.test", A)).await), (0, first), "control");
}

/// A program that looks up a name and then asks the proxy for its address gets the name.
#[tokio::test]
async fn the_proxy_knows_what_a_synthetic_address_stands_for() {
    let world =
        World::new(Conditions { rule: allowed_only(Tunnel::Any), ..Conditions::default() }).await;
    let outside = Outside::new().await;
    let client = client(&world).await;
    ask(&client, &query("allowed.test", A)).await;
    let mut program = world.to_proxy().await;
    let request = format!("CONNECT 198.18.0.1:{} HTTP/1.1\r\n\r\n", outside.port);
    program.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut program, b"\r\n\r\n").await;
    program.write_all(b"x").await.unwrap();
    program.shutdown().await.unwrap();
    assert_eq!(read_all(&mut outside.accept().await).await, b"x");
    assert_eq!(world.resolver.asked(), ["allowed.test"]);
    let mut program = world.to_proxy().await;
    let request = format!("CONNECT 198.18.0.2:{} HTTP/1.1\r\n\r\n", outside.port);
    let answer = exchange(&mut program, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}
