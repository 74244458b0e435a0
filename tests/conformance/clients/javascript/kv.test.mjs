// Key-value buckets.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Kvm } from "@nats-io/kv";
import { nuid } from "@nats-io/transport-node";

import { all, eventually, js, STORAGES, take } from "./kit.mjs";

const buckets = new Kvm(js);

async function withBucket(options, scenario) {
  const bucket = await buckets.create(`B${nuid.next()}`, { history: 5, ...options });
  try {
    await scenario(bucket);
  } finally {
    await bucket.destroy();
  }
}

const told = (entry) => [entry.key, entry.operation, entry.string(), entry.revision];

for (const storage of STORAGES) {
  test(`put, get, create, update, delete and purge (${storage})`, async () => {
    await withBucket({ storage }, async (bucket) => {
      assert.equal(await bucket.get("nothing"), null);
      assert.equal(await bucket.put("fruit", "apple"), 1);
      assert.equal((await bucket.get("fruit")).string(), "apple");
      await assert.rejects(bucket.create("fruit", "pear"), { code: 10071 });
      assert.equal(await bucket.update("fruit", "pear", 1), 2);
      await assert.rejects(bucket.update("fruit", "plum", 1), { code: 10071 });
      assert.equal((await bucket.get("fruit", { revision: 1 })).string(), "apple");
      await bucket.delete("fruit");
      assert.equal((await bucket.get("fruit")).operation, "DEL");
      assert.equal(await bucket.create("fruit", "plum"), 4);
      const history = await all(await bucket.history({ key: "fruit" }), told);
      assert.deepEqual(history, [
        ["fruit", "PUT", "apple", 1],
        ["fruit", "PUT", "pear", 2],
        ["fruit", "DEL", "", 3],
        ["fruit", "PUT", "plum", 4],
      ]);
      await bucket.purge("fruit");
      assert.deepEqual(await all(await bucket.history({ key: "fruit" }), told), [["fruit", "PURGE", "", 5]]);
      const status = await bucket.status();
      assert.deepEqual([status.history, status.values, status.storage], [5, 1, storage]);
    });
  });
}

test("keys are listed, filtered, and without deleted ones", async () => {
  await withBucket({}, async (bucket) => {
    assert.deepEqual(await all(await bucket.keys()), []);
    for (const key of ["a.1", "a.2", "b.1"]) await bucket.put(key, key);
    await bucket.delete("a.2");
    assert.deepEqual(await all(await bucket.keys()), ["a.1", "b.1"]);
    assert.deepEqual(await all(await bucket.keys("a.*")), ["a.1"]);
    assert.deepEqual(await all(await bucket.keys(["a.>", "b.>"])), ["a.1", "b.1"]);
  });
});

test("a watcher gets the last values, then the changes", async () => {
  await withBucket({}, async (bucket) => {
    await bucket.put("x", "old");
    await bucket.put("x", "1");
    await bucket.put("y", "1");
    const watch = await bucket.watch();
    const watching = take(4, watch, told);
    await eventually(() => watch.getProcessed() === 2);
    await bucket.put("x", "2");
    await bucket.delete("y");
    assert.deepEqual(await watching, [
      ["x", "PUT", "1", 2],
      ["y", "PUT", "1", 3],
      ["x", "PUT", "2", 4],
      ["y", "DEL", "", 5],
    ]);
    const whole = await bucket.watch({ include: "history", key: "x" });
    assert.deepEqual(await take(3, whole, (entry) => entry.string()), ["old", "1", "2"]);
    const updates = await bucket.watch({ include: "updates" });
    const update = take(1, updates, told);
    await bucket.put("z", "new");
    assert.deepEqual(await update, [["z", "PUT", "new", 6]]);
  });
});

test("a key with a time to live goes, and leaves a marker", async () => {
  await withBucket({ markerTTL: 1000 }, async (bucket) => {
    const ended = take(2, await bucket.watch({ key: "short" }), (entry) => entry.operation);
    await bucket.create("short", "life", "1s");
    assert.deepEqual(await ended, ["PUT", "PURGE"]);
  });
});

test("limits of a bucket are kept", async () => {
  await withBucket({ maxValueSize: 10, history: 1 }, async (bucket) => {
    await assert.rejects(bucket.put("big", "more than ten bytes"), { code: 10054 });
    await bucket.put("k", "1");
    await bucket.put("k", "2");
    assert.deepEqual(await all(await bucket.history(), told), [["k", "PUT", "2", 2]]);
    const names = await all(buckets.list(), (status) => status.bucket);
    assert.ok(names.includes((await bucket.status()).bucket));
  });
});
