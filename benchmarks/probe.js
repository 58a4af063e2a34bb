// Runs before the page's own scripts and notes in `probe.noted` when sockets were opened and live events came, when what
// they brought was painted, and how long keys took. Times are in milliseconds; points in time are counted from the epoch.
//
// Painted is what stands in the document when a frame begins that comes after it was put there: the note is made in the
// task behind that frame, so that it is never too early, and at most one frame too late.

(() => {
  const probe = { opened: [], frames: [], painted: {}, keys: [], interactions: {} };
  const awaited = new Map();
  const now = () => performance.timeOrigin + performance.now();
  const behindFrame = (work) =>
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = work;
      port2.postMessage(null);
    });

  window.probe = {
    noted: probe,
    shown: (id) => probe.painted[id] ?? new Promise((done) => awaited.set(id, done)),
  };

  // The first listener of each socket: it runs before the page's own. What the frame says is read when all is over.
  window.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      probe.opened.push(now());
      this.addEventListener("message", ({ data }) => probe.frames.push([now(), data]));
    }
  };

  const lookAt = (message) => {
    const id = message.dataset.message;
    if (id in probe.painted) return;
    probe.painted[id] = null;
    behindFrame(() => {
      probe.painted[id] = now();
      awaited.get(id)?.();
    });
  };
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes)
      for (const node of addedNodes) {
        if (node.nodeType !== Node.ELEMENT_NODE) continue;
        if (node.matches("[data-message]")) lookAt(node);
        else node.querySelectorAll("[data-message]").forEach(lookAt);
      }
  }).observe(document, { subtree: true, childList: true });

  const noteKey = ({ timeStamp }) => behindFrame(() => probe.keys.push(performance.now() - timeStamp));
  addEventListener("keydown", noteKey, { capture: true });
  new PerformanceObserver((list) => {
    for (const { interactionId: id, duration } of list.getEntries())
      if (id) probe.interactions[id] = Math.max(probe.interactions[id] ?? 0, duration);
  }).observe({ type: "event", durationThreshold: 16 });
})();
