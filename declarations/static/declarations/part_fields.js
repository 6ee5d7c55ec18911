// Rows of a form: added, removed, filled in by a button; parts that only some choices of another field have. They
// update the page's preview as typing does.
(() => {
    const NEW = "__new__";
    const rowsOf = (parts) => [...parts.querySelectorAll(":scope > [data-row]")];
    const told = (parts) => parts.dispatchEvent(new Event("input", { bubbles: true }));

    const add = (parts) => {
        const next = Number(parts.dataset.next || rowsOf(parts).length);
        parts.dataset.next = next + 1;
        const row = parts.querySelector(":scope > template").content.firstElementChild.cloneNode(true);
        for (const element of row.querySelectorAll("*")) {
            for (const name of ["name", "id"]) {
                if (element.hasAttribute(name)) element.setAttribute(name, element.getAttribute(name).replace(NEW, next));
            }
        }
        const last = rowsOf(parts).at(-1);
        if (last) last.after(row); else parts.prepend(row);
        unhide(row);
        return row;
    };
    const fill = (parts, cells) => {
        rowsOf(parts).forEach((row) => row.remove());
        parts.dataset.next = 0;
        for (const cell of cells.length ? cells : [{}]) {
            const row = add(parts);
            for (const [part, text] of Object.entries(cell)) {
                const input = row.querySelector(`[name$="-${part}"]`);
                if (input) input.value = text;
            }
        }
    };
    const remove = (parts, row) => {
        const beside = row.nextElementSibling?.matches("[data-row]") ? row.nextElementSibling : row.previousElementSibling;
        row.remove();
        const next = beside?.matches("[data-row]") ? beside : add(parts);
        next.querySelector("input, select, textarea").focus();
    };
    const unhide = (within) => within.querySelectorAll("[data-add], [data-remove], [data-fills]").forEach((each) => { each.hidden = false; });

    document.addEventListener("click", (event) => {
        const button = event.target.closest("[data-parts] button");
        if (!button) return;
        const parts = button.closest("[data-parts]");
        if ("add" in button.dataset) add(parts).querySelector("input, select, textarea").focus();
        else if ("remove" in button.dataset) remove(parts, button.closest("[data-row]"));
        else if ("fills" in button.dataset) fill(parts, JSON.parse(button.dataset.fills));
        told(parts);
    });
    const chooser = (parts) => parts.closest("form").elements[parts.dataset.chosenBy];
    const follow = (parts, isAnother) => {
        for (const cell of parts.querySelectorAll("[data-only-for]")) {
            const input = cell.querySelector("input, select, textarea");
            if (isAnother) input.value = "";
            const isThere = cell.dataset.onlyFor.split(" ").includes(chooser(parts).value) || input.value !== "";
            cell.hidden = input.disabled = !isThere;
        }
    };
    const followers = () => [...document.querySelectorAll("[data-chosen-by]")];

    document.addEventListener("input", (event) => {
        for (const parts of followers().filter((each) => chooser(each) === event.target)) {
            follow(parts, true);
            told(parts);
        }
    });
    document.addEventListener("DOMContentLoaded", () => {
        unhide(document);
        followers().forEach((parts) => follow(parts, false));
    });
})();
