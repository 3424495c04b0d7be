//! What a shell's text would do: the walk over it, and whether it only reads.

use super::{
    finding::{Analysed, Found, Kind, Nature},
    form::Parse,
    reading,
    tables::Tables,
    walk::{Input, MOST_FINDINGS, MOST_STEPS, Walk},
};

/// The most commands that are told.
const MOST_COMMANDS: usize = 2048;

/// What a text would do.
#[must_use]
pub fn analyse(text: &str, parser: &dyn Parse, tables: &Tables) -> Analysed {
    let body = match parser.parse(text) {
        Ok(body) => body,
        Err(error) => {
            let why = format!("what this would run can not be told: {error}");
            let found = vec![Found::whole(Kind::Hidden, text, &why)];
            return Analysed { found, ..Analysed::default() };
        }
    };
    let mut walk = Walk::new(parser, tables);
    walk.body(&body, &Input::Inherited);
    walk.uncalled();
    let mut found = walk.found;
    if walk.steps > MOST_STEPS {
        let why = "there is more in it than is looked at, so it may do anything";
        found.push(Found::whole(Kind::Hidden, text, why));
    }
    found.sort_by_key(|f| (std::cmp::Reverse(f.kind), f.span.start));
    found.dedup();
    found.truncate(MOST_FINDINGS);
    found.sort_by_key(|f| f.span.start);
    let mut commands = walk.commands;
    commands.dedup();
    if commands.len() > MOST_COMMANDS {
        let why = "it has more commands than can be listed";
        found.push(Found::whole(Kind::Hidden, text, why));
        commands.truncate(MOST_COMMANDS);
    }
    let proven = found.iter().all(|found| found.kind == Kind::NestedCode);
    let nature = if proven { reading::nature(text, &body, parser, tables) } else { Nature::Acts };
    Analysed { found, commands, nature }
}
