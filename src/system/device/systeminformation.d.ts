/** Only this part of systeminformation is loaded, since the whole package is six times as large. The version is pinned. */
declare module 'systeminformation/lib/system.js' {
  export { baseboard, chassis, system } from 'systeminformation';
}
