// What every scenario starts with: a connection, and a stream of its own that is removed in the end.
// The server is the one at NATS_URL.

import { after } from "node:test";

import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, nuid } from "@nats-io/transport-node";

export const connection = await connect({ servers: process.env.NATS_URL, timeout: 10_000 });
export const manager = await jetstreamManager(connection, { timeout: 10_000 });
export const js = jetstream(connection, { timeout: 10_000 });

after(() => connection.close());

export const STORAGES = ["file", "memory"];

/** Run `scenario(name)` on a stream with the subjects `<name>.>`, which goes when the scenario ends. */
export async function withStream(config, scenario) {
  const name = `JS${nuid.next()}`;
  await manager.streams.add({ name, subjects: [`${name}.>`], storage: "file", ...config });
  try {
    await scenario(name);
  } finally {
    await manager.streams.delete(name);
  }
}

/** Publish `count` messages "1", "2", …; the subjects end in a and b by turns. */
export async function publish(stream, count, first = 1) {
  const numbers = Array.from({ length: count }, (_, index) => first + index);
  const acks = await Promise.all(
    numbers.map((number) => js.publish(`${stream}.${number % 2 ? "a" : "b"}`, String(number))),
  );
  return acks.map((ack) => ack.seq);
}

/** Take `count` elements of an iterator, then stop it. */
export async function take(count, iterator, each = (element) => element) {
  const taken = [];
  if (count === 0) return taken;
  for await (const element of iterator) {
    taken.push(await each(element));
    if (taken.length === count) break;
  }
  return taken;
}

/** All elements of an iterator that ends by itself. */
export async function all(iterator, each = (element) => element) {
  return await take(Number.POSITIVE_INFINITY, iterator, each);
}

export function range(first, last) {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

/** Ask for what will not come; again if the server stalled meanwhile, which the client tells as an error. */
export async function patiently(ask) {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!/heartbeats missed/.test(error.message)) throw error;
    }
  }
}

/** Ask until `check` is true: for what a server does after it has answered. */
export async function eventually(check) {
  const deadline = Date.now() + 30_000;
  while (!(await check())) {
    if (Date.now() > deadline) throw new Error("it did not come true within 30 s");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
