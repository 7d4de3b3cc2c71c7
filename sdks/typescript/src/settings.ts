/**
 * Where the coordinator is and how to speak to it: the same variables in every SDK.
 *
 * `TENURE_URL` (several addresses with commas), `TENURE_API_KEY`, `TENURE_CA_FILE`.
 */
import { Setup } from "./errors.js";

export const DEFAULT_URL = "http://127.0.0.1:7400";
/** More than any installation has; a longer list is not a list of addresses. */
const ADDRESSES_MAX = 64;

export interface Settings {
  /** At least one address, without a slash at the end. */
  urls: string[];
  apiKey: string;
  caFile: string | undefined;
}

export interface SettingsOptions {
  url?: string | undefined;
  apiKey?: string | undefined;
  caFile?: string | undefined;
}

export function resolveSettings(options: SettingsOptions): Settings {
  const env: Record<string, string | undefined> = globalThis.process?.env ?? {};
  const apiKey = options.apiKey ?? env["TENURE_API_KEY"] ?? "";
  if (!/^[\x21-\x7e]*$/.test(apiKey)) {
    throw new Setup(
      "the API key has characters that no key has",
      "check TENURE_API_KEY for spaces and line ends",
    );
  }
  return {
    urls: parseAddresses(options.url ?? env["TENURE_URL"] ?? DEFAULT_URL),
    apiKey,
    caFile: options.caFile ?? env["TENURE_CA_FILE"],
  };
}

function parseAddresses(list: string): string[] {
  const urls = list.split(",").map((text) => parseAddress(text.trim()));
  const alike = (url: URL) => url.pathname === urls[0]?.pathname && url.protocol === urls[0]?.protocol;
  if (urls.length > ADDRESSES_MAX || !urls.every(alike)) {
    throw new Setup(
      `the addresses of one store's coordinators differ in host and port only, and are at most ${ADDRESSES_MAX}: \`${list}\``,
      "correct TENURE_URL",
    );
  }
  return urls.map((url) => `${url.origin}${url.pathname.replace(/\/$/, "")}`);
}

function parseAddress(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol) || url.host === "") {
    throw new Setup(
      `\`${text}\` is not an address such as ${DEFAULT_URL}`,
      "set TENURE_URL to an http or https address",
    );
  }
  return url;
}
