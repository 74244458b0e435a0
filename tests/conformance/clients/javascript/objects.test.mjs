// Object stores.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";

import { Objm } from "@nats-io/obj";
import { headers, nuid } from "@nats-io/transport-node";

import { js, STORAGES, take } from "./kit.mjs";

const stores = new Objm(js);

async function withStore(options, scenario) {
  const store = await stores.create(`O${nuid.next()}`, { storage: "file", ...options });
  try {
    await scenario(store);
  } finally {
    await store.destroy();
  }
}

const bytes = (text) => new TextEncoder().encode(text);
const text = (data) => new TextDecoder().decode(data);

for (const storage of STORAGES) {
  test(`an object of many chunks comes back as it was (${storage})`, async () => {
    await withStore({ storage }, async (store) => {
      const content = new Uint8Array(randomBytes(1_000_003));
      const info = await store.putBlob({ name: "big", options: { max_chunk_size: 64 * 1024 } }, content);
      assert.deepEqual([info.size, info.chunks], [1_000_003, 16]);
      assert.equal(info.digest, `SHA-256=${createHash("sha256").update(content).digest("base64url")}=`);
      assert.ok(Buffer.from(await store.getBlob("big")).equals(Buffer.from(content)));
      const streamed = await store.get("big");
      const parts = await take(Number.POSITIVE_INFINITY, streamed.data);
      assert.equal((await streamed.error) ?? null, null);
      assert.ok(Buffer.concat(parts).equals(Buffer.from(content)));
      const status = await store.status();
      assert.deepEqual([status.storage, status.sealed], [storage, false]);
    });
  });
}

test("an object is replaced, described, renamed and deleted", async () => {
  await withStore({ description: "things" }, async (store) => {
    assert.equal((await store.status()).description, "things");
    assert.equal(await store.get("none"), null);
    await store.putBlob({ name: "a" }, bytes("first"));
    const meta = { name: "a", description: "second one", headers: headers(), metadata: { kind: "test" } };
    meta.headers.set("X-Kind", "test");
    await store.putBlob(meta, bytes("second"));
    assert.equal(text(await store.getBlob("a")), "second");
    const info = await store.info("a");
    assert.deepEqual(
      [info.description, info.headers.get("X-Kind"), info.metadata, info.deleted],
      ["second one", "test", { kind: "test" }, false],
    );
    await store.update("a", { name: "b", description: "renamed" });
    assert.equal(await store.info("a"), null);
    assert.equal((await store.info("b")).description, "renamed");
    assert.equal(text(await store.getBlob("b")), "second");
    await store.putBlob({ name: "empty" }, new Uint8Array(0));
    assert.equal((await store.getBlob("empty")).length, 0);
    assert.deepEqual((await store.list()).map((entry) => entry.name).sort(), ["b", "empty"]);
    assert.equal((await store.delete("b")).success, true);
    assert.equal((await store.info("b")).deleted, true);
    assert.equal(await store.get("b"), null);
    assert.deepEqual((await store.list()).map((entry) => entry.name), ["empty"]);
  });
});

test("links lead to objects here and elsewhere", async () => {
  await withStore({}, async (store) => {
    await withStore({}, async (other) => {
      const target = await store.putBlob({ name: "target" }, bytes("content"));
      const link = await store.link("near", target);
      assert.deepEqual(link.options.link, { bucket: target.bucket, name: "target" });
      await other.link("far", target);
      assert.equal(text(await store.getBlob("near")), "content");
      assert.equal(text(await other.getBlob("far")), "content");
      const whole = await other.linkStore("whole", store);
      assert.deepEqual(whole.options.link, { bucket: target.bucket });
    });
  });
});

test("a watcher hears of objects that come and go", async () => {
  await withStore({}, async (store) => {
    await store.putBlob({ name: "old" }, bytes("1"));
    const watching = take(3, await store.watch({ includeHistory: true }), (info) => [info.name, info.deleted]);
    await store.putBlob({ name: "new" }, bytes("2"));
    await store.delete("old");
    assert.deepEqual(await watching, [["old", false], ["new", false], ["old", true]]);
  });
});

test("a sealed store takes nothing more", async () => {
  await withStore({}, async (store) => {
    await store.putBlob({ name: "a" }, bytes("kept"));
    assert.equal((await store.seal()).sealed, true);
    await assert.rejects(store.putBlob({ name: "b" }, bytes("refused")), { code: 10109 });
    assert.equal(text(await store.getBlob("a")), "kept");
  });
});
