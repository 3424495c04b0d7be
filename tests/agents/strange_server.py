# A server of the Model Context Protocol whose tools have the schemas that a careless or hostile author writes. Started by schemas.mjs.
import json, sys


def deep(wrap, depth=40):
    schema = {"type": "string"}
    for _ in range(depth):
        schema = wrap(schema)
    return schema


definitions = {f"L{level}": {"anyOf": [{"$ref": f"#/$defs/L{level + 1}"}] * 3} for level in range(60)}
definitions |= {"L60": {"type": "string"}, "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}]}}
definitions["Tree"] = {"properties": {"left": {"$ref": "#/$defs/Tree"}, "right": {"$ref": "#/$defs/Tree"}}}
ARGUMENTS = {
    "cycle": {"$ref": "#/$defs/Loop"},
    "tree": {"$ref": "#/$defs/Tree"},
    "growing": {"$ref": "#/$defs/L0"},
    "deep": deep(lambda inner: {"type": "object", "properties": {"x": inner}}),
    "alternatives": deep(lambda inner: {"oneOf": [inner, {"type": "integer"}]}),
    "enumeration": {"enum": [f"value-{number}" for number in range(20_000)]},
    "text": {"type": "string", "description": "long " * 20_000, "default": "x" * 100_000},
    "control": {"type": "string", "description": "a\u001b[2J\u202e\u200b\U000e0041b"},
    "old": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "required": True},
    "pattern": {"type": "string", "pattern": "(", "format": "nonsense", "minLength": -1},
    "types": {"type": ["string", "file", "null"], "nullable": True, "x-own": 1},
    "tuple": {"type": "array", "items": [{"type": "string"}, {}], "additionalItems": False},
    "untyped": {"minimum": 1, "minLength": 1, "required": ["a"], "if": {}, "not": {}},
    "contradiction": {"type": "object", "anyOf": [{"type": "string"}, {"type": "integer"}]},
    "away": {"$ref": "https://example.invalid/schema.json"},
    "a name": {"type": "string"},
}
TOOLS = {name.replace(" ", "_"): {"type": "object", "properties": {name: schema}, "required": [name]} for name, schema in ARGUMENTS.items()}
TOOLS["top"] = {"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {"type": "string"}}}]}
TOOLS["empty"] = {}

for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") == "initialize":
        own = {"name": "strange", "version": "1"}
        result = {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": own}
    elif request.get("method") == "tools/list":
        more = {"$schema": "http://json-schema.org/draft-04/schema#", "$defs": definitions}
        result = {"tools": [{"name": name, "description": name, "inputSchema": {**more, **schema}} for name, schema in TOOLS.items()]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
