/** Line icons. Decorative: the text beside them, or the name of their button, has the meaning. */

const PATHS = {
  org: "M10 3.5h0M7.5 2.5h5v4h-5zM2.5 13.5h5v4h-5zM12.5 13.5h5v4h-5zM10 6.5v3.5M5 13.5V10h10v3.5",
  chats: "M3 4.5h14v9H9l-4 3.5v-3.5H3zM6.5 8h7M6.5 10.5h4",
  connect: "M7 3v4M13 3v4M5 7h10v3a5 5 0 0 1-10 0zM10 15v3",
  settings: "M3 6h7M14 6h3M3 14h3M10 14h7M12 4v4M8 12v4",
  keys: "M2.5 5h15v10h-15zM5.5 8h0M8.5 8h0M11.5 8h0M14.5 8h0M6 12h8",
  search: "M9 3.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11M13 13l4 4",
  close: "M5 5l10 10M15 5L5 15",
  copy: "M7 7h9.5v9.5H7zM13 7V3.5H3.5V13H7",
  check: "M4 10.5l4 4 8-9",
  checks: "M2 10.5l3.5 4 7-9M9.5 13l1.5 1.5 7-9",
  link: "M8.5 11.5l3-3M7 9l-2.5 2.5a2.8 2.8 0 0 0 4 4L11 13M9 7l2.5-2.5a2.8 2.8 0 0 1 4 4L13 11",
  plus: "M10 4v12M4 10h12",
  minus: "M4 10h12",
  fit: "M3.5 7.5v-4h4M12.5 3.5h4v4M16.5 12.5v4h-4M7.5 16.5h-4v-4",
  overview: "M2.5 4.5h15v11h-15zM9.5 9.5h5v3.5h-5z",
  tidy: "M3.5 3.5h5v5h-5zM11.5 3.5h5v5h-5zM3.5 11.5h5v5h-5zM11.5 11.5h5v5h-5z",
  more: "M4 9.4a.6.6 0 1 0 0 1.2a.6.6 0 1 0 0-1.2M10 9.4a.6.6 0 1 0 0 1.2a.6.6 0 1 0 0-1.2M16 9.4a.6.6 0 1 0 0 1.2a.6.6 0 1 0 0-1.2",
  wider: "M8 5l-5 5 5 5M12 5l5 5-5 5M3 10h14",
  down: "M10 4v11M5 10.5l5 5 5-5",
  back: "M12.5 4.5L7 10l5.5 5.5",
  reply: "M8 5L3 10l5 5M3 10h9a5 5 0 0 1 5 5v1",
  right: "M7.5 4.5L13 10l-5.5 5.5",
  up: "M4.5 12.5L10 7l5.5 5.5",
  below: "M4.5 7.5L10 13l5.5-5.5",
  send: "M3.5 16.5l13.5-6.5L3.5 3.5l2 6.5zM5.5 10H17",
  attach: "M13.5 6.5l-6 6a1.8 1.8 0 0 0 2.5 2.5l6-6a3.5 3.5 0 0 0-5-5l-6.5 6.5a5.3 5.3 0 0 0 7.5 7.5l4.5-4.5",
  file: "M5 2.5h6.5L15.5 6.5v11H5zM11.5 2.5v4h4",
  save: "M10 3v9M6 8.5l4 4 4-4M3.5 16.5h13",
  warning: "M10 3l8 14H2zM10 8v4M10 14.5h0",
  clock: "M10 3a7 7 0 1 0 0 14a7 7 0 0 0 0-14M10 6v4l3 2",
  again: "M16 10a6 6 0 1 1-2-4.5M16.5 3v3.5H13",
  book: "M4 3.5h12v13H4zM7.5 3.5v13M10.5 7h3",
  play: "M6 4l10 6-10 6z",
  activity: "M2.5 10.5h3.5L8.5 4l3.5 12 2.5-5.5h3",
  usage: "M3 16.5h14M5 13.5v-4M10 13.5v-10M15 13.5v-7",
  inbox: "M3 11l2.5-7h9L17 11v5.5H3zM3 11h4.5a2.5 2.5 0 0 0 5 0H17",
  leave: "M10 2.5L17.5 10 10 17.5 2.5 10zM10 6.5v4M10 13h0",
} as const;

export type IconName = keyof typeof PATHS;

/** `size` in pixels at the default text size; it scales with the text. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg width={`${size / 16}rem`} height={`${size / 16}rem`} viewBox="0 0 20 20" fill="none" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}
