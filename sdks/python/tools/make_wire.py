"""Writes `src/tenure/_wire.py`, the types of requests and answers, from the OpenAPI document of the protocol.

python tools/make_wire.py            writes the file
python tools/make_wire.py --check    fails if the file is not what would be written
"""

from __future__ import annotations

import json
import keyword
import sys
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
DOCUMENT = PACKAGE.parents[1] / "protocol" / "openapi.json"
TARGET = PACKAGE / "src" / "tenure" / "_wire.py"

HEAD = '''"""The types of requests and answers. Generated from `protocol/openapi.json` by `tools/make_wire.py`; do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

'''


def main() -> int:
    text = generate(json.loads(DOCUMENT.read_text()))
    if "--check" not in sys.argv:
        TARGET.write_text(text)
        return 0
    if TARGET.read_text() == text:
        return 0
    print(f"{TARGET} is stale: run tools/make_wire.py", file=sys.stderr)
    return 1


def generate(document: dict[str, Any]) -> str:
    """The text of the module."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    aliases = [name for name, schema in schemas.items() if "properties" not in schema]
    objects = [name for name in schemas if name not in aliases]
    parts = [f"{name}: TypeAlias = {hint(schemas[name])}\n" for name in sorted(aliases)]
    parts += [typed_dict(name, schemas[name]) for name in sorted(objects)]
    return HEAD + "\n" + "\n".join(parts)


def typed_dict(name: str, schema: dict[str, Any]) -> str:
    """A TypedDict; with the functional syntax where a member's name is a word of Python."""
    required = set(schema.get("required", ()))
    members = {
        member: hint(each) if member in required else f"NotRequired[{hint(each)}]"
        for member, each in sorted(schema["properties"].items())
    }
    if any(keyword.iskeyword(member) for member in members):
        fields = "".join(f'        "{member}": "{each}",\n' for member, each in members.items())
        return f'{name} = TypedDict(\n    "{name}",\n    {{\n{fields}    }},\n)\n'
    fields = "".join(f"    {member}: {each}\n" for member, each in members.items()) or "    pass\n"
    return f"\nclass {name}(TypedDict):\n{fields}\n"


def hint(schema: dict[str, Any]) -> str:
    """The type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(value) for value in schema['enum'])}]"
    for word in ("oneOf", "anyOf"):
        if word in schema:
            return union([hint(each) for each in schema[word]])
    kinds = schema.get("type")
    if kinds is None:
        return "Any"
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return union([plain(kind, schema) for kind in kinds])


def union(hints: list[str]) -> str:
    return " | ".join(dict.fromkeys(hints))


def plain(kind: str, schema: dict[str, Any]) -> str:
    if kind == "array":
        return f"list[{hint(schema.get('items', {}))}]"
    if kind == "object":
        extra = schema.get("additionalProperties")
        return f"dict[str, {hint(extra) if isinstance(extra, dict) else 'Any'}]"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}[kind]


if __name__ == "__main__":
    sys.exit(main())
