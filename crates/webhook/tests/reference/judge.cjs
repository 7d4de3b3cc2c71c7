// Reads cases from stdin and prints, for each, whether the reference package of npm believes the message.

const { Webhook, WebhookVerificationError } = require("standardwebhooks");

function believes(test) {
  const headers = {
    "webhook-id": test.id,
    "webhook-timestamp": test.timestamp,
    "webhook-signature": test.signature,
  };
  try {
    new Webhook(test.secret).verify(test.body, headers, { jsonParse: false });
    return true;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return false;
    throw error;
  }
}

const cases = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(cases.map((test) => [test.name, believes(test)])));
