/** Large bodies with progress: up by XMLHttpRequest, which fetch cannot do, and down as a stream. */
import { Problem, address, authorize, call } from "./api.js";

const SMALL = 64 * 1024 * 1024; // kept by the browser until it is saved; what is larger goes to a file at once

/**
 * Send a file; raises Problem.
 * @param {string} path
 * @param {Blob} file
 * @param {{onProgress: (sent: number, size: number) => void, signal: AbortSignal, headers?: Object<string, string>}} options
 * @returns {Promise<void>}
 */
export function upload(path, file, { onProgress, signal, headers = {} }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", address(path));
    authorize((name, value) => request.setRequestHeader(name, value));
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => onProgress(event.loaded, file.size));
    request.addEventListener("load", () => (request.status < 300 ? resolve() : reject(problemOf(request))));
    request.addEventListener("error", () =>
      reject(new Problem(0, "No answer", "The connection was lost during the upload.")),
    );
    request.addEventListener("abort", () => reject(new DOMException("left", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

/** @param {XMLHttpRequest} request */
function problemOf(request) {
  let body = null;
  try {
    body = JSON.parse(request.responseText);
  } catch {
    // not ours
  }
  return new Problem(request.status, body?.title ?? request.statusText, body?.detail ?? "", body);
}

/**
 * Receive a body and save it under `name`.  A large one is written to a file as it arrives, where the browser
 * can do that.
 * @param {string} path
 * @param {string} name
 * @param {number} size
 * @param {{onProgress: (received: number, size: number) => void, signal: AbortSignal}} options
 */
export async function download(path, name, size, { onProgress, signal }) {
  const safe = name.replace(/[/\\:\0-\x1f]/g, "_").slice(-200) || "object";
  const picker = /** @type {any} */ (window).showSaveFilePicker;
  const target = size > SMALL && picker ? await (await picker({ suggestedName: safe })).createWritable() : null;
  try {
    const response = await call("GET", path, { signal, headers: { Accept: "application/octet-stream, */*;q=0.1" } });
    const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
    /** @type {any[]} */
    const parts = [];
    let received = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      received += value.length;
      if (target) await target.write(value);
      else parts.push(value);
      onProgress(received, size);
    }
    if (target) await target.close();
    else save(new Blob(parts), safe);
  } catch (error) {
    await target?.abort().catch(() => {});
    throw error;
  }
}

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
