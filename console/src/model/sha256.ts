/**
 * SHA-256 (FIPS 180-4), because `crypto.subtle` is missing on pages that come over plain HTTP from another machine, and a digest
 * that is checked on some pages only is worse than none.
 */

const K = new Uint32Array(64);
const START = new Uint32Array(8);

/** The constants are the first bits of the fractions of square and cube roots of primes. */
(function constants() {
  let found = 0;
  for (let n = 2; found < 64; n++) {
    let isPrime = true;
    for (let d = 2; d * d <= n; d++) if (n % d === 0) isPrime = false;
    if (!isPrime) continue;
    const fraction = (x: number) => Math.floor((x - Math.floor(x)) * 2 ** 32);
    if (found < 8) START[found] = fraction(Math.sqrt(n));
    K[found++] = fraction(Math.cbrt(n));
  }
})();

const rotate = (x: number, by: number) => (x >>> by) | (x << (32 - by));

function block(hash: Uint32Array, view: DataView, offset: number, w: Uint32Array): void {
  for (let i = 0; i < 16; i++) w[i] = view.getUint32(offset + 4 * i);
  for (let i = 16; i < 64; i++) {
    const a = w[i - 15]!;
    const b = w[i - 2]!;
    const s0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3);
    const s1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10);
    w[i] = w[i - 16]! + s0 + w[i - 7]! + s1;
  }
  let [a, b, c, d, e, f, g, h] = hash as unknown as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i]! + w[i]!) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((x, i) => {
    hash[i] = hash[i]! + x;
  });
}

/** The SHA-256 of bytes, as 64 hexadecimal digits. */
export function sha256(bytes: Uint8Array): string {
  const padded = new Uint8Array(((bytes.length + 8) >> 6) * 64 + 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  const hash = START.slice();
  const w = new Uint32Array(64);
  for (let offset = 0; offset < padded.length; offset += 64) block(hash, view, offset, w);
  return Array.from(hash, (x) => x.toString(16).padStart(8, "0")).join("");
}
