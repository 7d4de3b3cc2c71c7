// Writes src/wire.ts: the shapes of the wire, from the OpenAPI document of the protocol.
// `node scripts/wire.mjs --print` writes to standard output instead; a test compares it with the file.
import { readFileSync, writeFileSync } from "node:fs";

const document = JSON.parse(readFileSync(new URL("../../../protocol/openapi.json", import.meta.url), "utf8"));
const schemas = document.components.schemas;

function comment(text, indent = "") {
  if (!text) return "";
  const lines = text.trim().replaceAll("*/", "* /").split("\n");
  if (lines.length === 1) return `${indent}/** ${lines[0].trim()} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line.trim()}`.trimEnd()).join("\n")}\n${indent} */\n`;
}

function named(schema) {
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  return [...new Set(types.map((type) => ofType(type, schema)))].join(" | ");
}

function ofType(type, schema) {
  switch (type) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array":
      return `Array<${typeOf(schema.items ?? {})}>`;
    case "object":
      return objectOf(schema);
    default:
      return schema.properties ? objectOf(schema) : "unknown";
  }
}

function objectOf(schema) {
  if (!schema.properties) {
    const values = schema.additionalProperties;
    return `{ [name: string]: ${values && values !== true ? typeOf(values) : "unknown"} }`;
  }
  return `{ ${members(schema, "", "; ")} }`;
}

function typeOf(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const union = schema.oneOf ?? schema.anyOf;
  if (union) return [...new Set(union.map(typeOf))].join(" | ");
  if (schema.allOf) return schema.allOf.map(typeOf).join(" & ");
  return named(schema);
}

function members(schema, indent, separator) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties)
    .map(([name, member]) => {
      const key = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
      const said = indent ? comment(member.description, indent) : "";
      return `${said}${indent}${key}${required.has(name) ? "" : "?"}: ${typeOf(member)}`;
    })
    .join(separator);
}

function declaration([name, schema]) {
  const said = comment(schema.description);
  if (schema.type === "object" && schema.properties && Object.keys(schema.properties).length > 0) {
    return `${said}export interface ${name} {\n${members(schema, "  ", ";\n")};\n}\n`;
  }
  return `${said}export type ${name} = ${typeOf(schema)};\n`;
}

const head = `// Generated from protocol/openapi.json by scripts/wire.mjs. Do not edit.\n`;
const text = `${head}\n${Object.entries(schemas).map(declaration).join("\n")}`;
if (process.argv.includes("--print")) {
  process.stdout.write(text);
} else {
  writeFileSync(new URL("../src/wire.ts", import.meta.url), text);
}
