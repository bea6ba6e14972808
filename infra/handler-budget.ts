/** The most that a step's handler may weigh without what it loads lazily, in bytes: a cold start reads and parses it. */
export const handlerBudgetBytes = 400_000;
