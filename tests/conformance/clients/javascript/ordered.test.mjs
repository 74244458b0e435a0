// Ordered consumers of both kinds: everything once, in order, whatever happens to the consumer behind them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { all, js, manager, publish, range, STORAGES, take, withStream } from "./kit.mjs";

for (const storage of STORAGES) {
  test(`an ordered pull consumer reads the stream (${storage})`, async () => {
    await withStream({ storage }, async (stream) => {
      await publish(stream, 500);
      const consumer = await js.consumers.get(stream);
      assert.deepEqual(await take(500, await consumer.consume(), (message) => message.seq), range(1, 500));
    });
  });

  test(`an ordered push consumer reads the stream (${storage})`, async () => {
    await withStream({ storage }, async (stream) => {
      await publish(stream, 500);
      const consumer = await js.consumers.getPushConsumer(stream);
      assert.deepEqual(await take(500, await consumer.consume(), (message) => message.seq), range(1, 500));
    });
  });
}

test("an ordered consumer fetches, and gets the next one", async () => {
  await withStream({}, async (stream) => {
    await publish(stream, 10);
    const consumer = await js.consumers.get(stream, { filter_subjects: [`${stream}.b`] });
    assert.deepEqual(await all(await consumer.fetch({ max_messages: 3 }), (message) => message.seq), [2, 4, 6]);
    assert.equal((await consumer.next()).seq, 8);
    assert.equal((await consumer.next()).seq, 10);
    assert.equal(await consumer.next({ expires: 1000 }), null);
  });
});

test("an ordered consumer starts where it is told", async () => {
  await withStream({}, async (stream) => {
    await publish(stream, 10);
    const consumer = await js.consumers.get(stream, { deliver_policy: "by_start_sequence", opt_start_seq: 7 });
    assert.deepEqual(await take(4, await consumer.consume(), (message) => message.seq), range(7, 10));
  });
});

// Not the push kind: it beats every 30 s, and finds out only after two of them.
test("an ordered pull consumer goes on when its consumer was deleted", async () => {
  await withStream({}, async (stream) => {
    await publish(stream, 10);
    const consumer = await js.consumers.get(stream);
    const seen = [];
    for await (const message of await consumer.consume({ expires: 2000, idle_heartbeat: 500 })) {
      seen.push(message.seq);
      if (seen.length === 10) {
        for await (const { name } of manager.consumers.list(stream)) await manager.consumers.delete(stream, name);
        await publish(stream, 10, 11);
      }
      if (seen.length === 20) break;
    }
    assert.deepEqual(seen, range(1, 20));
  });
});
