// A connector for one channel account, from Concord's published schemas alone: docs/schemas/channel_request.json comes in by
// `payments.channel-requests`, docs/schemas/answer.json goes out by `payments.query-results`, both keyed by order id.
//
// Every request is taken at least once: its offset is committed only after its answer is stored. That is right for a channel that knows a
// request again by its idempotency key, as the simulated one does; any other needs the offset committed before the call.
import { Kafka, Partitioners } from "kafkajs";

const { BROKERS, ACCOUNT, ENDPOINT, API_KEY, PREFIX = "payments.", GROUP = "example-connector" } = process.env;
for (const [name, value] of Object.entries({ BROKERS, ACCOUNT, ENDPOINT, API_KEY }))
  if (!value) throw new Error(`${name} is not set`);
const PLURAL = { CAPTURE: "captures", VOID: "voids", REFUND: "refunds" };
const ANSWERED = new Set([200, 201, 402, 404, 409, 422]); // whatever comes with another status proves nothing

// What the channel says, or TIMEOUT, which the law takes for what it is: no word at all.
async function ask(request, withinMs) {
  const payment = `${ENDPOINT}/payments/${encodeURIComponent(request.payment_no)}`;
  const { amount, currency, order_id, payment_no, operation_no } = request;
  let url = payment, method = "POST", body = { amount, currency, order_id };
  if (request.verb === "QUERY") {
    method = "GET", body = undefined;
    if (operation_no) url += `/operations/${encodeURIComponent(operation_no)}`;
  } else if (request.verb === "SUBMIT") {
    url = `${ENDPOINT}/payments`, body.payment_no = payment_no;
  } else if (request.verb === "CLOSE") {
    url += "/close", body = {};
  } else {
    url += `/${PLURAL[request.verb]}`, body.operation_no = operation_no;
  }
  const headers = { authorization: `Bearer ${API_KEY}`, "content-type": "application/json", "idempotency-key": request.idempotency_key };
  const sent = { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(withinMs), redirect: "error" };
  try {
    const reply = await fetch(url, sent);
    if (!ANSWERED.has(reply.status)) return { status: "TIMEOUT", error_class: `http_${reply.status}` };
    const { status, transaction, amount, currency, payer_action, error } = await reply.json();
    return { status, transaction, amount, currency, payer_action, error_class: error };
  } catch (error) {
    return { status: "TIMEOUT", error_class: error.name };
  }
}

const kafka = new Kafka({ clientId: "example-connector", brokers: BROKERS.split(",") });
const producer = kafka.producer({ idempotent: true, createPartitioner: Partitioners.DefaultPartitioner });
const consumer = kafka.consumer({ groupId: GROUP });
await Promise.all([producer.connect(), consumer.connect()]);
await consumer.subscribe({ topic: `${PREFIX}channel-requests`, fromBeginning: true });
consumer.on(consumer.events.GROUP_JOIN, () => console.log("partitions taken"));

await consumer.run({
  partitionsConsumedConcurrently: 8,
  eachMessage: async ({ message }) => {
    const request = JSON.parse(message.value);
    const withinMs = Math.min(20_000, request.not_after ? Date.parse(request.not_after) - Date.now() : Infinity);
    if (request.channel !== ACCOUNT || withinMs <= 0) return; // another's, or too late: the law asks again
    const said = await ask(request, withinMs);
    const { order_id, payment_no, channel, merchant, operation_no, id } = request;
    const about = { order_id, payment_no, channel, merchant, operation_no, request_id: id, answered_at: new Date().toISOString() };
    const value = JSON.stringify({ type: "answer", request: request.verb.toLowerCase(), ...about, ...said });
    await producer.send({ topic: `${PREFIX}query-results`, acks: -1, messages: [{ key: message.key, value }] });
  },
});
for (const signal of ["SIGINT", "SIGTERM"])
  process.once(signal, () => consumer.disconnect().then(() => producer.disconnect()));
