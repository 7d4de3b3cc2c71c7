/** Tests that start a server as users do find the program that was built. */
import { binary } from "./server.ts";

try {
  process.env["TENURE_BINARY"] ??= binary();
} catch {
  // Tests that need it say so.
}
