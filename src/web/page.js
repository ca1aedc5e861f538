// Updates the page while it is open, and accepts a dropped file. Everything else works without it.
'use strict';

{
  const note = document.querySelector('[data-note]');
  /** @type {EventSource | undefined} */
  let events;

  /** Replaces a part. Opened details and the focus stay. */
  function show(/** @type {Element} */ part, /** @type {string} */ html) {
    const opened = [...part.querySelectorAll('details[open]')].map(({ id }) => id);
    const focused = part.contains(document.activeElement) ? document.activeElement?.closest('details')?.id : undefined;
    part.innerHTML = html;
    for (const id of opened) document.getElementById(id)?.setAttribute('open', '');
    if (focused !== undefined) document.getElementById(focused)?.querySelector('summary')?.focus();
  }

  /** Shows whether the page is current, in a place that is always visible. */
  function say(/** @type {string} */ text, isLive = false) {
    if (note !== null) note.textContent = text;
    document.body.classList.toggle('stale', !isLive);
  }

  /** Waits while a form is open. */
  function loadAnew() {
    if (document.querySelector('.actions details[open]') === null) window.location.reload();
    else window.setTimeout(loadAnew, 30_000);
  }

  function follow() {
    events?.close();
    const stream = new EventSource('events');
    events = stream;
    stream.addEventListener('open', () => say('Live: changes are shown immediately.', true));
    stream.addEventListener('title', ({ data }) => void (document.title = String(data)));
    stream.addEventListener('can', ({ data }) => {
      const possible = String(data).split(' ');
      for (const action of document.querySelectorAll('[data-can]')) {
        action.toggleAttribute('hidden', !possible.includes(action.getAttribute('data-can') ?? ''));
      }
    });
    stream.addEventListener('version', ({ data }) => {
      const field = document.querySelector('input[name=version]');
      if (field instanceof HTMLInputElement) field.value = String(data);
    });
    for (const part of document.querySelectorAll('[data-part]')) {
      stream.addEventListener(part.getAttribute('data-part') ?? '', ({ data }) => show(part, String(data)));
    }
    stream.addEventListener('error', () => {
      const isOver = stream.readyState === EventSource.CLOSED; // too many viewers, or the session has ended
      if (isOver) window.setTimeout(loadAnew, 30_000);
      say(
        isOver
          ? 'Not live: the page is reloaded in half a minute.'
          : 'Not live: the gateway is not responding. Trying again.',
      );
    });
  }

  // A hidden page does not take the place of another viewer.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) events?.close();
    else follow();
  });
  if (!document.hidden) follow();

  const install = document.querySelector('form[data-install]');
  const input = document.querySelector('#file');
  if (install instanceof HTMLFormElement && input instanceof HTMLInputElement) {
    const bar = install.querySelector('progress');
    const told = install.querySelector('[data-sent]');
    const tell = (/** @type {string} */ text) => {
      if (told !== null) told.textContent = text;
    };

    // A file dropped anywhere is selected; you still confirm its installation.
    document.addEventListener('dragover', (event) => event.preventDefault());
    document.addEventListener('drop', (event) => {
      event.preventDefault();
      const files = event.dataTransfer?.files;
      if (files === undefined || files.length === 0) return;
      input.files = files;
      install.closest('details')?.setAttribute('open', '');
      install.querySelector('button')?.focus();
    });

    install.addEventListener('submit', (event) => {
      event.preventDefault();
      const file = input.files?.[0];
      if (file === undefined) return;
      const request = new XMLHttpRequest();
      request.upload.addEventListener('progress', ({ loaded, total }) => {
        if (bar === null) return;
        bar.hidden = false;
        bar.value = (loaded / total) * 100;
      });
      request.addEventListener('load', () => {
        if (request.status === 200) window.location.reload();
        else tell(request.responseXML?.querySelector('h1')?.textContent ?? 'The gateway did not accept the file.');
      });
      request.addEventListener('error', () => tell('The gateway did not accept the file.'));
      request.open('POST', `file?name=${encodeURIComponent(file.name)}`);
      request.setRequestHeader('x-page-token', install.dataset['install'] ?? '');
      request.responseType = 'document';
      request.send(file);
      tell(`Sending ${file.name}.`);
    });
  }
}
