from django.apps import AppConfig


class SimulationConfig(AppConfig):
    name = "simulation"
    verbose_name = "Simulation"

    def ready(self) -> None:
        """Register what saving a policy would change for the fleet."""
        from fleet.dry_runs import DRY_RUNS
        from jobs.handlers import later

        DRY_RUNS.append(later("simulation.on_own_fleet:effect_of"))
