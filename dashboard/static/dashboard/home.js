// htmx asks for the facts every few seconds. What did not change is answered by 304; a page that is old says so.
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
    document.addEventListener('htmx:afterRequest', event => {
        const is_fresh = [200, 304].includes(event.detail.xhr.status);
        if (ours(event)) document.getElementById('stale').hidden = is_fresh;
    });
})();
