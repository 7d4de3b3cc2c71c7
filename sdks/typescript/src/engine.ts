/**
 * The engine of durable functions: recorded checkpoints in, commands out.
 *
 * It does no I/O, reads no clock and draws no randomness. It knows no leases and no HTTP: the worker does. The same
 * engine in every language passes `protocol/scenarios/durable`.
 */
export type * from "./engine/command.js";
export { draw, firstNumber, pauseMs, seedOf } from "./engine/draw.js";
export { type Body, Run, type Turn } from "./engine/run.js";
export { type Divergence, Stop } from "./engine/stop.js";
