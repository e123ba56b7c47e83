"""Which figures of which result docs/results.md shows: one entry per file in this folder. Expressions are those of :mod:`.values`."""

from __future__ import annotations

from typing import NamedTuple


class Figures(NamedTuple):
    """Single values: a label and an expression each."""

    rows: tuple[tuple[str, str], ...]


class Listing(NamedTuple):
    """One row per entry of a list or of a mapping, whose keys are then the entries' ``name``."""

    where: str
    columns: tuple[tuple[str, str], ...]
    """A heading and an expression within the entry; ``?`` before it where not every entry has it."""


class Whole(NamedTuple):
    """One row of the results themselves, with the columns of a listing."""

    columns: tuple[tuple[str, str], ...]


class Section(NamedTuple):
    """One result; without parts, whatever numbers stand on its top."""

    result: str
    """Name of the file, without its ending."""
    title: str
    parts: tuple[Figures | Listing | Whole, ...] = ()
    note: str = ""


_STEP = Listing(
    "results.levels",
    (
        ("motion", "motion"),
        ("faces", "faces:.0f"),
        ("grip [N]", "grip_N:g"),
        ("ours [µs]", "ours_s*1e6:.0f"),
        ("Drake [µs]", "peer_s*1e6:.0f"),
        ("Drake / ours", "ratio:.1f"),
        ("Newton iterations", "newton_iterations:.1f"),
        ("worst residual", "worst_residual:.0e"),
        ("bars' height apart [mm]", "height_difference_m*1e3:.3f"),
    ),
)
_MOTIONS = "A settled grip, a bar that is dragged through it, and fingers that close on the bar."
TRIALS = (
    ("succeeded", "rate(success_rate, trials)"),
    ("dropped", "dropped"),
    ("stalls", "stalls"),
    ("goals reached", "goals_reached"),
    ("median time to a goal [s]", "goal_s.median:.2f"),
    ("orientation error, mean [rad]", "orientation_error_rad.mean:.3f"),
    ("std", "orientation_error_rad.std:.3f"),
    ("position error, mean [mm]", "position_error_m.mean*1e3:.1f"),
)


def trials(result: str, title: str, note: str = "") -> Section:
    """What ``dexstack eval`` wrote: by kind of goal, and all together."""
    return Section(result, title, (Listing("results.kinds", (("goal", "name"), *TRIALS)), Whole(TRIALS)), note)


def worlds(result: str, title: str, note: str = "") -> Section:
    """What ``dexstack eval --vary`` wrote, by world."""
    return Section(result, title, (Listing("results.cells", (("world", "cell"), *TRIALS)),), note)


_FOUND = (
    ("unknown", "name"),
    ("median error", "median_error:.2g"),
    ("worst", "worst_error:.2g"),
    ("limit", "limit:g"),
    ("within", "within"),
    ("in the 90 % interval", "covered"),
    ("of", "of"),
)
_CHECKS = (("check", "name"), ("checked", "checked"), ("failed", "failed"), ("worst", "worst:.1e"))
_DISTANCES = (
    ("configurations checked", "results.intersections.checked"),
    ("intersections", "results.intersections.failed"),
    ("smallest distance [m]", "results.intersections.worst:.1e"),
)

BENCH = (
    Section(
        "mpc",
        "Time of contact detection and one plan",
        (
            Figures(
                (
                    ("plan, p50 [ms]", "results.solve_s.p50*1e3:.2f"),
                    ("plan, p99 [ms]", "results.solve_s.p99*1e3:.2f"),
                    ("detection, p50 [ms]", "results.detect_s.p50*1e3:.2f"),
                    ("both, p50 [ms]", "results.detect_and_solve_s.p50*1e3:.2f"),
                    ("both, p99 [ms]", "results.detect_and_solve_s.p99*1e3:.2f"),
                    ("plans", "results.solve_s.n"),
                    ("ended", "results.statuses"),
                    ("variables", "results.variables"),
                    ("active contacts, mean", "results.contacts.mean:.1f"),
                )
            ),
        ),
    ),
)

GRAPH = (
    Section(
        "graph_week",
        "Rollout after rollout in one bring-up, a node killed in every tenth",
        (
            Figures(
                (
                    ("undisturbed rollouts that reached the goal", "rate(results.reached, results.undisturbed)"),
                    ("… in the first half", "rate(results.first_half_reached, results.first_half)"),
                    ("… in the second", "rate(results.second_half_reached, results.second_half)"),
                    ("with a killed node", "rate(results.killed_reached, results.killed)"),
                    ("largest growth of a process (limit 5 %)", "results.worst_growth*100:.1f"),
                    ("measured from its rollout", "results.settled"),
                    ("processes left", "results.orphans"),
                    ("segments of shared memory left", "results.shared_memory_left"),
                    ("files of ports left", "results.ports_left"),
                )
            ),
        ),
    ),
    Section(
        "start_up",
        "From the command to the hand's first command",
        (
            Listing(
                "results.plants",
                (
                    ("plant", "plant"),
                    ("empty caches [s]", "cold_s:.1f"),
                    ("limit", "cold_limit_s"),
                    ("processor time [s]", "cold_processor_s:.1f"),
                    ("full caches, median [s]", "warm_s:.1f"),
                    ("worst", "warm_worst_s:.1f"),
                    ("limit", "warm_limit_s"),
                    ("n", "n"),
                ),
            ),
        ),
    ),
)

CONTACTSDF = (
    Section(
        "ipopt",
        "MPC beside IPOPT, under one cost",
        (
            Listing(
                "results.solvers",
                (
                    ("solver", "solver"),
                    ("p50 [ms]", "solve_s.p50*1e3:.2f"),
                    ("p99 [ms]", "solve_s.p99*1e3:.2f"),
                    ("n", "solve_s.n"),
                    ("over ours", "?ratio:.0f"),
                    ("cost, D-SDF, own goals", "cost.dsdf.near.median:.2f"),
                    ("cost, D-SDF, goals away", "cost.dsdf.away.median:.2f"),
                    ("cost, exact step, own goals", "cost.qp.near.median:.2f"),
                    ("cost, exact step, goals away", "cost.qp.away.median:.2f"),
                    ("ended", "statuses"),
                    ("without descent", "?no_descent"),
                ),
            ),
            Figures((("ours over IPOPT, cost with D-SDF, median", "results.cost_over_ipopt:.3f"),)),
        ),
        "Median cost of the plans, all judged by one function; *away* is with goals 30 mm and 40° from the object.",
    ),
    Section(
        "prediction",
        "One-step prediction of every model",
        (
            Listing(
                "results.models",
                (
                    ("predictor", "name"),
                    ("position, share of 'stays'", "relative.position:.2f"),
                    ("rotation", "relative.orientation:.2f"),
                    ("joints", "relative.joints:.2f"),
                ),
            ),
        ),
    ),
)

ENGINES = (
    Section(
        "engines_palm",
        "The cube on the palm for a minute, all engines",
        (
            Listing(
                "results.plants",
                (
                    ("engine", "plant"),
                    ("step [ms]", "dt_s*1e3:g"),
                    ("drift [mm]", "drift_m*1e3:.3g"),
                    ("worst depth [mm]", "?depth_worst_m*1e3:.3g"),
                    ("mean depth [mm]", "?depth_mean_m*1e3:.3g"),
                    ("real time ×", "real_time_factor:.1f"),
                    ("reported", "trouble"),
                    ("reached", "reached"),
                ),
            ),
            Figures((("largest drift asked for [mm]", "results.limit_m*1e3:g"),)),
        ),
    ),
    Section(
        "engines_fingertip",
        "A fingertip under 10 N, all engines",
        (
            Listing(
                "results.rows",
                (
                    ("engine", "engine"),
                    ("depth [mm]", "depth_m*1e3:.3f"),
                    ("closed form of its law [mm]", "closed_form_m*1e3:.3f"),
                    ("reached", "reached"),
                ),
            ),
        ),
        "Negative: a gap.",
    ),
    Section(
        "engines_suite",
        "Scenes that physics decides, all engines",
        (
            Listing(
                "results.rows",
                (
                    ("scene", "scene"),
                    ("engine", "engine"),
                    ("claimed", "claimed"),
                    ("passed", "?reached"),
                    ("figure", "?figure:.2g"),
                    ("limit", "?limit:.2g"),
                    ("step [µs]", "?step_s*1e6:.0f"),
                    ("worst depth [µm]", "?depth_worst_m*1e6:.1f"),
                    ("mean depth [µm]", "?depth_mean_m*1e6:.1f"),
                    ("energy error [J]", "?energy_error_j:.1e"),
                ),
            ),
        ),
        "One limit per scene for all engines, in `experiments/engines/scenes.py` with what each figure is.",
    ),
    Section(
        "engines_batches",
        "Many scenes at once, beside MuJoCo's own rollout and MJX",
        (
            Listing(
                "results.rows",
                (
                    ("who", "who"),
                    ("scenes", "n"),
                    ("steps per second, of all", "steps_per_s:.3g"),
                    ("steps of each", "steps"),
                    ("off MuJoCo's place [mm]", "off_m*1e3:.2g"),
                    ("made and compiled in [s]", "ready_s:.1f"),
                ),
            ),
            Figures((("JAX on", "results.device"), ("threads", "results.threads"), ("MJX took part", "results.mjx"))),
        ),
    ),
    Section(
        "transfer_palm",
        "θ learned on one plant, tried on another",
        (
            Listing(
                "results.cells",
                (
                    ("θ of", "source"),
                    ("on", "plant"),
                    ("succeeded", "rate(success_rate, trials)"),
                    ("dropped", "dropped"),
                    ("median time [s]", "reached_s.median:.2f"),
                    ("orientation error, mean [rad]", "orientation_error_rad.mean:.3f"),
                    ("held-out loss", "prediction_loss:.3g"),
                ),
            ),
            Figures(
                (
                    ("pairs that keep 95 % of the success of the plant's own θ", "results.crossed_kept"),
                    ("of", "results.crossed"),
                    ("mixtures as good as the best single θ", "results.mixed_as_good"),
                    ("of", "results.mixed"),
                )
            ),
        ),
    ),
    Section(
        "engines_replays",
        "Replays with the same bits",
        (Listing("results.rows", (("scene", "scene"), ("engine", "engine"), ("same", "same"), ("of", "of"))),),
    ),
    Section(
        "engines_foreign",
        "Robots from other packages, all engines",
        (
            Listing(
                "results.engines",
                (("engine", "engine"), ("loaded", "loaded"), ("free motion right", "moved_rightly"), ("ran", "ran"), ("of", "of")),
            ),
            Listing(
                "results.rows",
                (
                    ("model", "model"),
                    ("engine", "engine"),
                    ("loaded", "loaded"),
                    ("free motion off by", "?error:.1e"),
                    ("MuJoCo's own", "?mujoco_error:.1e"),
                    ("ran", "?ran"),
                    ("real time ×", "?real_time_factor:.1f"),
                    ("said", "said"),
                ),
            ),
        ),
        "Free motion: largest difference of a coordinate after 0.5 s from MuJoCo's Runge–Kutta at a twentieth of the step.",
    ),
)

HYDROELASTIC = (
    Section(
        "hydroelastic_surfaces",
        "Contact surfaces beside Drake's",
        (
            Listing(
                "results.cases",
                (
                    ("case", "name"),
                    ("poses", "poses"),
                    ("ours [µs]", "ours_s.p50*1e6:.1f"),
                    ("Drake [µs]", "?peer_s.p50*1e6:.1f"),
                    ("Drake / ours", "?ratio:.1f"),
                ),
            ),
            Listing("results.checks", _CHECKS),
            Figures((("Drake / ours, geometric mean", "results.ratio:.1f"), ("Drake", "results.peer.version"))),
        ),
    ),
    Section("hydroelastic_step", "A whole step beside Drake's, lagged friction in both", (_STEP,), _MOTIONS),
    Section("hydroelastic_step_sap", "A whole step beside Drake's, SAP in both", (_STEP,), _MOTIONS),
    Section(
        "hydroelastic_coin",
        "The coin that slides and spins to rest",
        (
            Listing("results.ratios", (("start ε₀", "start:g"), ("end ε", "end:.4f"), ("steps", "steps"))),
            Figures(
                (
                    ("this fan of 152 triangles, integrated", "results.reference:.5f"),
                    ("published", "results.published_reference"),
                    ("worst from it [%]", "results.worst_from_reference*100:.2f"),
                    ("order of the error in the step", "results.order_in_time:.2f"),
                    ("order of the error in the mesh", "results.order_in_mesh:.2f"),
                    ("steps unsolved", "results.unsolved"),
                )
            ),
            Listing(
                "results.curves",
                (
                    ("segments", "segments"),
                    ("rings", "rings"),
                    ("start ε₀", "start:g"),
                    ("ε after four decades", "?end:.4f"),
                    ("worst from the mesh's curve [%]", "?from_mesh/0.01:.2f"),
                    ("the mesh's from the disk's [%]", "mesh_from_disk/0.01:.2f"),
                ),
            ),
        ),
        "A fan has its points on one ring and forgets its start. A disk with points all over still shows where it came from: whole curves "
        "of ε over the speed, through four decades of it, beside the integrated equations of the same mesh and of the even disk.",
    ),
    Section(
        "hydroelastic_sinusoid",
        "Sinusoids pressed into a layer: the paper's figure is not reproduced",
        (
            Figures(
                (
                    ("largest difference from the closed form", "results.closed_form_error:.1e"),
                    ("field under our finite elements, largest amplitude [%]", "results.under_at_depth*100:.1f"),
                    ("the paper's, under its own [%]", "results.published_under_at_depth*100:.0f"),
                    ("figure reproduced", "results.figure_reproduced"),
                )
            ),
        ),
    ),
    Section(
        "hydroelastic_convergence",
        "Sphere on a plane under refinement",
        (
            Figures(
                (
                    ("relative error, finest mesh", "results.relative_error[3]:.1e"),
                    ("order, last halving", "results.order[2]:.2f"),
                )
            ),
        ),
    ),
    Section(
        "hydroelastic_fuzz", "What must hold in any pose", (Listing("results.checks", _CHECKS), Figures((("poses", "results.poses"),)))
    ),
    Section("hydroelastic_grip", "A spatula pinched beside its centre of mass"),
    Section(
        "hydroelastic_thin",
        "A ball through a soft sheet's mid-plane",
        (
            Figures(
                (
                    ("reported from a depth of [mm]", "results.overrun_from_m*1e3:.3f"),
                    ("expected from [mm]", "results.expected_from_m*1e3:.3f"),
                )
            ),
        ),
    ),
    Section("hydroelastic_scaling", "Time against the number of faces"),
    Section(
        "hydroelastic_drop",
        "Energy over bounces, error-controlled",
        (
            Figures(
                (
                    ("ball: worst drift of the energy", "results.ball.worst_drift:.1e"),
                    ("dumbbell: worst drift of the energy", "results.dumbbell.worst_drift:.1e"),
                    ("bounces each", "results.bounces"),
                )
            ),
        ),
    ),
    Section(
        "hydroelastic_solver",
        "Residual of the convex solver on every step",
        (
            Listing(
                "results.scenes",
                (
                    ("scene", "scene"),
                    ("scheme", "scheme"),
                    ("steps", "steps"),
                    ("worst residual", "worst_residual:.0e"),
                    ("unsolved", "unsolved"),
                    ("unsettled", "unsettled"),
                ),
            ),
        ),
    ),
)

LCP = (
    Section(
        "lcp_random",
        "Solvers on random frictional LCPs",
        (
            Listing(
                "results.solvers",
                (
                    ("solver", "name"),
                    ("problems", "checked"),
                    ("invalid", "failed"),
                    ("said to be unsolved", "rate(unsolved, checked)"),
                    ("worst residual", "worst:.0e"),
                    ("p50 [µs]", "solve_s.p50*1e6:.0f"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_balls",
        "One ball aims another",
        (
            Figures(
                (
                    ("distance from the target, continuous time [m]", "results.position_error_m:.1e"),
                    ("iterations", "results.iterations"),
                    ("rollouts of Nelder–Mead to the same distance", "results.zeroth_order_rollouts"),
                    ("20 steps and the gradient by start state and controls [µs]", "results.ours_s*1e6:.0f"),
                    ("its error", "results.gradient_error:.1e"),
                    ("Nimble's compiled part, the same [µs]", "results.peer_s*1e6:.0f"),
                    ("its error", "results.peer_gradient_error:.1e"),
                    ("Nimble / ours", "results.ratio:.2f"),
                    ("Nimble's ball, distance from the target [m]", "results.peer_error_m:.1e"),
                    ("balls of 320 triangles, distance [m]", "results.polygon_balls_error_m:.1e"),
                    *_DISTANCES,
                )
            ),
        ),
    ),
    Section(
        "lcp_identify",
        "Friction and restitution from a recorded flight",
        (
            Listing(
                "results.runs",
                (
                    ("noise [mm]", "noise_m*1e3:g"),
                    ("recordings", "recordings"),
                    ("friction, median error", "friction.median:.1e"),
                    ("largest", "friction.worst:.1e"),
                    ("restitution, median error", "restitution.median:.1e"),
                    ("largest", "restitution.worst:.1e"),
                    ("rollouts, median", "rollouts:.0f"),
                    ("Nelder–Mead, largest error", "zeroth_order_error:.1e"),
                    ("rollouts, median", "zeroth_order_rollouts:.0f"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_impacts",
        "Many impacts at one instant",
        (
            Listing(
                "results.runs",
                (
                    ("scene", "name"),
                    ("scenes", "scenes"),
                    ("impacts", "impacts"),
                    ("change of momentum, share", "momentum:.0e"),
                    ("gain of energy in an impact, at most", "energy_gain:.0e"),
                    ("ended by their number", "ended_by_count"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_prisms", "Prisms slide to rest", (Figures((("worst error of a step [m/s]", "results.worst_error_m_s:.1e"), *_DISTANCES)),)
    ),
    Section(
        "lcp_cubes",
        "A cube slides into another",
        (
            Figures(
                (
                    ("friction's error before the impact [m/s]", "results.friction_error_before:.1e"),
                    ("after it [m/s]", "results.friction_error_after:.1e"),
                    ("speed at the end [m/s]", "results.speed_at_end:.1e"),
                    *_DISTANCES,
                )
            ),
        ),
    ),
    Section(
        "lcp_bounce", "Height after an elastic bounce", (Figures((("error of the slope −1", "results.slope_error:.1e"), *_DISTANCES)),)
    ),
    Section(
        "lcp_bowling",
        "A ball into ten pins",
        (Figures((("pins fallen", "results.fallen"), ("energy left [%]", "results.energy_left*100:.1f"), *_DISTANCES)),),
    ),
    Section("lcp_plate", "A gripper lifts plates"),
    trials("palm_delayed", "Turns on the palm, commands 60 ms late", "The planner counts on no delay."),
    trials("palm_delayed_known", "Turns on the palm, commands 60 ms late and known to be", "The planner counts on 60 ms, `command_delay`."),
    Section(
        "identification_recover",
        "Hidden worlds from a minute of recording",
        (
            Figures(
                (
                    ("longest fit [s]", "results.longest_s:.0f"),
                    ("longest fit by mujoco.sysid [s]", "results.sysid.longest_s:.0f"),
                    ("its processor time over ours, median", "results.cpu_ratio:.1f"),
                )
            ),
            Listing("results.unknowns", _FOUND),
            Listing("results.sysid.unknowns", _FOUND),
        ),
        "The first table is ours, the second that of `mujoco.sysid` on the same windows and rollouts.",
    ),
    Section(
        "identification_hidden",
        "Hidden plants before and after a minute of recording",
        (Listing("results.rates", (("planner", "name"), ("succeeded", "rate(succeeded, trials)"))),),
    ),
    Section(
        "lcp_franka",
        "An arm with its meshes lifts plates",
        (
            Listing(
                "results.rows",
                (
                    ("plate [mm]", "plate_m*1e3:g"),
                    ("force [N]", "clamp_n:g"),
                    ("engine", "engine"),
                    ("held", "held"),
                    ("risen [mm]", "risen_m*1e3:.1f"),
                    ("slip [mm]", "slip_m*1e3:.3f"),
                    ("turn [mrad]", "turn_rad*1e3:.3f"),
                    ("worst depth [µm]", "depth_worst_m*1e6:.1f"),
                    ("step [µs]", "step_s*1e6:.0f"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_rest",
        "A box and a stack of five at rest",
        (
            Listing(
                "results.runs",
                (
                    ("scene", "name"),
                    ("steps", "steps"),
                    ("sub-steps per step", "substeps_per_step:.4f"),
                    ("drift [m]", "drift_m:.1e"),
                    ("energy above the start [J]", "energy_gain_J:.1e"),
                    ("step [µs]", "step_s*1e6:.0f"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_overlaps",
        "Bodies that start inside each other",
        (
            Listing(
                "results.runs",
                (
                    ("bodies", "name"),
                    ("scenes", "scenes"),
                    ("parted", "parted"),
                    ("refused by name", "refused"),
                    ("gained energy", "energy"),
                    ("deeper than a push allows", "fell"),
                    ("step refused", "failed"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_palm",
        "The cube on the palm for a minute, lcp alone",
        (
            Listing(
                "results.plants",
                (
                    ("engine", "plant"),
                    ("step [ms]", "dt_s*1e3:g"),
                    ("drift [mm]", "drift_m*1e3:.3g"),
                    ("real time ×", "real_time_factor:.1f"),
                    ("reported", "trouble"),
                    ("reached", "reached"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_sweep",
        "What a gradient costs",
        (
            Listing(
                "results.runs",
                (
                    ("rollout", "name"),
                    ("forward [ms]", "forward_s*1e3:.1f"),
                    ("value and gradient [ms]", "both_s*1e3:.1f"),
                    ("forward passes", "passes:.1f"),
                    ("per step, more than the shortest [%]", "growth*1e2:.0f"),
                    ("largest derivative", "largest:.0e"),
                    ("off the replay", "off_replay:.0e"),
                    ("off differences", "off_differences:.0e"),
                    ("compared by q", "compared_q"),
                    ("by v", "compared_v"),
                    ("by τ", "compared_tau"),
                    ("of", "tried"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_tumble",
        "Boxes that tumble",
        (
            Listing(
                "results.runs",
                (
                    ("step", "name"),
                    ("steps", "steps"),
                    ("sub-steps", "substeps"),
                    ("most in one step", "most_substeps"),
                    ("smallest distance [m]", "intersections.worst:.1e"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_cylinder",
        "Exact cylinders",
        (
            Listing("results.stands", (("stands, step", "name"), ("drift [m]", "drift_m:.1e"), ("reached", "passed"))),
            Listing(
                "results.slope",
                (
                    ("on a slope", "name"),
                    ("closed form [m/s²]", "closed_form_m_s2:.4f"),
                    ("worst error [m/s²]", "worst_error_m_s2:.1e"),
                    ("reached", "passed"),
                ),
            ),
            Listing("results.tumbles", (("tumble, step", "name"), ("most sub-steps", "most_substeps"), ("reached", "passed"))),
        ),
    ),
    Section(
        "lcp_ccd",
        "Times of impact against ipctk and coal",
        (
            Figures(
                (
                    ("impacts", "results.pairs"),
                    ("distance left, largest [m]", "results.distance_left_m.max:.1e"),
                    ("ipctk's bound earlier, largest [share of a step]", "results.library_early.max:.1e"),
                    ("ours, a whole step [ms]", "results.step_s*1e3:.2f"),
                    ("ipctk, all queries of a pair [ms]", "results.library_s*1e3:.0f"),
                )
            ),
        ),
    ),
)

SOFT = (
    Section(
        "soft_speed",
        "A step of the pushed T beside MuJoCo and MJX",
        (
            Listing(
                "results.cases",
                (
                    ("case", "name"),
                    ("compile [s]", "compile_s:.1f"),
                    ("in a scan [µs]", "scan_s.p50*1e6:.1f"),
                    ("MuJoCo / ours", "mujoco_ratio:.2f"),
                    ("MJX / ours", "?mjx_ratio:.1f"),
                    ("called [µs]", "call_s.p50*1e6:.0f"),
                    ("T off MuJoCo's [mm]", "end_difference_m*1e3:.2f"),
                ),
            ),
            Listing(
                "results.peers",
                (
                    ("peer", "name"),
                    ("compile [s]", "compile_s:.1f"),
                    ("in a scan [µs]", "scan_s.p50*1e6:.1f"),
                    ("called [µs]", "call_s.p50*1e6:.0f"),
                ),
            ),
        ),
        "MuJoCo in C is the faster engine on this scene, in double precision; it gives no derivatives.",
    ),
    Section(
        "soft_push",
        "Where the pushed T ends, against MuJoCo",
        (
            Listing(
                "results.cases",
                (
                    ("law", "law"),
                    ("method", "method"),
                    ("points", "points"),
                    ("step [ms]", "step_s*1e3:g"),
                    ("thrown or diverged, of 5", "lost"),
                    ("the paper's [cm]", "?published_m*100:.1f"),
                    ("reached", "?reached"),
                ),
            ),
        ),
    ),
    Section(
        "soft_truncation",
        "Error of patches against the dense formulation",
        (
            Listing(
                "results.cases",
                (
                    ("patch", "patch"),
                    ("places", "places"),
                    ("median, relative", "median:.1e"),
                    ("worst", "worst:.1e"),
                    ("share within 1e-8", '["within_1e-8"]:.2f'),
                ),
            ),
        ),
        "Only the last sizes are exact; patches of 32, those of the times at 4000 points, lose force at inner corners.",
    ),
    Section("soft_memory", "Memory of patches and of the dense formulation"),
    Section(
        "soft_gradient",
        "Value and gradient over the forward time",
        (Listing("results.cases", (("points", "points"), ("ratio", "ratio:.2f"))),),
    ),
    Section("soft_isosurfaces", "Soft distance of a box"),
    Section(
        "soft_force_map",
        "Force between two spheres",
        (
            Figures(
                (
                    ("largest second difference over the largest force, soft", "results.second_difference.soft:.3f"),
                    ("MuJoCo", "results.second_difference.mujoco:.3f"),
                )
            ),
        ),
    ),
    Section("soft_flatness", "Time from one to eight active contacts"),
    Section(
        "soft_derivatives",
        "Derivatives against finite differences",
        (Figures((("states", "results.checked"), ("failed", "results.failed"), ("worst, relative", "results.worst:.1e"))),),
    ),
    Section("soft_growth", "Growth with points and bodies"),
)

PERCEPTION = (
    Section(
        "perception",
        "The object's pose from rendered pictures",
        (
            Listing(
                "results.static",
                (
                    ("camera", "name"),
                    ("two faces, p50 [mm]", "two_faces.position_error_m.p50*1e3:.3f"),
                    ("p95 [mm]", "two_faces.position_error_m.p95*1e3:.3f"),
                    ("one face, p95 [rad]", "one_face.orientation_error_rad.p95:.4f"),
                    ("n", "two_faces.position_error_m.n"),
                    ("time, p99 [ms]", "pose_s.p99*1e3:.1f"),
                ),
            ),
            Figures(
                (
                    ("film: pictures", "results.film.frames"),
                    ("hidden", "results.film.hidden"),
                    ("wrong jumps", "results.film.wrong_jumps"),
                    ("error within its 95 % bound [share]", "results.film.within_bound:.3f"),
                    ("time per picture, p99 [ms]", "results.film.pose_s.p99*1e3:.1f"),
                )
            ),
        ),
    ),
)

SECTIONS: tuple[Section, ...] = (*GRAPH, *BENCH, *CONTACTSDF, *PERCEPTION, *ENGINES, *HYDROELASTIC, *LCP, *SOFT)
"""In the page's order. A result without a section is shown at the end, by the numbers on its top."""
