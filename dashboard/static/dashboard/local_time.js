// Adds the viewer's local time to each instant in UTC. Without a script, or in UTC, only UTC is shown. An instant is an
// element, or is in a cell of a column or in a field whose heading has "UTC", or has "UTC" itself.
(() => {
    const SAYS_UTC = /(\d{4}-\d\d-\d\d) (\d\d:\d\d)(:\d\d)? UTC(?!\))/g;
    const IN_A_CELL = /(\d{4}-\d\d-\d\d) (\d\d:\d\d)(:\d\d)?(?! UTC)/g;
    const LEFT_ALONE = 'time, pre, code, textarea, script, option';
    const two = number => String(number).padStart(2, '0');
    const beside = (utc, day, minute, second = '') => {
        const instant = new Date(`${day}T${minute}${second || ':00'}Z`);
        if (isNaN(instant) || !instant.getTimezoneOffset()) return utc;
        const here = `${instant.getFullYear()}-${two(instant.getMonth() + 1)}-${two(instant.getDate())}`;
        const time = `${two(instant.getHours())}:${two(instant.getMinutes())}${second}`;
        return `${here} ${time} (${here === day ? '' : `${day} `}${minute}${second} UTC)`;
    };
    const write = (root, pattern, words = beside) => {
        const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), found = [];
        while (walker.nextNode()) found.push(walker.currentNode);
        let changed = false;
        for (const node of found) {
            const text = node.data.replace(pattern, words);
            if (text !== node.data && !node.parentElement.closest(LEFT_ALONE)) [node.data, changed] = [text, true];
        }
        return changed;
    };
    // The heading of what begins with local time now.
    const ONLY_UTC = /(?<!local, )UTC\)/, BOTH = 'local, UTC)';
    const rename = cell => {
        const line = cell.closest('.field-line'), row = cell.closest('table')?.tHead?.rows[0];
        for (const heading of [line?.querySelector('label'), row?.cells[cell.cellIndex]])
            if (heading) write(heading, ONLY_UTC, BOTH);
        if (cell.dataset.label) cell.dataset.label = cell.dataset.label.replace(ONLY_UTC, BOTH);
    };
    const show = () => {
        const page = document.getElementById('main');
        if (!page) return;
        for (const time of page.querySelectorAll('time[datetime]'))
            time.textContent = time.textContent.replace(SAYS_UTC, beside);
        const fields = [...page.querySelectorAll('.field-line')]
            .filter(line => /UTC\)/.test(line.querySelector('label')?.textContent))
            .map(line => line.querySelector('.readonly')).filter(Boolean);
        for (const cell of [...page.querySelectorAll('[data-label*="(UTC)" i]'), ...fields]) {
            if (cell.dataset.seen) continue;
            cell.dataset.seen = 'yes';
            if (write(cell, IN_A_CELL)) rename(cell);
        }
        write(page, SAYS_UTC);
    };
    document.addEventListener('DOMContentLoaded', show);
    document.addEventListener('htmx:afterSettle', show);
})();
