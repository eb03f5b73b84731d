// Tabs as the ARIA Authoring Practices have them: one of them is in the order of focus, and the
// arrow keys move between them.

// makeTabs ties the tabs in root to its panels, in their order. Each call's prefix makes ids
// that are unique in the page. Show is called with a panel when it is shown.
export function makeTabs(root, prefix, show) {
  const tabs = [...root.querySelectorAll("[role=tab]")];
  const panels = [...root.querySelectorAll("[role=tabpanel]")];

  function select(chosen) {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === chosen));
      tab.tabIndex = i === chosen ? 0 : -1;
      panels[i].hidden = i !== chosen;
    });
    show(panels[chosen]);
  }

  tabs.forEach((tab, i) => {
    tab.id = `${prefix}-tab-${i}`;
    panels[i].id = `${prefix}-panel-${i}`;
    tab.setAttribute("aria-controls", panels[i].id);
    panels[i].setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => select(i));
    tab.addEventListener("keydown", (event) => {
      const last = tabs.length - 1;
      const next = {
        ArrowRight: i === last ? 0 : i + 1,
        ArrowLeft: i === 0 ? last : i - 1,
        Home: 0,
        End: last,
      }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      select(next);
      tabs[next].focus();
    });
  });
  select(0);
}
