// The arrow keys turn the steps like pages: for a projector, a clicker or a keyboard.
const steps = [...document.querySelectorAll(".step")];
const links = [...document.querySelectorAll("nav a")];
let at = -1;
const mark = () => {
  at = steps.findIndex((step) => `#${step.id}` === location.hash);
  links.forEach((link, i) => (i === at ? link.setAttribute("aria-current", "step") : link.removeAttribute("aria-current")));
};
const go = (to) => {
  if (to < 0 || to >= steps.length) return;
  location.hash = steps[to].id;
  mark();
  steps[to].focus({ preventScroll: true });
};
addEventListener("hashchange", mark);
addEventListener("keydown", (event) => {
  const busy = event.altKey || event.ctrlKey || event.metaKey || event.target.closest(".scroll, .whole");
  if (busy) return;
  if (event.key === "ArrowRight") go(at + 1);
  if (event.key === "ArrowLeft") go(at - 1);
});
mark();
