"""The HTTP reference: pages from the OpenAPI document, one for each group of calls and one for all types."""

from __future__ import annotations

import json
import re

from pages import ROOT, Page

DOCUMENT = "protocol/openapi.json"
TITLES = {
    "runs": "Runs and queues",
    "workers": "Workers",
    "schedules": "Schedules",
    "approvals": "Approvals",
    "effects": "Effects",
    "endpoints": "Endpoints",
    "topologies": "Topologies",
    "recovery": "Recovery",
    "administration": "Administration",
    "server": "Server",
}
# The keywords in the document, and how a reader says them.
RANGES = [
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " members"),
]
LIMITS = [("pattern", "matches `{}`"), ("default", "default `{}`")]


def pages() -> list[Page]:
    document = json.loads((ROOT / DOCUMENT).read_text(encoding="utf-8"))
    by_tag: dict[str, list[tuple[str, str, dict]]] = {}
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            by_tag.setdefault(call["tags"][0], []).append((method.upper(), path, call))
    tags = [tag for tag in TITLES if tag in by_tag] + sorted(set(by_tag) - set(TITLES))
    groups = [page_of(tag, by_tag[tag], document) for tag in tags]
    overview = generated("http/index.md", index(tags, by_tag, document))
    return [overview, *groups, generated("http/types.md", types(document), "Types")]


def generated(path: str, text: str, label: str = "") -> Page:
    return Page(f"reference/{path}", text, f"reference/{path.removesuffix('.md')}.html", label=label)


def title(tag: str) -> str:
    return TITLES.get(tag, tag.capitalize())


def index(tags: list[str], by_tag: dict, document: dict) -> str:
    lines = ["# HTTP", "", document["info"]["description"], ""]
    lines += [
        "Calls need `Authorization: Bearer KEY`, or `Bearer TOKEN` where a worker speaks about its task.",
        "[A worker in any language](../../docs/guide/worker-in-any-language.md) shows the calls of a worker with curl, "
        "and [error codes](../../docs/errors/README.md) explains every refusal.",
        f"These pages are made from [the OpenAPI document](../../{DOCUMENT}), which a server has at `/openapi.json`.",
    ]
    for tag in tags:
        lines += ["", f"## {title(tag)}", "", "| call | |", "|---|---|"]
        for method, path, call in by_tag[tag]:
            lines.append(f"| [`{method} {path}`]({tag}.md#{anchor(method, path)}) | {cell(call['summary'])} |")
    return "\n".join(lines)


def anchor(method: str, path: str) -> str:
    return re.sub(r"[^\w\- ]", "", f"{method} {path}".lower()).replace(" ", "-")


def page_of(tag: str, calls: list[tuple[str, str, dict]], document: dict) -> Page:
    lines = [f"# {title(tag)} over HTTP"]
    for method, path, call in calls:
        lines += ["", f"## {method} {escaped(path)}", "", f"{call['summary']}."]
        if call.get("description"):
            lines += ["", call["description"]]
        lines += parameters(call) + request(call, document) + answers(call)
    return generated(f"http/{tag}.md", "\n".join(lines), title(tag))


def escaped(path: str) -> str:
    return path.replace("_", "\\_")


def parameters(call: dict) -> list[str]:
    listed = call.get("parameters", [])
    if not listed:
        return []
    rows = []
    for one in listed:
        name = f"`{one['name']}`" + (" (required)" if one.get("required") else "")
        schema = one.get("schema", {})
        rows.append([name, one["in"], kind(schema), cell(one.get("description") or schema.get("description", ""))])
    return table(["parameter", "in", "type", ""], rows)


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A last column without any text is left out."""
    width = len(head) if any(row[-1] for row in rows) else len(head) - 1
    lines = [head, ["---"] * len(head), *rows]
    return ["", *("| " + " | ".join(line[:width]) + " |" for line in lines)]


def request(call: dict, document: dict) -> list[str]:
    lines: list[str] = []
    for media, content in call.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        lines += ["", f"**Request**, `{media}`: {kind(schema)}"]
        target = schema.get("$ref", "").rsplit("/", 1)[-1]
        lines += members(document["components"]["schemas"].get(target, schema))
    return lines


def answers(call: dict) -> list[str]:
    lines = ["", "| answer | body | |", "|---|---|---|"]
    for status, answer in call["responses"].items():
        bodies = [kind(content.get("schema", {})) for content in answer.get("content", {}).values()]
        lines.append(f"| {status} | {', '.join(dict.fromkeys(bodies))} | {cell(with_codes(answer['description']))} |")
    return lines


def with_codes(text: str) -> str:
    """Codes of errors become links to their pages."""

    def link(found: re.Match) -> str:
        code = found.group(1)
        page = f"docs/errors/{code.replace('_', '-')}.md"
        return f"[`{code}`](../../{page})" if (ROOT / page).is_file() else found.group(0)

    return re.sub(r"`([a-z_]+)`", link, text)


def types(document: dict) -> str:
    lines = ["# Types of the HTTP API", "", "Every object of requests and answers, by name."]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += ["", f"## {name}", ""]
        if schema.get("description"):
            lines += [schema["description"], ""]
        if "enum" in schema:
            lines.append("One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".")
        elif "properties" not in schema:
            lines.append(kind(schema) or "Any JSON.")
        lines += members(schema)
    return "\n".join(lines)


def members(schema: dict) -> list[str]:
    listed = schema.get("properties", {})
    if not listed:
        return []
    required = schema.get("required", [])
    rows = []
    for name, one in listed.items():
        shown = f"`{name}`" + (" (required)" if name in required else "")
        rows.append([shown, kind(one), cell(one.get("description", ""))])
    return table(["member", "type", ""], rows)


def kind(schema: dict) -> str:
    """A type as a reader says it, with its limits."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](types.md#{name.lower()})"
    for word in ("oneOf", "anyOf", "allOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(kind(one) for one in schema[word]))
    base = plain(schema)
    limits = [
        between(schema.get(low), schema.get(high)) + unit
        for low, high, unit in RANGES
        if low in schema or high in schema
    ]
    limits += [pattern.format(cell(json_text(schema[key]))) for key, pattern in LIMITS if key in schema]
    return ", ".join([base, *limits]) if base else ""


def between(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"at least {low}" if high is None else f"at most {high}"
    return f"{low} to {high}"


def plain(schema: dict) -> str:
    names = schema.get("type", "")
    names = [names] if isinstance(names, str) else names
    shown = []
    for name in names:
        if name == "array":
            shown.append(f"array of {kind(schema.get('items', {})) or 'any JSON'}")
        elif name == "object" and isinstance(schema.get("additionalProperties"), dict):
            shown.append(f"object of {kind(schema['additionalProperties']) or 'any JSON'}")
        elif name == "string" and "enum" in schema:
            shown.append(" or ".join(f"`{value}`" for value in schema["enum"]))
        elif name:
            shown.append(name)
    return " or ".join(shown)


def json_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
