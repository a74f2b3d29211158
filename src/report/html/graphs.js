"use strict";
// Flame graphs are packed (gzip). Each becomes a separate document when it scrolls into view, so that search and zoom
// affect one graph only.
const texts = new Map();
async function graph(id) {
  if (!texts.has(id)) {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent.trim()), c => c.charCodeAt(0));
    texts.set(id, await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text());
  }
  return texts.get(id);
}
async function show(frame) {
  if (frame.dataset.shown) return;
  frame.dataset.shown = "yes";
  const svg = await graph(frame.dataset.graph);
  frame.addEventListener("load", () => {
    frame.contentWindow.reflow?.();
    const root = frame.contentDocument.querySelector("svg");
    const height = root ? root.getBoundingClientRect().height : 0;
    if (height > 0) frame.parentElement.style.height = Math.min(Math.ceil(height) + 10, 900) + "px";
  });
  // As part of a page, without prolog and document type, because a page at a file: address cannot measure another
  // document. Such a page has no URL to store a search in, so history.replaceState does nothing.
  frame.srcdoc = "<!doctype html><script>history.replaceState = () => {};<\/script><style>html,body{margin:0}svg{display:block;width:100%}</style>" + svg.slice(svg.indexOf("<svg"));
}
async function alone(id) {
  return URL.createObjectURL(new Blob([await graph(id)], { type: "image/svg+xml" }));
}
const seen = new IntersectionObserver(entries => {
  for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); show(entry.target); }
}, { rootMargin: "400px" });
for (const frame of document.querySelectorAll("iframe[data-graph]")) seen.observe(frame);
for (const button of document.querySelectorAll("[data-alone]"))
  button.addEventListener("click", async () => window.open(await alone(button.dataset.alone), "_blank"));
function open(id) { const step = document.getElementById(id); if (step instanceof HTMLDetailsElement) step.open = true; }
for (const link of document.querySelectorAll("[data-open]")) link.addEventListener("click", () => open(link.dataset.open));
if (location.hash) open(decodeURIComponent(location.hash.slice(1)));
