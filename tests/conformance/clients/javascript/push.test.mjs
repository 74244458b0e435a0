// Push consumers: the server sends, the client acknowledges.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createInbox, nanos } from "@nats-io/transport-node";

import { js, manager, publish, range, take, withStream } from "./kit.mjs";

test("a durable push consumer delivers all, and goes on where it was acknowledged", async () => {
  await withStream({}, async (stream) => {
    await publish(stream, 20);
    await manager.consumers.add(stream, {
      durable_name: "worker",
      deliver_subject: createInbox(),
      ack_policy: "explicit",
    });
    const consumer = await js.consumers.getPushConsumer(stream, "worker");
    const first = await take(10, await consumer.consume(), async (message) => {
      assert.equal(await message.ackAck(), true);
      return Number(message.string());
    });
    assert.deepEqual(first, range(1, 10));
    const info = await consumer.info();
    assert.equal(info.ack_floor.stream_seq, 10);

    await manager.consumers.update(stream, "worker", { ack_wait: nanos(500) }); // what nobody acked comes again
    const again = await js.consumers.getPushConsumer(stream, "worker");
    const seen = new Set();
    for await (const message of await again.consume()) {
      seen.add(message.seq);
      message.ack();
      if (seen.size === 10) break;
    }
    assert.deepEqual([...seen].sort((a, b) => a - b), range(11, 20));
  });
});

test("heartbeats and flow control pass through a consumer of many messages", async () => {
  await withStream({}, async (stream) => {
    await publish(stream, 3000);
    await manager.consumers.add(stream, {
      durable_name: "flow",
      deliver_subject: createInbox(),
      ack_policy: "none",
      flow_control: true,
      idle_heartbeat: nanos(5000),
    });
    const consumer = await js.consumers.getPushConsumer(stream, "flow");
    const messages = await consumer.consume();
    const heard = new Set();
    const status = (async () => {
      for await (const note of messages.status()) heard.add(note.type);
    })();
    assert.deepEqual(await take(3000, messages, (message) => message.seq), range(1, 3000));
    await status;
    assert.ok(!heard.has("heartbeats_missed"));
  });
});

test("an idle push consumer beats", async () => {
  await withStream({}, async (stream) => {
    await manager.consumers.add(stream, {
      durable_name: "idle",
      deliver_subject: createInbox(),
      idle_heartbeat: nanos(200),
    });
    const consumer = await js.consumers.getPushConsumer(stream, "idle");
    const messages = await consumer.consume({ callback: () => assert.fail("there is no message") });
    for await (const note of messages.status()) {
      if (note.type === "heartbeat") {
        assert.equal(note.lastStreamSequence, 0);
        break;
      }
    }
    await messages.close();
  });
});

test("a delivery group shares the messages", async () => {
  await withStream({}, async (stream) => {
    const subject = createInbox();
    const config = { durable_name: "crew", deliver_subject: subject, deliver_group: "crew", ack_policy: "explicit" };
    await manager.consumers.add(stream, config);
    const members = await Promise.all(
      range(1, 3).map(() => js.consumers.getBoundPushConsumer({ deliver_subject: subject, deliver_group: "crew" })),
    );
    const shares = members.map(() => []);
    await new Promise((resolve, reject) => {
      Promise.all(
        members.map((member, index) =>
          member.consume({
            callback: (message) => {
              message.ack();
              shares[index].push(message.seq);
              if (shares.flat().length === 90) resolve();
            },
          })
        ),
      ).then(() => publish(stream, 90)).catch(reject);
    });
    assert.deepEqual(shares.flat().sort((a, b) => a - b), range(1, 90));
    assert.ok(shares.every((share) => share.length > 0));
  });
});
