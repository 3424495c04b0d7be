//! Checks of a request's contents that its types do not express. The broker runs them once, for
//! both codecs.

pub(crate) mod operator;
pub(crate) mod provider;

use crate::{
    Batch, Call, ErrorCode, Hello, Input, Open, OutputQuery, Resume, ToolsQuery, WireError,
    limits::{
        MAX_BATCH, MAX_CHUNK, MAX_CLAIM, MAX_CLAIMS, MAX_DOMAIN, MAX_GRACE_MS, MAX_LIST, MAX_NAME,
        MAX_PATH, MAX_REASON, MAX_TIMEOUT_MS,
    },
};

fn invalid(message: String, hint: &str) -> WireError {
    WireError::new(ErrorCode::InvalidRequest, message, hint)
}

fn at_most(what: &str, found: usize, limit: usize, hint: &str) -> Result<(), WireError> {
    if found > limit {
        return Err(invalid(format!("`{what}` has {found} bytes, the limit is {limit}"), hint));
    }
    Ok(())
}

fn few(what: &str, found: usize) -> Result<(), WireError> {
    if found > MAX_LIST {
        return Err(invalid(
            format!("`{what}` has {found} entries, the limit is {MAX_LIST}"),
            "name only those that are needed",
        ));
    }
    Ok(())
}

pub(crate) fn check_tools(query: &ToolsQuery) -> Result<(), WireError> {
    few("names", query.names.len())
}

pub(crate) fn check_hello(hello: &Hello) -> Result<(), WireError> {
    at_most("client", hello.client.len(), MAX_NAME, "give a short name")?;
    few("capabilities", hello.capabilities.len())?;
    hello.capabilities.iter().try_for_each(|name| {
        at_most("capabilities", name.len(), MAX_NAME, "name only those that PROTOCOL.md lists")
    })
}

pub(crate) fn check_open(open: &Open) -> Result<(), WireError> {
    let path = &open.workspace.0;
    let refused = |message: &str| {
        WireError::new(
            ErrorCode::WorkspaceRefused,
            message,
            "give the absolute path of a directory that exists",
        )
    };
    if path.first() != Some(&b'/') {
        return Err(refused("`workspace` is not an absolute path"));
    }
    if path.contains(&0) {
        return Err(refused("`workspace` has a NUL byte in it"));
    }
    if path.len() > MAX_PATH {
        return Err(refused("`workspace` is longer than any path can be"));
    }
    if let Some(found) = open.options.grace_ms.filter(|grace| *grace > MAX_GRACE_MS) {
        return Err(invalid(
            format!("`options.grace_ms` is {found}, the limit is {MAX_GRACE_MS}"),
            "give a smaller value; the profile may set a lower limit",
        ));
    }
    few("allow_domains", open.options.allow_domains.len())?;
    if open.options.allow_domains.iter().any(|name| name.len() > MAX_DOMAIN) {
        let message = format!("a name in `allow_domains` has more than {MAX_DOMAIN} bytes");
        return Err(invalid(message, "give names as in net.allow of a profile"));
    }
    match &open.profile {
        Some(name) if name.is_empty() => {
            Err(invalid("`profile` is empty".to_owned(), "omit it to use the default profile"))
        }
        Some(name) => at_most("profile", name.len(), MAX_NAME, "`status` lists the profiles"),
        None => Ok(()),
    }
}

pub(crate) fn check_call(call: &Call) -> Result<(), WireError> {
    if !call.arguments.is_object() {
        return Err(WireError::new(
            ErrorCode::InvalidArguments,
            "`arguments` is not a JSON object",
            "give the tool's arguments by name; `tools` lists them",
        ));
    }
    if let Some(reason) = &call.reason {
        at_most("reason", reason.len(), MAX_REASON, "say why in a few sentences")?;
    }
    if let Some(thinking) = &call.options.reverse_thinking {
        operator::check_reverse_thinking(thinking)?;
    }
    if let Some(key) = &call.options.idempotency_key {
        if key.is_empty() {
            let hint = "omit it if the call may be repeated";
            return Err(invalid("`options.idempotency_key` is empty".to_owned(), hint));
        }
        at_most("options.idempotency_key", key.len(), MAX_NAME, "a UUID will do")?;
    }
    if call.options.claims.len() > MAX_CLAIMS {
        let found = call.options.claims.len();
        let message = format!("`options.claims` has {found} entries, the limit is {MAX_CLAIMS}");
        return Err(invalid(message, "leave out those that say the least"));
    }
    for claim in &call.options.claims {
        at_most("options.claims.name", claim.name.len(), MAX_NAME, "shorten it")?;
        at_most("options.claims.value", claim.value.len(), MAX_CLAIM, "shorten it")?;
    }
    match call.options.timeout_ms {
        Some(0) => Err(invalid(
            "`options.timeout_ms` is 0".to_owned(),
            "omit it to use the profile's default",
        )),
        Some(1..=MAX_TIMEOUT_MS) | None => Ok(()),
        Some(found) => Err(invalid(
            format!("`options.timeout_ms` is {found}, the limit is {MAX_TIMEOUT_MS}"),
            "give a smaller value; the profile may set a lower limit",
        )),
    }
}

pub(crate) fn check_resume(resume: &Resume) -> Result<(), WireError> {
    at_most("token", resume.token.len(), MAX_NAME, "give the token as `opened` had it")?;
    few("calls", resume.calls.as_ref().map_or(0, Vec::len))
}

pub(crate) fn check_batch(batch: &Batch) -> Result<(), WireError> {
    let found = batch.calls.len();
    if found == 0 || found > MAX_BATCH {
        return Err(invalid(
            format!("`calls` has {found} entries, but must have from 1 to {MAX_BATCH}"),
            "split the calls into several batches",
        ));
    }
    batch.calls.iter().try_for_each(|call| {
        check_call(call)?;
        if call.options.stream || call.options.progress || call.options.attach {
            return Err(invalid(
                "a call in a batch can not stream, report progress or have an attachment"
                    .to_owned(),
                "send it as a separate call",
            ));
        }
        Ok(())
    })
}

pub(crate) fn check_input(input: &Input) -> Result<(), WireError> {
    at_most("data", input.data.0.len(), MAX_CHUNK, "send the attachment in smaller pieces")
}

pub(crate) fn check_output(query: &OutputQuery) -> Result<(), WireError> {
    if query.limit == Some(0) {
        return Err(invalid(
            "`limit` is 0, but an empty page means the end".to_owned(),
            "omit it for the largest page",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, CallOptions, JsonText, OpenOptions, RawPath, Request, ToolsQuery};

    fn refusal(request: Request) -> (ErrorCode, String) {
        let error = request.check().unwrap_err();
        assert!(!error.hint.is_empty());
        (error.code, error.message)
    }

    fn hello(client: &str, capabilities: Vec<String>) -> Request {
        Request::Hello(Hello { version: 1, client: client.to_owned(), capabilities })
    }

    fn open(workspace: &[u8], profile: Option<&str>) -> Request {
        Request::Open(Open {
            workspace: RawPath(workspace.to_vec()),
            profile: profile.map(str::to_owned),
            options: OpenOptions::default(),
        })
    }

    fn call(arguments: &str, reason: usize, timeout_ms: Option<u64>) -> Request {
        Request::Call(Call {
            tool: "bash".parse().unwrap(),
            arguments: JsonText::parse(arguments.to_owned()).unwrap(),
            reason: Some("r".repeat(reason)),
            options: CallOptions { timeout_ms, ..CallOptions::default() },
        })
    }

    fn input(length: usize) -> Request {
        Request::Input(Input { call: 1, data: Bytes(vec![0; length]), end: false })
    }

    fn tools(count: usize) -> Request {
        Request::Tools(ToolsQuery { names: vec!["bash".parse().unwrap(); count] })
    }

    fn output(limit: Option<u64>) -> Request {
        Request::Output(OutputQuery { call_id: "c1".parse().unwrap(), offset: 0, limit })
    }

    #[test]
    fn what_is_at_its_limit_passes() {
        let name = "n".repeat(MAX_NAME);
        let long = [b"/".as_slice(), &[b'a'; MAX_PATH - 1]].concat();
        for request in [
            hello(&name, vec![name.clone(); MAX_LIST]),
            open(b"/", None),
            open(&long, Some(&name)),
            open(b"/\xff", Some("default")),
            call("{}", MAX_REASON, Some(MAX_TIMEOUT_MS)),
            call(" {\"a\":1}", 0, Some(1)),
            call("{}", 0, None),
            input(MAX_CHUNK),
            tools(MAX_LIST),
            output(None),
            output(Some(u64::MAX)),
            Request::Ping,
            Request::Close,
            Request::Status,
        ] {
            assert_eq!(request.check(), Ok(()));
        }
    }

    #[test]
    fn what_is_over_its_limit_is_refused_by_name() {
        let name = "n".repeat(MAX_NAME + 1);
        let long = [b"/".as_slice(), &[b'a'; MAX_PATH]].concat();
        let many = vec![String::new(); MAX_LIST + 1];
        let invalid = ErrorCode::InvalidRequest;
        let refused = ErrorCode::WorkspaceRefused;
        for (request, code, message) in [
            (hello(&name, vec![]), invalid, "`client` has 129 bytes, the limit is 128"),
            (
                hello("", vec![name.clone()]),
                invalid,
                "`capabilities` has 129 bytes, the limit is 128",
            ),
            (hello("", many), invalid, "`capabilities` has 257 entries, the limit is 256"),
            (open(b"", None), refused, "`workspace` is not an absolute path"),
            (open(b"a/b", None), refused, "`workspace` is not an absolute path"),
            (open(b"/a\0b", None), refused, "`workspace` has a NUL byte in it"),
            (open(&long, None), refused, "`workspace` is longer than any path can be"),
            (open(b"/a", Some("")), invalid, "`profile` is empty"),
            (open(b"/a", Some(&name)), invalid, "`profile` has 129 bytes, the limit is 128"),
            (call("[]", 0, None), ErrorCode::InvalidArguments, "`arguments` is not a JSON object"),
            (
                call("{}", MAX_REASON + 1, None),
                invalid,
                "`reason` has 8193 bytes, the limit is 8192",
            ),
            (call("{}", 0, Some(0)), invalid, "`options.timeout_ms` is 0"),
            (
                call("{}", 0, Some(MAX_TIMEOUT_MS + 1)),
                invalid,
                "`options.timeout_ms` is 86400001, the limit is 86400000",
            ),
            (input(MAX_CHUNK + 1), invalid, "`data` has 262145 bytes, the limit is 262144"),
            (tools(MAX_LIST + 1), invalid, "`names` has 257 entries, the limit is 256"),
            (output(Some(0)), invalid, "`limit` is 0, but an empty page means the end"),
        ] {
            assert_eq!(refusal(request), (code, message.to_owned()));
        }
    }
}
