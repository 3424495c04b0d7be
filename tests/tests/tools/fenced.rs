//! A model without tool calling of its own: what `palisade tools --format prompt` teaches is read
//! by the client, is what the daemon takes, and is answered in the shape that every codec has.

use palisade_client::fenced;
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Mode, World};
use serde_json::{Value, json};
use std::fs;

#[test]
fn what_the_prompt_teaches_is_what_the_daemon_takes() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let mut command = world.command("palisade");
        let printed = mode.act(|| command.args(["tools", "--format", "prompt"]).output().unwrap());
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let prompt = String::from_utf8(printed.stdout).unwrap();
        let listed = mode.act(|| {
            world.command("palisade").args(["tools", "--format", "json"]).output().unwrap()
        });
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        let tools = listed.as_array().unwrap();
        assert!(tools.len() > 20, "{} tools", tools.len());
        for tool in tools {
            let (name, metadata) = (tool["name"].as_str().unwrap(), &tool["metadata"]);
            let mark = match (&metadata["read_only"], &metadata["requires_checkpoint"]) {
                (_, Value::Bool(true)) => "needs approval",
                (Value::Bool(true), _) => "reads only",
                _ => "may need approval",
            };
            let line = format!("\n- `{name}` ({mark})\n    ");
            assert!(prompt.contains(&line), "{line} is not in\n{prompt}");
        }
        let parsed = fenced::parse(&prompt);
        assert_eq!((parsed.calls.len(), parsed.malformed.len()), (1, 0), "{prompt}");

        let sandbox = world.open();
        let example = &parsed.calls[0];
        let result = sandbox.call(&example.tool, example.arguments.clone());
        let code = result.error.as_ref().map(|error| error.code);
        let refusals = [Some(ErrorCode::ToolNotFound), Some(ErrorCode::InvalidArguments)];
        assert!(!refusals.contains(&code), "{result:?}");
        let control = sandbox.call(&example.tool, json!({"no": "such argument"}));
        assert_eq!(control.error.unwrap().code, ErrorCode::InvalidArguments);
    }
}

#[test]
fn a_model_writes_blocks_and_reads_results() {
    let answer = "I write it.\n\n```tool\n{\"tool\": \"Write\", \"arguments\": {\"path\": \"a.md\", \
                  \"content\": \"```tool\\n{}\\n```\\n\"}, \"reason\": \"asked to\"}\n```\nThen I read \
                  it.\n~~~tool\n{\"name\": \"bash\", \"input\": {\"command\": \"cat a.md\"}}\n~~~\n";
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let parsed = fenced::parse(answer);
        assert_eq!(parsed.text, "I write it.\n\nThen I read it.\n");
        let results: Vec<CallResult> = parsed
            .calls
            .iter()
            .map(|call| sandbox.call(&call.tool, call.arguments.clone()))
            .collect();
        let made = fs::read_to_string(world.workspace().join("a.md")).unwrap();
        assert_eq!(made, "```tool\n{}\n```\n");
        let block = fenced::render(&results[1]).unwrap();
        assert!(block.starts_with("````result\n") && block.ends_with("\n````\n"), "{block}");
        let told: Value = serde_json::from_str(block.lines().nth(1).unwrap()).unwrap();
        assert_eq!(told["tool"], json!("bash"));
        assert_eq!(told["success"], json!(true));
        assert_eq!(told["output"], json!(made));
        assert_eq!(told["exit_code"], json!(0));
        assert!(told["receipt"].is_object() && told["error"].is_null(), "{told}");
        // Said to a model and echoed by it, a result is no call.
        assert_eq!(fenced::parse(&block).calls, []);
    }
}
