// Search in a site that is opened from files: browsers start no worker from a file, so this one is a frame.
// The theme would fetch such a script from the network.  Pages of a web server keep the browser's workers.
"use strict";

class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const page = this.frame.contentDocument;
    page.open();
    page.write(`<script>postMessage = message => parent.postMessage(message, "*");</script>`);
    page.write(`<script src="${url}"></script>`);
    page.close();
    this.loaded = new Promise(resolve => this.frame.contentWindow.addEventListener("load", resolve));
    window.addEventListener("message", event => this.#deliver(event));
  }

  #deliver(event) {
    if (event.source !== this.frame.contentWindow) return;
    const message = new MessageEvent("message", { data: event.data });
    this.dispatchEvent(message);
    this.onmessage?.(message);
  }

  postMessage(data) {
    this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker;
