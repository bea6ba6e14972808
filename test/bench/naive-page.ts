interface NaiveFile {
  readonly type: string;
  readonly text: string;
}

/**
 * The page as one writes it first: a table row for each target and an SVG element for each mark, all at once. It has neither
 * feed nor sign-in, and its data is in one file, so it has less to wait for.
 */
export function naivePage(data: {
  readonly rows: string;
  readonly timeline: string;
}): ReadonlyMap<string, NaiveFile> {
  return new Map([
    ['/', { type: 'text/html; charset=utf-8', text: html }],
    ['/naive.js', { type: 'text/javascript; charset=utf-8', text: script }],
    ['/rows', { type: 'application/json', text: data.rows }],
    ['/timeline', { type: 'application/json', text: data.timeline }],
  ]);
}

const html = `<!doctype html>
<html lang="en">
<title>naive</title>
<script type="module" src="/naive.js"></script>
<h1>Targets</h1>
<table><tbody id="rows"></tbody></table>
<svg id="picture" width="1000" height="300"></svg>
</html>`;

const script = `
const [rows, timeline] = await Promise.all(
  ['/rows', '/timeline'].map(async (path) => (await fetch(path)).json()),
);
const body = document.getElementById('rows');
for (const row of rows) {
  const line = document.createElement('tr');
  const conditions = row.conditions.map(({ type, status, reason }) => type + ' ' + status + ' ' + reason);
  for (const text of [row.standing, row.id, row.headline, row.waitsFor ?? '', row.since ?? '', row.next ?? '', ...conditions]) {
    const cell = document.createElement('td');
    cell.textContent = text;
    line.append(cell);
  }
  body.append(line);
}
const picture = document.getElementById('picture');
const { from, to } = timeline;
for (const mark of timeline.marks) {
  const circle = document.createElementNS('http://www.w3.org/2000/svg', 'circle');
  circle.setAttribute('cx', String(((mark.at - from) / (to - from)) * 1000));
  circle.setAttribute('cy', String(20 + mark.lane * 26));
  circle.setAttribute('r', '4');
  circle.setAttribute('class', mark.outcome);
  const title = document.createElementNS('http://www.w3.org/2000/svg', 'title');
  title.textContent = mark.reason + ': ' + mark.message;
  circle.append(title);
  picture.append(circle);
}
requestAnimationFrame(() => requestAnimationFrame(() => {
  performance.mark('targets painted');
  performance.mark('timeline painted');
}));
`;
