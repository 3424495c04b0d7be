//! Tools that another process provides: registered over a socket of their own, judged and approved
//! like any other, and never able to reach beyond their own calls.

#[path = "../../../client/examples/provider.rs"]
mod example;

use palisade_client::{
    Answer, Event, Open, Operator, OperatorEvent, Output, ProvidedTool, Provider, Registration,
};
use palisade_protocol::{
    CallOptions, CallResult, ErrorCode, Event as WireEvent, Invoke, InvokeOutput, InvokeProgress,
    InvokeResult, JsonText, Provide, Reply, Request, ServerMessage, ToolMetadata, Unprovide,
    limits::MAX_CHUNK, wire::Dialect,
};
use palisade_tests::{Daemon, Mode, Sandbox, World, data, profile_with, raw, raw::Raw};
use serde_json::{Value, json};
use std::{
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// A profile that asks nobody, one that trusts `weather`, and the default one.
struct Scene {
    world: World,
    daemon: Daemon,
}

fn tools(line: &str) -> (String, String) {
    ("[tools]\n".to_owned(), format!("[tools]\n{line}\n"))
}

impl Scene {
    fn new(mode: Mode) -> Self {
        let world = World::new(mode);
        let (from, to) = tools("trust_provided = [\"weather\"]");
        world.add_profile("trusting", &profile_with(&[(&from, &to)]));
        let daemon = world.daemon();
        Self { world, daemon }
    }

    fn open(&self, profile: &str) -> Sandbox {
        let open = Open::new(self.world.workspace()).profile(profile);
        Sandbox::over(self.daemon.connect(self.world.mode), None, open).unwrap()
    }

    fn stream(&self) -> UnixStream {
        self.world.mode.act(|| UnixStream::connect(&self.daemon.providers).unwrap())
    }

    fn raw(&self) -> Raw {
        Raw::greeted(self.stream(), Dialect::Frames)
    }

    /// Serves a provider beside a session's own runtime, until its tool is there.
    fn serve(&self, sandbox: &Sandbox, build: impl FnOnce(Provider) -> Provider + Send + 'static) {
        let stream = self.stream();
        stream.set_nonblocking(true).unwrap();
        let before = sandbox.wait(sandbox.client.tools()).unwrap().len();
        sandbox.wait(async {
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            let provider = build(Provider::from_stream(stream).await.unwrap());
            tokio::spawn(provider.serve());
        });
        until(|| sandbox.wait(sandbox.client.tools()).unwrap().len() > before);
    }

    fn tools(&self) -> Vec<String> {
        let mut agent = Raw::greeted(self.daemon.connect(self.world.mode), Dialect::Frames);
        let reply = agent.ask(Request::Tools(Default::default()));
        let Reply::Tools(list) = reply else { panic!("{reply:?}") };
        let tools = list.tools;
        assert!(tools.is_sorted_by(|a, b| a.name < b.name));
        tools.into_iter().map(|tool| tool.name.to_string()).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.tools().iter().any(|known| known == name)
    }
}

fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it did not come");
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"], "additionalProperties": false})
}

fn weather() -> ProvidedTool {
    ProvidedTool::new("weather", schema()).description("Says how the weather is.").alias("forecast")
}

fn wire(name: &str) -> palisade_protocol::ProvidedTool {
    palisade_protocol::ProvidedTool {
        name: name.parse().unwrap(),
        aliases: Vec::new(),
        description: "does".to_owned(),
        schema: JsonText::render(&schema()).unwrap(),
        metadata: ToolMetadata::default(),
        r#override: false,
    }
}

fn provide(name: &str) -> Request {
    Request::Provide(Provide { tools: vec![wire(name)] })
}

fn oslo() -> Value {
    json!({"city": "Oslo"})
}

fn code(result: &CallResult) -> ErrorCode {
    result.error.as_ref().expect("an error").code
}

fn invoked(provider: &mut Raw) -> Invoke {
    loop {
        if let ServerMessage::Event(WireEvent::Invoke(invoke)) = provider.hear().unwrap() {
            return *invoke;
        }
    }
}

fn result(invocation: u64, output: &str) -> Request {
    let (output, data, error) = (output.to_owned(), None, None);
    Request::InvokeResult(Box::new(InvokeResult { invocation, output, data, error }))
}

/// A call on a thread of its own.
fn calling(sandbox: &Arc<Sandbox>, timeout: u64) -> std::thread::JoinHandle<CallResult> {
    let sandbox = Arc::clone(sandbox);
    std::thread::spawn(move || {
        sandbox.wait(async {
            let call = sandbox.session.call("weather", oslo());
            call.timeout(Duration::from_millis(timeout)).await.unwrap()
        })
    })
}

#[test]
fn the_example_is_listed_searched_and_called() {
    for mode in Mode::all() {
        let scene = Scene::new(mode);
        let sandbox = scene.open("unasked");
        let socket = scene.daemon.providers.clone();
        let serving = sandbox.wait(async {
            let serving = tokio::spawn(async move { example::provide(&socket).await });
            serving.abort_handle()
        });
        until(|| scene.has("word_count"));
        let result = sandbox.done("word_count", json!({"text": "one two  three"}));
        assert_eq!(result.output, "3 words\n");
        assert_eq!(data(&result), json!({"words": 3}));
        assert_eq!(result.tool.as_str(), "word_count");
        let found = data(&sandbox.done("tool_search", json!({"query": "count words"})));
        assert_eq!(found["tools"][0]["name"], "word_count");
        let (code, message) = sandbox.refused("word_count", json!({"texts": 1}));
        assert_eq!(code, ErrorCode::InvalidArguments);
        assert!(message.contains("`text`: it is required"), "{message}");
        assert!(message.contains("`texts`: there is no such argument"), "{message}");
        serving.abort();
        until(|| !scene.has("word_count"));
        assert_eq!(sandbox.refused("word_count", json!({"text": ""})).0, ErrorCode::ToolNotFound);
    }
}

#[test]
fn a_claim_is_believed_only_on_the_profiles_word_and_approval_comes_first() {
    for mode in Mode::all() {
        let scene = Scene::new(mode);
        let careful = scene.open("workspace");
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        scene.serve(&careful, move |provider| {
            provider.tool(weather().read_only(), move |call| {
                counted.fetch_add(1, Ordering::SeqCst);
                async move {
                    assert_eq!(call.reason(), None);
                    Ok(Output::from("rain"))
                }
            })
        });
        let denied = careful.call("weather", oslo());
        assert_eq!(code(&denied), ErrorCode::Denied);
        assert_eq!(denied.checkpoint.unwrap().reason, "no approver is connected");
        assert_eq!(calls.load(Ordering::SeqCst), 0, "it was not asked");
        let trusting = scene.open("trusting");
        assert_eq!(trusting.done("forecast", oslo()).output, "rain");
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        let stream = mode.act(|| UnixStream::connect(&scene.daemon.operators).unwrap());
        stream.set_nonblocking(true).unwrap();
        let result = careful.wait(async {
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            let operator = Operator::from_stream(stream).await.unwrap();
            operator.register(Registration::new("person:ann")).await.unwrap();
            let arguments = oslo();
            let call = async { careful.session.call("weather", &arguments).await.unwrap() };
            let answer = async {
                let Some(OperatorEvent::ApprovalRequest(request)) = operator.next().await else {
                    panic!("no request");
                };
                assert_eq!(request.tool.as_str(), "weather");
                assert!(request.view.lines[0].text.contains("outside the sandbox"));
                operator.answer(&request, Answer::approve()).await.unwrap();
            };
            tokio::join!(call, answer).0
        });
        assert_eq!(result.output, "rain");
        assert_eq!(result.checkpoint.unwrap().decision.as_str(), "approved");
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn progress_and_output_stream_and_failures_are_typed() {
    for mode in Mode::all() {
        let scene = Scene::new(mode);
        let sandbox = scene.open("unasked");
        scene.serve(&sandbox, |provider| {
            provider
                .tool(weather(), |call| async move {
                    call.progress("looking", 1, Some(2)).await?;
                    call.output("Oslo: ").await?;
                    Ok(Output::from("rain\u{1b}[2J"))
                })
                .tool(ProvidedTool::new("fails", json!({})), |_| async {
                    Err("the sky fell".to_owned())
                })
                .tool(ProvidedTool::new("panics", json!({})), |call| async move {
                    assert_eq!(call.tool(), "another", "as it is meant to");
                    Ok(Output::default())
                })
        });
        let (result, events) = sandbox.wait(async {
            let mut running =
                sandbox.session.call("weather", oslo()).stream().start().await.unwrap();
            let mut events = Vec::new();
            while let Some(event) = running.next().await {
                events.push(event);
            }
            (running.result().await.unwrap(), events)
        });
        assert_eq!(result.output, "Oslo: rain\\u{1b}[2J");
        let progress = |event: &Event| matches!(event, Event::Progress { message, done: 1, total: Some(2) } if message == "looking");
        assert!(events.iter().any(progress), "{events:?}");
        let said = |event: &Event| matches!(event, Event::Output { data, .. } if data == b"Oslo: ");
        assert!(events.iter().any(said), "{events:?}");
        let failed = sandbox.call("fails", json!({}));
        assert_eq!(code(&failed), ErrorCode::ProviderFailed);
        assert_eq!(failed.error.unwrap().message, "the tool failed: the sky fell");
        assert_eq!(code(&sandbox.call("panics", json!({}))), ErrorCode::ProviderFailed);
        assert_eq!(sandbox.done("weather", oslo()).output, "Oslo: rain\\u{1b}[2J");
    }
}

#[test]
fn time_and_the_caller_end_a_call_whether_the_provider_heeds_it_or_not() {
    for mode in Mode::all() {
        let scene = Scene::new(mode);
        let sandbox = Arc::new(scene.open("unasked"));
        let mut provider = scene.raw();
        assert!(matches!(provider.ask(provide("weather")), Reply::Provided(_)));
        let call = calling(&sandbox, 300);
        let invoke = invoked(&mut provider);
        assert_eq!((invoke.deadline_ms, invoke.tool.as_str()), (300, "weather"));
        let late = call.join().unwrap();
        assert!(late.timed_out && !late.success);
        assert_eq!(code(&late), ErrorCode::TimedOut);
        let cancelled = provider.hear().unwrap();
        let is_told = |message: ServerMessage, number| matches!(message, ServerMessage::Event(WireEvent::InvokeCancelled(c)) if c.invocation == number);
        assert!(is_told(cancelled, invoke.invocation));
        assert_eq!(provider.refusal(result(invoke.invocation, "late")), ErrorCode::NotFound);
        let mut agent =
            Raw::opened(scene.daemon.connect(mode), Dialect::Frames, &scene.world.workspace());
        let id = agent.send(raw::call("todo_read", &json!({}), CallOptions::default()));
        assert_eq!(agent.reply().0, Some(id));
        let running = sandbox.wait(async {
            let call = sandbox.session.call("weather", oslo()).stream();
            call.start().await.unwrap()
        });
        let second = invoked(&mut provider);
        assert_ne!(second.invocation, invoke.invocation);
        sandbox.wait(running.cancel()).unwrap();
        let ended = sandbox.wait(running.result()).unwrap();
        assert!(ended.cancelled);
        assert_eq!(code(&ended), ErrorCode::Cancelled);
        assert!(is_told(provider.hear().unwrap(), second.invocation));
    }
}

#[test]
fn a_provider_that_leaves_takes_its_tools_and_fails_its_calls() {
    for mode in Mode::all() {
        let scene = Scene::new(mode);
        let sandbox = Arc::new(scene.open("unasked"));
        for nonsense in [false, true] {
            let mut provider = scene.raw();
            assert!(matches!(provider.ask(provide("weather")), Reply::Provided(_)));
            let call = calling(&sandbox, 60_000);
            invoked(&mut provider);
            if nonsense {
                provider.say(&[0, 0, 0, 2, 255, 255]);
            }
            drop(provider);
            let result = call.join().unwrap();
            assert_eq!(code(&result), ErrorCode::ProviderFailed);
            until(|| !scene.has("weather"));
        }
        assert_eq!(sandbox.ok("echo the session goes on"), "the session goes on\n");
    }
}

#[test]
fn answers_that_are_odd_or_huge_stay_in_bounds() {
    for mode in Mode::all() {
        let scene = Scene::new(mode);
        let sandbox = Arc::new(scene.open("unasked"));
        let mut provider = scene.raw();
        assert_eq!(provider.refusal(result(1, "x")), ErrorCode::OutOfOrder);
        assert!(matches!(provider.ask(provide("weather")), Reply::Provided(_)));
        assert_eq!(provider.refusal(result(1, "x")), ErrorCode::NotFound);
        let call = calling(&sandbox, 60_000);
        let number = invoked(&mut provider).invocation;
        assert_eq!(provider.refusal(result(number + 1, "x")), ErrorCode::NotFound);
        assert_eq!(provider.ask(result(number, &"é".repeat(1_000_000))), Reply::Done);
        assert_eq!(provider.refusal(result(number, "again")), ErrorCode::NotFound);
        let huge = call.join().unwrap();
        assert!(huge.success && huge.truncated);
        assert!(huge.output.len() < 110_000, "{}", huge.output.len());
        let call = calling(&sandbox, 60_000);
        let invocation = invoked(&mut provider).invocation;
        let data = JsonText::render(&json!({"long": "x".repeat(200_000)})).unwrap();
        let answer =
            InvokeResult { invocation, output: String::new(), data: Some(data), error: None };
        assert_eq!(provider.ask(Request::InvokeResult(Box::new(answer))), Reply::Done);
        let large = call.join().unwrap();
        assert_eq!(code(&large), ErrorCode::ProviderFailed);
        assert_eq!(large.data, None);
        let call = calling(&sandbox, 60_000);
        let invocation = invoked(&mut provider).invocation;
        let flood = || {
            let text = "x".repeat(MAX_CHUNK);
            Request::InvokeOutput(InvokeOutput { invocation, text })
        };
        let taken = (0..64).take_while(|_| provider.ask(flood()) == Reply::Done).count();
        assert!((3..8).contains(&taken), "{taken}");
        assert_eq!(code(&call.join().unwrap()), ErrorCode::ProviderFailed);
        let message = "x".repeat(9_000);
        let progress = InvokeProgress { invocation, message, done: 0, total: None };
        assert_eq!(provider.refusal(Request::InvokeProgress(progress)), ErrorCode::InvalidRequest);
    }
}

#[test]
fn names_are_taken_once_and_schemas_are_looked_at_first() {
    for mode in Mode::all() {
        let scene = Scene::new(mode);
        let before = scene.tools();
        let (mut one, mut other) = (scene.raw(), scene.raw());
        assert_eq!(one.refusal(provide("bash")), ErrorCode::AlreadyExists);
        assert_eq!(one.refusal(provide("Shell")), ErrorCode::AlreadyExists);
        let remote = JsonText::render(&json!({"$ref": "http://127.0.0.1:9/x"})).unwrap();
        let bad = palisade_protocol::ProvidedTool { schema: remote, ..wire("weather") };
        let error = one.refused(Request::Provide(Provide { tools: vec![wire("fine"), bad] }));
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(error.message.starts_with("`tools.weather.schema`"), "{}", error.message);
        assert_eq!(scene.tools(), before, "all or nothing");
        assert!(matches!(one.ask(provide("weather")), Reply::Provided(_)));
        assert_eq!(other.refusal(provide("weather")), ErrorCode::AlreadyExists);
        let over = palisade_protocol::ProvidedTool { r#override: true, ..wire("weather") };
        let reply = other.ask(Request::Provide(Provide { tools: vec![over] }));
        assert!(matches!(reply, Reply::Provided(_)), "the same user provides both: {reply:?}");
        let names = vec!["weather".parse().unwrap()];
        let gone = one.refusal(Request::Unprovide(Unprovide { names: names.clone() }));
        assert_eq!(gone, ErrorCode::NotFound, "it is the other's");
        assert_eq!(other.ask(Request::Unprovide(Unprovide { names })), Reply::Done);
        assert_eq!(scene.tools(), before);
    }
}

#[test]
fn a_provider_sees_its_own_calls_and_of_sessions_a_label() {
    for mode in Mode::all() {
        let scene = Scene::new(mode);
        let (one, two) = (Arc::new(scene.open("unasked")), Arc::new(scene.open("unasked")));
        let (mut provider, mut bystander) = (scene.raw(), scene.raw());
        assert!(matches!(provider.ask(provide("weather")), Reply::Provided(_)));
        assert!(matches!(bystander.ask(provide("other")), Reply::Provided(_)));
        let mut labels = Vec::new();
        for sandbox in [&one, &one, &two] {
            let call = calling(sandbox, 60_000);
            let invoke = invoked(&mut provider);
            let shown = format!("{invoke:?}");
            assert!(!shown.contains(sandbox.session.id().as_str()), "{shown}");
            assert!(!shown.contains(scene.world.workspace().to_str().unwrap()), "{shown}");
            let number = invoke.invocation;
            assert_eq!(bystander.refusal(result(number, "forged")), ErrorCode::NotFound);
            assert_eq!(provider.ask(result(number, "rain")), Reply::Done);
            assert_eq!(call.join().unwrap().output, "rain");
            labels.push(invoke.session);
        }
        assert_eq!(labels[0], labels[1]);
        assert_ne!(labels[0], labels[2]);
        for request in [
            raw::open(&scene.world.workspace(), "workspace"),
            Request::Pending,
            Request::Grants,
            Request::Subscribe(Default::default()),
        ] {
            assert_eq!(provider.refusal(request), ErrorCode::Forbidden);
        }
    }
}

#[test]
fn agents_register_nothing_and_sessions_do_not_reach_the_socket() {
    for mode in Mode::all() {
        let scene = Scene::new(mode);
        let operators = || mode.act(|| UnixStream::connect(&scene.daemon.operators).unwrap());
        for stream in [scene.daemon.connect(mode), operators()] {
            let mut peer = Raw::greeted(stream, Dialect::JsonLines);
            for request in [
                provide("weather"),
                Request::Unprovide(Unprovide::default()),
                result(1, "x"),
                Request::InvokeOutput(InvokeOutput { invocation: 1, text: String::new() }),
            ] {
                assert_eq!(peer.refusal(request), ErrorCode::Forbidden);
            }
        }
        assert!(!scene.has("weather"));
        let sandbox = scene.open("unasked");
        let path = scene.daemon.providers.display().to_string();
        let attempt = [format!("unix:{path}")];
        assert_eq!(scene.world.told_outside(&attempt), ["ok"]);
        assert_eq!(sandbox.told(&attempt), ["ENOENT"]);
        let listed = sandbox.bash(&format!("ls {path}"));
        assert!(!listed.success, "{}", listed.output);
    }
}
