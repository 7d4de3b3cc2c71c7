import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { canonical, encode, parse, plain, Unreadable, Unwritable } from "../dist/json.js";

class Order {
  readonly id = 7;
}

function refusal(value: unknown): Unwritable {
  try {
    encode(value);
  } catch (error) {
    if (error instanceof Unwritable) return error;
  }
  throw new Error("it was not refused");
}

describe("what is sent", () => {
  it("leaves undefined members out, and writes dates and bytes as text", () => {
    const value = { a: undefined, at: new Date(0), bytes: new Uint8Array([1, 2, 3]) };
    expect(encode(value)).toBe('{"at":"1970-01-01T00:00:00.000Z","bytes":"AQID"}');
    expect(encode(undefined)).toBe("null");
  });

  it("writes every digit of a bigint", () => {
    expect(encode({ n: 12345678901234567890123n })).toBe('{"n":12345678901234567890123}');
  });

  it.each([
    ["$.list[1]", { list: [1, Number.NaN] }],
    ["$.x", { x: Number.POSITIVE_INFINITY }],
    ["$.text", { text: "\ud800" }],
    ["$.map", { map: new Map([["a", 1]]) }],
    ["$.f", { f: () => 1 }],
    ["$.n", { n: 2 ** 60 }],
    ["$.at", { at: new Date(Number.NaN) }],
    ["$.list[1]", { list: [1, undefined] }],
    // biome-ignore lint/suspicious/noSparseArray: a hole is what is refused.
    ["$[0]", [, 1]],
    ["$.made[0]", { made: [{ toJSON: () => undefined }] }],
    ["$.orders[0]", { orders: [new Order()] }],
    ["$.later", { later: Promise.resolve(1) }],
    ["$.why", { why: new Error("no") }],
    ["$.numbers", { numbers: new Uint16Array(2) }],
    ["$.bytes", { bytes: new ArrayBuffer(2) }],
    ["$.set", { set: new Set([1]) }],
    ["$.weak", { weak: new WeakMap() }],
    ["$.pattern", { pattern: /a/ }],
    ["$.number", { number: Object(Number.NaN) }],
    ["$.symbol", { symbol: Symbol("s") }],
  ])("refuses what has no JSON form, and names it: %s", (path, value) => {
    expect(refusal(value).path).toBe(path);
  });

  it("says what to pass instead", () => {
    expect(refusal([new Order()]).why).toBe(
      "an instance of `Order` would arrive as a plain object: pass `{ ...value }`, or give the class a `toJSON()`",
    );
    expect(refusal(Promise.resolve(1)).why).toContain("await it");
    expect(refusal([undefined]).why).toContain("pass null");
    const round: Record<string, unknown> = {};
    round["round"] = round;
    expect(refusal(round).why).toContain("a value that contains itself");
  });

  it("writes what says how it is written, and plain objects of every origin", () => {
    class Money {
      constructor(private readonly cents: number) {}
      toJSON() {
        return { cents: this.cents };
      }
    }
    expect(encode({ price: new Money(5), at: new URL("https://example.com/") })).toBe(
      '{"price":{"cents":5},"at":"https://example.com/"}',
    );
    const bare = Object.assign(Object.create(null), { a: 1 });
    expect(encode([bare, runInNewContext("({ b: [2] })"), new Proxy({ c: 3 }, {})])).toBe(
      '[{"a":1},{"b":[2]},{"c":3}]',
    );
  });

  it("writes -0 as the 0 that it equals", () => {
    expect(encode([-0, { n: -0 }])).toBe('[0,{"n":0}]');
  });

  it("refuses more than 32 levels and more than 256 KiB, with the limit", () => {
    let deep: unknown = 1;
    for (let level = 0; level < 33; level++) deep = [deep];
    expect(refusal(deep).why).toContain("32 levels");
    const large = refusal("x".repeat(256 * 1024));
    expect(large.tooLarge).toBe(true);
    expect(large.why).toContain("the limit is 262144");
    expect(encode("é".repeat(128 * 1024 - 1)).length).toBe(128 * 1024 + 1);
    expect(refusal("é".repeat(128 * 1024)).tooLarge).toBe(true);
  });
});

describe("what is read", () => {
  it("never rounds an integer", () => {
    const read = parse(
      '{"small":9007199254740991,"list":[-12345678901234567890],"text":"12345678901234567890"}',
    );
    expect(read).toEqual({
      small: 9007199254740991,
      list: [-12345678901234567890n],
      text: "12345678901234567890",
    });
    expect(() => plain(read)).toThrow(Unreadable);
    expect(() => plain(read)).toThrow(
      "$.list[0]: an integer beyond 2^53, which JavaScript would round: send text",
    );
    expect(parse("12345678901234567890")).toBe(12345678901234567890n);
    expect(plain(parse("1234567890123456.5"))).toBe(1234567890123456.5);
  });

  it("reads texts that look like numbers after an escape as texts", () => {
    expect(parse('{"a":"\\":12345678901234567890"}')).toEqual({ a: '":12345678901234567890' });
  });
});

describe("the canonical form", () => {
  it("sorts by UTF-16 units and writes numbers as ECMAScript does", () => {
    expect(canonical({ "\u20ac": 1, "\ud83d\ude00": 2, a: -0, b: 1e21, c: 1e-7 })).toBe(
      '{"a":0,"b":1e+21,"c":1e-7,"€":1,"😀":2}',
    );
  });
});
