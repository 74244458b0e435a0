// Pull consumers: fetch, consume and next, and every way to answer a message.

import assert from "node:assert/strict";
import { test } from "node:test";

import { nanos } from "@nats-io/transport-node";

import { all, eventually, js, manager, patiently, publish, range, STORAGES, take, withStream } from "./kit.mjs";

async function durable(stream, config = {}) {
  await manager.consumers.add(stream, { durable_name: "worker", ack_policy: "explicit", ...config });
  return await js.consumers.get(stream, "worker");
}

async function acknowledged(message) {
  message.ack();
  return message.seq;
}

for (const storage of STORAGES) {
  test(`fetch takes what there is and ends (${storage})`, async () => {
    await withStream({ storage }, async (stream) => {
      await publish(stream, 25);
      const consumer = await durable(stream);
      assert.deepEqual(await all(await consumer.fetch({ max_messages: 10 }), acknowledged), range(1, 10));
      assert.deepEqual(
        await all(await consumer.fetch({ max_messages: 15, expires: 30_000 }), acknowledged),
        range(11, 25),
      );
      const none = await patiently(async () => all(await consumer.fetch({ max_messages: 10, expires: 1000 })));
      assert.deepEqual(none, []);
      await eventually(async () => (await consumer.info()).ack_floor.stream_seq === 25);
    });
  });

  test(`consume goes on over many requests, while messages come (${storage})`, async () => {
    await withStream({ storage }, async (stream) => {
      const consumer = await durable(stream);
      const messages = await consumer.consume({ max_messages: 50 });
      const taking = take(1000, messages, acknowledged);
      await publish(stream, 1000);
      assert.deepEqual(await taking, range(1, 1000));
    });
  });
}

test("fetch is bounded by bytes", async () => {
  await withStream({}, async (stream) => {
    for (let number = 0; number < 6; number++) await js.publish(`${stream}.a`, new Uint8Array(1000));
    const consumer = await durable(stream);
    const taken = [];
    const messages = await consumer.fetch({ max_bytes: 3500, expires: 5000 });
    await assert.rejects(take(6, messages, async (message) => taken.push(await acknowledged(message))), { code: 409 });
    assert.deepEqual(taken, range(1, 3));
  });
});

test("consume by bytes takes everything", async () => {
  await withStream({}, async (stream) => {
    await publish(stream, 200);
    const consumer = await durable(stream);
    const messages = await consumer.consume({ max_bytes: 4096 });
    assert.deepEqual(await take(200, messages, acknowledged), range(1, 200));
  });
});

test("next gives one message or none", async () => {
  await withStream({}, async (stream) => {
    const consumer = await durable(stream);
    assert.equal(await patiently(() => consumer.next({ expires: 1000 })), null);
    await publish(stream, 1);
    const message = await consumer.next();
    assert.equal(message.string(), "1");
    assert.equal(message.info.stream, stream);
    assert.equal(message.info.consumer, "worker");
    assert.equal(message.info.pending, 0);
    assert.equal(message.redelivered, false);
    assert.equal(await message.ackAck(), true);
    const waiting = consumer.next({ expires: 5000 });
    await publish(stream, 1, 2);
    assert.equal((await waiting).string(), "2");
  });
});

test("nak, its delay, term and working have their effect", async () => {
  await withStream({}, async (stream) => {
    await publish(stream, 1);
    const consumer = await durable(stream);
    const next = () => consumer.next({ expires: 10_000 });
    (await next()).nak();
    const again = await next();
    assert.deepEqual([again.seq, again.info.deliveryCount, again.redelivered], [1, 2, true]);
    again.nak(200);
    const late = await next();
    assert.deepEqual([late.seq, late.info.deliveryCount], [1, 3]);
    late.term("no use");
    await publish(stream, 1, 2);
    const second = await next();
    assert.deepEqual([second.seq, second.info.deliveryCount], [2, 1]);
    second.working();
    assert.equal(await second.ackAck(), true);
    await eventually(async () => {
      const info = await consumer.info();
      return info.ack_floor.stream_seq === 2 && info.num_ack_pending === 0;
    });
  });
});

test("filters and start positions choose the messages", async () => {
  await withStream({}, async (stream) => {
    await publish(stream, 10);
    const odd = await js.consumers.get(stream, (await manager.consumers.add(stream, {
      ack_policy: "none",
      filter_subjects: [`${stream}.a`],
      inactive_threshold: nanos(30_000),
    })).name);
    const fetched = async (consumer, count) =>
      all(await consumer.fetch({ max_messages: count, expires: 30_000 }), (message) => message.seq);
    assert.deepEqual(await fetched(odd, 5), [1, 3, 5, 7, 9]);
    const late = await durable(stream, { deliver_policy: "by_start_sequence", opt_start_seq: 8 });
    assert.deepEqual(await fetched(late, 3), [8, 9, 10]);
    const last = await js.consumers.get(stream, (await manager.consumers.add(stream, {
      ack_policy: "none",
      deliver_policy: "last_per_subject",
      filter_subject: `${stream}.>`,
    })).name);
    assert.deepEqual(await fetched(last, 2), [9, 10]);
  });
});

test("the pinned client of a priority group gets everything", async () => {
  await withStream({}, async (stream) => {
    const config = { priority_groups: ["first"], priority_policy: "pinned_client", priority_timeout: nanos(60_000) };
    const consumer = await durable(stream, config);
    await publish(stream, 10);
    const messages = await consumer.consume({ group: "first" });
    assert.deepEqual(await take(10, messages, acknowledged), range(1, 10));
    await manager.consumers.unpin(stream, "worker", "first");
  });
});

test("a consumer that is deleted ends what waits on it", async () => {
  await withStream({}, async (stream) => {
    const consumer = await durable(stream);
    const options = { abort_on_missing_resource: true, expires: 2000, idle_heartbeat: 500 };
    const messages = await consumer.consume({ ...options, callback: () => assert.fail("there is no message") });
    const notes = [];
    const listening = (async () => {
      for await (const note of messages.status()) {
        notes.push(note.type);
        if (note.type === "consumer_deleted") break;
      }
    })();
    await eventually(async () => (await consumer.info()).num_waiting === 1);
    await manager.consumers.delete(stream, "worker");
    await listening;
    assert.ok(notes.includes("consumer_deleted"));
    await messages.close();
  });
});

test("a paused consumer waits until it may go on", async () => {
  await withStream({}, async (stream) => {
    const consumer = await durable(stream);
    await manager.consumers.pause(stream, "worker", new Date(Date.now() + 60_000));
    await publish(stream, 1);
    assert.equal(await patiently(() => consumer.next({ expires: 1000 })), null);
    assert.equal((await manager.consumers.resume(stream, "worker")).paused, false);
    assert.equal((await consumer.next({ expires: 5000 })).seq, 1);
  });
});
