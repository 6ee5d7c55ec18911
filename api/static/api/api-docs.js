// As the admin was set to in this browser. The page's style sheet knows dark; its layout has no switch for it.
{
    const chosen = (localStorage.getItem("adminTheme") || "auto").replaceAll('"', "");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const show = () => document.documentElement.classList.toggle(
        "dark-mode", chosen === "dark" || (chosen !== "light" && system.matches));
    show();
    system.addEventListener("change", show);
}
