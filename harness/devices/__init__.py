"""The only files that know a device's API: timer, memory, cache, health."""
