"""What NVML tells of one GPU: facts, clocks, power, temperature, throttling and the energy counter."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.devices.device import Unknown
from harness.types import Scalar

#: nvmlClocksEventReason bits that mean that something holds the clock down. Idle (1), applications clocks
#: (2), sync boost (16) and display clock (256) are settings, not events.
THROTTLING: Mapping[int, str] = {
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
#: Change of the SM clock between readings, over the highest, from which it is flagged.
CLOCK_MOVED = 0.05


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the GPU; None where the GPU does not tell."""

    sm_clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    throttling: tuple[str, ...]


class Gpu:
    """One GPU through NVML. `nvml` is the module pynvml, or a fake of it."""

    def __init__(self, uuid: str, nvml: Any = None) -> None:
        """Raises Unknown, with the reason in words, where NVML cannot be used."""
        self.nvml = nvml or _pynvml()
        try:
            self.nvml.nvmlInit()
            self.handle = self.nvml.nvmlDeviceGetHandleByUUID(uuid)
        except self.nvml.NVMLError as error:
            raise Unknown(f"NVML does not tell of {uuid}: {error}") from None

    def read(self) -> Reading:
        """Look now."""
        nvml = self.nvml
        power = self._ask(nvml.nvmlDeviceGetPowerUsage)
        bits = self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons) or 0
        return Reading(
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            power_w=None if power is None else power / 1e3,
            temperature_c=self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            throttling=tuple(name for bit, name in THROTTLING.items() if bits & bit),
        )

    def joules(self) -> float:
        """The energy counter since the driver was loaded. Raises Unknown where the GPU has none."""
        try:
            return float(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)) / 1e3
        except self.nvml.NVMLError as error:
            raise Unknown(f"no energy counter: {error}") from None

    def facts(self) -> dict[str, Scalar]:
        """Driver, highest clocks and power cap; None where the GPU does not tell."""
        nvml = self.nvml
        cap = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit)
        return {
            "driver": _text(self._ask(lambda handle: nvml.nvmlSystemGetDriverVersion())),
            "sm_clock_max_mhz": self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
            "memory_clock_max_mhz": self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
            "power_cap_w": None if cap is None else cap / 1e3,
        }

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, or None where this GPU does not support the question."""
        try:
            return question(self.handle, *arguments)
        except self.nvml.NVMLError:
            return None


def _pynvml() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        raise Unknown("nvidia-ml-py is not installed") from None


def _text(value: str | bytes | None) -> str | None:
    """Older versions of nvidia-ml-py answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value


def doubts(readings: Sequence[Reading]) -> tuple[str, ...]:
    """Throttling and moving clocks, in words."""
    flags = []
    throttled = [reading for reading in readings if reading.throttling]
    if throttled:
        names = dict.fromkeys(name for reading in throttled for name in reading.throttling)
        flags.append(f"throttled: {', '.join(names)} in {len(throttled)} of {len(readings)} readings")
    clocks = [reading.sm_clock_mhz for reading in readings if reading.sm_clock_mhz]
    if clocks and max(clocks) - min(clocks) > CLOCK_MOVED * max(clocks):
        flags.append(f"clock moved: the SM clock went from {min(clocks):.0f} to {max(clocks):.0f} MHz")
    return tuple(flags)


def summary(readings: Sequence[Reading]) -> dict[str, Scalar]:
    """The highest of each over the readings, as far as the GPU tells."""
    found: dict[str, Scalar] = {}
    for name in ("sm_clock_mhz", "power_w", "temperature_c"):
        values = [value for reading in readings if (value := getattr(reading, name)) is not None]
        if values:
            found[f"{name}_max"] = max(values)
    return found
