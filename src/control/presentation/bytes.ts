const units = ['KiB', 'MiB', 'GiB', 'TiB'] as const;

/** `512 B`, `1.0 KiB`, `230.1 MiB`, `1.25 GiB`. */
export function formatBytes(count: number): string {
  if (count < 1024) return `${Math.round(count)} B`;
  const power = Math.min(units.length, Math.floor(Math.log2(count) / 10));
  const unit = units[power - 1] ?? 'KiB';
  return `${(count / 1024 ** power).toFixed(unit === 'KiB' || unit === 'MiB' ? 1 : 2)} ${unit}`;
}
