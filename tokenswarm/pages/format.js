// Numbers for people, as tokenswarm/format.py prints them. Unknown is a dash.
export const NOTHING = "–";

const exists = (value) => value !== null && value !== undefined && Number.isFinite(value);

function threeDigits(value) {
  const size = Math.abs(value);
  if (size >= 99.95 || value === 0) return value.toFixed(0);
  return size >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export function span(valueS) {
  if (!exists(valueS)) return NOTHING;
  if (valueS === 0) return "0";
  for (const [factor, unit] of [[1e6, "µs"], [1e3, "ms"], [1, "s"]]) {
    const scaled = valueS * factor;
    if (Math.abs(scaled) < 999.5 || unit === "s") return `${threeDigits(scaled)} ${unit}`;
  }
  return NOTHING;
}

export function number(value) {
  if (!exists(value)) return NOTHING;
  if (Math.abs(value) < 99.95) return String(Number(value.toFixed(1)));
  return Math.round(value).toLocaleString("en-US");
}

export function ratio(value) {
  if (!exists(value)) return NOTHING;
  const percent = value * 100;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
  return `${percent < 9.95 && percent !== 0 ? percent.toFixed(1) : percent.toFixed(0)} %`;
}

export function bytes(value) {
  for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
  return `${value} B`;
}

export function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const two = (value) => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

export function limit(objective) {
  if (objective.unit === "s") return span(objective.limit);
  return objective.unit === "ratio" ? ratio(objective.limit) : number(objective.limit);
}
