export function Replay() { return null; }
