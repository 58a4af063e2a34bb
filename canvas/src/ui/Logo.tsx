/** The logo. */

export function Logo({ size = 28 }: { size?: number }) {
  return (
    <svg width={`${size / 16}rem`} height={`${size / 16}rem`} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <path d="M10 11 24 8M10 11l8 14" stroke="var(--control)" strokeWidth="2.5" />
      <circle cx="9" cy="11" r="6" fill="var(--accent)" />
      <circle cx="24" cy="8" r="4.5" fill="var(--ok)" />
      <circle cx="18" cy="25" r="5" fill="var(--waiting)" />
    </svg>
  );
}
