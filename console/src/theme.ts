/** Dark, light, or what the system says. */

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const STORED = "tenure.theme";
export const theme = signal<Theme>("system");

export function startTheme(): void {
  const stored = localStorage.getItem(STORED);
  if (stored === "light" || stored === "dark") theme.value = stored;
  effect(() => {
    localStorage.setItem(STORED, theme.value);
    if (theme.value === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme.value;
  });
}

export const NEXT_THEME: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
