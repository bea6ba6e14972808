import type { Bar, Outcome, Timeline } from '../protocol.ts';
import { outcomes } from '../protocol.ts';
import { type Bin, binNear, binsOf, crowdedLanes, nextMark } from './bins.ts';
import { element, fill, svg } from './element.ts';
import { shapeAt, strokeAt } from './shapes.ts';
import { clockText } from './time-text.ts';
import {
  type TimeWindow,
  around,
  instantAt,
  panned,
  placeOf,
  showing,
  ticksIn,
  zoomed,
} from './window.ts';

const axisHeight = 24;
/** How high a lane is: with its name beside it, and with its name in it, where there is no room beside. */
const besideHeight = 26;
const withinHeight = 42;
/** Below this width names are in the picture, in pixels. */
const roomForNames = 520;
/** How far from a mark a pointer may be to mean it, in pixels. */
const reach = 9;
/** Room that a label of the axis takes, in pixels. */
const labelRoom = 84;

export interface PictureListener {
  /** A decision is pointed at, by mouse or keyboard; `count` are drawn at that place. */
  pointed(place: number | undefined, count: number): void;
  /** Another stretch of time is shown. */
  moved(window: TimeWindow): void;
  /** A decision shall be shown in the list. */
  opened(place: number): void;
}

/**
 * The picture: a lane per step and member, a mark per decision, a bar per backup.
 *
 * However many decisions there are, it is a few dozen elements: all marks of an outcome are one path, of which only what is in
 * the window and can be told apart is drawn.
 */
export class TimelinePicture {
  readonly node: HTMLElement;
  readonly #isShown: (outcome: Outcome) => boolean;
  readonly #listener: PictureListener;
  readonly #names = element('ol', { class: 'lane-names', 'aria-hidden': 'true' });
  readonly #stage = element('div', {
    class: 'stage',
    tabindex: 0,
    role: 'application',
    'aria-roledescription': 'timeline',
    'aria-describedby': 'timeline-help',
  });
  readonly #layers = {
    ground: svg('g'),
    bars: svg('g'),
    marks: svg('g'),
    cursor: svg('path', { class: 'cursor' }),
  };
  readonly #crowd = element(
    'p',
    { class: 'quiet', hidden: true },
    'Where marks would lie upon one another they are strokes: blocked and failed above, acting in the middle, the quiet ones below. Zoom in to part them.',
  );
  readonly #canvas = svg('svg', { 'aria-hidden': 'true' }, ...Object.values(this.#layers));
  readonly #frameOf: HTMLElement;
  #timeline: Timeline | undefined;
  #limit: TimeWindow = { from: 0, to: 1 };
  #window: TimeWindow = { from: 0, to: 1 };
  #width = 0;
  #bins: readonly Bin[] = [];
  #lane: number | undefined;
  #selected: number | undefined;
  #frame = 0;
  /** Where a drag began, and the window then. */
  #drag: { readonly x: number; readonly window: TimeWindow } | undefined;

  constructor(isShown: (outcome: Outcome) => boolean, listener: PictureListener) {
    this.#isShown = isShown;
    this.#listener = listener;
    this.#stage.append(this.#canvas);
    this.#frameOf = element('div', { class: 'picture' }, this.#names, this.#stage);
    this.node = element('div', { hidden: true }, this.#frameOf, this.#crowd);
    new ResizeObserver(() => {
      this.#names.hidden = this.#frameOf.clientWidth < roomForNames;
      this.#width = this.#stage.clientWidth;
      this.redraw();
    }).observe(this.#frameOf);
    this.#stage.addEventListener('keydown', (event) => this.#key(event));
    this.#stage.addEventListener('wheel', (event) => this.#wheel(event), { passive: false });
    this.#stage.addEventListener('pointerdown', (event) => this.#press(event));
    this.#stage.addEventListener('pointermove', (event) => this.#hover(event));
    this.#stage.addEventListener('pointerup', () => (this.#drag = undefined));
    this.#stage.addEventListener('pointercancel', () => (this.#drag = undefined));
    this.#stage.addEventListener('dblclick', (event) =>
      this.#zoomAt(0.4, instantAt(event.offsetX, this.#window, this.#width)),
    );
  }

  /** Shows another timeline. One of the same target that goes on keeps what is shown of it. */
  show(timeline: Timeline | undefined, id: string): void {
    const isWhole =
      this.#timeline === undefined ||
      (this.#window.from <= this.#limit.from && this.#window.to >= this.#limit.to);
    const selected =
      this.#selected === undefined ? undefined : this.#timeline?.marks[this.#selected];
    this.#timeline = timeline;
    this.node.hidden = timeline === undefined || timeline.lanes.length === 0;
    if (timeline === undefined) {
      this.#selected = undefined;
      this.#lane = undefined;
      return;
    }
    this.#limit = around(extent(timeline));
    this.#window = isWhole ? this.#limit : this.#window;
    const place = timeline.marks.findIndex(
      (mark) => mark.at === selected?.at && mark.lane === selected.lane,
    );
    this.#selected = place === -1 ? undefined : place;
    this.#stage.setAttribute(
      'aria-label',
      `Timeline of ${id}: ${timeline.marks.length.toLocaleString()} marks in ${timeline.lanes.length} lanes`,
    );
    fill(
      this.#names,
      ...timeline.lanes.map(({ id, kind }) =>
        element('li', { class: kind, title: id }, element('span', {}, id)),
      ),
    );
    this.redraw();
    this.#listener.moved(this.#window);
  }

  showAll(): void {
    this.#move(this.#limit);
  }

  zoom(factor: number): void {
    const { from, to } = this.#window;
    const mark = this.#selected === undefined ? undefined : this.#timeline?.marks[this.#selected];
    const isInView = mark !== undefined && mark.at >= from && mark.at <= to;
    this.#zoomAt(factor, isInView ? mark.at : (from + to) / 2);
  }

  /** Points at a decision, and moves so that it is in view. */
  select(place: number): void {
    const mark = this.#timeline?.marks[place];
    if (mark !== undefined) {
      this.#selected = place;
      this.#move(showing(this.#window, mark.at, this.#limit));
      this.#listener.pointed(place, this.#countAt(place));
    }
  }

  /** Draws at the next frame, once, however often it is asked to. */
  redraw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #zoomAt(factor: number, place: number): void {
    this.#move(zoomed(this.#window, factor, place, this.#limit));
  }

  #move(window: TimeWindow): void {
    this.#window = window;
    this.redraw();
    this.#listener.moved(window);
  }

  #draw(): void {
    const timeline = this.#timeline;
    if (timeline === undefined || this.#width === 0) {
      return;
    }
    const height = this.#topOf(timeline.lanes.length);
    this.#canvas.setAttribute('width', String(this.#width));
    this.#canvas.setAttribute('height', String(height));
    this.#drawGround(timeline, height);
    this.#drawBars(timeline);
    this.#bins = binsOf(timeline.marks, this.#window, this.#width, this.#isShown);
    const crowded = crowdedLanes(this.#bins, this.#width);
    this.#crowd.hidden = crowded.size === 0;
    fill(this.#layers.marks, ...this.#markPaths(crowded));
    this.#drawCursor();
    sayPainted();
  }

  #drawGround({ lanes, to }: Timeline, height: number): void {
    const x = (at: number) => placeOf(at, this.#window, this.#width);
    const ticks = ticksIn(
      this.#window,
      Math.max(2, Math.floor(this.#width / labelRoom)),
      -new Date(this.#window.to).getTimezoneOffset(),
    );
    const lines = lanes.map((_, lane) => `M0 ${this.#topOf(lane + 1)}H${this.#width}`);
    const now = x(to);
    fill(
      this.#layers.ground,
      this.#lane !== undefined &&
        svg('rect', {
          class: 'chosen-lane',
          x: 0,
          y: this.#topOf(this.#lane),
          width: this.#width,
          height: this.#laneHeight,
        }),
      svg('path', { class: 'rule', d: lines.join('') }),
      svg('path', {
        class: 'tick',
        d: ticks.map(({ at }) => `M${x(at).toFixed(1)} ${axisHeight - 5}V${height}`).join(''),
      }),
      ...ticks
        .filter(({ at }) => x(at) < this.#width - labelRoom / 2)
        .map(({ at, grain }) =>
          svg('text', { class: grain, x: x(at) + 3, y: 14 }, clockText(at, grain)),
        ),
      ...(this.#names.hidden
        ? lanes.map(({ id }, lane) => svg('text', { x: 4, y: this.#topOf(lane) + 13 }, id))
        : []),
      now >= 0 &&
        now <= this.#width &&
        svg('path', { class: 'now', d: `M${now.toFixed(1)} ${axisHeight - 5}V${height}` }),
    );
  }

  #drawBars({ bars, due, to }: Timeline): void {
    const x = (at: number) => placeOf(at, this.#window, this.#width);
    const kinds = ['state', 'succeeded', 'failed', 'running'] as const;
    const dues = due.filter(({ at }) => at >= this.#window.from && at <= this.#window.to);
    fill(
      this.#layers.bars,
      ...kinds.map((kind) => {
        const drawn = bars.filter(
          (bar) =>
            bar.kind === kind && bar.from <= this.#window.to && (bar.to ?? to) >= this.#window.from,
        );
        return (
          drawn.length > 0 &&
          svg('path', {
            class: `bar ${kind}`,
            d: drawn
              .map((bar) =>
                barPath(
                  bar.kind,
                  x(bar.from),
                  x(bar.to ?? to),
                  this.#middleOf(bar.lane),
                  this.#width,
                ),
              )
              .join(''),
          })
        );
      }),
      dues.length > 0 &&
        svg('path', {
          class: 'due',
          d: dues.map(({ at, lane }) => duePath(x(at), this.#middleOf(lane))).join(''),
        }),
    );
  }

  #drawCursor(): void {
    const mark = this.#selected === undefined ? undefined : this.#timeline?.marks[this.#selected];
    const lanes =
      mark === undefined ? [] : [mark.lane, ...(mark.member === undefined ? [] : [mark.member])];
    const x = placeOf(mark?.at ?? 0, this.#window, this.#width);
    const rings = lanes.map(
      (lane) => `M${x - 9} ${this.#middleOf(lane)}a9 9 0 1 0 18 0a9 9 0 1 0 -18 0z`,
    );
    this.#layers.cursor.setAttribute('d', rings.join(''));
  }

  #hover(event: PointerEvent): void {
    if (this.#drag !== undefined && event.buttons === 1) {
      const share = (this.#drag.x - event.offsetX) / this.#width;
      this.#move(panned(this.#drag.window, share, this.#limit));
      return;
    }
    const lane = Math.floor((event.offsetY - axisHeight) / this.#laneHeight);
    const bin = binNear(this.#bins, lane, event.offsetX, reach);
    if (bin !== undefined && bin.last !== this.#selected) {
      this.#selected = bin.last;
      this.#drawCursor();
      this.#listener.pointed(bin.last, bin.count);
    }
  }

  #press(event: PointerEvent): void {
    if (event.button === 0) {
      this.#drag = { x: event.offsetX, window: this.#window };
      this.#stage.setPointerCapture(event.pointerId);
    }
  }

  /** A wheel alone scrolls the page: only what goes sideways, or is held with Ctrl, is meant for the picture. */
  #wheel(event: WheelEvent): void {
    const sideways = event.deltaX !== 0 ? event.deltaX : event.shiftKey ? event.deltaY : 0;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.#zoomAt(
        Math.exp(event.deltaY / 300),
        instantAt(event.offsetX, this.#window, this.#width),
      );
    } else if (sideways !== 0) {
      event.preventDefault();
      this.#move(panned(this.#window, sideways / this.#width, this.#limit));
    }
  }

  #key(event: KeyboardEvent): void {
    const run = this.#actionOf(event);
    if (run !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      run();
    }
  }

  #actionOf({ key, shiftKey }: KeyboardEvent): (() => void) | undefined {
    const actions: Readonly<Record<string, () => void>> = {
      ArrowLeft: () => (shiftKey ? this.#pan(-0.25) : this.#step(-1)),
      ArrowRight: () => (shiftKey ? this.#pan(0.25) : this.#step(1)),
      ArrowUp: () => this.#chooseLane(-1),
      ArrowDown: () => this.#chooseLane(1),
      PageUp: () => this.#pan(-0.8),
      PageDown: () => this.#pan(0.8),
      Home: () => this.#end(1),
      End: () => this.#end(-1),
      '+': () => this.zoom(0.5),
      '=': () => this.zoom(0.5),
      '-': () => this.zoom(2),
      '0': () => this.showAll(),
      Enter: () => this.#selected !== undefined && this.#listener.opened(this.#selected),
      Escape: () => this.#chooseLane(0),
    };
    return actions[key];
  }

  #pan(share: number): void {
    this.#move(panned(this.#window, share, this.#limit));
  }

  #step(direction: 1 | -1): void {
    const next = nextMark(this.#marks, this.#selected, direction, this.#isShown, this.#lane);
    if (next !== undefined) {
      this.select(next);
    }
  }

  /** The first or the last decision, looking in a direction. */
  #end(direction: 1 | -1): void {
    const next = nextMark(this.#marks, undefined, direction, this.#isShown, this.#lane);
    if (next !== undefined) {
      this.select(next);
    }
  }

  /** Chooses the lane above or below, from none; 0 chooses none. */
  #chooseLane(by: -1 | 0 | 1): void {
    const count = this.#timeline?.lanes.length ?? 0;
    const from = this.#lane ?? (by === 1 ? -1 : count);
    this.#lane = by === 0 ? undefined : Math.min(Math.max(0, from + by), count - 1);
    this.#names.querySelectorAll('li').forEach((name, lane) => {
      name.classList.toggle('chosen', lane === this.#lane);
    });
    this.redraw();
    const onLane = nextMark(
      this.#marks,
      this.#selected === undefined ? undefined : this.#selected + 1,
      -1,
      this.#isShown,
      this.#lane,
    );
    if (onLane !== undefined) {
      this.select(onLane);
    }
  }

  #countAt(place: number): number {
    return this.#bins.find(({ last }) => last === place)?.count ?? 1;
  }

  #markPaths(crowded: ReadonlySet<number>): SVGPathElement[] {
    const pathOf = ({ outcome, lane, x }: Bin) =>
      crowded.has(lane)
        ? strokeAt(outcome, x, this.#middleOf(lane))
        : shapeAt(outcome, x, this.#middleOf(lane));
    // The quiet ones first, so that the loud ones lie on top.
    return outcomes.toReversed().flatMap((outcome) => {
      const path = this.#bins
        .filter((bin) => bin.outcome === outcome)
        .map(pathOf)
        .join('');
      return path === '' ? [] : [svg('path', { class: `mark ${outcome}`, d: path })];
    });
  }

  get #laneHeight(): number {
    return this.#names.hidden ? withinHeight : besideHeight;
  }

  #topOf(lane: number): number {
    return axisHeight + lane * this.#laneHeight;
  }

  /** A name in the picture is above the marks. */
  #middleOf(lane: number): number {
    return this.#topOf(lane + 1) - besideHeight / 2;
  }

  get #marks(): Timeline['marks'] {
    return this.#timeline?.marks ?? [];
  }
}

/** From the first thing that is known to the last that is due. */
function extent({ from, to, marks, bars, due }: Timeline): TimeWindow {
  const starts = [marks[0]?.at ?? to, ...bars.map((bar) => bar.from)];
  const dues = due.map(({ at }) => at);
  const first = Math.max(
    from,
    starts.reduce((least, at) => Math.min(least, at), to),
  );
  const last = dues.reduce((most, at) => Math.max(most, at), to);
  // What is due far ahead must not press together what has been.
  const ahead = Math.max(60_000, (to - first) * 0.1);
  return { from: first, to: Math.min(last, to + ahead) };
}

/** A backup is a bar; one that runs is open to the right. A state is a line along the lane's lower edge. */
function barPath(kind: Bar['kind'], from: number, to: number, y: number, width: number): string {
  const left = Math.max(-20, from);
  const right = Math.min(width + 20, Math.max(to, from + 2));
  switch (kind) {
    case 'state':
      return `M${left.toFixed(1)} ${y + 10}H${right.toFixed(1)}`;
    case 'running':
      return `M${right.toFixed(1)} ${y - 6}H${left.toFixed(1)}v12H${right.toFixed(1)}`;
    case 'failed':
    case 'succeeded':
      return `M${left.toFixed(1)} ${y - 6}H${right.toFixed(1)}v12H${left.toFixed(1)}z`;
  }
}

/** A small bracket that is open downwards: something is to come here. */
function duePath(x: number, y: number): string {
  return `M${(x - 3).toFixed(1)} ${y + 4}v-8h6v8`;
}

/** For whoever measures how long it takes: the picture is on the screen after the next frame. */
function sayPainted(): void {
  requestAnimationFrame(() => {
    performance.mark('timeline painted');
  });
}
