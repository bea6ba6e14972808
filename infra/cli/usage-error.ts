/** The command line asks for something that cannot be: said in one sentence that names what can. Exit code 2. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UsageError';
  }
}
