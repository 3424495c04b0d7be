//! Has a provider carry out a call, until it answers, disconnects, or the time is over. Runs in the
//! broker.

use crate::{
    base::{capture::Capture, error::CallError, outcome::Outcome},
    cells::context::{Context, Deadline, Streaming},
    tools::provider::{PendingInvocation, Provider, ProviderMessage, left},
};
use palisade_protocol::{Event, Invoke, InvokeResult, JsonText, Stream, ToolName};
use std::sync::Arc;

/// The request to a provider.
#[derive(Debug)]
pub(crate) struct ProviderRequest {
    pub(crate) tool: ToolName,
    pub(crate) arguments: JsonText,
    pub(crate) reason: Option<String>,
}

/// Sends the request and returns the outcome.
pub(crate) async fn run(
    provider: &Arc<Provider>,
    asking: ProviderRequest,
    context: Context,
    deadline: Deadline,
) -> Outcome {
    let mut invoked = match provider.begin() {
        Ok(invoked) => invoked,
        Err(error) => return error.into(),
    };
    let most = usize::try_from(context.session.profile.output_bytes()).unwrap_or(usize::MAX);
    let invoke = Event::Invoke(Box::new(Invoke {
        invocation: invoked.number,
        session: provider.label(&context.session.id),
        tool: asking.tool,
        arguments: asking.arguments,
        reason: asking.reason,
        deadline_ms: u64::try_from(deadline.after.as_millis()).unwrap_or(u64::MAX),
    }));
    let mut said = Capture::new(most);
    let ended = tokio::select! {
        biased;
        ended = answered(&mut invoked, invoke, &context, &mut said) => ended,
        stop = Context::stopped(&context.cancel, deadline) => Err(stop),
    };
    // Before the result is sent: whoever sees that the call ended can rely on the provider knowing
    // it.
    drop(invoked);
    let outcome = match ended {
        Ok(result) => finished(*result, most, &mut said),
        Err(error) => error.into(),
    };
    let said = said.finish();
    Outcome { output: said.text, omitted: said.omitted, lossy: said.lossy, ..outcome }
}

/// Sends the request, and receives messages until the result arrives.
async fn answered(
    invoked: &mut PendingInvocation,
    invoke: Event,
    context: &Context,
    said: &mut Capture,
) -> Result<Box<InvokeResult>, CallError> {
    invoked.send(invoke).await?;
    loop {
        match invoked.heard.recv().await {
            Some(ProviderMessage::Progress(progress)) => {
                let message = palisade_text::escape_line(&progress.message);
                context.progress(&message, progress.done, progress.total);
            }
            Some(ProviderMessage::Output(text)) => {
                let text = palisade_text::escape_lines(&text);
                said.push(text.as_bytes());
                if context.streaming == Streaming::Live {
                    context.send(Stream::Stdout, text.into_bytes()).await;
                }
            }
            Some(ProviderMessage::Result(result)) => return Ok(result),
            Some(ProviderMessage::TooMuch) => {
                let why = "the provider sent too much output before its result";
                return Err(CallError::Provider(why.to_owned()));
            }
            None => return Err(left()),
        }
    }
}

fn finished(result: InvokeResult, most: usize, said: &mut Capture) -> Outcome {
    said.push(palisade_text::escape_lines(&result.output).as_bytes());
    let size = result.data.as_ref().map_or(0, |data| data.as_str().len());
    let error = match result.error {
        Some(why) => Some(format!("the tool failed: {}", palisade_text::escape_lines(&why))),
        None if size > most => {
            Some(format!("the data of the result has {size} bytes; the limit is {most}"))
        }
        None => None,
    };
    let data = result.data.filter(|_| size <= most);
    Outcome { data, error: error.map(|why| CallError::Provider(why).into()), ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::ErrorCode;

    fn ended(output: &str, data: Option<&str>, error: Option<&str>) -> (Outcome, String) {
        let result = InvokeResult {
            invocation: 1,
            output: output.to_owned(),
            data: data.map(|text| JsonText::parse(text.to_owned()).unwrap()),
            error: error.map(str::to_owned),
        };
        let mut said = Capture::new(20);
        let outcome = finished(result, 20, &mut said);
        (outcome, said.finish().text)
    }

    #[test]
    fn results_are_bounded_and_cleaned() {
        let (outcome, text) = ended("a\u{1b}[2Jb\n", Some("{\"a\":1}"), None);
        assert_eq!((outcome.error, text.as_str()), (None, "a\\u{1b}[2Jb\n"));
        assert_eq!(outcome.data.unwrap().as_str(), "{\"a\":1}");
        let (_, text) = ended(&"x".repeat(100), None, None);
        assert!(text.contains("80 bytes left out"), "{text}");
        let (outcome, _) = ended("", Some("{\"long\":\"0123456789\"}"), None);
        assert_eq!(outcome.data, None);
        assert_eq!(outcome.error.unwrap().code, ErrorCode::ProviderFailed);
        let (outcome, text) = ended("so far", None, Some("no\u{7}"));
        assert_eq!(outcome.error.unwrap().message, "the tool failed: no\\u{7}");
        assert_eq!(text, "so far");
    }
}
