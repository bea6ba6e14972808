export { VirtualClock as VirtualTimers } from '#test/world/relay/virtual-clock.ts';
