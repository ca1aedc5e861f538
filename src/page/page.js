// Follows what happens, and takes a file that is dropped. Reading and everything else works without it.
'use strict';

{
  const note = document.querySelector('[data-note]');
  /** @type {EventSource | undefined} */
  let events;

  /** A part as it is now; what a person opened, and where he is, stays. */
  function show(/** @type {Element} */ part, /** @type {string} */ html) {
    const opened = [...part.querySelectorAll('details[open]')].map(({ id }) => id);
    const focused = part.contains(document.activeElement) ? document.activeElement?.closest('details')?.id : undefined;
    part.innerHTML = html;
    for (const id of opened) document.getElementById(id)?.setAttribute('open', '');
    if (focused !== undefined) document.getElementById(focused)?.querySelector('summary')?.focus();
  }

  function say(/** @type {string} */ text) {
    if (note !== null) note.textContent = text;
  }

  function follow() {
    events?.close();
    const stream = new EventSource('events');
    events = stream;
    stream.addEventListener('open', () => say('Live: what happens is shown at once.'));
    stream.addEventListener('title', ({ data }) => void (document.title = String(data)));
    for (const part of document.querySelectorAll('[data-part]')) {
      stream.addEventListener(part.getAttribute('data-part') ?? '', ({ data }) => show(part, String(data)));
    }
    stream.addEventListener('error', () => {
      const isOver = stream.readyState === EventSource.CLOSED;
      say(isOver ? 'Not live: load the page again.' : 'Not live: the gateway does not answer. Trying again.');
    });
  }

  // A page that nobody looks at takes nobody's place.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) events?.close();
    else follow();
  });
  if (!document.hidden) follow();
}
