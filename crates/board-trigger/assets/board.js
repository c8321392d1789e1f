// Keeps the board's columns up to date. The page works without it; it only saves the reload.
const board = document.querySelector('#board[data-live]');
const status = document.querySelector('#status');
const policy = window.trustedTypes?.createPolicy('board', { createHTML: (text) => text });

/** Whether replacing the columns would take something away from the reader. */
function inUse() {
  const selection = document.getSelection();
  const selected = selection && !selection.isCollapsed && board.contains(selection.anchorNode);
  return selected || board.contains(document.activeElement);
}

async function refresh() {
  if (inUse()) {
    status.textContent = status.dataset.waits;
    return;
  }
  const columns = board.querySelector('#columns');
  const answer = await fetch('/fragment/board?' + (board.dataset.query ?? ''), {
    credentials: 'same-origin',
    redirect: 'manual',
    headers: { 'If-None-Match': '"' + columns.dataset.rev + '"' },
  });
  if (answer.status !== 200 || !answer.headers.has('Board-Api')) return;
  const text = await answer.text();
  if (inUse()) return;
  const left = columns.scrollLeft;
  board.innerHTML = policy ? policy.createHTML(text) : text;
  board.querySelector('#columns').scrollLeft = left;
  status.textContent = '';
}

let stream;
let timer;

function poll() {
  clearInterval(timer);
  timer = setInterval(() => refresh().catch(() => {}), 5000);
}

function open() {
  if (!board || document.hidden) return;
  refresh().catch(() => {});
  if (!window.EventSource) return poll();
  stream = new EventSource('/api/board/events');
  stream.addEventListener('open', () => clearInterval(timer));
  stream.addEventListener('rev', () => refresh().catch(() => {}));
  stream.addEventListener('resync', () => refresh().catch(() => {}));
  stream.addEventListener('error', poll);
}

function close() {
  stream?.close();
  clearInterval(timer);
}

if (board) {
  open();
  board.addEventListener('focusout', () => setTimeout(() => refresh().catch(() => {}), 0));
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
}
