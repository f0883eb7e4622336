export function Tools() { return null; }
