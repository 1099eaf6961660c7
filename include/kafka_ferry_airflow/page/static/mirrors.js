// The page "Mirrors". Airflow loads this file and renders the component that it stores under the plugin's name.

import { C, h, useEffect, usePlace } from "./base.js";
import { Flow } from "./flow.js";
import { Flows } from "./flows.js";
import { Run } from "./run.js";

// Airflow mounts an app again the first time that the address changes after it was loaded, and a keyboard
// user would lose the focus. So the page sets the address once, to its present value, at the start.
let isSettled = false;

function Page() {
  const [place, go] = usePlace();
  useEffect(() => {
    if (isSettled) return;
    isSettled = true;
    go({}, { replace: true });
  }, [go]);
  const view = place.run && place.flow ? h(Run, { key: `${place.flow} ${place.run}`, slug: place.flow, run: place.run })
    : place.flow ? h(Flow, { key: place.flow, slug: place.flow }) : h(Flows);
  return h(C.Box, { as: "section", "aria-label": "Mirrors", height: "100%", overflow: "auto", p: 2, "data-testid": "mirrors" }, view);
}

// While the page is open, its icon in the navigation is white, like the icons of Airflow's other pages.
const style = document.createElement("style");
style.textContent = 'nav a[aria-current="page"] img[src*="kafka-ferry/static"], a[aria-current="page"] > img[src*="kafka-ferry/static"] { filter: brightness(0) invert(1); }';
document.head.append(style);

globalThis.Mirrors = Page;
