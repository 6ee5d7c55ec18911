// htmx asks for the facts every few seconds. Unchanged facts are answered by 304; a page that is old shows that.
(() => {
    const ours = event => event.detail.elt.id === 'facts';
    document.addEventListener('htmx:configRequest', event => {
        if (ours(event)) event.detail.headers['If-None-Match'] = event.detail.elt.dataset.etag;
    });
    document.addEventListener('htmx:beforeSwap', event => {
        if (!ours(event)) return;
        const { xhr, elt } = event.detail, etag = xhr.getResponseHeader('ETag');
        if (xhr.status === 304) event.detail.shouldSwap = false;
        else if (xhr.status === 200 && !etag) location.reload(); // it is the login: the session has ended
        else if (xhr.status === 200) elt.dataset.etag = etag;
    });
    let open = [];  // unfolded parts stay unfolded
    document.addEventListener('htmx:beforeSwap', event => {
        if (ours(event)) open = [...document.querySelectorAll('#facts details[open][id]')].map(each => each.id);
    });
    document.addEventListener('htmx:afterSwap', event => {
        if (ours(event)) open.forEach(id => document.getElementById(id)?.setAttribute('open', ''));
    });
    document.addEventListener('htmx:afterRequest', event => {
        if (!ours(event)) return;
        const { xhr } = event.detail, is_fresh = [200, 304].includes(xhr.status), age = xhr.getResponseHeader('Age');
        document.getElementById('stale').hidden = is_fresh;
        // all open pages get the same facts for a while: their instant is shown, and stays when none come
        if (is_fresh && age) document.getElementById('as-of').textContent = new Date(Date.now() - age * 1000).toLocaleTimeString();
    });
})();
