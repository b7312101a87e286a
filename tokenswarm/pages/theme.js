// Locust's page keeps its choice of light or dark here; without one the system's holds.
if (localStorage.theme === "dark" || localStorage.theme === "light") document.documentElement.dataset.theme = localStorage.theme;
else if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.dataset.theme = "dark";
