/** A piece of source text and what stands in its place. */
export interface Edit {
  /** From the root of the repository. */
  readonly file: string;
  /** Exactly as it stands in the file, where it occurs once. */
  readonly find: string;
  readonly replace: string;
}

/** The product with one guard taken off, or with a defect put back that others had. */
export interface Mutant extends Edit {
  /** Kebab-case; begins with the part of the product it is in. */
  readonly id: string;
  /** What it takes off, as one sentence about the code it leaves behind. */
  readonly breaks: string;
  /** Ids of the invariants that are likely to fail first. A kill by any other counts as well. */
  readonly expected: readonly string[];
  /** Where two guards stand behind each other, neither alone is seen to be missing: further edits of the same mutant. */
  readonly also?: readonly Edit[];
}

export function editsOf({ file, find, replace, also = [] }: Mutant): readonly Edit[] {
  return [{ file, find, replace }, ...also];
}

/** Every file a mutant touches, each once. */
export function filesOf(mutant: Mutant): readonly string[] {
  return [...new Set(editsOf(mutant).map(({ file }) => file))];
}

/**
 * The source of one file as the mutant has it.
 *
 * @param file from the root of the repository; one that the mutant leaves alone comes back as it is
 * @throws Error where a text to be replaced does not occur exactly once: a mutant that changes nothing, or something
 *   else than it says, would prove nothing
 */
export function mutatedSource(mutant: Mutant, file: string, source: string): string {
  let mutated = source;
  for (const edit of editsOf(mutant)) {
    if (edit.file !== file) {
      continue;
    }
    const parts = mutated.split(edit.find);
    if (parts.length !== 2) {
      throw new Error(
        `mutant ${mutant.id}: its text occurs ${parts.length - 1} times in ${file}, not once: ${edit.find}`,
      );
    }
    mutated = parts.join(edit.replace);
  }
  return mutated;
}

/** @throws Error for an id that the catalogue does not have */
export function mutantOf(catalogue: readonly Mutant[], id: string): Mutant {
  const mutant = catalogue.find((candidate) => candidate.id === id);
  if (mutant === undefined) {
    throw new Error(`there is no mutant ${id} in the catalogue`);
  }
  return mutant;
}

/** What a process says on stderr before the name of each file that it loads with the mutant in force. */
export function inForcePrefix(id: string): string {
  return `mutant ${id} is in force in `;
}
