//! How often approvers are asked about hosts: once for a connection of a program, and no more often than
//! the limits allow, whatever the programs of a session try.

use palisade_client::{Answer, ApprovalRequest, Event, Operator, Registration};
use palisade_protocol::CallResult;
use palisade_tests::{Mode, NamedHosts, Sandbox, WebServer, during, rooms::until};
use std::path::Path;

/// The names of a flood.
const FLOOD: usize = 40;

/// A profile that asks about every host but the address behind their names.
fn asking(port: u16) -> String {
    format!("mode = \"domains\"\nallow = [\"127.0.0.1:{port}\"]\nask = true")
}

/// Connects an approver.
fn approver(hosts: &NamedHosts, sandbox: &Sandbox) -> Operator {
    let operator = hosts.operator(sandbox);
    sandbox.wait(operator.register(Registration::new("person:ann"))).unwrap();
    operator
}

/// Runs a line while each approval request of its session is approved, this once. Others are left
/// alone.
async fn approved(
    sandbox: &Sandbox,
    operator: &Operator,
    line: &str,
) -> (CallResult, Vec<ApprovalRequest>) {
    let is_own = |request: &ApprovalRequest| request.asker.session == *sandbox.session.id();
    let call = sandbox.session.bash(line).into_future();
    let approve = async |request: &ApprovalRequest| {
        if is_own(request) {
            operator.answer(request, Answer::approve()).await.unwrap();
        }
    };
    let (result, mut requests) = during(operator, call, approve).await;
    requests.retain(is_own);
    (result.unwrap(), requests)
}

/// An approval that is not remembered holds for the program's connection, also for further requests on
/// it, and for no other connection.
#[test]
fn a_kept_connection_is_asked_about_once() {
    for mode in Mode::all() {
        let server = WebServer::start(Path::new("/nonexistent"));
        let port = server.port;
        let hosts = NamedHosts::new(mode, &["packages.test", "other.test"], &asking(port));
        let sandbox = hosts.open();
        let operator = approver(&hosts, &sandbox);
        let url = |name: &str| format!("http://{name}:{port}/x");
        let (one, other) = (url("packages.test"), url("other.test"));
        // curl shows how many connections it made for each request.
        let curl = "curl -sS -w '%{num_connects}\\n'";
        for (line, connections, asked) in [
            (format!("{curl} {one} {one} {one}"), [1, 0, 0].as_slice(), 1),
            (format!("{curl} --noproxy '*' {one} {one}"), &[1, 0], 1),
            (format!("{curl} {one}; {curl} {one}"), &[1, 1], 2),
            (format!("{curl} {one} {other} {one} {other}"), &[1, 0, 0, 0], 2),
        ] {
            let (result, requests) = sandbox.wait(approved(&sandbox, &operator, &line));
            let expected: String =
                connections.iter().map(|made| format!("hello from /x\n{made}\n")).collect();
            assert_eq!(result.stdout, expected, "{mode:?}: {line}: {result:?}");
            assert_eq!(requests.len(), asked, "{mode:?}: {line}: {requests:?}");
            assert_eq!(server.requests().len(), connections.len(), "{mode:?}: {line}");
        }
        let told = "approved by handler:person:ann, for this connection";
        let is_kept = |record: &palisade_audit::Connection| record.rule.as_str() == told;
        until("each further request is recorded", || {
            hosts.connections().iter().filter(|record| is_kept(record)).count() == 5
        });
    }
}

#[test]
fn a_flood_of_names_holds_up_no_other_approval() {
    for mode in Mode::all() {
        let server = WebServer::start(Path::new("/nonexistent"));
        let port = server.port;
        let flood: Vec<String> = (0..FLOOD).map(|number| format!("n{number}.test")).collect();
        let names = flood.iter().map(String::as_str).chain(["packages.test"]).collect::<Vec<_>>();
        let hosts = NamedHosts::new(mode, &names, &asking(port));
        let (busy, other) = (hosts.open(), hosts.open());
        let operator = approver(&hosts, &busy);
        let line = format!(
            "for n in $(seq 0 {}); do curl -sS http://n$n.test:{port}/flood & done; wait",
            FLOOD - 1
        );
        busy.wait(async {
            let mut running = busy.session.bash(line).stream().start().await.unwrap();
            // 16 requests of a session may wait (`handlers.max_pending`). The others are refused, by that
            // limit or by the one of a minute.
            let (waiting, mut told) = (16, String::new());
            while told.matches("palisade: ").count() < FLOOD - waiting {
                match running.next().await {
                    Some(Event::Output { data, .. }) => told += &String::from_utf8_lossy(&data),
                    Some(_) => {}
                    None => panic!("{mode:?}: it ended: {told}"),
                }
            }
            assert!(
                told.contains("approval requests of this session are already waiting"),
                "{told}"
            );
            assert!(told.contains("approvers were asked about 30 connections"), "{told}");
            assert_eq!(operator.pending().await.unwrap().len(), waiting, "{mode:?}");
            // Another session's request is asked about and approved meanwhile.
            let fetch = format!("curl -sS http://packages.test:{port}/other");
            let (done, asked) = approved(&other, &operator, &fetch).await;
            assert_eq!(done.stdout, "hello from /other\n", "{mode:?}: {done:?}");
            assert_eq!(asked.len(), 1, "{mode:?}: {asked:?}");
            assert_eq!(operator.pending().await.unwrap().len(), waiting, "{mode:?}");
            running.cancel().await.unwrap();
            assert!(running.result().await.unwrap().cancelled, "{mode:?}");
        });
        let requests = server.requests();
        assert_eq!(requests.len(), 1, "{mode:?}: {requests:?}");
        assert!(requests[0].starts_with("GET /other "), "{mode:?}: {requests:?}");
    }
}
