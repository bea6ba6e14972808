/** The JSON lines a process or function wrote, in order, which a test can await. */
export class LineLog {
  readonly lines: Record<string, unknown>[] = [];
  #waiting: (() => void)[] = [];

  readonly add = (text: string): void => {
    try {
      this.lines.push(JSON.parse(text) as Record<string, unknown>);
    } catch {
      this.lines.push({ text });
    }
    for (const wake of this.#waiting.splice(0)) {
      wake();
    }
  };

  where(fields: Record<string, unknown>): Record<string, unknown>[] {
    return this.lines.filter((line) =>
      Object.entries(fields).every(([name, value]) => line[name] === value),
    );
  }

  /** Resolves with the lines that have these fields as soon as there are so many; the test's own timeout ends it. */
  async until(fields: Record<string, unknown>, count = 1): Promise<Record<string, unknown>[]> {
    while (this.where(fields).length < count) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    return this.where(fields);
  }
}
