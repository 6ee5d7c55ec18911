// Arrow keys go from day to day, so that Tab need not; a day under the pointer is described in words.
(() => {
    const table = document.getElementById("matrix");
    if (!table) return;
    const words = {};
    for (const item of document.querySelectorAll("#legend li")) {
        words[item.firstElementChild.className] = item.textContent.slice(item.firstElementChild.textContent.length).trim();
    }
    const links = [...table.querySelectorAll("td a")];
    links.forEach((link, number) => { if (number) link.tabIndex = -1; });

    const describe = (event) => {
        const link = event.target.closest("td a");
        if (!link || link.title) return;
        const day = link.getAttribute("href").split("/")[1].replace(/(..)(..)$/, "-$1-$2");
        const source = link.closest("tr").querySelector("th a").textContent;
        link.title = `${source}, ${day}: ${words[link.className]}`;
        link.setAttribute("aria-label", link.title);
    };
    table.addEventListener("mouseover", describe);
    table.addEventListener("focusin", describe);

    const beside = (cell, key) => {
        if (key === "ArrowLeft") return cell.previousElementSibling;
        if (key === "ArrowRight") return cell.nextElementSibling;
        const row = key === "ArrowUp" ? cell.parentElement.previousElementSibling : cell.parentElement.nextElementSibling;
        return row && row.children[cell.cellIndex];
    };
    table.addEventListener("keydown", (event) => {
        const link = event.target.closest("td a");
        if (!link || !event.key.startsWith("Arrow")) return;
        let cell = link.parentElement;
        while ((cell = beside(cell, event.key)) && !cell.querySelector("a")) { /* nothing was due there */ }
        const next = cell && cell.tagName === "TD" && cell.querySelector("a");
        if (!next) return;
        event.preventDefault();
        link.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
    });
})();
