/** A message on its way to the publish form, which it reaches without its body standing in an address. */

/** @typedef {{subject: string, headers: [string, string][], body: {data?: string, base64?: string}}} Draft */

/** @type {Draft|null} */
let kept = null;

/** @param {Draft} draft */
export function keepDraft(draft) {
  kept = draft;
}

/** @returns {Draft|null} */
export function takeDraft() {
  const draft = kept;
  kept = null;
  return draft;
}
