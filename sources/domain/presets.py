"""Periods and windows that most people want, by name: one click instead of an expression."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """A period: `cron` in five fields, for the policy's zone."""

    name: str
    title: str
    cron: str


@dataclass(frozen=True)
class WindowPreset:
    """A window: `ranges` are (days, start, end), local wall clock."""

    name: str
    title: str
    ranges: tuple[tuple[str, str, str], ...]

    @property
    def rows(self) -> list[dict[str, str]]:
        """What a policy's `window` is set to; the caller's own."""
        return [{"days": days, "start": start, "end": end} for days, start, end in self.ranges]


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("hourly", "every hour", "0 * * * *"),
        Preset("daily", "every day", "0 0 * * *"),
        Preset("weekdays", "Monday to Friday", "0 0 * * 1-5"),
        Preset("weekly", "every week, from Monday", "0 0 * * 1"),
        Preset("monthly", "every month, from its first day", "0 0 1 * *"),
    )
}
"""They begin at local midnight: at which hour backups run is the window's to say."""

WINDOW_PRESETS = {
    preset.name: preset
    for preset in (
        WindowPreset("always", "at any time", ()),
        WindowPreset("working-hours", "Monday to Friday, 08:00 to 18:00", (("mon-fri", "08:00", "18:00"),)),
        WindowPreset("nights", "every night, 22:00 to 06:00", (("mon-sun", "22:00", "06:00"),)),
        WindowPreset("weekends", "Saturday and Sunday", (("sat-sun", "00:00", "00:00"),)),
    )
}
