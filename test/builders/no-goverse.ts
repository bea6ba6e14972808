/** For steps that have nothing to do with GoVerse. */
export function noGoverse(): never {
  throw new Error('a step looked for GoVerse that has nothing to do with it');
}
