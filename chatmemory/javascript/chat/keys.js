// Idempotency keys: a request that is sent again with the same key is done once.

/** Return a key that nobody has had. Browsers offer randomUUID() only to pages that came over HTTPS. */
export function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
