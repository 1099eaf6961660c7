// Numbers, sizes and times as people read them.

const plain = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const SIZES = ["B", "kB", "MB", "GB", "TB", "PB"];
export const NOTHING = "–";

export const number = (value) => (value === null || value === undefined ? NOTHING : plain.format(value));

/** 123,456 in full, and longer numbers as 12.3M. */
export const brief = (value) =>
  value === null || value === undefined ? NOTHING : value < 1_000_000 ? plain.format(value) : short.format(value);

export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

export function size(bytes) {
  if (bytes === null || bytes === undefined) return NOTHING;
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < SIZES.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(unit && value < 99.95 ? 1 : 0)} ${SIZES[unit]}`;
}

/** Two units at most: 0.4 s, 12 s, 2 min 13 s, 3 h 5 min. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  if (seconds > 0 && seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return both(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86_400) return both(Math.floor(whole / 3600), "h", Math.round((whole % 3600) / 60) % 60, "min");
  return both(Math.floor(whole / 86_400), "d", Math.round((whole % 86_400) / 3600) % 24, "h");
}

const both = (large, unit, small, rest) => `${large} ${unit}${small ? ` ${small} ${rest}` : ""}`;

/** The time zone that was chosen in Airflow's menu. */
function zone() {
  try {
    const chosen = localStorage.getItem("timezone");
    const name = chosen ? JSON.parse(chosen) : "UTC";
    return name === "local" ? undefined : name;
  } catch {
    return "UTC";
  }
}

// Sweden writes dates as ISO 8601 does.
function formatter(options, locale = "sv-SE") {
  try {
    return new Intl.DateTimeFormat(locale, { timeZone: zone(), ...options });
  } catch {
    return new Intl.DateTimeFormat(locale, { timeZone: "UTC", ...options });
  }
}

/** 2026-11-21 22:43:01, as Airflow writes times. */
export const at = (ms) =>
  ms ? formatter({ dateStyle: "short", timeStyle: "medium" }).format(ms) : NOTHING;

export const clock = (ms) => formatter({ hour: "2-digit", minute: "2-digit" }).format(ms);

/** With seconds, for times that are minutes apart. */
export const clockSeconds = (ms) => formatter({ hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(ms);

export const day = (ms) => formatter({ month: "short", day: "numeric" }, "en-GB").format(ms);

/** "12 min ago" or "in 3 h". */
export function ago(ms, now = Date.now()) {
  if (!ms) return NOTHING;
  const seconds = Math.abs(now - ms) / 1000;
  if (seconds < 5) return "now";
  const told = seconds < 60 ? `${Math.round(seconds)} s` : duration(Math.floor(seconds / 60) * 60).split(" ").slice(0, 2).join(" ");
  return ms > now ? `in ${told}` : `${told} ago`;
}
