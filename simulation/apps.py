from django.apps import AppConfig


class SimulationConfig(AppConfig):
    name = "simulation"
    verbose_name = "Simulation"

    def ready(self) -> None:
        """Register the forecast of the effects that saving a policy would have on the fleet."""
        from fleet.dry_runs import DRY_RUNS
        from jobs.handlers import later

        DRY_RUNS.append(later("simulation.on_own_fleet:effect_of"))
